"""A gate in this process: for one process, and for trying things out."""

import time
from collections.abc import Callable, Sequence

from holdfast.domain.gating import Book, Op, Snapshot, Verdict
from holdfast.domain.model import Millis
from holdfast.gates.buckets import Buckets, Reservations


def _own_clock() -> Millis:
    return time.time_ns() // 1_000_000


class MemoryGate:
    url = "memory://"
    shared = False

    def __init__(self, clock: Callable[[], Millis] = _own_clock) -> None:
        self._clock = clock
        self._books: dict[str, Book] = {}
        self._leases: dict[str, tuple[str, Millis]] = {}
        self._buckets = Buckets()
        self._units = Reservations()

    async def open(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        self._books.clear()

    async def run(self, event: str, version: int, ops: Sequence[Op]) -> list[Verdict]:
        book = self._books.get(event)
        if book is None:
            book = self._books[event] = Book()
        return book.run(version, ops, self._clock())

    async def snapshot(self, event: str) -> Snapshot:
        return self._books.get(event, Book()).snapshot(self._clock())

    async def events(self) -> list[str]:
        return sorted(self._books)

    async def clear(self, event: str) -> None:
        self._books.pop(event, None)

    async def lease(self, name: str, holder: str, lease_ms: int) -> bool:
        now = self._clock()
        had, until_ms = self._leases.get(name, (holder, 0))
        if had != holder and until_ms > now:
            return False
        self._leases[name] = (holder, now + lease_ms)
        return True

    async def take(self, name: str, rate: float, burst: float, want: int) -> tuple[int, float]:
        return self._buckets.take(name, rate, burst, want, self._clock() / 1000)

    async def reserve_units(
        self, name: str, hold: str, units: int, most: int, keep_ms: Millis
    ) -> bool:
        now = self._clock() / 1000
        return self._units.reserve(name, hold, units, most, keep_ms / 1000, now)

    async def free_units(self, hold: str) -> None:
        self._units.free(hold)
