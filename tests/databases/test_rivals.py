"""Two processes at the same hold in the same moment: shops of their own on one database."""

import asyncio

import pytest

from holdfast import Confirmed, Placed, Reason, Refused
from tests.databases.shops import E1, held, selling, shop_at

pytestmark = pytest.mark.service

ROUNDS = 30


async def test_two_who_confirm_one_hold_get_the_same_order(url):
    async with selling(url) as one, shop_at(url) as two:
        for nth in range(ROUNDS):
            hold = await held(one, seats=[f"A-{nth // 10 + 1}-{nth % 10 + 1}"])
            first, second = await asyncio.gather(
                *(shop.confirm_hold(hold.id, payment=f"p{nth}") for shop in (one, two))
            )
            assert isinstance(first, Confirmed)
            assert first == second


async def test_a_hold_confirmed_while_it_is_being_placed_is_unknown_or_sold(url):
    async with selling(url) as one, shop_at(url) as two:
        for nth in range(ROUNDS):
            seats = [f"A-{nth // 10 + 1}-{nth % 10 + 1}"]
            placed, confirmed = await asyncio.gather(
                one.place_hold(E1, buyer="ann", seats=seats, pools={"floor": 1}, id=f"h{nth}"),
                two.confirm_hold(f"{E1}.h{nth}"),
            )
            assert isinstance(placed, Placed)
            unknown = isinstance(confirmed, Refused) and confirmed.reason is Reason.UNKNOWN_HOLD
            assert unknown or isinstance(confirmed, Confirmed)


async def test_a_sale_under_way_does_not_hide_from_the_cap(url):
    async with selling(url, max_per_buyer=1) as one, shop_at(url) as two:
        for nth in range(ROUNDS):
            buyer = f"b{nth}"
            hold = await held(one, buyer, pools={"floor": 1})
            _, again = await asyncio.gather(
                one.confirm_hold(hold.id), two.place_hold(E1, buyer=buyer, pools={"floor": 1})
            )
            assert isinstance(again, Refused)
            assert again.reason is Reason.BUYER_CAP
