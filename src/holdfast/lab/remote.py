"""The same crowd against a running service, over HTTP.

What was sold is counted afterwards from the event's log, fact by fact, and compared with its seat
map: never from the answers.
"""

import contextlib
from collections import Counter
from collections.abc import Callable

import msgspec

from holdfast.client import Client, Fact, Refused
from holdfast.client.errors import Unexpected
from holdfast.client.replies import Reply, decoded, problem, unexpected
from holdfast.client.transport import Patience, Transport
from holdfast.domain.limits import LOG_PAGE_MAX
from holdfast.errors import HoldfastError
from holdfast.ids import Ids
from holdfast.lab.stampede import Buy, Found, Report, Tally, house, report, rush, sold_twice

ANSWER_SECONDS = 60.0
UNSOLD = ("order.cancelled", "order.voided", "order.refunded")

encode = msgspec.json.Encoder().encode


class Result(msgspec.Struct, frozen=True):
    report: Report
    errors: dict[str, int]
    doubts: list[str]
    """Where the log and the seat map do not say the same."""


class _Placed(msgspec.Struct):
    id: str


async def stampede(
    url: str,
    key: str,
    buyers: int,
    seats: int,
    connections: int,
    on_progress: Callable[[Tally], None] | None = None,
) -> Result:
    """Makes an event of that many free seats, sends the buyers after it, counts, and closes it.

    Every buyer asks once: trouble is counted, not hidden by asking again.
    """
    event = f"stampede-{Ids().new()}"
    patient = Client(url, key, attempt_seconds=ANSWER_SECONDS, total_seconds=2 * ANSWER_SECONDS)
    once = Patience(attempts=1, attempt_seconds=ANSWER_SECONDS, total_seconds=ANSWER_SECONDS)
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    async with patient as client, Transport(url, headers, once, connections) as line:
        system = await client.system()
        try:
            created = await client.create_event(house(event, seats, price=0))
            if isinstance(created, Refused):
                raise unexpected(created)
            names = [f"S-{number + 1}" for number in range(seats)]
            tally = await rush(
                buyer_of(line, event), range(buyers), names, connections, on_progress
            )
        finally:
            # Also when interrupted: nobody shall buy a seat of a trial later on.
            with contextlib.suppress(HoldfastError):
                await client.change_event(event, state="closed")
        found, doubts = await count(client, event, seats)
    made = report(tally, found, seats, system.store, system.gate, system.policy)
    return Result(made, tally.errors, doubts)


def buyer_of(line: Transport, event: str, pool: str | None = None) -> Buy:
    """A buyer at that event; of a pool he wants one. Leaner than the client, for there are
    thousands of him."""
    ids = Ids()
    holds = f"/v1/events/{event}/holds"

    async def buy(buyer: str, seat: str) -> bool:
        units: dict[str, object] = {"pools": {pool: 1}} if pool else {"seats": [seat]}
        reply = await line.send("POST", holds, {}, encode({"buyer": buyer, **units}))
        if not _said_yes(reply):
            return False
        order = {"hold": decoded(reply.body, _Placed).id}
        key = {"Idempotency-Key": ids.new()}
        return _said_yes(await line.send("POST", "/v1/orders", key, encode(order)))

    return buy


def _said_yes(reply: Reply) -> bool:
    """201 or 409; whatever else is trouble, named without what is different in each answer."""
    if reply.status not in (201, 409):
        raise Unexpected(f"status {reply.status} {problem(reply).reason}")
    return reply.status == 201


async def count(client: Client, event: str, seats: int) -> tuple[Found, list[str]]:
    """What the log says was sold, and where the seat map says otherwise."""
    orders: dict[str, list[str]] = {}
    after = 0
    while facts := await _page(client, event, after):
        for fact in facts:
            after += 1
            if fact.sequence != after:
                raise Unexpected(f"the log of {event} has no fact {after}")
            if fact.type == "order.confirmed":
                orders[fact.data["order"]] = fact.data["seats"]
            elif fact.type in UNSOLD:
                orders.pop(fact.data["order"], None)
    owners = Counter(seat for sold in orders.values() for seat in sold)
    sold = owners.total()
    found = Found(sold=sold, oversold=max(sold_twice(owners), sold - seats, 0))
    return found, await _doubts(client, event, owners)


async def _page(client: Client, event: str, after: int) -> list[Fact]:
    page = await client.log(event, after=after, limit=LOG_PAGE_MAX)
    if isinstance(page, Refused):
        raise unexpected(page)
    return page.facts


async def _doubts(client: Client, event: str, owners: Counter[str]) -> list[str]:
    seat_map = await client.seats(event)
    shown = {seat.id for seat in seat_map.seats if seat.state == "sold"} if seat_map else set()
    if shown == owners.keys():
        return []
    return [f"the log has {len(owners):,} seats sold, the seat map {len(shown):,} or others"]
