"""Everybody locks in one order, so nobody waits for somebody who waits for him."""

import asyncio
from collections import Counter
from typing import Any

import msgspec
import pytest

from tests.contract.helpers import said
from tests.databases.mixer import EVENT, Told
from tests.databases.shops import E1, audited, held, over, plan, run_helpers, somebody_waits, until

pytestmark = [pytest.mark.service, pytest.mark.slow]

PROCESSES = 4
EVERY_ANSWER = {
    *("placed", "extended", "paying", "confirmed", "released", "cancelled", "expired"),
    *("no.taken", "no.sold_out", "no.insufficient", "no.not_together", "no.buyer_cap"),
    *("no.expired", "no.released", "no.confirmed"),
}
"""What a mix must have met, or it mixed too little to show anything."""


@pytest.mark.parametrize("seconds", [5, pytest.param(60, marks=pytest.mark.soak)])
async def test_random_baskets_from_four_processes_never_deadlock(database, url, session, seconds):
    async with audited(url) as shop:
        await shop.create_event(EVENT)
        before = await database.deadlocks(session)
        asked = [(seconds, url, f"p{n}") for n in range(PROCESSES)]
        lines = await run_helpers("mixer", asked)
        after = await database.deadlocks(session)
        told = [msgspec.json.decode(line, type=Told) for line in lines]
    answers: Counter[str] = Counter()
    for each in told:
        answers.update(each.answers)
    assert answers.keys() >= EVERY_ANSWER, answers
    assert after == before, f"{after - before} deadlocks in {answers.total()} answers"
    assert [each.errors for each in told] == [{}] * PROCESSES


@pytest.mark.parametrize("how", ["best", "pools"])
async def test_two_batches_that_take_the_same_dead_holds_apart_do_not_deadlock(
    database, url, session, watcher, how
):
    """Each names a seat of one dead hold, and is given what the other dead hold had besides."""
    sections = [{"id": id, "tier": "seat", "rows": 1, "seats_per_row": 1} for id in "STUV"]
    pools = [{"id": id, "capacity": 1, "tier": "seat"} for id in "TV"]
    async with audited(url) as one, audited(url) as two:
        await one.create_event(plan(sections=sections, pools=pools, hold_seconds=1))
        first = await held(one, seats=["S-1-1", "T-1-1"], pools={"T": 1})
        second = await held(one, seats=["U-1-1", "V-1-1"], pools={"V": 1})
        await until(lambda: over(one, first.id, second.id), "that the holds are over")
        before = await database.deadlocks(watcher)
        # Both have locked what they named, and look for their ids next.
        await database.lock_table(session, "commands")
        asks = asyncio.gather(
            one.place_hold(E1, buyer="bob", seats=["S-1-1"], id="one", **besides(how, "V")),
            two.place_hold(E1, buyer="cat", seats=["U-1-1"], id="two", **besides(how, "T")),
        )
        await somebody_waits(database, watcher, 2)
        await database.unlock_table(session)
        assert [said(outcome) for outcome in await asks] == ["placed", "placed"]
    assert await database.deadlocks(watcher) == before


def besides(how: str, where: str) -> dict[str, Any]:
    return {"pools": {where: 1}} if how == "pools" else {"best": {"quantity": 1, "section": where}}


async def test_the_servers_statistics_count_a_deadlock(database, url, session):
    """The control: two sessions that lock in opposite orders."""
    await session.execute("CREATE TABLE pair (id INTEGER PRIMARY KEY, n INTEGER NOT NULL)")
    await session.execute("INSERT INTO pair VALUES (1, 0), (2, 0)")
    before = await database.deadlocks(session)
    async with database.sessions(url, 2) as (one, two):
        await one.execute("BEGIN")
        await two.execute("BEGIN")
        await one.execute("UPDATE pair SET n = 1 WHERE id = 1")
        await two.execute("UPDATE pair SET n = 1 WHERE id = 2")
        ends = await asyncio.gather(
            one.execute("UPDATE pair SET n = 2 WHERE id = 2"),
            two.execute("UPDATE pair SET n = 2 WHERE id = 1"),
            return_exceptions=True,
        )
        assert sum(isinstance(end, Exception) for end in ends) == 1
        await one.execute("ROLLBACK")
        await two.execute("ROLLBACK")

    async def counted() -> bool:
        return bool(await database.deadlocks(session) == before + 1)

    await until(counted, "that the deadlock is counted")
