"""Orders over HTTP: buy what a hold holds, see an order, take it back, all of it or a part."""

from typing import Any

from msgspec import UNSET

from holdfast.api import wire
from holdfast.api.calls import NOT_KEPT, REPLAYED, Body, Call, Reply, refused, reply
from holdfast.api.holds import opened, unknown
from holdfast.api.problems import Problem
from holdfast.api.routes import ADMIN, SELLING, Route
from holdfast.api.service import Service
from holdfast.checkout.till import InProgress, Purchase
from holdfast.domain.model import Order, OrderState
from holdfast.domain.outcomes import Confirmed, Reason, Refused
from holdfast.domain.payments import PaymentState
from holdfast.errors import PaymentError
from holdfast.ids import digest

NEW_ORDER = Body(wire.NewOrder)
CANCELLATION = Body(wire.Cancellation)
HOLD_GONE = {Reason.EXPIRED: "hold_expired"}
ENDED = ("confirmed", "released")
"""Why there was nothing to sell, though nothing was late."""
LATER = {"Retry-After": "5"}
LISTED_MAX = 1_000


async def create(service: Service, call: Call) -> Reply:
    if call.header(b"idempotency-key") is None:
        detail = "an order needs an Idempotency-Key: it must be safe to send twice"
        raise Problem(400, "idempotency_key_required", detail)
    asked: wire.NewOrder = NEW_ORDER.decode(call.body)
    key = call.idempotency_key(asked.hold)
    assert key is not None
    opened(service, call, asked.hold)
    method = asked.payment.method if asked.payment is not None else ""
    if method and (fault := service.till.fault(method)):
        raise Problem(422, "payment_unknown", fault)
    try:
        bought = await service.till.buy(
            asked.hold,
            method,
            buyer=call.caller.buyer,
            other_seats=asked.accept_other_seats,
            key=key,
            used_for=digest("order", asked.hold, method, asked.accept_other_seats),
        )
    except InProgress:
        detail = "the first of these calls is still running"
        raise Problem(409, "in_progress", detail, headers={"Retry-After": "1"}) from None
    if bought.refused is not None:
        service.metrics.outcome(bought.refused)
        if bought.refused.reason is Reason.UNKNOWN_EVENT:
            raise unknown(asked.hold)
        return refused(bought.refused, HOLD_GONE.get(bought.refused.reason))
    return await _answered(service, call, bought)


async def _answered(service: Service, call: Call, bought: Purchase) -> Reply:
    """The order as it stands, in the words of HTTP. Asked again, it is what was said first."""
    order = bought.order
    assert order is not None
    headers = REPLAYED if bought.replayed else None
    if _was_sold(order):
        if not bought.replayed:
            service.metrics.outcome(Confirmed(order))
            await service.limits.free(order.hold or "")
        return reply(201, wire.order(order, first=True), headers)
    said: dict[str, Any] = {"headers": headers, "order": order.id}
    if order.state is OrderState.DECLINED:
        detail = f"{order.checkout.reason}; the hold is still there"
        raise Problem(402, "declined", detail, **said)
    if order.state is OrderState.PENDING:
        return await _unfinished(service, call, bought, order)
    reason = order.checkout.reason
    if order.state is OrderState.VOIDED and order.checkout.settlement is None:
        raise Problem(402, "declined", f"{reason}; the hold is still there", **said)
    if order.state is OrderState.CANCELLED:
        detail = "the payment could not be taken; nothing was sold"
        raise Problem(402, "declined", detail, **said)
    if reason in ENDED:
        detail = f"the hold was {reason} meanwhile; what was set aside is free again"
        raise Problem(409, reason, detail, **said)
    detail = "the payment came too late; nothing was sold, and nothing was taken"
    raise Problem(409, "hold_expired", detail, **said)


def _was_sold(order: Order) -> bool:
    """Whether this call was answered with a sale, whatever became of it since."""
    taken = order.checkout.payment in (PaymentState.CAPTURED, PaymentState.REFUNDED)
    return order.sold or (
        order.state is OrderState.CANCELLED and (taken or order.checkout.promised)
    )


async def _unfinished(service: Service, call: Call, bought: Purchase, order: Order) -> Reply:
    await _keep_units(service, call, bought, order)
    if order.checkout.tried or order.trouble:
        detail = "the provider of payments does not answer; it is tried again"
        raise Problem(503, "payment_unavailable", detail, headers=LATER, order=order.id)
    return reply(202, wire.order(order), REPLAYED if bought.replayed else None)


async def _keep_units(service: Service, call: Call, bought: Purchase, order: Order) -> None:
    """They count for a public caller's address as long as the hold waits for its payment."""
    if call.caller.public and bought.until_ms > bought.now_ms:
        seconds = (bought.until_ms - bought.now_ms) / 1000
        await service.limits.keep(call.address, order.hold or "", order.units, seconds)


def _unknown(order: str) -> Problem:
    return Problem(404, Reason.UNKNOWN_ORDER, f"there is no order {order!r}")


async def see(service: Service, call: Call) -> Reply:
    id = call.params["order"]
    order = await service.shop.order(id)
    if order is None or not _may_see(service, call, order):
        raise _unknown(id)
    told = wire.order(service.till.seen(order), inside=not call.caller.public)
    return reply(200, told, NOT_KEPT)


def _may_see(service: Service, call: Call, order: Order) -> bool:
    caller = call.caller
    if not caller.public:
        return True
    if order.hold is None or caller.buyer not in (None, order.buyer):
        return False
    return service.tokens.opens(call.header(b"hold-token"), order.hold)


async def cancel(service: Service, call: Call) -> Reply:
    id = call.params["order"]
    asked: wire.Cancellation = CANCELLATION.decode(call.body or b"{}")
    seats = () if asked.seats is UNSET else tuple(asked.seats)
    pools = {} if asked.pools is UNSET else asked.pools
    try:
        done = await service.till.cancel(id, seats=seats, pools=pools, key=call.idempotency_key())
    except PaymentError as trouble:
        raise Problem(503, "payment_unavailable", str(trouble), headers=LATER) from None
    service.metrics.outcome(done.outcome)
    if isinstance(done.outcome, Refused):
        return _not_cancelled(id, done.outcome)
    headers = REPLAYED if done.replayed else None
    return reply(200, wire.order(done.outcome.order, inside=True), headers)


def _not_cancelled(id: str, no: Refused) -> Reply:
    if no.reason in (Reason.UNKNOWN_EVENT, Reason.UNKNOWN_ORDER):
        raise _unknown(id)
    return refused(no)


async def needing_a_person(service: Service, call: Call) -> Reply:
    found = await service.shop.store.troubled_orders(LISTED_MAX)
    return reply(200, wire.Orders(orders=[wire.order(each, inside=True) for each in found]))


async def retry(service: Service, call: Call) -> Reply:
    id = call.params["order"]
    try:
        order = await service.till.nudge(id, retry=True)
    except PaymentError as trouble:
        raise Problem(503, "payment_unavailable", str(trouble), headers=LATER) from None
    if order is None:
        raise _unknown(id)
    return reply(200, wire.order(order, inside=True))


ROUTES = [
    Route(
        method="POST",
        path="/v1/orders",
        handle=create,
        operation="createOrder",
        summary="Buy what a hold holds",
        body=wire.NewOrder,
        answers={201: wire.Order, 202: wire.Order},
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
        path="/v1/orders",
        handle=needing_a_person,
        roles=ADMIN,
        operation="listOrdersNeedingAPerson",
        summary="The orders that need a person: `trouble` says why",
        answers={200: wire.Orders},
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
        summary="Take a sale back, or the named units of it, and give the money back",
        body=wire.Cancellation,
        body_required=False,
        answers={200: wire.Order},
        reasons={
            404: ("unknown_order",),
            409: ("insufficient", "not_sold"),
            422: ("invalid", "unknown_unit", "idempotency_mismatch"),
            503: ("payment_unavailable",),
        },
        headers=("Idempotency-Key",),
    ),
    Route(
        method="POST",
        path="/v1/orders/{order}/retry",
        handle=retry,
        roles=ADMIN,
        operation="retryOrder",
        summary="Try again what an order needs a person for",
        answers={200: wire.Order},
        reasons={404: ("unknown_order",), 503: ("payment_unavailable",)},
    ),
]
