"""What goes to the script and comes back, packed: arrays without names, small and quick to read.

Quantities are pairs and not maps, because Lua cannot tell an empty map from an empty array. Times
come back as instants of the gate's clock: what is left of them is reckoned here, where `FOREVER_MS`
less a number is exact.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.msgpack import Decoder, Encoder

from holdfast.domain.gating import (
    Adjust,
    Claim,
    Claimed,
    Clash,
    Done,
    Find,
    Found,
    Free,
    Keep,
    Kept,
    Kind,
    Mark,
    Op,
    OverCap,
    Owned,
    Short,
    Snapshot,
    Stock,
    Unready,
    Verdict,
)
from holdfast.domain.model import FOREVER_MS, Millis

Pairs = tuple[tuple[str, int], ...]


class Record(msgspec.Struct, frozen=True, array_like=True):
    """An owner, as the script writes it."""

    buyer: str
    seats: tuple[str, ...]
    pools: Pairs
    kind: Kind
    until_ms: Millis
    since_ms: Millis
    version: int
    note: str

    def owned(self, id: str, now: Millis) -> Owned:
        return Owned(
            id=id,
            buyer=self.buyer,
            seats=self.seats,
            pools=dict(self.pools),
            kind=self.kind,
            keep_ms=FOREVER_MS if self.until_ms >= FOREVER_MS else self.until_ms - now,
            version=self.version,
            note=self.note,
        )


class _Said(msgspec.Struct, frozen=True, array_like=True):
    """A verdict; book.lua has the same numbers."""

    def verdict(self, now: Millis) -> Verdict:
        raise NotImplementedError


class _ClaimedNow(_Said, frozen=True, tag=1):
    def verdict(self, now: Millis) -> Verdict:
        return Claimed(now)


class _ClaimedAlready(_Said, frozen=True, tag=2):
    id: str
    record: Record

    def verdict(self, now: Millis) -> Verdict:
        return Claimed(now, self.record.owned(self.id, now))


class _Clash(_Said, frozen=True, tag=3):
    seats: tuple[tuple[str, str, str, Millis], ...]

    def verdict(self, now: Millis) -> Verdict:
        return Clash(
            tuple((seat, owner, buyer, til - now) for seat, owner, buyer, til in self.seats)
        )


class _Short(_Said, frozen=True, tag=4):
    pool: str
    available: int

    def verdict(self, now: Millis) -> Verdict:
        return Short(self.pool, self.available)


class _OverCap(_Said, frozen=True, tag=5):
    cap: int

    def verdict(self, now: Millis) -> Verdict:
        return OverCap(self.cap)


class _Unready(_Said, frozen=True, tag=6):
    version: int

    def verdict(self, now: Millis) -> Verdict:
        return Unready(self.version)


class _Found(_Said, frozen=True, tag=7):
    id: str
    record: Record

    def verdict(self, now: Millis) -> Verdict:
        return Found(now, self.record.owned(self.id, now))


class _FoundNothing(_Said, frozen=True, tag=8):
    def verdict(self, now: Millis) -> Verdict:
        return Found(now)


class _Done(_Said, frozen=True, tag=9):
    changed: bool

    def verdict(self, now: Millis) -> Verdict:
        return Done(self.changed)


_Any = (
    _ClaimedNow
    | _ClaimedAlready
    | _Clash
    | _Short
    | _OverCap
    | _Unready
    | _Found
    | _FoundNothing
    | _Done
)

_encoder = Encoder()
_replies = Decoder(tuple[Millis, list[_Any]])
_records = Decoder(Record)


def pack(ops: Sequence[Op]) -> bytes:
    return _encoder.encode([_packed(op) for op in ops])


def unpack(reply: bytes, asks: int) -> list[Verdict]:
    """Raises what msgspec does, or ValueError, when this does not answer that many asks."""
    now, said = _replies.decode(reply)
    if len(said) != asks:
        raise ValueError(f"{len(said)} verdicts for {asks} asks")
    return [each.verdict(now) for each in said]


def read_snapshot(
    now: Millis,
    version: bytes | None,
    stock: Mapping[bytes, bytes],
    claimed: Mapping[bytes, bytes],
    units: Mapping[bytes, bytes],
    seats: Mapping[bytes, bytes],
    owners: Mapping[bytes, bytes],
) -> tuple[Snapshot, list[str]]:
    """The keys of an event as they were at one moment, less what has lapsed but was not swept; and
    whose that was."""
    dead: list[str] = []
    snapshot = Snapshot(
        int(version or 0),
        now,
        _counts(stock),
        _counts(claimed),
        _counts(units),
        {seat.decode(): owner.decode() for seat, owner in seats.items()},
        [],
    )
    for key, packed in owners.items():
        id, record = key.decode(), _records.decode(packed)
        owned = record.owned(id, now)
        if record.until_ms > now:
            snapshot.owners.append(Kept(owned, record.since_ms))
        else:
            _drop(snapshot, owned)
            dead.append(id)
    return snapshot, dead


def _drop(snapshot: Snapshot, owned: Owned) -> None:
    for seat in owned.seats:
        if snapshot.seats.get(seat) == owned.id:
            del snapshot.seats[seat]
    for pool, quantity in owned.pools.items():
        _lower(snapshot.claimed, pool, quantity)
    _lower(snapshot.units, owned.buyer, owned.units)


def _lower(counts: dict[str, int], name: str, less: int) -> None:
    left = counts.get(name, 0) - less
    if left > 0:
        counts[name] = left
    else:
        counts.pop(name, None)


def _counts(hash: Mapping[bytes, bytes]) -> dict[str, int]:
    return {name.decode(): int(number) for name, number in hash.items()}


def _packed(op: Op) -> tuple[Any, ...]:  # whatever the operation's script wants
    match op:
        case Claim(owned, cap):
            return ("claim", *_units(owned), cap)
        case Mark(owned):
            return ("mark", *_units(owned))
        case Keep():
            return ("keep", op.id, op.kind, _limited(op.keep_ms), op.was_version, op.note)
        case Free():
            return ("free", op.id, op.was_version, op.unless_after_ms)
        case Find(id):
            return ("find", id)
        case Stock(stock):
            return ("stock", tuple(stock.items()))
        case Adjust(claimed, units):
            return ("adjust", tuple(claimed.items()), tuple(units.items()))


def _units(owned: Owned) -> tuple[Any, ...]:
    return (
        owned.id,
        owned.buyer,
        owned.seats,
        tuple(owned.pools.items()),
        owned.kind,
        _limited(owned.keep_ms),
        owned.version,
        owned.note,
    )


def _limited(keep_ms: Millis) -> Millis:
    """Longer than for ever is for ever."""
    return keep_ms if keep_ms < FOREVER_MS else FOREVER_MS
