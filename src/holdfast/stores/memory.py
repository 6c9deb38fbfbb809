"""The authority that forgets: dicts in this process. For tests, trials and caches of one's own."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import msgspec

from holdfast.domain import audit
from holdfast.domain.batch import Fetch, What, run
from holdfast.domain.commands import Command
from holdfast.domain.facts import Entry
from holdfast.domain.limits import RECORDS_KEPT_MS
from holdfast.domain.model import Claim, Event, Hold, Millis, Order, Pool, Seat, SeatPlan
from holdfast.domain.outcomes import Answer
from holdfast.domain.seating import House
from holdfast.domain.shelf import KeyUse, Record, Shelf, Tally, Totals, free_from
from holdfast.domain.views import (
    CURSOR_FOLLOWER_BYTES_MAX,
    DOCUMENT_BODY_BYTES_MAX,
    DOCUMENT_ID_BYTES_MAX,
    DOCUMENT_KIND_BYTES_MAX,
    Census,
    Cursor,
    Document,
    Move,
    PoolView,
    SeatMap,
    SeatView,
    Statuses,
    Summary,
)
from holdfast.errors import StoreError
from holdfast.ports import Committed, nothing
from holdfast.stores import Clock, drive, host_clock
from holdfast.stores.rows import first_moves

KEY_BYTES_MAX = 256
DIGEST_BYTES_MAX = 64

encode = msgspec.json.Encoder().encode


class Rows:
    """Everything about one event."""

    def __init__(self) -> None:
        self.event: Event | None = None
        self.seq = self.capacity = self.sold = self.revenue = 0
        self.plans: dict[str, SeatPlan] = {}
        self.seats: dict[str, Seat] = {}
        self.pools: dict[str, Pool] = {}
        self.claims: dict[str, Claim] = {}
        self.holds: dict[str, Hold] = {}
        self.open: dict[str, Hold] = {}
        self.open_by: dict[str, dict[str, Hold]] = {}
        self.sold_to: dict[str, int] = {}
        self.payments: dict[str, str] = {}
        self.orders: dict[str, Order] = {}
        self.sold_seats: dict[str, str] = {}
        self.records: dict[str, Record] = {}
        self.recorded: deque[tuple[Millis, str]] = deque()
        self.log: list[tuple[int, str, Millis, bytes]] = []
        self.house: House | None = None
        self.house_layout = 0

    def log_page(self, after: int, limit: int) -> list[tuple[int, str, Millis, bytes]]:
        pruned = self.log[0][0] - 1 if self.log else 0
        start = max(0, after - pruned)
        return self.log[start : start + limit]

    @property
    def totals(self) -> Totals:
        return Totals(self.capacity, self.revenue)

    def fetch(self, want: Fetch, now: Millis) -> Sequence[Any]:
        keys = want.keys
        match want.what:
            case What.SEATS | What.CHOSEN:
                return _found(self.seats, keys)
            case What.HOLDS | What.PEEK_HOLDS | What.DEAD_HOLDS:
                return _found(self.holds, keys)
            case What.RECORDS:
                return _found(self.records, keys)
            case What.NOW:
                return [now]
            case What.POOLS:
                return _found(self.pools, keys)
            case What.ORDERS | What.PEEK_ORDERS:
                return _found(self.orders, keys)
            case What.CLAIMS:
                return _found(self.claims, [Claim(pool, hold, 0, 0).id for pool, hold in keys])
            case What.LAPSED:
                return self._lapsed(dict(keys), now)
            case What.DUE:
                due = (hold for hold in self.open.values() if hold.until_ms <= now)
                return sorted(due, key=lambda hold: hold.until_ms)[: keys[0]]
            case What.PAYMENTS:
                return [(key, self.payments[key]) for key in keys if key in self.payments]
            case What.TALLIES:
                return [(buyer, self._tally(buyer)) for buyer in keys]
            case What.HOUSE:
                return self._house()
            case What.PROBE:
                return keys
            case What.BUYERS | What.KEY_USES:
                return []  # nothing to be locked; keys are not an event's

    def _lapsed(self, short: dict[str, int], now: Millis) -> list[Claim]:
        lapsed = [c for c in self.claims.values() if c.pool in short and c.until_ms <= now]
        return sorted(lapsed, key=lambda claim: claim.until_ms)

    def _tally(self, buyer: str) -> Tally:
        holds = self.open_by.get(buyer, {}).values()
        return Tally(
            self.sold_to.get(buyer, 0), {hold.id: (hold.until_ms, hold.units) for hold in holds}
        )

    def _house(self) -> list[House]:
        if self.event is None or not self.plans:
            return []
        if self.house is None or self.house_layout != self.event.layout:
            self.house = House(self.plans.values(), self.event.ranking)
            self.house_layout = self.event.layout
            for seat in self.seats.values():
                if free := free_from(seat):
                    self.house.set(seat.id, free)
        return [self.house]

    def pool_views(self, now: Millis) -> list[PoolView]:
        lapsed: dict[str, int] = {}
        for claim in self.claims.values():
            if claim.until_ms <= now:
                lapsed[claim.pool] = lapsed.get(claim.pool, 0) + claim.quantity
        return [
            PoolView(p.id, p.capacity, p.free + lapsed.get(p.id, 0), p.tier, p.channel)
            for p in sorted(self.pools.values(), key=lambda pool: pool.id)
        ]

    def write(self, shelf: Shelf, now: Millis) -> None:
        # First what may fail: from here on it must succeed, for there is no rollback.
        data = [encode(fact.data) for fact in shelf.facts]
        self.event = shelf.event
        for plan in shelf.plans:
            self.plans[plan.id] = plan
            self.seats[plan.id] = Seat(plan.id, plan.tier, plan.channel)
        for was, seat in shelf.seats.changes():
            self.seats[seat.id] = seat
            if seat.order is not None:
                self.sold_seats[seat.id] = seat.order
            elif was is not None and was.order is not None:
                del self.sold_seats[seat.id]
        self.pools.update((pool.id, pool) for _, pool in shelf.pools.changes())
        for _, claim in shelf.claims.changes():
            if claim.quantity:
                self.claims[claim.id] = claim
            else:
                self.claims.pop(claim.id, None)
        for _, hold in shelf.holds.changes():
            self._write_hold(hold)
        for before, order in shelf.orders.changes():
            self._write_order(before, order)
        self.capacity += shelf.capacity
        self.sold += shelf.sold
        self.revenue += shelf.revenue
        self._record(shelf.recorded, now)
        for fact, encoded in zip(shelf.facts, data, strict=True):
            self.seq += 1
            self.log.append((self.seq, fact.type, now, encoded))

    def _write_hold(self, hold: Hold) -> None:
        self.holds[hold.id] = hold
        his = self.open_by.setdefault(hold.buyer, {})
        if hold.open:
            self.open[hold.id] = his[hold.id] = hold
            return
        self.open.pop(hold.id, None)
        his.pop(hold.id, None)
        if not his:
            del self.open_by[hold.buyer]

    def _write_order(self, was: Order | None, order: Order) -> None:
        self.orders[order.id] = order
        if order.payment is not None:
            self.payments[order.payment] = order.id
        had = was.units if was is not None and was.sold else 0
        has = order.units if order.sold else 0
        self.sold_to[order.buyer] = self.sold_to.get(order.buyer, 0) + has - had

    def _record(self, records: Iterable[Record], now: Millis) -> None:
        for record in records:
            self.records[record.id] = record
            self.recorded.append((record.at_ms, record.id))
        while self.recorded and self.recorded[0][0] < now - RECORDS_KEPT_MS:
            self.records.pop(self.recorded.popleft()[1], None)


def _found(rows: dict[str, Any], keys: Sequence[str]) -> list[Any]:
    return [row for key in keys if (row := rows.get(key)) is not None]


class MemoryStore:
    one_lane = False

    def __init__(self, clock: Clock = host_clock) -> None:
        self.url = "memory://"
        self._clock = clock
        self._events: dict[str, Rows] = {}
        self._documents: dict[tuple[str, str], Document] = {}
        self._cursors: dict[tuple[str, str], Cursor] = {}
        self._keys: dict[str, tuple[str, Millis]] = {}  # in the order in which they were claimed
        self._moved = asyncio.Event()

    async def open(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Nothing to close."""

    async def migrate(self) -> list[str]:
        return []

    async def apply(
        self, commands: Sequence[Command], committed: Committed = nothing
    ) -> list[Answer]:
        # A disk would give others their turn here; a crowd must not keep the loop to itself.
        await asyncio.sleep(0)
        rows = self._events.get(commands[0].event) or Rows()
        # One thread and no await between load and write: nobody can come in between.
        now = self._clock()
        shelf = Shelf(commands[0].event, rows.event, rows.house, rows.totals)
        shelf.as_of = rows.seq
        try:
            answers = drive(run(shelf, commands), lambda want: self._fetch(rows, want, now))
        except BaseException:
            rows.house = None
            raise
        if shelf.changed:
            rows.write(shelf, now)
            self._use_keys(shelf.key_uses.changes(), now)
            self._events[shelf.event_id] = rows
            self._moved.set()
        return answers

    def _fetch(self, rows: Rows, want: Fetch, now: Millis) -> Sequence[Any]:
        if want.what is What.KEY_USES:  # of all events together
            return [KeyUse(key, *self._keys[key]) for key in want.keys if key in self._keys]
        return rows.fetch(want, now)

    def _use_keys(self, changes: Iterable[tuple[KeyUse | None, KeyUse]], now: Millis) -> None:
        for _, use in changes:
            self._keys.pop(use.id, None)  # the latest stands last
            self._keys[use.id] = (use.digest, use.at_ms)
        self._forget_keys(now)

    def _forget_keys(self, now: Millis) -> None:
        while self._keys and next(iter(self._keys.values()))[1] < now - RECORDS_KEPT_MS:
            del self._keys[next(iter(self._keys))]

    async def summaries(self, event: str | None = None) -> list[Summary]:
        now = self._clock()
        chosen = sorted(self._events) if event is None else [event]
        return [
            Summary(rows.event, rows.seq, rows.capacity, held, rows.sold, rows.revenue)
            for rows in (self._events[id] for id in chosen if id in self._events)
            if rows.event is not None
            for held in [sum(hold.units for hold in rows.open.values() if hold.live(now))]
        ]

    async def seat_map(self, event: str) -> SeatMap | None:
        rows = self._events.get(event)
        if rows is None:
            return None
        now = self._clock()
        seats = [
            SeatView(
                *(p.id, p.section, p.row, p.number, p.tier, p.x, p.y),
                seat.state(now),
                p.channel,
                *(p.accessible, p.companion, p.restricted_view),
            )
            for p in rows.plans.values()
            if not (seat := rows.seats[p.id]).withdrawn
        ]
        return SeatMap(rows.seq, seats, rows.pool_views(now))

    async def statuses(self, event: str) -> Statuses | None:
        rows = self._events.get(event)
        if rows is None or rows.event is None:
            return None
        now = self._clock()
        seats = rows.seats.values()
        busy = [s for s in seats if (s.until_ms > now or s.order is not None) and not s.withdrawn]
        held = [seat.id for seat in busy if seat.order is None]
        sold = [seat.id for seat in busy if seat.order is not None]
        return Statuses(rows.event, rows.seq, now, held, sold, rows.pool_views(now))

    async def hold(self, event: str, id: str) -> tuple[Hold, Millis] | None:
        rows = self._events.get(event)
        hold = rows.holds.get(id) if rows else None
        return (hold, self._clock()) if hold else None

    async def order(self, event: str, id: str) -> Order | None:
        rows = self._events.get(event)
        return rows.orders.get(id) if rows else None

    async def due_orders(self, limit: int) -> list[Order]:
        now = self._clock()
        due = [
            (order.due_ms, order)
            for rows in self._events.values()
            for order in rows.orders.values()
            if order.due_ms is not None and order.due_ms <= now
        ]
        return [order for _, order in sorted(due, key=itemgetter(0))[:limit]]

    async def troubled_orders(self, limit: int) -> list[Order]:
        orders = (order for rows in self._events.values() for order in rows.orders.values())
        troubled = (order for order in orders if order.trouble is not None)
        return sorted(troubled, key=lambda order: order.created_ms)[:limit]

    async def log(self, event: str, after: int, limit: int) -> list[Entry]:
        rows = self._events.get(event)
        page = rows.log_page(after, limit) if rows else []
        return [
            Entry(event, seq, type, at_ms, msgspec.json.decode(data))
            for seq, type, at_ms, data in page
        ]

    async def tails(self, after: Mapping[str, int], limit: int) -> list[Entry]:
        return [
            entry for event, seq in after.items() for entry in await self.log(event, seq, limit)
        ]

    async def prune(self, event: str, through: int, limit: int) -> int:
        rows = self._events.get(event)
        if rows is None or not rows.log:
            return 0
        pruned = max(0, min(through - rows.log[0][0] + 1, limit, len(rows.log) - 1))
        del rows.log[:pruned]
        return pruned

    async def due(self) -> list[str]:
        now = self._clock()
        return [
            id
            for id, rows in self._events.items()
            if any(hold.until_ms <= now for hold in rows.open.values())
        ]

    async def heads(self) -> dict[str, int]:
        return {id: rows.seq for id, rows in self._events.items()}

    async def wake(self, timeout_seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await self._moved.wait()
        self._moved.clear()

    async def census(self, event: str) -> Census | None:
        rows = self._events.get(event)
        if rows is None or rows.event is None:
            return None
        return Census(
            event=rows.event,
            now=self._clock(),
            version=rows.event.version,
            seq=rows.seq,
            capacity=rows.capacity,
            sold=rows.sold,
            revenue=rows.revenue,
            seats=list(rows.seats.values()),
            pools=list(rows.pools.values()),
            claims=list(rows.claims.values()),
            holds=list(rows.holds.values()),
            orders=list(rows.orders.values()),
            sold_seats=dict(rows.sold_seats),
            deadlines={id: hold.until_ms for id, hold in rows.open.items()},
            plans={id: (plan.tier, plan.channel) for id, plan in rows.plans.items()},
        )

    async def strays(self) -> list[str]:
        return []

    async def mend(self, event: str) -> list[str]:
        census = await self.census(event)
        if census is None:
            return []
        fixes = audit.corrections(census)
        rows = self._events[event]
        rows.seats.update((seat.id, seat) for seat in fixes.seats)
        rows.pools.update((pool.id, pool) for pool in fixes.pools)
        rows.claims = {claim.id: claim for claim in fixes.claims}
        rows.sold_seats = dict(fixes.sold_seats)
        rows.capacity, rows.sold, rows.revenue = fixes.capacity, fixes.sold, fixes.revenue
        rows.event = fixes.event
        return fixes.changes

    async def documents(self, kind: str, id: str | None = None) -> tuple[list[Document], Millis]:
        found = [each for each in self._documents.values() if each.kind == kind]
        chosen = [each for each in found if id is None or each.id == id]
        return sorted(chosen, key=lambda each: each.id), self._clock()

    async def put(self, document: Document) -> bool:
        _check_size(document)
        key = (document.kind, document.id)
        there = self._documents.get(key)
        if document.version != (there.version if there else 0) + 1:
            return False
        self._documents[key] = document
        return True

    async def drop(self, kind: str, id: str, version: int) -> bool:
        there = self._documents.get((kind, id))
        if there is None or there.version != version:
            return False
        del self._documents[kind, id]
        return True

    async def cursors(self, follower: str | None = None) -> tuple[list[Cursor], Millis]:
        keys = (key for key in self._cursors if follower is None or key[0] == follower)
        return [self._cursors[key] for key in sorted(keys)], self._clock()

    async def move(self, follower: str, moves: Sequence[Move]) -> set[str]:
        _check_sizes("follower", follower, (follower, CURSOR_FOLLOWER_BYTES_MAX))
        return {move.event for move in first_moves(moves) if self._move(follower, move)}

    def _move(self, follower: str, move: Move) -> bool:
        there = self._cursors.get((follower, move.event))
        if there is None and move.was != 0:
            return False
        if there is not None and (there.seq != move.was or there.fence > move.fence):
            return False
        moved_ms = there.moved_ms if there and there.seq == move.seq else self._clock()
        self._cursors[follower, move.event] = Cursor(
            follower, move.event, move.seq, move.fence, moved_ms
        )
        return True

    async def forget(self, follower: str) -> None:
        for key in [key for key in self._cursors if key[0] == follower]:
            del self._cursors[key]

    async def claim_keys(self, claims: Sequence[tuple[str, str]]) -> list[str]:
        for key, digest in claims:
            _check_sizes("key", key, (key, KEY_BYTES_MAX), (digest, DIGEST_BYTES_MAX))
        now = self._clock()
        self._forget_keys(now)
        return [self._keys.setdefault(key, (digest, now))[0] for key, digest in claims]

    async def free_keys(self, claims: Sequence[tuple[str, str]]) -> None:
        for key, digest in claims:
            if key in self._keys and self._keys[key][0] == digest:
                del self._keys[key]


def _check_size(document: Document) -> None:
    _check_sizes(
        "document",
        document.id,
        (document.kind, DOCUMENT_KIND_BYTES_MAX),
        (document.id, DOCUMENT_ID_BYTES_MAX),
        (document.body, DOCUMENT_BODY_BYTES_MAX),
    )


def _check_sizes(what: str, id: str, *limits: tuple[str, int]) -> None:
    """As the schemas of the other stores do."""
    if any(len(text.encode()) > most for text, most in limits):
        raise StoreError(f"memory:// refused a {what} that is too large: {id}")
