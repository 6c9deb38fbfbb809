"""What is taken back: whoever cancels, whatever goes on meanwhile and whoever dies, the money goes
back once."""

import asyncio

import pytest

from holdfast.api import wire
from holdfast.checkout.payments.bank import Bank
from holdfast.checkout.saga import Step
from holdfast.checkout.till import Cancellation
from holdfast.domain.model import OrderState
from holdfast.domain.outcomes import Cancelled
from holdfast.domain.payments import PaymentState
from tests.checkout.desk import LEASE_MS, Crash, Desk, a_hold, down
from tests.contract.helpers import E1, held, on_sale

DAY_MS = 24 * 3600 * 1000


async def test_a_refund_that_nobody_wrote_down_is_not_made_twice(quick_desk):
    desk = quick_desk
    hold = await a_hold(desk)
    bought = await desk.till.buy(hold, "sandbox:ok", key="key:k")
    await asyncio.gather(*desk.till._tasks.values())
    assert bought.order is not None
    before = len(desk.steps)
    # cancel, take over, refund, and then dead
    desk.crash_at = {before + 5}
    with pytest.raises(Crash):
        await desk.till.cancel(bought.order.id)
    assert desk.steps[-1] == (Step.REFUND, "after")
    desk.crash_at = set()
    desk.clock.advance(2 * DAY_MS)
    desk.steps.clear()
    await desk.resumed()
    assert Step.REFUND not in [step for step, _ in desk.steps]
    assert desk.bank.tally.refunds == 1
    await desk.books_balance()


async def test_of_an_order_that_was_given_back_nothing_is_freed(quick_desk, caplog):
    """Asked in a process whose provider knows nothing of it, as the sandbox of another worker."""
    hold = await a_hold(quick_desk)
    bought = await quick_desk.till.buy(hold, "sandbox:ok", key="key:k")
    await asyncio.gather(*quick_desk.till._tasks.values())
    assert bought.order is not None
    await quick_desk.till.cancel(bought.order.id)
    await asyncio.gather(*quick_desk.till._tasks.values())
    quick_desk.bank = Bank(adopts=True)
    other = quick_desk.process()
    again = await other.cancel(bought.order.id)
    assert isinstance(again.outcome, Cancelled)
    assert "freed" not in caplog.text
    assert quick_desk.bank.tally.voids == 0


async def test_a_payment_on_its_way_when_its_order_is_cancelled_sets_nothing_aside(quick_desk):
    """One process waits for the provider while another cancels."""
    desk = quick_desk
    hold = await a_hold(desk)
    other = desk.process()
    till = desk.process()

    async def cancelled(desk: Desk) -> None:
        (order,) = await desk.orders()
        await other.cancel(order.id)

    desk.meanwhile[Step.AUTHORIZE] = cancelled
    bought = await till.buy(hold, "sandbox:ok", key="key:k")
    await asyncio.gather(*till._tasks.values())
    assert bought.order is not None
    assert bought.order.state is OrderState.CANCELLED
    assert desk.bank.tally.captures == 0
    await desk.books_balance()


async def test_what_a_cancel_answers_is_cancelled_though_the_purchase_is_not_done(quick_desk):
    desk = quick_desk
    hold = await a_hold(desk)
    till = desk.process()

    async def cancelled_now(desk: Desk) -> None:
        (order,) = await desk.orders()
        answered.append(asyncio.create_task(till.cancel(order.id)))
        await asyncio.sleep(0)

    answered: list[asyncio.Task[Cancellation]] = []
    desk.meanwhile[Step.CAPTURE] = cancelled_now
    await till.buy(hold, "sandbox:ok", key="key:k")
    outcome = (await answered[0]).outcome
    assert isinstance(outcome, Cancelled)
    assert outcome.order.state is OrderState.CANCELLED
    await desk.recovered()
    await desk.books_balance()


async def test_all_who_cancel_at_once_are_told_how_it_ends(desk):
    hold = await a_hold(desk)
    till = desk.process()
    bought = await till.buy(hold, "sandbox:ok", key="key:k")
    assert bought.order is not None
    await asyncio.gather(*till._tasks.values())
    id = bought.order.id
    told = await asyncio.gather(*(till.cancel(id, key=f"key:{n}") for n in range(5)))
    sold = [each.outcome.order for each in told if isinstance(each.outcome, Cancelled)]
    assert len(sold) == 5
    assert {order.checkout.payment for order in sold} == {PaymentState.REFUNDED}
    assert desk.bank.tally.refunds == 1
    await desk.books_balance()


async def test_a_part_that_is_cancelled_before_the_capture_is_written_has_its_money_back(
    quick_desk,
):
    desk = quick_desk
    hold = await a_hold(desk)

    async def a_part_is_cancelled(desk: Desk) -> None:
        (order,) = await desk.orders()
        cancelled = (await desk.process().cancel(order.id, seats=("A-1-2",))).outcome
        assert isinstance(cancelled, Cancelled)
        assert cancelled.order.amount + cancelled.order.checkout.refunded == order.amount
        answered.append(cancelled)

    answered: list[Cancelled] = []
    till = desk.till
    desk.meanwhile[Step.RECORD] = a_part_is_cancelled
    await till.buy(hold, "sandbox:ok", key="key:k")
    await asyncio.gather(*till._tasks.values())
    assert len(answered) == 1
    await desk.recovered()
    await desk.books_balance()


async def test_who_dies_between_the_capture_and_a_refund_leaves_the_refund_to_others(quick_desk):
    desk = quick_desk
    hold = await a_hold(desk)
    works, desk.bank.capture = desk.bank.capture, down
    await desk.till.buy(hold, "sandbox:ok", key="key:k")
    (order,) = await desk.orders()
    await desk.process().cancel(order.id, seats=("A-1-2",))
    desk.bank.capture = works

    async def dies(desk: Desk) -> None:
        raise Crash("before the refund")

    desk.meanwhile[Step.REFUND] = dies
    desk.clock.advance(LEASE_MS + 1)
    with pytest.raises(Crash):
        await desk.resumed()
    (order,) = await desk.orders()
    assert order.state is OrderState.CAPTURED
    assert order.due_ms is not None, "nobody would come for it"
    await desk.recovered()
    assert desk.bank.tally.refunded == order.checkout.refunds[0].amount
    await desk.books_balance()


async def test_money_that_was_never_taken_is_not_announced_as_given_back(quick_desk):
    desk = quick_desk
    hold = await a_hold(desk)
    bought = await desk.till.buy(hold, "sandbox:capture-declined", key="key:k")
    await asyncio.gather(*desk.till._tasks.values())
    types = [entry.type for entry in await desk.shop.log(E1)]
    assert "order.refunded" not in types
    assert types[-2:] == ["order.cancelled", "order.voided"]
    # A person has seen it: nothing is left to do.
    assert bought.order is not None
    closed = await desk.till.nudge(bought.order.id, retry=True)
    assert closed is not None
    assert closed.trouble is None
    assert await desk.shop.store.troubled_orders(10) == []


async def test_cancelling_for_nothing_keeps_what_a_person_has_to_know(quick_desk):
    desk = quick_desk
    await on_sale(desk.shop, prices={"gold": 100, "silver": 0, "floor": 1, "stand": 1})
    hold = await held(desk.shop, seats=["A-1-1", "A-1-2", "B-1-1"])
    bought = await desk.till.buy(hold.id, "sandbox:refund-refused", key="key:k")
    await asyncio.gather(*desk.till._tasks.values())
    assert bought.order is not None
    await desk.till.cancel(bought.order.id, seats=("A-1-1",))
    (stuck,) = await desk.shop.store.troubled_orders(10)
    await desk.till.cancel(bought.order.id, seats=("B-1-1",))
    (still,) = await desk.shop.store.troubled_orders(10)
    assert still.trouble == stuck.trouble
    assert still.seats == ("A-1-2",)


async def test_a_cancel_asked_for_again_is_answered_as_first(quick_desk):
    desk = quick_desk
    hold = await a_hold(desk)
    bought = await desk.till.buy(hold, "sandbox:ok", key="key:k")
    await asyncio.gather(*desk.till._tasks.values())
    assert bought.order is not None
    id = bought.order.id
    first = await desk.till.cancel(id, pools={"floor": 1}, key="key:c")
    await desk.till.cancel(id)
    again = await desk.till.cancel(id, pools={"floor": 1}, key="key:c")
    assert (first.replayed, again.replayed) == (False, True)
    assert isinstance(first.outcome, Cancelled)
    assert isinstance(again.outcome, Cancelled)
    assert wire.order(again.outcome.order) == wire.order(first.outcome.order)
