"""Writes what a batch changed, inside its transaction: each query once, with a column an array."""

from collections.abc import Iterable, Sequence

from holdfast.domain.audit import Corrections
from holdfast.domain.model import Millis
from holdfast.domain.shelf import Shelf
from holdfast.errors import StoreBusy
from holdfast.stores import rows
from holdfast.stores.postgres.arrays import columns
from holdfast.stores.postgres.errors import Connection
from holdfast.stores.postgres.reading import SQL
from holdfast.stores.rows import Write

ROWS_MAX = 10_000
"""In one statement: only a new event has more, and no statement may outlast its timeout."""


PLACING = ["update_seat", "insert_hold"]
"""The writes of a batch that only places holds on seats."""


def _short(writes: Sequence[Write]) -> bool:
    return all(len(write.rows) <= ROWS_MAX for write in writes)


class Writer:
    def __init__(self, db: Connection) -> None:
        self._db = db

    async def write(self, shelf: Shelf, now: Millis) -> int:
        """Writes everything; returns the number of the last fact."""
        last = 0
        if shelf.plans:
            last = await self._db.fetchval(SQL["last_position"], shelf.event_id)
        writes = [write for write in rows.changes(shelf, now, last) if write.rows]
        facts = columns([(fact.type, rows.to_json(fact.data)) for fact in shelf.facts])
        facts = facts or ["{}", "{}"]
        moved = (*rows.advance(shelf), now, *facts)
        if [write.query for write in writes] == PLACING and _short(writes):
            seats, holds = (write.rows for write in writes)
            counts = (len(seats), len(holds))
            seq = await self._db.fetchval(
                SQL["place"], *moved, *columns(seats), *columns(holds), *counts
            )
        else:
            await self._run(writes)
            seq = await self._db.fetchval(SQL["advance"], *moved)
        if seq is None:
            raise StoreBusy("the event, or a guarded row, was changed meanwhile")
        return int(seq)

    async def mend(self, event: str, fixes: Corrections) -> None:
        await self._run(rows.mending(event, fixes))

    async def _run(self, writes: Iterable[Write]) -> None:
        for query, bindings, guarded in writes:
            for start in range(0, len(bindings), ROWS_MAX):
                part = bindings[start : start + ROWS_MAX]
                tag = await self._db.execute(SQL[query], *columns(part))
                if guarded and int(tag.rpartition(" ")[2]) != len(part):
                    raise StoreBusy(f"{query}: a guarded row had changed meanwhile")
