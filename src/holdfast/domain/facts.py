"""Everything that can be announced. A fact is written in the transaction that made it true."""

from datetime import datetime
from typing import Any

import msgspec

from holdfast.domain.model import Event, Hold, HoldState, Millis, Order, TierShare, instant

HOLD_PLACED = "hold.placed"
HOLD_EXTENDED = "hold.extended"
HOLD_PAYING = "hold.paying"
HOLD_RELEASED = "hold.released"
HOLD_EXPIRED = "hold.expired"
ORDER_CONFIRMED = "order.confirmed"
ORDER_SETTLED = "order.settled"
ORDER_VOIDED = "order.voided"
ORDER_REFUNDED = "order.refunded"
ORDER_CANCELLED = "order.cancelled"
EVENT_CREATED = "event.created"
EVENT_CHANGED = "event.changed"


class UnitsData(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What the facts about holds and orders carry."""

    buyer: str
    seats: tuple[str, ...]
    pools: dict[str, int]
    amount: int
    currency: str
    hold: str | None
    order: str | None = None
    version: int | None = None
    expires_at: datetime | None = None
    settlement: str | None = None
    """What a payment that came late was settled with."""
    was: HoldState | None = None
    """The state of the hold before it ended: held or paying, and expired where a late payer bought
    what was announced as free. Nothing where no hold ended, and on facts of earlier versions."""
    tiers: dict[str, TierShare] | None = None
    """Of units that were sold or came back: how many of each tier, and for how much of `amount`."""


class EventData(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What the facts about events carry: the configuration, and units that came or went."""

    state: str
    version: int
    name: str
    changed: tuple[str, ...] = ()
    seats_added: tuple[str, ...] = ()
    seats_withdrawn: tuple[str, ...] = ()
    pools: dict[str, int] = {}
    """Change of each pool's capacity."""
    capacity: int | None = None
    """All units of the event, after the change. Not on facts of earlier versions."""
    currency: str | None = None


class Fact(msgspec.Struct, frozen=True, gc=False):
    type: str
    data: UnitsData | EventData


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A fact as the log has it: numbered without a gap, in order of commits."""

    event: str
    seq: int
    type: str
    at_ms: Millis
    data: dict[str, Any]  # whatever its version of the fact carried

    @property
    def at(self) -> datetime:
        return instant(self.at_ms)


def of_hold(type: str, hold: Hold, was: HoldState | None = None) -> Fact:
    data = UnitsData(
        buyer=hold.buyer,
        seats=hold.seats,
        pools=hold.pools,
        amount=hold.amount,
        currency=hold.currency,
        hold=hold.id,
        version=hold.version,
        expires_at=hold.expires_at,
        was=was,
    )
    return Fact(type, data)


def of_order(
    type: str,
    order: Order,
    settlement: str | None = None,
    was: HoldState | None = None,
    tiers: dict[str, TierShare] | None = None,
) -> Fact:
    data = UnitsData(
        buyer=order.buyer,
        seats=order.seats,
        pools=order.pools,
        amount=order.amount,
        currency=order.currency,
        hold=order.hold,
        order=order.id,
        settlement=settlement,
        was=was,
        tiers=tiers,
    )
    return Fact(type, data)


def of_event(type: str, event: Event, capacity: int, **details: Any) -> Fact:
    data = EventData(
        state=event.state,
        version=event.version,
        name=event.name,
        capacity=capacity,
        currency=event.currency,
        **details,
    )
    return Fact(type, data)
