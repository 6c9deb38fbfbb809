"""Pruning: the oldest facts of a log go, its last one never does, and what is left is as it was."""

import asyncio

import pytest

from holdfast.upkeep.pruned import note_pruned
from tests.contract.helpers import E1, held, log, on_sale

pytestmark = pytest.mark.policies("authority")

FACTS = 11


@pytest.fixture
async def shop(shop):
    """With 11 facts on the log: the event, and ten holds."""
    await on_sale(shop)
    for n in range(FACTS - 1):
        await held(shop, buyer=f"b{n}", pools={"floor": 1})
    for event in (E1, "e2"):
        # As the pruner does: else the auditor would say that facts were lost.
        await note_pruned(shop.store, event, 1_000)
    return shop


async def left(shop, after: int = 0, limit: int = 1_000) -> list[int]:
    return [entry.seq for entry in await shop.store.log(E1, after, limit)]


async def test_the_oldest_facts_go_and_the_rest_is_as_it_was(shop):
    before = await log(shop)
    assert await shop.store.prune(E1, through=4, limit=100) == 4
    assert await shop.store.log(E1, 0, 100) == before[4:]
    assert await shop.store.tails({E1: 0}, 100) == before[4:]
    assert await shop.store.heads() == {E1: FACTS}


@pytest.mark.parametrize(("after", "limit"), [(0, 3), (4, 3), (5, 3), (9, 100), (11, 5)])
async def test_a_page_of_what_is_left_begins_where_it_was_asked_for(shop, after, limit):
    await shop.store.prune(E1, through=4, limit=100)
    expected = [seq for seq in range(5, FACTS + 1) if seq > after][:limit]
    assert await left(shop, after, limit) == expected


async def test_no_more_go_than_the_limit_says(shop):
    taken = [await shop.store.prune(E1, through=7, limit=3) for _ in range(4)]
    assert taken == [3, 3, 1, 0]
    assert await left(shop) == [8, 9, 10, 11]


@pytest.mark.parametrize("through", [FACTS - 1, FACTS, FACTS + 100])
async def test_the_last_fact_stays(shop, through):
    assert await shop.store.prune(E1, through, limit=1_000) == FACTS - 1
    assert await left(shop) == [FACTS]
    assert await shop.store.prune(E1, through, limit=1_000) == 0


@pytest.mark.parametrize(("through", "limit"), [(0, 10), (-5, 10), (5, 0)])
async def test_nothing_to_prune_prunes_nothing(shop, through, limit):
    assert await shop.store.prune(E1, through, limit) == 0
    assert len(await left(shop)) == FACTS


async def test_an_event_that_is_not_there_has_nothing_to_prune(shop):
    assert await shop.store.prune("none", 5, 10) == 0
    assert len(await left(shop)) == FACTS


async def test_other_events_keep_their_facts(shop):
    await on_sale(shop, id="e2")
    await shop.store.prune(E1, FACTS, 1_000)
    assert [entry.seq for entry in await shop.store.log("e2", 0, 10)] == [1]


async def test_the_numbers_go_on_after_it(shop):
    await shop.store.prune(E1, FACTS, 1_000)
    await shop.release_hold((await shop.store.log(E1, 0, 1))[0].data["hold"])
    assert await left(shop) == [FACTS, FACTS + 1]


async def test_sales_go_on_while_the_log_is_pruned_by_several(shop):
    await on_sale(shop, id="e2", pools=[{"id": "floor", "capacity": 1000, "tier": "floor"}])

    async def sell() -> None:
        for n in range(20):
            assert await shop.sell("e2", buyer=f"s{n}", pools={"floor": 1})

    async def prune() -> int:
        taken = 0
        for _ in range(20):
            [head] = [seq for event, seq in (await shop.store.heads()).items() if event == "e2"]
            taken += await shop.store.prune("e2", head, 5)
        return taken

    _, *taken = await asyncio.gather(sell(), prune(), prune())
    entries = await shop.store.log("e2", 0, 1_000)
    assert [entry.seq for entry in entries] == list(range(sum(taken) + 1, 22))
