"""Two layers: a claim in the gate, then the authority. The gate may be wrong, slow, empty or gone:
that costs speed, never an answer."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from holdfast import Confirmed, Holdfast, Paying, Placed, Reason, Refused
from holdfast.domain.gating import Claim, Free, Keep, Kind, Mark, Owned, Stock
from holdfast.domain.model import FOREVER_MS
from holdfast.errors import CommitUnknown, StoreUnavailable
from holdfast.front import CLAIM_MS
from tests.conftest import drift, make_sqlite
from tests.contract.helpers import (
    E1,
    HARD_MS,
    SOFT_MS,
    held,
    nothing_changes,
    numbers,
    on_sale,
    reason,
    said,
    sold,
)
from tests.gated import (
    Desk,
    Post,
    differences,
    down,
    kept,
    mend,
    no_pause,
    no_waiting,
    noted,
    opened,
    turns,
)

__all__ = ["no_pause", "no_waiting"]

SEAT = ["A-1-1"]
pytestmark = pytest.mark.usefixtures("no_pause", "no_waiting")


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
        desk.asked.clear()
        gate.asked.clear()
        yield shop


@pytest.fixture
async def other(shop, desk, gate, clock) -> AsyncIterator[Holdfast]:
    """A second process, on the same authority and before the same gate."""
    async with opened(Desk(clock, desk), gate, clock, "two-layer") as other:
        yield other


def names(asked: list[Any]) -> list[str]:
    return [type(each).__name__ for each in asked]


async def force(shop: Holdfast, *ops: Any) -> None:
    """Writes to the gate behind everybody's back."""
    assert shop.gate is not None
    await shop.gate.run(E1, 1, ops)


def wrong(id: str = "e1.ghost", *, buyer: str = "ghost", keep_ms: int = FOREVER_MS) -> Mark:
    """A hold that the authority knows nothing of."""
    return Mark(Owned(id=id, buyer=buyer, seats=("A-1-1",), keep_ms=keep_ms))


async def test_a_claim_is_made_for_three_seconds_and_lengthened_after_the_commit(shop, desk, gate):
    claims: list[Owned] = []

    async def before() -> None:
        claims.extend((await kept(shop)).values())

    desk.before = before
    hold = await held(shop, seats=SEAT, pools={"floor": 2})
    [claim] = claims
    assert (claim.id, claim.buyer, claim.kind) == (hold.id, "ann", Kind.CLAIM)
    assert (claim.seats, claim.pools) == (("A-1-1",), {"floor": 2})
    assert claim.keep_ms == CLAIM_MS == 3_000
    assert names(gate.asked) == ["Claim", "Keep"]
    after = (await kept(shop))[hold.id]
    assert (after.kind, after.keep_ms) == (Kind.HELD, SOFT_MS)
    assert await differences(shop) == []


async def test_the_gate_refuses_without_asking_the_authority(shop, desk):
    await held(shop, "ann", seats=SEAT, pools={"floor": 8})
    desk.asked.clear()
    for n in range(20):
        refused = await shop.place_hold(E1, buyer=f"b{n}", seats=["A-1-1", "A-1-2"])
        assert refused == Refused(Reason.TAKEN, seats=("A-1-1",))
    short = Refused(Reason.INSUFFICIENT, pools=("floor",), available=2)
    assert await shop.place_hold(E1, buyer="bob", pools={"floor": 3}) == short
    await held(shop, "cid", pools={"floor": 2})
    desk.asked.clear()
    none = Refused(Reason.SOLD_OUT, pools=("floor",), available=0)
    assert await shop.place_hold(E1, buyer="bob", pools={"floor": 3}) == none
    assert desk.asked == []


async def test_of_a_crowd_at_one_seat_one_gets_to_the_authority(shop, desk):
    asks = (shop.place_hold(E1, buyer=f"b{n}", seats=SEAT) for n in range(200))
    outcomes = await asyncio.gather(*asks)
    assert sum(isinstance(outcome, Placed) for outcome in outcomes) == 1
    assert len(desk.asked) == 1


async def test_without_a_gate_all_of_the_crowd_gets_to_the_authority(desk, clock):
    """The control."""
    async with opened(desk, None, clock, "authority") as shop:
        await on_sale(shop)
        desk.asked.clear()
        await asyncio.gather(*(shop.place_hold(E1, buyer=f"b{n}", seats=SEAT) for n in range(200)))
        assert len(desk.asked) == 200


REFUSED: dict[str, tuple[Reason, dict[str, Any]]] = {
    "channel": (Reason.TAKEN, {"seats": ["S-1-1"]}),
    "unknown": (Reason.UNKNOWN_UNIT, {"seats": ["Z-1"]}),
    "pool": (Reason.UNKNOWN_UNIT, {"seats": SEAT, "pools": {"unheard": 1}}),
    "cap": (Reason.BUYER_CAP, {"seats": SEAT, "cap": 1, "pools": {"floor": 1}}),
}


@pytest.mark.parametrize("why", REFUSED)
async def test_what_the_authority_refuses_gives_its_claim_back(shop, gate, why):
    expected, ask = REFUSED[why]
    async with nothing_changes(shop):
        assert await reason(shop.place_hold(E1, buyer="bob", **ask)) is expected
    assert names(gate.asked) == ["Claim", "Free"]
    snapshot = await gate.snapshot(E1)
    assert (snapshot.owners, snapshot.claimed, snapshot.units) == ([], {}, {})


async def test_a_claim_given_back_is_not_the_next_owners(shop, desk, gate, clock):
    """The claim lapses while the authority is slow, and somebody else has the seat by then."""
    slow = asyncio.Event()
    desk.before = slow.wait
    late = asyncio.create_task(shop.place_hold(E1, buyer="late", seats=["A-1-1", "Z-1"]))
    await turns()
    clock.advance(CLAIM_MS)
    await force(shop, wrong("e1.next", buyer="next"))
    slow.set()
    assert await reason(late) is Reason.UNKNOWN_UNIT
    assert await noted(shop) == {"A-1-1": "e1.next"}


async def test_an_authority_that_cannot_be_reached_gives_the_claim_back(shop, desk):
    async def broken() -> None:
        raise StoreUnavailable("gone")

    desk.before = broken
    with pytest.raises(StoreUnavailable):
        await held(shop, seats=SEAT)
    await shop.keeper.settled()
    assert await kept(shop) == {}


async def test_whoever_stops_waiting_leaves_the_claim_to_its_deadline(shop, desk, clock):
    """His batch goes on without him, and may well succeed."""
    slow = asyncio.Event()
    desk.before = slow.wait
    try:
        ask = asyncio.create_task(held(shop, seats=SEAT))
        await turns()
        assert len(await kept(shop)) == 1
        ask.cancel()
        await turns()
        assert len(await kept(shop)) == 1
        clock.advance(CLAIM_MS)
        assert await kept(shop) == {}
    finally:
        slow.set()


async def test_a_crash_between_claim_and_write_blocks_a_seat_for_three_seconds(
    shop, other, desk, clock
):
    """The first process stops for ever before its write; the second is asked for the seat."""
    never = asyncio.Event()
    desk.before = never.wait
    dead = asyncio.create_task(shop.place_hold(E1, buyer="ann", seats=SEAT, pools={"floor": 10}))
    await turns()
    clock.advance(CLAIM_MS - 1)
    assert await reason(other.place_hold(E1, buyer="bob", seats=SEAT)) is Reason.TAKEN
    assert await reason(other.place_hold(E1, buyer="bob", pools={"floor": 1})) is Reason.SOLD_OUT
    clock.advance(1)
    await held(other, "bob", seats=SEAT, pools={"floor": 10})
    assert await differences(other) == []
    never.set()
    assert await reason(dead) is Reason.TAKEN, "the authority knows better by then"


async def test_a_crash_between_write_and_answer_is_healed_by_reconciliation(
    shop, other, desk, clock
):
    """The authority has the hold, the gate only a claim of three seconds."""
    never = asyncio.Event()
    desk.after = never.wait
    dead = asyncio.create_task(shop.place_hold(E1, buyer="ann", seats=SEAT))
    await turns()
    clock.advance(CLAIM_MS)
    assert await reason(other.place_hold(E1, buyer="bob", seats=SEAT)) is Reason.TAKEN
    other.store.asked.clear()
    assert len((await mend(other)).missing) == 1
    assert await differences(other) == []
    assert await reason(other.place_hold(E1, buyer="bob", seats=SEAT)) is Reason.TAKEN
    assert other.store.asked == [], "the gate says it again"
    never.set()
    assert isinstance(await dead, Placed)


async def test_a_crash_between_confirm_and_cleanup_is_healed_by_reconciliation(
    shop, other, gate, clock
):
    hold = await held(shop, "ann", seats=SEAT)
    gate.deaf_to = (Mark,)
    assert isinstance(await shop.confirm_hold(hold.id), Confirmed)
    gate.deaf_to = ()
    assert (await kept(shop))[hold.id].keep_ms == SOFT_MS, "not told that it is sold"
    clock.advance(SOFT_MS)
    assert await kept(shop) == {}
    async with nothing_changes(other):
        assert await reason(other.place_hold(E1, buyer="bob", seats=SEAT)) is Reason.TAKEN
    await mend(other)
    assert (await kept(other))[hold.id].keep_ms == FOREVER_MS


async def test_an_answer_that_got_lost_is_settled_and_the_claim_lengthened(shop, desk):
    lost = [CommitUnknown("the reply was lost")]

    async def after() -> None:
        if lost:
            raise lost.pop()

    desk.after = after
    hold = await held(shop, seats=SEAT)
    assert (await kept(shop))[hold.id].keep_ms == SOFT_MS
    assert await differences(shop) == []
    assert (await numbers(shop))[2] == 1


@pytest.mark.parametrize("own", [{"id": "mine"}, {"idempotency_key": "mine"}])
async def test_an_answer_under_the_callers_id_that_got_lost_is_settled_too(shop, desk, own):
    lost = [CommitUnknown("the reply was lost")]

    async def after() -> None:
        if lost:
            raise lost.pop()

    desk.after = after
    hold = await held(shop, seats=SEAT, **own)
    assert (await numbers(shop))[2] == 1
    assert (await kept(shop))[hold.id].keep_ms == SOFT_MS


async def test_an_id_that_another_has_is_refused_by_the_authority(shop):
    hold = await held(shop, "ann", id="mine", seats=SEAT)
    again = shop.place_hold(E1, buyer="bob", id="mine", seats=["A-1-2"], idempotency_key="k")
    assert await again == Refused(Reason.EXISTS, hold.id)
    assert await noted(shop) == {"A-1-1": hold.id}


async def test_a_batch_that_was_rolled_back_and_refused_leaves_no_claim(shop, desk, clock):
    """The first attempt was never committed; by the second the seat is another's."""
    rival = Desk(clock, desk)

    async def before() -> None:
        desk.before = turns
        async with opened(rival, None, clock, "authority") as behind:
            await sold(behind, "rival", seats=SEAT)
        raise CommitUnknown("the reply was lost")

    desk.before = before
    assert await reason(shop.place_hold(E1, buyer="ann", seats=SEAT)) is Reason.TAKEN
    assert await kept(shop) == {}


FOLLOWING: dict[str, tuple[Callable[[Holdfast, str], Any], int | None]] = {
    "extend": (lambda shop, id: shop.extend_hold(id), 2 * SOFT_MS),
    "extend a little": (lambda shop, id: shop.extend_hold(id, seconds=10), SOFT_MS + 10_000),
    "extend with a key": (lambda shop, id: shop.extend_hold(id, idempotency_key="k"), 2 * SOFT_MS),
    "pay": (lambda shop, id: shop.pay_hold(id), HARD_MS),
    "confirm": (lambda shop, id: shop.confirm_hold(id), FOREVER_MS),
    "confirm as o1": (lambda shop, id: shop.confirm_hold(id, order="o1"), FOREVER_MS),
    "release": (lambda shop, id: shop.release_hold(id), None),
}


@pytest.mark.parametrize("step", FOLLOWING)
async def test_what_follows_a_hold_moves_its_deadline_in_the_gate(shop, step):
    follow, keep_ms = FOLLOWING[step]
    hold = await held(shop, seats=SEAT, pools={"floor": 2})
    assert not isinstance(await follow(shop, hold.id), Refused)
    after = (await kept(shop)).get(hold.id)
    assert (after.keep_ms if after else None) == keep_ms
    assert await differences(shop) == []


async def test_what_is_sold_is_refused_by_the_gate_for_ever(shop, desk, clock):
    hold = await held(shop, seats=SEAT)
    await shop.confirm_hold(hold.id)
    clock.advance(10 * 365 * 24 * 3600 * 1000)
    desk.asked.clear()
    assert await reason(shop.place_hold(E1, buyer="bob", seats=SEAT)) is Reason.TAKEN
    assert desk.asked == []


@pytest.mark.parametrize("way", ["hold", "sell"])
async def test_a_cancelled_order_gives_its_units_back_to_the_gate(shop, way):
    if way == "hold":
        hold = await held(shop, seats=SEAT, pools={"floor": 10})
        order = (await shop.confirm_hold(hold.id)).order
    else:
        order = await sold(shop, seats=SEAT, pools={"floor": 10})
    await shop.cancel_order(order.id)
    assert await kept(shop) == {}
    await held(shop, "bob", seats=SEAT, pools={"floor": 10})


async def test_what_is_sold_directly_is_noted_for_ever(shop, desk, clock):
    order = await sold(shop, "ann", seats=SEAT, pools={"floor": 9})
    assert (await kept(shop))[order.id].keep_ms == FOREVER_MS
    clock.advance(HARD_MS)
    desk.asked.clear()
    assert await reason(shop.place_hold(E1, buyer="bob", seats=SEAT)) is Reason.TAKEN
    assert await reason(shop.place_hold(E1, buyer="bob", pools={"floor": 2})) is Reason.INSUFFICIENT
    assert desk.asked == []
    assert await differences(shop) == []


@pytest.mark.parametrize("own", [{}, {"id": "mine"}, {"idempotency_key": "mine"}])
async def test_the_best_seats_are_noted_when_they_were_chosen(shop, desk, gate, own):
    hold = await held(shop, best=3, **own)
    assert names(gate.asked) == ["Mark"]
    assert await noted(shop) == dict.fromkeys(hold.seats, hold.id)
    desk.asked.clear()
    assert await reason(shop.place_hold(E1, buyer="bob", seats=[hold.seats[0]])) is Reason.TAKEN
    assert desk.asked == []
    assert await differences(shop) == []


async def test_a_hold_that_lapses_is_free_in_both_at_once(shop, clock):
    await held(shop, "ann", seats=SEAT)
    clock.advance(SOFT_MS - 1)
    assert await reason(shop.place_hold(E1, buyer="bob", seats=SEAT)) is Reason.TAKEN
    clock.advance(1)
    await held(shop, "bob", seats=SEAT)


async def test_nobody_is_refused_by_his_own_seats(shop, desk, gate):
    hold = await held(shop, "ann", seats=SEAT)
    desk.asked.clear()
    assert await shop.place_hold(E1, buyer="ann", seats=SEAT) == Placed(hold)
    more = await shop.place_hold(E1, buyer="ann", seats=["A-1-1", "A-1-2"])
    assert more == Refused(Reason.TAKEN, seats=("A-1-1",))
    assert len(desk.asked) == 2, "the authority says it"
    assert (await kept(shop)).keys() == {hold.id}


async def test_his_own_hold_back_leaves_no_second_claim(shop, gate):
    """The gate had lost it, so the new ask got a claim."""
    hold = await held(shop, "ann", seats=SEAT)
    await force(shop, Free(hold.id))
    assert await shop.place_hold(E1, buyer="ann", seats=SEAT) == Placed(hold)
    assert await kept(shop) == {}


@pytest.mark.parametrize("own", [{"id": "mine"}, {"idempotency_key": "mine"}])
async def test_a_repetition_is_answered_as_the_first_time_whatever_the_gate_says(shop, own):
    first = await shop.place_hold(E1, buyer="ann", seats=SEAT, **own)
    assert await shop.place_hold(E1, buyer="ann", seats=SEAT, **own) == first
    await shop.release_hold(first.hold.id)
    await held(shop, "bob", seats=SEAT)
    assert await shop.place_hold(E1, buyer="ann", seats=SEAT, **own) == first
    assert await differences(shop) == []


async def test_a_wrong_yes_is_caught_by_the_authority(shop, desk, clock):
    """The gate has forgotten what was sold, and knows of more stock than there is."""
    order = await sold(shop, seats=SEAT, pools={"floor": 10})
    await force(shop, Free(order.id), Stock({"floor": 10**6, "stand": 10**6}))
    async with nothing_changes(shop):
        assert await reason(shop.place_hold(E1, buyer="bob", seats=SEAT)) is Reason.TAKEN
        asked = shop.place_hold(E1, buyer="bob", pools={"floor": 1})
        assert await reason(asked) is Reason.SOLD_OUT
    await mend(shop)
    assert await differences(shop) == []


async def test_a_wrong_no_lasts_until_reconciliation(shop):
    await force(shop, wrong(), Stock({"floor": 0, "stand": 0}))
    assert await reason(shop.place_hold(E1, buyer="bob", seats=SEAT)) is Reason.TAKEN
    assert await reason(shop.place_hold(E1, buyer="bob", pools={"floor": 1})) is Reason.SOLD_OUT
    assert await differences(shop) != []
    await mend(shop)
    await held(shop, "bob", seats=SEAT, pools={"floor": 10})


async def test_a_wrong_no_lasts_until_its_deadline_at_most(shop, clock):
    await force(shop, wrong(keep_ms=500))
    assert await reason(shop.place_hold(E1, buyer="bob", seats=SEAT)) is Reason.TAKEN
    clock.advance(500)
    await held(shop, "bob", seats=SEAT)


async def test_a_gate_that_was_emptied_judges_nothing_until_it_is_filled(shop, gate, desk):
    hold = await held(shop, "ann", seats=SEAT)
    await gate.clear(E1)
    desk.asked.clear()
    assert await reason(shop.place_hold(E1, buyer="bob", seats=SEAT)) is Reason.TAKEN
    assert len(desk.asked) == 1, "by the authority"
    assert (await shop.hold(hold.id)) == hold
    await mend(shop)
    assert await reason(shop.place_hold(E1, buyer="bob", seats=SEAT)) is Reason.TAKEN
    assert len(desk.asked) == 1, "by the gate"


async def test_an_emptied_gate_is_filled_by_itself(desk, gate, clock):
    async with opened(desk, gate, clock, "two-layer") as shop:
        await on_sale(shop)
        hold = await held(shop, "ann", seats=SEAT)
        await gate.clear(E1)
        assert shop.reconciler is not None
        shop.reconciler.start(periodic=False)
        await shop.place_hold(E1, buyer="bob", seats=SEAT)
        await turns()
        assert (await kept(shop)).keys() == {hold.id}


async def test_a_gate_that_comes_back_is_reconciled_by_itself(desk, gate, clock):
    async with opened(desk, gate, clock, "two-layer") as shop:
        await on_sale(shop)
        first = await held(shop, "ann", seats=["A-1-1"])
        with down(gate):
            await shop.release_hold(first.id)
            second = await held(shop, "ann", seats=["A-1-2"])
        assert (await kept(shop)).keys() == {first.id}
        assert shop.reconciler is not None
        shop.reconciler.start(periodic=False)
        await shop.place_hold(E1, buyer="bob", seats=["A-1-3"])
        await turns()
        assert (await kept(shop)).keys() == {second.id}.union(
            id for id, owned in (await kept(shop)).items() if owned.buyer == "bob"
        )
        assert await differences(shop) == []


async def story(shop: Holdfast) -> list[str]:
    """A bit of everything, in words."""
    told = []

    async def tell(asked: Any) -> Any:
        outcome = await asked
        told.append(said(outcome))
        return outcome

    ann = await tell(shop.place_hold(E1, buyer="ann", seats=["A-1-1"], pools={"floor": 6}))
    await tell(shop.place_hold(E1, buyer="bob", seats=["A-1-1"]))
    await tell(shop.place_hold(E1, buyer="ann", seats=["A-1-1"], pools={"floor": 6}))
    await tell(shop.place_hold(E1, buyer="bob", pools={"floor": 5}))
    await tell(shop.place_hold(E1, buyer="bob", seats=["Z-1"]))
    bob = await tell(shop.place_hold(E1, buyer="bob", best=2, id="b1"))
    await tell(shop.place_hold(E1, buyer="bob", best=2, id="b1"))
    await tell(shop.sell(E1, buyer="cid", seats=["A-1-1"]))
    cid = await tell(shop.sell(E1, buyer="cid", seats=["A-2-1"], pools={"floor": 4}))
    await tell(shop.extend_hold(ann.hold.id))
    await tell(shop.extend_hold(ann.hold.id))
    await tell(shop.pay_hold(ann.hold.id, buyer="bob"))
    await tell(shop.pay_hold(ann.hold.id, buyer="ann", version=2))
    await tell(shop.confirm_hold(ann.hold.id, payment="p1"))
    await tell(shop.confirm_hold(ann.hold.id, payment="p1"))
    await tell(shop.release_hold(bob.hold.id))
    await tell(shop.release_hold(bob.hold.id))
    await tell(shop.cancel_order(cid.order.id))
    await tell(shop.place_hold(E1, buyer="dee", seats=["A-2-1"], pools={"floor": 4}, cap=4))
    await tell(shop.place_hold(E1, buyer="dee", seats=["A-2-1"], pools={"floor": 4}, cap=5))
    await tell(shop.pause_event(E1))
    await tell(shop.place_hold(E1, buyer="eve", seats=["A-2-2"]))
    return told


@pytest.mark.parametrize("mood", ["up", "down", "emptied", "deaf", "switched off"])
@pytest.mark.parametrize("policy", ["two-layer", "gate"])
async def test_outcomes_are_the_same_whether_the_gate_answers_or_not(
    desk, gate, clock, policy, mood
):
    async with opened(Desk(clock), None, clock, "authority") as plain:
        await on_sale(plain)
        expected = await story(plain)
    async with opened(desk, gate, clock, policy) as shop:
        await on_sale(shop)
        gate.down = mood == "down"
        gate.deaf_to = (Claim, Mark, Free, Keep) if mood == "deaf" else ()
        if mood == "emptied":
            await gate.clear(E1)
        if mood == "switched off":
            await shop.change_event(E1, gate=False)
        assert await story(shop) == expected


async def test_a_gate_that_fails_in_the_middle_of_a_sale_changes_no_outcome(desk, gate, clock):
    async with opened(desk, gate, clock, "two-layer") as shop:
        await on_sale(shop)
        hold = await held(shop, "ann", seats=SEAT)
        with down(gate):
            assert await reason(shop.place_hold(E1, buyer="bob", seats=SEAT)) is Reason.TAKEN
            assert isinstance(await shop.pay_hold(hold.id), Paying)
            assert isinstance(await shop.confirm_hold(hold.id), Confirmed)
        await mend(shop)
        assert await differences(shop) == []
        assert (await kept(shop))[hold.id].keep_ms == FOREVER_MS


async def test_a_gate_switched_off_in_the_middle_of_a_stampede_still_sells_one(desk, gate, clock):
    async with opened(desk, gate, clock, "two-layer") as shop:
        await on_sale(shop)
        asks = [shop.place_hold(E1, buyer=f"b{n}", seats=SEAT) for n in range(100)]
        off = shop.change_event(E1, gate=False)
        more = [shop.place_hold(E1, buyer=f"c{n}", seats=SEAT) for n in range(100)]
        outcomes = await asyncio.gather(*asks, off, *more)
        assert sum(isinstance(outcome, Placed) for outcome in outcomes) == 1


async def test_events_of_policy_authority_do_not_touch_the_gate(desk, gate, clock):
    async with opened(desk, gate, clock, "authority") as shop:
        await on_sale(shop)
        gate.asked.clear()
        hold = await held(shop, seats=SEAT)
        await shop.confirm_hold(hold.id)
        await sold(shop, seats=["A-1-2"])
        await held(shop, best=2)
        assert [op for op in gate.asked if isinstance(op, Claim | Mark | Keep | Free)] == []
        assert await kept(shop) == {}


async def test_two_layers_before_a_file(tmp_path, gate, clock):
    """SQLite beneath, two processes beside: one seat, one buyer."""
    here, there = make_sqlite(tmp_path, clock), make_sqlite(tmp_path, clock)
    async with (
        opened(here, gate, clock, "two-layer") as first,
        opened(there, gate, clock, "two-layer") as second,
    ):
        await on_sale(first)
        asks = [
            shop.place_hold(E1, buyer=f"b{n}", seats=SEAT)
            for n, shop in enumerate([first, second] * 25)
        ]
        outcomes = await asyncio.gather(*asks)
        [placed] = [outcome for outcome in outcomes if isinstance(outcome, Placed)]
        assert isinstance(await second.confirm_hold(placed.hold.id), Confirmed)
        assert await differences(first) == []
        assert await drift(here) == []
