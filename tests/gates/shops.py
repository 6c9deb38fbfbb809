"""What the tests of whole shops share: a real database, a real Redis before it, and ways to count
what the authority's rows say and how often it was asked at all."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from holdfast import Holdfast
from holdfast.ports import Gate
from holdfast.settings import Settings
from holdfast.upkeep.check import check_event
from holdfast.upkeep.reconcile import Mended, reconcile
from holdfast.wiring import make_gate, make_store
from tests.databases.kinds import DATABASES
from tests.databases.shops import until
from tests.gates.conftest import found


@asynccontextmanager
async def database_url(name: str = "postgres") -> AsyncIterator[str]:
    """The address of an empty database on the server that tests share."""
    database = DATABASES[name]
    server = found(database.shared)
    async with database.empty(server) as url:
        yield url


def gated(url: str, gate: str = "none", *, upkeep: bool = False, **settings: Any) -> Holdfast:
    """A shop as a process would open it, not opened yet."""
    chosen = Settings(store=url, gate=gate, **settings)
    return Holdfast(make_store(chosen), chosen, gate=make_gate(chosen), upkeep=upkeep)


async def transactions(url: str) -> int:
    """How many transactions this PostgreSQL database has ever seen, done or undone, by its own
    statistics. A connection reports its last ones when it ends, so all have to have ended."""
    database = DATABASES["postgres"]
    home = url.rpartition("/")[0] + "/postgres"
    name = url.rpartition("/")[2]
    async with database.sessions(home) as (session,):

        async def alone() -> bool:
            rows = await session.rows(f"SELECT 1 FROM pg_stat_activity WHERE datname = '{name}'")
            return not rows

        await until(alone, "that every connection has ended")
        [(count,)] = await session.rows(
            f"SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = '{name}'"
        )
        return int(count)


class Rows(NamedTuple):
    """What somebody has, by the authority's holds and orders, counted one by one."""

    held: int
    sold: int
    owners: Counter[str]
    """How many have each seat."""
    counted: Counter[str]
    """How many units of each pool somebody has."""

    @property
    def oversold(self) -> list[str]:
        return [seat for seat, owners in self.owners.items() if owners > 1]


async def rows(shop: Holdfast, event: str) -> Rows:
    """Read from the authority itself; and the auditor, who also reads the log, is content."""
    checked = await check_event(shop.store, event)
    assert checked is not None
    assert checked.drift == []
    census = await shop.store.census(event)
    assert census is not None
    holds = [hold for hold in census.holds if hold.live(census.now)]
    orders = [order for order in census.orders if order.sold]
    owners: Counter[str] = Counter()
    counted: Counter[str] = Counter()
    units = [(hold.seats, hold.pools) for hold in holds]
    units += [(order.seats, order.pools) for order in orders]
    for seats, pools in units:
        owners.update(seats)
        counted.update(pools)
    for pool in census.pools:
        assert counted[pool.id] <= pool.capacity, pool
    return Rows(
        sum(len(hold.seats) + sum(hold.pools.values()) for hold in holds),
        sum(len(order.seats) + sum(order.pools.values()) for order in orders),
        owners,
        counted,
    )


async def compared(shop: Holdfast, event: str) -> Mended:
    """Where the gate differs from the authority; nothing is mended."""
    differences = await reconcile(shop.store, gate_of(shop), event, mend=False)
    assert differences is not None
    return differences


def gate_of(shop: Holdfast) -> Gate:
    assert shop.gate is not None
    return shop.gate
