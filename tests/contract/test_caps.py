"""A cap limits what one buyer has at a time: live holds and sales together."""

import asyncio

import pytest

from holdfast import Placed, Reason, Refused
from tests.contract.helpers import (
    E1,
    HARD_MS,
    IN_ORDER,
    ON_THE_LOG,
    SOFT_MS,
    held,
    nothing_changes,
    on_sale,
    reason,
    said,
    sold,
    summary,
)

FULL = Refused(Reason.BUYER_CAP, cap=4)

ASKS = {
    "seats": lambda n: {"seats": [f"A-1-{number}" for number in range(1, n + 1)]},
    "best": lambda n: {"best": n},
    "stock": lambda n: {"pools": {"floor": n}},
    "mixed": lambda n: {
        "seats": ["A-2-1"],
        "best": [{"quantity": 1}] * (n - 2),
        "pools": {"floor": 1},
    },
}


@pytest.mark.parametrize("whose", ["event", "caller"])
@pytest.mark.parametrize("way", ["hold", "sell"])
@pytest.mark.parametrize("units", ASKS)
async def test_one_ask_may_have_as_much_as_the_cap_and_no_more(shop, whose, way, units):
    await on_sale(shop, max_per_buyer=4 if whose == "event" else None)
    cap = {} if whose == "event" else {"cap": 4}
    ask = shop.place_hold if way == "hold" else shop.sell
    async with nothing_changes(shop):
        assert await ask(E1, buyer="ann", **ASKS[units](5), **cap) == FULL
    assert said(await ask(E1, buyer="ann", **ASKS[units](4), **cap)) in ("placed", "confirmed")


@pytest.mark.parametrize("whose", ["event", "caller"])
@pytest.mark.parametrize("had", ["held", "paying", "confirmed", "sold"])
async def test_what_the_buyer_has_already_counts(shop, whose, had):
    await on_sale(shop, max_per_buyer=4 if whose == "event" else None)
    cap = {} if whose == "event" else {"cap": 4}
    if had == "sold":
        await sold(shop, "ann", seats=["A-2-1"], pools={"floor": 2})
    else:
        hold = await held(shop, "ann", seats=["A-2-1"], pools={"floor": 2})
        if had == "paying":
            await shop.pay_hold(hold.id)
        if had == "confirmed":
            await shop.confirm_hold(hold.id)
    for ask in (shop.place_hold, shop.sell):
        async with nothing_changes(shop):
            assert await ask(E1, buyer="ann", best=2, **cap) == FULL
    assert isinstance(await shop.place_hold(E1, buyer="ann", best=1, **cap), Placed)
    assert isinstance(await shop.place_hold(E1, buyer="bob", best=4, **cap), Placed)


@pytest.mark.parametrize("how", ["released", "expired", "announced", "hard", "cancelled"])
async def test_what_the_buyer_gave_back_counts_no_more(shop, clock, how):
    await on_sale(shop, max_per_buyer=4)
    hold = await held(shop, "ann", seats=["A-2-1"], pools={"floor": 3})
    if how == "released":
        await shop.release_hold(hold.id)
    if how in ("expired", "announced"):
        clock.advance(SOFT_MS)
    if how == "announced":
        await shop.expire(E1, 10)
    if how == "hard":
        await shop.pay_hold(hold.id)
        clock.advance(HARD_MS)
    if how == "cancelled":
        await shop.cancel_order((await shop.confirm_hold(hold.id)).order.id)
    assert isinstance(await shop.place_hold(E1, buyer="ann", best=4), Placed)
    assert await shop.place_hold(E1, buyer="ann", best=1) == FULL


@IN_ORDER
async def test_a_crowd_of_asks_from_one_buyer_gets_no_more_than_the_cap(shop):
    await on_sale(shop, max_per_buyer=4)
    outcomes = await asyncio.gather(
        *[shop.place_hold(E1, buyer="ann", pools={"floor": 1}) for _ in range(10)],
        *[shop.sell(E1, buyer="ann", pools={"floor": 1}) for _ in range(3)],
    )
    assert list(map(said, outcomes)) == ["placed"] * 4 + ["no.buyer_cap"] * 9


@IN_ORDER
async def test_within_one_batch_the_cap_follows_what_comes_and_goes(shop):
    await on_sale(shop, max_per_buyer=4)
    await held(shop, "ann", id="h1", pools={"floor": 3})
    outcomes = await asyncio.gather(
        shop.place_hold(E1, buyer="zed", seats=["A-2-5"]),
        shop.place_hold(E1, buyer="ann", pools={"floor": 2}),
        shop.release_hold("e1.h1"),
        shop.place_hold(E1, buyer="ann", id="h2", pools={"floor": 2}),
        shop.confirm_hold("e1.h2", order="o2"),
        shop.sell(E1, buyer="ann", order="o3", pools={"floor": 2}),
        shop.place_hold(E1, buyer="ann", seats=["A-1-1"]),
        shop.cancel_order("e1.o2"),
        shop.place_hold(E1, buyer="ann", seats=["A-1-1", "A-1-2"]),
        shop.place_hold(E1, buyer="ann", seats=["A-1-3"]),
    )
    assert list(map(said, outcomes)) == [
        "placed",
        "no.buyer_cap",
        "released",
        "placed",
        "confirmed",
        "confirmed",
        "no.buyer_cap",
        "cancelled",
        "placed",
        "no.buyer_cap",
    ]


async def test_his_own_hold_comes_back_also_at_the_cap(shop):
    await on_sale(shop, max_per_buyer=2)
    hold = await held(shop, "ann", seats=["A-1-1", "A-1-2"])
    again = await shop.place_hold(E1, buyer="ann", seats=["A-1-1", "A-1-2"])
    assert again == Placed(hold)


async def test_the_events_cap_counts_where_both_have_one(shop):
    await on_sale(shop, max_per_buyer=4)
    assert await shop.place_hold(E1, buyer="ann", best=5, cap=9) == FULL
    assert isinstance(await shop.place_hold(E1, buyer="ann", best=4, cap=1), Placed)


async def test_without_a_cap_one_buyer_may_have_everything(shop):
    await on_sale(shop)
    await held(shop, "ann", best={"quantity": 12, "together": False}, pools={"floor": 10})
    assert (await summary(shop)).held == 22


async def test_a_new_cap_counts_what_was_there_before(shop):
    await on_sale(shop)
    await held(shop, "ann", pools={"floor": 6})
    await shop.change_event(E1, max_per_buyer=4)
    assert await shop.place_hold(E1, buyer="ann", pools={"floor": 1}) == FULL
    await shop.change_event(E1, max_per_buyer=7)
    assert isinstance(await shop.place_hold(E1, buyer="ann", pools={"floor": 1}), Placed)


@ON_THE_LOG
async def test_confirming_is_not_stopped_by_a_cap_that_came_later(shop):
    await on_sale(shop)
    hold = await held(shop, "ann", pools={"floor": 6})
    await shop.change_event(E1, max_per_buyer=1)
    assert said(await shop.confirm_hold(hold.id)) == "confirmed"


async def test_the_cap_is_of_one_event(shop):
    await on_sale(shop, max_per_buyer=4)
    await on_sale(shop, id="e2", max_per_buyer=4)
    await held(shop, "ann", best=4)
    assert isinstance(await shop.place_hold("e2", buyer="ann", best=4), Placed)


async def test_buyers_are_told_apart_byte_by_byte(shop):
    await on_sale(shop, max_per_buyer=1)
    for seat, buyer in enumerate(["ann", "Ann", "ANN", "änn", "a\u0308nn"], 1):
        assert isinstance(await shop.place_hold(E1, buyer=buyer, seats=[f"A-1-{seat}"]), Placed)
    assert await reason(shop.place_hold(E1, buyer="Ann", seats=["A-2-1"])) == Reason.BUYER_CAP
