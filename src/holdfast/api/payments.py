"""What providers of payments tell: that something about a payment has changed.

A message is only a hint to look at the payment itself. So it may come twice, late by hours, or in
any order; and one that is forged would tell nothing even if its signature were not checked.
"""

import asyncio
import logging

from holdfast.api.calls import Call, Reply
from holdfast.api.problems import Problem
from holdfast.api.routes import ANYBODY, Route
from holdfast.api.service import Service
from holdfast.errors import Forged, HoldfastError

WEBHOOK_BYTES_MAX = 256 * 1024
HINTS_MAX = 256
"""Of which a process is after at once. Past it the provider is asked to come again later."""

log = logging.getLogger("holdfast.payments")


async def webhook(service: Service, call: Call) -> Reply:
    provider = service.till.provider
    if provider is None or call.params["provider"] != provider.name:
        raise Problem(404, "not_found", "no such provider takes payments here")
    headers = {
        name.decode("latin-1"): text.decode("latin-1") for name, text in call.headers.items()
    }
    try:
        reference = provider.read_webhook(headers, call.body)
    except Forged as no:
        raise Problem(400, "forged", str(no)) from None
    if reference is not None:
        if len(service.hints) >= HINTS_MAX:
            later = {"Retry-After": "5"}
            raise Problem(503, "overloaded", "too many messages at once", headers=later)
        hint = asyncio.create_task(_look(service, reference))
        service.hints.add(hint)
        hint.add_done_callback(service.hints.discard)
    return Reply(204)


async def _look(service: Service, reference: str) -> None:
    """Not before the provider is answered: he has little patience, and nothing is lost if this
    process dies now: orders are looked at without hints as well, only later."""
    try:
        await service.till.nudge(reference)
    except HoldfastError as trouble:
        log.info("order %s is looked at later: %s", reference, trouble)


ROUTES = [
    Route(
        method="POST",
        path="/v1/payments/{provider}/webhook",
        handle=webhook,
        roles=ANYBODY,
        operation="receiveWebhook",
        summary="For the provider of payments: its own message, signed",
        body=dict,
        body_max=WEBHOOK_BYTES_MAX,
        answers={204: None},
        reasons={400: ("forged",), 404: ("not_found",)},
    ),
]
