"""What comes back over HTTP. Fields that a newer service adds are passed over; states and reasons
are words, for it may add some of those too."""

from datetime import datetime
from typing import Any

import msgspec


class Event(msgspec.Struct, frozen=True):
    """An event and how its sale stands. `held` counts live holds only."""

    id: str
    name: str
    currency: str
    state: str
    capacity: int
    available: int
    held: int
    sold: int
    percent_sold: float
    revenue: int
    seq: int
    hold_seconds: int = 0
    grace_seconds: int = 0
    max_extensions: int = 0
    max_per_buyer: int | None = None
    prices: dict[str, int] = {}
    ranking: str = ""
    flash_sale: bool = False
    late_payment: str = "settle"
    policy: str | None = None
    gate: bool = True
    waiting_room: bool = False
    version: int = 1


class Seat(msgspec.Struct, frozen=True):
    id: str
    section: str
    row: str
    number: int
    tier: str
    x: float
    y: float
    state: str
    accessible: bool = False
    companion: bool = False
    restricted_view: bool = False


class Pool(msgspec.Struct, frozen=True):
    id: str
    capacity: int
    available: int
    tier: str = ""


class SeatMap(msgspec.Struct, frozen=True):
    """All units as they were when the log had `seq` facts."""

    seq: int
    seats: list[Seat]
    pools: list[Pool]


class TierSales(msgspec.Struct, frozen=True):
    """Units sold and what they brought, less what came back."""

    units: int
    revenue: int


class HourSales(msgspec.Struct, frozen=True):
    hour: datetime
    tiers: dict[str, TierSales]


class Booking(msgspec.Struct, frozen=True):
    """Of a large one the first seats and pools; `units` counts all."""

    time: datetime
    seats: tuple[str, ...]
    pools: dict[str, int]
    amount: int
    units: int = 0


class Stats(msgspec.Struct, frozen=True):
    """How a sale has gone, after `seq` facts."""

    event: str
    seq: int
    capacity: int
    sold: int
    percent_sold: float
    revenue: int
    currency: str
    revenue_by_tier: dict[str, TierSales]
    revenue_by_hour: list[HourSales]
    holds: dict[str, int]
    """How many are held, paying, confirmed, released, expired."""
    conversion: float
    abandonment: float
    velocity: dict[str, int]
    """Units sold: last_minute, last_5_minutes, last_hour."""
    recent: list[Booking]
    """The latest first."""
    revenue_earlier: dict[str, TierSales] = {}
    """Before the first of these hours."""
    cancellations: dict[str, int] = {}
    refunds: dict[str, int] = {}


class Hold(msgspec.Struct, frozen=True):
    """Units kept for one buyer until `expires_at`. `token` comes with a new hold only."""

    id: str
    event: str
    buyer: str
    state: str
    seats: tuple[str, ...]
    pools: dict[str, int]
    amount: int
    currency: str
    expires_at: datetime
    seconds_left: int
    version: int
    token: str | None = None
    order: str | None = None


class Payment(msgspec.Struct, frozen=True):
    provider: str
    id: str | None
    """The provider's own, once he has told it."""
    state: str


class Order(msgspec.Struct, frozen=True):
    """Units sold to one buyer, or being paid for."""

    id: str
    event: str
    state: str
    buyer: str
    seats: tuple[str, ...]
    pools: dict[str, int]
    amount: int
    currency: str
    created_at: datetime
    hold: str | None = None
    payment: Payment | None = None
    next_action: Any = None
    """What the buyer must still do, of a pending order, in the words of its payment provider."""
    settlement: str | None = None
    """What became of it when its payment was authorized: in_time, same_units, other_seats..."""
    refunded: int = 0
    """How much of what was paid was given back."""
    reason: str | None = None
    """Why it was declined, or why there was nothing to sell."""
    trouble: str | None = None
    """Why a person has to look at it."""


class Buyer(msgspec.Struct, frozen=True):
    buyer: str
    token: str


class Fact(msgspec.Struct, frozen=True):
    """A CloudEvent. `sequence` is its number on the event's log."""

    id: str
    type: str
    subject: str
    sequence: int
    time: datetime
    data: dict[str, Any]


class LogPage(msgspec.Struct, frozen=True):
    facts: list[Fact]
    next: int


class MendedGate(msgspec.Struct, frozen=True):
    """What differed in one event."""

    event: str
    found: int
    missing: int = 0
    orphans: int = 0
    stock: bool = False
    counters: int = 0
    broken: bool = False
    names: tuple[str, ...] = ()


class Reconciliation(msgspec.Struct, frozen=True):
    """What a comparison of the gate with the authority came to."""

    at: datetime
    took_ms: int
    events: int
    found: int
    mended: tuple[MendedGate, ...] = ()
    failed: dict[str, str] = {}


class System(msgspec.Struct, frozen=True):
    version: str
    store: str
    gate: str
    policy: str
    gate_state: str = "none"
    workers: int = 1
    broker: str = "none"
    lags: dict[str, Any] = {}
    drift: dict[str, Any] = {}
    reconciled: Reconciliation | None = None
    mended: Reconciliation | None = None
    """The last one that had something to mend."""


# Outcomes. `replayed`: it is the first answer given again.


class Placed(msgspec.Struct, frozen=True):
    hold: Hold
    replayed: bool = False


class Extended(msgspec.Struct, frozen=True):
    hold: Hold
    replayed: bool = False


class Paying(msgspec.Struct, frozen=True):
    hold: Hold


class Released(msgspec.Struct, frozen=True):
    id: str
    """The hold's."""


class Confirmed(msgspec.Struct, frozen=True):
    order: Order
    replayed: bool = False


class Pending(msgspec.Struct, frozen=True):
    """Not sold yet: the buyer must still do what `order.next_action` says, or, where there is none,
    the payment takes longer than he was kept waiting. It goes on by itself: look again."""

    order: Order
    replayed: bool = False


class Cancelled(msgspec.Struct, frozen=True):
    """What was asked for came back. Of a part, the order is what is left."""

    order: Order


class Created(msgspec.Struct, frozen=True):
    event: Event
    replayed: bool = False


class Changed(msgspec.Struct, frozen=True):
    event: Event


class Refused(msgspec.Struct, frozen=True):
    """No, and nothing changed. `reason` is a stable word, `detail` a line for a person; the rest is
    set where the reason speaks of it."""

    reason: str
    detail: str = ""
    status: int = 409
    seats: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    available: int | None = None
    cap: int | None = None
    first: int | None = None


# Live frames


class Snapshot(msgspec.Struct, frozen=True):
    """The seat map, as it was when the log had `seq` facts: forget what came before."""

    seq: int
    seats: list[Seat] = []
    pools: list[Pool] = []


class Changes(msgspec.Struct, frozen=True, rename={"from_": "from"}):
    """What the facts from number `from_` to number `to` changed: seats with their states, and what
    is available now of pools."""

    from_: int
    to: int
    changes: list[tuple[str, str]]
    pools: dict[str, int] = {}
