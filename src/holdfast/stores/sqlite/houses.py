"""The houses of the events that were asked for their best seats, kept true by the log."""

import apsw
import msgspec

from holdfast.domain.model import Event, Millis
from holdfast.domain.seating import House
from holdfast.domain.shelf import free_from
from holdfast.stores.rows import read_data, to_plan, to_seat
from holdfast.stores.sqlite.reading import SQL, Reader

HOUSE_SEATS_MAX = 2_000_000
"""Over all houses; past it, those least recently used are forgotten and built again on demand."""
CATCH_UP_MAX = 20_000
"""Facts to read before building the house anew is cheaper."""


class Kept(msgspec.Struct):
    house: House
    layout: int
    seq: int
    seats: int


class Houses:
    def __init__(self, db: apsw.Connection) -> None:
        self._db = db
        self._kept: dict[str, Kept] = {}

    def peek(self, event: str) -> House | None:
        """The house, if there is one already: a batch keeps it up to date as it decides."""
        kept = self._kept.get(event)
        return kept.house if kept else None

    def current(self, event: Event, seq: int, now: Millis) -> House:
        """The house as of `seq`, read inside the batch's transaction: exact, not a hint."""
        kept = self._kept.pop(event.id, None)
        if kept is None or kept.layout != event.layout or seq - kept.seq > CATCH_UP_MAX:
            kept = self._build(event, seq)
        elif kept.seq != seq:
            self._catch_up(event.id, kept, seq, now)
        self._kept[event.id] = kept
        self._trim()
        return kept.house

    def committed(self, event: str, before: int, after: int) -> None:
        """A batch of ours moved the log on, and the house has seen it already. A house that had
        missed others' facts before stays where it was and reads ours once more with theirs."""
        kept = self._kept.get(event)
        if kept and kept.seq == before:
            kept.seq = after

    def forget(self, event: str) -> None:
        """After a rollback the house has seen what never happened."""
        self._kept.pop(event, None)

    def _build(self, event: Event, seq: int) -> Kept:
        plans = [to_plan(row) for row in self._db.execute(SQL["house"], (event.id,))]
        house = House(plans, event.ranking)
        for row in self._db.execute(SQL["busy_seats"], (event.id,)):
            seat = to_seat(row)
            house.set(seat.id, free_from(seat))
        return Kept(house, event.layout, seq, len(plans))

    def _catch_up(self, event: str, kept: Kept, seq: int, now: Millis) -> None:
        touched: set[str] = set()
        rows = self._db.execute(SQL["log_seats"], (event, kept.seq, seq - kept.seq))
        for _, data in rows:
            touched.update(read_data(data).get("seats", ()))
        for seat in Reader(self._db, event, now).seats(sorted(touched)):
            kept.house.set(seat.id, free_from(seat))
        kept.seq = seq

    def _trim(self) -> None:
        while len(self._kept) > 1 and sum(k.seats for k in self._kept.values()) > HOUSE_SEATS_MAX:
            self._kept.pop(next(iter(self._kept)))
