"""Events over HTTP: create, list, see, change; their seats and their log."""

from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from holdfast.api import wire
from holdfast.api.calls import (
    REPLAYED,
    UPLOAD_BYTES_MAX,
    Body,
    Call,
    Reply,
    aside,
    refused,
    reply,
)
from holdfast.api.encodings import choose, has_one
from holdfast.api.problems import Problem, invalid
from holdfast.api.routes import ADMIN, SELLING, Route
from holdfast.api.service import Service
from holdfast.domain.asks import read_withdrawal
from holdfast.domain.cloudevents import cloud_event
from holdfast.domain.commands import Command
from holdfast.domain.faults import Faults
from holdfast.domain.model import Pool, SeatPlan
from holdfast.domain.outcomes import Changed, Created, Reason, Refused
from holdfast.domain.plan import SETTINGS, read_capacity, read_changes, read_event
from holdfast.domain.views import Summary
from holdfast.errors import Pruned

UNITS = ("sections", "seats", "pools")
LOG_LEAST = {"limit": 1}
"""A page of none would tell nobody whether the log goes on."""


def _explain_event(faults: Faults, raw: Any) -> None:  # whatever was sent
    read = read_event(raw)
    if isinstance(read, list):
        faults.found += read


class _EveryTier(dict[str, int]):
    """Prices of an event that was not looked at yet."""

    def __contains__(self, tier: object) -> bool:
        return True


def _explain_changes(faults: Faults, raw: Any) -> None:  # whatever was sent
    body = faults.mapping("", raw, (*SETTINGS, *UNITS, "withdraw"))
    settings = {name: body[name] for name in SETTINGS if name in body}
    units = {name: body[name] for name in UNITS if name in body}
    for given, read in (
        (settings, read_changes),
        (units, lambda units: read_capacity(units, _EveryTier())),
    ):
        found = read(given) if given else None
        faults.found += found if isinstance(found, list) else []
    if "withdraw" in body:
        _read_withdrawal(faults, body["withdraw"])


def _read_withdrawal(faults: Faults, raw: Any) -> tuple[tuple[str, ...], dict[str, int]]:
    inside = Faults()
    body = inside.mapping("", raw, ("seats", "pools"))
    read = read_withdrawal(inside, body.get("seats", ()), body.get("pools"))
    for fault in inside.found:
        faults.add(f"withdraw.{fault.path}".rstrip("."), str(replace(fault, path="")))
    return read


NEW_EVENT = Body(wire.NewEvent, _explain_event)
CHANGES = Body(wire.EventChanges, _explain_changes)


async def create(service: Service, call: Call) -> Reply:
    await NEW_EVENT.read(call.body)
    key = call.idempotency_key()
    plan = await aside(call.body, _plan)
    if isinstance(plan, list):
        raise invalid(plan)
    command = service.shop.clerk.create_event(plan, key)
    if key is not None:
        await service.reservations.claim(key, command.digest)
    answer = await service.shop.submit(command)
    if isinstance(answer.outcome, Refused):
        if key is not None:
            await service.reservations.free(key, command.digest)
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


class _Changes(NamedTuple):
    """A body that was checked. Each part is all or nothing, by itself."""

    settings: dict[str, str | int | bool | dict[str, int] | None]
    added: tuple[tuple[SeatPlan, ...], tuple[Pool, ...]] | None
    withdrawn: tuple[tuple[str, ...], dict[str, int]] | None


def _read_changes(raw: bytes, prices: dict[str, int]) -> _Changes:
    """Raises a problem with every fault there is."""
    body = msgspec.json.decode(raw)
    faults = Faults()
    units = {name: body.pop(name) for name in UNITS if name in body}
    withdrawal = body.pop("withdraw", None)
    settings = read_changes(body) if body or (not units and withdrawal is None) else {}
    added = read_capacity(units, {**prices, **body.get("prices", {})}) if units else None
    withdrawn = None if withdrawal is None else _read_withdrawal(faults, withdrawal)
    if isinstance(settings, list):
        raise invalid([*settings, *(added if isinstance(added, list) else ()), *faults.found])
    if isinstance(added, list):
        raise invalid([*added, *faults.found])
    if faults.found:
        raise invalid(faults.found)
    return _Changes(settings, added, withdrawn)


async def change(service: Service, call: Call) -> Reply:
    """Everything is checked first. Then what is refused most often comes first, so that a refusal
    has changed nothing as a rule; new units come last, for they may need the new prices."""
    id = call.params["event"]
    await CHANGES.read(call.body)
    prices = (await _found(service, id)).event.prices
    changes = await aside(call.body, _read_changes, prices)
    clerk = service.shop.clerk
    commands: list[Command] = []
    if changes.withdrawn is not None:
        commands.append(clerk.withdraw(id, *changes.withdrawn))
    if changes.settings:
        commands.append(clerk.change_event(id, changes.settings))
    if changes.added is not None:
        commands.append(clerk.add_capacity(id, *changes.added))
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
    if has_one(call, [chart.etag]):
        return Reply(304, b"", headers)
    if choose(call.header(b"accept-encoding"), ("gzip", "identity")) == "gzip":
        headers["Content-Encoding"] = "gzip"
        return Reply(200, await chart.compressed(), headers)
    return Reply(200, chart.body, headers)


async def log(service: Service, call: Call) -> Reply:
    event = call.params["event"]
    query = call.query(LOG_LEAST, after=0, limit=100)
    try:
        entries = await service.shop.log(event, **query)
    except Pruned as pruned:
        raise Problem(410, "pruned", str(pruned), first=pruned.first) from None
    if not entries:
        await _found(service, event)
    facts = [cloud_event(entry) for entry in entries]
    return reply(
        200, wire.LogPage(facts=facts, next=entries[-1].seq if entries else query["after"])
    )


ROUTES = [
    Route(
        method="POST",
        path="/v1/events",
        handle=create,
        roles=ADMIN,
        operation="createEvent",
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
        operation="listEvents",
        summary="All events, and how their sales stand",
        answers={200: wire.Events},
        key_in_query=True,
    ),
    Route(
        method="GET",
        path="/v1/events/{event}",
        handle=see,
        operation="getEvent",
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
        operation="changeEvent",
        summary=(
            "Open, pause, close or change an event; add units, or withdraw some. First units are "
            "withdrawn, then settings change, then units come: each of these is all or nothing, "
            "and the first that is refused ends the call"
        ),
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
        operation="getSeats",
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
        operation="readLog",
        summary="The facts after a number, in order, none missing",
        answers={200: wire.LogPage},
        reasons={404: ("unknown_event",), 410: ("pruned",), 422: ("invalid",)},
        query={
            "after": "The number of the last fact you have; 0 for the first page.",
            "limit": "How many at most: 100 unless you say so, and never more than 10,000.",
        },
        least=LOG_LEAST,
    ),
]
