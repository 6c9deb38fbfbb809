"""Who goes on with an order, and when a person has to."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.api import wire
from holdfast.checkout.payments.sandbox import SandboxProvider
from holdfast.checkout.recording import Recorder
from holdfast.checkout.saga import Overtaken, Saga, Step
from holdfast.checkout.till import InProgress, Till
from holdfast.domain.model import OrderState
from holdfast.domain.outcomes import Placed, Reason
from holdfast.domain.payments import PaymentState
from holdfast.errors import (
    SettingsError,
    StoreUnavailable,
)
from holdfast.settings import Settings
from holdfast.tasks import Timeouts
from holdfast.wiring import make_provider
from tests.checkout.desk import LEASE_MS, PATIENCE, Crash, Desk, a_hold, down, refused
from tests.contract.helpers import E1, HARD_MS, description, held, on_sale

HOUR_MS = 3600 * 1000
DAY_MS = 24 * HOUR_MS


def point(desk: Desk, step: Step, side: str) -> int:
    """Where the next process dies."""
    return (
        len(desk.steps)
        + {
            (Step.AUTHORIZE, "before"): 2,
            (Step.AUTHORIZE, "after"): 3,
        }[step, side]
    )


async def test_who_comes_later_than_the_provider_remembers_looks_first(quick_desk):
    """Else a payment that was made and forgotten would be made again."""
    desk = quick_desk
    hold = await a_hold(desk)
    desk.crash_at = {point(desk, Step.AUTHORIZE, "after")}
    with pytest.raises(Crash):
        await desk.till.buy(hold, "sandbox:ok", key="key:k")
    (order,) = await desk.orders()
    assert order.state is OrderState.PENDING
    desk.clock.advance(DAY_MS)
    desk.steps.clear()
    desk.crash_at = set()
    await desk.resumed()
    asked = [step for step, side in desk.steps if side == "before"]
    assert Step.FIND in asked
    assert Step.AUTHORIZE not in asked
    assert desk.bank.tally.authorizations == 1
    await desk.books_balance()


async def test_while_it_is_surely_remembered_it_is_only_asked_for_again(quick_desk):
    """The control of the test above."""
    desk = quick_desk
    hold = await a_hold(desk)
    desk.crash_at = {point(desk, Step.AUTHORIZE, "after")}
    with pytest.raises(Crash):
        await desk.till.buy(hold, "sandbox:ok", key="key:k")
    desk.clock.advance(LEASE_MS + 1)
    desk.steps.clear()
    desk.crash_at = set()
    await desk.resumed()
    asked = [step for step, side in desk.steps if side == "before"]
    assert asked[:2] == [Step.RECORD, Step.AUTHORIZE]
    assert Step.FIND not in asked
    assert desk.bank.tally.authorizations == 1


async def test_nobody_goes_on_while_somebody_is_at_it(quick_desk):
    desk = quick_desk
    hold = await a_hold(desk)
    desk.crash_at = {point(desk, Step.AUTHORIZE, "before")}
    with pytest.raises(Crash):
        await desk.till.buy(hold, "sandbox:ok", key="key:k")
    other = desk.process()
    desk.clock.advance(LEASE_MS - 1)
    assert await other.resume() == 0
    with pytest.raises(InProgress):
        await other.buy(hold, "sandbox:ok", key="key:k")
    desk.clock.advance(1)
    bought = await other.buy(hold, "sandbox:ok", key="key:k")
    assert bought.replayed
    assert bought.order is not None
    assert bought.order.sold


LOSSES = [
    (step, side) for step in (Step.OPEN, Step.SETTLE, Step.RECORD) for side in ("before", "after")
]


def lost_at(desk: Desk, lost: Step, side: str) -> Till:
    """A process that cannot reach the store there, once: the command did not arrive, or its answer
    did not."""
    times = [1]

    def lose(step: Step, at: str) -> None:
        if (step, at) == (lost, side) and times:
            times.pop()
            raise StoreUnavailable("it is away")

    @asynccontextmanager
    async def trap(step: Step) -> AsyncIterator[None]:
        lose(step, "before")
        yield
        lose(step, "after")

    return Till(desk.shop, SandboxProvider(desk.bank), PATIENCE, resume=False, trap=trap)


async def tried(till: Till, hold: str) -> None:
    """The buyer hears of the trouble, unless his money was taken: then only the note is missing."""
    with contextlib.suppress(StoreUnavailable):
        await till.buy(hold, "sandbox:ok", key="key:k")
    await asyncio.gather(*till._tasks.values(), return_exceptions=True)


async def gone_on(till: Till) -> None:
    """As it does once a second."""
    while till._stranded or till._tasks:
        await till.go_on()
        await asyncio.gather(*till._tasks.values())


@pytest.mark.parametrize(("step", "side"), LOSSES)
async def test_whoever_asks_again_when_the_store_is_back_need_not_wait_for_a_lease(
    desk, step, side
):
    hold = await a_hold(desk)
    till = lost_at(desk, step, side)
    await tried(till, hold)
    bought = await till.buy(hold, "sandbox:ok", key="key:k")
    assert bought.order is not None
    assert bought.order.sold
    await gone_on(till)
    await desk.books_balance()


@pytest.mark.parametrize(("step", "side"), LOSSES)
async def test_what_the_store_was_lost_at_goes_on_by_itself_when_it_is_back(desk, step, side):
    """For whoever asks another process, which may not touch it before the lease is over."""
    hold = await a_hold(desk)
    till = lost_at(desk, step, side)
    await tried(till, hold)
    await gone_on(till)
    bought = await desk.process().buy(hold, "sandbox:ok", key="key:k")
    assert bought.order is not None
    assert bought.order.sold
    assert desk.bank.tally.authorizations == 1
    await desk.books_balance()


async def test_if_it_did_not_go_on_by_itself_others_would_be_told_to_wait(quick_desk):
    """The control."""
    hold = await a_hold(quick_desk)
    await tried(lost_at(quick_desk, Step.SETTLE, "before"), hold)
    with pytest.raises(InProgress):
        await quick_desk.process().buy(hold, "sandbox:ok", key="key:k")


async def test_what_is_stranded_is_kept_in_mind_until_the_store_is_back(quick_desk, monkeypatch):
    hold = await a_hold(quick_desk)
    till = lost_at(quick_desk, Step.SETTLE, "before")
    await tried(till, hold)

    async def away(id: str) -> None:
        raise StoreUnavailable("it is away")

    with monkeypatch.context() as patched:
        patched.setattr(quick_desk.shop, "order", away)
        with pytest.raises(StoreUnavailable):
            await till.go_on()
    await gone_on(till)
    await quick_desk.books_balance()
    assert quick_desk.bank.tally.captures == 1


async def test_whoever_was_overtaken_changes_nothing(desk):
    """Two processes with the same order in hand: the fence lets one of them on."""
    hold = await a_hold(desk)
    bought = await desk.till.buy(hold, "sandbox:3ds", key="key:k")
    order = bought.order
    assert order is not None
    provider = SandboxProvider(desk.bank)
    submit, attempts = desk.shop.submit, Timeouts(PATIENCE.attempt_seconds)
    ways: dict[str, Any] = {"captured": Recorder(submit, LEASE_MS).captured, "attempts": attempts}
    first = Saga(order, submit, provider, "first", PATIENCE, **ways)
    second = Saga(order, submit, provider, "second", PATIENCE, **ways)
    desk.bank.act(order.id, True)
    await first.take_over()
    with pytest.raises(Overtaken):
        await second.take_over()
    with pytest.raises(Overtaken):
        await second.run()
    await first.run()
    (order,) = await desk.orders()
    assert (order.state, order.checkout.driver) == (OrderState.CAPTURED, "first")
    await desk.books_balance()


async def test_who_stops_hands_over_at_once(quick_desk):
    desk = quick_desk
    hold = await a_hold(desk)
    till = desk.process()
    asked = asyncio.Event()

    async def on_its_way(desk: Desk) -> None:
        asked.set()

    desk.meanwhile[Step.AUTHORIZE] = on_its_way
    async with till:
        buying = asyncio.create_task(till.buy(hold, "sandbox:slow:5", key="key:k"))
        await asked.wait()
    await asyncio.gather(buying, return_exceptions=True)
    (order,) = await desk.orders()
    assert (order.state, order.due_ms) == (OrderState.PENDING, desk.clock())
    desk.clock.advance(6_000)
    await desk.resumed()
    (order,) = await desk.orders()
    assert order.state is OrderState.CAPTURED
    assert desk.bank.tally.authorizations == 1


async def test_who_stops_before_the_first_step_keeps_nobody_waiting(quick_desk):
    desk = quick_desk
    hold = await a_hold(desk)
    till = desk.process()
    drive = till._drive
    stopping: list[asyncio.Task[None]] = []

    def driven(saga: Saga, **how: bool) -> Saga:
        """The process stops in the turn in which the order was opened."""
        stopping.append(asyncio.create_task(till.__aexit__(None, None, None)))
        drive(saga, **how)
        till._tasks[saga.order.id].cancel()
        return saga

    till._drive = driven
    async with asyncio.timeout(10):
        bought = await till.buy(hold, "sandbox:ok", key="key:k")
        await asyncio.gather(*stopping)
    assert bought.order is not None
    assert bought.order.state is OrderState.PENDING
    assert not till._tasks
    assert not till._driving


async def test_a_key_belongs_to_its_event_unless_it_is_said_what_it_is_used_for(desk):
    first = await a_hold(desk)
    await desk.shop.create_event(description(id="e2"))
    holds = []
    for seat in ("A-1-1", "A-1-2"):
        placed = await desk.shop.place_hold("e2", buyer="ann", seats=[seat])
        assert isinstance(placed, Placed)
        holds.append(placed.hold.id)
    for hold in (first, holds[0]):
        bought = await desk.till.buy(hold, "sandbox:ok", key="cart-17")
        assert bought.order is not None
    for hold, reason in ((holds[1], None), (first, Reason.IDEMPOTENCY_MISMATCH)):
        bought = await desk.till.buy(hold, "sandbox:ok", key="cart-18", used_for=f"buy {hold}")
        assert (bought.refused and bought.refused.reason) == reason


async def test_a_provider_that_stays_away_is_a_matter_for_a_person_who_can_try_again(quick_desk):
    desk = quick_desk
    hold = await a_hold(desk)
    desk.bank.authorize, works = down, desk.bank.authorize
    bought = await desk.till.buy(hold, "sandbox:ok", key="key:k")
    assert bought.order is not None
    assert (bought.order.state, bought.order.checkout.tried) == (OrderState.PENDING, 1)
    for _ in range(70):
        desk.clock.advance(61_000)
        await desk.resumed()
    (order,) = await desk.shop.store.troubled_orders(10)
    assert order.trouble is not None
    assert order.trouble.startswith("authorize: ")
    assert order.due_ms is None
    # Nobody tries any more, until a person says so.
    assert await desk.till.nudge(order.id) == order
    desk.bank.authorize = works
    retried = await desk.till.nudge(order.id, retry=True)
    await asyncio.gather(*desk.till._tasks.values())
    assert retried is not None
    assert retried.checkout.settlement == "same_units", "it was late by then"
    assert await desk.shop.store.troubled_orders(10) == []
    await desk.books_balance()


async def test_the_money_of_another_provider_is_not_touched(quick_desk):
    """The deployment has changed its provider: what the new one does not know was not voided."""
    desk = quick_desk
    hold = await a_hold(desk)
    bought = await desk.till.buy(hold, "sandbox:3ds", key="key:k")
    assert bought.order is not None
    provider = SandboxProvider(desk.bank)
    provider.name = "other"
    till = Till(desk.shop, provider, PATIENCE, resume=False)
    await till.nudge(bought.order.id)
    (order,) = await desk.orders()
    assert order.state is OrderState.PENDING
    assert order.trouble == "it is paid by sandbox, and payments are other here"


async def test_money_that_came_after_the_end_is_freed(quick_desk):
    """An ask that was thought lost reaches the provider when the order is over."""
    desk = quick_desk
    hold = await a_hold(desk)
    bought = await desk.till.buy(hold, "sandbox:3ds", key="key:k")
    assert bought.order is not None
    id = bought.order.id
    await desk.till.cancel(id)
    assert desk.bank.find(id).state is PaymentState.VOIDED
    payment = desk.bank._payments[id]
    payment.state = PaymentState.AUTHORIZED
    desk.bank.tally.authorized += payment.amount
    desk.bank.tally.authorizations += 1
    await desk.till.nudge(id)
    assert desk.bank.find(id).state is PaymentState.VOIDED
    await desk.books_balance()


@pytest.mark.parametrize("method", ["", "stripe:pm_card_visa", "cash", "sandbox:nothing"])
async def test_a_method_that_is_none_is_told_before_anything_begins(quick_desk, method):
    assert quick_desk.till.fault(method)
    assert quick_desk.till.fault("sandbox:ok") is None


async def test_what_costs_something_needs_a_method_and_what_is_free_needs_none(desk):
    await on_sale(desk.shop, prices={"gold": 0, "silver": 1, "floor": 1, "stand": 1})
    free = await held(desk.shop, seats=["A-1-1"])
    costly = await held(desk.shop, "bob", seats=["B-1-1"])
    bought = await desk.till.buy(free.id, key="key:a")
    assert bought.order is not None
    assert (bought.order.state, bought.order.payment) == (OrderState.CONFIRMED, None)
    again = await desk.till.buy(free.id, key="key:a")
    assert (again.order, again.replayed) == (bought.order, True)
    refused = (await desk.till.buy(costly.id, key="key:b")).refused
    assert refused is not None
    assert refused.reason is Reason.PAYMENT_REQUIRED
    unknown = (await desk.till.buy("nothing", key="key:c")).refused
    assert unknown is not None
    assert unknown.reason is Reason.UNKNOWN_HOLD
    await desk.books_balance()


async def test_two_payments_of_one_hold_that_come_late_buy_it_once(desk):
    """The buyer got a 503, tried again under another key, and then both payments came through."""
    await on_sale(desk.shop)
    hold = await held(desk.shop, pools={"floor": 2})
    works = desk.bank.authorize
    desk.bank.authorize = down
    for key in ("key:a", "key:b"):
        bought = await desk.till.buy(hold.id, "sandbox:ok", other_seats=True, key=key)
        assert bought.order is not None
        assert bought.order.state is OrderState.PENDING
    desk.bank.authorize = works
    desk.clock.advance(HARD_MS)
    await desk.recovered()
    first, second = await desk.orders()
    assert {first.state, second.state} == {OrderState.CAPTURED, OrderState.VOIDED}
    assert (await desk.shop.event(E1)).sold == 2
    await desk.books_balance()


async def test_a_payment_that_can_never_be_made_is_declined(quick_desk):
    """Such as a card that the provider does not know."""
    desk = quick_desk
    hold = await a_hold(desk)
    desk.bank.authorize = refused
    bought = await desk.till.buy(hold, "sandbox:ok", key="key:k")
    assert bought.order is not None
    assert (bought.order.state, bought.order.checkout.reason) == (
        OrderState.DECLINED,
        "no such card",
    )
    assert await desk.unfinished() == []


async def test_a_message_does_not_take_an_order_from_whoever_is_at_it(quick_desk):
    desk = quick_desk
    hold = await a_hold(desk)
    other = desk.process()
    till = desk.process()

    async def told(desk: Desk) -> None:
        (order,) = await desk.orders()
        await other.nudge(order.id)

    desk.meanwhile[Step.SETTLE] = told
    bought = await till.buy(hold, "sandbox:ok", key="key:k")
    await asyncio.gather(*till._tasks.values())
    assert bought.order is not None
    assert bought.order.sold


async def test_many_purchases_of_its_own_keep_nobody_from_going_on_with_others(quick_desk):
    desk = quick_desk
    hold = await a_hold(desk)
    desk.crash_at = {point(desk, Step.AUTHORIZE, "before")}
    with pytest.raises(Crash):
        await desk.till.buy(hold, "sandbox:ok", key="key:k")
    desk.clock.advance(LEASE_MS)
    till = desk.process()
    for number in range(100):
        till._driving[f"e1.busy-{number}"] = None  # as many as you like
    assert await till.resume() == 1
    await asyncio.gather(*till._tasks.values())


async def test_whoever_waits_hears_that_the_store_was_lost_when_he_was_overtaken(
    quick_desk, monkeypatch
):
    desk = quick_desk
    hold = await a_hold(desk)
    till = desk.process()
    order = desk.shop.order

    async def overtaken(saga: Saga) -> None:
        raise Overtaken(saga.order.id)

    async def lost(id: str) -> None:
        monkeypatch.setattr(desk.shop, "order", order)
        raise StoreUnavailable("it went away")

    monkeypatch.setattr(Saga, "run", overtaken)
    monkeypatch.setattr(desk.shop, "order", lost)
    with pytest.raises(StoreUnavailable):
        await till.buy(hold, "sandbox:ok", key="key:k")
    assert till._stranded, "and he goes on with it when the store is back"


async def test_what_was_promised_stays_promised_under_its_key(quick_desk):
    """The capture got no answer, so he was told that it is his; then it failed for good."""
    desk = quick_desk
    hold = await a_hold(desk)
    works, desk.bank.capture = desk.bank.capture, down
    bought = await desk.till.buy(hold, "sandbox:capture-declined", key="key:k")
    assert bought.order is not None
    assert bought.order.sold
    desk.bank.capture = works
    await desk.recovered()
    (order,) = await desk.orders()
    assert order.state is OrderState.CANCELLED
    assert order.checkout.promised
    again = await desk.till.buy(hold, "sandbox:capture-declined", key="key:k")
    assert again.order == order
    assert wire.order(order, first=True) == wire.order(bought.order, first=True)


@pytest.mark.parametrize("method", ["sandbox:ok", "sandbox:declined", "sandbox:3ds"])
async def test_a_message_that_comes_hours_late_and_often_changes_nothing(quick_desk, method):
    desk = quick_desk
    hold = await a_hold(desk)
    bought = await desk.till.buy(hold, method, key="key:k")
    await asyncio.gather(*desk.till._tasks.values())
    assert bought.order is not None
    if method == "sandbox:3ds":
        await desk.till.cancel(bought.order.id)
    (before,) = await desk.orders()
    tally = replace(desk.bank.tally)
    desk.clock.advance(5 * HOUR_MS)
    for _ in range(3):
        await desk.process().nudge(before.id)
    assert await desk.orders() == [before]
    assert desk.bank.tally == tally


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"payments": "paypal"}, "payments must be none, sandbox, .* not 'paypal'"),
        ({"payments": "sandbox+http://"}, "payments must be none, sandbox, "),
        ({"payments": "stripe"}, "payments = stripe needs stripe_key"),
        ({"payments": "stripe", "stripe_key": "sk_x"}, "needs stripe_webhook_secret"),
        (
            {"payments": "stripe", "stripe_key": "pk_x", "stripe_webhook_secret": "whsec_x"},
            "publishable",
        ),
    ],
)
def test_a_provider_that_cannot_be_is_one_line(settings, line):
    with pytest.raises(SettingsError, match=line):
        make_provider(Settings(**settings))
