"""The sandbox's books: payments by reference, in memory. No network, no waiting.

Every step is known by the charge's reference, a refund by its name as well: asked for again, it is
answered again and has no second effect.
"""

import math
import time
from collections import deque
from collections.abc import Callable
from hashlib import blake2b
from typing import NamedTuple
from urllib.parse import quote

import msgspec

from holdfast.checkout.payments.sandbox_methods import Kind, Method, fault_of, read_method
from holdfast.domain.payments import Charge, PaymentState, Standing
from holdfast.errors import PaymentRefused, PaymentUnavailable

PAYMENTS_MAX = 1_000_000
REFUNDS_MAX = 1_000
"""Refunds of one payment."""
LOOKED_AT_MAX = 64
"""Payments that are looked at for one that can be forgotten."""
NEVER = math.inf

UNFINISHED = (PaymentState.PENDING, PaymentState.AUTHORIZED)
TAKEN = (PaymentState.CAPTURED, PaymentState.REFUNDED)
NEVER_MADE = (Kind.DECLINED, Kind.ERROR)


class Tally(msgspec.Struct):
    """What had an effect since the bank opened, and how much money it moved. Repetitions do not
    count; amounts are in minor units, of whatever currency."""

    authorizations: int = 0
    authorized: int = 0
    declines: int = 0
    captures: int = 0
    captured: int = 0
    voids: int = 0
    voided: int = 0
    refunds: int = 0
    refunded: int = 0
    adopted: int = 0
    """Payments that another process had made, taken over here."""


# No payment is part of a circle, and a million of them would slow down every collection.
class Payment(msgspec.Struct, gc=False):
    id: str
    amount: int
    currency: str
    method: Method
    state: PaymentState
    due: float = 0.0
    """When sandbox:slow is authorized, by the bank's clock; until then it is shown as pending."""
    troubles_left: int = 0
    """How often capture or void still fails, where the method says so."""
    refunded: int = 0
    refunds: dict[str, int] | None = None
    """Amounts by name."""


class Answer(NamedTuple):
    standing: Standing
    after_seconds: float
    """When to ask again for the answer, as the method has it; 0: this is it."""


class Bank:
    """`adopts`: a payment that is not known here is taken as authorized earlier by somebody else.
    `pages` is where buyers act on sandbox:3ds. `on_change` is told how a payment stands after every
    change, but for the end of sandbox:slow, which is a matter of time alone."""

    def __init__(
        self,
        *,
        adopts: bool = False,
        payments_max: int = PAYMENTS_MAX,
        pages: str = "https://sandbox.invalid",
        clock: Callable[[], float] = time.monotonic,
        on_change: Callable[[Standing], None] | None = None,
    ) -> None:
        self.tally = Tally()
        self._pages = pages
        self._on_change = on_change
        self._adopts = adopts
        self._payments_max = payments_max
        self._clock = clock
        self._payments: dict[str, Payment] = {}
        self._line: deque[str] = deque()
        """References in the order in which they are looked at for what can be forgotten."""

    def __len__(self) -> int:
        return len(self._payments)

    def authorize(self, charge: Charge) -> Answer:
        """Sets the money aside, once for each reference."""
        method = read_method(charge.method)
        if method is None or charge.amount < 0:
            raise PaymentRefused(fault_of(charge.method) or "an amount cannot be negative")
        if method.kind is Kind.ERROR:
            raise PaymentUnavailable("the sandbox is down, as sandbox:error asks")
        payment = self._payments.get(charge.reference)
        if payment is not None:
            self._check_amount(payment, charge)
            return Answer(self._standing(charge.reference, payment), self._seconds_left(payment))
        payment = self._add(charge, method, PaymentState.AUTHORIZED)
        self._begin(payment)
        never = method.kind is Kind.TIMEOUT
        left = NEVER if never else self._seconds_left(payment)
        return Answer(self._changed(charge.reference, payment), left)

    def seconds_left(self, reference: str) -> float:
        """Until sandbox:slow is authorized; 0 for all else."""
        payment = self._payments.get(reference)
        return self._seconds_left(payment) if payment is not None else 0.0

    def find(self, reference: str) -> Standing | None:
        payment = self._payments.get(reference)
        return None if payment is None else self._standing(reference, payment)

    def capture(self, charge: Charge) -> Standing:
        """Takes what is set aside, all of it, once."""
        payment = self._payments.get(charge.reference) or self._adopt(charge)
        self._check_amount(payment, charge)
        if payment.state in TAKEN:
            return self._standing(charge.reference, payment)
        state = self._state(payment)
        if state is PaymentState.PENDING:
            # Not refused: it may still be authorized.
            raise PaymentUnavailable(f"the payment of {charge.reference} is not authorized yet")
        if state is not PaymentState.AUTHORIZED:
            raise PaymentRefused(f"the payment of {charge.reference} is {state}: nothing to take")
        if payment.method.kind is Kind.CAPTURE_DECLINED:
            raise PaymentRefused("the bank declined the capture")
        self._trouble(payment, Kind.CAPTURE_ERROR)
        payment.state = PaymentState.CAPTURED
        self.tally.captures += 1
        self.tally.captured += payment.amount
        return self._changed(charge.reference, payment)

    def void(self, charge: Charge) -> Standing:
        """Frees what is set aside; what was taken, and not given back yet, it gives back."""
        payment = self._payments.get(charge.reference)
        if payment is None:
            if not self._may_adopt(charge):
                return self._forestall(charge)
            payment = self._adopt(charge)
        if payment.state is PaymentState.CAPTURED:
            return self._give_back(charge, payment, payment.amount - payment.refunded, "void")
        if payment.state not in UNFINISHED:
            return self._standing(charge.reference, payment)
        self._trouble(payment, Kind.VOID_ERROR)
        if payment.state is PaymentState.AUTHORIZED:
            self.tally.voided += payment.amount
        self.tally.voids += 1
        payment.state, payment.due = PaymentState.VOIDED, 0.0
        return self._changed(charge.reference, payment)

    def refund(self, charge: Charge, amount: int, name: str) -> Standing:
        """Gives so much back, once under each name, and never more than was taken."""
        payment = self._payments.get(charge.reference)
        if payment is None:
            payment = self._adopt(charge)
            payment.state = PaymentState.CAPTURED
        self._check_amount(payment, charge)
        # A name of our own for what `void` gives back: no caller's name has this in front.
        return self._give_back(charge, payment, amount, f"refund {name}")

    def act(self, reference: str, approve: bool) -> Standing:
        """The buyer's word on sandbox:3ds; the first one counts."""
        payment = self._payments.get(reference)
        if payment is None:
            raise PaymentRefused(f"there is no payment of {reference}")
        if payment.state is not PaymentState.PENDING:
            return self._standing(reference, payment)
        if approve:
            payment.state = PaymentState.AUTHORIZED
            self._count_authorization(payment)
        else:
            payment.state = PaymentState.DECLINED
            self.tally.declines += 1
        return self._changed(reference, payment)

    def _begin(self, payment: Payment) -> None:
        """What becomes of a new payment, by its method."""
        if payment.method.kind is Kind.DECLINED:
            payment.state = PaymentState.DECLINED
            self.tally.declines += 1
        elif payment.method.kind is Kind.CHALLENGED:
            payment.state = PaymentState.PENDING
        else:
            if payment.method.seconds:
                payment.due = self._clock() + payment.method.seconds
            self._count_authorization(payment)

    def _count_authorization(self, payment: Payment) -> None:
        self.tally.authorizations += 1
        self.tally.authorized += payment.amount

    def _give_back(self, charge: Charge, payment: Payment, amount: int, name: str) -> Standing:
        refunds = payment.refunds or {}
        if refunds.get(name) == amount:
            return self._standing(charge.reference, payment)
        if name in refunds:
            raise PaymentRefused(f"under this name {refunds[name]} was given back, not {amount}")
        if payment.state not in TAKEN:
            raise PaymentRefused(f"nothing was taken of {charge.reference}: there is no refund")
        left = payment.amount - payment.refunded
        if not (0 < amount <= left or amount == payment.amount == 0):
            raise PaymentRefused(f"{amount} cannot be given back: {left} is left of what was taken")
        if payment.method.kind is Kind.REFUND_REFUSED:
            raise PaymentRefused("the bank refused the refund")
        if len(refunds) == REFUNDS_MAX:
            raise PaymentRefused(f"a payment has at most {REFUNDS_MAX} refunds")
        payment.refunds = {**refunds, name: amount}
        payment.refunded += amount
        if payment.refunded == payment.amount:
            payment.state = PaymentState.REFUNDED
        self.tally.refunds += 1
        self.tally.refunded += amount
        return self._changed(charge.reference, payment)

    def _may_adopt(self, charge: Charge) -> bool:
        method = read_method(charge.method)
        return self._adopts and method is not None and method.kind not in NEVER_MADE

    def _adopt(self, charge: Charge) -> Payment:
        """In the shop's own process the books die with the worker, and the next worker goes on with
        his orders. Only what was authorized is captured, voided or refunded, so the charge itself
        says what stood in them. The service has its books elsewhere, and there unknown is unknown.
        """
        method = read_method(charge.method)
        if method is None or not self._may_adopt(charge):
            raise PaymentRefused(f"there is no payment of {charge.reference}")
        self.tally.adopted += 1
        return self._add(charge, method, PaymentState.AUTHORIZED)

    def _forestall(self, charge: Charge) -> Standing:
        """The order to authorize may still be on its way: it must find the payment voided."""
        method = read_method(charge.method) or Method(Kind.OK)
        return self._changed(charge.reference, self._add(charge, method, PaymentState.VOIDED))

    def _add(self, charge: Charge, method: Method, state: PaymentState) -> Payment:
        self._make_room()
        payment = Payment(
            payment_id(charge.reference), charge.amount, charge.currency, method, state
        )
        payment.troubles_left = method.times
        self._payments[charge.reference] = payment
        self._line.append(charge.reference)
        return payment

    def _make_room(self) -> None:
        """Forgets the oldest payment that is over; what is not goes back to the end of the line,
        for it would otherwise be looked at each time."""
        if len(self._payments) < self._payments_max:
            return
        for _ in range(min(LOOKED_AT_MAX, len(self._line))):
            reference = self._line.popleft()
            if self._payments[reference].state not in UNFINISHED:
                del self._payments[reference]
                return
            self._line.append(reference)
        raise PaymentUnavailable("the sandbox has too many payments that are not over yet")

    def _check_amount(self, payment: Payment, charge: Charge) -> None:
        if (payment.amount, payment.currency) != (charge.amount, charge.currency):
            raise PaymentRefused(
                f"the payment of {charge.reference} is {payment.amount} {payment.currency}, "
                f"not {charge.amount} {charge.currency}"
            )

    def _trouble(self, payment: Payment, kind: Kind) -> None:
        if payment.troubles_left and payment.method.kind is kind:
            payment.troubles_left -= 1
            raise PaymentUnavailable(f"the sandbox is down, as sandbox:{kind} asks")

    def _seconds_left(self, payment: Payment) -> float:
        return max(0.0, payment.due - self._clock()) if payment.due else 0.0

    def _state(self, payment: Payment) -> PaymentState:
        waits = payment.state is PaymentState.AUTHORIZED and self._seconds_left(payment) > 0
        return PaymentState.PENDING if waits else payment.state

    def _changed(self, reference: str, payment: Payment) -> Standing:
        standing = self._standing(reference, payment)
        if self._on_change is not None:
            self._on_change(standing)
        return standing

    def _standing(self, reference: str, payment: Payment) -> Standing:
        reason = next_action = None
        challenged = payment.method.kind is Kind.CHALLENGED
        if payment.state is PaymentState.DECLINED:
            reason = "the buyer did not approve" if challenged else "the card was declined"
        elif payment.state is PaymentState.PENDING:
            url = f"{self._pages}/payments/{quote(reference, safe='')}/act"
            next_action = {"type": "redirect", "url": url}
        return Standing(
            payment.id,
            self._state(payment),
            reason=reason,
            next_action=next_action,
            refunded=payment.refunded,
            reference=reference,
        )


def payment_id(reference: str) -> str:
    """Follows from the reference, so that every process gives a payment the same id, also one that
    knows nothing of it."""
    return "sbx_" + blake2b(reference.encode(), digest_size=12).hexdigest()
