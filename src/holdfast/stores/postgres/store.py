"""The authority on PostgreSQL: batches, and all that is read, or kept beside the events."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import asyncpg

from holdfast.domain import audit
from holdfast.domain.facts import Entry
from holdfast.domain.limits import RECORDS_KEPT_MS
from holdfast.domain.model import Hold, Millis, Order
from holdfast.domain.views import Census, Cursor, Document, Move, SeatMap, Statuses, Summary
from holdfast.errors import StoreBusy, StoreError
from holdfast.stores import persist
from holdfast.stores.postgres.arrays import columns, literal
from holdfast.stores.postgres.barrier import Evidence
from holdfast.stores.postgres.batches import Batches
from holdfast.stores.postgres.connections import FLUSH, abandon, drop
from holdfast.stores.postgres.errors import LOST, Connection, translated
from holdfast.stores.postgres.reading import SQL
from holdfast.stores.postgres.ways import NARROW, VIEWS, WIDE, view
from holdfast.stores.postgres.writing import Writer
from holdfast.stores.rows import (
    CENSUS,
    Row,
    first_claims,
    first_moves,
    putting,
    to_census,
    to_cursor,
    to_document,
    to_entry,
    to_head,
    to_hold,
    to_order,
    to_pair,
    to_pool_view,
    to_seat_view,
    to_statuses,
    to_summary,
)


class PostgresStore(Batches):
    one_lane = False

    @asynccontextmanager
    async def _snapshot(self, *, wide: bool = False) -> AsyncIterator[tuple[Connection, Millis]]:
        """Everything read inside is of one moment. `wide`: it reads large parts of tables."""
        with translated(self.url):
            async with self._acquired() as db, view(db, WIDE if wide else NARROW, abandon):
                now = self._clock() if self._clock else await db.fetchval(SQL["now"])
                try:
                    yield db, now
                except (ValueError, KeyError, TypeError) as cause:
                    text = f"{self.url} has a row that cannot be read: {cause}"
                    raise StoreError(text) from cause

    async def summaries(self, event: str | None = None) -> list[Summary]:
        async with self._snapshot(wide=True) as (db, now):
            return [to_summary(row) for row in await db.fetch(SQL["summaries"], now, event)]

    async def seat_map(self, event: str) -> SeatMap | None:
        async with self._snapshot(wide=True) as (db, now):
            counters = await db.fetchrow(VIEWS["counters"], event)
            if counters is None:
                return None
            seats = [to_seat_view(row) for row in await db.fetch(SQL["map_seats"], event, now)]
            pools = [to_pool_view(row) for row in await db.fetch(SQL["map_pools"], event, now)]
            return SeatMap(counters[1], seats, pools)

    async def statuses(self, event: str) -> Statuses | None:
        async with self._snapshot(wide=True) as (db, now):
            standing = await db.fetchrow(SQL["standing"], event)
            if standing is None:
                return None
            ids = await db.fetchrow(SQL["statuses"], event, now)
            return to_statuses(standing, now, ids, await db.fetch(SQL["map_pools"], event, now))

    async def hold(self, event: str, id: str) -> tuple[Hold, Millis] | None:
        async with self._snapshot() as (db, now):
            row = await db.fetchrow(SQL["peek_holds"], event, literal([id]))
            found = (to_hold(row), now) if row else None
            seen = await self._last_fact(db, event)
        await self._durable(seen)
        return found

    async def order(self, event: str, id: str) -> Order | None:
        async with self._snapshot() as (db, _):
            row = await db.fetchrow(SQL["peek_orders"], event, literal([id]))
            found = to_order(row) if row else None
            seen = await self._last_fact(db, event)
        await self._durable(seen)
        return found

    async def due_orders(self, limit: int) -> list[Order]:
        async with self._snapshot() as (db, now):
            return [to_order(row) for row in await db.fetch(SQL["due_orders"], now, limit)]

    async def troubled_orders(self, limit: int) -> list[Order]:
        async with self._snapshot() as (db, _):
            return [to_order(row) for row in await db.fetch(SQL["troubled_orders"], limit)]

    async def log(self, event: str, after: int, limit: int) -> list[Entry]:
        async with self._snapshot() as (db, _):
            rows = await db.fetch(SQL["log"], event, after, limit)
            entries = [to_entry(row) for row in rows]
        await self._durable(*_last_facts(rows))
        return entries

    async def tails(self, after: Mapping[str, int], limit: int) -> list[Entry]:
        if not after:
            return []
        async with self._snapshot() as (db, _):
            rows = await db.fetch(SQL["tails"], *columns([*after.items()]), limit)
            entries = [to_entry(row) for row in rows]
        await self._durable(*_last_facts(rows))
        return entries

    async def prune(self, event: str, through: int, limit: int) -> int:
        """Not waited for: a server that forgets it has pruned nothing."""
        return await persist(lambda: self._changes("prune", (event, through, limit), flush=False))

    async def due(self) -> list[str]:
        async with self._snapshot() as (db, now):
            return [row[0] for row in await db.fetch(SQL["due_events"], now)]

    async def heads(self) -> dict[str, int]:
        async with self._snapshot() as (db, _):
            return dict(to_head(row) for row in await db.fetch(SQL["heads"]))

    async def wake(self, timeout_seconds: float) -> None:
        await self._wakeups.wait(timeout_seconds)

    async def strays(self) -> list[str]:
        async with self._snapshot(wide=True) as (db, _):
            return [row[0] for row in await db.fetch(SQL["strays"])]

    async def census(self, event: str) -> Census | None:
        async with self._snapshot(wide=True) as (db, now):
            return await self._census(db, event, now)

    async def _census(self, db: Connection, event: str, now: Millis) -> Census | None:
        counters = await db.fetchrow(SQL["census_counters"], event)
        config = await db.fetchval(VIEWS["config"], event)
        if counters is None or config is None:
            return None
        rows = {query: await db.fetch(SQL[query], event) for query in CENSUS}
        return to_census(counters, config, now, rows)

    async def mend(self, event: str) -> list[str]:
        with translated(self.url):
            async with self._transaction() as db:
                for rows in ("seats", "pools", "holds", "counter"):
                    await db.fetch(SQL[f"mend_lock_{rows}"], event)
                now = self._clock() if self._clock else await db.fetchval(SQL["now"])
                census = await self._census(db, event, now)
                fixes = audit.corrections(census) if census else None
                if fixes is None or not fixes.changes:
                    await db.execute("ROLLBACK")
                    return []
                await Writer(db).mend(event, fixes)
                # It writes no fact that a barrier could look for.
                await db.execute(FLUSH)
                await self._commit(db)
        return fixes.changes

    async def documents(self, kind: str, id: str | None = None) -> tuple[list[Document], Millis]:
        async with self._snapshot() as (db, now):
            return [to_document(row) for row in await db.fetch(SQL["documents"], kind, id)], now

    async def put(self, document: Document) -> bool:
        return await persist(lambda: self._change(*putting(document)))

    async def drop(self, kind: str, id: str, version: int) -> bool:
        return await persist(lambda: self._change("delete_document", (kind, id, version)))

    async def cursors(self, follower: str | None = None) -> tuple[list[Cursor], Millis]:
        async with self._snapshot() as (db, now):
            return [to_cursor(row) for row in await db.fetch(SQL["cursors"], follower)], now

    async def move(self, follower: str, moves: Sequence[Move]) -> set[str]:
        if not moves:
            return set()
        rows = [(move.event, move.was, move.seq, move.fence) for move in first_moves(moves)]
        return await persist(lambda: self._move(follower, columns(rows)))

    async def _move(self, follower: str, moves: Sequence[str]) -> set[str]:
        with translated(self.url):
            async with self._transaction() as db:
                await db.execute(FLUSH)
                now = self._clock() if self._clock else None
                rows = await db.fetch(SQL["move_cursors"], follower, *moves, now)
                if rows:
                    await self._commit(db)
                else:
                    await db.execute("ROLLBACK")
        return {row[0] for row in rows}

    async def forget(self, follower: str) -> None:
        await persist(lambda: self._changes("forget_cursors", (follower,)))

    async def claim_keys(self, claims: Sequence[tuple[str, str]]) -> list[str]:
        if not claims:
            return []
        return await persist(lambda: self._claim_keys(claims))

    async def _claim_keys(self, claims: Sequence[tuple[str, str]]) -> list[str]:
        """One statement, which is a transaction of its own. What it made is durable with whatever
        is made under the key: that is committed after it."""
        first = first_claims(claims)
        now = self._clock() if self._clock else None
        asked = (*columns(first), now, RECORDS_KEPT_MS, 2 * len(first))
        with translated(self.url):
            async with self._acquired() as db:
                try:
                    rows = await db.fetch(SQL["claim_keys"], *asked)
                except LOST as cause:
                    drop(db)
                    await self._distrust()
                    raise StoreBusy(f"{self.url}: the connection was lost: {cause}") from cause
        counts = dict(to_pair(row) for row in rows)
        return [counts[key] for key, _ in claims]

    async def free_keys(self, claims: Sequence[tuple[str, str]]) -> None:
        if claims:
            await persist(lambda: self._free_keys(columns(sorted(claims))))

    async def _free_keys(self, claims: Sequence[str]) -> None:
        with translated(self.url):
            async with self._transaction() as db:
                await db.execute(FLUSH)
                await db.execute(SQL["free_keys"], *claims)
                await self._commit(db)

    async def _change(self, query: str, args: Row) -> bool:
        """One guarded statement in a transaction of its own; whether it changed a row."""
        return await self._changes(query, args) == 1

    async def _changes(self, query: str, args: Row, *, flush: bool = True) -> int:
        """As above; how many rows it changed. Its commit waits for the disk, and nobody sees it
        before: no barrier is needed."""
        with translated(self.url):
            async with self._transaction() as db:
                if flush:
                    await db.execute(FLUSH)
                tag = await db.execute(SQL[query], *args)
                changed = int(tag.rpartition(" ")[2])
                await (self._commit(db) if changed else db.execute("ROLLBACK"))
        return changed


def _last_facts(rows: "Sequence[asyncpg.Record]") -> list[Evidence]:
    """Of each event, the last of its facts that were read: all before it is durable with it."""
    last = {row["event"]: row for row in rows}
    return [Evidence(event, r["seq"], r["at_ms"], r["data"]) for event, r in last.items()]
