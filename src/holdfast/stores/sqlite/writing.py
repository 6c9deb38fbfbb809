"""Writes what a batch changed, inside its transaction."""

from collections.abc import Iterable

import apsw

from holdfast.domain.audit import Corrections
from holdfast.domain.model import Millis
from holdfast.domain.shelf import Shelf
from holdfast.errors import StoreBusy
from holdfast.stores import rows
from holdfast.stores.rows import Write
from holdfast.stores.sqlite.reading import SQL


class Writer:
    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def write(self, shelf: Shelf, now: Millis) -> int:
        """Writes everything; returns the number of the last fact."""
        last: int = 0
        if shelf.plans:
            last = self._db.execute(SQL["last_position"], (shelf.event_id,)).get
        self._run(rows.changes(shelf, now, last))
        seq: int | None = self._db.execute(SQL["advance"], rows.advance(shelf)).get
        if seq is None:
            raise StoreBusy("the event was changed meanwhile")
        self._run([Write("append", rows.log_rows(shelf, seq, now))])
        return seq

    def mend(self, event: str, fixes: Corrections) -> None:
        self._run(rows.mending(event, fixes))

    def _run(self, writes: Iterable[Write]) -> None:
        for query, bindings, guarded in writes:
            if not bindings:
                continue
            before = self._db.total_changes()
            self._db.executemany(SQL[query], bindings)
            if guarded and self._db.total_changes() - before != len(bindings):
                raise StoreBusy(f"{query}: a guarded row had changed meanwhile")
