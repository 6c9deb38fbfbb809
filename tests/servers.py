"""Real servers for the tests: on free loopback ports, with data folders of their own, so that they
can be killed, frozen and started again. None is used that was not started here. Those that the lab
starts as well are in holdfast.lab.servers."""

import contextlib
import os
import shutil
import socket
import struct
import sysconfig
from pathlib import Path
from typing import TypeVar
from xml.etree import ElementTree

from holdfast.lab import servers
from holdfast.lab.servers import (
    MissingServer,
    Redis,
    Server,
    as_user,
    family,
    found_program,
    free_port,
    output,
    own_server,
    postgres_bin,
    redis_program,
    redis_version,
    run,
    server_folder,
)

__all__ = [
    "KAFKA_POM",
    "NO_JAVA",
    "Kafka",
    "MariaDB",
    "MissingServer",
    "Nats",
    "Postgres",
    "Redis",
    "Server",
    "as_user",
    "cache",
    "family",
    "found_program",
    "free_port",
    "java_version",
    "kafka_folder",
    "kafka_version",
    "nats_version",
    "output",
    "own_server",
    "postgres_bin",
    "redis_program",
    "redis_version",
    "running",
    "server_folder",
    "stop_running",
]

NO_NATS = "NATS: apt-get install nats-server"
NO_JAVA = "Java 17 or newer: apt-get install default-jre-headless"
KAFKA_POM = Path(__file__).parent / "kafka" / "pom.xml"

S = TypeVar("S", bound=Server)


class Pristine(Server):
    """Tests start many servers: each data folder is a copy of the first that this worker made,
    which takes a tenth of the time of making one."""

    def make_data(self) -> None:
        data = self.folder / "data"
        if data.exists():
            return
        kind = type(self)
        if kind not in _pristine:
            with contextlib.ExitStack() as stack:
                first = stack.enter_context(server_folder()) / "data"
                self.initialize(first)
                _pristine[kind] = (stack.pop_all(), first)
        run(["cp", "-a", str(_pristine[kind][1]), str(data)])


class Postgres(Pristine, servers.Postgres):
    pass


class MariaDB(Pristine, servers.MariaDB):
    pass


class Nats(Server):
    """With JetStream, whose streams are on disk."""

    name = "NATS"

    def __init__(self, folder: Path, **settings: str) -> None:
        super().__init__(folder, **settings)
        self.program = nats_program()
        self.version = nats_version()

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        options = {
            "addr": "127.0.0.1",
            "port": str(self.port),
            "store_dir": str(self.folder / "data"),
            **self.settings,
        }
        return [self.program, "--jetstream", *(f"--{k}={v}" for k, v in options.items())]

    def answers(self) -> bool:
        """The server speaks first, and listens only once its streams are read."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as line:
                line.settimeout(1)
                return line.recv(4) == b"INFO"
        except OSError:
            return False


def nats_program() -> str:
    with contextlib.suppress(MissingServer):
        return found_program("nats-server", NO_NATS)
    if found := shutil.which("nats-server", path=sysconfig.get_path("scripts")):
        return found
    raise MissingServer(NO_NATS)


def nats_version() -> str:
    """`nats-server: v2.9.10`"""
    return output([nats_program(), "--version"]).split()[-1].removeprefix("v")


class Kafka(Pristine):
    """One broker that is also its own controller."""

    name = "Kafka"

    def __init__(self, folder: Path, **settings: str) -> None:
        super().__init__(folder, **settings)
        self.version = kafka_version()
        self.jars = kafka_jars()
        self.java = found_program("java", NO_JAVA)
        self.controller_port = free_port()
        self.make_data()
        self.write_settings(folder)

    def initialize(self, data: Path) -> None:
        settings = self.write_settings(data.parent)
        cluster = "holdfast-for-tests-all"  # 22 characters: a UUID in Base64
        tool = ("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(settings))
        run(self.run_java(data.parent, *tool))

    def write_settings(self, folder: Path) -> Path:
        """Of a server whose data are in that folder."""
        broker, controller = f"127.0.0.1:{self.port}", f"127.0.0.1:{self.controller_port}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"PLAINTEXT://{broker},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{broker}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@{controller}",
            "log.dirs": str(folder / "data"),
            "auto.create.topics.enable": "false",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            # The controller lets a broker in again only when the session of the killed one is over.
            "broker.session.timeout.ms": "2000",
            "broker.heartbeat.interval.ms": "200",
            "num.network.threads": "2",
            "num.io.threads": "2",
            "log.cleaner.dedupe.buffer.size": "4194304",
            **self.settings,
        }
        path = folder / "server.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return path

    @property
    def url(self) -> str:
        return f"kafka://127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        return self.run_java(self.folder, "kafka.Kafka", str(self.folder / "server.properties"))

    def run_java(self, folder: Path, *program: str) -> list[str]:
        """Set for a short life: it is the start that costs."""
        return [
            *(self.java, "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *("-XX:-UsePerfData", f"-Djava.io.tmpdir={folder}"),
            *("-cp", f"{self.jars}/*", *program),
        ]

    def answers(self) -> bool:
        """It listens before it serves: asked for the brokers, it must name one, which is itself."""
        ask = struct.pack(">hhihi", 3, 1, 0, -1, 0)  # Metadata, version 1, of no topic
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as line:
                line.settimeout(1)
                line.sendall(struct.pack(">i", len(ask)) + ask)
                return len(said := line.recv(12)) == 12 and struct.unpack(">iii", said)[2] == 1
        except OSError:
            return False


def kafka_version() -> str:
    """The one that the tests are written for; raises MissingServer without its jars or Java."""
    java_version()
    kafka_jars()
    return pinned_kafka()


def pinned_kafka() -> str:
    version = ElementTree.parse(KAFKA_POM).findtext("{*}version")
    assert version is not None
    return version


def kafka_folder() -> Path:
    return cache() / f"kafka-{pinned_kafka()}"


def kafka_jars() -> Path:
    if (folder := kafka_folder()).is_dir():
        return folder
    raise MissingServer("Kafka: make services, which fetches it with Maven (apt-get install maven)")


def java_version() -> str:
    """`openjdk 17.0.15 2025-04-15`"""
    version = output([found_program("java", NO_JAVA), "--version"]).split()[1]
    if int(version.partition(".")[0]) < 17:
        raise MissingServer(f"{NO_JAVA}, not {version}")
    return version


def cache() -> Path:
    """What is fetched once for every checkout. Root's home is closed to those who run servers."""
    if os.getuid() == 0:
        return Path("/var/cache/holdfast")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "holdfast"


_running: dict[type[Server], tuple[contextlib.ExitStack, Server]] = {}
_pristine: dict[type[Server], tuple[contextlib.ExitStack, Path]] = {}
"""Data folders in which no server has run yet."""


def running(kind: type[S], **settings: str) -> S:
    """The server of that kind that all tests of this worker share, started when first needed."""
    if kind not in _running:
        with contextlib.ExitStack() as stack:
            server = stack.enter_context(own_server(kind, **settings))
            _running[kind] = (stack.pop_all(), server)
    found = _running[kind][1]
    assert isinstance(found, kind)
    return found


def stop_running() -> None:
    while _running:
        _running.popitem()[1][0].close()
    while _pristine:
        _pristine.popitem()[1][0].close()
