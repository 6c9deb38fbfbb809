"""Every interface that has more than one implementation, and nothing else."""

from collections.abc import Callable, Sequence
from typing import Protocol

from holdfast.domain.commands import Command
from holdfast.domain.facts import Entry
from holdfast.domain.gating import Op, Snapshot, Verdict
from holdfast.domain.model import Hold, Millis, Order
from holdfast.domain.outcomes import Answer
from holdfast.domain.views import Census, Document, SeatMap, Statuses, Summary

Committed = Callable[[], None]
"""Told as soon as a batch holds no lock any more: the next may begin, though the answers of this
one may still have to wait for the disk."""


def nothing() -> None:
    """For those who need not know."""


class Store(Protocol):
    """An authority: it alone decides what is sold.

    `apply` is one durable transaction: all of the batch or nothing. It raises StoreBusy when the
    batch was rolled back and may be run again, CommitUnknown when it may have been committed.
    """

    @property
    def url(self) -> str:
        """Its address, without secrets."""

    @property
    def one_lane(self) -> bool:
        """Whether all events share one lane, because the store admits one writer at a time."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def migrate(self) -> list[str]:
        """Brings the schema up to date; returns what it did."""

    async def apply(
        self, commands: Sequence[Command], committed: Committed = nothing
    ) -> list[Answer]: ...

    async def summaries(self, event: str | None = None) -> list[Summary]:
        """All events, or the one."""

    async def seat_map(self, event: str) -> SeatMap | None: ...

    async def statuses(self, event: str) -> Statuses | None:
        """What `seat_map` tells, without the plan of the seats: quick for any number of them."""

    async def hold(self, event: str, id: str) -> tuple[Hold, Millis] | None:
        """The hold, and the authority's time when it was read."""

    async def order(self, event: str, id: str) -> Order | None: ...

    async def log(self, event: str, after: int, limit: int) -> list[Entry]: ...

    async def due(self) -> list[str]:
        """Events that have holds to announce as expired."""

    async def heads(self) -> dict[str, int]:
        """Of every event the number of its last fact, in one query."""

    async def wake(self, timeout_seconds: float) -> None:
        """Returns when heads may have moved, or after the timeout. A wake-up may be missed."""

    async def census(self, event: str) -> Census | None:
        """Every row of an event in one snapshot, for the auditor."""

    async def strays(self) -> list[str]:
        """Ids of events that have rows of some kind but no event."""

    async def mend(self, event: str) -> list[str]:
        """Rewrites what follows from holds and orders; returns what differed."""

    async def documents(self, kind: str, id: str | None = None) -> tuple[list[Document], Millis]:
        """All of a kind in order of id, or the one, and the authority's time."""

    async def put(self, document: Document) -> bool:
        """Writes it durably if what is there has the version before (version 1: nothing is there);
        whether it did. Of those who race for a version, one does. Raises CommitUnknown when it may
        have been written: to look again settles it."""

    async def drop(self, kind: str, id: str, version: int) -> bool:
        """Removes it durably if it is that version; whether it did. Fails as `put` does."""


class Gate(Protocol):
    """Stands before the authority and may only say no, cheaply. Nothing depends on what it has.

    Each method is one round trip, and raises GateDown when the gate does not answer as it should:
    then whoever asked goes on without it.
    """

    @property
    def url(self) -> str:
        """Its address, without secrets."""

    @property
    def shared(self) -> bool:
        """Whether other processes stand before the same one."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def run(self, event: str, version: int, ops: Sequence[Op]) -> list[Verdict]:
        """Does all of it in order, at one moment; the verdicts in the same order."""

    async def snapshot(self, event: str) -> Snapshot:
        """Everything there is of an event, at one moment."""

    async def events(self) -> list[str]:
        """Events that the gate has something of."""

    async def clear(self, event: str) -> None:
        """Forgets an event."""

    async def lease(self, name: str, holder: str, lease_ms: int) -> bool:
        """Whether the holder has the lease: nobody else has had it for that long."""

    async def take(self, name: str, rate: float, burst: float, want: int) -> tuple[int, float]:
        """Up to so many tokens out of a bucket that gains `rate` in a second and has `burst` when
        it is full, as it is at first: how many it gave, and what is left in it, in fractions."""

    async def reserve_units(
        self, name: str, hold: str, units: int, most: int, keep_ms: Millis
    ) -> bool:
        """Whether the name may have so many units more, of `most` at once; if so they count for so
        long. The same hold again replaces what it had, also of another name."""

    async def free_units(self, hold: str) -> None:
        """A hold's units count no more. Again does nothing again."""
