"""From a hold to a paid order, whatever dies in between.

    open       the order is written down, its hold can no longer run out
    authorize  the provider sets the money aside
    settle     the units are sold: order, units, fact in one transaction
    capture    the provider takes the money
    record     that it was taken is written down

If there is nothing to sell any more, the money is freed (`void`); of what is cancelled, it is given
back (`refund`). What comes next is told by the order alone (`next_step`), each step may be taken
twice and has its effect once, and each write is fenced by the order's version. So whoever finds an
order that nobody is at takes the next step: a process may die between any two lines.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from holdfast.checkout.told import Told
from holdfast.domain.commands import CancelOrder, Command, SettleOrder, StepOrder
from holdfast.domain.model import Millis, Order, OrderState, Refund, Settlement
from holdfast.domain.outcomes import (
    Answer,
    Cancelled,
    Confirmed,
    Outcome,
    Reason,
    Refused,
    Settled,
    Stepped,
)
from holdfast.domain.payments import Charge, PaymentState, Standing
from holdfast.errors import PaymentRefused, PaymentUnavailable
from holdfast.ids import Ids
from holdfast.ports import Provider
from holdfast.tasks import Timeouts

T = TypeVar("T")

POLL_MS: Millis = 500
"""How often a payment that the provider is still working on is looked up."""
ACTION_POLL_MS: Millis = 5_000
"""The same for one that waits for the buyer, should no webhook come."""
RENEW_MS: Millis = 5_000
"""How often whoever waits says that he is still there."""
BACK_OFF_FIRST_MS: Millis = 500
BACK_OFF_LAST_MS: Millis = 60_000

TROUBLE_CHARS_MAX = 500

log = logging.getLogger("holdfast.checkout")


class Step(StrEnum):
    """Everything that is done outside of this process, in the order of a purchase."""

    OPEN = "open"
    AUTHORIZE = "authorize"
    FIND = "find"
    SETTLE = "settle"
    CAPTURE = "capture"
    VOID = "void"
    REFUND = "refund"
    CANCEL = "cancel"
    RECORD = "record"


class Overtaken(Exception):
    """Another process has gone on with the order."""


class Patience(msgspec.Struct, frozen=True):
    """How long what may take."""

    lease_ms: Millis = 20_000
    """How long whoever is at an order may be silent before others go on."""
    attempt_seconds: float = 3.0
    """How long one call of the provider may take."""
    waiting_ms: Millis = 60_000
    """How long a payment without an answer is waited for, before it is left to be looked up."""
    limit_ms: Millis = 3_600_000
    """How long a payment is tried before a person has to look at it."""


PATIENCE = Patience()
IDS = Ids()


def next_step(order: Order) -> Step | None:
    """What has to be done next, told by the order alone."""
    checkout = order.checkout
    if not checkout.method:
        return None
    match order.state:
        case OrderState.PENDING:
            return Step.AUTHORIZE
        case OrderState.AUTHORIZED:
            return Step.VOID
        case OrderState.CONFIRMED:
            return Step.CAPTURE
        case OrderState.CANCELLED if checkout.payment in UNTAKEN:
            return Step.VOID
        case OrderState.CAPTURED | OrderState.CANCELLED:
            return Step.REFUND if _refund(order) is not None else None
    return None


UNTAKEN = (PaymentState.PENDING, PaymentState.AUTHORIZED)
FREEABLE = (*UNTAKEN, PaymentState.CAPTURED)
TAKEN = (PaymentState.CAPTURED, PaymentState.REFUNDED)

Fenced = SettleOrder | StepOrder | CancelOrder
Captured = Callable[[Order], Awaitable[Order]]
"""Writes down that the money of a sold order was taken; raises Overtaken as every write does."""
Trap = Callable[[Step], AbstractAsyncContextManager[None]]
"""Around each step that leaves this process: for those who watch, and tests that crash there."""


class Saga:
    """One order on its way, as far as it goes now."""

    __slots__ = (
        *("_attempts", "_captured", "_driver", "_now", "_patience", "_provider", "_submit"),
        *("_trap", "_waited_ms", "order", "task", "told"),
    )

    def __init__(
        self,
        order: Order,
        submit: Callable[[Command], Awaitable[Answer]],
        provider: Provider,
        driver: str,
        patience: Patience = PATIENCE,
        trap: Trap | None = None,
        *,
        captured: Captured,
        attempts: Timeouts,
    ) -> None:
        """`attempts`: how long one call of the provider may take."""
        self.order = order
        self._submit = submit
        self._provider = provider
        self._driver = driver
        self._patience = patience
        self._trap = trap
        self._captured = captured
        self._attempts = attempts
        self.task: asyncio.Task[None] | None = None
        """Who takes its steps, if it is a task of its own."""
        self.told = Told()
        """The order as soon as there is something to say, for those who wait: when it is paid for,
        which need not be written down first, or when it goes no further for now."""
        self._now = order.created_ms
        self._waited_ms = 0

    async def take_over(self, *, afresh: bool = False) -> None:
        """From now on it is ours; raises Overtaken if somebody was faster. `afresh`: as if nothing
        had been tried yet."""
        await self._record(
            due_in_ms=self._patience.lease_ms,
            trouble=None if afresh else self.order.trouble,
            driver=self._driver,
            tried=0 if afresh else self.order.checkout.tried,
        )

    async def hand_over(self) -> None:
        """Whoever comes may go on with it at once."""
        await self._record(due_in_ms=0, trouble=self.order.trouble, driver="")

    async def run(self) -> Order:
        """Takes step after step. What cannot be done now is written down to be done later."""
        going = self.order.checkout.provider == self._provider.name or await self._anothers()
        while going and (step := next_step(self.order)) is not None:
            try:
                going = await self._take(step)
            except PaymentUnavailable as trouble:
                await self._later(step, str(trouble))
                going = False
            except PaymentRefused as no:
                await self._stuck(f"{step}: {no}")
                going = False
        self.told.say(self.order)
        return self.order

    async def _anothers(self) -> bool:
        """Another provider has its money: no word of this one's means anything. Never to go on."""
        whose = self.order.checkout.provider
        await self._stuck(f"it is paid by {whose}, and payments are {self._provider.name} here")
        return False

    async def close_trouble(self) -> None:
        """A person has seen it, and nothing is left to do."""
        await self._record()

    async def free_stray(self) -> None:
        """Of an order that has ended without a sale nothing may be set aside. An ask that was
        thought lost can still have reached the provider."""
        found = await self._ask(Step.FIND, self._provider.find, self._charge())
        if found is not None and found.state in FREEABLE:
            log.warning("order %s is %s, its payment is freed", self.order.id, self.order.state)
            await self._ask(Step.VOID, self._provider.void, self._charge())

    async def _take(self, step: Step) -> bool:
        """Whether to go on at once."""
        match step:
            case Step.AUTHORIZE:
                return await self._authorize()
            case Step.CAPTURE:
                return await self._capture()
            case Step.VOID:
                return await self._void()
        return await self._give_back()

    async def _authorize(self) -> bool:
        try:
            standing = await self._authorized()
        except PaymentRefused as no:
            reason = one_line(str(no))
            await self._record(
                OrderState.DECLINED, payment=PaymentState.DECLINED, reason=reason, next_action=None
            )
            return False
        match standing.state:
            case PaymentState.AUTHORIZED | PaymentState.CAPTURED:
                return await self._settle(standing)
            case PaymentState.PENDING:
                return await self._wait(standing)
            case PaymentState.DECLINED:
                end, reason = OrderState.DECLINED, standing.reason or "the payment was declined"
            case _:
                end, reason = OrderState.VOIDED, "the payment was called off"
        await self._record(end, standing, payment=standing.state, reason=reason, next_action=None)
        return False

    async def _authorized(self) -> Standing:
        """How the payment stands, asked for if it was not yet."""
        charge = self._charge()
        age_ms = self._now - self.order.created_ms
        known = self.order.payment is not None
        if known or age_ms >= self._provider.remembers_seconds * 1000:
            # To ask again may be too late to be known as a repetition: look it up.
            standing = await self._ask(Step.FIND, self._provider.find, charge)
            if standing is not None:
                return standing
        try:
            return await self._ask(Step.AUTHORIZE, self._provider.authorize, charge)
        except PaymentUnavailable:
            # It may have been done and only the answer lost.
            standing = await self._ask(Step.FIND, self._provider.find, charge)
            if standing is None:
                raise
            return standing

    async def _settle(self, standing: Standing) -> bool:
        order = self.order
        command = SettleOrder(
            id=IDS.new(),
            event=order.event,
            order=order.id,
            hold=order.hold or "",
            fence=order.version,
            payment=self._named(standing),
            captured=standing.state is PaymentState.CAPTURED,
            lease_ms=self._patience.lease_ms,
        )
        outcome = await self._write(Step.SETTLE, command)
        if isinstance(outcome, Refused) and outcome.reason is Reason.LATE:
            late = replace(
                command,
                id=IDS.new(),
                late=True,
                buyer=order.buyer,
                pools=order.pools,
                other_seats=order.checkout.other_seats,
            )
            outcome = await self._write(Step.SETTLE, late)
        if isinstance(outcome, Confirmed | Settled):
            self.order = outcome.order
            return True
        # Nothing that could be decided: take nothing, and say so.
        assert isinstance(outcome, Refused), outcome
        await self._stuck(outcome.detail)
        return False

    async def _wait(self, standing: Standing) -> bool:
        """The provider is at it, or the buyer is."""
        if self._now - self.order.created_ms > self._patience.limit_ms:
            # He never came back. First the order is called off, then what may be set aside.
            await self._cancel(None)
            return True
        action = standing.next_action
        goes_on = action is None and self._waited_ms < self._patience.waiting_ms
        if self._waited_ms % RENEW_MS == 0 or not goes_on:
            due_ms = ACTION_POLL_MS if action else POLL_MS
            await self._record(
                standing=standing,
                due_in_ms=self._patience.lease_ms if goes_on else due_ms,
                driver=self._driver if goes_on else "",
                next_action=action,
                tried=0,
            )
        if goes_on:
            await asyncio.sleep(POLL_MS / 1000)
            self._waited_ms += POLL_MS
        return goes_on

    async def _capture(self) -> bool:
        try:
            await self._ask(Step.CAPTURE, self._provider.capture, self._charge())
        except PaymentRefused as no:
            # Sold, and the money will never come: the units go back.
            await self._cancel(f"the payment could not be taken: {no}")
            return True
        # The provider has said so. Should we die before it is written, it is asked for again.
        if _refund(self.order) is None:
            checkout = replace(self.order.checkout, payment=PaymentState.CAPTURED)
            self.told.say(replace(self.order, state=OrderState.CAPTURED, checkout=checkout))
        self.order = await self._out(Step.RECORD, self._captured, self.order)
        return True

    async def _cancel(self, trouble: str | None) -> None:
        order = self.order
        command = CancelOrder(
            id=IDS.new(),
            event=order.event,
            order=order.id,
            fence=order.version,
            trouble=trouble and one_line(trouble),
        )
        outcome = await self._write(Step.CANCEL, command)
        assert isinstance(outcome, Cancelled), outcome
        self.order = outcome.order

    async def _void(self) -> bool:
        charge = self._charge()
        found = await self._ask(Step.FIND, self._provider.find, charge)
        if found is not None and found.state in TAKEN and _refund(self.order) is not None:
            # It was taken, and only not written down: then it is given back as what it is.
            await self._record(
                standing=found, trouble=self.order.trouble, payment=PaymentState.CAPTURED
            )
            return True
        standing = found
        try:
            if found is None or found.state in FREEABLE:
                # Also where there is none: an ask may still be on its way.
                standing = await self._ask(Step.VOID, self._provider.void, charge)
        except PaymentRefused as no:
            await self._stuck(f"the payment could not be freed: {no}")
            return False
        given_back = standing is not None and standing.state is PaymentState.REFUNDED
        end = PaymentState.REFUNDED if given_back else PaymentState.VOIDED
        # Nothing was taken, so nothing is to be given back.
        changes: dict[str, Any] = {"payment": end, "tried": 0, "refunds": ()}
        state = None
        if self.order.state is OrderState.AUTHORIZED:
            state = OrderState.REFUNDED if given_back else OrderState.VOIDED
            changes["settlement"] = Settlement.REFUNDED if given_back else Settlement.VOIDED
        await self._record(state, standing, trouble=self.order.trouble, **changes)
        return True

    async def _give_back(self) -> bool:
        refund = _refund(self.order)
        assert refund is not None
        try:
            await self._refunded(refund)
        except PaymentRefused as no:
            await self._stuck(f"the refund was refused: {no}")
            return False
        refunds = tuple(
            replace(each, done=True) if each.name == refund.name else each
            for each in self.order.checkout.refunds
        )
        changes: dict[str, Any] = {"refunds": refunds, "tried": 0}
        if self.order.state is OrderState.CANCELLED and all(each.done for each in refunds):
            changes["payment"] = PaymentState.REFUNDED
        await self._record(trouble=self.order.trouble, **changes)
        return True

    async def _refunded(self, refund: Refund) -> None:
        charge = self._charge()
        if self._now - refund.at_ms >= self._provider.remembers_seconds * 1000:
            given = sum(each.amount for each in self.order.checkout.refunds if each.done)
            found = await self._ask(Step.FIND, self._provider.find, charge)
            if found is not None and found.refunded >= given + refund.amount:
                return  # it was done, and only not written down
        await self._ask(Step.REFUND, self._provider.refund, charge, refund.amount, refund.name)

    async def _stuck(self, trouble: str) -> None:
        trouble = one_line(trouble)
        log.warning("order %s needs a person: %s", self.order.id, trouble)
        await self._record(trouble=trouble, driver="")

    async def _later(self, step: Step, why: str) -> None:
        """To be tried again, by whoever comes; past the limit a person has to look at it."""
        checkout = self.order.checkout
        since_ms = checkout.since_ms if checkout.tried else self._now
        if self._now - since_ms > self._patience.limit_ms:
            await self._stuck(self.order.trouble or f"{step}: {why}")
            return
        tried = checkout.tried + 1
        # It is sold, and he is told so: that the money is late is no matter of his.
        promised = checkout.promised or step is Step.CAPTURE
        await self._record(
            due_in_ms=min(BACK_OFF_FIRST_MS * 2 ** min(tried - 1, 20), BACK_OFF_LAST_MS),
            trouble=self.order.trouble,
            tried=tried,
            since_ms=since_ms,
            promised=promised,
            driver="",
        )

    async def _record(
        self,
        state: OrderState | None = None,
        standing: Standing | None = None,
        *,
        due_in_ms: Millis | None = None,
        trouble: str | None = None,
        **changes: Any,
    ) -> None:
        order = self.order
        if due_in_ms is None and trouble is None:
            after = replace(order.checkout, **changes)
            if next_step(replace(order, state=state or order.state, checkout=after)) is not None:
                due_in_ms = self._patience.lease_ms  # more is to be done, and we are at it
        command = StepOrder(
            id=IDS.new(),
            event=order.event,
            order=order.id,
            fence=order.version,
            state=state,
            payment=self._named(standing) if standing is not None else None,
            due_in_ms=due_in_ms,
            trouble=trouble,
            changes=changes,
        )
        outcome = await self._write(Step.RECORD, command)
        assert isinstance(outcome, Stepped), outcome
        self.order = outcome.order

    async def _write(self, step: Step, command: Fenced) -> Outcome:
        answer = await self._out(step, self._submit, command)
        self._now = answer.now_ms or self._now
        outcome = answer.outcome
        if isinstance(outcome, Refused) and outcome.reason is Reason.STALE:
            raise Overtaken(command.order)
        return outcome

    def _ask(self, step: Step, ask: Callable[..., Awaitable[T]], *what: Any) -> Awaitable[T]:
        """The provider, within its time."""
        return self._out(step, self._in_time, ask, *what)

    def _out(self, step: Step, begin: Callable[..., Awaitable[T]], *what: Any) -> Awaitable[T]:
        """What leaves this process."""
        if self._trap is None:
            return begin(*what)
        return trapped(self._trap(step), begin, *what)

    async def _in_time(self, ask: Callable[..., Awaitable[T]], *what: Any) -> T:
        task = self.task or asyncio.current_task()
        assert task is not None
        timeout = self._attempts.begin(task.cancel)
        try:
            return await ask(*what)
        except asyncio.CancelledError:
            if not timeout.over or task.uncancel() > 0:
                raise  # somebody else has cancelled it as well
            raise PaymentUnavailable("the provider of payments did not answer") from None
        finally:
            timeout.cancel()

    def _charge(self) -> Charge:
        order = self.order
        amount = order.checkout.bought[2] if order.checkout.bought else order.amount
        payment = order.payment.partition(":")[2] if order.payment else None
        return Charge(order.id, amount, order.currency, order.checkout.method, payment)

    def _named(self, standing: Standing) -> str:
        return f"{self._provider.name}:{standing.payment}"


async def trapped(
    trap: AbstractAsyncContextManager[None], begin: Callable[..., Awaitable[T]], *what: Any
) -> T:
    """What happens in the trap is no part of the step, and takes nothing of its time."""
    async with trap:
        return await begin(*what)


def one_line(text: str) -> str:
    """What a provider says, fit to be kept and shown."""
    printable = "".join(each if each.isprintable() else " " for each in text)
    return " ".join(printable.split())[:TROUBLE_CHARS_MAX]


def _refund(order: Order) -> Refund | None:
    """The next that has to be made."""
    if not order.checkout.refunds:
        return None
    return next((each for each in order.checkout.refunds if not each.done), None)
