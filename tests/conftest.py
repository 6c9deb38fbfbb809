"""One clock that tests set, and one fixture over every store: each test runs on all of them."""

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import pytest

from holdfast.engine import Holdfast
from holdfast.gates.memory import MemoryGate
from holdfast.ports import Gate, Store
from holdfast.settings import Settings
from holdfast.upkeep.check import check_store
from holdfast.wiring import make_store
from tests import services
from tests.servers import (
    MariaDB,
    MissingServer,
    Postgres,
    Redis,
    Server,
    own_server,
    running,
    stop_running,
)

if TYPE_CHECKING:
    from _pytest.mark.structures import ParameterSet

    from tests.fresh import Lines

T = TypeVar("T")
S = TypeVar("S", bound=Server)

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


def make_memory(folder: Path, clock: Clock, lines: "Lines | None" = None) -> Store:
    return make_store(Settings(store="memory://"), clock)


def make_sqlite(folder: Path, clock: Clock, lines: "Lines | None" = None) -> Store:
    # NORMAL: a test has no power to lose, and a flush is the slowest thing a laptop's disk does.
    url = f"sqlite:///{folder / 'shop.db'}"
    return make_store(Settings(store=url, sqlite_synchronous="NORMAL"), clock)


def make_postgres(folder: Path, clock: Clock, lines: "Lines | None" = None) -> Store:
    from tests.fresh import FreshPostgres

    # One server for all tests of a worker. It has no power to lose either.
    server = running(Postgres, fsync="off", full_page_writes="off")
    return FreshPostgres(server.url, Settings(store=server.url), clock, lines)


def make_mysql(folder: Path, clock: Clock, lines: "Lines | None" = None) -> Store:
    from tests.fresh import FreshMysql

    server = running(MariaDB, innodb_flush_log_at_trx_commit="0", innodb_doublewrite="OFF")
    return FreshMysql(server.url, Settings(store=server.url), clock, lines)


STORES: dict[str, Callable[..., Store]] = {
    "memory": make_memory,
    "sqlite": make_sqlite,
    "postgres": make_postgres,
    "mysql": make_mysql,
}
SERVERS = ("postgres", "mysql")


def marks(store: str) -> tuple[pytest.MarkDecorator, ...]:
    """Of a test that runs on that store."""
    return (pytest.mark.service,) if store in SERVERS else ()


EVERY_STORE = [pytest.param(name, marks=marks(name)) for name in STORES]


def needed(make: Callable[[], T]) -> T:
    """A store whose server the machine may lack: then its tests are skipped, but not in CI."""
    try:
        return make()
    except MissingServer as missing:
        if services.strict():
            raise
        pytest.skip(str(missing))


@contextlib.contextmanager
def needed_server(kind: type[S], **settings: str) -> Iterator[S]:
    """One of the test's own, which the machine may lack as well."""
    with contextlib.ExitStack() as stack:
        yield needed(lambda: stack.enter_context(own_server(kind, **settings)))


def pytest_collection_modifyitems(config, items) -> None:
    """What a test says of some policies only is not run under the others."""
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        mark = item.get_closest_marker("policies")
        setup = item.callspec.params.get("setup") if hasattr(item, "callspec") else None
        (left if mark and setup and setup.policy not in mark.args else kept).append(item)
        if setup and item.path.parent.name == "contract":
            # Handed out by the hundred: one by one, pytest-xdist looks through all that it has
            # handed out before, each time.
            item.add_marker(pytest.mark.xdist_group(f"{item.path.stem}-{setup}"))
    # The longest first, so that no worker is left alone with one of them in the end.
    items[:] = sorted(kept, key=lambda item: item.path.parent.name != "simulation")
    config.hook.pytest_deselected(items=left)


def pytest_sessionfinish() -> None:
    stop_running()


def pytest_terminal_summary(terminalreporter) -> None:
    terminalreporter.section("services")
    for line in services.table():
        terminalreporter.write_line(line)


@pytest.fixture
def clock() -> Clock:
    return Clock()


class Setup(NamedTuple):
    """A store, and what stands before it."""

    store: str
    policy: str = "authority"
    gate: str = "none"

    def __str__(self) -> str:
        return "-".join(self[:1] if self.policy == "authority" else self)


PLAIN = [Setup(name) for name in STORES]
COVERING = [
    Setup("memory", "two-layer", "redis"),
    Setup("memory", "gate", "memory"),
    Setup("postgres", "gate", "redis"),
]
"""Each policy, each gate, and a server; the rest is in the soak."""
REST = [
    Setup(store, policy, gate)
    for store in STORES
    for policy in ("two-layer", "gate")
    for gate in ("memory", "redis")
    if (store, policy, gate) not in COVERING
]


def marked(setup: Setup, *marks: pytest.MarkDecorator) -> "ParameterSet":
    if setup.store in SERVERS or setup.gate == "redis":
        marks = (*marks, pytest.mark.service)
    return pytest.param(setup, marks=marks, id=str(setup))


USUAL = [
    *(marked(setup) for setup in PLAIN),
    *(marked(setup, pytest.mark.slow) for setup in COVERING),
]
EVERY_SETUP = [*USUAL, *(marked(setup, pytest.mark.soak) for setup in REST)]


def pytest_generate_tests(metafunc) -> None:
    """Each test that asks for a shop gets one of every setup. Those of the soak are twice as many
    as all the others, and only to leave them out again would take seconds of every run."""
    named = {mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")}
    if "setup" in metafunc.fixturenames and "setup" not in named:
        soak = "not soak" not in metafunc.config.option.markexpr
        metafunc.parametrize("setup", EVERY_SETUP if soak else USUAL, indirect=True)


@pytest.fixture
def setup(request) -> Setup:
    chosen: Setup = request.param
    return chosen


@pytest.fixture(scope="session")
async def lines():
    """Open connections to the servers, which the stores of a worker's tests hand on."""
    from tests.fresh import Lines

    kept = Lines()
    yield kept
    await kept.close()


@pytest.fixture(scope="session")
async def empty_file(tmp_path_factory) -> Path:
    """A SQLite file with nothing in it but the schema."""
    folder = tmp_path_factory.mktemp("empty")
    store = make_sqlite(folder, Clock())
    await store.open()
    await store.close()
    return Path(folder / "shop.db")


@pytest.fixture
def store(request, setup, clock) -> Store:
    """Made, not opened: `shop` opens it."""
    # Asked for only where they are used: thousands of tests need neither folder nor server.
    folder, lines = Path(), None
    if setup.store == "sqlite":
        folder = request.getfixturevalue("tmp_path")
        shutil.copyfile(request.getfixturevalue("empty_file"), folder / "shop.db")
    elif setup.store in SERVERS:
        lines = request.getfixturevalue("lines")
    return needed(lambda: STORES[setup.store](folder, clock, lines))


def make_gate(name: str, clock: Clock) -> Gate | None:
    """On the test's own clock, as the store is."""
    if name == "memory":
        return MemoryGate(clock)
    if name == "redis":
        from holdfast.gates.redis import RedisGate

        server = running(Redis)
        return RedisGate(server.url, timeout_ms=2_000, clock=clock)
    return None


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    """A server of the test's own, durable, to be killed and frozen."""
    with own_server(Postgres) as server:
        yield server


@pytest.fixture
async def shop(store, setup, clock):
    """An engine on the store. Whatever a test did, the auditor finds nothing wrong afterwards."""
    settings = Settings(store=store.url, policy=setup.policy, gate=setup.gate)
    gate = needed(lambda: make_gate(setup.gate, clock))
    async with Holdfast(store, settings, gate=gate, upkeep=False, clock=clock) as shop:
        if gate is not None:
            for event in await gate.events():
                await gate.clear(event)
        yield shop
        assert await drift(store) == []


async def drift(store: Store) -> list[str]:
    """What the auditor has to say about every event."""
    return [str(found) async for checked in check_store(store) for found in checked.drift]
