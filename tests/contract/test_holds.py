"""A hold is the buyer's alone, follows one path of states, and each step is fenced."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast import Extended, Hold, HoldState, Paying, Placed, Reason, Refused, Released
from tests.contract.helpers import (
    CAPACITY,
    E1,
    FLOOR,
    GOLD,
    GRACE_MS,
    HARD_MS,
    IN_ORDER,
    ON_THE_LOG,
    SOFT_MS,
    cells,
    description,
    held,
    log,
    log_types,
    nothing_changes,
    numbers,
    on_sale,
    pools_left,
    reason,
    said,
    seat_states,
    summary,
)

BASKET: dict[str, Any] = {"seats": ["A-1-1", "A-1-2"], "pools": {"floor": 2}}


async def in_state(shop, clock, state: str) -> Hold:
    """Ann's hold of the basket, brought into a state."""
    hold = await held(shop, **BASKET)
    if state in ("paying", "late"):
        await shop.pay_hold(hold.id)
    if state == "late":
        clock.advance(SOFT_MS)
    if state in ("confirmed", "cancelled"):
        confirmed = await shop.confirm_hold(hold.id, order="o1", payment="pay-1")
        if state == "cancelled":
            await shop.cancel_order(confirmed.order.id)
    if state in ("released", "unknown"):
        await shop.release_hold(hold.id)
    if state in ("dead", "announced"):
        clock.advance(SOFT_MS)
    if state == "announced":
        await shop.expire(E1, 10)
    return replace(hold, id=f"{E1}.nobody") if state == "unknown" else hold


COMMANDS = {
    "extend": lambda shop, hold: shop.extend_hold(hold.id, buyer="ann"),
    "pay": lambda shop, hold: shop.pay_hold(hold.id, buyer="ann"),
    "release": lambda shop, hold: shop.release_hold(hold.id, buyer="ann"),
    "confirm": lambda shop, hold: shop.confirm_hold(hold.id, buyer="ann", payment="pay-1"),
    "confirm_else": lambda shop, hold: shop.confirm_hold(hold.id, buyer="ann", payment="pay-2"),
    "extend_by_bob": lambda shop, hold: shop.extend_hold(hold.id, buyer="bob"),
    "pay_by_bob": lambda shop, hold: shop.pay_hold(hold.id, buyer="bob"),
    "release_by_bob": lambda shop, hold: shop.release_hold(hold.id, buyer="bob"),
    "confirm_by_bob": lambda shop, hold: shop.confirm_hold(hold.id, buyer="bob"),
    "same_again": lambda shop, hold: shop.place_hold(E1, buyer="ann", **BASKET),
    "placed_by_bob": lambda shop, hold: shop.place_hold(E1, buyer="bob", **BASKET),
    "sold_to_bob": lambda shop, hold: shop.sell(E1, buyer="bob", **BASKET),
    "withdraw": lambda shop, hold: shop.withdraw(E1, seats=BASKET["seats"]),
    "expire": lambda shop, hold: shop.expire(E1, 10),
}

# `no.x`: refused with reason x. `=x`: answered x, and nothing changed. Else the answer, and the
# log has grown. Columns: `late` is paying past its soft deadline, `dead` past its deadline and
# not yet announced, `cancelled` sold and taken back.
TABLE = """
                held          paying        late          confirmed     cancelled     released      dead          announced     unknown
extend          extended      extended      extended      no.confirmed  no.confirmed  no.released   no.expired    no.expired    no.unknown_hold
pay             paying        =paying       =paying       no.confirmed  no.confirmed  no.released   no.expired    no.expired    no.unknown_hold
release         released      released      released      no.confirmed  no.confirmed  =released     =released     =released     no.unknown_hold
confirm         confirmed     confirmed     confirmed     =confirmed    no.confirmed  no.released   no.expired    no.expired    no.unknown_hold
confirm_else    confirmed     confirmed     confirmed     no.confirmed  no.confirmed  no.released   no.expired    no.expired    no.unknown_hold
extend_by_bob   no.not_yours  no.not_yours  no.not_yours  no.not_yours  no.not_yours  no.not_yours  no.not_yours  no.not_yours  no.unknown_hold
pay_by_bob      no.not_yours  no.not_yours  no.not_yours  no.not_yours  no.not_yours  no.not_yours  no.not_yours  no.not_yours  no.unknown_hold
release_by_bob  no.not_yours  no.not_yours  no.not_yours  no.not_yours  no.not_yours  no.not_yours  no.not_yours  no.not_yours  no.unknown_hold
confirm_by_bob  no.not_yours  no.not_yours  no.not_yours  no.not_yours  no.not_yours  no.not_yours  no.not_yours  no.not_yours  no.unknown_hold
same_again      =placed       =placed       =placed       no.taken      placed        placed        placed        placed        placed
placed_by_bob   no.taken      no.taken      no.taken      no.taken      placed        placed        placed        placed        placed
sold_to_bob     no.taken      no.taken      no.taken      no.taken      confirmed     confirmed     confirmed     confirmed     confirmed
withdraw        no.taken      no.taken      no.taken      no.taken      changed       changed       changed       changed       changed
expire          =expired      =expired      =expired      =expired      =expired      =expired      expired       =expired      =expired
"""  # noqa: E501

NAMES_THE_HOLD = ("no.confirmed", "no.released", "no.expired", "no.not_yours", "no.unknown_hold")


@pytest.mark.parametrize(("command", "state", "expected"), cells(TABLE))
async def test_what_becomes_of_a_command_depends_on_the_state_of_the_hold(
    shop, setup, clock, command, state, expected
):
    await on_sale(shop)
    hold = await in_state(shop, clock, state)
    seq = (await summary(shop)).seq
    if expected.startswith(("no.", "=")):
        async with nothing_changes(shop):
            outcome = await COMMANDS[command](shop, hold)
    else:
        outcome = await COMMANDS[command](shop, hold)
        assert (await summary(shop)).seq > seq or setup.policy == "gate"
    assert said(outcome) == expected.removeprefix("=")
    if expected in NAMES_THE_HOLD:
        assert outcome.value == hold.id
        assert hold.id in outcome.detail


@pytest.mark.parametrize(
    ("state", "ended"),
    [
        ("released", HoldState.RELEASED),
        ("dead", HoldState.EXPIRED),
        ("announced", HoldState.EXPIRED),
    ],
)
async def test_releasing_what_is_over_answers_how_it_ended(shop, clock, state, ended):
    await on_sale(shop)
    hold = await in_state(shop, clock, state)
    assert (await shop.hold(hold.id)).state is ended
    assert (await shop.release_hold(hold.id)).hold.state is ended


async def test_a_hold_says_what_it_holds_for_how_much_and_until_when(shop, clock):
    await on_sale(shop)
    outcome = await shop.place_hold(
        E1, buyer="ann", id="h1", seats=["A-1-2", "A-1-1"], pools={"floor": 2}
    )
    assert outcome == Placed(
        Hold(
            id="e1.h1",
            event=E1,
            buyer="ann",
            state=HoldState.HELD,
            seats=("A-1-2", "A-1-1"),
            pools={"floor": 2},
            amount=2 * GOLD + 2 * FLOOR,
            currency="EUR",
            placed_ms=clock(),
            soft_ms=clock() + SOFT_MS,
            hard_ms=clock() + SOFT_MS + GRACE_MS,
            extensions=0,
            version=1,
        )
    )
    assert await shop.hold("e1.h1") == outcome.hold


async def test_the_buyer_is_shown_the_soft_deadline(shop, clock):
    await on_sale(shop)
    hold = await held(shop)
    assert hold.expires_at.utcoffset() == timedelta(0)
    assert hold.expires_at.timestamp() * 1000 == clock() + SOFT_MS
    paying = await shop.pay_hold(hold.id)
    assert paying.hold.expires_at == hold.expires_at


async def test_a_hold_without_an_id_of_the_callers_gets_one_in_its_event(shop):
    await on_sale(shop)
    ids = {(await held(shop, seats=[seat])).id for seat in ("A-1-1", "A-1-2", "A-1-3")}
    assert len(ids) == 3
    assert all(id.startswith("e1.") for id in ids)


@ON_THE_LOG
async def test_only_one_of_a_thousand_buyers_gets_the_seat(shop):
    await on_sale(shop)
    outcomes = await asyncio.gather(
        *[shop.place_hold(E1, buyer=f"u{n}", seats=["A-1-1"]) for n in range(1000)]
    )
    assert sum(isinstance(outcome, Placed) for outcome in outcomes) == 1
    assert outcomes.count(Refused(Reason.TAKEN, seats=("A-1-1",))) == 999
    assert await log_types(shop) == ["event.created", "hold.placed"]


async def test_overlapping_baskets_that_arrive_together_never_share_a_seat(shop):
    await on_sale(shop)
    row = [f"A-1-{number}" for number in range(1, 6)]
    pairs = [[a, b] for a in row for b in row if a < b]
    outcomes = await asyncio.gather(
        *[shop.place_hold(E1, buyer=f"u{n}", seats=pair) for n, pair in enumerate(pairs)]
    )
    taken = [
        seat for outcome in outcomes if isinstance(outcome, Placed) for seat in outcome.hold.seats
    ]
    assert len(taken) == len(set(taken)) == 4


async def test_a_refusal_names_only_the_seats_that_are_taken(shop):
    await on_sale(shop)
    await held(shop, seats=["A-1-2", "A-1-4"])
    outcome = await shop.place_hold(E1, buyer="bob", seats=["A-1-1", "A-1-2", "A-1-3", "A-1-4"])
    assert outcome == Refused(Reason.TAKEN, seats=("A-1-2", "A-1-4"))
    assert outcome.detail == "these seats are taken: A-1-2, A-1-4"


async def test_seats_are_told_apart_byte_by_byte(shop):
    await on_sale(
        shop,
        seats=[
            {"id": id, "section": "X", "number": number, "tier": "gold"}
            for number, id in enumerate(["x-1", "X-1", "x-\u00e9", "x-e\u0301", "x-1 a"])
        ],
    )
    for buyer, seat in enumerate(["x-1", "X-1", "x-\u00e9", "x-e\u0301", "x-1 a"]):
        assert (await held(shop, f"u{buyer}", seats=[seat])).seats == (seat,)


@pytest.mark.parametrize("state", ["held", "paying"])
async def test_extending_moves_both_deadlines(shop, clock, state):
    await on_sale(shop)
    hold = await in_state(shop, clock, state)
    clock.advance(1_000)
    outcome = await shop.extend_hold(hold.id)
    assert isinstance(outcome, Extended)
    assert outcome.hold.soft_ms == hold.soft_ms + SOFT_MS
    assert outcome.hold.hard_ms == hold.hard_ms + SOFT_MS
    assert outcome.hold.extensions == 1
    assert outcome.hold.state == state
    assert await shop.hold(hold.id) == outcome.hold


@pytest.mark.parametrize(
    ("seconds", "moved_ms"),
    [(1, 1_000), (60, 60_000), (480, SOFT_MS), (481, SOFT_MS), (None, SOFT_MS)],
)
async def test_one_extension_is_never_longer_than_a_hold(shop, seconds, moved_ms):
    await on_sale(shop)
    hold = await held(shop)
    outcome = await shop.extend_hold(hold.id, seconds=seconds)
    assert outcome.hold.soft_ms - hold.soft_ms == moved_ms
    assert outcome.hold.hard_ms - hold.hard_ms == moved_ms


@pytest.mark.parametrize("most", [0, 1, 3])
async def test_a_hold_is_extended_as_often_as_the_event_allows(shop, most):
    await on_sale(shop, max_extensions=most)
    hold = await held(shop)
    for _ in range(most):
        assert isinstance(await shop.extend_hold(hold.id), Extended)
    async with nothing_changes(shop):
        outcome = await shop.extend_hold(hold.id)
    assert outcome == Refused(Reason.EXTENSION_LIMIT, hold.id, cap=most)


async def test_every_change_of_a_hold_makes_a_new_version(shop):
    await on_sale(shop)
    hold = await held(shop)
    extended = await shop.extend_hold(hold.id, version=1)
    paying = await shop.pay_hold(hold.id, version=2)
    await shop.confirm_hold(hold.id, version=3)
    assert (extended.hold.version, paying.hold.version) == (2, 3)
    assert (await shop.hold(hold.id)).version == 4


FENCED = {
    "extend": lambda shop, hold, version: shop.extend_hold(hold, version=version),
    "pay": lambda shop, hold, version: shop.pay_hold(hold, version=version),
    "release": lambda shop, hold, version: shop.release_hold(hold, version=version),
    "confirm": lambda shop, hold, version: shop.confirm_hold(hold, version=version),
}


@pytest.mark.parametrize("command", FENCED)
@pytest.mark.parametrize("version", [1, 3, 99])
async def test_a_command_for_another_version_of_the_hold_is_stale(shop, command, version):
    await on_sale(shop, max_extensions=2)
    hold = await held(shop)
    await shop.extend_hold(hold.id)
    async with nothing_changes(shop):
        outcome = await FENCED[command](shop, hold.id, version)
    assert outcome == Refused(Reason.STALE, "2")
    assert not isinstance(await FENCED[command](shop, hold.id, 2), Refused)


async def test_of_two_who_act_on_the_same_version_one_is_stale(shop):
    await on_sale(shop)
    hold = await held(shop)
    first, second = await asyncio.gather(
        shop.pay_hold(hold.id, version=1), shop.release_hold(hold.id, version=1)
    )
    assert isinstance(first, Paying)
    assert second == Refused(Reason.STALE, "2")


@pytest.mark.parametrize("command", FENCED)
async def test_no_buyer_named_means_that_the_caller_vouches(shop, command):
    await on_sale(shop)
    hold = await held(shop, "ann")
    assert not isinstance(await FENCED[command](shop, hold.id, None), Refused)


async def test_the_buyer_gets_his_own_hold_back_whatever_the_order_of_its_seats(shop):
    await on_sale(shop)
    hold = await held(shop, seats=["A-1-1", "A-1-2"], pools={"floor": 2})
    async with nothing_changes(shop):
        again = await shop.place_hold(
            E1, buyer="ann", id="other", seats=["A-1-2", "A-1-1"], pools={"floor": 2}
        )
    assert again == Placed(hold)


@pytest.mark.parametrize(
    "ask",
    [
        {"seats": ["A-1-1"]},
        {"seats": ["A-1-1", "A-1-2"]},
        {"seats": ["A-1-1", "A-1-2"], "pools": {"floor": 1}},
        {"seats": ["A-1-1", "A-1-2", "A-1-3"], "pools": {"floor": 2}},
        {"seats": ["A-1-1", "A-1-2"], "pools": {"floor": 2}, "best": 1},
    ],
)
async def test_another_basket_with_a_seat_of_his_own_hold_is_refused(shop, ask):
    await on_sale(shop)
    await held(shop, seats=["A-1-1", "A-1-2"], pools={"floor": 2})
    async with nothing_changes(shop):
        assert await reason(shop.place_hold(E1, buyer="ann", **ask)) == Reason.TAKEN


async def test_his_own_hold_comes_back_as_it_stands_now(shop):
    await on_sale(shop)
    hold = await held(shop)
    await shop.extend_hold(hold.id)
    paying = await shop.pay_hold(hold.id)
    assert await shop.place_hold(E1, buyer="ann", **BASKET) == Placed(paying.hold)


async def test_his_own_hold_comes_back_while_the_event_is_paused(shop):
    await on_sale(shop)
    hold = await held(shop)
    await shop.pause_event(E1)
    assert await shop.place_hold(E1, buyer="ann", **BASKET) == Placed(hold)


@ON_THE_LOG
async def test_copies_of_an_ask_without_ids_that_arrive_together_are_one_hold(shop):
    await on_sale(shop)
    outcomes = await asyncio.gather(
        *[shop.place_hold(E1, buyer="ann", **BASKET) for _ in range(20)]
    )
    assert len({outcome.hold.id for outcome in outcomes}) == 1
    assert await log_types(shop) == ["event.created", "hold.placed"]


async def test_stock_alone_is_held_anew_by_every_ask(shop):
    await on_sale(shop)
    first, second = [await held(shop, pools={"floor": 2}) for _ in range(2)]
    assert first.id != second.id
    assert await pools_left(shop) == {"floor": 6, "stand": 0}


async def test_a_released_hold_gives_all_its_units_back(shop):
    await on_sale(shop)
    hold = await held(shop)
    assert await numbers(shop) == (CAPACITY, CAPACITY - 4, 4, 0)
    outcome = await shop.release_hold(hold.id)
    assert isinstance(outcome, Released)
    assert outcome.hold.state is HoldState.RELEASED
    assert await numbers(shop) == (CAPACITY, CAPACITY, 0, 0)
    assert (await seat_states(shop))["A-1-1"] == "available"
    assert (await pools_left(shop))["floor"] == 10


async def test_an_id_that_a_hold_has_is_not_given_to_another(shop):
    await on_sale(shop)
    await held(shop, id="h1", idempotency_key="k1", seats=["A-1-1"])
    async with nothing_changes(shop):
        outcome = await shop.place_hold(
            E1, buyer="bob", id="h1", idempotency_key="k2", seats=["A-2-1"]
        )
    assert outcome == Refused(Reason.EXISTS, "e1.h1")


@IN_ORDER
async def test_a_hold_placed_and_followed_in_one_batch_goes_the_whole_way(shop):
    await on_sale(shop)
    placed, extended, paying, confirmed = await asyncio.gather(
        shop.place_hold(E1, buyer="ann", id="h1", best=2, pools={"floor": 2}),
        shop.extend_hold("e1.h1"),
        shop.pay_hold("e1.h1"),
        shop.confirm_hold("e1.h1"),
    )
    assert [said(each) for each in (placed, extended, paying, confirmed)] == [
        "placed",
        "extended",
        "paying",
        "confirmed",
    ]
    assert confirmed.order.seats == placed.hold.seats
    assert await numbers(shop) == (CAPACITY, CAPACITY - 4, 0, 4)


@IN_ORDER
async def test_a_seat_passed_on_within_one_batch_ends_with_the_last(shop):
    await on_sale(shop)
    await held(shop, "ann", id="h1", seats=["A-1-1"])
    outcomes = await asyncio.gather(
        shop.place_hold(E1, buyer="bob", id="h2", seats=["A-1-1"]),
        shop.release_hold("e1.h1"),
        shop.place_hold(E1, buyer="bob", id="h2", seats=["A-1-1"]),
        shop.release_hold("e1.h2"),
        shop.place_hold(E1, buyer="cid", id="h3", seats=["A-1-1"]),
    )
    assert [said(outcome) for outcome in outcomes] == [
        "no.taken",
        "released",
        "placed",
        "released",
        "placed",
    ]
    assert (await shop.hold("e1.h3")).state is HoldState.HELD


async def test_holds_of_two_events_know_nothing_of_each_other(shop):
    await on_sale(shop)
    await shop.create_event(description(id="e2"))
    first, second = await asyncio.gather(
        shop.place_hold("e1", buyer="ann", id="h1", seats=["A-1-1"]),
        shop.place_hold("e2", buyer="bob", id="h1", seats=["A-1-1"]),
    )
    assert (first.hold.id, second.hold.id) == ("e1.h1", "e2.h1")
    await shop.release_hold("e1.h1")
    assert (await shop.hold("e2.h1")).state is HoldState.HELD
    assert [entry.type for entry in await log(shop, "e2")] == ["event.created", "hold.placed"]


async def test_the_deadlines_are_those_of_the_event_when_the_hold_was_placed(shop, clock):
    await on_sale(shop)
    before = await held(shop, seats=["A-1-1"])
    await shop.change_event(E1, hold_seconds=60, grace_seconds=0)
    after = await held(shop, seats=["A-1-2"])
    assert (before.soft_ms, before.hard_ms) == (clock() + SOFT_MS, clock() + HARD_MS)
    assert (after.soft_ms, after.hard_ms) == (clock() + 60_000, clock() + 60_000)
