"""Events over HTTP: create, list, see, change; their seats and their log."""

import asyncio
from typing import Any

import msgspec

from holdfast.api import wire
from holdfast.api.calls import (
    BIG_BODY_BYTES,
    REPLAYED,
    UPLOAD_BYTES_MAX,
    Body,
    Call,
    Reply,
    refused,
    reply,
)
from holdfast.api.problems import Problem, invalid
from holdfast.api.reservations import reserve_key
from holdfast.api.routes import ADMIN, SELLING, Route
from holdfast.api.service import Service
from holdfast.domain import limits
from holdfast.domain.asks import read_withdrawal
from holdfast.domain.faults import Faults
from holdfast.domain.outcomes import Changed, Created, Reason, Refused
from holdfast.domain.plan import read_capacity, read_changes, read_event
from holdfast.domain.views import Summary

UNITS = ("sections", "seats", "pools")


def _explain_event(faults: Faults, raw: Any) -> None:  # whatever was sent
    read = read_event(raw)
    if isinstance(read, list):
        faults.found += read


NEW_EVENT = Body(wire.NewEvent, _explain_event)
CHANGES = Body(wire.EventChanges)


async def create(service: Service, call: Call) -> Reply:
    await NEW_EVENT.read(call.body)
    key = call.idempotency_key()
    if len(call.body) > BIG_BODY_BYTES:
        plan = await asyncio.to_thread(_plan, call.body)
    else:
        plan = _plan(call.body)
    if isinstance(plan, list):
        raise invalid(plan)
    command = service.shop.clerk.create_event(plan, key)
    if key is not None:
        await reserve_key(service.shop.store, key, command.digest)
    answer = await service.shop.submit(command)
    if isinstance(answer.outcome, Refused):
        return refused(answer.outcome)
    assert isinstance(answer.outcome, Created)
    event = answer.outcome.event
    capacity = plan.capacity
    made = Summary(event, seq=1, capacity=capacity, held=0, sold=0, revenue=0)
    return reply(201, wire.event(made), REPLAYED if answer.replayed else None)


def _plan(body: bytes) -> Any:  # an EventPlan, or what is wrong with it
    return read_event(msgspec.json.decode(body))


async def all_events(service: Service, call: Call) -> Reply:
    found = await service.shop.events()
    return reply(200, wire.Events(events=[wire.event(each) for each in found]))


async def see(service: Service, call: Call) -> Reply:
    return reply(200, wire.event(await _found(service, call.params["event"])))


async def _found(service: Service, event: str) -> Summary:
    found = await service.shop.event(event)
    if found is None:
        raise unknown(event)
    return found


def unknown(event: str) -> Problem:
    return Problem(404, Reason.UNKNOWN_EVENT, f"there is no event {event!r}")


async def change(service: Service, call: Call) -> Reply:
    """Everything is checked first; then settings change, units come, and units go."""
    id = call.params["event"]
    asked: wire.EventChanges = await CHANGES.read(call.body)
    body = msgspec.json.decode(call.body)
    summary = await _found(service, id)
    clerk = service.shop.clerk
    faults = Faults()
    units = {name: body.pop(name) for name in UNITS if name in body}
    withdrawal = body.pop("withdraw", None)
    changes = read_changes(body) if body or not (units or withdrawal) else {}
    prices = body.get("prices", summary.event.prices)
    added = read_capacity(units, prices) if units else None
    for read in (changes, added):
        if isinstance(read, list):
            faults.found += read
    if asked.withdraw:
        taken = read_withdrawal(faults, asked.withdraw.seats, asked.withdraw.pools or None)
    if faults.found:
        raise invalid(faults.found)
    commands: list[Any] = []
    if isinstance(changes, dict) and changes:
        commands.append(clerk.change_event(id, changes))
    if isinstance(added, tuple):
        commands.append(clerk.add_capacity(id, *added))
    if asked.withdraw:
        commands.append(clerk.withdraw(id, *taken))
    for command in commands:
        outcome = (await service.shop.submit(command)).outcome
        if isinstance(outcome, Refused):
            return refused(outcome)
        assert isinstance(outcome, Changed)
    return reply(200, wire.event(await _found(service, id)))


async def seats(service: Service, call: Call) -> Reply:
    event = call.params["event"]
    chart = await service.charts.chart(event)
    if chart is None:
        raise unknown(event)
    headers = {"ETag": chart.etag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    if chart.etag in (call.header(b"if-none-match") or ""):
        return Reply(304, b"", headers)
    if "gzip" in (call.header(b"accept-encoding") or ""):
        headers["Content-Encoding"] = "gzip"
        return Reply(200, await chart.compressed(), headers)
    return Reply(200, chart.body, headers)


async def log(service: Service, call: Call) -> Reply:
    event = call.params["event"]
    query = call.query(after=0, limit=100)
    entries = await service.shop.log(
        event, after=min(query["after"], 2**62), limit=min(query["limit"], limits.LOG_PAGE_MAX)
    )
    if not entries:
        await _found(service, event)
    facts = [wire.fact(entry) for entry in entries]
    return reply(
        200, wire.LogPage(facts=facts, next=entries[-1].seq if entries else query["after"])
    )


ROUTES = [
    Route(
        method="POST",
        path="/v1/events",
        handle=create,
        roles=ADMIN,
        summary="A new event, with its seats and pools",
        body=wire.NewEvent,
        body_max=UPLOAD_BYTES_MAX,
        answers={201: wire.Event},
        reasons={409: ("exists",), 422: ("invalid", "too_much", "idempotency_mismatch")},
        headers=("Idempotency-Key",),
    ),
    Route(
        method="GET",
        path="/v1/events",
        handle=all_events,
        summary="All events, and how their sales stand",
        answers={200: wire.Events},
        key_in_query=True,
    ),
    Route(
        method="GET",
        path="/v1/events/{event}",
        handle=see,
        summary="An event, and how its sale stands",
        answers={200: wire.Event},
        reasons={404: ("unknown_event",)},
        key_in_query=True,
    ),
    Route(
        method="PATCH",
        path="/v1/events/{event}",
        handle=change,
        roles=ADMIN,
        summary="Open, pause, close or change an event; add units, or withdraw some",
        body=wire.EventChanges,
        body_max=UPLOAD_BYTES_MAX,
        answers={200: wire.Event},
        reasons={
            404: ("unknown_event",),
            409: ("exists", "taken", "insufficient", "stale"),
            422: ("invalid", "unknown_unit", "too_much"),
        },
    ),
    Route(
        method="GET",
        path="/v1/events/{event}/seats",
        handle=seats,
        summary="The seat map",
        answers={200: wire.SeatMap, 304: None},
        reasons={404: ("unknown_event",)},
        headers=("If-None-Match",),
        key_in_query=True,
    ),
    Route(
        method="GET",
        path="/v1/events/{event}/log",
        handle=log,
        roles=SELLING,
        summary="The facts after a number, in order, none missing",
        answers={200: wire.LogPage},
        reasons={404: ("unknown_event",), 410: ("pruned",), 422: ("invalid",)},
        query={"after": "the number of the last fact you have", "limit": "1 to 10,000; 100"},
    ),
]
