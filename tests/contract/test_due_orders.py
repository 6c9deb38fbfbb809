"""Orders that somebody has to go on with, and those that a person has to look at: found among the
orders of all events, and as they were written down."""

import asyncio
from typing import Any

import pytest

from holdfast import Holdfast, Order, Placed
from holdfast.domain.commands import OpenOrder, StepOrder
from holdfast.domain.model import OrderState, Refund, Settlement
from holdfast.domain.outcomes import Opened, Refused, Stepped
from holdfast.domain.payments import PaymentState
from tests.contract.helpers import E1, log, on_sale

pytestmark = pytest.mark.policies("authority")

LEASE_MS = 10_000


async def opened(shop: Holdfast, name: str, event: str = E1, lease_ms: int = LEASE_MS) -> Order:
    """An order that is being paid for."""
    placed = await shop.place_hold(event, buyer="ann", pools={"floor": 1})
    assert isinstance(placed, Placed), placed
    command = OpenOrder(
        id=f"open {name}",
        event=event,
        hold=placed.hold.id,
        order=f"{event}.{name}",
        method="sandbox:ok",
        other_seats=True,
        driver="p1",
        lease_ms=lease_ms,
    )
    outcome = (await shop.submit(command)).outcome
    assert isinstance(outcome, Opened), outcome
    return outcome.order


def step(order: Order, name: str = "step", **what: Any) -> StepOrder:
    return StepOrder(
        id=f"{name} {order.id} {order.version}",
        event=order.event,
        order=order.id,
        fence=order.version,
        **what,
    )


async def stepped(shop: Holdfast, order: Order, **what: Any) -> Order:
    outcome = (await shop.submit(step(order, **what))).outcome
    assert isinstance(outcome, Stepped), outcome
    return outcome.order


async def test_an_order_is_due_from_the_moment_on_that_was_written_down(shop, clock):
    await on_sale(shop)
    order = await opened(shop, "o1")
    clock.advance(LEASE_MS - 1)
    assert await shop.store.due_orders(10) == []
    clock.advance(1)
    assert await shop.store.due_orders(10) == [order]
    assert await shop.order(order.id) == order


async def test_an_order_comes_back_as_it_was_written_down(shop):
    await on_sale(shop)
    written = await stepped(
        shop,
        await opened(shop, "o1"),
        state=OrderState.AUTHORIZED,
        payment='sandbox:"é😀" \\ %s',
        due_in_ms=0,
        trouble='it\'s odd: "é😀" \\ %s {}',
        changes={
            "payment": PaymentState.AUTHORIZED,
            "settlement": Settlement.VOIDED,
            "tried": 3,
            "reason": '"why"',
            "next_action": {"url": "https://pay.example/?a=1&b='2'"},
            "refunds": (Refund("v1", 100), Refund("v2", 200, done=True)),
            "bought": (("A-1-1", "A-1-2"), {"floor": 2}, 27_000),
        },
    )
    assert written.version == 2
    assert await shop.store.due_orders(10) == [written]
    assert await shop.store.troubled_orders(10) == [written]
    assert await shop.order(written.id) == written
    assert (await shop.store.census(E1)).orders == [written]


async def test_a_step_without_a_fact_is_kept_all_the_same(shop):
    await on_sale(shop)
    order = await opened(shop, "o1")
    before = await log(shop)
    order = await stepped(shop, order, due_in_ms=None)
    assert await log(shop) == before
    assert await shop.order(order.id) == order
    assert await shop.store.due_orders(10) == []
    assert await stepped(shop, order, due_in_ms=0) == (await shop.store.due_orders(10))[0]


async def test_those_that_were_due_first_come_first_whatever_their_event(shop, clock):
    events = ["e1", "e2"]
    for event in events:
        await on_sale(shop, id=event)
    leases = [500, 100, 400, 200, 300]
    orders = [
        await opened(shop, f"o{n}", events[n % 2], lease_ms) for n, lease_ms in enumerate(leases)
    ]
    clock.advance(400)
    in_order = [orders[n] for n in (1, 3, 4, 2)]
    assert await shop.store.due_orders(10) == in_order
    assert await shop.store.due_orders(3) == in_order[:3]


async def test_orders_in_trouble_are_found_until_it_is_over_oldest_first(shop, clock):
    events = ["e1", "e2"]
    for event in events:
        await on_sale(shop, id=event)
    orders = []
    for n in range(4):
        orders.append(await opened(shop, f"o{n}", events[n % 2]))
        clock.advance(1_000)
    assert await shop.store.troubled_orders(10) == []
    troubled = [await stepped(shop, order, trouble="look") for order in reversed(orders[:3])][::-1]
    assert await shop.store.troubled_orders(10) == troubled
    assert await shop.store.troubled_orders(2) == troubled[:2]
    await stepped(shop, troubled[0])
    assert await shop.store.troubled_orders(10) == troubled[1:]


async def test_orders_that_were_sold_at_once_are_neither_due_nor_in_trouble(shop):
    await on_sale(shop)
    await shop.sell(E1, buyer="ann", seats=["A-1-1"])
    assert await shop.store.due_orders(10) == []
    assert await shop.store.troubled_orders(10) == []


async def test_of_those_who_go_on_with_one_order_one_does(shop):
    """Each in a batch of its own, as different processes have it."""
    await on_sale(shop)
    order = await opened(shop, "o1")
    rivals = [step(order, f"p{n}", due_in_ms=n) for n in range(10)]
    answers = await asyncio.gather(*(shop.store.apply([rival]) for rival in rivals))
    outcomes = [answer.outcome for [answer] in answers]
    [won] = [outcome.order for outcome in outcomes if isinstance(outcome, Stepped)]
    assert sum(isinstance(outcome, Refused) for outcome in outcomes) == 9
    assert await shop.order(order.id) == won
