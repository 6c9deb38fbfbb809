"""What these tests share: an event, shops on an address, and ways to wait and to compare."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from holdfast import Confirmed, Hold, Holdfast, Order, Placed
from holdfast.domain.model import HoldState
from holdfast.settings import Settings
from holdfast.stores import Clock, host_clock
from holdfast.wiring import make_store
from tests.conftest import drift
from tests.databases.kinds import Database, Session

E1 = "e1"
ROOT = Path(__file__).parents[2]
CONDITION_SECONDS = 20.0
"""What is awaited happens at once; this only ends a test in which it never will."""


def plan(rows: int = 4, width: int = 10, stock: int = 100, **changes: Any) -> dict[str, Any]:
    """One section A of so many rows, and a pool."""
    return {
        "id": E1,
        "prices": {"seat": 100, "floor": 50},
        "sections": [{"id": "A", "tier": "seat", "rows": rows, "seats_per_row": width}],
        "pools": [{"id": "floor", "capacity": stock}],
    } | changes


def shop_at(
    url: str, clock: Clock = host_clock, *, upkeep: bool = False, **settings: Any
) -> Holdfast:
    """A shop as another process would open it, not opened yet."""
    chosen = Settings(store=url, **settings)
    return Holdfast(make_store(chosen, clock), chosen, upkeep=upkeep)


@asynccontextmanager
async def audited(url: str, clock: Clock = host_clock, **settings: Any) -> AsyncIterator[Holdfast]:
    """A shop in which the auditor finds nothing wrong afterwards."""
    async with shop_at(url, clock, **settings) as shop:
        yield shop
        assert await drift(shop.store) == []


@asynccontextmanager
async def selling(
    url: str, *, clock: Clock = host_clock, **changes: Any
) -> AsyncIterator[Holdfast]:
    """An audited shop that sells an event; what `plan` does not know is a setting of the shop."""
    known = Settings.__struct_fields__
    settings = {name: changes.pop(name) for name in known if name in changes}
    async with audited(url, clock, **settings) as shop:
        await shop.create_event(plan(**changes))
        yield shop


async def held(shop: Holdfast, buyer: str = "ann", **ask: Any) -> Hold:
    placed = await shop.place_hold(E1, buyer=buyer, **ask)
    assert isinstance(placed, Placed), placed
    return placed.hold


async def sold(shop: Holdfast, buyer: str = "ann", **ask: Any) -> Order:
    confirmed = await shop.sell(E1, buyer=buyer, **ask)
    assert isinstance(confirmed, Confirmed), confirmed
    return confirmed.order


async def until(condition: Callable[[], Awaitable[Any]], what: str = "the condition") -> None:
    """Waits for a condition, with an end."""
    last = time.monotonic() + CONDITION_SECONDS
    while not await condition():
        assert time.monotonic() < last, f"{what} did not come true in {CONDITION_SECONDS:g} s"
        await asyncio.sleep(0.005)


async def somebody_waits(database: Database, watcher: Session, count: int = 1) -> None:
    """Returns when so many transactions wait for a lock."""

    async def enough() -> bool:
        return await database.waiting(watcher) >= count

    await until(enough, f"that {count} wait for a lock")


async def over(shop: Holdfast, *holds: str) -> bool:
    """Whether the holds are past their deadline, announced or not."""
    found = [await shop.hold(hold) for hold in holds]
    return all(hold is not None and hold.state is HoldState.EXPIRED for hold in found)


async def lock_seats(database: Database, session: Session, where: str = "TRUE") -> int:
    """Locks seats as a rival's batch would, until the session ends its transaction."""
    await session.execute("BEGIN")
    table = database.table("seats")
    found = await session.rows(
        f"SELECT id FROM {table} WHERE event = '{E1}' AND ({where}) ORDER BY id FOR UPDATE"
    )
    return len(found)


async def lock_holds(database: Database, session: Session, id: str) -> int:
    """Locks a hold, likewise."""
    await session.execute("BEGIN")
    table = database.table("holds")
    found = await session.rows(
        f"SELECT id FROM {table} WHERE event = '{E1}' AND id = '{id}' FOR UPDATE"
    )
    return len(found)


async def count_rows(database: Database, session: Session, table: str, where: str = "TRUE") -> int:
    [(count,)] = await session.rows(f"SELECT COUNT(*) FROM {database.table(table)} WHERE {where}")
    return int(count)


class Helper:
    """A process of the tests' own: `python -m tests.databases.<module> ...`. It says `ready`, is
    told to go, and ends with a last line on stdout."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        assert process.stdout is not None
        assert process.stdin is not None
        self.stdout, self.stdin = process.stdout, process.stdin

    async def ready(self) -> None:
        said = await self.stdout.readline()
        if said != b"ready\n":
            _, stderr = await self.process.communicate()
            raise AssertionError(f"a helper said {said!r}: {stderr.decode()}")

    def go(self) -> None:
        self.stdin.write(b"go\n")

    async def last_line(self) -> bytes:
        stdout, stderr = await self.process.communicate()
        assert self.process.returncode == 0, stderr.decode()
        return stdout.strip().rpartition(b"\n")[2]


@asynccontextmanager
async def helpers(
    module: str, argument_lists: Sequence[Sequence[object]]
) -> AsyncIterator[list[Helper]]:
    """Processes that are all ready; none of them is left afterwards."""
    started: list[Helper] = []
    try:
        for arguments in argument_lists:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", f"tests.databases.{module}", *map(str, arguments)),
                cwd=ROOT,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            started.append(Helper(process))
        for helper in started:
            await helper.ready()
        yield started
    finally:
        for helper in started:
            if helper.process.returncode is None:
                helper.process.kill()
            await helper.process.communicate()


async def run_helpers(module: str, argument_lists: Sequence[Sequence[object]]) -> list[bytes]:
    """Lets processes go at the same moment; returns the last line of each."""
    async with helpers(module, argument_lists) as started:
        for helper in started:
            helper.go()
        return list(await asyncio.gather(*(helper.last_line() for helper in started)))
