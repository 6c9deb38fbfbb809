"""The part of one event's state that a batch works on.

A store loads it, decisions read it, and `take` puts what each decided back on it, so that the
next command of the batch sees it. At the end it knows which rows changed and from what, which is
all that a store needs in order to write them, guarded by what they were.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

import msgspec

from holdfast.domain.facts import Fact
from holdfast.domain.model import (
    FOREVER_MS,
    Claim,
    Event,
    Hold,
    Millis,
    Order,
    Pool,
    Seat,
    SeatPlan,
)
from holdfast.domain.outcomes import Outcome
from holdfast.domain.seating import House

Row = Event | SeatPlan | Seat | Pool | Claim | Hold | Order


class Keyed(Protocol):
    @property
    def id(self) -> str: ...


R = TypeVar("R", bound=Keyed)


class Decision(msgspec.Struct, frozen=True, gc=False):
    """What one command came to: the answer, the rows as they are now, and the facts."""

    outcome: Outcome
    rows: Sequence[Row] = ()
    facts: Sequence[Fact] = ()
    recorded: Outcome | None = None
    """What is remembered for a repetition, where that is less than the answer."""
    capacity: int = 0
    sold: int = 0
    revenue: int = 0


class Record(msgspec.Struct, frozen=True, gc=False):
    """The first answer to a command that made something."""

    id: str
    digest: str
    outcome: Outcome
    at_ms: Millis
    """When it was decided."""


class KeyUse(msgspec.Struct, frozen=True, gc=False):
    """What a caller's key was used for, whichever event that was about."""

    id: str
    digest: str
    at_ms: Millis


class Totals(msgspec.Struct, frozen=True, gc=False):
    """What an event has and has earned, before the batch."""

    capacity: int = 0
    revenue: int = 0


class Rows(Generic[R]):
    """Rows by id, and for those that changed, what the store still has."""

    __slots__ = ("now", "was")

    def __init__(self) -> None:
        self.now: dict[str, R] = {}
        self.was: dict[str, R | None] = {}

    def load(self, rows: Iterable[R]) -> None:
        for row in rows:
            self.now[row.id] = row

    def get(self, id: str) -> R | None:
        return self.now.get(id)

    def put(self, row: R) -> None:
        id = row.id
        if id not in self.was:
            self.was[id] = self.now.get(id)
        self.now[id] = row

    def changes(self) -> Iterator[tuple[R | None, R]]:
        """What was (None: new) and what is, in order of keys: everyone writes in that order."""
        for id in sorted(self.was):
            yield self.was[id], self.now[id]


class Tally:
    """What a buyer has of an event: units sold to him, and his holds."""

    __slots__ = ("holds", "sold")

    def __init__(self, sold: int, holds: dict[str, tuple[Millis, int]]) -> None:
        self.sold = sold
        self.holds = holds

    def units(self, now: Millis) -> int:
        return self.sold + sum(units for until, units in self.holds.values() if until > now)


class Shelf:
    def __init__(
        self,
        event_id: str,
        event: Event | None,
        house: House | None = None,
        totals: Totals | None = None,
        hinted: bool = False,
    ) -> None:
        self.event_id = event_id
        self.event = event
        self.house = house
        self.hinted = hinted
        """Whether the house is a hint, to be verified, instead of exact."""
        self.skipped: dict[str, Millis] = {}
        self.surprises: set[str] = set()
        """Seats that a hint offered and that were taken already."""
        self.as_of: int | None = None
        """How far the log was before anything was read, where the store says so."""
        self.event_was = event
        self.plans: list[SeatPlan] = []
        self.seats: Rows[Seat] = Rows()
        self.pools: Rows[Pool] = Rows()
        self.holds: Rows[Hold] = Rows()
        self.orders: Rows[Order] = Rows()
        self.claims: Rows[Claim] = Rows()
        self.lapsed: dict[str, list[Claim]] = {}
        self.due: list[str] = []
        self.tallies: dict[str, Tally] = {}
        self.payments: dict[str, str] = {}
        self.records: dict[str, Record] = {}
        self.recorded: list[Record] = []
        self.key_uses: Rows[KeyUse] = Rows()
        self.facts: list[Fact] = []
        self.totals = totals or Totals()
        self.capacity = 0
        self.sold = 0
        self.revenue = 0

    @property
    def changed(self) -> bool:
        """Whether there is anything to commit. A batch of refusals has nothing."""
        return bool(self.facts or self.recorded or self.orders.was)

    def take(self, decision: Decision) -> None:
        for row in decision.rows:
            PUT[type(row)](self, row)  # type: ignore[operator]  # the key says which
        self.facts.extend(decision.facts)
        self.capacity += decision.capacity
        self.sold += decision.sold
        self.revenue += decision.revenue

    @property
    def unsure(self) -> set[str]:
        """Seats because of which a shortage may be no shortage."""
        return self.surprises | self.skipped.keys()

    def skip(self, seat: str) -> None:
        """Others have locked the seat: for this batch it is not to be had."""
        self.seats.now.pop(seat, None)
        if self.house is not None and seat not in self.skipped:
            self.skipped[seat] = self.house.until(seat)
            self.house.set(seat, FOREVER_MS)

    def unskip(self) -> None:
        """After the batch nothing is known of what others had locked: the hint is as before."""
        if self.house is not None:
            for seat, until_ms in self.skipped.items():
                self.house.set(seat, until_ms)

    @contextmanager
    def all_offered(self) -> Iterator[House]:
        """The house as if others had locked nothing."""
        assert self.house is not None
        self.unskip()
        try:
            yield self.house
        finally:
            for seat in self.skipped:
                self.house.set(seat, FOREVER_MS)

    def record(self, record: Record) -> None:
        self.records[record.id] = record
        self.recorded.append(record)

    def put_event(self, event: Event) -> None:
        self.event = event

    def put_plan(self, plan: SeatPlan) -> None:
        self.plans.append(plan)

    def put_seat(self, seat: Seat) -> None:
        self.seats.put(seat)
        if self.house is not None:
            self.house.set(seat.id, free_from(seat))

    def put_pool(self, pool: Pool) -> None:
        self.pools.put(pool)

    def put_claim(self, claim: Claim) -> None:
        self.claims.put(claim)

    def put_hold(self, hold: Hold) -> None:
        self.holds.put(hold)
        if self.tallies and (tally := self.tallies.get(hold.buyer)):
            if hold.open:
                tally.holds[hold.id] = (hold.until_ms, hold.units)
            else:
                tally.holds.pop(hold.id, None)

    def put_order(self, order: Order) -> None:
        was = self.orders.get(order.id) if self.tallies else None
        self.orders.put(order)
        if order.payment is not None:
            self.payments[order.payment] = order.id
        if self.tallies and (tally := self.tallies.get(order.buyer)):
            had = was.units if was is not None and was.sold else 0
            tally.sold += (order.units if order.sold else 0) - had


PUT = {
    Event: Shelf.put_event,
    SeatPlan: Shelf.put_plan,
    Seat: Shelf.put_seat,
    Pool: Shelf.put_pool,
    Claim: Shelf.put_claim,
    Hold: Shelf.put_hold,
    Order: Shelf.put_order,
}


def free_from(seat: Seat) -> Millis:
    """The first instant at which the seat is free, as a house wants to know it."""
    return FOREVER_MS if seat.order is not None or seat.withdrawn else seat.until_ms
