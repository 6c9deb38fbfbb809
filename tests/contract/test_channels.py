"""Units of a channel are offered to those who name it; to everybody else they look sold."""

from typing import Any

import pytest

from holdfast import Reason, Refused
from tests.contract.helpers import (
    CAPACITY,
    E1,
    held,
    nothing_changes,
    numbers,
    on_sale,
    pools_left,
    said,
    seat_states,
    sold,
)

ASKS: dict[str, dict[str, Any]] = {
    "seat": {"seats": ["S-1-1"]},
    "stock": {"pools": {"stand": 1}},
    "best": {"best": {"quantity": 2, "section": "S"}},
}
REFUSALS = {
    "seat": Refused(Reason.TAKEN, seats=("S-1-1",)),
    "stock": Refused(Reason.SOLD_OUT, pools=("stand",), available=0),
    "best": Refused(Reason.SOLD_OUT, available=0),
}


@pytest.mark.parametrize("way", ["hold", "sell"])
@pytest.mark.parametrize("unit", ASKS)
@pytest.mark.parametrize(
    ("channels", "offered"),
    [
        ([], False),
        (["presale"], False),
        (["Sponsors"], False),
        (["sponsors"], True),
        (["presale", "sponsors"], True),
    ],
)
async def test_units_of_a_channel_look_sold_to_asks_that_do_not_name_it(
    shop, way, unit, channels, offered
):
    await on_sale(shop)
    ask = shop.place_hold if way == "hold" else shop.sell
    if offered:
        outcome = await ask(E1, buyer="ann", channels=channels, **ASKS[unit])
        assert said(outcome) == ("placed" if way == "hold" else "confirmed")
    else:
        async with nothing_changes(shop):
            outcome = await ask(E1, buyer="ann", channels=channels, **ASKS[unit])
        assert outcome == REFUSALS[unit]


async def test_an_ask_that_names_a_channel_gets_ordinary_units_too(shop):
    await on_sale(shop)
    hold = await held(shop, seats=["S-1-1", "A-1-1"], pools={"floor": 1}, channels=["sponsors"])
    assert hold.seats == ("S-1-1", "A-1-1")


async def test_best_seats_come_from_a_channel_only_when_it_is_named(shop):
    await on_sale(shop)
    everything = {"quantity": 12, "together": False}
    assert set((await held(shop, best=everything)).seats).isdisjoint({"S-1-1", "S-1-2"})
    hold = await held(shop, best={"quantity": 2}, channels=["sponsors"])
    assert hold.seats == ("S-1-1", "S-1-2")


async def test_the_map_shows_units_of_a_channel_as_sold_unless_it_is_named(shop):
    await on_sale(shop)
    states = await seat_states(shop)
    assert (states["S-1-1"], states["A-1-1"]) == ("sold", "available")
    assert await pools_left(shop) == {"floor": 10, "stand": 0}
    assert (await seat_states(shop, channels=["presale"]))["S-1-1"] == "sold"
    named = {"channels": ["sponsors"]}
    assert (await seat_states(shop, **named))["S-1-1"] == "available"
    assert await pools_left(shop, **named) == {"floor": 10, "stand": 5}


async def test_a_unit_of_a_channel_keeps_it_when_it_is_given_back(shop):
    await on_sale(shop)
    hold = await held(shop, seats=["S-1-1"], pools={"stand": 1}, channels=["sponsors"])
    await shop.release_hold(hold.id)
    order = await sold(shop, seats=["S-1-1"], pools={"stand": 1}, channels=["sponsors"])
    await shop.cancel_order(order.id)
    for unit in ("seat", "stock"):
        assert await shop.place_hold(E1, buyer="bob", **ASKS[unit]) == REFUSALS[unit]


async def test_a_hold_from_a_channel_is_followed_without_naming_it(shop):
    await on_sale(shop)
    hold = await held(shop, seats=["S-1-1"], pools={"stand": 1}, channels=["sponsors"])
    assert said(await shop.extend_hold(hold.id)) == "extended"
    assert said(await shop.pay_hold(hold.id)) == "paying"
    assert (await shop.confirm_hold(hold.id)).order.seats == ("S-1-1",)


async def test_units_of_channels_count_in_the_numbers_of_the_event(shop):
    await on_sale(shop)
    await held(shop, seats=["S-1-1"], pools={"stand": 2}, channels=["sponsors"])
    assert await numbers(shop) == (CAPACITY, CAPACITY - 3, 3, 0)
