"""After a chaotic run the live projections, rebuilt ones, and the tables say the same."""

import asyncio

import msgspec
import pytest

from holdfast.domain.stats import Stats
from holdfast.followers.projections import Projections
from holdfast.upkeep.pruned import note_pruned
from tests.conftest import PLAIN, marked
from tests.projections.chaos import E1, EVENT, Chaos, of_stats, of_tables

EVERY_PLAIN_STORE = pytest.mark.parametrize("setup", [marked(setup) for setup in PLAIN])

MUST_HAPPEN = {
    *("Placed", "Extended", "Paying", "Released", "Expired", "Confirmed", "Cancelled", "Opened"),
    *("Settled", "Stepped", "Changed", "refused", "part", "refunded late"),
    *("settled in_time", "settled same_units", "settled other_seats"),
}


async def folded(shop) -> Stats:
    """The whole log, by the fold alone."""
    stats = Stats.empty(E1)
    for entry in await shop.store.log(E1, 0, 1_000_000):
        stats.take(entry)
    return stats


def encoded(stats: Stats | None) -> bytes:
    assert stats is not None
    return msgspec.json.encode(stats)


@EVERY_PLAIN_STORE
@pytest.mark.parametrize("seed", [1, 2])
async def test_live_rebuilt_and_counted_from_the_tables_are_the_same(shop, clock, seed):
    await shop.create_event(EVENT)
    chaos = Chaos(shop, clock, seed)
    one, other = Projections(shop.store), Projections(shop.store)
    while not chaos.done.keys() >= MUST_HAPPEN:
        # Two processes save, readers come in between, and sales go on all the while.
        await asyncio.gather(chaos.run(25), one.round(), other.round(), one.current(E1))
        assert sum(chaos.done.values()) < 10_000, MUST_HAPPEN - chaos.done.keys()
    live = encoded(await one.current(E1))
    await other.round()
    census = await shop.store.census(E1)
    assert of_stats(msgspec.json.decode(live, type=Stats)) == of_tables(census)
    assert encoded(await folded(shop)) == live
    assert (await other.rebuild(E1)).facts == {E1: census.seq}
    assert encoded(await Projections(shop.store).current(E1)) == live
    (document,), _ = await shop.store.documents("projection", E1)
    assert msgspec.json.encode(msgspec.json.decode(document.body)["stats"]) == live


@EVERY_PLAIN_STORE
async def test_a_rebuild_after_pruning_gives_the_same(shop, clock):
    await shop.create_event(EVENT)
    chaos, pruned = Chaos(shop, clock, 3), 0
    projections = Projections(shop.store)
    for _ in range(4):
        await chaos.run(20)
        head = (await shop.store.heads())[E1]
        whole = encoded(await projections.current(E1))
        through = pruned + (head - pruned) // 2
        await projections.settle(E1, through)
        await projections.settle(E1, through - 3)
        await note_pruned(shop.store, E1, through)
        pruned += await shop.store.prune(E1, through, 1_000_000)
        assert pruned == through
        assert (await projections.rebuild()).facts == {E1: head}
        # By a process that knows nothing yet, too, and by one that has nothing but the baseline.
        assert encoded(await Projections(shop.store).current(E1)) == whole
        (document,), _ = await shop.store.documents("projection", E1)
        assert await shop.store.drop("projection", E1, document.version)
        assert encoded(await Projections(shop.store).current(E1)) == whole
    stats = msgspec.json.decode(encoded(await projections.current(E1)), type=Stats)
    assert of_stats(stats) == of_tables(await shop.store.census(E1))


HOLD_ENDS = {
    "hold.placed": "held",
    "hold.paying": "paying",
    "hold.released": "released",
    "hold.expired": "expired",
    "order.confirmed": "confirmed",
}


@EVERY_PLAIN_STORE
async def test_every_fact_says_truly_what_its_hold_was_and_what_each_tier_has(shop, clock):
    await shop.create_event(EVENT)
    chaos = Chaos(shop, clock, 4)
    while not chaos.done.keys() >= MUST_HAPPEN:
        await chaos.run(25)
    states: dict[str, str] = {}
    capacity, ended, late = 0, 0, 0
    for entry in await shop.store.log(E1, 0, 1_000_000):
        data = entry.data
        if entry.type in HOLD_ENDS and data["hold"] is not None:
            if entry.type not in ("hold.placed", "hold.paying"):
                assert data["was"] == states[data["hold"]]
                ended += 1
                late += data["was"] == "expired"
            states[data["hold"]] = HOLD_ENDS[entry.type]
        else:
            assert "was" not in data
        if entry.type in ("order.confirmed", "order.cancelled"):
            shares = data["tiers"].values()
            assert sum(share["amount"] for share in shares) == data["amount"]
            assert min(share["amount"] for share in shares) >= 0
            units = len(data["seats"]) + sum(data["pools"].values())
            assert sum(share["units"] for share in shares) == units
        else:
            assert "tiers" not in data
        if entry.type.startswith("event."):
            capacity += len(data.get("seats_added", ())) - len(data.get("seats_withdrawn", ()))
            capacity += sum(data.get("pools", {}).values())
            capacity = data["capacity"] if entry.type == "event.created" else capacity
            assert (data["capacity"], data["currency"]) == (capacity, "EUR")
    assert ended > 20
    assert late > 0
