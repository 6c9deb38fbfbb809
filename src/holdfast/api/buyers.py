"""Buyers over HTTP: a token that says who somebody is, for callers with a public key."""

from holdfast.api import wire
from holdfast.api.calls import REPLAYED, Body, Call, Reply, reply
from holdfast.api.problems import Problem, invalid
from holdfast.api.routes import Route
from holdfast.api.service import Service
from holdfast.domain import limits
from holdfast.domain.faults import Faults
from holdfast.ids import digest

NEW_BUYER = Body(wire.NewBuyer)


async def create(service: Service, call: Call) -> Reply:
    """No buyer is stored: the token is made from the name, so asking again does no harm. A name
    that we make is made from the Idempotency-Key, if that is somebody's own. A nameless caller's is
    not: whoever guessed it would get the buyer. Of a key is kept what it was used for."""
    asked: wire.NewBuyer = NEW_BUYER.decode(call.body or b"{}")
    buyer = asked.buyer
    key = call.idempotency_key()
    if call.caller.public and call.caller.buyer is None:
        key = None
    if buyer is None:
        buyer = f"b-{key.removeprefix('key:') if key else service.shop.clerk.ids.new()}"
    elif call.caller.public:
        raise Problem(403, "forbidden", "naming a buyer needs a seller's key")
    faults = Faults()
    faults.label("buyer", buyer, limits.BUYER_CHARS_MAX)
    if faults.found:
        raise invalid(faults.found)
    again = key is not None and not await service.reservations.first(key, digest("buyer", buyer))
    made = wire.BuyerMade(buyer=buyer, token=service.tokens.of_buyer(buyer))
    return reply(201, made, REPLAYED if again else None)


ROUTES = [
    Route(
        method="POST",
        path="/v1/buyers",
        handle=create,
        operation="createBuyer",
        summary="A new buyer with a token, or a token for one whom a seller names",
        body=wire.NewBuyer,
        body_required=False,
        answers={201: wire.BuyerMade},
        reasons={403: ("forbidden",), 422: ("invalid", "idempotency_mismatch")},
        headers=("Idempotency-Key",),
    ),
]
