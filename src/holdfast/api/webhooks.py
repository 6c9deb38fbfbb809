"""Webhooks over HTTP: subscribe, see, rotate the secret, enable again, deliver again, remove."""

from collections.abc import Sequence
from urllib.parse import parse_qs

from msgspec import UNSET
from msgspec.structs import asdict

from holdfast.api import wire
from holdfast.api.calls import REPLAYED, Body, Call, Reply, reply
from holdfast.api.problems import Problem, invalid
from holdfast.api.routes import ADMIN, Route
from holdfast.api.service import Service
from holdfast.brokers.webhooks.subscriptions import (
    WEBHOOKS_MAX,
    Crowded,
    LastFailure,
    Webhook,
    faults_of,
)
from holdfast.domain.faults import Fault, Faults
from holdfast.domain.model import instant
from holdfast.followers.deliveries import NoFact, find_fact
from holdfast.ids import digest


def _explain_new(faults: Faults, raw: object) -> None:
    body = faults.mapping("", raw, wire.NewWebhook.__struct_fields__)
    for name in ("url", "events"):
        if name not in body:
            faults.add(name, "is missing")
    if "url" in body and not isinstance(body["url"], str):
        faults.add("url", "must be a text", body["url"])
    for name in ("events", "subjects"):
        if body.get(name) is not None and not _are_texts(body[name]):
            faults.add(name, "must be a list of texts", body[name])


def _are_texts(raw: object) -> bool:
    return isinstance(raw, list) and all(isinstance(each, str) for each in raw)


def _explain_redelivery(faults: Faults, raw: object) -> None:
    body = faults.mapping("", raw, wire.Redelivery.__struct_fields__)
    faults.event_id("event", body.get("event"))
    faults.integer("sequence", body.get("sequence"), 1, wire.SEQUENCE_MAX)


NEW_WEBHOOK = Body(wire.NewWebhook, _explain_new)
ROTATION = Body(wire.Rotation)
REDELIVERY = Body(wire.Redelivery, _explain_redelivery)


def shown(webhook: Webhook, failure: LastFailure | None = None) -> wire.Webhook:
    """Everything but its secrets."""
    since = webhook.failing_since_ms
    return wire.Webhook(
        id=webhook.id,
        url=webhook.url,
        events=list(webhook.events),
        subjects=None if webhook.subjects is None else list(webhook.subjects),
        description=webhook.description,
        state=webhook.state,
        reason=webhook.reason,
        failing_since=None if since is None else instant(since),
        last_failure=None if failure is None else _failed(failure),
        created_at=instant(webhook.created_ms),
    )


def _failed(failure: LastFailure) -> wire.WebhookFailure:
    due = failure.next_try_ms
    return wire.WebhookFailure(
        fact=failure.fact,
        reason=failure.reason,
        at=instant(failure.at_ms),
        attempts=failure.attempts,
        next_try_at=None if due is None else instant(due),
    )


async def _looked_at(service: Service, webhooks: Sequence[Webhook]) -> list[wire.Webhook]:
    """Each with what came of the last attempt."""
    failures = await service.crew.deliveries.webhooks.last_failures(webhooks)
    return [shown(each, failures.get(each.id)) for each in webhooks]


async def create(service: Service, call: Call) -> Reply:
    asked: wire.NewWebhook = NEW_WEBHOOK.decode(call.body)
    key = call.idempotency_key()
    internal = service.settings.webhook_internal
    if faults := faults_of(asked.url, asked.events, asked.subjects, internal=internal):
        raise invalid(faults)
    used_for = digest("webhook", asked.url, asked.events, asked.subjects, asked.description)
    if key is not None:
        await service.reservations.claim(key, used_for)
    made = await service.crew.deliveries.webhooks.create(
        asked.url, asked.events, asked.subjects, asked.description, key
    )
    if made is None:
        if key is not None:
            await service.reservations.free(key, used_for)
        raise Problem(422, "too_much", f"there are {WEBHOOKS_MAX} webhooks already")
    body = wire.WebhookMade(**asdict(shown(made.webhook)), secret=made.secret)
    return reply(201, body, REPLAYED if made.replayed else None)


async def all_webhooks(service: Service, call: Call) -> Reply:
    found = await service.crew.deliveries.webhooks.all()
    return reply(200, wire.Webhooks(webhooks=await _looked_at(service, found)))


async def see(service: Service, call: Call) -> Reply:
    found = await service.crew.deliveries.webhooks.find(call.params["webhook"])
    if found is None:
        raise _unknown(call.params["webhook"])
    return reply(200, (await _looked_at(service, [found]))[0])


def _unknown(id: str) -> Problem:
    return Problem(404, "unknown_webhook", f"there is no webhook {id!r}")


async def remove(service: Service, call: Call) -> Reply:
    return await _removed(service, call.params["webhook"])


async def remove_named(service: Service, call: Call) -> Reply:
    try:
        named = parse_qs(call.query_string.decode(), max_num_fields=20).get("id", [])
    except (UnicodeDecodeError, ValueError):
        named = []
    if len(named) != 1:
        raise invalid([Fault("id", "say which one: ?id=wh_...")])
    return await _removed(service, named[0])


async def _removed(service: Service, id: str) -> Reply:
    if not await service.crew.deliveries.webhooks.remove(id):
        raise _unknown(id)
    return Reply(204)


async def rotate(service: Service, call: Call) -> Reply:
    id = call.params["webhook"]
    asked: wire.Rotation = ROTATION.decode(call.body or b"{}")
    key = call.idempotency_key()
    used_for = digest("rotate", id, asked.keep_seconds)
    if key is not None:
        await service.reservations.claim(key, used_for)
    webhooks = service.crew.deliveries.webhooks
    rotated = await webhooks.rotate(id, asked.keep_seconds, key)
    if rotated is None or isinstance(rotated, Crowded):
        if key is not None:
            await service.reservations.free(key, used_for)
        raise _unknown(id) if rotated is None else _crowded(rotated)
    body = wire.RotatedSecret(
        id=id,
        secret=rotated.secret.value,
        previous_until=instant(rotated.previous_until_ms),
    )
    return reply(200, body, REPLAYED if rotated.replayed else None)


def _crowded(crowded: Crowded) -> Problem:
    headers = {"Retry-After": f"{crowded.wait_ms // 1000 + 1}"}
    return Problem(429, "rate_limited", crowded.detail, headers=headers)


async def enable(service: Service, call: Call) -> Reply:
    enabled = await service.crew.deliveries.webhooks.enable(call.params["webhook"])
    if enabled is None:
        raise _unknown(call.params["webhook"])
    return reply(200, (await _looked_at(service, [enabled]))[0])


async def redeliver(service: Service, call: Call) -> Reply:
    id = call.params["webhook"]
    asked: wire.Redelivery = REDELIVERY.decode(call.body)
    found = await find_fact(service.shop.store, asked.event, asked.sequence)
    if isinstance(found, NoFact):
        reason = "unknown_fact" if found.event_known else "unknown_event"
        raise Problem(404, reason, found.detail)
    answer = await service.crew.deliveries.redeliver(id, found)
    if answer is None:
        raise _unknown(id)
    why = UNSET if answer.reason is None else answer.reason
    delivered = answer.reason is None
    return reply(200, wire.Redelivered(delivered=delivered, status=answer.status, reason=why))


ROUTES = [
    Route(
        method="POST",
        path="/v1/webhooks",
        handle=create,
        roles=ADMIN,
        operation="createWebhook",
        summary="Get facts by HTTP POST from now on. The `secret` that signs is shown only now",
        body=wire.NewWebhook,
        answers={201: wire.WebhookMade},
        reasons={422: ("invalid", "too_much", "idempotency_mismatch")},
        headers=("Idempotency-Key",),
    ),
    Route(
        method="GET",
        path="/v1/webhooks",
        handle=all_webhooks,
        roles=ADMIN,
        operation="listWebhooks",
        summary="All webhooks, without their secrets",
        answers={200: wire.Webhooks},
    ),
    Route(
        method="DELETE",
        path="/v1/webhooks",
        handle=remove_named,
        roles=ADMIN,
        operation="removeWebhookById",
        summary="Remove the webhook that the query names. It answers the same when repeated",
        answers={204: None},
        reasons={404: ("unknown_webhook",), 422: ("invalid",)},
        texts={"id": "The webhook's id."},
    ),
    Route(
        method="GET",
        path="/v1/webhooks/{webhook}",
        handle=see,
        roles=ADMIN,
        operation="getWebhook",
        summary="A webhook: whether it is active, since when it fails, and what came last",
        answers={200: wire.Webhook},
        reasons={404: ("unknown_webhook",)},
    ),
    Route(
        method="DELETE",
        path="/v1/webhooks/{webhook}",
        handle=remove,
        roles=ADMIN,
        operation="removeWebhook",
        summary="Remove a webhook. It answers the same when repeated, for a day",
        answers={204: None},
        reasons={404: ("unknown_webhook",)},
    ),
    Route(
        method="POST",
        path="/v1/webhooks/{webhook}/rotate",
        handle=rotate,
        roles=ADMIN,
        operation="rotateWebhookSecret",
        summary="A new secret, shown only now; the one before signs beside it for a day",
        body=wire.Rotation,
        body_required=False,
        answers={200: wire.RotatedSecret},
        reasons={404: ("unknown_webhook",), 422: ("invalid", "idempotency_mismatch")},
        headers=("Idempotency-Key",),
    ),
    Route(
        method="POST",
        path="/v1/webhooks/{webhook}/enable",
        handle=enable,
        roles=ADMIN,
        operation="enableWebhook",
        summary="Go on where a disabled webhook stood; what waits to be tried again is tried now",
        answers={200: wire.Webhook},
        reasons={404: ("unknown_webhook",)},
    ),
    Route(
        method="POST",
        path="/v1/webhooks/{webhook}/redeliver",
        handle=redeliver,
        roles=ADMIN,
        operation="redeliverFact",
        summary="Send one fact again, now, and say what the receiver answered",
        body=wire.Redelivery,
        answers={200: wire.Redelivered},
        reasons={404: ("unknown_webhook", "unknown_event", "unknown_fact")},
    ),
]
