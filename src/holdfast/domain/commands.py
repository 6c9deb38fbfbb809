"""Everything that can be asked.

`id` names the command, so that it can be sent again: what it made is made once. `digest` is a
fingerprint of what was asked, present when the caller chose the id, so that the same id with
another ask is noticed. `buyer` on a command that follows a hold is who asks; None means that the
caller vouches for it. `version` is the fence: the hold must still be that version.
"""

from typing import Any

import msgspec

from holdfast.domain.model import NOTHING_APART, Apart, Ask, OrderState, Pool, SeatPlan
from holdfast.domain.plan import EventPlan


class Command(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    id: str
    event: str
    digest: str = ""


class PlaceHold(Command, frozen=True, kw_only=True):
    hold: str
    buyer: str
    ask: Ask
    cap: int | None = None
    """A cap of the caller's, where the event has none."""
    paying: bool = False
    """Payment begins with it: for a hold that lived only in a gate until now."""
    keep_ms: int | None = None
    """How long until the soft deadline, where that is not the event's own length."""
    version: int = 1
    extensions: int = 0
    amount: int | None = None
    """Where such a hold has got to already, and what it costs."""
    apart: Apart = NOTHING_APART
    waited: tuple[str, ...] = ()
    """Seats that others had locked when this was tried before: this time they are waited for."""
    waits: int = 0


class ExtendHold(Command, frozen=True, kw_only=True):
    hold: str
    buyer: str | None = None
    version: int | None = None
    seconds: int | None = None


class ReleaseHold(Command, frozen=True, kw_only=True):
    hold: str
    buyer: str | None = None
    version: int | None = None


class PayHold(Command, frozen=True, kw_only=True):
    """Payment begins: from now on the hard deadline counts."""

    hold: str
    buyer: str | None = None
    version: int | None = None


class ConfirmHold(Command, frozen=True, kw_only=True):
    """Sell what a hold holds."""

    hold: str
    order: str
    buyer: str | None = None
    version: int | None = None
    payment: str | None = None


class Sell(Command, frozen=True, kw_only=True):
    """Sell without a prior hold in the authority; `hold` names one that lived only in a gate."""

    order: str
    buyer: str
    ask: Ask
    hold: str | None = None
    payment: str | None = None
    cap: int | None = None
    apart: Apart = NOTHING_APART
    waited: tuple[str, ...] = ()
    waits: int = 0


class OpenOrder(Command, frozen=True, kw_only=True):
    """Payment of a hold begins, and how it shall be paid is written down."""

    hold: str
    order: str
    method: str
    buyer: str | None = None
    version: int | None = None
    other_seats: bool = False
    driver: str = ""
    lease_ms: int = 0
    """How long the driver may be silent before others go on."""
    used_for: str = ""
    """Its id is a key that counts in all events, and this is a digest of what it is used for: used
    for something else before, it is refused, whichever event that was about."""


class SettleOrder(Command, frozen=True, kw_only=True):
    """The payment is authorized: sell, if there is still something to sell. `fence` is the order's
    version: whoever was overtaken by another process changes nothing."""

    order: str
    hold: str
    fence: int
    payment: str
    captured: bool = False
    """The provider has taken the money already."""
    lease_ms: int = 0
    late: bool = False
    """The hold is over: decide by the event's policy. For that more has to be loaded."""
    buyer: str = ""
    pools: dict[str, int] = {}
    other_seats: bool = False
    apart: Apart = NOTHING_APART


class StepOrder(Command, frozen=True, kw_only=True):
    """Writes down how the payment of an order goes on."""

    order: str
    fence: int
    state: OrderState | None = None
    payment: str | None = None
    due_in_ms: int | None = None
    """When the next step is due; None: there is none."""
    trouble: str | None = None
    changes: dict[str, Any] = {}  # fields of Checkout


class RecordCaptures(Command, frozen=True, kw_only=True):
    """The provider has taken the money of these orders: each with the version that it must be."""

    orders: tuple[tuple[str, int], ...]
    lease_ms: int = 0


class CancelOrder(Command, frozen=True, kw_only=True):
    """All of it, or the named units. What was paid for them is to be given back."""

    order: str
    seats: tuple[str, ...] = ()
    pools: dict[str, int] = {}
    fence: int | None = None
    trouble: str | None = None
    """Why a person has to look at it, if it is not a person who cancels."""


class ExpireHolds(Command, frozen=True, kw_only=True):
    """Announce holds whose deadline has passed. Their units are free already."""

    limit: int


class CreateEvent(Command, frozen=True, kw_only=True):
    plan: EventPlan


class ChangeEvent(Command, frozen=True, kw_only=True):
    """Open, pause, close or change: only the named fields."""

    changes: dict[str, str | int | bool | dict[str, int] | None]


class AddCapacity(Command, frozen=True, kw_only=True):
    """New seats, withdrawn seats brought back, new pools, or more of the pools there are."""

    seats: tuple[SeatPlan, ...] = ()
    pools: tuple[Pool, ...] = ()


class Withdraw(Command, frozen=True, kw_only=True):
    """Take unsold units off sale."""

    seats: tuple[str, ...] = ()
    pools: dict[str, int] = {}
    apart: Apart = NOTHING_APART
