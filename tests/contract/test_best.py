"""Best available: front and centre, side by side, and only seats that are free right now."""

import asyncio
from typing import Any

import pytest

from holdfast import Best, Placed, Reason, Refused
from tests.contract.helpers import (
    E1,
    HARD_MS,
    IN_ORDER,
    SOFT_MS,
    held,
    nothing_changes,
    on_sale,
    reason,
    said,
    seat_states,
    sold,
    summary,
)

ROW = {"sections": [{"id": "A", "tier": "gold", "rows": 1, "seats_per_row": 6}], "pools": []}


def side_by_side(seats) -> bool:
    rows = {seat.rsplit("-", 1)[0] for seat in seats}
    numbers = sorted(int(seat.rsplit("-", 1)[1]) for seat in seats)
    return len(rows) == 1 and numbers == list(range(numbers[0], numbers[0] + len(numbers)))


@pytest.mark.parametrize(
    ("best", "seats"),
    [
        (1, ["A-1-3"]),
        (3, ["A-1-1", "A-1-2", "A-1-3"]),
        (5, ["A-1-1", "A-1-2", "A-1-3", "A-1-4", "A-1-5"]),
        ({"quantity": 2, "section": "B"}, ["B-1-1", "B-1-2"]),
        ({"quantity": 2, "tier": "silver"}, ["B-1-1", "B-1-2"]),
        ([{"quantity": 5}, {"quantity": 1, "tier": "silver"}], None),
        (Best(quantity=3), ["A-1-1", "A-1-2", "A-1-3"]),
        ([Best(quantity=2, section="B")], ["B-1-1", "B-1-2"]),
    ],
)
@pytest.mark.parametrize("way", ["hold", "sell"])
async def test_the_best_seats_there_are_can_be_asked_for_in_every_way(shop, way, best, seats):
    await on_sale(shop)
    made = await (held if way == "hold" else sold)(shop, best=best)
    if seats is None:
        assert sorted(made.seats)[:5] == [f"A-1-{n}" for n in range(1, 6)]
        assert made.seats[5].startswith("B-1-")
    else:
        assert sorted(made.seats) == seats


async def test_the_front_is_filled_before_the_back(shop):
    await on_sale(shop)
    chosen = [(await held(shop, f"u{n}", best=5)).seats for n in range(2)]
    assert [seats[0].rsplit("-", 1)[0] for seats in chosen] == ["A-1", "A-2"]


async def test_no_single_seat_is_stranded_where_it_can_be_avoided(shop):
    await on_sale(shop, **ROW)
    for _ in range(3):
        assert side_by_side((await held(shop, best=2)).seats)
    assert (await summary(shop)).available == 0


async def test_a_crowd_gets_pairs_side_by_side_and_no_seat_twice(shop):
    await on_sale(
        shop, sections=[{"id": "A", "tier": "gold", "rows": 10, "seats_per_row": 20}], pools=[]
    )
    outcomes = await asyncio.gather(
        *[shop.place_hold(E1, buyer=f"u{n}", best=2) for n in range(120)]
    )
    pairs = [outcome.hold.seats for outcome in outcomes if isinstance(outcome, Placed)]
    assert len(pairs) >= 90
    assert all(map(side_by_side, pairs))
    assert len({seat for pair in pairs for seat in pair}) == 2 * len(pairs)
    assert (await summary(shop)).available == 200 - 2 * len(pairs)


@pytest.mark.parametrize(
    ("taken", "best", "refusal"),
    [
        (
            ["A-1-1", "A-1-2", "A-1-3", "A-1-4", "A-1-5", "A-1-6"],
            1,
            Refused(Reason.SOLD_OUT, available=0),
        ),
        (["A-1-1", "A-1-2", "A-1-3", "A-1-4"], 3, Refused(Reason.INSUFFICIENT, available=2)),
        ([], 7, Refused(Reason.INSUFFICIENT, available=6)),
        (["A-1-3"], 4, Refused(Reason.NOT_TOGETHER, available=5)),
        (["A-1-2", "A-1-4", "A-1-6"], 2, Refused(Reason.NOT_TOGETHER, available=3)),
        ([], {"quantity": 1, "section": "X"}, Refused(Reason.SOLD_OUT, available=0)),
        ([], {"quantity": 1, "tier": "silver"}, Refused(Reason.SOLD_OUT, available=0)),
        ([], {"quantity": 1, "accessible": True}, Refused(Reason.SOLD_OUT, available=0)),
        ([], [{"quantity": 6}, {"quantity": 1}], Refused(Reason.SOLD_OUT, available=0)),
    ],
)
@pytest.mark.parametrize("how", ["held", "sold"])
async def test_what_cannot_be_chosen_is_refused_with_what_is_left(shop, how, taken, best, refusal):
    await on_sale(shop, **ROW)
    if taken:
        await (held if how == "held" else sold)(shop, seats=taken)
    for ask in (shop.place_hold, shop.sell):
        async with nothing_changes(shop):
            assert await ask(E1, buyer="bob", best=best) == refusal


async def test_seats_apart_are_chosen_when_that_is_accepted(shop):
    await on_sale(shop, **ROW)
    await held(shop, seats=["A-1-2", "A-1-5"])
    hold = await held(shop, "bob", best={"quantity": 4, "together": False})
    assert sorted(hold.seats) == ["A-1-1", "A-1-3", "A-1-4", "A-1-6"]


async def test_accessible_seats_go_only_to_those_who_ask_for_them(shop):
    traits = [{"accessible": True}, {"companion": True}, {}, {}]
    await on_sale(
        shop,
        sections=[],
        pools=[],
        seats=[
            {"id": f"s{n}", "section": "A", "row": "1", "number": n, "tier": "gold", **trait}
            for n, trait in enumerate(traits, 1)
        ],
    )
    assert sorted((await held(shop, best=2)).seats) == ["s3", "s4"]
    assert await reason(shop.place_hold(E1, buyer="bob", best=1)) == Reason.SOLD_OUT
    wheelchair = {"quantity": 2, "accessible": True}
    assert sorted((await held(shop, "cid", best=wheelchair)).seats) == ["s1", "s2"]


async def test_seats_named_and_seats_chosen_in_one_ask_never_overlap(shop):
    await on_sale(shop, **ROW)
    hold = await held(shop, seats=["A-1-3"], best=[{"quantity": 2}, {"quantity": 3}])
    assert len(set(hold.seats)) == 6


@pytest.mark.parametrize("how", ["released", "cancelled", "dead", "dead_paying", "announced"])
async def test_seats_that_come_back_are_chosen_again(shop, clock, how):
    await on_sale(shop, **ROW)
    if how == "cancelled":
        order = await sold(shop, best=6)
        assert await reason(shop.place_hold(E1, buyer="bob", best=1)) == Reason.SOLD_OUT
        await shop.cancel_order(order.id)
    else:
        hold = await held(shop, best=6)
        if how == "dead_paying":
            await shop.pay_hold(hold.id)
        assert await reason(shop.place_hold(E1, buyer="bob", best=1)) == Reason.SOLD_OUT
        if how == "released":
            await shop.release_hold(hold.id)
        else:
            clock.advance(HARD_MS if how == "dead_paying" else SOFT_MS)
        if how == "announced":
            await shop.expire(E1, 10)
    assert len((await held(shop, "bob", best=6)).seats) == 6


@pytest.mark.parametrize("how", ["extended", "paying"])
async def test_seats_whose_deadline_moved_are_not_chosen_at_the_old_one(shop, clock, how):
    await on_sale(shop, **ROW)
    hold = await held(shop, best=6)
    await (shop.extend_hold(hold.id) if how == "extended" else shop.pay_hold(hold.id))
    clock.advance(SOFT_MS)
    assert await reason(shop.place_hold(E1, buyer="bob", best=1)) == Reason.SOLD_OUT


@pytest.mark.parametrize("first", ["best", "named"])
async def test_a_choice_knows_what_was_done_to_seats_by_name(shop, first):
    await on_sale(shop, **ROW)
    if first == "best":  # a choice was made before: whatever it remembers must be kept true
        await shop.release_hold((await held(shop, best=1)).id)
    hold = await held(shop, "ann", seats=["A-1-1", "A-1-2"])
    await sold(shop, "bob", seats=["A-1-3"])
    await shop.withdraw(E1, seats=["A-1-4"])
    assert sorted((await held(shop, "cid", best=2)).seats) == ["A-1-5", "A-1-6"]
    assert await reason(shop.place_hold(E1, buyer="dee", best=1)) == Reason.SOLD_OUT
    await shop.release_hold(hold.id)
    assert sorted((await held(shop, "dee", best=2)).seats) == ["A-1-1", "A-1-2"]


async def test_withdrawn_seats_brought_back_and_added_ones_are_chosen(shop):
    await on_sale(shop, **ROW)
    await held(shop, "ann", best=5)
    (last,) = [seat for seat, state in (await seat_states(shop)).items() if state == "available"]
    await shop.withdraw(E1, seats=[last])
    assert await reason(shop.place_hold(E1, buyer="bob", best=1)) == Reason.SOLD_OUT
    number = int(last[-1])
    back = {"id": last, "section": "A", "row": "1", "number": number, "tier": "gold"}
    new = {"id": "new", "section": "N", "row": "1", "number": 1, "tier": "gold"}
    await shop.add_capacity(E1, {"seats": [back, new]})
    hold = await held(shop, "bob", best={"quantity": 2, "together": False})
    assert set(hold.seats) == {last, "new"}


async def test_a_refused_basket_leaves_no_trace_in_the_next_choice(shop):
    await on_sale(shop, **ROW | {"pools": [{"id": "floor", "capacity": 1, "tier": "floor"}]})
    for _ in range(3):
        assert (
            await reason(shop.place_hold(E1, buyer="ann", best=6, pools={"floor": 2}))
            == Reason.INSUFFICIENT
        )
    assert len((await held(shop, "ann", best=6, pools={"floor": 1})).seats) == 6


def made_by(outcome: Any) -> Any:
    """The hold or the order that was made."""
    return outcome.hold if isinstance(outcome, Placed) else outcome.order


@IN_ORDER
async def test_choices_and_named_asks_in_one_batch_never_meet(shop):
    await on_sale(shop, **ROW)
    await held(shop, "ann", id="h1", seats=["A-1-1", "A-1-2"])
    outcomes = await asyncio.gather(
        shop.place_hold(E1, buyer="u0", best=6),
        shop.release_hold("e1.h1"),
        shop.place_hold(E1, buyer="u1", best=2),
        shop.place_hold(E1, buyer="u2", seats=["A-1-1"]),
        shop.place_hold(E1, buyer="u3", seats=["A-1-6"]),
        shop.place_hold(E1, buyer="u4", best=2),
        shop.sell(E1, buyer="u5", best={"quantity": 2, "together": False}),
        shop.sell(E1, buyer="u6", best=1),
    )
    made = [made_by(outcome) for outcome in outcomes[2:] if not isinstance(outcome, Refused)]
    got = [seat for each in made for seat in each.seats]
    assert said(outcomes[0]) == "no.insufficient"
    assert len(got) == len(set(got)) == 6
    assert (await summary(shop)).available == 0


async def test_an_event_without_seats_has_no_best_ones(shop):
    await on_sale(shop, sections=[])
    outcome = await shop.place_hold(E1, buyer="ann", best=1)
    assert outcome == Refused(Reason.SOLD_OUT, available=0)


async def test_a_house_that_is_nearly_sold_out_is_still_found_to_the_last_seat(shop):
    await on_sale(
        shop, sections=[{"id": "A", "tier": "gold", "rows": 5, "seats_per_row": 10}], pools=[]
    )
    outcomes = await asyncio.gather(
        *[shop.sell(E1, buyer=f"u{n}", best=3) for n in range(20)],
        *[shop.sell(E1, buyer=f"v{n}", best=1) for n in range(60)],
    )
    bought = [outcome.order.units for outcome in outcomes if said(outcome) == "confirmed"]
    assert sum(bought) == 50
    assert outcomes[-1] == Refused(Reason.SOLD_OUT, available=0)
