"""The arithmetic of limits, with the time passed in: token buckets, and units reserved for a while.

Redis does the same in take.lua and units.lua, and this file says what is right.
"""

import heapq
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

Ask = tuple[str, float, float]
"""For a token: a bucket's name, its rate and its burst."""

BUCKETS_MAX = 100_000
RESERVED_MAX = 500_000
SLACK = 1e-6
"""Of a token: whoever comes exactly when he was told to is not too early by a rounding."""


class Buckets:
    """Buckets that gain `rate` tokens in a second up to `burst`; each is full at first.

    Of each only the instant is kept at which it will be full again, so one that is full needs no
    room: when there are too many those are forgotten first, then those that are nearest to it.
    Whatever the clock does, nobody waits longer than an empty bucket takes to fill.
    """

    def __init__(self, most: int = BUCKETS_MAX) -> None:
        self._full_at: dict[str, float] = {}
        self._most = most

    def __len__(self) -> int:
        return len(self._full_at)

    def spend(self, asks: Sequence[Ask], now: float) -> tuple[bool, list[float]]:
        """One token of each, or none of any: whether they were spent, and what is left of each, in
        fractions."""
        left = [self._left(name, rate, burst, now) for name, rate, burst in asks]
        if min(left) < 1 - SLACK:
            return False, left
        for index, (name, rate, burst) in enumerate(asks):
            left[index] -= 1
            self._full_at[name] = now + (burst - left[index]) / rate
        self._limit(now)
        return True, left

    def take(
        self, name: str, rate: float, burst: float, want: int, now: float
    ) -> tuple[int, float]:
        """Up to so many whole tokens of one: how many it gave, and what is left."""
        left = self._left(name, rate, burst, now)
        granted = min(want, int(left + SLACK))
        left -= granted
        self._full_at[name] = now + (burst - left) / rate
        self._limit(now)
        return granted, left

    def _left(self, name: str, rate: float, burst: float, now: float) -> float:
        full_at = self._full_at.get(name, now)
        if full_at <= now:
            return burst
        left = burst - (full_at - now) * rate
        return left if left > 0 else 0.0

    def _limit(self, now: float) -> None:
        if len(self._full_at) > self._most:
            self._full_at = thinned(self._full_at, float, now, self._most)


class Reservations:
    """Units that a name has reserved, each time for one hold and until its deadline."""

    def __init__(self, most: int = RESERVED_MAX) -> None:
        self._reserved: dict[str, tuple[str, int, float]] = {}
        self._totals: dict[str, int] = {}
        self._due: list[tuple[float, str]] = []
        self._most = most

    def __len__(self) -> int:
        return len(self._reserved)

    def reserve(
        self, name: str, hold: str, units: int, most: int, seconds: float, now: float
    ) -> bool:
        """Whether the name has no more than `most` with these; else what the hold had stays."""
        self._lapse(now)
        had_by, had, _ = self._reserved.get(hold, ("", 0, 0.0))
        others = self._totals.get(name, 0) - (had if had_by == name else 0)
        if others + units > most:
            return False
        self.free(hold)
        until = now + seconds
        self._reserved[hold] = (name, units, until)
        self._totals[name] = self._totals.get(name, 0) + units
        heapq.heappush(self._due, (until, hold))
        while len(self._reserved) > self._most:
            self._forget_first()
        if len(self._due) > 2 * len(self._reserved) + 1_000:
            # Most are of reservations that were replaced or freed.
            self._due = [(until, hold) for hold, (_, _, until) in self._reserved.items()]
            heapq.heapify(self._due)
        return True

    def free(self, hold: str) -> None:
        """Does nothing if there is nothing to free."""
        name, units, _ = self._reserved.pop(hold, ("", 0, 0.0))
        left = self._totals.get(name, 0) - units
        if left > 0:
            self._totals[name] = left
        else:
            self._totals.pop(name, None)

    def _lapse(self, now: float) -> None:
        while self._due and self._due[0][0] <= now:
            self._forget_first()

    def _forget_first(self) -> None:
        until, hold = heapq.heappop(self._due)
        if hold in self._reserved and self._reserved[hold][2] == until:
            self.free(hold)


def thinned(
    entries: dict[str, T], stamp: Callable[[T], float], now: float, most: int
) -> dict[str, T]:
    """Without those that are over by now, and without the earliest if that leaves too many. There
    is room for many more then, so this is seldom needed."""
    kept = {name: entry for name, entry in entries.items() if stamp(entry) > now}
    room = most - most // 4
    if len(kept) <= room:
        return kept
    latest = sorted(kept.items(), key=lambda item: stamp(item[1]))[-room:]
    return dict(latest)
