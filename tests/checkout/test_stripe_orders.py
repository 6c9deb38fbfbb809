"""Orders that are paid for with Stripe: the till and the provider together, over real HTTP."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from holdfast.checkout.payments.stripe import StripeProvider
from holdfast.checkout.saga import Patience
from holdfast.checkout.till import Till
from holdfast.domain.model import OrderState, Settlement
from holdfast.domain.payments import PaymentState
from tests.checkout.desk import Desk
from tests.checkout.stripe_fake import SECRET_KEY, Mishap, StripeFake, stripe_fake
from tests.contract.helpers import HARD_MS, held, on_sale

PATIENCE = Patience(attempt_seconds=2.0)


@pytest.fixture
def fake() -> Iterator[StripeFake]:
    with stripe_fake() as fake:
        yield fake


@pytest.fixture
async def till(quick_desk, fake) -> AsyncIterator[Till]:
    provider = StripeProvider(SECRET_KEY, "whsec_x", fake.url, 2.0)
    async with Till(quick_desk.shop, provider, PATIENCE, resume=False) as till:
        yield till


async def a_hold(desk: Desk) -> str:
    await on_sale(desk.shop)
    return (await held(desk.shop)).id


async def test_it_is_bought_once_and_given_back(quick_desk, till, fake):
    hold = await a_hold(quick_desk)
    for _ in range(2):
        bought = await till.buy(hold, "stripe:pm_card_visa", key="key:k")
        await asyncio.gather(*till._tasks.values())
        assert bought.order is not None
        assert bought.order.state is OrderState.CAPTURED
    assert fake.effects == {"authorized": 1, "captured": 1}
    assert bought.order.payment == f"stripe:{fake.the_intent()['id']}"
    await till.cancel(bought.order.id, seats=("A-1-1",))
    await till.cancel(bought.order.id)
    (order,) = await quick_desk.orders()
    assert (order.state, order.checkout.payment) == (OrderState.CANCELLED, PaymentState.REFUNDED)
    assert fake.effects["refunded"] == 2


async def test_a_decline_is_told_and_nothing_is_set_aside(quick_desk, till, fake):
    hold = await a_hold(quick_desk)
    bought = await till.buy(hold, "stripe:pm_card_chargeDeclined", key="key:k")
    assert bought.order is not None
    assert bought.order.state is OrderState.DECLINED
    assert bought.order.checkout.reason
    # A card that Stripe does not know will never be charged: that is a decline, too.
    unknown = await till.buy(hold, "stripe:pm_nobody", key="key:other")
    assert unknown.order is not None
    assert unknown.order.state is OrderState.DECLINED
    assert await quick_desk.unfinished() == []


async def test_the_bank_asks_back(quick_desk, till, fake):
    hold = await a_hold(quick_desk)
    bought = await till.buy(hold, "stripe:pm_card_threeDSecure2Required", key="key:k")
    assert bought.order is not None
    assert bought.order.state is OrderState.PENDING
    assert bought.order.checkout.next_action
    fake.authenticate(fake.the_intent()["id"])
    done = await till.nudge(bought.order.id)
    await asyncio.gather(*till._tasks.values())
    assert done is not None
    assert done.state is OrderState.CAPTURED
    assert done.checkout.next_action is None


async def test_late_and_gone_it_is_voided(quick_desk, till, fake):
    hold = await a_hold(quick_desk)
    bought = await till.buy(hold, "stripe:pm_card_threeDSecure2Required", key="key:k")
    assert bought.order is not None
    quick_desk.clock.advance(HARD_MS)
    await quick_desk.shop.sell("e1", buyer="bob", seats=["A-1-1"])
    fake.authenticate(fake.the_intent()["id"])
    done = await till.nudge(bought.order.id)
    assert done is not None
    assert (done.state, done.checkout.settlement) == (OrderState.VOIDED, Settlement.VOIDED)
    assert fake.the_intent()["status"] == "canceled"


async def test_an_answer_that_was_lost_is_found_again(quick_desk, till, fake):
    hold = await a_hold(quick_desk)
    fake.mishaps = [Mishap.CUT_OFF]
    bought = await till.buy(hold, "stripe:pm_card_visa", key="key:k")
    assert bought.order is not None
    if bought.order.state is OrderState.PENDING:
        bought = await till.buy(hold, "stripe:pm_card_visa", key="key:k")
    await asyncio.gather(*till._tasks.values())
    (order,) = await quick_desk.orders()
    assert order.state is OrderState.CAPTURED
    assert fake.effects == {"authorized": 1, "captured": 1}
