"""Writes what a batch changed, inside its transaction: each query once, with a column an array."""

from collections.abc import Iterable

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


class Writer:
    def __init__(self, db: Connection) -> None:
        self._db = db

    async def write(self, shelf: Shelf, now: Millis) -> int:
        """Writes everything; returns the number of the last fact."""
        last = 0
        if shelf.plans:
            last = await self._db.fetchval(SQL["last_position"], shelf.event_id)
        await self._run(rows.changes(shelf, now, last))
        seq: int | None = await self._db.fetchval(SQL["advance"], *rows.advance(shelf))
        if seq is None:
            raise StoreBusy("the event was changed meanwhile")
        await self._run([Write("append", rows.log_rows(shelf, seq, now))])
        return seq

    async def mend(self, event: str, fixes: Corrections) -> None:
        await self._run(rows.mending(event, fixes))

    async def _run(self, writes: Iterable[Write]) -> None:
        for query, bindings, guarded in writes:
            for start in range(0, len(bindings), ROWS_MAX):
                part = bindings[start : start + ROWS_MAX]
                tag = await self._db.execute(SQL[query], *columns(part))
                if guarded and int(tag.rpartition(" ")[2]) != len(part):
                    raise StoreBusy(f"{query}: a guarded row had changed meanwhile")
