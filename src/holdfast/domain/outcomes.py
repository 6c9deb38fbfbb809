"""Every answer, and every reason to say no. A refusal is a value, never an exception."""

from enum import StrEnum

import msgspec

from holdfast.domain.model import Event, Hold, Millis, Order


class Reason(StrEnum):
    TAKEN = "taken"
    SOLD_OUT = "sold_out"
    INSUFFICIENT = "insufficient"
    NOT_TOGETHER = "not_together"
    BUYER_CAP = "buyer_cap"
    NOT_ON_SALE = "not_on_sale"
    QUEUE_REQUIRED = "queue_required"
    UNKNOWN_EVENT = "unknown_event"
    UNKNOWN_UNIT = "unknown_unit"
    UNKNOWN_HOLD = "unknown_hold"
    UNKNOWN_ORDER = "unknown_order"
    EXISTS = "exists"
    NOT_YOURS = "not_yours"
    STALE = "stale"
    EXPIRED = "expired"
    RELEASED = "released"
    CONFIRMED = "confirmed"
    CANCELLED = "cancelled"
    NOT_SOLD = "not_sold"
    LATE = "late"
    EXTENSION_LIMIT = "extension_limit"
    PAYMENT_REQUIRED = "payment_required"
    PAYMENT_USED = "payment_used"
    IDEMPOTENCY_MISMATCH = "idempotency_mismatch"
    TOO_MUCH = "too_much"


EXPLAINED = {
    Reason.TAKEN: "these seats are taken: {units}",
    Reason.SOLD_OUT: "sold out: {units}",
    Reason.INSUFFICIENT: "only {available} left: {units}",
    Reason.NOT_TOGETHER: "not enough seats side by side; {available} are free in all",
    Reason.BUYER_CAP: "one buyer may have {cap} units of this event at a time",
    Reason.NOT_ON_SALE: "the event is not on sale: {value}",
    Reason.QUEUE_REQUIRED: "join the queue first",
    Reason.UNKNOWN_EVENT: "there is no event {value!r}",
    Reason.UNKNOWN_UNIT: "there is no such unit: {units}",
    Reason.UNKNOWN_HOLD: "there is no hold {value!r}",
    Reason.UNKNOWN_ORDER: "there is no order {value!r}",
    Reason.EXISTS: "there is one already: {value}",
    Reason.NOT_YOURS: "the hold {value!r} is another buyer's",
    Reason.STALE: "it has changed meanwhile: it is version {value} now",
    Reason.EXPIRED: "the hold {value!r} has expired",
    Reason.RELEASED: "the hold {value!r} was released",
    Reason.CONFIRMED: "the hold {value!r} was sold already",
    Reason.CANCELLED: "the order {value!r} was cancelled",
    Reason.NOT_SOLD: "the order {value!r} has nothing that could be given back",
    Reason.LATE: "the hold was over before its payment was authorized",
    Reason.EXTENSION_LIMIT: "extended as often as a hold of this event may be: {cap}",
    Reason.PAYMENT_REQUIRED: "this order costs something: say how it is paid",
    Reason.PAYMENT_USED: "the payment {value!r} has paid for another order",
    Reason.IDEMPOTENCY_MISMATCH: "the id {value!r} was used for something else",
    Reason.TOO_MUCH: "more than an event may have or be worth: {value}",
}


class Refused(msgspec.Struct, frozen=True, gc=False, tag="refused"):
    """No, and nothing changed. Only the fields that the reason speaks of are set."""

    reason: Reason
    value: str | None = None
    seats: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    available: int | None = None
    cap: int | None = None

    @property
    def detail(self) -> str:
        """One line for a person."""
        units = ", ".join((*self.seats, *self.pools)) or self.value or "the seats asked for"
        return EXPLAINED[self.reason].format(
            units=units, available=self.available, cap=self.cap, value=self.value
        )


class Placed(msgspec.Struct, frozen=True, gc=False, tag="placed"):
    hold: Hold


class Extended(msgspec.Struct, frozen=True, gc=False, tag="extended"):
    hold: Hold


class Released(msgspec.Struct, frozen=True, gc=False, tag="released"):
    hold: Hold


class Paying(msgspec.Struct, frozen=True, gc=False, tag="paying"):
    hold: Hold


class Confirmed(msgspec.Struct, frozen=True, gc=False, tag="confirmed"):
    order: Order


class Opened(msgspec.Struct, frozen=True, gc=False, tag="opened"):
    """An order that is being paid for, and until when its hold waits for that."""

    order: Order
    until_ms: Millis


class OpenedBefore(msgspec.Struct, frozen=True, gc=False, tag="opened_before"):
    """What is remembered of an order that was opened. How it stands is looked up: whoever asks
    again wants to know that."""

    order: str
    until_ms: Millis


class Settled(msgspec.Struct, frozen=True, gc=False, tag="settled"):
    """The payment came too late for anything: it is to be voided."""

    order: Order


class Stepped(msgspec.Struct, frozen=True, gc=False, tag="stepped"):
    order: Order


class CapturesRecorded(msgspec.Struct, frozen=True, gc=False, tag="captures_recorded"):
    """Of the others that were named, somebody has gone on with each."""

    orders: tuple[Order, ...]


class Cancelled(msgspec.Struct, frozen=True, gc=False, tag="cancelled"):
    order: Order


class Expired(msgspec.Struct, frozen=True, gc=False, tag="expired"):
    """How many holds were announced; as many as the limit means that there may be more."""

    count: int


class Created(msgspec.Struct, frozen=True, gc=False, tag="created"):
    event: Event


class Changed(msgspec.Struct, frozen=True, gc=False, tag="changed"):
    event: Event


Outcome = (
    Placed
    | Extended
    | Released
    | Paying
    | Confirmed
    | Opened
    | OpenedBefore
    | Settled
    | Stepped
    | CapturesRecorded
    | Cancelled
    | Expired
    | Created
    | Changed
    | Refused
)


class Holder(msgspec.Struct, frozen=True, gc=False):
    """Why a seat is taken: by whom, None if it is sold, and until when."""

    seat: str
    buyer: str | None
    until_ms: Millis


class Answer(msgspec.Struct, frozen=True, gc=False):
    """An outcome, and whether it is the first answer given again."""

    outcome: Outcome
    replayed: bool = False
    now_ms: Millis = 0
    """The authority's time when it was given."""
    decided_ms: Millis = 0
    """The authority's time when it was first decided; differs from now_ms in a replay."""
    holders: tuple["Holder", ...] = ()
    """Who has the seats because of which it was refused."""
    sold_out: str | None = None
    """The pool because of which it was refused, if all of it is sold: no deadline opens it."""
    as_of: int | None = None
    """Of a refusal: a number that the log had reached when the rows were read, or before. Whatever
    has changed since has a higher one."""
    waiting_for: tuple[str, ...] = ()
    """Set, this is no answer yet: others had locked these seats, so the refusal may be wrong. The
    command has to be tried again, and to wait for them."""
