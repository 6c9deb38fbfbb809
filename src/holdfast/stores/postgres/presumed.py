"""What nobody here has looked at, taken for what it most probably is: a seat that is free and like
its neighbours, an id that nobody has used, and a clock that went on since it was read. In a crowd
that buys, nearly all of that is so, and a batch need not look before it writes.

Nothing is decided on it that is not written, and what is written is guarded by all that was
presumed: the seat as it was taken to be, the keys of new rows, and the time, which the server
compares with its own. Where one of these was not so, nothing stays written, the batch looks, and
for a while this event's batches look first.
"""

import asyncio
from collections.abc import Iterable

from holdfast.domain.model import Millis, Seat

WARY_SECONDS = 1.0
"""How long nothing is presumed of an event after that has failed: one statement in vain a second
is what it costs where others sell the same seats."""
FRESH_SECONDS = 1.0
"""Of the server's clock, as it was last read, and of an event. What the clock says is checked where
it counts."""
CLOCK_OFF_MS_MAX = 1_000
"""How far the time of a decision may be from the server's, when it is written."""
SECTIONS_MAX = 1_000
EVENTS_MAX = 1_000

Traits = tuple[str, str | None]
"""Of a seat: its tier, and its channel."""


class Neighbours:
    """Of one event: what all seats that were looked at have in common, section by section. An id
    begins with the name of its section."""

    __slots__ = ("_traits", "heard_at", "seq", "wary_until")

    def __init__(self) -> None:
        self._traits: dict[str, Traits | None] = {}
        """None where they differ."""
        self.wary_until = float("-inf")
        self.seq = 0
        """How far the log was, and when that was heard."""
        self.heard_at = float("-inf")

    def seat(self, id: str) -> Seat | None:
        """As it is, if it is free and like the others; None where nobody knows."""
        traits = self._traits.get(id.partition("-")[0])
        return None if traits is None else Seat(id, *traits)

    def learn(self, seats: Iterable[Seat]) -> None:
        known = self._traits
        for seat in seats:
            section, traits = seat.id.partition("-")[0], (seat.tier, seat.channel)
            if known.setdefault(section, traits) != traits:
                known[section] = None
        if len(known) > SECTIONS_MAX:
            known.clear()


class Presumptions:
    """Of all events, and of the server's clock."""

    def __init__(self) -> None:
        self._events: dict[str, Neighbours] = {}
        self._read: tuple[Millis, float] = 0, float("-inf")
        """What the server's clock said, and when that was by ours."""
        self._least: Millis = 0
        """It was that late already."""

    def told(self, server_ms: Millis) -> None:
        """The server's clock said so, at some moment before this. After a reply that waited here,
        or where our clock is the faster one, time stands still until the server's has caught up:
        it does not go back, unless the server's clock was put back."""
        known = self.now() or 0
        self._least = known if known - server_ms <= CLOCK_OFF_MS_MAX else 0
        self._read = server_ms, asyncio.get_running_loop().time()

    def now(self) -> Millis | None:
        """The server's time, or a little before that; None where it was not read lately."""
        server_ms, at = self._read
        passed = asyncio.get_running_loop().time() - at
        if passed > FRESH_SECONDS:
            return None
        return max(server_ms + int(1000 * passed), self._least)

    def of(self, event: str) -> Neighbours | None:
        """None while its batches had better look: for the first time in a while, for others may
        have gone on far since, or because somebody was wrong."""
        found = self._events.get(event)
        now = asyncio.get_running_loop().time()
        if found is None or now < found.wary_until or now - found.heard_at > FRESH_SECONDS:
            return None
        return found

    def learn(self, event: str, seats: Iterable[Seat], seq: int) -> None:
        """What was looked at when the log had so many facts."""
        found = self._events.get(event)
        if found is None:
            if len(self._events) >= EVENTS_MAX:
                self._events.clear()
            found = self._events[event] = Neighbours()
        found.learn(seats)
        found.seq, found.heard_at = max(found.seq, seq), asyncio.get_running_loop().time()

    def failed(self, event: str) -> None:
        if found := self._events.get(event):
            found.wary_until = asyncio.get_running_loop().time() + WARY_SECONDS

    def forget_all(self) -> None:
        self._events.clear()
        self._read, self._least = (0, float("-inf")), 0
