"""Writes what a batch changed, inside its transaction: each query once for a thousand rows."""

from collections.abc import Iterable, Sequence
from operator import itemgetter

from holdfast.domain.audit import Corrections
from holdfast.domain.model import Millis
from holdfast.domain.shelf import Shelf
from holdfast.errors import StoreBusy
from holdfast.stores import rows
from holdfast.stores.mysql.connections import Connection
from holdfast.stores.mysql.errors import inserting
from holdfast.stores.mysql.reading import SQL, by_keys, parts
from holdfast.stores.rows import Row, Write, to_json

ROWS_MAX = 1_000
STATEMENT_CHARS_MAX = 1_000_000
"""Well below the smallest max_allowed_packet that is common, 16 MB: a row may be large."""


class Writer:
    def __init__(self, db: Connection) -> None:
        self._db = db

    async def write(self, shelf: Shelf, now: Millis, new_buyers: set[str]) -> int:
        """Writes everything; returns the number of the last fact."""
        if new_buyers:
            await self._meet(shelf.event_id, _served(shelf) & new_buyers)
        last = 0
        if shelf.plans:
            row = await self._db.one(SQL["last_position"], (shelf.event_id,))
            last = row[0] if row else 0
        await self._run(rows.changes(shelf, now, last))
        seq = await self._db.advance(SQL["advance"], rows.advance(shelf))
        if seq is None:
            raise StoreBusy("the event was changed meanwhile")
        await self._run([Write("append", rows.log_rows(shelf, seq, now))])
        return seq

    async def _meet(self, event: str, buyers: set[str]) -> None:
        """Makes the rows of new buyers. Looks first: a row that is there would be waited for."""
        if await by_keys(self._db, "buyers_now", event, sorted(buyers)):
            raise StoreBusy("another process has met a new buyer meanwhile")
        await self._run([Write("insert_buyer", [(event, buyer) for buyer in buyers])])

    async def mend(self, event: str, fixes: Corrections) -> None:
        await self._run(rows.mending(event, fixes))

    async def _run(self, writes: Iterable[Write]) -> None:
        for query, bindings, guarded in writes:
            if not bindings:
                continue
            matched = await self._write(query, bindings)
            if guarded and matched != len(bindings):
                raise StoreBusy(f"{query}: a guarded row had changed meanwhile")

    async def _write(self, query: str, bindings: list[Row]) -> int:
        """Runs a query in its own form: rows of values, rows of JSON, or a row at a time."""
        if query == "forget_records":
            return await self._forget(bindings[0])
        if query == "forget_keys":
            gone = await self._db.rows(SQL["old_keys"], bindings[0])
            return await self._db.execute(SQL["free_keys"], (to_json(gone),)) if gone else 0
        sql = SQL[query]
        matched = 0
        if "{rows}" in sql:
            # In order of keys, as everybody does: no two who insert wait for each other in a ring.
            for part in parts(sorted(bindings, key=itemgetter(0, 1)), ROWS_MAX):
                matched += await self._insert(sql, part)
        elif "JSON_TABLE" in sql:
            for part in parts(bindings, ROWS_MAX):
                matched += await self._update(sql, part)
        else:
            for row in bindings:
                matched += await self._db.execute(sql, row)
        return matched

    async def _insert(self, sql: str, part: Sequence[Row]) -> int:
        row = "(" + ", ".join(["%s"] * len(part[0])) + ")"
        rows = sql.replace("{rows}", ", ".join([row] * len(part)))
        statement = self._db.render(rows, [value for each in part for value in each])
        if len(statement) <= STATEMENT_CHARS_MAX or len(part) == 1:
            _insert, _into, table, _rest = sql.split(None, 3)
            with inserting(table):
                return await self._db.send(statement)
        middle = len(part) // 2
        return await self._insert(sql, part[:middle]) + await self._insert(sql, part[middle:])

    async def _update(self, sql: str, part: Sequence[Row]) -> int:
        named = to_json(part)
        if len(named) <= STATEMENT_CHARS_MAX or len(part) == 1:
            return await self._db.execute(sql, (named,))
        middle = len(part) // 2
        return await self._update(sql, part[:middle]) + await self._update(sql, part[middle:])

    async def _forget(self, old: Row) -> int:
        event, *_ = old
        ids = [id for id, _ in await self._db.rows(SQL["old_records"], old)]
        return await self._db.execute(SQL["forget_records"], (to_json(ids), event)) if ids else 0


def _served(shelf: Shelf) -> set[str]:
    """The buyers of what the batch has made."""
    holds = {hold.buyer for was, hold in shelf.holds.changes() if was is None}
    return holds | {order.buyer for was, order in shelf.orders.changes() if was is None}
