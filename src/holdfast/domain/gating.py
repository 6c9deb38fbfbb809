"""What a gate keeps, and what it may be asked. A gate only ever says no, cheaply; it is never the
truth, and whatever it has may be lost at any moment.

`Book` is the whole of it, pure: the memory gate keeps one for each event, and the scripts of the
Redis gate do the same with keys. Time is the gate's own, so deadlines are lengths of time.
"""

import heapq
from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec

from holdfast.domain.model import FOREVER_MS, Hold, Millis, Order
from holdfast.domain.outcomes import Answer, Holder, Reason, Refused

DEADLINES_IDLE_MAX = 1_000


class Kind(StrEnum):
    CLAIM = "claim"  # asked for a moment ago; the authority has not answered yet
    HELD = "held"  # the authority says so: a hold, or an order, which is for ever
    COURTESY = "courtesy"  # a hold that lives nowhere but here, until payment begins


class Owned(msgspec.Struct, frozen=True, kw_only=True):
    """Units that are kept for one hold, or sold to one order."""

    id: str
    buyer: str
    seats: tuple[str, ...] = ()
    pools: dict[str, int] = {}
    kind: Kind = Kind.HELD
    keep_ms: Millis = FOREVER_MS
    """How long from now on."""
    version: int = 1
    note: str = ""
    """What a courtesy hold has besides; the gate does not look inside."""

    @property
    def units(self) -> int:
        return len(self.seats) + sum(self.pools.values())


class Claim(msgspec.Struct, frozen=True, tag="claim"):
    """All of the units or none. A courtesy needs the event's present version, and may have a cap;
    of a claim the authority will judge all that."""

    owned: Owned
    cap: int | None = None


class Keep(msgspec.Struct, frozen=True, tag="keep"):
    """Another deadline, for whoever has his units still."""

    id: str
    kind: Kind
    keep_ms: Millis
    was_version: int | None = None
    """The fence, where there is one: then the version grows by one."""
    note: str | None = None


class Mark(msgspec.Struct, frozen=True, tag="mark"):
    """The authority's word: these units are his. Whoever else was noted at a seat has lost it."""

    owned: Owned


class Free(msgspec.Struct, frozen=True, tag="free"):
    """Gives back what this owner has, nobody else's. Again does nothing again."""

    id: str
    was_version: int | None = None
    unless_after_ms: Millis | None = None
    """Not if it was written later than that: a reconciliation looked before."""


class Find(msgspec.Struct, frozen=True, tag="find"):
    id: str


class Stock(msgspec.Struct, frozen=True, tag="stock"):
    """What the authority has to give of each pool, sold or not; makes the gate ready to judge."""

    stock: dict[str, int]


class Adjust(msgspec.Struct, frozen=True, tag="adjust"):
    """Corrects counters by what a snapshot had too much."""

    claimed: dict[str, int] = {}
    units: dict[str, int] = {}


Op = Claim | Keep | Mark | Free | Find | Stock | Adjust


class Claimed(msgspec.Struct, frozen=True, tag="claimed"):
    now_ms: Millis
    owned: Owned | None = None
    """What the id has already, when it is there: decided before, or somebody else's."""


class Clash(msgspec.Struct, frozen=True, tag="clash"):
    """Who has the seats: (seat, owner, buyer, milliseconds that he still has it)."""

    seats: tuple[tuple[str, str, str, Millis], ...]


class Short(msgspec.Struct, frozen=True, tag="short"):
    pool: str
    available: int


class OverCap(msgspec.Struct, frozen=True, tag="over_cap"):
    cap: int


class Unready(msgspec.Struct, frozen=True, tag="unready"):
    """Nothing is known of the event (version 0), or it has another version than the caller says."""

    version: int


class Found(msgspec.Struct, frozen=True, tag="found"):
    now_ms: Millis
    owned: Owned | None = None


class Done(msgspec.Struct, frozen=True, tag="done"):
    """Whether there was anything to change."""

    changed: bool


Verdict = Claimed | Clash | Short | OverCap | Unready | Found | Done


class Kept(msgspec.Struct, frozen=True):
    """One owner in a snapshot, and when he was written."""

    owned: Owned
    since_ms: Millis


class Snapshot(msgspec.Struct, frozen=True):
    """Everything of one event at one moment."""

    version: int
    now_ms: Millis
    stock: dict[str, int]
    claimed: dict[str, int]
    units: dict[str, int]
    seats: dict[str, str]
    owners: list[Kept]


def held(hold: Hold, keep_ms: Millis) -> Owned:
    """A hold of the authority's, as the gate keeps it."""
    return Owned(id=hold.id, buyer=hold.buyer, seats=hold.seats, pools=hold.pools, keep_ms=keep_ms)


def sold(order: Order) -> Owned:
    """An order, as the gate keeps it: under its hold, if it had one, and for ever."""
    return Owned(id=order.hold or order.id, buyer=order.buyer, seats=order.seats, pools=order.pools)


def taken(clash: Clash, now: Millis = 0) -> Answer:
    """The refusal that a clash means."""
    holders = tuple(Holder(seat, buyer, now + left) for seat, _, buyer, left in clash.seats)
    refused = Refused(Reason.TAKEN, seats=tuple(seat for seat, *_ in clash.seats))
    return Answer(refused, now_ms=now, holders=holders)


def short(verdict: Short) -> Refused:
    reason = Reason.INSUFFICIENT if verdict.available else Reason.SOLD_OUT
    return Refused(reason, pools=(verdict.pool,), available=verdict.available)


class _Entry(msgspec.Struct):
    owned: Owned
    until_ms: Millis
    since_ms: Millis


class Book:
    """The gate of one event."""

    def __init__(self) -> None:
        self.version = 0
        self.seats: dict[str, str] = {}
        self.stock: dict[str, int] = {}
        self.claimed: dict[str, int] = {}
        self.units: dict[str, int] = {}
        self.owners: dict[str, _Entry] = {}
        self._deadlines: list[tuple[Millis, str]] = []

    def run(self, version: int, ops: Iterable[Op], now: Millis) -> list[Verdict]:
        """Does everything in order. `version` is the event's, as the caller knows it."""
        self._lapse(now)
        if self.version:
            self.version = max(self.version, version)
        return [self._do(version, op, now) for op in ops]

    def snapshot(self, now: Millis) -> Snapshot:
        self._lapse(now)
        owners = [Kept(self._seen(entry, now), entry.since_ms) for entry in self.owners.values()]
        return Snapshot(
            self.version,
            now,
            dict(self.stock),
            dict(self.claimed),
            dict(self.units),
            dict(self.seats),
            owners,
        )

    def _do(self, version: int, op: Op, now: Millis) -> Verdict:
        match op:
            case Claim():
                return self._claim(version, op, now)
            case Keep():
                return Done(self._keep(op, now))
            case Mark(owned):
                self._drop(owned.id)
                self._add(owned, now)
                return Done(True)
            case Free():
                return Done(self._free(op))
            case Find(id):
                entry = self.owners.get(id)
                return Found(now, self._seen(entry, now) if entry else None)
            case Stock(stock):
                # Never an older version: it may have been raised to admit no courtesy any more.
                newest = max(self.version, version)
                changed = (self.stock, self.version) != (stock, newest)
                self.stock, self.version = dict(stock), newest
                return Done(changed)
            case Adjust(claimed, units):
                _lower(self.claimed, claimed)
                _lower(self.units, units)
                return Done(True)

    def _claim(self, version: int, op: Claim, now: Millis) -> Verdict:
        owned = op.owned
        courtesy = owned.kind is Kind.COURTESY
        if not self.version or (courtesy and self.version != version):
            return Unready(self.version)
        if entry := self.owners.get(owned.id):
            return Claimed(now, self._seen(entry, now))
        if op.cap is not None and self.units.get(owned.buyer, 0) + owned.units > op.cap:
            return OverCap(op.cap)
        if clash := [id for id in owned.seats if self._holder(id)]:
            return self._clash(clash, now)
        for pool, quantity in owned.pools.items():
            available = max(0, self.stock.get(pool, 0) - self.claimed.get(pool, 0))
            if available < quantity and pool in self.stock:
                return Short(pool, available)
        # From here the claim must succeed.
        self._add(owned, now)
        return Claimed(now)

    def _holder(self, seat: str) -> _Entry | None:
        return self.owners.get(self.seats.get(seat, ""))

    def _clash(self, seats: Sequence[str], now: Millis) -> Clash:
        found = ((id, self.owners[self.seats[id]]) for id in seats)
        return Clash(
            tuple(
                (id, entry.owned.id, entry.owned.buyer, entry.until_ms - now) for id, entry in found
            )
        )

    def _keep(self, op: Keep, now: Millis) -> bool:
        entry = self.owners.get(op.id)
        if entry is None or op.was_version not in (None, entry.owned.version):
            return False
        version = entry.owned.version + (op.was_version is not None)
        note = entry.owned.note if op.note is None else op.note
        entry.owned = msgspec.structs.replace(
            entry.owned, kind=op.kind, keep_ms=op.keep_ms, version=version, note=note
        )
        entry.until_ms, entry.since_ms = _until(now, op.keep_ms), now
        self._watch(entry)
        return True

    def _free(self, op: Free) -> bool:
        entry = self.owners.get(op.id)
        if entry is None or op.was_version not in (None, entry.owned.version):
            return False
        if op.unless_after_ms is not None and entry.since_ms > op.unless_after_ms:
            return False
        return self._drop(op.id)

    def _add(self, owned: Owned, now: Millis) -> None:
        entry = self.owners[owned.id] = _Entry(owned, _until(now, owned.keep_ms), now)
        for seat in owned.seats:
            self.seats[seat] = owned.id
        for pool, quantity in owned.pools.items():
            self.claimed[pool] = self.claimed.get(pool, 0) + quantity
        self.units[owned.buyer] = self.units.get(owned.buyer, 0) + owned.units
        self._watch(entry)

    def _drop(self, id: str) -> bool:
        entry = self.owners.pop(id, None)
        if entry is None:
            return False
        for seat in entry.owned.seats:
            if self.seats.get(seat) == id:
                del self.seats[seat]
        _lower(self.claimed, entry.owned.pools)
        _lower(self.units, {entry.owned.buyer: entry.owned.units})
        return True

    def _watch(self, entry: _Entry) -> None:
        if entry.until_ms < FOREVER_MS:
            heapq.heappush(self._deadlines, (entry.until_ms, entry.owned.id))
        if len(self._deadlines) > 2 * len(self.owners) + DEADLINES_IDLE_MAX:
            # Most are of owners who have gone. A sorted list is a heap.
            live = [(each.until_ms, id) for id, each in self.owners.items()]
            self._deadlines = sorted(each for each in live if each[0] < FOREVER_MS)

    def _lapse(self, now: Millis) -> None:
        while self._deadlines and self._deadlines[0][0] <= now:
            _, id = heapq.heappop(self._deadlines)
            entry = self.owners.get(id)
            if entry and entry.until_ms <= now:
                self._drop(id)

    def _seen(self, entry: _Entry, now: Millis) -> Owned:
        left = FOREVER_MS if entry.until_ms >= FOREVER_MS else entry.until_ms - now
        return msgspec.structs.replace(entry.owned, keep_ms=left)


def _until(now: Millis, keep_ms: Millis) -> Millis:
    return FOREVER_MS if keep_ms >= FOREVER_MS else now + keep_ms


def _lower(counts: dict[str, int], by: dict[str, int]) -> None:
    """What falls to nothing is forgotten, and nothing falls below."""
    for name, less in by.items():
        left = counts.get(name, 0) - less
        if left > 0:
            counts[name] = left
        else:
            counts.pop(name, None)
