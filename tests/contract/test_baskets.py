"""A basket is all or nothing: one part that cannot be had, and nobody sees that it was tried."""

import asyncio
from itertools import product

import pytest

from holdfast import Reason, Refused
from tests.contract.helpers import (
    E1,
    FLOOR,
    GOLD,
    IN_ORDER,
    ON_THE_LOG,
    SILVER,
    SOFT_MS,
    everything,
    held,
    log_types,
    numbers,
    on_sale,
    said,
    sold,
    summary,
)

# Parts of a basket, each with the reason why it cannot be had, or None if it can.
SEATS = {
    "none": ([], None),
    "free": (["A-2-1"], None),
    "free_since_a_hold_died": (["A-2-2"], None),
    "held": (["A-2-1", "A-1-1"], Reason.TAKEN),
    "sold": (["A-2-1", "A-1-2"], Reason.TAKEN),
    "of_a_channel": (["A-2-1", "S-1-1"], Reason.TAKEN),
    "unknown": (["A-2-1", "X-1"], Reason.UNKNOWN_UNIT),
}
BEST = {
    "none": (None, None),
    "two": ({"quantity": 2, "section": "A"}, None),
    "too_many": ({"quantity": 20, "together": False}, Reason.INSUFFICIENT),
    "not_together": ({"quantity": 6}, Reason.NOT_TOGETHER),
    "of_a_channel": ({"quantity": 1, "section": "S"}, Reason.SOLD_OUT),
    "second_of_two": ([{"quantity": 2, "section": "B"}] * 2, Reason.SOLD_OUT),
}
STOCK = {
    "none": (None, None),
    "some": ({"floor": 2}, None),
    "some_since_a_hold_died": ({"floor": 6}, None),
    "too_much": ({"floor": 7}, Reason.INSUFFICIENT),
    "empty": ({"floor": 1, "empty": 1}, Reason.SOLD_OUT),
    "of_a_channel": ({"floor": 1, "stand": 1}, Reason.SOLD_OUT),
    "unknown": ({"floor": 1, "x": 1}, Reason.UNKNOWN_UNIT),
}


async def half_sold(shop, clock) -> None:
    """Some of everything is held, sold, dead, or another channel's."""
    pools = [
        {"id": "floor", "capacity": 10, "tier": "floor"},
        {"id": "empty", "capacity": 1, "tier": "floor"},
        {"id": "stand", "capacity": 5, "tier": "stand", "channel": "sponsors"},
    ]
    await on_sale(shop, pools=pools)
    await held(shop, "dead", seats=["A-2-2"], pools={"floor": 3})
    clock.advance(SOFT_MS)
    await held(shop, "ann", seats=["A-1-1"], pools={"floor": 3})
    await sold(shop, "bob", seats=["A-1-2"], pools={"floor": 1, "empty": 1})


@pytest.mark.parametrize("way", ["hold", "sell"])
async def test_a_basket_with_a_part_that_cannot_be_had_fails_as_a_whole(shop, clock, way):
    await half_sold(shop, clock)
    ask = shop.place_hold if way == "hold" else shop.sell
    tried = 0
    before = await everything(shop)
    for names in product(SEATS, BEST, STOCK):
        parts = SEATS[names[0]], BEST[names[1]], STOCK[names[2]]
        (seats, _), (best, _), (pools, _) = parts
        reasons = {why for _, why in parts if why is not None}
        if reasons:
            outcome = await ask(E1, buyer="cid", seats=seats, best=best, pools=pools)
            assert await everything(shop) == before, names
            assert isinstance(outcome, Refused), names
            assert outcome.reason in reasons, names
            tried += 1
    assert tried == 7 * 6 * 7 - 3 * 2 * 3


@pytest.mark.parametrize(
    ("seats", "best", "stock"),
    [
        names
        for names in product(SEATS, BEST, STOCK)
        if SEATS[names[0]][1] is BEST[names[1]][1] is STOCK[names[2]][1] is None
        and names != ("none", "none", "none")
    ],
)
async def test_a_basket_whose_parts_can_all_be_had_is_had_as_a_whole(
    shop, clock, seats, best, stock
):
    await half_sold(shop, clock)
    before = await summary(shop)
    hold = await held(shop, "cid", seats=SEATS[seats][0], best=BEST[best][0], pools=STOCK[stock][0])
    assert set(SEATS[seats][0]) <= set(hold.seats)
    assert len(set(hold.seats)) == len(hold.seats) == len(SEATS[seats][0]) + 2 * (best == "two")
    assert hold.pools == (STOCK[stock][0] or {})
    assert (await summary(shop)).held == before.held + hold.units


@pytest.mark.parametrize("way", ["hold", "sell"])
async def test_a_mixed_basket_costs_the_sum_of_its_parts(shop, way):
    await on_sale(shop)
    make = held if way == "hold" else sold
    made = await make(
        shop,
        seats=["A-1-1"],
        best=[{"quantity": 2, "section": "B"}, {"quantity": 1, "section": "A"}],
        pools={"floor": 3},
    )
    assert made.amount == 2 * GOLD + 2 * SILVER + 3 * FLOOR
    assert made.units == 7
    assert {"A-1-1", "B-1-1", "B-1-2"} < set(made.seats)


async def test_a_refusal_names_every_unknown_unit_of_its_kind(shop):
    await on_sale(shop)
    outcome = await shop.place_hold(E1, buyer="ann", seats=["X-1", "A-1-1", "X-2"])
    assert outcome == Refused(Reason.UNKNOWN_UNIT, seats=("X-1", "X-2"))
    assert outcome.detail == "there is no such unit: X-1, X-2"
    outcome = await shop.place_hold(E1, buyer="ann", pools={"x": 1, "floor": 1, "y": 1})
    assert outcome == Refused(Reason.UNKNOWN_UNIT, pools=("x", "y"))


@IN_ORDER
async def test_an_unknown_seat_is_unknown_also_beside_a_taken_one(shop):
    await on_sale(shop)
    await held(shop, seats=["A-1-1"])
    outcome = await shop.place_hold(E1, buyer="bob", seats=["A-1-1", "X-1"])
    assert outcome == Refused(Reason.UNKNOWN_UNIT, seats=("X-1",))


@IN_ORDER
async def test_a_refused_basket_does_not_hinder_the_next_in_its_batch(shop):
    await on_sale(shop)
    outcomes = await asyncio.gather(
        shop.place_hold(E1, buyer="u1", seats=["A-2-5"]),
        shop.place_hold(E1, buyer="u2", seats=["A-1-1"], best=4, pools={"floor": 11}),
        shop.place_hold(E1, buyer="u3", seats=["A-1-1"], best=2, pools={"floor": 10}),
        shop.sell(E1, buyer="u4", seats=["A-2-1"], pools={"floor": 1}),
        shop.sell(E1, buyer="u5", seats=["A-2-1"]),
    )
    assert list(map(said, outcomes)) == [
        "placed",
        "no.insufficient",
        "placed",
        "no.sold_out",
        "confirmed",
    ]


async def test_baskets_that_cross_each_other_are_had_by_one_of_them(shop):
    await on_sale(shop)
    outcomes = await asyncio.gather(
        *[
            shop.place_hold(
                E1,
                buyer=f"u{n}",
                seats=["A-1-1", "A-1-2"] if n % 2 else ["A-1-2", "A-1-1"],
                pools={"floor": 10},
            )
            for n in range(10)
        ]
    )
    assert list(map(said, outcomes)) == ["placed"] + ["no.taken"] * 9
    assert (await numbers(shop))[2] == 12


@ON_THE_LOG
async def test_the_largest_basket_there_may_be_is_one_hold(shop):
    await on_sale(
        shop, sections=[{"id": "A", "tier": "gold", "rows": 100, "seats_per_row": 100}], pools=[]
    )
    seats = [f"A-{row}-{number}" for row in range(1, 101) for number in range(1, 101)]
    hold = await held(shop, seats=seats)
    assert len(hold.seats) == 10_000
    assert (await shop.confirm_hold(hold.id)).order.amount == 10_000 * GOLD
    assert await log_types(shop) == ["event.created", "hold.placed", "order.confirmed"]
