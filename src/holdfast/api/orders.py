"""Orders over HTTP: buy what a hold holds, see an order, cancel it."""

import hashlib

from msgspec.structs import replace

from holdfast.api import wire
from holdfast.api.calls import REPLAYED, Body, Call, Reply, refused, reply
from holdfast.api.holds import keep_units, opened
from holdfast.api.problems import Problem
from holdfast.api.routes import SELLING, Route
from holdfast.api.service import Service
from holdfast.checkout import sandbox
from holdfast.domain.commands import ConfirmHold
from holdfast.domain.model import Hold, Order
from holdfast.domain.outcomes import Answer, Cancelled, Confirmed, Paying, Reason, Refused
from holdfast.ids import digest, event_of, public_id

ORDER_MS = 70_000
"""Longer than a payment can take."""
NEW_ORDER = Body(wire.NewOrder)
HOLD_GONE = {Reason.EXPIRED: "hold_expired"}


async def create(service: Service, call: Call) -> Reply:
    if call.header(b"idempotency-key") is None:
        detail = "an order needs an Idempotency-Key: it must be safe to send twice"
        raise Problem(400, "idempotency_key_required", detail)
    asked: wire.NewOrder = NEW_ORDER.decode(call.body)
    key = call.idempotency_key(asked.hold)
    assert key is not None
    event = opened(service, call, asked.hold)
    found = await service.shop.hold_now(asked.hold)
    if found is None:
        raise Problem(404, Reason.UNKNOWN_HOLD, f"there is no hold {asked.hold!r}")
    method = _method(service, asked) if found[0].amount > 0 else ""
    # Before any money moves: the key may have been used for another order, or a copy of this very
    # call may be at it.
    used_for = digest("order", asked.hold, method)
    reservations = service.reservations
    await reservations.begin(key, used_for, ORDER_MS if method else 0)
    made: bool | None = None
    try:
        answer = await _buy(service, call, event, found[0], key, method)
        # Where nobody knows what became of the payment, the key stays what it is.
        made = None if answer.status >= 500 else answer.status < 400
        return answer
    finally:
        if method or made is False:
            await reservations.end(key, used_for, made=made)


async def _buy(
    service: Service, call: Call, event: str, hold: Hold, key: str, method: str
) -> Reply:
    payment = f"sandbox:{_payment_id(key, hold.id, method)}" if method else None
    command = service.shop.clerk.confirm_hold(
        event, hold.id, buyer=call.caller.buyer, payment=payment, key=key
    )
    answer = await _told(service, command) if method else None
    if answer is None:
        if method and (no := await _pay(service, call, event, hold, method)):
            return no
        answer = await service.shop.submit(command)
    service.metrics.outcome(answer.outcome)
    if isinstance(answer.outcome, Refused):
        return refused(answer.outcome, HOLD_GONE.get(answer.outcome.reason))
    assert isinstance(answer.outcome, Confirmed)
    await service.limits.free(hold.id)
    headers = REPLAYED if answer.replayed else None
    return reply(201, wire.order(answer.outcome.order), headers)


async def _told(service: Service, command: ConfirmHold) -> Answer | None:
    """What can be said before money moves: the key may have been used for something else of this
    event, or this very order may be made already. Asked of a hold that cannot be, which sells
    nothing."""
    nothing = replace(command, hold=public_id(command.event, "-"))
    answer = await service.shop.submit(nothing)
    outcome = answer.outcome
    undecided = isinstance(outcome, Refused) and outcome.reason is Reason.UNKNOWN_HOLD
    return None if undecided else answer


def _method(service: Service, asked: wire.NewOrder) -> str:
    if asked.payment is None:
        raise Problem(422, "payment_required", "this order costs something: say how it is paid")
    method = asked.payment.method
    if not sandbox.knows(method):
        raise Problem(422, "payment_unknown", f"there is no payment method {method!r}")
    if service.settings.payments != "sandbox":
        detail = "the sandbox takes no payments here: the deployment did not ask for it"
        raise Problem(422, "payment_unknown", detail)
    return method


def _payment_id(key: str, hold: str, method: str) -> str:
    """The same order asked for again is the same payment; with another method it is another. One
    payment never pays for two holds."""
    return hashlib.blake2b(f"{key} {hold} {method}".encode(), digest_size=12).hexdigest()


async def _pay(service: Service, call: Call, event: str, hold: Hold, method: str) -> Reply | None:
    """Payment begins, so that the hold cannot run out meanwhile; then it is asked for."""
    command = service.shop.clerk.pay_hold(event, hold.id, call.caller.buyer)
    answer = await service.shop.submit(command)
    outcome = answer.outcome
    service.metrics.outcome(outcome)
    if isinstance(outcome, Refused):
        return refused(outcome, HOLD_GONE.get(outcome.reason))
    assert isinstance(outcome, Paying)
    await keep_units(service, call, outcome.hold, answer.now_ms)
    try:
        authorized = await sandbox.authorize(method)
    except sandbox.ProviderDown as trouble:
        headers = {"Retry-After": "5"}
        no = Problem(503, "payment_unavailable", str(trouble), headers=headers)
        return Reply(no.status, no.body(), no.headers)
    if not authorized:
        no = Problem(402, "declined", "the payment was declined; the hold is still there")
        return Reply(no.status, no.body())
    return None


def _unknown(order: str) -> Problem:
    return Problem(404, Reason.UNKNOWN_ORDER, f"there is no order {order!r}")


async def see(service: Service, call: Call) -> Reply:
    id = call.params["order"]
    order = await service.shop.order(id)
    if order is None or not _may_see(service, call, order):
        raise _unknown(id)
    return reply(200, wire.order(order))


def _may_see(service: Service, call: Call, order: Order) -> bool:
    caller = call.caller
    if not caller.public:
        return True
    if order.hold is None or caller.buyer not in (None, order.buyer):
        return False
    return service.tokens.opens(call.header(b"hold-token"), order.hold)


async def cancel(service: Service, call: Call) -> Reply:
    id = call.params["order"]
    event = event_of(id)
    if event is None:
        raise _unknown(id)
    outcome = (await service.shop.submit(service.shop.clerk.cancel_order(event, id))).outcome
    service.metrics.outcome(outcome)
    if isinstance(outcome, Refused):
        if outcome.reason is Reason.UNKNOWN_EVENT:
            raise _unknown(id)
        return refused(outcome)
    assert isinstance(outcome, Cancelled)
    return reply(200, wire.order(outcome.order))


ROUTES = [
    Route(
        method="POST",
        path="/v1/orders",
        handle=create,
        operation="createOrder",
        summary="Buy what a hold holds",
        body=wire.NewOrder,
        answers={201: wire.Order},
        reasons={
            400: ("idempotency_key_required",),
            402: ("declined",),
            404: ("unknown_hold",),
            409: (
                "in_progress",
                "hold_expired",
                "released",
                "confirmed",
                "payment_used",
                "not_on_sale",
            ),
            422: ("invalid", "idempotency_mismatch", "payment_required", "payment_unknown"),
            503: ("payment_unavailable",),
        },
        headers=("Idempotency-Key", "Hold-Token", "Buyer-Token"),
    ),
    Route(
        method="GET",
        path="/v1/orders/{order}",
        handle=see,
        operation="getOrder",
        summary="An order",
        answers={200: wire.Order},
        reasons={404: ("unknown_order",)},
        headers=("Hold-Token", "Buyer-Token"),
        key_in_query=True,
    ),
    Route(
        method="POST",
        path="/v1/orders/{order}/cancel",
        handle=cancel,
        roles=SELLING,
        operation="cancelOrder",
        summary="Take a sale back: its units are free again; doing so again changes nothing",
        answers={200: wire.Order},
        reasons={404: ("unknown_order",)},
    ),
]
