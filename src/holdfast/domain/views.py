"""What can be read: plain values, each from one snapshot of the authority."""

import msgspec
from msgspec.structs import replace

from holdfast.domain.model import Claim, Event, Hold, Millis, Order, Pool, Seat, SeatState


class Summary(msgspec.Struct, frozen=True):
    """An event and how its sale stands. `held` counts live holds only."""

    event: Event
    seq: int
    capacity: int
    held: int
    sold: int
    revenue: int

    @property
    def available(self) -> int:
        return self.capacity - self.held - self.sold

    @property
    def percent_sold(self) -> float:
        return round(100 * self.sold / self.capacity, 2) if self.capacity else 0.0


class SeatView(msgspec.Struct, frozen=True):
    id: str
    section: str
    row: str
    number: int
    tier: str
    x: float
    y: float
    state: SeatState
    channel: str | None = None
    accessible: bool = False
    companion: bool = False
    restricted_view: bool = False


class PoolView(msgspec.Struct, frozen=True):
    id: str
    capacity: int
    available: int
    tier: str
    channel: str | None = None


class SeatMap(msgspec.Struct, frozen=True):
    """All units as they were when the log had `seq` facts."""

    seq: int
    seats: list[SeatView]
    pools: list[PoolView]

    def seen_by(self, channels: set[str | None]) -> "SeatMap":
        """To whoever may not have them, the units of a channel look sold."""
        return SeatMap(
            self.seq,
            [s if s.channel in channels else replace(s, state=SeatState.SOLD) for s in self.seats],
            [p if p.channel in channels else replace(p, available=0) for p in self.pools],
        )


class Statuses(msgspec.Struct, frozen=True):
    """Which seats are not simply available, and the pools, at one moment."""

    event: Event
    """Its configuration; `layout` tells whether a plan of seats that is known is still current."""
    seq: int
    now_ms: Millis
    held: list[str]
    """Seats of live holds, in no order."""
    sold: list[str]
    """In no order. Withdrawn seats are in neither: they are not on the map at all."""
    pools: list[PoolView]


DOCUMENT_KIND_BYTES_MAX = 64
DOCUMENT_ID_BYTES_MAX = 256
DOCUMENT_BODY_BYTES_MAX = 1_048_576


class Document(msgspec.Struct, frozen=True):
    """Something small that a part of the program keeps at the authority, beside the events: it
    alone knows what its kind of documents says."""

    kind: str
    id: str
    version: int
    """1 when it is new, and one more each time it is replaced."""
    body: str
    """JSON text of the owner's own making."""


CURSOR_FOLLOWER_BYTES_MAX = 256


class Cursor(msgspec.Struct, frozen=True):
    """How far a follower has come with the log of an event."""

    follower: str
    event: str
    seq: int
    """The last fact that it is done with."""
    fence: int
    """Of whoever moved it last; one with a lower fence moves it no more."""
    moved_ms: Millis


class Move(msgspec.Struct, frozen=True):
    """A step of a follower's cursor. One that stays where it is only sets the fence."""

    event: str
    was: int
    seq: int
    fence: int


class Census(msgspec.Struct, frozen=True):
    """Every row of an event, as the auditor wants it."""

    event: Event
    now: Millis
    version: int
    """Of the event, by its counter."""
    seq: int
    capacity: int
    sold: int
    revenue: int
    seats: list[Seat]
    pools: list[Pool]
    claims: list[Claim]
    holds: list[Hold]
    orders: list[Order]
    sold_seats: dict[str, str]
    """Seat to order: the backstop's rows."""
    deadlines: dict[str, Millis]
    """Of the holds that the store counts as open: what summaries, caps and upkeep go by."""
    plans: dict[str, tuple[str, str | None]]
    """Tier and channel of each seat by its plan."""
