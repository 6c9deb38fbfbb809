"""Where the lab compares: at the addresses that were given, else on private servers, started from
the binaries that the machine has and gone with everything in them afterwards."""

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from holdfast.lab.servers import (
    MariaDB,
    MissingServer,
    Postgres,
    Redis,
    server_folder,
    started,
)

ON_DISK = Path("/var/tmp")
"""Not where temporary files go: that may be memory, and every flush would look free."""
TOLD_CHARS = 200
"""Of what a server that did not start said last."""
DRIVERS = {Postgres: ("asyncpg", "postgres"), MariaDB: ("aiomysql", "mysql"), Redis: ("redis",) * 2}
Private = Postgres | MariaDB | Redis


class Places(msgspec.Struct, frozen=True):
    stores: tuple[str, ...]
    redis: str | None
    missing: dict[str, str]
    """Why there is none of these: postgresql, mariadb, redis."""


@contextmanager
def places(
    stores: Sequence[str], redis: str | None, *, needs_redis: bool, say: Callable[[str], None]
) -> Iterator[Places]:
    """Addresses that can be used for as long as the context lasts."""
    with ExitStack() as stack:
        found: dict[str, str] = {}
        missing: dict[str, str] = {}

        def start(name: str, kind: type[Private]) -> None:
            say(f"starting {kind.name}")
            try:
                found[name] = _start(stack, kind)
            except MissingServer as lacking:
                missing[name] = f"not installed here: {lacking}"
            except (RuntimeError, OSError) as trouble:
                missing[name] = f"it did not start: {' '.join(str(trouble).split())[-TOLD_CHARS:]}"

        if not stores:
            start("postgresql", Postgres)
            start("mariadb", MariaDB)
            folder = stack.enter_context(server_folder(on_disk()))
            found["sqlite"] = f"sqlite:///{folder / 'lab.db'}"
            stores = tuple(found.values())
        if redis is None and needs_redis:
            start("redis", Redis)
            redis = found.get("redis")
        yield Places(tuple(stores), redis, missing)


def _start(stack: ExitStack, kind: type[Private]) -> str:
    driver, extra = DRIVERS[kind]
    if importlib.util.find_spec(driver) is None:
        raise MissingServer(f"{kind.name}'s driver: pip install 'holdfast[{extra}]'")
    with ExitStack() as starting:
        folder = starting.enter_context(server_folder(on_disk()))
        server = kind(folder, **kind.sized)
        starting.enter_context(started(server))
        stack.push(starting.pop_all())
    return server.url


def on_disk() -> Path | None:
    return ON_DISK if ON_DISK.is_dir() else None
