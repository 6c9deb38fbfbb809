"""Everything that can be asked.

`id` names the command, so that it can be sent again: what it made is made once. `digest` is a
fingerprint of what was asked, present when the caller chose the id, so that the same id with
another ask is noticed. `buyer` on a command that follows a hold is who asks; None means that the
caller vouches for it. `version` is the fence: the hold must still be that version.
"""

import msgspec

from holdfast.domain.model import NOTHING_APART, Apart, Ask, Pool, SeatPlan
from holdfast.domain.plan import EventPlan


class Command(msgspec.Struct, frozen=True, kw_only=True):
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


class CancelOrder(Command, frozen=True, kw_only=True):
    order: str


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
