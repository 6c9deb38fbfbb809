"""The houses of the events that were asked for their best seats, kept true by the log.

Like a batch, it does no I/O: it yields (query, arguments) and is sent the rows, so that every SQL
store runs the same code. Where one writer is admitted at a time the house is exact; elsewhere it
is a hint, and the seats chosen from it are locked and looked at before they count.
"""

from collections.abc import Generator, Iterable
from typing import Any

import msgspec

from holdfast.domain.model import Event
from holdfast.domain.seating import House
from holdfast.domain.shelf import free_from
from holdfast.stores.rows import Row, read_data, to_plan, to_seat

HOUSE_SEATS_MAX = 2_000_000
"""Over all houses; past it, those least recently used are forgotten and built again on demand."""
CATCH_UP_MAX = 20_000
"""Facts to read before reading all seats anew is cheaper."""

# The name of a query and its arguments; what is sent back are its rows.
Reading = Generator[tuple[str, tuple[Any, ...]], list[Row], House]


class Unbuilt(Exception):
    """The house has to be built first: before the batch locks anything, for it takes a while."""

    def __init__(self, event: Event) -> None:
        super().__init__(event.id)
        self.event = event


class Kept(msgspec.Struct):
    house: House
    layout: int
    seq: int
    seats: int
    doubtful: bool = False


def build(event: Event, rows: Iterable[Row]) -> Kept:
    """The walls, from the rows of the query `house`. May run on a thread of its own."""
    plans = [to_plan(row) for row in rows]
    return Kept(House(plans, event.ranking), event.layout, 0, len(plans), doubtful=True)


class Houses:
    def __init__(self) -> None:
        self._kept: dict[str, Kept] = {}

    def peek(self, event: str) -> House | None:
        """The house, if there is one already: a batch keeps it up to date as it decides."""
        kept = self._kept.get(event)
        return kept.house if kept and not kept.doubtful else None

    def keep(self, event: Event, built: Kept) -> None:
        self._kept[event.id] = built

    def current(self, event: Event, seq: int) -> Reading:
        """The house with everything that the log told up to `seq`, if its walls stand."""
        kept = self._kept.get(event.id)
        if kept is None or kept.layout != event.layout:
            raise Unbuilt(event)
        told: list[Row] = []
        if not kept.doubtful and 0 < seq - kept.seq <= CATCH_UP_MAX:
            told = yield "log_data", (event.id, kept.seq, seq - kept.seq)
        if kept.doubtful or len(told) != seq - kept.seq:
            # The walls still stand; who sits where is read anew. Also when the log ends before what
            # the house has seen: a server that crashed has forgotten. Or when it no longer tells
            # all that the house has missed: it was pruned.
            kept.house.reset()
            kept.seq, kept.doubtful = seq, False
            busy = yield "busy_seats", (event.id,)
        else:
            touched = {seat for (data,) in told for seat in read_data(data).get("seats", ())}
            busy = (yield "seats_now", (event.id, sorted(touched))) if touched else []
            kept.seq = seq
        for row in busy:
            seat = to_seat(row)
            kept.house.set(seat.id, free_from(seat))
        self._kept[event.id] = self._kept.pop(event.id, kept)  # the latest used
        return kept.house

    def committed(self, event: str, before: int, after: int) -> None:
        """A batch of ours moved the log on, and the house has seen it already. A house that had
        missed others' facts before stays where it was and reads ours once more with theirs."""
        kept = self._kept.get(event)
        if kept and kept.seq == before:
            kept.seq = after

    def forget(self, event: str) -> None:
        """After a rollback the house has seen what never happened."""
        if kept := self._kept.get(event):
            kept.doubtful = True

    def forget_all(self) -> None:
        for kept in self._kept.values():
            kept.doubtful = True

    def trim(self) -> None:
        """After a batch, never within: one that needs many houses would be without the first when
        the last is built."""
        while len(self._kept) > 1 and sum(k.seats for k in self._kept.values()) > HOUSE_SEATS_MAX:
            self._kept.pop(next(iter(self._kept)))
