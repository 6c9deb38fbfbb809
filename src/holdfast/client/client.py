"""The client: each method is one call of the HTTP API, and says what it can answer."""

from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import Any, Self
from urllib.parse import quote

import msgspec

from holdfast.client import replies, streaming
from holdfast.client.replies import Reply
from holdfast.client.streaming import Frame
from holdfast.client.transport import Patience, Transport, checked_header
from holdfast.client.values import (
    Buyer,
    Cancelled,
    Changed,
    Confirmed,
    Created,
    Event,
    Extended,
    Hold,
    LogPage,
    Order,
    Paying,
    Pending,
    Placed,
    Reconciliation,
    Refused,
    Released,
    SeatMap,
    Stats,
    System,
)
from holdfast.domain.asks import BestAsk
from holdfast.domain.model import Best
from holdfast.ids import Ids

CONNECTIONS = 100
TOKENS_MAX = 10_000
"""Holds whose tokens are remembered; past it, the oldest are forgotten."""
ADDING = {"sections", "seats", "pools", "withdraw"}
"""Changes that would be made twice if they were sent twice."""

encode = msgspec.json.Encoder().encode


class _Events(msgspec.Struct):
    events: list[Event]


class _Orders(msgspec.Struct):
    orders: list[Order]


class Client:
    """A connection to the service at `url`, opened by `async with`.

    A call is tried up to `attempts` times, each for `attempt_seconds` and all together for
    `total_seconds`. With a public key, `buyer_token` says who the buyer is; tokens of holds that
    this client placed are remembered and sent, others are passed as `token`.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        buyer_token: str | None = None,
        attempts: int = 3,
        attempt_seconds: float = 10.0,
        total_seconds: float = 30.0,
        backoff_seconds: float = 0.1,
        connections: int = CONNECTIONS,
    ) -> None:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        patience = Patience(attempts, attempt_seconds, total_seconds, backoff_seconds)
        self._transport = Transport(url, headers, patience, connections)
        self.buyer_token = buyer_token
        self._tokens: dict[str, str] = {}
        self._ids = Ids()

    async def __aenter__(self) -> Self:
        await self._transport.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._transport.__aexit__(*exc)

    # Events

    async def create_event(
        self, event: Mapping[str, Any], *, idempotency_key: str | None = None
    ) -> Created | Refused:
        """A new event, from a description as docs/events.md has it. Needs an admin's key."""
        reply = await self._make("/v1/events", event, idempotency_key)
        made = replies.value(reply, Event)
        return made if isinstance(made, Refused) else Created(made, reply.replayed)

    async def events(self) -> list[Event]:
        """All events, and how their sales stand."""
        return replies.only(await self._send("GET", "/v1/events"), _Events).events

    async def event(self, event: str) -> Event | None:
        """An event, and how its sale stands; None if there is none."""
        return replies.found(await self._send("GET", f"/v1/events/{_part(event)}"), Event)

    async def change_event(self, event: str, /, **changes: Any) -> Changed | Refused:
        """Changes an event by name: state, deadlines, caps, prices; adds `sections`, `seats` and
        `pools`, or takes some away by `withdraw`. Needs an admin's key.

        Units are added each time they are sent, so such a change is not sent again unless it
        certainly did not arrive: after Unavailable, look before asking again.
        """
        repeatable = not ADDING & changes.keys()
        path = f"/v1/events/{_part(event)}"
        reply = await self._send("PATCH", path, changes, repeatable=repeatable)
        made = replies.value(reply, Event)
        return made if isinstance(made, Refused) else Changed(made)

    async def seats(self, event: str) -> SeatMap | None:
        """The seat map, or None if there is no such event."""
        return replies.found(await self._send("GET", f"/v1/events/{_part(event)}/seats"), SeatMap)

    async def log(self, event: str, *, after: int = 0, limit: int = 100) -> LogPage | Refused:
        """The facts with numbers above `after`, in order, none missing; ask for those after `next`
        until there are none. Refused: `unknown_event`, or `pruned` with the `first` still there."""
        path = f"/v1/events/{_part(event)}/log?after={after:d}&limit={limit:d}"
        return replies.value(await self._send("GET", path), LogPage)

    async def stats(self, event: str) -> Stats | None:
        """How its sale has gone: by tier and hour, holds by state, velocity, the last bookings;
        None if there is no such event."""
        return replies.found(await self._send("GET", f"/v1/events/{_part(event)}/stats"), Stats)

    def stream(self, event: str, since: int | None = None) -> AsyncGenerator[Frame, None]:
        """Live frames, for ever: a snapshot, then changes that join without a gap; with `since`,
        the changes after that number if the service still has them.

        A lost connection is made again, and goes on after the last frame. Raises StreamGap should
        changes ever be missing, Unavailable when nothing came for `total_seconds`.
        """
        path = f"/v1/events/{_part(event)}/stream"
        return streaming.follow(self._transport, path, self._headers(), since)

    # Holds

    async def place_hold(
        self,
        event: str,
        *,
        buyer: str | None = None,
        seats: Iterable[str] = (),
        best: BestAsk | None = None,
        pools: Mapping[str, int] | None = None,
        channels: Iterable[str] = (),
        id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Placed | Refused:
        """Holds all of it, or nothing. `id` is the caller's own for this hold. `buyer` is left out
        with a public key: it is the one of the Buyer-Token."""
        ask = {
            "buyer": buyer,
            "id": id,
            "seats": _listed(seats),
            "best": _best(best),
            "pools": pools or {},
            "channels": _listed(channels),
        }
        sent = {name: value for name, value in ask.items() if value not in (None, [], {})}
        reply = await self._make(f"/v1/events/{_part(event)}/holds", sent, idempotency_key)
        hold = replies.value(reply, Hold)
        if isinstance(hold, Refused):
            return hold
        self._remember(hold.id, hold.token)
        return Placed(hold, reply.replayed)

    async def hold(self, hold: str, *, token: str | None = None) -> Hold | None:
        """A hold as it stands now, or None if there is none to be seen."""
        reply = await self._send("GET", f"/v1/holds/{_part(hold)}", token=self._token(hold, token))
        return replies.found(reply, Hold)

    async def extend_hold(
        self,
        hold: str,
        seconds: int | None = None,
        *,
        token: str | None = None,
        idempotency_key: str | None = None,
    ) -> Extended | Refused:
        """Moves a hold's deadlines, by `seconds` or as long as the event's holds last."""
        body = {} if seconds is None else {"seconds": seconds}
        path = f"/v1/holds/{_part(hold)}/extend"
        reply = await self._make(path, body, idempotency_key, self._token(hold, token))
        extended = replies.value(reply, Hold)
        return extended if isinstance(extended, Refused) else Extended(extended, reply.replayed)

    async def release_hold(self, hold: str, *, token: str | None = None) -> Released | Refused:
        """Gives a hold's units back; doing so again changes nothing."""
        path = f"/v1/holds/{_part(hold)}"
        reply = await self._send("DELETE", path, token=self._token(hold, token))
        return Released(hold) if reply.status == 204 else replies.refusal(reply)

    async def pay_hold(self, hold: str, *, token: str | None = None) -> Paying | Refused:
        """Payment begins: the hold stays until its hard deadline. Again, it changes nothing."""
        path = f"/v1/holds/{_part(hold)}/pay"
        reply = await self._send("POST", path, token=self._token(hold, token))
        paying = replies.value(reply, Hold)
        return paying if isinstance(paying, Refused) else Paying(paying)

    # Orders

    async def create_order(
        self,
        hold: str,
        *,
        method: str | None = None,
        accept_other_seats: bool = False,
        token: str | None = None,
        idempotency_key: str | None = None,
    ) -> Confirmed | Pending | Refused:
        """Buys what a hold holds. `method` is how it is paid; a free order needs none. A declined
        payment is a refusal, `declined`: the hold is still there. `accept_other_seats`: equal or
        better ones will do, should the payment come too late for these."""
        asked: dict[str, Any] = {"hold": hold}
        if method is not None:
            asked["payment"] = {"method": method}
        if accept_other_seats:
            asked["accept_other_seats"] = True
        token = self._token(hold, token)
        reply = await self._make("/v1/orders", asked, idempotency_key, token)
        order = replies.value(reply, Order)
        if isinstance(order, Refused):
            return order
        self._remember(order.id, token)
        outcome = Pending if reply.status == 202 else Confirmed
        return outcome(order, reply.replayed)

    async def get_order(self, order: str, *, token: str | None = None) -> Order | None:
        """An order, or None if there is none to be seen. `token` is its hold's."""
        path = f"/v1/orders/{_part(order)}"
        return replies.found(await self._send("GET", path, token=self._token(order, token)), Order)

    async def cancel_order(
        self,
        order: str,
        *,
        seats: Iterable[str] = (),
        pools: Mapping[str, int] | None = None,
        idempotency_key: str | None = None,
    ) -> Cancelled | Refused:
        """Takes a sale back, or the named units of it, and gives the money back. Needs a seller's
        or admin's key."""
        asked = {"seats": _listed(seats), "pools": pools or {}}
        sent = {name: value for name, value in asked.items() if value not in ([], {})}
        path = f"/v1/orders/{_part(order)}/cancel"
        cancelled = replies.value(await self._make(path, sent, idempotency_key), Order)
        return cancelled if isinstance(cancelled, Refused) else Cancelled(cancelled)

    async def orders_needing_a_person(self) -> list[Order]:
        """Those of all events, oldest first; `trouble` says why. Needs an admin's key."""
        return replies.only(await self._send("GET", "/v1/orders"), _Orders).orders

    async def retry_order(self, order: str) -> Order | None:
        """Tries again what an order needs a person for: the order as it is then, or None if there
        is none. Needs an admin's key."""
        return replies.found(await self._send("POST", f"/v1/orders/{_part(order)}/retry"), Order)

    # Buyers and the system

    async def create_buyer(self, buyer: str | None = None) -> Buyer:
        """A token for a new anonymous buyer, or for one whom a seller or admin names. Set it as
        `buyer_token` to act for him with a public key."""
        body = {} if buyer is None else {"buyer": buyer}
        return replies.only(await self._send("POST", "/v1/buyers", body), Buyer)

    async def system(self) -> System:
        """The deployment: store, gate, policy, lags. Needs an admin's key."""
        return replies.only(await self._send("GET", "/v1/system"), System)

    async def switch_gate(self, *, on: bool) -> System | Refused:
        """Puts the gate before every event, or passes it by, while selling. Needs an admin's key.
        Refused, `no_gate`, where there is none."""
        body = {"gate": "on" if on else "off"}
        return replies.value(await self._send("PATCH", "/v1/system", body), System)

    async def reconcile(self) -> Reconciliation | Refused:
        """Compares the gate with the authority now, and mends it. Needs an admin's key. Refused,
        `no_gate`, where there is none."""
        return replies.value(await self._send("POST", "/v1/system/reconcile"), Reconciliation)

    async def _make(
        self, path: str, body: object, key: str | None, token: str | None = None
    ) -> Reply:
        """A POST that makes something: the same key with every attempt, so it is made once."""
        return await self._send("POST", path, body, token=token, key=key or self._ids.new())

    async def _send(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        token: str | None = None,
        key: str | None = None,
        repeatable: bool = True,
    ) -> Reply:
        headers = self._headers()
        if token is not None:
            headers["Hold-Token"] = checked_header("Hold-Token", token)
        if key is not None:
            headers["Idempotency-Key"] = checked_header("Idempotency-Key", key)
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = encode(body)
        return await self._transport.send(method, path, headers, data, repeatable=repeatable)

    def _headers(self) -> dict[str, str]:
        if self.buyer_token is None:
            return {}
        return {"Buyer-Token": checked_header("Buyer-Token", self.buyer_token)}

    def _token(self, id: str, given: str | None) -> str | None:
        return self._tokens.get(id) if given is None else given

    def _remember(self, id: str, token: str | None) -> None:
        if token is None:
            return
        self._tokens[id] = token
        if len(self._tokens) > TOKENS_MAX:
            del self._tokens[next(iter(self._tokens))]


def _part(id: str) -> str:
    """One part of a path, whatever is in it. Servers see an escaped slash as a slash, so it is
    escaped twice: no id has one, and none shall lead to another call."""
    return quote(id.replace("/", "%2F"), safe="") if id.strip(".") else "-"


def _listed(names: Iterable[str]) -> Any:  # a list, or the text as it is
    """One text is not a list of texts: the service shall see the mistake."""
    return names if isinstance(names, str) else list(names)


def _best(best: BestAsk | None) -> Any:  # as the API has it: a list of asks
    if best is None:
        return None
    if isinstance(best, int):
        return [{"quantity": best}]
    return [best] if isinstance(best, Mapping | Best) else list(best)
