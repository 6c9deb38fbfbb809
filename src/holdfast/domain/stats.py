"""How a sale stands, folded from its log: a pure function of the facts and their order.

Whoever folds the same facts has the same `Stats`, byte by byte, wherever he began and however often
they came: a fact that was taken already is dropped, and one that is not the next is not taken.
Nothing here grows with the sale: hours, tiers, bookings and the time that velocity looks back are
bounded, so that it is a small document at every limit.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from holdfast.domain import facts
from holdfast.domain.facts import Entry
from holdfast.domain.limits import EVENT_TIERS_MAX
from holdfast.domain.model import HoldState, Millis

HOUR_MS: Millis = 3_600_000
TICK_MS: Millis = 10_000
"""Velocity is counted in steps of so long."""
LOOKED_BACK_MS: Millis = HOUR_MS

HOUR_ENTRIES_MAX = 1_000
"""Of hours times tiers; what is more is summed up with what was earlier."""
RECENT_MAX = 20
RECENT_UNITS_MAX = 20
"""Seats and pools that a recent booking names; of one with more, the first."""
SUM_MAX = 2**63 - 1
"""Of what only grows: past it, it stays there."""

NO_TIER = ""
"""Where units count whose tier no fact says, or that are of one tier too many. No tier has it as a
name."""


class Taken(StrEnum):
    """What became of a fact."""

    TAKEN = "taken"
    REPEAT = "repeat"  # it was there already
    GAP = "gap"  # some before it are missing: nothing was taken


class Tally(msgspec.Struct, array_like=True):
    """Units sold and what they brought, less what came back."""

    units: int = 0
    revenue: int = 0

    def add(self, units: int, revenue: int) -> None:
        self.units += units
        self.revenue += revenue


class Tier(msgspec.Struct, array_like=True):
    nth: int
    """Its number here: its name may be long, and hours name it often."""
    all: Tally
    earlier: Tally
    """In hours that are not kept apart any more."""


class Holds(msgspec.Struct):
    """Holds by state, as the log tells them: one is held until its end was announced."""

    placed: int = 0
    """All there ever were."""
    held: int = 0
    paying: int = 0
    confirmed: int = 0
    released: int = 0
    expired: int = 0


class Returns(msgspec.Struct):
    """What came back."""

    cancellations: int = 0
    """How often units came back: whole orders, or parts of them."""
    cancelled_units: int = 0
    cancelled_amount: int = 0
    refunds: int = 0
    """How often a provider gave money back."""
    refunded_amount: int = 0


class Booking(msgspec.Struct):
    """A sale, without who and under which id."""

    at_ms: Millis
    units: int
    seats: list[str]
    pools: dict[str, int]
    amount: int


class Stats(msgspec.Struct):
    """Of one event, after `seq` facts. Kept as JSON; read through the properties."""

    event: str
    seq: int = 0
    currency: str = ""
    capacity: int | None = None
    """None: the log was begun by a version that did not tell it."""
    sold: int = 0
    revenue: int = 0
    tiers: dict[str, Tier] = {}
    hours: dict[int, dict[int, Tally]] = {}
    """Of each hour since 1970, by the number of the tier."""
    hour_entries: int = 0
    holds: Holds = msgspec.field(default_factory=Holds)
    returns: Returns = msgspec.field(default_factory=Returns)
    ticks: dict[int, int] = {}
    """Units sold in each step of TICK_MS, within an hour before the latest."""
    recent: list[Booking] = []
    """The latest last."""

    @classmethod
    def empty(cls, event: str) -> "Stats":
        return cls(event)

    def take(self, entry: Entry) -> Taken:
        """Counts the next fact. One of a type that is not known counts nothing, but was there."""
        if entry.seq <= self.seq:
            return Taken.REPEAT
        if entry.seq != self.seq + 1:
            return Taken.GAP
        if count := COUNTED.get(entry.type):
            count(self, entry)
        self.seq = entry.seq
        return Taken.TAKEN

    @property
    def percent_sold(self) -> float:
        return round(100 * self.sold / self.capacity, 2) if self.capacity else 0.0

    @property
    def conversion(self) -> float:
        """Of all holds ever placed, the part that was sold."""
        return _part(self.holds.confirmed, self.holds.placed)

    @property
    def abandonment(self) -> float:
        """Of all holds ever placed, the part that was given back or ran out."""
        return _part(self.holds.released + self.holds.expired, self.holds.placed)

    def by_tier(self) -> dict[str, Tally]:
        return {name: tier.all for name, tier in sorted(self.tiers.items())}

    def earlier(self) -> dict[str, Tally]:
        """By tier, what was sold in hours that are not kept apart any more."""
        tiers = sorted(self.tiers.items())
        return {name: t.earlier for name, t in tiers if t.earlier.units or t.earlier.revenue}

    def by_hour(self) -> list[tuple[Millis, dict[str, Tally]]]:
        """Each hour's beginning, oldest first, and what was sold in it by tier. What came back
        counts against the hour in which it did, so that all hours together are `by_tier`."""
        names = {tier.nth: name for name, tier in self.tiers.items()}
        return [
            (hour * HOUR_MS, dict(sorted((names[nth], each) for nth, each in tiers.items())))
            for hour, tiers in sorted(self.hours.items())
        ]

    def velocity(self, now: Millis, minutes: int) -> int:
        """Units sold within so many minutes before now, up to 60: none that is older, though some
        of the oldest ten seconds may be missing. What came back meanwhile was sold all the same.
        A clock that is behind the facts is taken to stand where they do."""
        last = max(now // TICK_MS, max(self.ticks, default=0))
        first = last - minutes * 60_000 // TICK_MS
        return sum(units for tick, units in self.ticks.items() if first < tick <= last)

    def _placed(self, entry: Entry) -> None:
        self.holds.placed += 1
        self.holds.held += 1

    def _paying(self, entry: Entry) -> None:
        self._leave(HoldState.HELD)
        self.holds.paying += 1

    def _released(self, entry: Entry) -> None:
        self._leave(entry.data.get("was") or self._probably(HoldState.HELD, HoldState.PAYING))
        self.holds.released += 1

    def _expired(self, entry: Entry) -> None:
        self._leave(entry.data.get("was") or self._probably(HoldState.HELD, HoldState.PAYING))
        self.holds.expired += 1

    def _probably(self, *states: HoldState) -> HoldState | None:
        """Earlier versions did not say what a hold was: the first of these that there is any of."""
        return next((state for state in states if getattr(self.holds, state)), None)

    def _leave(self, state: str | None) -> None:
        holds = self.holds
        if state == HoldState.HELD:
            holds.held -= 1
        elif state == HoldState.PAYING:
            holds.paying -= 1
        elif state == HoldState.EXPIRED:
            holds.expired -= 1

    def _confirmed(self, entry: Entry) -> None:
        data = entry.data
        was = data.get("was")
        if was is None and data.get("hold") and not data.get("tiers"):
            late = data.get("settlement") is not None
            usual = (HoldState.PAYING, HoldState.HELD)
            was = self._probably(HoldState.EXPIRED, *usual) if late else self._probably(*usual)
        # A direct sale ends no hold, nor does the sale of one that lived in a gate alone.
        if was is not None:
            self._leave(was)
            self.holds.confirmed += 1
        units = self._move(entry, 1)
        self._remember(entry, units)

    def _cancelled(self, entry: Entry) -> None:
        units = self._move(entry, -1)
        back = self.returns
        back.cancellations += 1
        back.cancelled_units = min(SUM_MAX, back.cancelled_units + units)
        back.cancelled_amount = min(SUM_MAX, back.cancelled_amount + entry.data.get("amount", 0))

    def _refunded(self, entry: Entry) -> None:
        """Their units came back before, if they were ever sold: only money went."""
        back = self.returns
        back.refunds += 1
        back.refunded_amount = min(SUM_MAX, back.refunded_amount + entry.data.get("amount", 0))

    def _move(self, entry: Entry, sign: int) -> int:
        """Counts units as sold, or as back; how many they are."""
        data = entry.data
        units: int = len(data.get("seats", ())) + sum(data.get("pools", NOTHING).values())
        amount: int = data.get("amount", 0)
        self.sold += sign * units
        self.revenue += sign * amount
        self.currency = data.get("currency") or self.currency
        shares = data.get("tiers")
        if not shares:
            self._count(NO_TIER, entry.at_ms, sign * units, sign * amount)
            return units
        for name, share in shares.items():
            self._count(name, entry.at_ms, sign * share["units"], sign * share["amount"])
        return units

    def _count(self, name: str, at_ms: Millis, units: int, revenue: int) -> None:
        tier = self.tiers.get(name) or self._tier(name)
        tier.all.add(units, revenue)
        hour = self.hours.setdefault(at_ms // HOUR_MS, {})
        tally = hour.get(tier.nth)
        if tally is None:
            tally = hour[tier.nth] = Tally()
            self.hour_entries += 1
        tally.add(units, revenue)
        if self.hour_entries > HOUR_ENTRIES_MAX:
            self._forget_hours()

    def _tier(self, name: str) -> Tier:
        if len(self.tiers) >= EVENT_TIERS_MAX and name != NO_TIER:
            return self.tiers.get(NO_TIER) or self._tier(NO_TIER)
        tier = self.tiers[name] = Tier(len(self.tiers), Tally(), Tally())
        return tier

    def _forget_hours(self) -> None:
        tiers = {tier.nth: tier for tier in self.tiers.values()}
        while self.hour_entries > HOUR_ENTRIES_MAX:
            oldest = self.hours.pop(min(self.hours))
            self.hour_entries -= len(oldest)
            for nth, tally in oldest.items():
                tiers[nth].earlier.add(tally.units, tally.revenue)

    def _remember(self, entry: Entry, units: int) -> None:
        data = entry.data
        tick = entry.at_ms // TICK_MS
        if tick not in self.ticks:
            since = max([tick, *self.ticks]) - LOOKED_BACK_MS // TICK_MS
            self.ticks = {each: n for each, n in self.ticks.items() if each > since}
        self.ticks[tick] = self.ticks.get(tick, 0) + units
        pools = list(data.get("pools", NOTHING).items())[:RECENT_UNITS_MAX]
        seats = list(data.get("seats", ())[:RECENT_UNITS_MAX])
        amount = data.get("amount", 0)
        self.recent.append(Booking(entry.at_ms, units, seats, dict(pools), amount))
        if len(self.recent) > RECENT_MAX:
            del self.recent[0]

    def _configured(self, entry: Entry) -> None:
        data = entry.data
        self.currency = data.get("currency") or self.currency
        if (capacity := data.get("capacity")) is not None:
            self.capacity = capacity
        elif self.capacity is not None:
            # By a process of an earlier version, which says only what came and went.
            added = len(data.get("seats_added", ())) + sum(data.get("pools", NOTHING).values())
            self.capacity += added - len(data.get("seats_withdrawn", ()))


NOTHING: Mapping[str, Any] = {}

COUNTED: dict[str, Callable[[Stats, Entry], None]] = {
    facts.HOLD_PLACED: Stats._placed,
    facts.HOLD_PAYING: Stats._paying,
    facts.HOLD_RELEASED: Stats._released,
    facts.HOLD_EXPIRED: Stats._expired,
    facts.ORDER_CONFIRMED: Stats._confirmed,
    facts.ORDER_CANCELLED: Stats._cancelled,
    facts.ORDER_REFUNDED: Stats._refunded,
    facts.EVENT_CREATED: Stats._configured,
    facts.EVENT_CHANGED: Stats._configured,
}


def _part(of: int, all: int) -> float:
    return round(of / all, 4) if all else 0.0
