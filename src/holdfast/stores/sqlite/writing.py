"""What a batch changed, as rows of SQLite. Every update is guarded by what the row was."""

from collections.abc import Sequence
from typing import Any

import apsw
import msgspec

from holdfast.domain.audit import Corrections
from holdfast.domain.model import Hold, Millis, Order, Seat, SeatPlan
from holdfast.domain.shelf import Shelf
from holdfast.errors import StoreBusy
from holdfast.stores.sqlite.reading import SQL, Row

RECORDS_KEPT_MS = 24 * 3600 * 1000

encode = msgspec.json.Encoder().encode


def to_json(value: Any) -> str:  # any value of the domain
    return encode(value).decode()


class Writer:
    """Writes one event's changes inside the batch's transaction."""

    def __init__(self, db: apsw.Connection, event: str, now: Millis) -> None:
        self._db = db
        self._event = event
        self._now = now

    def write(self, shelf: Shelf, seq: int) -> None:
        self._write_event(shelf)
        self._write_seats(shelf)
        self._write_pools(shelf)
        self._write_claims(shelf)
        self._write_holds(shelf)
        self._write_orders(shelf)
        self._insert(
            "insert_record",
            [
                (self._event, record.id, record.digest, to_json(record.outcome), self._now)
                for record in shelf.recorded
            ],
        )
        # Twice as many as were added, so that old records never pile up and nobody has to sweep.
        old = (self._event, self._now - RECORDS_KEPT_MS, 2 * len(shelf.recorded))
        self._db.execute(SQL["forget_records"], old)
        self._advance(shelf, seq)
        self._insert(
            "append",
            [
                (self._event, number, fact.type, self._now, to_json(fact.data))
                for number, fact in enumerate(shelf.facts, seq + 1)
            ],
        )

    def mend(self, fixes: Corrections) -> None:
        event = self._event
        self._db.execute(SQL["clear_claims"], (event,))
        self._db.execute(SQL["clear_sold"], (event,))
        claims = [(event, c.pool, c.hold, c.quantity, c.until_ms) for c in fixes.claims]
        self._insert("mend_seat", [(s.hold, s.until_ms, s.order, event, s.id) for s in fixes.seats])
        self._insert("mend_pool", [(p.held, p.sold, event, p.id) for p in fixes.pools])
        self._insert("insert_claim", claims)
        self._insert("insert_sold", [(event, *sold) for sold in fixes.sold_seats.items()])
        self._db.execute(SQL["mend_counters"], (fixes.capacity, fixes.sold, fixes.revenue, event))

    def _insert(self, query: str, rows: Sequence[Row]) -> None:
        if rows:
            self._db.executemany(SQL[query], rows)

    def _guarded(self, query: str, rows: Sequence[Row]) -> None:
        """Each row must change exactly one row: else somebody else was there first."""
        if not rows:
            return
        before = self._db.total_changes()
        self._db.executemany(SQL[query], rows)
        if self._db.total_changes() - before != len(rows):
            raise StoreBusy(f"{query}: a guarded row had changed meanwhile")

    def _write_event(self, shelf: Shelf) -> None:
        event, was = shelf.event, shelf.event_was
        if event is None or event is was:
            return
        if was is None:
            self._insert("insert_event", [(event.id, event.version, to_json(event))])
            self._insert("insert_counters", [(event.id, event.version)])
        else:
            config = (event.version, to_json(event), event.id, was.version)
            self._guarded("update_event", [config])

    def _write_seats(self, shelf: Shelf) -> None:
        if shelf.plans:
            last: int = self._db.execute(SQL["last_position"], (self._event,)).get
            plans = enumerate(shelf.plans, last + 1)
            self._insert("insert_plan", [self._plan_row(plan, nth) for nth, plan in plans])
            seats = [(self._event, plan.id, plan.tier, plan.channel) for plan in shelf.plans]
            self._insert("insert_seat", seats)
        changes = list(shelf.seats.changes())
        self._guarded("update_seat", [self._seat_row(was, seat) for was, seat in changes if was])
        gone = [(self._event, s.id, s.order) for s, seat in changes if s and s.order != seat.order]
        self._guarded("delete_sold", [row for row in gone if row[2] is not None])
        self._insert(
            "insert_sold",
            [
                (self._event, seat.id, seat.order)
                for was, seat in changes
                if seat.order is not None and (was is None or was.order != seat.order)
            ],
        )

    def _plan_row(self, plan: SeatPlan, position: int) -> Row:
        return (self._event, *msgspec.structs.astuple(plan), position)

    def _seat_row(self, was: Seat, seat: Seat) -> Row:
        now = (seat.hold, seat.until_ms, seat.order, seat.withdrawn)
        return (*now, self._event, seat.id, was.hold, was.until_ms, was.order)

    def _write_pools(self, shelf: Shelf) -> None:
        event = self._event
        changes = list(shelf.pools.changes())
        self._insert(
            "insert_pool",
            [
                (event, p.id, p.tier, p.channel, p.capacity, p.held, p.sold)
                for was, p in changes
                if was is None
            ],
        )
        self._guarded(
            "update_pool",
            [
                (p.capacity, p.held, p.sold, event, p.id, was.capacity, was.held, was.sold)
                for was, p in changes
                if was is not None
            ],
        )

    def _write_claims(self, shelf: Shelf) -> None:
        event = self._event
        new, moved, gone = [], [], []
        for was, claim in shelf.claims.changes():
            key = (event, claim.pool, claim.hold)
            if was is None and claim.quantity:
                new.append((*key, claim.quantity, claim.until_ms))
            elif was is not None and not claim.quantity:
                gone.append(key)
            elif was is not None and was.until_ms != claim.until_ms:
                moved.append((claim.until_ms, *key, was.until_ms))
        self._insert("insert_claim", new)
        self._guarded("update_claim", moved)
        self._guarded("delete_claim", gone)

    def _write_holds(self, shelf: Shelf) -> None:
        new, moved = [], []
        for was, hold in shelf.holds.changes():
            until = hold.until_ms if hold.open else None
            if was is None:
                new.append(self._hold_row(hold, until))
            else:
                state = (hold.state, hold.soft_ms, hold.hard_ms, hold.extensions, hold.version)
                moved.append((*state, hold.order, until, self._event, hold.id, was.version))
        self._insert("insert_hold", new)
        self._guarded("update_hold", moved)

    def _hold_row(self, hold: Hold, until: Millis | None) -> Row:
        return (
            self._event,
            hold.id,
            hold.buyer,
            hold.state,
            to_json(hold.seats),
            to_json(hold.pools),
            hold.units,
            hold.amount,
            hold.currency,
            hold.placed_ms,
            hold.soft_ms,
            hold.hard_ms,
            hold.extensions,
            hold.version,
            hold.order,
            until,
        )

    def _write_orders(self, shelf: Shelf) -> None:
        changes = list(shelf.orders.changes())
        self._insert("insert_order", [self._order_row(o) for was, o in changes if was is None])
        self._guarded(
            "update_order",
            [
                (order.state, order.payment, self._event, order.id, was.state)
                for was, order in changes
                if was is not None
            ],
        )

    def _order_row(self, order: Order) -> Row:
        return (
            self._event,
            order.id,
            order.buyer,
            order.state,
            to_json(order.seats),
            to_json(order.pools),
            order.units,
            order.amount,
            order.currency,
            order.created_ms,
            order.hold,
            order.payment,
        )

    def _advance(self, shelf: Shelf, seq: int) -> None:
        if shelf.event is None:
            return
        decided_under = (shelf.event_was or shelf.event).version
        change = (len(shelf.facts), shelf.event.version, shelf.capacity, shelf.sold, shelf.revenue)
        self._guarded("advance", [(*change, self._event, decided_under, seq)])
