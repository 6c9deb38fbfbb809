"""Holds over HTTP: place, see, extend, release, pay."""

import hashlib
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.api import wire
from holdfast.api.callers import UNAUTHORIZED
from holdfast.api.calls import NOT_KEPT, REPLAYED, Body, Call, Reply, refused, reply
from holdfast.api.problems import Problem, invalid
from holdfast.api.routes import Route
from holdfast.api.service import Service
from holdfast.domain import limits
from holdfast.domain.asks import read_ask
from holdfast.domain.commands import Command, PlaceHold
from holdfast.domain.faults import Faults, is_label
from holdfast.domain.limits import CALLER_ID
from holdfast.domain.model import Ask, Hold, Millis
from holdfast.domain.outcomes import (
    Answer,
    Extended,
    Paying,
    Placed,
    Reason,
    Refused,
    Released,
)
from holdfast.errors import CommitUnknown
from holdfast.ids import event_of, is_event_id

RESERVED_SECONDS = 30.0
"""An address's units count from before the hold is placed, for as long as that can take."""
NOTHING = Ask(seats=(" ",))
"""A blank is no label: no event has such a seat, so nothing ever comes of it."""
ASK_FIELDS = ("buyer", "id", "seats", "best", "pools", "channels")


def _explain_ask(faults: Faults, raw: Any) -> None:  # whatever was sent
    body = faults.mapping("", raw, ASK_FIELDS)
    if body.get("buyer") is not None:
        faults.label("buyer", body["buyer"], limits.BUYER_CHARS_MAX)
    if body.get("id") is not None:
        faults.caller_id("id", body["id"])
    asked = (body.get(name, default) for name, default in ASK_DEFAULTS)
    read_ask(faults, *asked)


ASK_DEFAULTS: tuple[tuple[str, Any], ...] = (
    ("seats", ()),
    ("best", None),
    ("pools", None),
    ("channels", ()),
)

ASK = Body(wire.Ask, _explain_ask)
EXTENSION = Body(wire.Extension)


async def place(service: Service, call: Call) -> Reply:
    event = call.params["event"]
    wanted: wire.Ask = ASK.decode(call.body)
    buyer = _buyer(call, wanted)
    ask = _simple_ask(wanted)
    if ask is None or buyer is None or not is_label(buyer, limits.BUYER_CHARS_MAX):
        ask, buyer = _checked_ask(wanted, buyer)
    if not is_event_id(event):
        return refused(Refused(Reason.UNKNOWN_EVENT, event))
    key = call.idempotency_key()
    shop = service.shop
    if key is None and wanted.id is None and (no := shop.remembered(event, buyer, ask)):
        service.metrics.outcome(no)
        return refused(no)
    public = call.caller.public
    command = shop.clerk.place_hold(
        event,
        buyer,
        ask,
        id=_scoped(buyer, wanted.id) if public and wanted.id is not None else wanted.id,
        key=key,
        default_cap=service.settings.buyer_units_max if public else None,
    )
    answer = await (_counted(service, call, command) if public else shop.submit(command))
    service.metrics.outcome(answer.outcome)
    return _placed(service, answer)


def _buyer(call: Call, wanted: wire.Ask) -> str | None:
    """For whom. A public caller holds for himself, and names no channels."""
    caller = call.caller
    if not caller.public:
        return wanted.buyer
    if wanted.channels:
        raise Problem(403, "forbidden", "units of a channel need a seller's key")
    buyer = own_buyer(call)
    if wanted.buyer is not None and wanted.buyer != buyer:
        raise Problem(403, "forbidden", "`buyer` is not the one of the Buyer-Token")
    return buyer


def own_buyer(call: Call) -> str:
    if call.caller.buyer is None:
        detail = "send a Buyer-Token: `POST /v1/buyers` makes one"
        raise Problem(401, "buyer_token", detail, headers=UNAUTHORIZED)
    return call.caller.buyer


def _simple_ask(wanted: wire.Ask) -> Ask | None:
    """Named seats and nothing else, as nearly always; None where there is more to look at."""
    seats = wanted.seats
    if not seats or wanted.best or wanted.pools or wanted.channels or wanted.id is not None:
        return None
    right = all(map(is_label, seats)) and len(set(seats)) == len(seats)
    return Ask(seats=tuple(seats)) if right else None


def _checked_ask(wanted: wire.Ask, buyer: str | None) -> tuple[Ask, str]:
    """The types are right already; what is left is what no type can say."""
    faults = Faults()
    best = [msgspec.structs.asdict(each) for each in wanted.best] or None
    ask = read_ask(faults, wanted.seats, best, wanted.pools or None, wanted.channels or ())
    if wanted.id is not None:
        faults.caller_id("id", wanted.id)
    if buyer is None:
        faults.add("buyer", "is missing: for whom the hold is")
    else:
        faults.label("buyer", buyer, limits.BUYER_CHARS_MAX)
    if faults.found or buyer is None:
        raise invalid(faults.found)
    return ask, buyer


def _scoped(buyer: str, id: str) -> str:
    """A public caller's own id, which nobody else can meet or take."""
    whose = hashlib.blake2b(buyer.encode(), digest_size=6).hexdigest()
    scoped = f"{whose}-{id}"
    if CALLER_ID.fullmatch(scoped):
        return scoped
    return f"{whose}-{hashlib.blake2b(id.encode(), digest_size=20).hexdigest()}"


async def _counted(service: Service, call: Call, command: PlaceHold) -> Answer:
    """The answer to a public caller. His units count for his address from before it is given; what
    he then has counts for as long as he has it, and what he asked in vain no longer."""
    limits = service.limits
    # Copies of one ask share a name, and so count once; another ask under the same key does not.
    ask = f"{command.id} {command.digest}" if command.digest else command.hold
    if not await limits.reserve(call.address, ask, command.ask.units, RESERVED_SECONDS):
        return await _repeated(service, call, command)
    try:
        answer = await service.shop.submit(command)
        kept = await _keep_placed(service, call, answer)
    except CommitUnknown:
        raise  # perhaps he has them
    except Exception:
        await limits.free(ask)
        raise
    # Only now: better counted twice for a moment than not at all.
    if kept != ask:
        await limits.free(ask)
    return answer


async def _repeated(service: Service, call: Call, command: PlaceHold) -> Answer:
    """The first answer, for whoever only asks again: that takes no more units than he has."""
    if command.digest:
        answer = await service.shop.submit(replace(command, ask=NOTHING))
        no = answer.outcome.reason if isinstance(answer.outcome, Refused) else None
        if answer.replayed or no is Reason.IDEMPOTENCY_MISMATCH:
            await _keep_placed(service, call, answer)
            return answer
    detail = "so many units are held from this address already; buy or release some"
    raise Problem(429, "address_units", detail, headers={"Retry-After": "60"})


async def _keep_placed(service: Service, call: Call, answer: Answer) -> str | None:
    """The hold whose units count from now on, if there is one."""
    if not isinstance(answer.outcome, Placed):
        return None
    hold, now_ms = answer.outcome.hold, answer.now_ms
    if answer.replayed:
        # The first answer says nothing about what became of the hold.
        found = await service.shop.hold_now(hold.id)
        if found is None or not found[0].open:
            return None
        hold, now_ms = found
    await keep_units(service, call, hold, now_ms)
    return hold.id


async def keep_units(service: Service, call: Call, hold: Hold, now_ms: Millis) -> None:
    """A public caller's hold counts for his address until its deadline, the one that counts."""
    if call.caller.public:
        seconds = (hold.until_ms - now_ms) / 1000
        await service.limits.keep(call.address, hold.id, hold.units, seconds)


def _placed(service: Service, answer: Answer) -> Reply:
    outcome = answer.outcome
    if isinstance(outcome, Refused):
        return refused(outcome)
    assert isinstance(outcome, Placed)
    at = answer.decided_ms or answer.now_ms or outcome.hold.placed_ms
    hold = wire.hold(outcome.hold, at, service.tokens.of_hold(outcome.hold.id))
    return reply(201, hold, REPLAYED if answer.replayed else None)


def opened(service: Service, call: Call, hold: str) -> str:
    """The hold's event, if the caller may know of the hold at all: 404, not a hint."""
    event = event_of(hold)
    known = event is not None and (
        not call.caller.public or service.tokens.opens(call.header(b"hold-token"), hold)
    )
    if event is None or not known:
        raise unknown(hold)
    return event


def unknown(hold: str) -> Problem:
    return Problem(404, Reason.UNKNOWN_HOLD, f"there is no hold {hold!r}")


async def see(service: Service, call: Call) -> Reply:
    id = call.params["hold"]
    opened(service, call, id)
    found = await service.shop.hold_now(id)
    if found is None or _anothers(call, found[0]):
        raise unknown(id)
    return reply(200, wire.hold(*found), NOT_KEPT)


def _anothers(call: Call, hold: Hold) -> bool:
    return call.caller.buyer is not None and call.caller.buyer != hold.buyer


async def extend(service: Service, call: Call) -> Reply:
    id = call.params["hold"]
    event = opened(service, call, id)
    asked: wire.Extension = EXTENSION.decode(call.body or b"{}")
    command = service.shop.clerk.extend_hold(
        event, id, buyer=call.caller.buyer, seconds=asked.seconds, key=call.idempotency_key(id)
    )
    answer = await _submit(service, command, id)
    if isinstance(answer.outcome, Refused):
        return refused(answer.outcome)
    assert isinstance(answer.outcome, Extended)
    if not answer.replayed:
        await keep_units(service, call, answer.outcome.hold, answer.now_ms)
    headers = REPLAYED if answer.replayed else None
    return reply(200, wire.hold(answer.outcome.hold, answer.decided_ms or answer.now_ms), headers)


async def release(service: Service, call: Call) -> Reply:
    id = call.params["hold"]
    event = opened(service, call, id)
    command = service.shop.clerk.release_hold(event, id, call.caller.buyer)
    answer = await _submit(service, command, id)
    if isinstance(answer.outcome, Refused):
        return refused(answer.outcome)
    assert isinstance(answer.outcome, Released)
    await service.limits.free(id)
    return Reply(204)


async def pay(service: Service, call: Call) -> Reply:
    id = call.params["hold"]
    event = opened(service, call, id)
    command = service.shop.clerk.pay_hold(event, id, call.caller.buyer)
    answer = await _submit(service, command, id)
    if isinstance(answer.outcome, Refused):
        return refused(answer.outcome)
    assert isinstance(answer.outcome, Paying)
    await keep_units(service, call, answer.outcome.hold, answer.now_ms)
    return reply(200, wire.hold(answer.outcome.hold, answer.now_ms))


async def _submit(service: Service, command: Command, hold: str) -> Answer:
    answer = await service.shop.submit(command)
    service.metrics.outcome(answer.outcome)
    if isinstance(answer.outcome, Refused) and answer.outcome.reason is Reason.UNKNOWN_EVENT:
        raise unknown(hold)
    return answer


GONE = ("expired", "released", "confirmed")

ROUTES = [
    Route(
        method="POST",
        path="/v1/events/{event}/holds",
        handle=place,
        operation="placeHold",
        summary="Hold seats, the best seats, or stock: all of it or nothing",
        body=wire.Ask,
        answers={201: wire.Hold},
        reasons={
            403: ("forbidden",),
            404: ("unknown_event",),
            409: (
                *("taken", "sold_out", "insufficient", "not_together", "buyer_cap"),
                *("not_on_sale", "exists", "queue_required"),
            ),
            422: ("invalid", "unknown_unit", "idempotency_mismatch"),
            429: ("address_units",),
        },
        headers=("Idempotency-Key", "Buyer-Token"),
    ),
    Route(
        method="GET",
        path="/v1/holds/{hold}",
        handle=see,
        operation="getHold",
        summary="A hold as it stands now",
        answers={200: wire.Hold},
        reasons={404: ("unknown_hold",)},
        headers=("Hold-Token", "Buyer-Token"),
        key_in_query=True,
    ),
    Route(
        method="POST",
        path="/v1/holds/{hold}/extend",
        handle=extend,
        operation="extendHold",
        summary="Move a hold's deadlines",
        body=wire.Extension,
        body_required=False,
        answers={200: wire.Hold},
        reasons={
            404: ("unknown_hold",),
            409: (*GONE, "extension_limit"),
            422: ("invalid", "idempotency_mismatch"),
        },
        headers=("Idempotency-Key", "Hold-Token", "Buyer-Token"),
    ),
    Route(
        method="DELETE",
        path="/v1/holds/{hold}",
        handle=release,
        operation="releaseHold",
        summary="Give a hold's units back; doing so again changes nothing",
        answers={204: None},
        reasons={404: ("unknown_hold",), 409: ("confirmed",)},
        headers=("Hold-Token", "Buyer-Token"),
    ),
    Route(
        method="POST",
        path="/v1/holds/{hold}/pay",
        handle=pay,
        operation="payHold",
        summary="Payment begins: the hold stays until its hard deadline",
        answers={200: wire.Hold},
        reasons={404: ("unknown_hold",), 409: GONE},
        headers=("Hold-Token", "Buyer-Token"),
    ),
]
