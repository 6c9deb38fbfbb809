"""One clock that tests set, and one fixture over every store: each test runs on all of them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.engine import Holdfast
from holdfast.ports import Store
from holdfast.settings import Settings
from holdfast.upkeep.check import check_store
from holdfast.wiring import make_store
from tests import services
from tests.servers import MariaDB, MissingServer, Postgres, own_server, running, stop_running

START_MS = 1_790_000_000_000


class Clock:
    """The authority's clock, moved by hand: no test sleeps."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms

    def advance(self, ms: int) -> None:
        self.now_ms += ms

    def move_to(self, at_ms: int) -> None:
        self.now_ms = at_ms


def make_memory(folder: Path, clock: Clock) -> Store:
    return make_store(Settings(store="memory://"), clock)


def make_sqlite(folder: Path, clock: Clock) -> Store:
    # NORMAL: a test has no power to lose, and a flush is the slowest thing a laptop's disk does.
    url = f"sqlite:///{folder / 'shop.db'}"
    return make_store(Settings(store=url, sqlite_synchronous="NORMAL"), clock)


def make_postgres(folder: Path, clock: Clock) -> Store:
    from tests.fresh import FreshPostgres

    # One server for all tests of a worker. It has no power to lose either.
    server = running(Postgres, fsync="off", full_page_writes="off")
    return FreshPostgres(server.url, Settings(store=server.url), clock)


def make_mysql(folder: Path, clock: Clock) -> Store:
    from tests.fresh import FreshMysql

    server = running(MariaDB, innodb_flush_log_at_trx_commit="0", innodb_doublewrite="OFF")
    return FreshMysql(server.url, Settings(store=server.url), clock)


STORES: dict[str, Callable[[Path, Clock], Store]] = {
    "memory": make_memory,
    "sqlite": make_sqlite,
    "postgres": make_postgres,
    "mysql": make_mysql,
}
SERVERS = ("postgres", "mysql")
EVERY_STORE = [
    pytest.param(name, marks=pytest.mark.service if name in SERVERS else ()) for name in STORES
]


def needed(make: Callable[[], Store]) -> Store:
    """A store whose server the machine may lack: then its tests are skipped, but not in CI."""
    try:
        return make()
    except MissingServer as missing:
        if services.strict():
            raise
        pytest.skip(str(missing))


def pytest_sessionfinish() -> None:
    stop_running()


def pytest_terminal_summary(terminalreporter) -> None:
    terminalreporter.section("services")
    for line in services.table():
        terminalreporter.write_line(line)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=EVERY_STORE)
def store(request, tmp_path, clock) -> Store:
    """Made, not opened: `shop` opens it."""
    return needed(lambda: STORES[request.param](tmp_path, clock))


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    """A server of the test's own, durable, to be killed and frozen."""
    with own_server(Postgres) as server:
        yield server


@pytest.fixture
async def shop(store):
    """An engine on the store. Whatever a test did, the auditor finds nothing wrong afterwards."""
    async with Holdfast(store, Settings(store=store.url), upkeep=False) as shop:
        yield shop
        assert await drift(store) == []


async def drift(store: Store) -> list[str]:
    """What the auditor has to say about every event."""
    return [str(found) async for checked in check_store(store) for found in checked.drift]
