"""What the live map tells of one event: the last facts of its log, and frames made of them.

No waiting and no clock in here. Facts are numbered without a gap, so the ring is a list and the
number of its first.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import msgspec

from holdfast.domain import facts
from holdfast.domain.facts import Entry
from holdfast.domain.model import SeatState

FRAME_FACTS_MAX = 5_000
"""Whoever is further behind is better served with a new snapshot."""
FRAMES_MAX = 64
"""Frames of one edge that are kept for those who need the same."""

STATES: dict[str, SeatState] = {
    facts.HOLD_PLACED: SeatState.HELD,
    facts.HOLD_EXTENDED: SeatState.HELD,
    facts.HOLD_PAYING: SeatState.HELD,
    facts.HOLD_RELEASED: SeatState.AVAILABLE,
    facts.HOLD_EXPIRED: SeatState.AVAILABLE,
    facts.ORDER_CONFIRMED: SeatState.SOLD,
    facts.ORDER_CANCELLED: SeatState.AVAILABLE,
}
"""Of the seats that such a fact names, once it is true."""

_encode = msgspec.json.Encoder().encode


class Counts:
    """What a process has done for those who watch, since it began."""

    def __init__(self) -> None:
        self.encoded = 0
        """Frames that were made."""
        self.sent = 0
        """Frames that were handed over, the same one to each that needs it."""
        self.dropped = 0
        """Subscribers that were ended because they took nothing."""


class Frame:
    """What is sent, made once for all who need it. `seq` is the last number it contains."""

    def __init__(self, type: str, seq: int, body: bytes) -> None:
        self.type = type
        self.seq = seq
        self.body = body

    @cached_property
    def text(self) -> str:
        """As a message of a WebSocket."""
        return self.body.decode()

    @cached_property
    def sse(self) -> bytes:
        """As a server-sent event. JSON of ours has no line breaks."""
        return b"id: %d\nevent: %b\ndata: %b\n\n" % (self.seq, self.type.encode(), self.body)


def snapshot(seq: int, body: bytes) -> Frame:
    """Of a map that is encoded already."""
    return Frame("snapshot", seq, b'{"type":"snapshot",' + body[1:])


class Move(NamedTuple):
    """What a fact says about the map, and nothing of whose doing it was."""

    state: SeatState | None
    seats: tuple[str, ...]
    pools: tuple[str, ...]
    relaid: bool
    """Units came or went: no list of changes can tell, only a new snapshot."""


def _read(entry: Entry) -> Move:
    state = STATES.get(entry.type)
    if state is not None:
        return Move(state, tuple(entry.data["seats"]), tuple(entry.data["pools"]), False)
    layout = ("seats_added", "seats_withdrawn", "pools")
    relaid = entry.type == facts.EVENT_CREATED or (
        entry.type == facts.EVENT_CHANGED and any(entry.data.get(name) for name in layout)
    )
    return Move(None, (), (), relaid)


class Feed:
    """The facts from `first` to `last`. Of those, subscribers are told what is up to `edge`: they
    all stand at an edge, so what one needs next is what the others need."""

    def __init__(
        self, event: str, seq: int, hidden: frozenset[str], counts: Counts | None = None
    ) -> None:
        self.event = event
        self._counts = counts or Counts()
        self.hidden = hidden
        """Seats that look sold to everybody, whatever is told of them."""
        self.pools: dict[str, int] | None = None
        """What is available of those that may be seen; None before that was looked up."""
        self.epoch = 0
        """Goes up when numbers have lost their meaning: everybody needs a new snapshot."""
        self.head = self.last = self.edge = seq
        self._ring: list[Move] = []
        self._frames: dict[int, Frame] = {}

    def __len__(self) -> int:
        return len(self._ring)

    @property
    def first(self) -> int:
        return self.last - len(self._ring) + 1

    @property
    def behind(self) -> bool:
        """Whether there is more on the log than was told."""
        return self.head != self.edge

    def append(self, entries: Sequence[Entry]) -> bool:
        """Whether these were the next; if not, nothing is taken."""
        if not _join(self.last, entries):
            return False
        self._ring += map(_read, entries)
        self.last += len(entries)
        self.head = max(self.head, self.last)
        return True

    def prepend(self, entries: Sequence[Entry]) -> bool:
        """Whether these end where the ring begins; if not, nothing is taken."""
        if not entries or not _join(self.first - 1 - len(entries), entries):
            return False
        self._ring[:0] = map(_read, entries)
        return True

    def drop(self, oldest: int) -> None:
        del self._ring[:oldest]

    def restart(self, seq: int) -> None:
        """The log is not what it was, or too far ahead."""
        self.last = seq
        self.edge = -1
        self.epoch += 1
        self._ring.clear()
        self._frames.clear()

    def untold(self) -> tuple[set[str], bool]:
        """Of the facts after the edge: which pools they touch, and whether units came or went, or
        may have, where not all of them are known."""
        moves = self._between(self.edge, self.last)
        relaid = self.edge + 1 < self.first or any(move.relaid for move in moves)
        return {pool for move in moves for pool in move.pools}, relaid

    def publish(self) -> None:
        """All that was read may be told."""
        self.edge = self.last
        self._frames.clear()

    def changes(self, after: int) -> Frame | None:
        """Everything after that number up to the edge; None if only a snapshot can tell it."""
        if not self.first <= after + 1 <= self.edge or self.edge - after > FRAME_FACTS_MAX:
            return None
        frame = self._frames.get(after)
        if frame is None:
            frame = self._changes(after)
            if frame is None:
                return None
            if len(self._frames) >= FRAMES_MAX:
                self._frames.pop(next(iter(self._frames)))
            self._frames[after] = frame
        return frame

    def _changes(self, after: int) -> Frame | None:
        states: dict[str, SeatState] = {}
        pools: set[str] = set()
        for move in self._between(after, self.edge):
            if move.relaid:
                return None
            pools.update(move.pools)
            if move.state is not None:
                states.update(dict.fromkeys(move.seats, move.state))
        changes = [(seat, state) for seat, state in states.items() if seat not in self.hidden]
        told = {"type": "changes", "from": after + 1, "to": self.edge, "changes": changes}
        known = self.pools or {}
        if seen := {pool: known[pool] for pool in sorted(pools) if pool in known}:
            told["pools"] = seen
        self._counts.encoded += 1
        return Frame("changes", self.edge, _encode(told))

    def _between(self, after: int, to: int) -> list[Move]:
        first = self.first
        return self._ring[max(after + 1 - first, 0) : to + 1 - first]


def _join(after: int, entries: Sequence[Entry]) -> bool:
    return all(entry.seq == number for number, entry in enumerate(entries, after + 1))
