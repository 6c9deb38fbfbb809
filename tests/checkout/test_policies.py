"""Checkout under every policy, with every gate: a hold may live in a gate until it is paid for."""

import asyncio

from holdfast.checkout.saga import Step
from holdfast.domain.model import HoldState, OrderState, Settlement
from tests.checkout.desk import Desk
from tests.contract.helpers import E1, HARD_MS, held, on_sale

PAIR = ["A-1-1", "A-1-2"]


async def test_a_hold_is_bought_and_given_back(shop, clock):
    await on_sale(shop)
    desk = Desk(shop, clock)
    hold = await held(shop, seats=PAIR, pools={"floor": 2})
    bought = await desk.till.buy(hold.id, "sandbox:ok", key="key:k")
    await asyncio.gather(*desk.till._tasks.values())
    assert bought.order is not None
    assert (bought.order.state, bought.order.seats) == (OrderState.CAPTURED, hold.seats)
    seen = await shop.hold(hold.id)
    assert seen is not None
    assert (seen.state, seen.order) == (HoldState.CONFIRMED, bought.order.id)
    again = await desk.till.buy(hold.id, "sandbox:ok", key="key:k")
    assert again.replayed
    await desk.till.cancel(bought.order.id, seats=("A-1-1",))
    await held(shop, "bob", seats=["A-1-1"])
    await desk.till.cancel(bought.order.id)
    await held(shop, "bob", seats=["A-1-2"], pools={"floor": 10})
    await desk.books_balance()


async def test_a_late_payer_gets_nothing_that_somebody_else_holds(shop, clock):
    """Not as a courtesy either, of which only the gate knows."""
    await on_sale(shop)
    desk = Desk(shop, clock)
    hold = await held(shop, seats=PAIR)

    async def a_rival_holds(desk: Desk) -> None:
        clock.advance(HARD_MS)
        await held(shop, "bob", seats=["A-1-2"])

    desk.meanwhile[Step.SETTLE] = a_rival_holds
    bought = await desk.till.buy(hold.id, "sandbox:ok", key="key:k")
    assert bought.order is not None
    assert bought.order.checkout.settlement is Settlement.VOIDED
    assert (await shop.event(E1)).sold == 0
    await desk.books_balance()


async def test_a_late_payer_gets_what_is_free(shop, clock):
    await on_sale(shop)
    desk = Desk(shop, clock)
    hold = await held(shop, seats=PAIR, pools={"floor": 1})

    async def too_late(desk: Desk) -> None:
        clock.advance(HARD_MS)

    desk.meanwhile[Step.SETTLE] = too_late
    bought = await desk.till.buy(hold.id, "sandbox:ok", key="key:k")
    await asyncio.gather(*desk.till._tasks.values())
    assert bought.order is not None
    assert bought.order.checkout.settlement is Settlement.SAME_UNITS
    assert (await shop.event(E1)).sold == 3
    await desk.books_balance()
