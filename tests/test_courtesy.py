"""Policy `gate`: a hold lives in the gate alone until payment begins. It is a courtesy, and the
authority is asked before any money moves."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from holdfast import Confirmed, Extended, Holdfast, Paying, Placed, Reason, Refused, Released
from holdfast.domain.gating import Find, Free, Keep, Kind, Mark, Owned
from holdfast.domain.model import FOREVER_MS, HoldState
from holdfast.errors import StoreUnavailable
from tests.conftest import make_sqlite
from tests.contract.helpers import (
    CAPACITY,
    E1,
    FLOOR,
    GOLD,
    GRACE_MS,
    HARD_MS,
    SOFT_MS,
    held,
    log,
    log_types,
    nothing_changes,
    numbers,
    on_sale,
    pools_left,
    reason,
    seat_states,
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
)

__all__ = ["no_pause", "no_waiting"]

SEAT = ["A-1-1"]
BASKET: dict[str, Any] = {"seats": ["A-1-1", "A-1-2"], "pools": {"floor": 2}}
AMOUNT = 2 * GOLD + 2 * FLOOR
pytestmark = pytest.mark.usefixtures("no_pause", "no_waiting")


@pytest.fixture
def desk(clock) -> Desk:
    return Desk(clock)


@pytest.fixture
def gate(clock) -> Post:
    return Post(clock)


@pytest.fixture
async def shop(desk, gate, clock) -> AsyncIterator[Holdfast]:
    async with opened(desk, gate, clock, "gate") as shop:
        await on_sale(shop)
        yield shop


@pytest.fixture
async def behind(shop, desk, clock) -> AsyncIterator[Holdfast]:
    """A shop on the same authority that knows of no gate, and sells behind its back."""
    async with opened(Desk(clock, desk), None, clock, "authority") as behind:
        yield behind


@pytest.fixture
async def other(shop, desk, gate, clock) -> AsyncIterator[Holdfast]:
    """A second process before the same gate."""
    async with opened(Desk(clock, desk), gate, clock, "gate") as other:
        yield other


async def courtesy(shop: Holdfast, buyer: str = "ann", **ask: Any) -> Any:
    """A hold that must be a courtesy."""
    hold = await held(shop, buyer, **(ask or BASKET))
    assert (await kept(shop))[hold.id].kind is Kind.COURTESY
    return hold


PAYING: dict[str, Callable[[Holdfast, str], Any]] = {
    "pay": lambda shop, id: shop.pay_hold(id),
    "confirm": lambda shop, id: shop.confirm_hold(id),
    "confirm as o1": lambda shop, id: shop.confirm_hold(id, order="o1"),
    "confirm with a key": lambda shop, id: shop.confirm_hold(id, idempotency_key="k"),
}
FOLLOWING = PAYING | {
    "extend": lambda shop, id: shop.extend_hold(id),
    "extend with a key": lambda shop, id: shop.extend_hold(id, idempotency_key="k"),
    "release": lambda shop, id: shop.release_hold(id),
}


# Living in the gate alone


async def test_a_courtesy_is_neither_in_the_store_nor_on_the_log(shop, desk):
    desk.asked.clear()
    async with nothing_changes(shop):
        hold = await courtesy(shop)
    assert desk.asked == []
    assert await desk.hold(E1, hold.id) is None
    assert (hold.buyer, hold.seats, hold.pools) == ("ann", ("A-1-1", "A-1-2"), {"floor": 2})
    assert (hold.state, hold.version, hold.amount) == (HoldState.HELD, 1, AMOUNT)


async def test_its_deadlines_are_those_of_every_hold(shop, clock):
    hold = await courtesy(shop)
    now = clock()
    assert (hold.placed_ms, hold.soft_ms, hold.hard_ms) == (now, now + SOFT_MS, now + HARD_MS)


async def test_it_is_shown_as_every_hold_is(shop, clock):
    hold = await courtesy(shop)
    assert await shop.hold(hold.id) == hold
    clock.advance(SOFT_MS - 1)
    assert await shop.hold(hold.id) == hold
    clock.advance(1)
    assert (await shop.hold(hold.id)).state is HoldState.EXPIRED


async def test_another_process_shows_it_too(shop, other):
    hold = await courtesy(shop)
    assert await other.hold(hold.id) == hold
    assert await other.hold("e1.unheard") is None


async def test_two_courtesies_never_have_the_same_seat(shop, other):
    asks = [
        each.place_hold(E1, buyer=f"b{n}", seats=["A-1-1", f"A-2-{n % 5 + 1}"])
        for n, each in enumerate([shop, other] * 50)
    ]
    outcomes = await asyncio.gather(*asks)
    assert sum(isinstance(outcome, Placed) for outcome in outcomes) == 1
    refused = [outcome for outcome in outcomes if isinstance(outcome, Refused)]
    assert {outcome.reason for outcome in refused} == {Reason.TAKEN}


async def test_pools_are_never_promised_twice(shop, other):
    asks = [
        each.place_hold(E1, buyer=f"b{n}", pools={"floor": 3})
        for n, each in enumerate([shop, other] * 20)
    ]
    outcomes = await asyncio.gather(*asks)
    assert sum(isinstance(outcome, Placed) for outcome in outcomes) == 3
    for outcome in outcomes:
        if isinstance(outcome, Placed):
            assert isinstance(await shop.confirm_hold(outcome.hold.id), Confirmed)
    assert await pools_left(shop) == {"floor": 1, "stand": 0}


async def test_courtesies_are_refused_what_the_authority_has_given_away(shop, desk):
    await sold(shop, "ann", seats=SEAT, pools={"floor": 8})
    best = await held(shop, "ann", best=1)
    desk.asked.clear()
    assert await reason(shop.place_hold(E1, buyer="bob", seats=SEAT)) is Reason.TAKEN
    assert await reason(shop.place_hold(E1, buyer="bob", seats=[*best.seats])) is Reason.TAKEN
    assert await reason(shop.place_hold(E1, buyer="bob", pools={"floor": 3})) is Reason.INSUFFICIENT
    assert desk.asked == []


async def test_a_courtesy_frees_its_units_at_its_deadline(shop, clock):
    await courtesy(shop, "ann", seats=SEAT, pools={"floor": 10})
    clock.advance(SOFT_MS - 1)
    assert await reason(shop.place_hold(E1, buyer="bob", seats=SEAT)) is Reason.TAKEN
    clock.advance(1)
    await courtesy(shop, "bob", seats=SEAT, pools={"floor": 10})


REFUSED: dict[str, tuple[dict[str, Any], Refused]] = {
    "channel": ({"seats": ["S-1-1"]}, Refused(Reason.TAKEN, seats=("S-1-1",))),
    "pool": ({"pools": {"stand": 1}}, Refused(Reason.SOLD_OUT, pools=("stand",), available=0)),
    "unknown": ({"seats": ["Z-1"]}, Refused(Reason.UNKNOWN_UNIT, seats=("Z-1",))),
    "cap": ({"seats": ["A-1-1", "A-1-2"], "cap": 1}, Refused(Reason.BUYER_CAP, cap=1)),
}


@pytest.mark.parametrize("why", REFUSED)
async def test_refusals_are_those_of_the_authority(shop, why):
    ask, expected = REFUSED[why]
    async with nothing_changes(shop):
        assert await shop.place_hold(E1, buyer="bob", **ask) == expected
    assert await kept(shop) == {}


async def test_a_channel_that_is_named_opens_its_units(shop):
    hold = await courtesy(shop, seats=["S-1-1"], pools={"stand": 2}, channels=["sponsors"])
    assert isinstance(await shop.confirm_hold(hold.id), Confirmed)


async def test_nobody_is_refused_by_his_own_courtesy(shop, other):
    hold = await courtesy(shop, "ann", **BASKET)
    assert await shop.place_hold(E1, buyer="ann", **BASKET) == Placed(hold)
    assert await other.place_hold(E1, buyer="ann", **BASKET) == Placed(hold)
    assert await reason(shop.place_hold(E1, buyer="ann", seats=SEAT)) is Reason.TAKEN
    assert await reason(shop.place_hold(E1, buyer="bob", **BASKET)) is Reason.TAKEN


# Payment begins


async def test_pay_makes_one_guarded_write(shop, desk, clock):
    hold = await courtesy(shop)
    seq = len(await log(shop))
    clock.advance(1_000)
    desk.asked.clear()
    paying = (await shop.pay_hold(hold.id)).hold
    assert len(desk.asked) == 1
    assert await log_types(shop, after=seq) == ["hold.placed", "hold.paying"]
    assert (paying.id, paying.state, paying.version) == (hold.id, HoldState.PAYING, 2)
    assert (paying.soft_ms, paying.hard_ms) == (hold.soft_ms, hold.hard_ms)
    assert await shop.hold(hold.id) == paying
    assert await numbers(shop) == (CAPACITY, CAPACITY - 4, 4, 0)
    assert await differences(shop) == []


async def test_paying_again_changes_nothing(shop):
    hold = await courtesy(shop)
    paying = await shop.pay_hold(hold.id)
    async with nothing_changes(shop):
        assert await shop.pay_hold(hold.id) == paying


async def test_paying_twice_at_once_is_paying_once(shop, other):
    hold = await courtesy(shop)
    outcomes = await asyncio.gather(*(each.pay_hold(hold.id) for each in [shop, other] * 5))
    assert all(isinstance(outcome, Paying) for outcome in outcomes), outcomes
    assert (await log_types(shop)).count("hold.placed") == 1


async def test_another_process_may_be_paid(shop, other):
    hold = await courtesy(shop)
    assert isinstance(await other.pay_hold(hold.id), Paying)
    assert isinstance(await shop.confirm_hold(hold.id), Confirmed)


async def test_a_hold_that_is_paid_for_lasts_until_its_hard_deadline(shop, clock):
    hold = await courtesy(shop, seats=SEAT)
    await shop.pay_hold(hold.id)
    clock.advance(HARD_MS - 1)
    assert await reason(shop.place_hold(E1, buyer="bob", seats=SEAT)) is Reason.TAKEN
    clock.advance(1)
    await courtesy(shop, "bob", seats=SEAT)


@pytest.mark.parametrize("way", [way for way in PAYING if way != "pay"])
async def test_a_courtesy_may_be_confirmed_directly(shop, way):
    hold = await courtesy(shop)
    seq = len(await log(shop))
    order = (await PAYING[way](shop, hold.id)).order
    assert (order.hold, order.amount, order.buyer) == (hold.id, AMOUNT, "ann")
    said = await log_types(shop, after=seq)
    assert said == ["hold.placed", "hold.paying", "order.confirmed"]
    async with nothing_changes(shop):
        assert await PAYING[way](shop, hold.id) == Confirmed(order)


@pytest.mark.parametrize("way", PAYING)
async def test_the_amount_is_the_price_when_it_was_placed(shop, way):
    hold = await courtesy(shop)
    await shop.change_event(E1, prices={"gold": 1, "floor": 1})
    await PAYING[way](shop, hold.id)
    await shop.confirm_hold(hold.id)
    [order] = (await shop.store.census(E1)).orders
    assert order.amount == AMOUNT


async def test_extensions_and_version_are_carried_over(shop, clock):
    hold = await courtesy(shop)
    clock.advance(10_000)
    extended = (await shop.extend_hold(hold.id, version=1, seconds=60)).hold
    assert (extended.version, extended.extensions) == (2, 1)
    assert extended.soft_ms == hold.soft_ms + 60_000
    assert extended.placed_ms == hold.placed_ms
    assert await shop.hold(hold.id) == extended
    assert await desk_hold(shop, hold.id) is None, "it is a courtesy still"
    paying = (await shop.pay_hold(hold.id, version=2)).hold
    assert (paying.version, paying.extensions) == (3, 1)
    assert (paying.soft_ms, paying.hard_ms) == (extended.soft_ms, extended.soft_ms + GRACE_MS)
    assert await reason(shop.extend_hold(hold.id)) is Reason.EXTENSION_LIMIT


async def desk_hold(shop: Holdfast, id: str) -> Any:
    return await shop.store.hold(E1, id)


async def test_an_extension_moves_the_deadline_in_the_gate(shop, clock):
    hold = await courtesy(shop, seats=SEAT)
    await shop.extend_hold(hold.id)
    clock.advance(2 * SOFT_MS - 1)
    assert await reason(shop.place_hold(E1, buyer="bob", seats=SEAT)) is Reason.TAKEN
    clock.advance(1)
    await courtesy(shop, "bob", seats=SEAT)


async def test_a_courtesy_may_be_extended_as_often_as_every_hold(shop):
    hold = await courtesy(shop)
    assert isinstance(await shop.extend_hold(hold.id), Extended)
    assert await shop.extend_hold(hold.id) == Refused(Reason.EXTENSION_LIMIT, hold.id, cap=1)


async def test_a_release_gives_everything_back_and_again_nothing(shop):
    hold = await courtesy(shop, seats=SEAT, pools={"floor": 10})
    async with nothing_changes(shop):
        released = await shop.release_hold(hold.id)
        assert isinstance(released, Released)
        assert released.hold.state is HoldState.RELEASED
        assert await kept(shop) == {}
        await courtesy(shop, "bob", seats=SEAT, pools={"floor": 10})
        assert await shop.release_hold(hold.id) == released
        assert await reason(shop.place_hold(E1, buyer="cid", seats=SEAT)) is Reason.TAKEN
    assert (await shop.hold(hold.id)).state is HoldState.RELEASED


@pytest.mark.parametrize("step", FOLLOWING)
async def test_nobody_follows_anothers_courtesy(shop, step):
    hold = await courtesy(shop, "ann")
    call = getattr(shop, f"{step.split()[0]}_hold")
    async with nothing_changes(shop):
        assert await call(hold.id, buyer="bob") == Refused(Reason.NOT_YOURS, hold.id)
    assert await shop.hold(hold.id) == hold


@pytest.mark.parametrize("step", ["pay", "confirm", "extend", "release"])
async def test_a_stale_version_is_refused(shop, other, step):
    hold = await courtesy(shop)
    await other.extend_hold(hold.id)
    async with nothing_changes(shop):
        stale = await getattr(shop, f"{step}_hold")(hold.id, version=1)
    assert stale == Refused(Reason.STALE, "2")
    assert (await shop.hold(hold.id)).version == 2


@pytest.mark.parametrize("step", ["pay", "confirm", "extend"])
@pytest.mark.parametrize("end", ["lapsed", "released"])
async def test_a_courtesy_that_is_over_cannot_be_followed(shop, clock, step, end):
    hold = await courtesy(shop)
    if end == "released":
        await shop.release_hold(hold.id)
    else:
        clock.advance(SOFT_MS)
    expected = Reason.RELEASED if end == "released" else Reason.EXPIRED
    async with nothing_changes(shop):
        assert await getattr(shop, f"{step}_hold")(hold.id) == Refused(expected, hold.id)


async def test_a_courtesy_is_alive_until_the_last_millisecond(shop, clock):
    hold = await courtesy(shop)
    clock.advance(SOFT_MS - 1)
    paying = (await shop.pay_hold(hold.id)).hold
    assert (paying.soft_ms, paying.hard_ms) == (hold.soft_ms, hold.hard_ms)


@pytest.mark.parametrize("own", [{"id": "mine"}, {"idempotency_key": "mine"}])
async def test_an_ask_under_the_callers_own_id_is_the_authoritys(shop, own):
    first = await shop.place_hold(E1, buyer="ann", seats=SEAT, **own)
    assert (await desk_hold(shop, first.hold.id))[0] == first.hold
    assert (await kept(shop))[first.hold.id].kind is Kind.HELD
    async with nothing_changes(shop):
        assert await shop.place_hold(E1, buyer="ann", seats=SEAT, **own) == first
        again = await shop.place_hold(E1, buyer="ann", seats=["A-1-2"], **own)
    assert again.reason is Reason.IDEMPOTENCY_MISMATCH
    assert await differences(shop) == []


@pytest.mark.parametrize("own", [{"id": "mine"}, {"idempotency_key": "mine"}])
async def test_an_ask_under_the_callers_own_id_gets_nobodys_courtesy(shop, own):
    await courtesy(shop, "ann", seats=SEAT, pools={"floor": 8})
    bob = {"buyer": "bob", **own}
    async with nothing_changes(shop):
        refused = await shop.place_hold(E1, seats=["A-1-1", "A-1-2"], **bob)
        assert refused == Refused(Reason.TAKEN, seats=("A-1-1",))
        short = await shop.place_hold(E1, pools={"floor": 3}, **bob)
        assert short == Refused(Reason.INSUFFICIENT, pools=("floor",), available=2)
    assert isinstance(await shop.place_hold(E1, pools={"floor": 2}, **bob), Placed)


# What the gate knows afterwards


@pytest.mark.parametrize("step", FOLLOWING)
async def test_what_follows_a_courtesy_leaves_nothing_to_mend(shop, step):
    hold = await courtesy(shop)
    assert not isinstance(await FOLLOWING[step](shop, hold.id), Refused)
    assert await differences(shop) == []


async def test_what_was_sold_from_a_courtesy_is_refused_by_the_gate_for_ever(shop, desk, clock):
    hold = await courtesy(shop, seats=SEAT)
    await shop.confirm_hold(hold.id)
    assert (await kept(shop))[hold.id].keep_ms == FOREVER_MS


@pytest.mark.parametrize("own", [{}, {"id": "mine"}])
async def test_the_best_seats_are_in_the_gate_when_they_were_chosen(shop, own):
    hold = await held(shop, best=2, **own)
    assert await differences(shop) == []
    assert await noted(shop) == dict.fromkeys(hold.seats, hold.id)


# The units are gone


@pytest.mark.parametrize("way", PAYING)
@pytest.mark.parametrize("gone", ["seat", "pool"])
async def test_units_that_were_sold_meanwhile_are_refused_before_any_money_moves(
    shop, behind, way, gone
):
    hold = await courtesy(shop, "ann", seats=SEAT, pools={"floor": 5})
    order = await sold(
        behind, "bob", **({"seats": SEAT} if gone == "seat" else {"pools": {"floor": 6}})
    )
    async with nothing_changes(shop):
        refused = await PAYING[way](shop, hold.id)
    expected = {
        "seat": Refused(Reason.TAKEN, seats=("A-1-1",)),
        "pool": Refused(Reason.INSUFFICIENT, pools=("floor",), available=4),
    }
    assert refused == expected[gone]
    assert [each.id for each in (await shop.store.census(E1)).orders] == [order.id]
    assert hold.id not in await kept(shop), "it is over"
    async with nothing_changes(shop):
        assert isinstance(await PAYING[way](shop, hold.id), Refused)


@pytest.mark.parametrize("way", PAYING)
async def test_a_courtesy_past_the_cap_of_the_authority_is_refused(shop, behind, way):
    hold = await courtesy(shop, "ann", seats=SEAT, cap=2)
    await sold(behind, "ann", seats=["A-2-1", "A-2-2"])
    async with nothing_changes(shop):
        assert await PAYING[way](shop, hold.id) == Refused(Reason.BUYER_CAP, cap=2)


@pytest.mark.parametrize("way", PAYING)
async def test_a_courtesy_of_a_paused_event_is_not_sold(shop, way):
    hold = await courtesy(shop)
    await shop.pause_event(E1)
    assert await reason(shop.place_hold(E1, buyer="bob", seats=["A-2-1"])) is Reason.NOT_ON_SALE
    assert await shop.hold(hold.id) == hold
    async with nothing_changes(shop):
        assert await reason(PAYING[way](shop, hold.id)) is Reason.NOT_ON_SALE


async def test_the_authority_cannot_be_reached_and_then_it_can(shop, desk):
    hold = await courtesy(shop)

    async def broken() -> None:
        raise StoreUnavailable("gone")

    before, desk.before = desk.before, broken
    for way in PAYING.values():
        with pytest.raises(StoreUnavailable):
            await way(shop, hold.id)
    assert (await shop.hold(hold.id)).state is HoldState.HELD
    desk.before = before
    assert isinstance(await shop.pay_hold(hold.id), Paying)


# The gate is emptied


@pytest.mark.parametrize("way", PAYING)
async def test_a_hold_that_the_gate_lost_is_placed_anew_if_its_units_are_free(shop, gate, way):
    hold = await courtesy(shop)
    await gate.clear(E1)
    assert await shop.hold(hold.id) == hold
    assert not isinstance(await PAYING[way](shop, hold.id), Refused)
    [row] = (await shop.store.census(E1)).holds
    assert (row.id, row.amount, row.hard_ms) == (hold.id, AMOUNT, hold.hard_ms)


@pytest.mark.parametrize("way", PAYING)
@pytest.mark.parametrize("ready", [True, False])
async def test_a_hold_that_the_gate_lost_is_refused_if_its_units_are_not_free(
    shop, gate, way, ready
):
    hold = await courtesy(shop, "ann", seats=SEAT)
    await gate.clear(E1)
    if ready:
        await mend(shop)
    rival = await held(shop, "bob", seats=SEAT)
    await shop.pay_hold(rival.id)
    async with nothing_changes(shop):
        assert await reason(PAYING[way](shop, hold.id)) is Reason.TAKEN
    assert isinstance(await shop.confirm_hold(rival.id), Confirmed)


async def test_of_two_who_believe_to_have_a_seat_the_first_to_pay_has_it(shop, gate):
    """The gate was emptied between the two courtesies."""
    ann = await courtesy(shop, "ann", seats=SEAT)
    await gate.clear(E1)
    await mend(shop)
    bob = await courtesy(shop, "bob", seats=SEAT)
    assert isinstance(await shop.pay_hold(ann.id), Paying)
    async with nothing_changes(shop):
        assert await reason(shop.pay_hold(bob.id)) is Reason.TAKEN
        assert await reason(shop.confirm_hold(bob.id)) is not None
    assert isinstance(await shop.confirm_hold(ann.id), Confirmed)


async def test_a_hold_that_the_gate_lost_is_unknown_to_another_process(shop, other, gate):
    """Its units were written nowhere else: a clean refusal, and nothing is charged."""
    hold = await courtesy(shop)
    await gate.clear(E1)
    async with nothing_changes(shop):
        assert await other.pay_hold(hold.id) == Refused(Reason.UNKNOWN_HOLD, hold.id)
    assert await other.hold(hold.id) is None


@pytest.mark.parametrize("step", ["extend", "release"])
async def test_a_lost_hold_may_be_extended_and_released(shop, gate, step):
    hold = await courtesy(shop, "ann", seats=SEAT)
    await gate.clear(E1)
    outcome = await FOLLOWING[step](shop, hold.id)
    assert not isinstance(outcome, Refused)
    if step == "extend":
        assert (outcome.hold.soft_ms, outcome.hold.version) == (hold.soft_ms + SOFT_MS, 2)
        assert await reason(shop.place_hold(E1, buyer="bob", seats=SEAT)) is Reason.TAKEN
        assert isinstance(await shop.pay_hold(hold.id), Paying)
    else:
        await held(shop, "bob", seats=SEAT)


@pytest.mark.parametrize("why", ["sold", "paused"])
async def test_giving_back_is_never_refused_because_others_have_the_units(shop, gate, why):
    hold = await courtesy(shop, "ann", seats=SEAT)
    await gate.clear(E1)
    if why == "sold":
        await sold(shop, "bob", seats=SEAT)
    else:
        await shop.pause_event(E1)
    assert isinstance(await shop.release_hold(hold.id), Released)


# The gate is down


@pytest.mark.parametrize("step", FOLLOWING)
async def test_with_the_gate_down_the_authority_takes_the_hold_over(shop, gate, step):
    hold = await courtesy(shop)
    with down(gate):
        assert await shop.hold(hold.id) == hold
        assert not isinstance(await FOLLOWING[step](shop, hold.id), Refused)
        assert (await desk_hold(shop, hold.id))[0].amount == AMOUNT


async def test_with_the_gate_down_holds_are_the_authoritys(shop, gate):
    with down(gate):
        hold = await held(shop, "ann", seats=SEAT)
        assert (await desk_hold(shop, hold.id))[0] == hold
        assert await reason(shop.place_hold(E1, buyer="bob", seats=SEAT)) is Reason.TAKEN
    await mend(shop)
    assert (await kept(shop))[hold.id].kind is Kind.HELD


@pytest.mark.parametrize("way", PAYING)
async def test_with_the_gate_down_a_seat_is_sold_once_all_the_same(shop, gate, way):
    ann = await courtesy(shop, "ann", seats=SEAT)
    with down(gate):
        bob = await held(shop, "bob", seats=SEAT)
        assert await reason(PAYING[way](shop, ann.id)) is Reason.TAKEN
        assert not isinstance(await PAYING[way](shop, bob.id), Refused)


async def test_with_the_gate_down_a_courtesy_ends_at_its_deadline(shop, gate, clock):
    hold = await courtesy(shop)
    clock.advance(SOFT_MS)
    with down(gate):
        async with nothing_changes(shop):
            assert await shop.pay_hold(hold.id) == Refused(Reason.EXPIRED, hold.id)


BACK_AGAIN = {
    "extend": "pay",
    "extend with a key": "confirm",
}


@pytest.mark.parametrize("step", BACK_AGAIN)
async def test_a_hold_that_was_taken_over_is_paid_for_when_the_gate_is_back(shop, gate, step):
    hold = await courtesy(shop)
    with down(gate):
        assert isinstance(await FOLLOWING[step](shop, hold.id), Extended)
    outcome = await FOLLOWING[BACK_AGAIN[step]](shop, hold.id)
    assert not isinstance(outcome, Refused), outcome


async def test_what_was_released_while_the_gate_was_down_is_free_after_reconciliation(shop, gate):
    hold = await courtesy(shop, "ann", seats=SEAT)
    with down(gate):
        assert isinstance(await shop.release_hold(hold.id), Released)
    await mend(shop)
    assert (await shop.hold(hold.id)).state is HoldState.RELEASED
    assert isinstance(await shop.place_hold(E1, buyer="bob", seats=SEAT), Placed)


@pytest.mark.parametrize("step", ["extend", "release"])
async def test_a_gate_that_fails_between_look_and_change_is_not_believed(shop, gate, step):
    hold = await courtesy(shop, "ann", seats=SEAT)
    gate.deaf_to = (Keep, Free)
    outcome = await FOLLOWING[step](shop, hold.id)
    gate.deaf_to = ()
    assert not isinstance(outcome, Refused)
    await mend(shop)
    seen = await shop.hold(hold.id)
    assert (seen.state, seen.soft_ms) == (outcome.hold.state, outcome.hold.soft_ms)


# Others who know of the courtesy


async def test_a_hold_that_was_paid_and_released_elsewhere_is_not_paid_for_again(shop, other):
    hold = await courtesy(shop, "ann", seats=SEAT)
    assert isinstance(await other.pay_hold(hold.id), Paying)
    assert isinstance(await other.release_hold(hold.id), Released)
    await sold(other, "bob", seats=SEAT)
    outcome = await shop.pay_hold(hold.id)
    assert outcome == Refused(Reason.RELEASED, hold.id)


async def test_a_courtesy_that_was_sold_by_name_does_not_come_back_with_a_cancellation(shop):
    hold = await courtesy(shop, "ann", seats=SEAT)
    order = await sold(shop, "ann", seats=SEAT, hold=hold.id)
    assert (await numbers(shop))[2:] == (0, 1), "counted once"
    await shop.cancel_order(order.id)
    assert await shop.hold(hold.id) is None
    assert isinstance(await shop.pay_hold(hold.id), Refused)


# Beside courtesies


async def test_the_map_and_the_summary_show_courtesies(shop, other):
    await courtesy(shop, "ann", **BASKET)
    sponsors = await courtesy(
        shop, "spo", seats=["S-1-1"], pools={"stand": 1}, channels=["sponsors"]
    )
    for each in (shop, other):
        states = await seat_states(each, channels=["sponsors"])
        assert {id for id, state in states.items() if state == "held"} == {
            "A-1-1",
            "A-1-2",
            "S-1-1",
        }
        assert await pools_left(each, channels=["sponsors"]) == {"floor": 8, "stand": 4}
        assert (await seat_states(each))["S-1-1"] == "sold", "to whoever may not have it"
        assert await pools_left(each) == {"floor": 8, "stand": 0}
        assert await numbers(each) == (CAPACITY, CAPACITY - 6, 6, 0)
        assert (await each.events())[0].held == 6
    await shop.release_hold(sponsors.id)
    assert await numbers(shop) == (CAPACITY, CAPACITY - 4, 4, 0)


async def test_the_map_of_the_same_process_is_of_this_moment(shop):
    assert (await seat_states(shop))["A-1-1"] == "available"
    hold = await courtesy(shop, "ann", seats=SEAT)
    assert (await seat_states(shop))["A-1-1"] == "held"
    await shop.release_hold(hold.id)
    assert (await seat_states(shop))["A-1-1"] == "available"


async def test_each_unit_is_counted_once_on_its_way(shop):
    hold = await courtesy(shop)
    assert await numbers(shop) == (CAPACITY, CAPACITY - 4, 4, 0)
    await shop.pay_hold(hold.id)
    assert await numbers(shop) == (CAPACITY, CAPACITY - 4, 4, 0)
    await shop.confirm_hold(hold.id)
    assert await numbers(shop) == (CAPACITY, CAPACITY - 4, 0, 4)


async def test_the_map_of_another_process_is_a_moment_old_at_most(shop, other, clock):
    assert (await seat_states(other))["A-1-1"] == "available"
    await courtesy(shop, "ann", seats=SEAT)
    clock.advance(201)
    assert (await seat_states(other))["A-1-1"] == "held"


async def test_best_available_chooses_beside_courtesies(shop):
    first = await held(shop, "zed", best=3)
    await shop.release_hold(first.id)
    await courtesy(shop, "ann", seats=list(first.seats))
    hold = await held(shop, "bob", best=3)
    assert not set(hold.seats) & set(first.seats)
    assert (await desk_hold(shop, hold.id))[0] == hold
    assert await differences(shop) == []


async def test_best_available_is_short_of_what_courtesies_have(shop):
    seats = [f"A-{row}-{number}" for row in (1, 2) for number in range(1, 6)]
    await courtesy(shop, "ann", seats=seats)
    gold = {"quantity": 1, "tier": "gold"}
    assert await shop.place_hold(E1, buyer="bob", best=gold) == Refused(
        Reason.SOLD_OUT, available=0
    )


async def test_best_seats_that_were_given_away_meanwhile_are_chosen_anew(shop, other, clock):
    """The courtesy of the other process is too young to be known here."""
    best = (await held(shop, "zed", best=2)).seats
    await shop.release_hold((await kept(shop)).popitem()[0])
    assert (await seat_states(shop))[best[0]] == "available"
    await courtesy(other, "ann", seats=list(best))
    hold = await held(shop, "bob", best=2)
    assert not set(hold.seats) & set(best)
    assert await differences(shop) == []


async def test_a_wrong_entry_of_the_gate_does_not_stop_best_available(shop, gate):
    first = await held(shop, "zed", best=2)
    await shop.release_hold(first.id)
    ghost = Owned(id="e1.ghost", buyer="ghost", seats=first.seats)
    await gate.run(E1, 1, [Mark(ghost)])
    assert isinstance(await shop.place_hold(E1, buyer="bob", best=2), Placed | Refused)


async def test_a_direct_sale_gets_nobodys_courtesy(shop, other):
    await courtesy(shop, "ann", seats=SEAT, pools={"floor": 8})
    for each in (shop, other):
        async with nothing_changes(each):
            assert await reason(each.sell(E1, buyer="bob", seats=SEAT)) is Reason.TAKEN
            short = await each.sell(E1, buyer="bob", pools={"floor": 3})
            assert short == Refused(Reason.INSUFFICIENT, pools=("floor",), available=2)
    order = await sold(shop, "bob", best=2, pools={"floor": 2})
    assert "A-1-1" not in order.seats


async def test_a_sale_may_name_the_buyers_own_courtesy(shop, clock):
    hold = await courtesy(shop, "ann", **BASKET)
    for wrong in (
        {"buyer": "bob", **BASKET},
        {"buyer": "ann", "seats": SEAT},
        {"buyer": "ann", "seats": BASKET["seats"], "pools": {"floor": 3}},
    ):
        async with nothing_changes(shop):
            assert await reason(shop.sell(E1, hold=hold.id, **wrong)) is Reason.EXISTS
    order = await sold(shop, "ann", hold=hold.id, **BASKET)
    assert order.hold == hold.id
    clock.advance(201)
    assert await numbers(shop) == (CAPACITY, CAPACITY - 4, 0, 4)
    assert await differences(shop) == []


async def test_units_that_somebody_has_as_a_courtesy_are_not_withdrawn(shop, other):
    await courtesy(shop, "ann", seats=SEAT, pools={"floor": 8})
    for each in (shop, other):
        async with nothing_changes(each):
            assert await reason(each.withdraw(E1, seats=SEAT)) is Reason.TAKEN
            short = await each.withdraw(E1, pools={"floor": 3})
            assert short == Refused(Reason.INSUFFICIENT, pools=("floor",), available=2)
    assert not isinstance(await shop.withdraw(E1, seats=["A-2-1"], pools={"floor": 2}), Refused)


@pytest.mark.parametrize("limit", ["event", "call"])
async def test_a_cap_counts_courtesies_and_what_the_authority_has(shop, limit):
    cap = {"cap": 4} if limit == "call" else {}
    if limit == "event":
        await shop.change_event(E1, max_per_buyer=4)
    await courtesy(shop, "ann", seats=["A-1-1"], **cap)
    await sold(shop, "ann", seats=["A-1-2"], **cap)
    await held(shop, "ann", best=1, **cap)
    for ask in ({"seats": ["A-2-1", "A-2-2"]}, {"pools": {"floor": 2}}, {"best": 2}):
        assert await shop.place_hold(E1, buyer="ann", **ask, **cap) == Refused(
            Reason.BUYER_CAP, cap=4
        )
    two = shop.sell(E1, buyer="ann", seats=["A-2-1", "A-2-2"], **cap)
    assert await reason(two) is Reason.BUYER_CAP
    last = await courtesy(shop, "ann", seats=["A-2-1"], **cap)
    assert await reason(shop.place_hold(E1, buyer="ann", pools={"floor": 1}, **cap)) is (
        Reason.BUYER_CAP
    )
    assert isinstance(await shop.confirm_hold(last.id), Confirmed)
    await courtesy(shop, "bob", seats=["A-2-2"], **cap)


async def test_added_capacity_can_be_held_at_once(shop):
    await courtesy(shop, "ann", pools={"floor": 10})
    assert await reason(shop.place_hold(E1, buyer="bob", pools={"floor": 1})) is Reason.SOLD_OUT
    more = {"pools": [{"id": "floor", "capacity": 5}]}
    assert not isinstance(await shop.add_capacity(E1, more), Refused)
    await courtesy(shop, "bob", pools={"floor": 5})


async def test_added_capacity_can_be_held_at_once_in_a_flash_sale(shop):
    await shop.change_event(E1, flash_sale=True)
    await courtesy(shop, "ann", pools={"floor": 10})
    more = {"pools": [{"id": "floor", "capacity": 5}]}
    assert not isinstance(await shop.add_capacity(E1, more), Refused)
    assert isinstance(await shop.place_hold(E1, buyer="bob", pools={"floor": 5}), Placed)


# In a file


async def test_courtesies_before_a_file(tmp_path, gate, clock):
    here, there = make_sqlite(tmp_path, clock), make_sqlite(tmp_path, clock)
    async with (
        opened(here, gate, clock, "gate") as first,
        opened(there, gate, clock, "gate") as second,
    ):
        await on_sale(first)
        asks = [
            shop.place_hold(E1, buyer=f"b{n}", seats=SEAT)
            for n, shop in enumerate([first, second] * 20)
        ]
        outcomes = await asyncio.gather(*asks)
        [placed] = [outcome for outcome in outcomes if isinstance(outcome, Placed)]
        assert await log_types(first) == ["event.created"]
        assert isinstance(await second.pay_hold(placed.hold.id), Paying)
        assert isinstance(await first.confirm_hold(placed.hold.id), Confirmed)
        assert await log_types(first) == [
            "event.created",
            "hold.placed",
            "hold.paying",
            "order.confirmed",
        ]


async def test_a_file_refuses_what_was_sold_behind_the_gates_back(tmp_path, gate, clock):
    here, there = make_sqlite(tmp_path, clock), make_sqlite(tmp_path, clock)
    async with (
        opened(here, gate, clock, "gate") as shop,
        opened(there, None, clock, "authority") as behind,
    ):
        await on_sale(shop)
        hold = await courtesy(shop, "ann", seats=SEAT)
        await sold(behind, "bob", seats=SEAT)
        assert await reason(shop.pay_hold(hold.id)) is Reason.TAKEN
        verdict = await gate.run(E1, 1, [Find(hold.id)])
        assert verdict[0].owned is None
