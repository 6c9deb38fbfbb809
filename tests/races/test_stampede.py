"""Everybody wants the same seat. The control shows that the crowd is a real one: without the
guard, the same stampede sells seats twice."""

from collections.abc import Sequence

import pytest

from holdfast.domain.batch import run
from holdfast.domain.commands import Command
from holdfast.domain.outcomes import Answer
from holdfast.domain.shelf import Shelf
from holdfast.engine import Holdfast
from holdfast.lab.stampede import count, house, stampede
from holdfast.ports import Committed, nothing
from holdfast.settings import Settings
from holdfast.stores import drive
from holdfast.stores.memory import MemoryStore


class NaiveStore(MemoryStore):
    """Reads first and writes after: each command of a batch is decided on what was read before
    the batch, as when every click has its own transaction and no lock."""

    async def apply(
        self, commands: Sequence[Command], committed: Committed = nothing
    ) -> list[Answer]:
        answers: list[Answer] = []
        shelves: list[Shelf] = []
        rows = self._events.get(commands[0].event)
        now = self._clock()
        if rows is None:
            return await super().apply(commands)
        for command in commands:
            shelf = Shelf(command.event, rows.event)
            answers += drive(run(shelf, [command]), lambda want: rows.fetch(want, now))
            shelves.append(shelf)
        for shelf in shelves:
            if shelf.changed:
                rows.write(shelf, now)
        return answers


@pytest.mark.parametrize(("buyers", "seats"), [(1000, 1), (500, 5), (3000, 50)])
async def test_a_stampede_sells_each_seat_once(shop, buyers, seats):
    await shop.create_event(house("rush", seats))
    tally = await stampede(shop, "rush", range(buyers), seats)
    found = await count(shop.store, "rush", seats)
    assert (found.sold, found.oversold) == (seats, 0)
    assert (tally.sold, tally.rejected, tally.errors) == (seats, buyers - seats, {})


@pytest.mark.parametrize(("buyers", "seats"), [(1000, 1), (500, 5)])
async def test_without_the_guard_the_same_stampede_oversells(buyers, seats):
    async with Holdfast(NaiveStore(), Settings(store="memory://"), upkeep=False) as shop:
        await shop.create_event(house("rush", seats))
        await stampede(shop, "rush", range(buyers), seats)
        found = await count(shop.store, "rush", seats)
    assert found.sold > seats
    assert found.oversold > 0


async def test_a_pool_is_never_overdrawn(shop):
    pool = {"id": "floor", "capacity": 100, "tier": "floor"}
    await shop.create_event({"id": "rush", "prices": {"floor": 100}, "pools": [pool]})
    import asyncio

    asks = (shop.sell("rush", buyer=f"u{n}", pools={"floor": 3}) for n in range(500))
    await asyncio.gather(*asks)
    summary = await shop.event("rush")
    assert (summary.sold, summary.available) == (99, 1)
