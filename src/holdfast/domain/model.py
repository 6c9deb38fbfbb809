"""The nouns: events, seats, pools, holds, orders. Plain frozen values.

Every instant is an integer number of milliseconds since 1970 (UTC), read from the authority's
clock and passed in. A deadline is the first millisecond at which something is over: at `now ==
deadline` a hold is already dead.

Values that are made of older values and never change cannot form rings: Python need not look for
any among them (`gc=False`; measured: 1 us of 38 for a hold over HTTP).
"""

from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache

import msgspec
from msgspec.structs import replace

from holdfast.domain.payments import PaymentState

Millis = int

FOREVER_MS: Millis = 2**62


@lru_cache(maxsize=256)  # what is decided in one batch has one deadline, told several times
def instant(at_ms: Millis) -> datetime:
    """A moment of the authority's clock as a datetime in UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC)


class EventState(StrEnum):
    ON_SALE = "on_sale"
    PAUSED = "paused"
    CLOSED = "closed"


class HoldState(StrEnum):
    HELD = "held"
    PAYING = "paying"
    CONFIRMED = "confirmed"
    RELEASED = "released"
    EXPIRED = "expired"


class OrderState(StrEnum):
    PENDING = "pending"
    AUTHORIZED = "authorized"
    CONFIRMED = "confirmed"
    CAPTURED = "captured"
    DECLINED = "declined"
    VOIDED = "voided"
    CANCELLED = "cancelled"
    REFUNDED = "refunded"


class SeatState(StrEnum):
    AVAILABLE = "available"
    HELD = "held"
    SOLD = "sold"


class Ranking(StrEnum):
    """What "best" means in an event."""

    ROWS = "rows"  # front row first, then nearest to the middle of the row
    CENTRE = "centre"  # nearest to the middle of the front
    RANK = "rank"  # the rank written on each seat, lowest first


class LatePayment(StrEnum):
    """What to give for a payment that was authorized when its hold was over."""

    SETTLE = "settle"  # the same units, else equal or better seats if allowed, else nothing
    SAME_UNITS = "same_units"  # the same units or nothing
    VOID = "void"  # nothing


class Event(msgspec.Struct, frozen=True, gc=False):
    """An event's configuration. `version` grows with every change of it."""

    id: str
    name: str
    currency: str
    state: EventState
    hold_seconds: int
    grace_seconds: int
    max_extensions: int
    max_per_buyer: int | None
    prices: dict[str, int]
    ranking: Ranking = Ranking.ROWS
    flash_sale: bool = False
    late_payment: LatePayment = LatePayment.SETTLE
    policy: str | None = None
    waiting_room: bool = False
    version: int = 1
    layout: int = 1
    """Grows when seats are added or withdrawn, so that a house built from them is known stale."""
    gate: bool = True
    """Whether the gate, where there is one, stands before this event."""
    earlier_prices: tuple[tuple[Millis, dict[str, int]], ...] = ()
    """Prices that counted until then, oldest first: what was sold at them is refunded at them."""

    def prices_at(self, at_ms: Millis) -> dict[str, int]:
        """The prices that counted then."""
        return next((prices for until, prices in self.earlier_prices if at_ms < until), self.prices)


class SeatPlan(msgspec.Struct, frozen=True, gc=False):
    """What never changes about a seat: where it is and whom it is for."""

    id: str
    section: str
    row: str
    number: int
    tier: str
    x: float
    y: float
    rank: int | None = None
    accessible: bool = False
    companion: bool = False
    restricted_view: bool = False
    channel: str | None = None


class Seat(msgspec.Struct, frozen=True, gc=False):
    """What a decision needs of a seat: who has it and until when."""

    id: str
    tier: str
    channel: str | None = None
    hold: str | None = None
    until_ms: Millis = 0
    order: str | None = None
    withdrawn: bool = False

    def free(self, now: Millis) -> bool:
        """A seat whose hold is past its deadline is free: no sweeper has to come first."""
        return self.order is None and self.until_ms <= now and not self.withdrawn

    def state(self, now: Millis) -> SeatState:
        if self.order is not None or self.withdrawn:
            return SeatState.SOLD
        return SeatState.AVAILABLE if self.until_ms <= now else SeatState.HELD


class Pool(msgspec.Struct, frozen=True, gc=False):
    """Counted stock. `held` counts every claim still written, live or lapsed."""

    id: str
    tier: str
    capacity: int
    held: int = 0
    sold: int = 0
    channel: str | None = None

    @property
    def free(self) -> int:
        return self.capacity - self.held - self.sold


class Claim(msgspec.Struct, frozen=True, gc=False):
    """A hold's share of a pool; gone when its quantity is zero."""

    pool: str
    hold: str
    quantity: int
    until_ms: Millis

    @property
    def id(self) -> str:
        return f"{self.pool}\n{self.hold}"


class Hold(msgspec.Struct, frozen=True, gc=False):
    """Units kept for one buyer until a deadline. Its units never change."""

    id: str
    event: str
    buyer: str
    state: HoldState
    seats: tuple[str, ...]
    pools: dict[str, int]
    amount: int
    currency: str
    placed_ms: Millis
    soft_ms: Millis
    hard_ms: Millis
    extensions: int = 0
    version: int = 1
    order: str | None = None

    @property
    def until_ms(self) -> Millis:
        """The deadline that counts: the soft one, or the hard one once payment has begun."""
        return self.hard_ms if self.state is HoldState.PAYING else self.soft_ms

    @property
    def units(self) -> int:
        return len(self.seats) + sum(self.pools.values())

    @property
    def expires_at(self) -> datetime:
        """The soft deadline, which the buyer is shown."""
        return instant(self.soft_ms)

    @property
    def open(self) -> bool:
        """Neither sold, given back nor announced as expired; its deadline may have passed."""
        return self.state is HoldState.HELD or self.state is HoldState.PAYING

    def live(self, now: Millis) -> bool:
        return self.open and self.until_ms > now

    def seen(self, now: Millis) -> "Hold":
        """As it stands: past its deadline it is expired, announced or not."""
        over = self.open and self.until_ms <= now
        return replace(self, state=HoldState.EXPIRED) if over else self


class Settlement(StrEnum):
    """What became of an order whose payment was authorized."""

    IN_TIME = "in_time"  # sold as held
    SAME_UNITS = "same_units"  # late, but nobody had taken them
    OTHER_SEATS = "other_seats"  # late; equal or better seats together, which the buyer allowed
    VOIDED = "voided"  # late and nothing to give: what was set aside is free again
    REFUNDED = "refunded"  # the same, after the money had been taken


class Refund(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Money to be given back; `name` tells the refunds of one order apart."""

    name: str
    amount: int
    at_ms: Millis = 0
    done: bool = False


class TierShare(msgspec.Struct, frozen=True, gc=False):
    """Units of one tier in an order, and their part of what was paid."""

    units: int
    amount: int


class Checkout(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """How the payment of an order goes on: written down before each step is tried, so that
    another process can go on where one stopped."""

    method: str = ""
    """As the buyer said it: sandbox:ok, stripe:pm_card_visa. Nothing for an order that is paid
    for elsewhere, or is free."""
    payment: PaymentState = PaymentState.PENDING
    other_seats: bool = False
    """Whether the buyer takes equal or better seats, should his be gone."""
    settlement: Settlement | None = None
    driver: str = ""
    """The process that is at it, until the order's `due_ms`."""
    last: str = ""
    """The command that changed it last: after a lost reply it is known as done."""
    tried: int = 0
    """How often the step at hand has failed, and since when."""
    since_ms: Millis = 0
    reason: str | None = None
    """Why the payment was declined, or the sale refused."""
    promised: bool = False
    """The buyer was told that it is his before the money was taken."""
    next_action: dict[str, str] | None = None
    refunds: tuple[Refund, ...] = ()
    bought: tuple[tuple[str, ...], dict[str, int], int] | None = None
    """Seats, pools and amount as they were sold, where part of it was given back since."""
    tiers: dict[str, TierShare] = {}
    """What each tier had of it as it was sold; nothing while it is all of one tier."""
    priced_ms: Millis = 0
    """Since when the prices counted that it was sold at."""

    @property
    def provider(self) -> str:
        """Who moves its money; nothing where nobody does."""
        return self.method.partition(":")[0]

    @property
    def refunded(self) -> int:
        """How much was given back."""
        return sum(refund.amount for refund in self.refunds if refund.done)

    @property
    def refund_due(self) -> int:
        """How much is still to be given back."""
        return sum(refund.amount for refund in self.refunds if not refund.done)


NO_CHECKOUT = Checkout()


class Order(msgspec.Struct, frozen=True, gc=False):
    """Units sold to one buyer, or being paid for."""

    id: str
    event: str
    buyer: str
    state: OrderState
    seats: tuple[str, ...]
    pools: dict[str, int]
    amount: int
    currency: str
    created_ms: Millis
    hold: str | None = None
    payment: str | None = None
    """The provider's name and its id of the payment: sandbox:1f0c..."""
    version: int = 1
    due_ms: Millis | None = None
    """When the next step has to be taken, by whoever comes; None: there is nothing to do."""
    trouble: str | None = None
    """Why a person has to look at it."""
    checkout: Checkout = NO_CHECKOUT

    @property
    def units(self) -> int:
        return len(self.seats) + sum(self.pools.values())

    @property
    def created_at(self) -> datetime:
        return instant(self.created_ms)

    @property
    def sold(self) -> bool:
        """Whether the order has its units."""
        return self.state is OrderState.CONFIRMED or self.state is OrderState.CAPTURED


class Best(msgspec.Struct, frozen=True, gc=False):
    """An ask for the best seats there are."""

    quantity: int
    section: str | None = None
    tier: str | None = None
    together: bool = True
    accessible: bool = False


class Apart(msgspec.Struct, frozen=True, gc=False):
    """What a gate keeps as courtesies, of which the authority's rows know nothing, and how many
    units of it are the asking buyer's own."""

    seats: frozenset[str] = frozenset()
    pools: dict[str, int] = {}
    units: int = 0


NOTHING_APART = Apart()


class Ask(msgspec.Struct, frozen=True, gc=False):
    """What a buyer wants: any mix, all or nothing."""

    seats: tuple[str, ...] = ()
    best: tuple[Best, ...] = ()
    pools: dict[str, int] = {}
    channels: tuple[str, ...] = ()

    @property
    def units(self) -> int:
        best = sum(each.quantity for each in self.best)
        return len(self.seats) + best + sum(self.pools.values())
