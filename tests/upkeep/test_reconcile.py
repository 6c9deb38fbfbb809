"""Reconciliation: the gate is compared with the authority and mended, while sales go on."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest

from holdfast import Confirmed, Holdfast, Placed, Reason
from holdfast.domain.gating import (
    Adjust,
    Claim,
    Find,
    Free,
    Kind,
    Mark,
    Op,
    Owned,
    Snapshot,
    Stock,
    Verdict,
)
from holdfast.domain.model import FOREVER_MS
from holdfast.domain.views import Census
from holdfast.errors import GateDown, StoreUnavailable
from holdfast.stores.memory import MemoryStore
from holdfast.upkeep.reconcile import (
    ASKED_LEASE,
    LEASE,
    TOLERANCE_MS,
    Mended,
    Reconciler,
    compare,
    reconcile,
)
from holdfast.upkeep.rounds import NAMES_MAX, Fixed, read
from tests.conftest import Clock, make_sqlite
from tests.contract.helpers import E1, SOFT_MS, description, held, on_sale, reason, sold
from tests.gated import Desk, Post, differences, kept, mend, noted, opened, turns

STOCK = {"floor": 10, "stand": 5}


@pytest.fixture
def desk(clock) -> Desk:
    return Desk(clock)


@pytest.fixture
def gate(clock) -> Post:
    return Post(clock)


@pytest.fixture
async def shop(desk, gate, clock) -> AsyncIterator[Holdfast]:
    async with opened(desk, gate, clock, "two-layer") as shop:
        await on_sale(shop)
        gate.asked.clear()
        yield shop


def ghost(id: str = "e1.ghost", **more: Any) -> Mark:
    """An owner that the authority knows nothing of."""
    fields: dict[str, Any] = {"buyer": "ghost", "seats": ("A-2-5",), **more}
    return Mark(Owned(id=id, **fields))


async def force(gate: Post, *ops: Op) -> None:
    """Behind everybody's back."""
    await gate.run(E1, (await gate.snapshot(E1)).version, ops)
    gate.asked.clear()


async def compared(shop: Holdfast) -> tuple[Mended, list[Op]]:
    assert shop.gate is not None
    before = await shop.gate.snapshot(E1)
    census = await shop.store.census(E1)
    assert census is not None
    return compare(before, census)


async def sales(shop: Holdfast) -> dict[str, str]:
    """One hold, one that is paid for, one order from a hold, one from nothing: their ids."""
    ids = {}
    ids["held"] = (await held(shop, "ann", seats=["A-1-1"], pools={"floor": 1})).id
    ids["paying"] = (await held(shop, "bob", seats=["A-1-2"], pools={"floor": 1})).id
    ids["sold"] = (await held(shop, "cid", seats=["A-1-3"], pools={"floor": 1})).id
    await shop.pay_hold(ids["paying"])
    await shop.confirm_hold(ids["sold"])
    ids["direct"] = (await sold(shop, "dee", seats=["A-1-4"], pools={"floor": 1})).id
    return ids


# What is compared


async def test_a_gate_that_has_everything_needs_nothing(shop, gate, clock):
    await sales(shop)
    clock.advance(5_000)
    mended, ops = await compared(shop)
    assert (mended, ops) == (Mended(E1), [])
    assert (mended.found, mended.lines) == (0, [])
    gate.asked.clear()
    await mend(shop)
    assert gate.asked == [], "not even an empty call"


async def test_what_the_gate_lost_is_marked_again(shop, gate, clock):
    ids = await sales(shop)
    before = await kept(shop)
    await force(gate, *(Free(id) for id in ids.values()))
    mended = await mend(shop)
    assert set(mended.missing) == set(ids.values())
    assert (mended.orphans, mended.stock, mended.counters) == ([], False, 0)
    after = await kept(shop)
    assert after.keys() == before.keys()
    for id, owned in after.items():
        same = ("buyer", "seats", "pools", "keep_ms")
        assert [getattr(owned, each) for each in same] == [
            getattr(before[id], each) for each in same
        ]
    assert await differences(shop) == []


async def test_what_only_the_gate_has_is_freed(shop, gate):
    ids = await sales(shop)
    await force(gate, ghost(pools={"floor": 6}), ghost("e1.other", seats=("A-2-4",), keep_ms=9_000))
    mended = await mend(shop)
    assert mended.orphans == ["e1.ghost", "e1.other"]
    assert (mended.missing, mended.stock, mended.counters) == ([], False, 0)
    assert (await kept(shop)).keys() == set(ids.values())
    assert await differences(shop) == []


async def test_an_emptied_gate_is_filled(shop, gate):
    ids = await sales(shop)
    await gate.clear(E1)
    mended = await mend(shop)
    assert (set(mended.missing), mended.stock) == (set(ids.values()), True)
    assert await differences(shop) == []
    snapshot = await gate.snapshot(E1)
    assert (snapshot.stock, snapshot.claimed) == (STOCK, {"floor": 4})


async def test_a_seat_noted_for_the_wrong_owner_is_given_to_the_right_one(shop, gate):
    hold = await held(shop, "ann", seats=["A-1-1"])
    await force(gate, ghost(seats=("A-1-1",)))
    assert await noted(shop) == {"A-1-1": "e1.ghost"}
    mended = await mend(shop)
    assert (mended.missing, mended.orphans) == ([hold.id], ["e1.ghost"])
    assert await noted(shop) == {"A-1-1": hold.id}
    assert await differences(shop) == []


WRONG: dict[str, Callable[[Owned], dict[str, Any]]] = {
    "buyer": lambda owned: {"buyer": "somebody"},
    "seats": lambda owned: {"seats": ("A-1-1",)},
    "more seats": lambda owned: {"seats": (*owned.seats, "A-2-5")},
    "pools": lambda owned: {"pools": {"floor": 3}},
    "longer": lambda owned: {"keep_ms": owned.keep_ms + TOLERANCE_MS + 1},
    "shorter": lambda owned: {"keep_ms": owned.keep_ms - TOLERANCE_MS - 1},
    "for ever": lambda owned: {"keep_ms": FOREVER_MS},
    "a claim": lambda owned: {"kind": Kind.CLAIM},
    "a courtesy": lambda owned: {"kind": Kind.COURTESY},
}


@pytest.mark.parametrize("wrong", WRONG)
async def test_an_owner_with_anything_wrong_is_written_anew(shop, gate, wrong):
    hold = await held(shop, "ann", seats=["A-1-1", "A-1-2"], pools={"floor": 2})
    right = (await kept(shop))[hold.id]
    fields = {name: getattr(right, name) for name in right.__struct_fields__}
    await force(gate, Mark(Owned(**fields | WRONG[wrong](right))))
    assert (await mend(shop)).missing == [hold.id]
    assert (await kept(shop))[hold.id] == right
    snapshot = await gate.snapshot(E1)
    assert (snapshot.claimed, snapshot.units) == ({"floor": 2}, {"ann": 4})
    assert await differences(shop) == []


async def test_an_order_that_the_gate_has_for_a_while_only_is_made_to_last(shop, gate, clock):
    hold = await held(shop, "ann", seats=["A-1-1"])
    order = (await shop.confirm_hold(hold.id)).order
    await force(gate, Mark(Owned(id=hold.id, buyer="ann", seats=("A-1-1",), keep_ms=SOFT_MS)))
    assert (await mend(shop)).missing == [hold.id]
    assert (await kept(shop))[hold.id].keep_ms == FOREVER_MS
    await shop.cancel_order(order.id)
    assert await kept(shop) == {}


@pytest.mark.parametrize("apart_ms", [-TOLERANCE_MS, TOLERANCE_MS])
async def test_two_clocks_may_differ_a_little(shop, gate, clock, apart_ms):
    hold = await held(shop, "ann", seats=["A-1-1"])
    right = (await kept(shop))[hold.id]
    fields = {name: getattr(right, name) for name in right.__struct_fields__}
    await force(gate, Mark(Owned(**fields | {"keep_ms": right.keep_ms + apart_ms})))
    assert await differences(shop) == []


async def test_lapsed_holds_are_no_difference_though_nobody_announced_them(shop, clock):
    await held(shop, "ann", seats=["A-1-1"])
    clock.advance(SOFT_MS)
    assert await differences(shop) == []


@pytest.mark.parametrize("kind", [Kind.CLAIM, Kind.COURTESY])
async def test_claims_and_courtesies_end_by_their_own_deadline(shop, gate, clock, kind):
    owned = Owned(id="e1.h", buyer="ann", seats=("A-1-1",), pools={"floor": 1}, kind=kind)
    await force(gate, Claim(owned))
    assert await differences(shop) == []
    await mend(shop)
    assert (await kept(shop))["e1.h"].kind is kind


# Stock and counters


async def test_stock_that_is_not_the_authoritys_is_corrected(shop, gate):
    await force(gate, Stock({"floor": 3, "unheard": 9}))
    mended = await mend(shop)
    assert (mended.stock, mended.found) == (True, 1)
    assert (await gate.snapshot(E1)).stock == STOCK


async def test_a_version_that_was_raised_to_admit_no_courtesy_stays(shop, gate):
    await gate.run(E1, 2, [Find("h")])
    assert not (await mend(shop)).stock
    await gate.run(E1, 1, [Stock(STOCK)])
    assert (await gate.snapshot(E1)).version == 2


COUNTS: dict[str, tuple[Adjust, int]] = {
    "too high": (Adjust({"floor": -3}, {"ann": -2}), 2),
    "too low": (Adjust({"floor": 2}, {"ann": 1}), 2),
    "lost": (Adjust({"floor": 9}, {"ann": 9}), 2),
    "of nobody": (Adjust({"stand": -4, "unheard": -1}, {"nobody": -7}), 3),
}


@pytest.mark.parametrize("wrong", COUNTS)
async def test_counters_that_do_not_follow_from_what_is_there_are_corrected(shop, gate, wrong):
    await held(shop, "ann", seats=["A-1-1"], pools={"floor": 3})
    right = await gate.snapshot(E1)
    adjust, count = COUNTS[wrong]
    await force(gate, adjust)
    assert await gate.snapshot(E1) != right
    mended = await mend(shop)
    assert (mended.counters, mended.found) == (count, count)
    assert await gate.snapshot(E1) == right
    assert await differences(shop) == []


async def test_lost_counters_and_an_orphan_are_mended_in_one_round(shop, gate):
    """As after an eviction that took the counters' key."""
    await held(shop, "ann", seats=["A-1-1"], pools={"floor": 3})
    await force(gate, ghost(pools={"floor": 4}), Adjust({"floor": 99}, {"ann": 99, "ghost": 99}))
    await mend(shop)
    assert await differences(shop) == []


async def test_counters_are_corrected_beside_claims_and_courtesies(shop, gate):
    for kind in (Kind.CLAIM, Kind.COURTESY):
        owned = Owned(id=f"e1.{kind}", buyer="ann", pools={"floor": 2}, kind=kind)
        await force(gate, Claim(owned))
    await force(gate, Adjust({"floor": -5}))
    assert (await mend(shop)).counters == 1
    assert (await gate.snapshot(E1)).claimed == {"floor": 4}


async def test_in_a_flash_sale_counters_are_left_alone(shop, gate):
    await shop.change_event(E1, flash_sale=True)
    hold = await held(shop, "ann", seats=["A-1-1"])
    await force(
        gate, Stock({"floor": 3}), Adjust({"floor": -5}, {"ann": -2}), Free(hold.id), ghost()
    )
    mended = await mend(shop)
    assert (mended.stock, mended.counters) == (True, 0), "capacity is no counter"
    assert (mended.missing, mended.orphans) == ([hold.id], ["e1.ghost"])
    snapshot = await gate.snapshot(E1)
    assert (snapshot.stock, snapshot.claimed["floor"]) == (STOCK, 5)
    await shop.change_event(E1, flash_sale=False)
    assert await differences(shop) == []
    assert (await gate.snapshot(E1)).stock == STOCK


async def test_in_a_flash_sale_an_emptied_gate_is_filled_all_the_same(shop, gate):
    await shop.change_event(E1, flash_sale=True)
    await held(shop, "ann", seats=["A-1-1"], pools={"floor": 2})
    await gate.clear(E1)
    await mend(shop)
    snapshot = await gate.snapshot(E1)
    assert (snapshot.stock, snapshot.claimed) == (STOCK, {"floor": 2})


# While sales go on


class Meanwhile(Post):
    """Between two steps of a reconciliation something happens."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.after_snapshot: Callable[[], Any] | None = None
        self.before_run: Callable[[], Any] | None = None

    async def snapshot(self, event: str) -> Snapshot:
        found = await super().snapshot(event)
        if happens := self.after_snapshot:
            self.after_snapshot = None
            await happens()
        return found

    async def run(self, event: str, version: int, ops: Sequence[Op]) -> list[Verdict]:
        if (happens := self.before_run) and any(isinstance(op, Free | Mark | Stock) for op in ops):
            self.before_run = None
            await happens()
        return await super().run(event, version, ops)


@pytest.fixture
def busy(clock) -> Meanwhile:
    return Meanwhile(clock)


@pytest.fixture
async def open_shop(desk, busy, clock) -> AsyncIterator[Holdfast]:
    async with opened(desk, busy, clock, "two-layer") as shop:
        await on_sale(shop)
        yield shop


async def test_what_was_placed_since_the_look_stays(open_shop, busy, clock):
    """Written to the gate after the snapshot, under an id that the snapshot had as an orphan."""
    await busy.run(E1, 1, [ghost("e1.mine", seats=("A-1-1",), keep_ms=5_000)])

    async def happens() -> None:
        clock.advance(5_000)
        await held(open_shop, "ann", id="mine", seats=["A-1-1"])

    busy.before_run = happens
    mended = await mend(open_shop)
    assert mended.orphans == ["e1.mine"], "by what was seen then"
    assert (await kept(open_shop))["e1.mine"].buyer == "ann"
    assert await differences(open_shop) == []


@pytest.mark.parametrize("moment", ["after_snapshot", "before_run"])
async def test_a_hold_placed_meanwhile_is_not_undone(open_shop, busy, moment):
    await busy.run(E1, 1, [ghost(), Stock({"floor": 0})])
    placed = []

    async def happens() -> None:
        placed.append(await held(open_shop, "ann", seats=["A-1-1"]))

    setattr(busy, moment, happens)
    await mend(open_shop)
    assert (await kept(open_shop)).keys() == {placed[0].id}
    assert await differences(open_shop) == []


async def test_a_hold_placed_after_the_look_at_the_authority_is_no_orphan(shop, gate, monkeypatch):
    """The gate has to be looked at first: else it has what the authority seems to lack."""
    census = MemoryStore.census

    async def then(store: MemoryStore, event: str) -> Census | None:
        found = await census(store, event)
        monkeypatch.undo()
        await held(shop, "ann", seats=["A-1-1"])
        return found

    monkeypatch.setattr(Desk, "census", then)
    assert (await mend(shop)).orphans == []
    assert await noted(shop) != {}
    assert await differences(shop) == []


@pytest.mark.parametrize("moment", ["after_snapshot", "before_run"])
async def test_a_sale_meanwhile_is_not_undone(open_shop, busy, clock, moment):
    hold = await held(open_shop, "ann", seats=["A-1-1"])
    await busy.run(E1, 1, [ghost()])

    async def happens() -> None:
        assert isinstance(await open_shop.confirm_hold(hold.id), Confirmed)

    setattr(busy, moment, happens)
    await mend(open_shop)
    clock.advance(SOFT_MS)
    assert (await kept(open_shop))[hold.id].keep_ms == FOREVER_MS


async def test_a_claim_that_became_a_hold_meanwhile_is_kept(open_shop, busy, desk):
    """Looked at between claim and write, and the authority after the write."""
    slow = asyncio.Event()
    desk.before = slow.wait
    ask = asyncio.create_task(open_shop.place_hold(E1, buyer="ann", seats=["A-1-1"]))
    await turns()

    async def happens() -> None:
        slow.set()
        assert isinstance(await ask, Placed)

    busy.after_snapshot = happens
    await mend(open_shop)
    assert [owned.kind for owned in (await kept(open_shop)).values()] == [Kind.HELD]
    assert await differences(open_shop) == []


async def test_a_release_between_look_and_mending_is_healed_by_the_next_round(open_shop, busy):
    """What was missing is marked though it was released a moment ago: a wrong no, for one round."""
    hold = await held(open_shop, "ann", seats=["A-1-1"])
    await busy.run(E1, 1, [Free(hold.id)])

    async def happens() -> None:
        await open_shop.release_hold(hold.id)

    busy.before_run = happens
    await mend(open_shop)
    await mend(open_shop)
    assert await differences(open_shop) == []
    await held(open_shop, "bob", seats=["A-1-1"])


async def test_counters_stay_right_when_sales_go_on_meanwhile(open_shop, busy):
    hold = await held(open_shop, "ann", pools={"floor": 2})
    await busy.run(E1, 1, [Adjust({"floor": -4}), ghost()])

    async def happens() -> None:
        await held(open_shop, "bob", pools={"floor": 1})
        await open_shop.release_hold(hold.id)

    busy.before_run = happens
    await mend(open_shop)
    assert (await busy.snapshot(E1)).claimed == {"floor": 1}
    assert await differences(open_shop) == []


async def test_a_busy_shop_and_a_busy_reconciler_agree_in_the_end(shop, gate):
    async def sell(number: int) -> None:
        seat = f"A-{number % 2 + 1}-{number % 5 + 1}"
        outcome = await shop.place_hold(E1, buyer=f"b{number}", seats=[seat], pools={"floor": 1})
        if isinstance(outcome, Placed):
            if number % 3:
                await shop.release_hold(outcome.hold.id)
            else:
                await shop.confirm_hold(outcome.hold.id)

    async def rounds() -> None:
        for _ in range(20):
            await mend(shop)
            await asyncio.sleep(0)

    await asyncio.gather(rounds(), *(sell(number) for number in range(100)))
    await mend(shop)
    assert await differences(shop) == []
    census = await shop.store.census(E1)
    seats = [seat for order in census.orders for seat in order.seats]
    assert len(seats) == len(set(seats))


async def until(there: Callable[[], Awaitable[Any]]) -> None:
    """Until it is no longer there."""
    async with asyncio.timeout(5):
        while await there():
            await turns(1)


# One gate, many events, many processes


def reconciler(shop: Holdfast, holder: str, up: Callable[[], bool] = lambda: True) -> Reconciler:
    assert shop.gate is not None
    return Reconciler(shop.store, shop.gate, shop._catalogues, 30.0, holder, up)


async def test_of_two_reconcilers_one_works(shop, gate, clock):
    first, second = reconciler(shop, "first"), reconciler(shop, "second")
    await force(gate, ghost())
    await first._all(LEASE, 30.0)
    await second._all(LEASE, 30.0)
    assert first.known is not None
    assert first.known.last.mended == [Fixed(E1, orphans=1, names=["e1.ghost"])]
    assert second.known is None
    clock.advance(29_999)
    await second._all(LEASE, 30.0)
    assert second.known is None
    await first._all(LEASE, 30.0)
    clock.advance(30_000)
    await second._all(LEASE, 30.0)
    assert second.known is not None, "the first is gone, so the second takes over"
    assert (second.known.last.events, second.known.last.found) == (1, 0)
    assert second.known.mended == first.known.mended, "what the first had mended it knows too"


async def test_a_gate_that_is_down_is_not_reconciled(shop, gate):
    idle = reconciler(shop, "idle", up=lambda: False)
    await force(gate, ghost())
    await idle._all(LEASE, 30.0)
    await idle.refresh(E1)
    assert idle.known is None
    assert "e1.ghost" in await kept(shop)


async def test_events_of_policy_authority_are_left_alone(shop, gate):
    await shop.create_event(description(id="e2", policy="authority"))
    await shop.create_event(description(id="e3", gate=False))
    await shop.create_event(description(id="e4"))
    for event in ("e2", "e3", "e4"):
        await gate.run(event, 1, [ghost(f"{event}.ghost")])
    found = await reconciler(shop, "me").round()
    assert [mended.event for mended in found] == ["e4"]
    assert (await kept(shop, "e2")).keys() == {"e2.ghost"}
    assert (await kept(shop, "e3")).keys() == {"e3.ghost"}
    assert await kept(shop, "e4") == {}


async def test_a_round_reports_what_it_found_and_nothing_where_there_is_nothing(shop, gate, caplog):
    caplog.set_level(logging.INFO, "holdfast.upkeep")
    await shop.create_event(description(id="e2"))
    me = reconciler(shop, "me")
    caplog.clear()
    assert await me.round() == []
    assert me.known is not None
    assert (me.known.last.events, me.known.last.found, me.known.mended) == (2, 0, None)
    assert caplog.messages == []
    await force(gate, ghost())
    assert await me.round() == [Mended(E1, orphans=["e1.ghost"])]
    assert caplog.messages == ["the gate of e1 was mended: 1 differences"]


async def test_what_a_round_came_to_is_known_to_every_process(shop, gate, clock):
    assert await read(shop.store) is None
    me = reconciler(shop, "me")
    await force(gate, ghost(), Adjust({"floor": -2}))
    first = await me.now()
    assert (first.at_ms, first.events, first.found) == (clock.now_ms, 1, 2)
    assert first.mended == [Fixed(E1, orphans=1, counters=1, names=["e1.ghost"])]
    clock.advance(1_000)
    second = await reconciler(shop, "another").now()
    assert (second.at_ms, second.found, second.mended) == (clock.now_ms, 0, [])
    rounds = await read(shop.store)
    assert rounds is not None
    assert (rounds.last, rounds.mended) == (second, first)


async def test_a_gate_that_lost_thousands_leaves_a_small_note(shop, gate):
    for number in range(NAMES_MAX + 5):
        await force(gate, ghost(f"e1.ghost-{number}", seats=()))
    (fixed,) = (await reconciler(shop, "me").now()).mended
    assert (fixed.orphans, len(fixed.names)) == (NAMES_MAX + 5, NAMES_MAX)


async def test_one_event_alone_is_no_round(shop):
    me = reconciler(shop, "me")
    await me.round(E1)
    assert me.known is None
    assert await read(shop.store) is None


async def test_rounds_of_one_process_do_not_overlap(shop, gate):
    """Both would mend the same counter, and leave it wrong."""
    me = reconciler(shop, "me")
    await held(shop, "ann", pools={"floor": 2})
    await force(gate, Adjust({"floor": -2}))
    came_to = await asyncio.gather(me.now(), me.now())
    assert sorted(each.found for each in came_to) == [0, 1]
    assert await differences(shop) == []


async def test_a_round_asked_for_waits_for_another_process(shop, clock, monkeypatch):
    monkeypatch.setattr("holdfast.upkeep.reconcile.TURN_SECONDS", 0)
    assert shop.gate is not None
    await shop.gate.lease(ASKED_LEASE, "another", 1_000)
    with pytest.raises(GateDown, match="another process"):
        await reconciler(shop, "me").now()
    clock.advance(1_000)
    assert (await reconciler(shop, "me").now()).events == 1


async def test_a_round_that_cannot_be_written_down_was_done(shop, gate, monkeypatch):
    async def away(*_: object) -> None:
        raise StoreUnavailable("away")

    monkeypatch.setattr(shop.store, "put", away)
    me = reconciler(shop, "me")
    await force(gate, ghost())
    assert (await me.now()).found == 1
    assert me.known is not None
    assert me.known.mended == me.known.last
    monkeypatch.setattr(shop.store, "documents", away)
    assert (await me.now()).found == 0
    assert me.known.mended != me.known.last


async def test_a_round_says_which_events_it_could_not_compare(shop, gate, monkeypatch):
    await shop.create_event(description(id="e2"))
    snapshot = gate.snapshot

    async def half(event: str) -> Any:
        if event == E1:
            raise GateDown("no answer")
        return await snapshot(event)

    monkeypatch.setattr(gate, "snapshot", half)
    came_to = await reconciler(shop, "me").now()
    assert (came_to.events, came_to.failed) == (2, {E1: "no answer"})


def test_a_report_is_for_people():
    mended = Mended(E1, missing=["e1.a"], orphans=["e1.b", "e1.c"], stock=True, counters=2)
    assert mended.found == 6
    assert mended.lines == [
        "e1: e1.a is not in the gate",
        "e1: e1.b is only in the gate",
        "e1: e1.c is only in the gate",
        "e1: its settings or stock are not the authority's",
        "e1: 2 of its counters are wrong",
    ]


async def test_looking_only_changes_nothing(shop, gate):
    await sales(shop)
    await force(gate, ghost(), Adjust({"floor": -2}), Stock({}))
    before = await gate.snapshot(E1)
    found = await reconcile(shop.store, gate, E1, mend=False)
    assert found is not None
    assert found.found == 3
    assert await gate.snapshot(E1) == before


async def test_a_look_reports_only_what_is_still_so_after_a_moment(open_shop, busy, monkeypatch):
    monkeypatch.setattr("holdfast.upkeep.reconcile.SETTLE_SECONDS", 0)
    hold = await held(open_shop, "ann", seats=["A-1-1"])
    lasting, passing = ghost("e1.lasting"), ghost("e1.passing", seats=("A-2-4",))
    await busy.run(E1, 1, [lasting, passing, Free(hold.id), Adjust({"floor": -1})])

    async def happens() -> None:
        await busy.run(E1, 1, [Free("e1.passing"), Adjust({"floor": 1})])
        await open_shop.release_hold(hold.id)

    busy.after_snapshot = happens
    me = reconciler(open_shop, "me")
    found = await me.differences()
    assert found == [Mended(E1, orphans=["e1.lasting"])]
    assert (await kept(open_shop)).keys() == {"e1.lasting"}, "nothing was mended"
    assert me.known is None


@pytest.mark.parametrize("mends", [True, False])
async def test_an_event_that_is_none_is_forgotten(shop, gate, mends):
    await gate.run("unheard", 1, [Stock({}), ghost()])
    assert await reconcile(shop.store, gate, "unheard", mend=mends) is None
    assert ("unheard" in await gate.events()) is not mends


async def test_many_differences_are_mended_in_calls_of_bounded_size(shop, gate, monkeypatch):
    monkeypatch.setattr("holdfast.upkeep.reconcile.OPS_MAX", 10)
    sizes: list[int] = []
    run: Callable[[str, int, Sequence[Op]], Awaitable[list[Verdict]]] = gate.run

    async def counted(event: str, version: int, ops: Sequence[Op]) -> list[Verdict]:
        sizes.append(len(ops))
        return await run(event, version, ops)

    await force(gate, *(ghost(f"e1.g{n}", seats=(f"x{n}",)) for n in range(25)))
    monkeypatch.setattr(gate, "run", counted)
    await mend(shop)
    assert sizes == [10, 10, 5]
    assert await differences(shop) == []


async def test_one_events_trouble_is_its_own(shop, gate, monkeypatch):
    """As with a key of a wrong type, which is there in every round."""
    await shop.create_event(description(id="e2"))
    await gate.run("e2", 1, [ghost("e2.ghost")])
    snapshot: Callable[[str], Awaitable[Snapshot]] = gate.snapshot

    async def unreadable(event: str) -> Snapshot:
        if event == E1:
            raise GateDown("not ours to read")
        return await snapshot(event)

    monkeypatch.setattr(gate, "snapshot", unreadable)
    with contextlib.suppress(GateDown):
        await reconciler(shop, "me").round()
    assert await kept(shop, "e2") == {}


async def test_what_fails_is_not_tried_again_without_a_pause(shop, desk, monkeypatch):
    tries = 0

    async def unreachable(event: str) -> Census | None:
        nonlocal tries
        tries += 1
        raise StoreUnavailable("gone")

    monkeypatch.setattr(desk, "census", unreachable)
    me = reconciler(shop, "me")
    me.start(periodic=False)
    me.want(E1)
    await turns(200)
    await me.stop()
    monkeypatch.undo()
    assert tries == 1


async def test_what_is_wanted_is_done_soon(shop, gate):
    me = reconciler(shop, "me")
    await force(gate, ghost())
    me.start(periodic=False)
    await turns()
    assert (await kept(shop)).keys() == {"e1.ghost"}
    me.want(E1)
    await turns()
    await me.stop()
    assert await kept(shop) == {}


async def test_one_comes_by_itself_every_so_often(shop, gate):
    assert shop.gate is not None
    me = Reconciler(shop.store, shop.gate, shop._catalogues, 0.001, "me", lambda: True)
    me.start(periodic=True)
    for _ in range(2):
        await force(gate, ghost())
        await until(lambda: kept(shop))
    await me.stop()


async def test_a_gate_before_a_file_is_mended(tmp_path, gate, clock):
    async with opened(make_sqlite(tmp_path, clock), gate, clock, "two-layer") as shop:
        await on_sale(shop)
        ids = await sales(shop)
        await gate.clear(E1)
        await force(gate, ghost())
        mended = await mend(shop)
        assert (set(mended.missing), mended.orphans) == (set(ids.values()), ["e1.ghost"])
        assert await differences(shop) == []
        assert await reason(shop.place_hold(E1, buyer="eve", seats=["A-1-4"])) is Reason.TAKEN


async def test_a_round_there_and_one_asked_for_here_mend_a_counter_once(shop, gate, monkeypatch):
    monkeypatch.setattr("holdfast.upkeep.reconcile.TURN_SECONDS", 0.01)
    await held(shop, "ann", pools={"floor": 3})
    await force(gate, Adjust({"floor": -1}))
    census = shop.store.census

    async def slow(event: str) -> Census | None:
        await asyncio.sleep(0.02)
        found: Census | None = await census(event)
        return found

    monkeypatch.setattr(shop.store, "census", slow)
    there, here = reconciler(shop, "there"), reconciler(shop, "here")
    await asyncio.gather(there.round(), here.now(), here.refresh(E1))
    monkeypatch.setattr(shop.store, "census", census)
    assert await differences(shop) == []
