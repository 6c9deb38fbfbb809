"""What travels over HTTP, in and out. The OpenAPI document is generated from these types, and the
code decodes and encodes with them: neither can say anything that the other does not."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from holdfast.brokers.webhooks.guard import URL_CHARS_MAX
from holdfast.brokers.webhooks.subscriptions import (
    DESCRIPTION_CHARS_MAX,
    EVENTS_MAX,
    FILTERS,
    KEEP_SECONDS,
    KEEP_SECONDS_MAX,
    SUBJECTS_MAX,
    State,
)
from holdfast.domain import limits, model
from holdfast.domain.cloudevents import CloudEvent
from holdfast.domain.model import (
    EventState,
    HoldState,
    LatePayment,
    Millis,
    OrderState,
    Ranking,
    SeatState,
    Settlement,
)
from holdfast.domain.payments import PaymentState
from holdfast.domain.views import Summary

PRINTABLE = {"pattern": r"^[^\p{C}\p{Z}]+( +[^\p{C}\p{Z}]+)*$"}
"""What faults.is_label asks for, in the words of JSON Schema, which Python's `re` does not know."""
WEB_ADDRESS = {
    "pattern": r"^https?://([A-Za-z0-9]{1}([A-Za-z0-9._-]*[A-Za-z0-9_])?\.?|\[[0-9A-Fa-f:.]+\])"
    r"(:[0-9]{1,5})?([/?][!-\"$-\[\]-~]*)?$"
}
"""What guard.URL asks for."""
ONCE = {"uniqueItems": True}
SEQUENCE_MAX = 10**18 - 1

Label = Annotated[
    str, Meta(min_length=1, max_length=limits.LABEL_CHARS_MAX, extra_json_schema=PRINTABLE)
]
ShortLabel = Annotated[str, Meta(min_length=1, max_length=40, extra_json_schema=PRINTABLE)]
Buyer = Annotated[
    str, Meta(min_length=1, max_length=limits.BUYER_CHARS_MAX, extra_json_schema=PRINTABLE)
]
Name = Annotated[
    str, Meta(min_length=1, max_length=limits.NAME_CHARS_MAX, extra_json_schema=PRINTABLE)
]
EventId = Annotated[str, Meta(pattern=f"^{limits.EVENT_ID.pattern}$")]
CallerId = Annotated[str, Meta(pattern=f"^{limits.CALLER_ID.pattern}$")]
PublicId = Annotated[str, Meta(pattern=f"^{limits.PUBLIC_ID.pattern}$")]
Money = Annotated[int, Meta(ge=0, le=limits.PRICE_MAX, description="In the minor unit: cents.")]
Count = Annotated[int, Meta(ge=0)]
Quantity = Annotated[int, Meta(ge=1, le=limits.POOL_QUANTITY_MAX)]
Coordinate = Annotated[float, Meta(gt=-1e9, lt=1e9)]
Rank = Annotated[int, Meta(ge=0, le=10**9)]
Instant = Annotated[datetime, Meta(tz=True)]
Flags = Literal["on", "off"]
Policy = Literal["authority", "two-layer", "gate"]


class Strict(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What comes in: a name that is not known is a typing mistake."""


class Out(msgspec.Struct):
    """What goes out: fields may be added to it in time."""


# Events


class SectionPlan(Strict):
    """A grid of seats, `{section}-{row}-{number}`, counted from 1."""

    id: ShortLabel
    tier: Label
    rows: Annotated[int, Meta(ge=1, le=10_000)]
    seats_per_row: Annotated[int, Meta(ge=1, le=10_000)]
    aisles: list[Annotated[int, Meta(ge=1, le=10_000)]] = []
    channel: Label | None = None
    accessible: bool = False
    companion: bool = False
    restricted_view: bool = False
    rank: Rank | None = None
    x: Coordinate = 0
    y: Coordinate | UnsetType = UNSET


class SeatPlan(Strict):
    id: Label
    number: Annotated[int, Meta(ge=0, le=1_000_000)]
    tier: Label
    section: Label = "main"
    row: Label | Annotated[int, Meta(ge=-(10**9), le=10**9)] = "1"
    channel: Label | None = None
    accessible: bool = False
    companion: bool = False
    restricted_view: bool = False
    rank: Rank | None = None
    x: Coordinate | UnsetType = UNSET
    y: Coordinate | UnsetType = UNSET


class PoolPlan(Strict):
    """Counted stock. Its tier is its id unless it says otherwise."""

    id: Label
    capacity: Annotated[int, Meta(ge=1, le=limits.POOL_CAPACITY_MAX)]
    tier: Label | UnsetType = UNSET
    channel: Label | None = None


Prices = Annotated[
    dict[Label, Money], Meta(max_length=limits.EVENT_TIERS_MAX, description="Of each tier.")
]
Pools = Annotated[list[PoolPlan], Meta(max_length=limits.EVENT_POOLS_MAX)]
HoldSeconds = Annotated[int, Meta(ge=1, le=limits.HOLD_SECONDS_MAX)]
GraceSeconds = Annotated[int, Meta(ge=0, le=limits.GRACE_SECONDS_MAX)]
Extensions = Annotated[int, Meta(ge=0, le=limits.EXTENSIONS_MAX)]
Cap = Annotated[int, Meta(ge=1, le=limits.BUYER_CAP_MAX)]


class NewEvent(Strict):
    """An event to be sold: its settings, and its units."""

    id: EventId
    name: Name | UnsetType = UNSET
    currency: Annotated[str, Meta(pattern="^[A-Z]{3}$")] = "EUR"
    state: EventState = EventState.ON_SALE
    hold_seconds: HoldSeconds = 480
    grace_seconds: GraceSeconds = 300
    max_extensions: Extensions = 1
    max_per_buyer: Cap | None = None
    prices: Prices = {}
    ranking: Ranking = Ranking.ROWS
    flash_sale: bool = False
    late_payment: LatePayment = LatePayment.SETTLE
    policy: Policy | None = None
    gate: bool = True
    waiting_room: bool = False
    sections: list[SectionPlan] = []
    seats: list[SeatPlan] = []
    pools: Pools = []


class Withdrawal(Strict):
    """Units to take off sale; they must be neither held nor sold."""

    seats: Annotated[list[Label], Meta(extra_json_schema=ONCE)] = []
    pools: Annotated[dict[Label, Quantity], Meta(max_length=limits.ASK_POOLS_MAX)] = {}


class EventChanges(Strict):
    """Only what is named changes. Units given here are added; `withdraw` takes some away."""

    state: EventState | UnsetType = UNSET
    name: Name | UnsetType = UNSET
    hold_seconds: HoldSeconds | UnsetType = UNSET
    grace_seconds: GraceSeconds | UnsetType = UNSET
    max_extensions: Extensions | UnsetType = UNSET
    max_per_buyer: Cap | UnsetType | None = UNSET
    prices: Prices | UnsetType = UNSET
    ranking: Ranking | UnsetType = UNSET
    flash_sale: bool | UnsetType = UNSET
    late_payment: LatePayment | UnsetType = UNSET
    policy: Policy | UnsetType | None = UNSET
    gate: bool | UnsetType = UNSET
    waiting_room: bool | UnsetType = UNSET
    sections: list[SectionPlan] | UnsetType = UNSET
    seats: list[SeatPlan] | UnsetType = UNSET
    pools: Pools | UnsetType = UNSET
    withdraw: Withdrawal | UnsetType = UNSET


class Event(Out):
    """An event and how its sale stands. `held` counts live holds only."""

    id: str
    name: str
    currency: str
    state: EventState
    capacity: Count
    available: Count
    held: Count
    sold: Count
    percent_sold: float
    revenue: int
    seq: Count
    hold_seconds: int
    grace_seconds: int
    max_extensions: int
    max_per_buyer: int | None
    prices: dict[str, int]
    ranking: Ranking
    flash_sale: bool
    late_payment: LatePayment
    policy: str | None
    gate: bool
    waiting_room: bool
    version: int


class Events(Out):
    events: list[Event]


class MapSeat(Out):
    id: str
    section: str
    row: str
    number: int
    tier: str
    x: float
    y: float
    state: SeatState
    accessible: bool = False
    """This and what follows is left out where it is not so."""
    companion: bool = False
    restricted_view: bool = False


class MapPool(Out):
    id: str
    capacity: Count
    available: Count
    tier: str


class SeatMap(Out):
    """All units as they were when the log had `seq` facts."""

    seq: Count
    seats: list[MapSeat]
    pools: list[MapPool]


# Holds


class Best(Strict):
    """The best seats there are."""

    quantity: Annotated[int, Meta(ge=1, le=limits.BEST_QUANTITY_MAX)]
    section: Label | None = None
    tier: Label | None = None
    together: bool = True
    accessible: bool = False


class Ask(Strict):
    """Any mix, all or nothing."""

    buyer: Buyer | None = None
    id: CallerId | None = None
    seats: Annotated[list[Label], Meta(extra_json_schema=ONCE)] = []
    best: Annotated[list[Best], Meta(max_length=limits.ASK_BEST_MAX)] = []
    pools: Annotated[dict[Label, Quantity], Meta(max_length=limits.ASK_POOLS_MAX)] = {}
    channels: Annotated[
        list[Label], Meta(max_length=limits.ASK_CHANNELS_MAX, extra_json_schema=ONCE)
    ] = []


class Hold(Out):
    """Units kept for one buyer until `expires_at`; once payment has begun, for the event's
    `grace_seconds` longer."""

    id: str
    event: str
    buyer: str
    state: HoldState
    seats: tuple[str, ...]
    pools: dict[str, int]
    amount: Count
    currency: str
    expires_at: Instant
    seconds_left: Count
    version: int
    token: str | UnsetType = UNSET
    order: str | UnsetType = UNSET


class Extension(Strict):
    seconds: Annotated[int, Meta(ge=1, le=limits.HOLD_SECONDS_MAX)] | None = None


# Orders


class PaymentMethod(Strict):
    method: Annotated[str, Meta(min_length=1, max_length=limits.PAYMENT_CHARS_MAX)]


class NewOrder(Strict):
    hold: PublicId
    payment: PaymentMethod | None = None
    accept_other_seats: bool = False
    """Whether equal or better seats will do, should the payment come too late for these."""


class Cancellation(Strict):
    """Which units of the order to take back; none named: all of them."""

    seats: Annotated[list[Label], Meta(min_length=1, extra_json_schema=ONCE)] | UnsetType = UNSET
    pools: (
        Annotated[dict[Label, Quantity], Meta(min_length=1, max_length=limits.ASK_POOLS_MAX)]
        | UnsetType
    ) = UNSET


class Payment(Out):
    provider: str
    id: str | None
    state: PaymentState


class Order(Out):
    id: str
    event: str
    state: OrderState
    hold: str | None
    buyer: str
    seats: tuple[str, ...]
    pools: dict[str, int]
    amount: Count
    currency: str
    payment: Payment | None
    created_at: Instant
    refunded: Count | UnsetType = UNSET
    """How much of what was paid was given back."""
    refund_due: Count | UnsetType = UNSET
    """How much is still to be given back."""
    settlement: Settlement | UnsetType = UNSET
    """What became of it when its payment was authorized: in time, or late."""
    next_action: dict[str, str] | UnsetType = UNSET
    """What the buyer must still do."""
    reason: str | UnsetType = UNSET
    """Why it was declined, or why there was nothing to sell."""
    trouble: str | UnsetType = UNSET
    """Why a person has to look at it; only for sellers and admins."""


class Orders(Out):
    orders: list[Order]


# Webhooks


class NewWebhook(Strict):
    """A subscription: which facts are to be sent to which URL."""

    url: Annotated[str, Meta(min_length=1, max_length=URL_CHARS_MAX, extra_json_schema=WEB_ADDRESS)]
    events: Annotated[
        list[Annotated[str, Meta(extra_json_schema={"enum": [*FILTERS]})]],
        Meta(min_length=1, max_length=EVENTS_MAX, description="Types of facts, or groups of them."),
    ]
    subjects: (
        Annotated[
            list[EventId],
            Meta(min_length=1, max_length=SUBJECTS_MAX, description="Only of these events."),
        ]
        | None
    ) = None
    description: Annotated[str, Meta(max_length=DESCRIPTION_CHARS_MAX)] = ""


class WebhookFailure(Out):
    """Of what waits to be tried again, the last to fail. `next_try_at` null: now, or disabled."""

    fact: str
    reason: str
    at: Instant
    attempts: int
    next_try_at: Instant | None


class Webhook(Out):
    """`reason` says why it is disabled; `failing_since`, since when nothing was delivered."""

    id: str
    url: str
    events: list[str]
    subjects: list[str] | None
    description: str
    state: State
    reason: str | None
    failing_since: Instant | None
    last_failure: WebhookFailure | None
    created_at: Instant


class WebhookMade(Webhook):
    """Its `secret` signs what is sent, and is not shown again."""

    secret: str


class Webhooks(Out):
    webhooks: list[Webhook]


class Rotation(Strict):
    """How long the secret before it signs too."""

    keep_seconds: Annotated[int, Meta(ge=0, le=KEEP_SECONDS_MAX)] = KEEP_SECONDS


class RotatedSecret(Out):
    id: str
    secret: str
    previous_until: Instant


class Redelivery(Strict):
    event: EventId
    sequence: Annotated[int, Meta(ge=1, le=SEQUENCE_MAX)]


class Redelivered(Out):
    """`status` is what the receiver answered; null where he did not. `reason`: why it failed."""

    delivered: bool
    status: int | None
    reason: str | UnsetType = UNSET


# Buyers, the log, the system


class NewBuyer(Strict):
    buyer: Buyer | None = None


class BuyerMade(Out):
    """`token` is sent as Buyer-Token by whoever calls with a public key."""

    buyer: str
    token: str


class LogPage(Out):
    facts: list[CloudEvent]
    next: Count


class MendedGate(Out):
    """What the gate of one event did not have as the authority has it. It was mended."""

    event: str
    found: Count
    """All differences."""
    missing: Count
    """Holds and orders that were in the authority and not in the gate."""
    orphans: Count
    """Those that were in the gate and not in the authority."""
    stock: bool
    """Whether what there is to sell of pools, or the event's version, differed."""
    counters: Count
    """Counts that did not follow from what was there."""
    broken: bool
    """Whether what the gate had could not be read at all."""
    names: list[str]
    """The first of the holds and orders."""


class Reconciliation(Out):
    """A comparison of the gate with the authority, in all events that have one before them."""

    at: Instant
    took_ms: Count
    events: Count
    """How many were compared."""
    found: Count
    """How many differences there were."""
    mended: list[MendedGate]
    """The first of the events in which something differed."""
    failed: dict[str, str]
    """The first of the events that could not be compared, and why not."""


class System(Out):
    """The deployment as this process sees it."""

    version: str
    store: str
    gate: str
    gate_state: str
    policy: str
    workers: int
    broker: str
    lags: dict[str, int]
    drift: dict[str, int]
    """Of each event the differences that the last reconciliation found."""
    reconciled: Reconciliation | None = None
    """The last reconciliation, whichever process did it; only with a gate."""
    mended: Reconciliation | None = None
    """The last one that had something to mend."""


class SystemChanges(Strict):
    gate: Flags


class Health(Out):
    status: Literal["ok"]


class Fault(Out):
    path: str
    problem: str


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """RFC 9457. `reason` is a stable word; what comes after it is there where it speaks of it."""

    type: str
    title: str
    status: int
    detail: str
    reason: str
    seats: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    available: int | None = None
    cap: int | None = None
    first: int | None = None
    order: str | None = None
    faults: tuple[Fault, ...] = ()


def _any_of(**least: str) -> dict[str, Any]:
    """At least one of these is there, and is not empty."""
    return {
        "anyOf": [
            {"required": [name], "properties": {name: {keyword: 1}}}
            for name, keyword in least.items()
        ]
    }


WHOLE: dict[type, dict[str, Any]] = {
    Ask: _any_of(seats="minItems", best="minItems", pools="minProperties"),
    NewEvent: _any_of(sections="minItems", seats="minItems", pools="minItems"),
    Withdrawal: _any_of(seats="minItems", pools="minProperties"),
    EventChanges: {"minProperties": 1},
}
"""What is true of a body as a whole, and no field of it can say."""


# From the domain's values


def event(summary: Summary) -> Event:
    config = summary.event
    return Event(
        id=config.id,
        name=config.name,
        currency=config.currency,
        state=config.state,
        capacity=summary.capacity,
        available=summary.available,
        held=summary.held,
        sold=summary.sold,
        percent_sold=summary.percent_sold,
        revenue=summary.revenue,
        seq=summary.seq,
        hold_seconds=config.hold_seconds,
        grace_seconds=config.grace_seconds,
        max_extensions=config.max_extensions,
        max_per_buyer=config.max_per_buyer,
        prices=config.prices,
        ranking=config.ranking,
        flash_sale=config.flash_sale,
        late_payment=config.late_payment,
        policy=config.policy,
        gate=config.gate,
        waiting_room=config.waiting_room,
        version=config.version,
    )


def hold(hold: model.Hold, now_ms: Millis, token: str | UnsetType = UNSET) -> Hold:
    left_ms = hold.soft_ms - now_ms if hold.open else 0
    return Hold(
        id=hold.id,
        event=hold.event,
        buyer=hold.buyer,
        state=hold.state,
        seats=hold.seats,
        pools=hold.pools,
        amount=hold.amount,
        currency=hold.currency,
        expires_at=hold.expires_at,
        seconds_left=max(left_ms, 0) // 1000,
        version=hold.version,
        token=token,
        order=hold.order if hold.order is not None else UNSET,
    )


def order(order: model.Order, *, first: bool = False, inside: bool = False) -> Order:
    """`first`: as it was when it was sold, for whoever asks again. `inside`: for the shop."""
    checkout = order.checkout
    if first:
        seats, pools, amount = checkout.bought or (order.seats, order.pools, order.amount)
        sold = OrderState.CONFIRMED
        order = replace(order, state=sold, seats=seats, pools=pools, amount=amount)
        taken = PaymentState.AUTHORIZED if checkout.promised else PaymentState.CAPTURED
        if checkout.method:
            checkout = replace(checkout, payment=taken)
    # That the money was taken is told by the payment.
    state = OrderState.CONFIRMED if order.state is OrderState.CAPTURED else order.state
    return Order(
        id=order.id,
        event=order.event,
        state=state,
        hold=order.hold,
        buyer=order.buyer,
        seats=order.seats,
        pools=order.pools,
        amount=order.amount,
        currency=order.currency,
        payment=_payment(order, checkout),
        created_at=order.created_at,
        refunded=UNSET if first else checkout.refunded or UNSET,
        refund_due=UNSET if first else checkout.refund_due or UNSET,
        settlement=checkout.settlement or UNSET,
        next_action=checkout.next_action or UNSET,
        reason=checkout.reason or UNSET,
        trouble=order.trouble if inside and order.trouble else UNSET,
    )


def _payment(order: model.Order, checkout: model.Checkout) -> Payment | None:
    if checkout.method:
        id = order.payment.partition(":")[2] if order.payment else None
        return Payment(provider=checkout.provider, id=id, state=checkout.payment)
    if order.payment is None:
        return None
    # Paid for elsewhere: whoever sold it said so.
    provider, colon, id = order.payment.partition(":")
    state = PaymentState.CAPTURED if order.sold else PaymentState.REFUNDED
    return Payment(provider=provider if colon else "external", id=id or provider, state=state)
