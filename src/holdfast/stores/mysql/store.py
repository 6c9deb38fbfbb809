"""The authority on MySQL or MariaDB: READ COMMITTED, the lock order of `domain.batch`, the
database's clock, and no lock that outlives a batch."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from operator import itemgetter
from typing import Any

from holdfast.domain import audit
from holdfast.domain.batch import Fetch, What, run
from holdfast.domain.commands import Command
from holdfast.domain.facts import Entry
from holdfast.domain.limits import RECORDS_KEPT_MS
from holdfast.domain.model import Event, Hold, Millis, Order
from holdfast.domain.outcomes import Answer
from holdfast.domain.seating import House
from holdfast.domain.shelf import Shelf, Totals
from holdfast.domain.views import Census, Cursor, Document, Move, SeatMap, Statuses, Summary
from holdfast.errors import CommitUnknown, HoldfastError, StoreBusy, StoreError, StoreUnavailable
from holdfast.ports import Committed, nothing
from holdfast.settings import Settings
from holdfast.stores import Clock, drive_async, persist
from holdfast.stores.addresses import without_secrets
from holdfast.stores.houses import Houses, Unbuilt, build
from holdfast.stores.mysql import schema
from holdfast.stores.mysql.connections import Connection, Pool, connect
from holdfast.stores.mysql.errors import (
    DRIVER,
    DUPLICATE,
    LACKING,
    code_of,
    lost,
    said,
    translated,
)
from holdfast.stores.mysql.reading import SQL, Reader, by_keys, parts, server_clock
from holdfast.stores.mysql.writing import Writer
from holdfast.stores.rows import (
    BETWEEN,
    CENSUS,
    Row,
    first_claims,
    first_moves,
    putting,
    read_config,
    to_census,
    to_cursor,
    to_document,
    to_entry,
    to_head,
    to_hold,
    to_json,
    to_key_use,
    to_order,
    to_pool_view,
    to_seat_view,
    to_statuses,
    to_summary,
)

WAKE_FIRST_SECONDS = 0.01
WAKE_LAST_SECONDS = 0.1
TAILS_MAX = 100
"""Events whose facts one statement reads."""


class MysqlStore:
    one_lane = False

    def __init__(self, url: str, settings: Settings, clock: Clock | None = None) -> None:
        self.url = without_secrets(url)
        self._dsn = url
        self._settings = settings
        self._clock = clock
        self._houses = Houses()
        self._configs: dict[str, Event] = {}
        self._pool: Pool | None = None
        self._scouts = Pool(self._connect_scout, 1, settings, patient=False)

    async def open(self) -> None:
        with translated(self.url):
            db = await self._connect()
            try:
                found = await schema.version(db)
                if found == 0:
                    await self._make_schema(db)
                else:
                    schema.compare(found, self.url)
            finally:
                await db.quit()
        self._pool = Pool(self._connect, self._settings.pool_max, self._settings)

    async def _make_schema(self, db: Connection) -> None:
        try:
            await schema.migrate(db)
        except DRIVER as cause:
            if code_of(cause) not in LACKING:
                raise
            raise StoreUnavailable(
                f"{self.url}: the schema is not there, or not for this user to see: its owner runs "
                f"holdfast migrate and grants the rights ({said(cause)})"
            ) from cause

    async def _connect(self) -> Connection:
        return await connect(self._dsn, self.url, self._settings)

    async def _connect_scout(self) -> Connection:
        return await connect(self._dsn, self.url, self._settings, autocommit=True)

    async def close(self) -> None:
        await self._scouts.close()
        if self._pool is not None:
            await self._pool.close()
            self._pool = None

    async def migrate(self) -> list[str]:
        with translated(self.url):
            db = await self._connect()
            try:
                done = await schema.migrate(db)
                schema.compare(await schema.version(db), self.url)
                return done
            finally:
                await db.quit()

    async def has_schema(self) -> bool:
        """Looks, and makes nothing."""
        async with self.session(self._settings.connect_timeout_seconds) as db:
            return await schema.version(db) != 0

    @asynccontextmanager
    async def session(self, patience_seconds: float) -> AsyncIterator[Connection]:
        """A connection beside the pool's, for those who look or measure. What the driver raises is
        translated."""
        with translated(self.url):
            db = await self._connect()
            db.patience_seconds = patience_seconds
            try:
                yield db
            finally:
                await db.quit()

    async def apply(
        self, commands: Sequence[Command], committed: Committed = nothing
    ) -> list[Answer]:
        with translated(self.url):
            while True:
                try:
                    async with self._transaction() as db:
                        answers = await self._apply(db, commands[0].event, commands)
                    self._houses.trim()
                    return answers
                except Unbuilt as missing:
                    await self._build(missing.event)

    async def _build(self, event: Event) -> None:
        async with self._reading() as db:
            rows = await db.stream(SQL["house"], (event.id,))
        self._houses.keep(event, await asyncio.to_thread(build, event, rows))

    async def _apply(self, db: Connection, event: str, commands: Sequence[Command]) -> list[Answer]:
        config, seq, totals = await self._config(db, event)
        reader = Reader(db, event, self._scouts)
        shelf = Shelf(event, config, self._houses.peek(event), totals, hinted=True)
        shelf.as_of = seq
        now: Millis = 0

        async def fetch(want: Fetch) -> Sequence[Any]:
            nonlocal now
            if want.what is What.HOUSE:
                return [await self._house(reader, config)] if config else []
            if want.what is What.NOW:
                now = await self._now(db)
                return [now]
            if want.what is What.DUE:
                want = Fetch(want.what, want.keys, await self._now(db))
            return await reader.fetch(want)

        try:
            answers = await drive_async(run(shelf, commands), fetch)
            shelf.unskip()
            if not shelf.changed:
                # Nothing to commit: the commit of nothing would still cost a flush.
                await db.rollback()
                return answers
            last = await Writer(db).write(shelf, now, reader.new_buyers)
            await self._commit(db)
        except BaseException:
            self._houses.forget(event)
            self._configs.pop(event, None)
            raise
        if shelf.event is not None:
            self._configs[event] = shelf.event
        self._houses.committed(event, last - len(shelf.facts), last)
        return answers

    async def _house(self, reader: Reader, config: Event) -> House:
        """Up to date with what was committed while the batch waited for its locks, too."""
        return await reader.house(self._houses.current(config, await reader.seq()))

    async def _commit(self, db: Connection) -> None:
        """Whatever goes wrong with a commit, it may have happened."""
        try:
            await db.commit()
        except DRIVER as cause:
            text = f"{self.url} did not answer a commit: {said(cause)}"
            raise CommitUnknown(text) from cause

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[Connection]:
        """A connection, which goes into a transaction with its first statement. Lost before its
        commit, it surely changed nothing, and the batch may run again on another."""
        pool = self._opened()
        async with pool.connection() as db:
            try:
                yield db
            except CommitUnknown:
                db.close()
                pool.drop_idle()
                raise
            except HoldfastError:
                await _abandon(db)
                raise
            except DRIVER as cause:
                if not lost(cause):
                    # The server is there: it shall let go of our locks before we run again.
                    await _abandon(db)
                    db.close()
                    raise
                db.close()
                pool.drop_idle()
                raise StoreBusy(f"{self.url}: the connection was lost: {said(cause)}") from cause
            except BaseException:
                db.close()
                raise

    def _opened(self) -> Pool:
        if self._pool is None:
            raise StoreUnavailable(f"{self.url} is not open")
        return self._pool

    async def _now(self, db: Connection) -> Millis:
        return self._clock() if self._clock else await server_clock(db)

    async def _config(self, db: Connection, event: str) -> tuple[Event | None, int, Totals]:
        """As it stands, how far the log is, and what the event has."""
        row = await db.one(SQL["counters"], (event,))
        if row is None:
            return None, 0, Totals()
        version, seq, *totals = row
        config = self._configs.get(event)
        if config is None or config.version != version:
            found = await db.one(SQL["config"], (event,))
            if found is None:
                return None, 0, Totals()
            config = self._configs[event] = read_config(found[0])
        return config, seq, Totals(*totals)

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[Connection]:
        """What one statement reads is of one moment."""
        with translated(self.url):
            pool = self._opened()
            async with pool.connection() as db:
                try:
                    yield db
                    await db.rollback()
                except DRIVER as cause:
                    if lost(cause):
                        pool.drop_idle()
                    raise
                except (ValueError, KeyError, TypeError) as cause:
                    text = f"{self.url} has a row that cannot be read: {cause}"
                    raise StoreError(text) from cause

    @asynccontextmanager
    async def _snapshot(self) -> AsyncIterator[Connection]:
        """Everything read inside is of one moment."""
        async with self._reading() as db:
            await db.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            await db.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
            yield db

    async def summaries(self, event: str | None = None) -> list[Summary]:
        async with self._reading() as db:
            rows = await db.rows(SQL["summaries"], (await self._now(db), event))
            return [to_summary(row) for row in rows]

    async def seat_map(self, event: str) -> SeatMap | None:
        async with self._snapshot() as db:
            counters = await db.one(SQL["counters"], (event,))
            if counters is None:
                return None
            at = (await self._now(db), event)
            seats = [to_seat_view(row) for row in await db.stream(SQL["map_seats"], at)]
            pools = [to_pool_view(row) for row in await db.rows(SQL["map_pools"], at)]
            return SeatMap(counters[1], seats, pools)

    async def statuses(self, event: str) -> Statuses | None:
        async with self._snapshot() as db:
            standing = await db.one(SQL["standing"], (event,))
            if standing is None:
                return None
            now = await self._now(db)
            parts = await db.rows(SQL["statuses"], (event, now))
            ids = tuple(_joined(parts, sold) for sold in (0, 1))
            return to_statuses(standing, now, ids, await db.rows(SQL["map_pools"], (now, event)))

    async def hold(self, event: str, id: str) -> tuple[Hold, Millis] | None:
        async with self._reading() as db:
            rows = await by_keys(db, "peek_holds", event, [id])
            return (to_hold(rows[0]), await self._now(db)) if rows else None

    async def order(self, event: str, id: str) -> Order | None:
        async with self._reading() as db:
            rows = await by_keys(db, "peek_orders", event, [id])
            return to_order(rows[0]) if rows else None

    async def due_orders(self, limit: int) -> list[Order]:
        async with self._reading() as db:
            rows = await db.rows(SQL["due_orders"], (await self._now(db), limit))
            return [to_order(row) for row in rows]

    async def troubled_orders(self, limit: int) -> list[Order]:
        async with self._reading() as db:
            return [to_order(row) for row in await db.rows(SQL["troubled_orders"], (limit,))]

    async def log(self, event: str, after: int, limit: int) -> list[Entry]:
        async with self._reading() as db:
            rows = await db.stream(SQL["log"], (event, after, limit))
            return [to_entry(row) for row in rows]

    async def tails(self, after: Mapping[str, int], limit: int) -> list[Entry]:
        rows: list[Row] = []
        async with self._reading() as db:
            for part in parts([*after.items()], TAILS_MAX):
                sql = "\nUNION ALL\n".join([SQL["tail"]] * len(part))
                args = [each for event, seq in part for each in (event, seq, limit)]
                rows += await db.stream(sql, args)
            # In what order the parts come, no server promises.
            rows.sort(key=itemgetter(0, 1))
            return [to_entry(row) for row in rows]

    async def prune(self, event: str, through: int, limit: int) -> int:
        return await persist(lambda: self._prune(event, through, limit))

    async def _prune(self, event: str, through: int, limit: int) -> int:
        with translated(self.url):
            async with self._transaction() as db:
                first, last = await db.one(SQL["log_ends"], (event,)) or (None, None)
                if first is None:
                    await db.rollback()
                    return 0
                # The last fact stays, else nobody could tell a log that was pruned from one that
                # is empty.
                end = min(through + 1, first + limit, last)
                pruned = await db.execute(SQL["prune"], (event, end))
                await self._commit(db)
        return pruned

    async def due(self) -> list[str]:
        async with self._reading() as db:
            rows = await db.rows(SQL["due_events"], (await self._now(db),))
            return [event for (event,) in rows]

    async def heads(self) -> dict[str, int]:
        async with self._reading() as db:
            return dict(to_head(row) for row in await db.rows(SQL["heads"]))

    async def wake(self, timeout_seconds: float) -> None:
        """These servers tell nobody: one cheap query for all events, less and less often."""
        ends = asyncio.get_running_loop().time() + timeout_seconds
        pause = WAKE_FIRST_SECONDS
        before = await self._pulse()
        while (left := ends - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(min(pause, left))
            pause = min(2 * pause, WAKE_LAST_SECONDS)
            if await self._pulse() != before:
                return

    async def _pulse(self) -> Row | None:
        """None while the server cannot be reached: nothing moves then."""
        try:
            async with self._reading() as db:
                return await db.one(SQL["pulse"])
        except StoreError:
            return None

    async def strays(self) -> list[str]:
        async with self._reading() as db:
            return [event for (event,) in await db.rows(SQL["strays"])]

    async def census(self, event: str) -> Census | None:
        async with self._snapshot() as db:
            await db.take_time()
            return await self._census(db, event)

    async def _census(self, db: Connection, event: str) -> Census | None:
        counters = await db.one(SQL["census_counters"], (event,))
        config = await db.one(SQL["config"], (event,))
        if counters is None or config is None:
            return None
        now = await self._now(db)
        rows = {query: await db.stream(SQL[query], (event,)) for query in CENSUS}
        return to_census(counters, config[0], now, rows)

    async def mend(self, event: str) -> list[str]:
        with translated(self.url):
            async with self._transaction() as db:
                await db.take_time()
                for rows in ("seats", "pools", "holds", "counter"):
                    await db.stream(SQL[f"mend_lock_{rows}"], (event,))
                census = await self._census(db, event)
                fixes = audit.corrections(census) if census else None
                if fixes is None or not fixes.changes:
                    await db.rollback()
                    return []
                await Writer(db).mend(event, fixes)
                await self._commit(db)
        return fixes.changes

    async def documents(self, kind: str, id: str | None = None) -> tuple[list[Document], Millis]:
        async with self._reading() as db:
            rows = await db.rows(SQL["documents"], (kind, id))
            # The driver hands out a MEDIUMTEXT as bytes.
            found = [to_document((*key, body.decode())) for *key, body in rows]
            return found, await self._now(db)

    async def put(self, document: Document) -> bool:
        return await persist(lambda: self._change(*putting(document)))

    async def drop(self, kind: str, id: str, version: int) -> bool:
        return await persist(lambda: self._change("delete_document", (kind, id, version)))

    async def cursors(self, follower: str | None = None) -> tuple[list[Cursor], Millis]:
        async with self._reading() as db:
            rows = await db.rows(SQL["cursors"], (follower,))
            return [to_cursor(row) for row in rows], await self._now(db)

    async def move(self, follower: str, moves: Sequence[Move]) -> set[str]:
        if not moves:
            return set()
        return await persist(lambda: self._move(follower, first_moves(moves)))

    async def _move(self, follower: str, moves: Sequence[Move]) -> set[str]:
        begun = [(move.event,) for move in moves if not move.was]
        with translated(self.url):
            async with self._transaction() as db:
                now = await self._now(db)
                if begun:
                    await db.execute(SQL["begin_cursors"], (follower, now, to_json(begun)))
                events = [move.event for move in moves]
                rows = await by_keys(db, "lock_cursors", follower, events)
                moved = _moved(moves, rows, now)
                if moved:
                    await db.execute(SQL["move_cursors"], (to_json(moved), follower))
                    await self._commit(db)
                else:
                    await db.rollback()
        return {event for event, *_ in moved}

    async def forget(self, follower: str) -> None:
        await persist(lambda: self._forget(follower))

    async def _forget(self, follower: str) -> None:
        with translated(self.url):
            async with self._transaction() as db:
                await db.execute(SQL["forget_cursors"], (follower,))
                await self._commit(db)

    async def claim_keys(self, claims: Sequence[tuple[str, str]]) -> list[str]:
        return await persist(lambda: self._claim_keys(claims))

    async def _claim_keys(self, claims: Sequence[tuple[str, str]]) -> list[str]:
        first = first_claims(claims)
        named = to_json(first)
        with translated(self.url):
            async with self._transaction() as db:
                now = await self._now(db)
                old = now - RECORDS_KEPT_MS
                await db.execute(SQL["claim_keys"], (now, named, old, old, now))
                rows = await db.rows(SQL["key_uses"], (to_json([key for key, _ in first]),))
                counts = {use.id: use.digest for use in map(to_key_use, rows)}
                gone = await db.rows(SQL["old_keys"], (old, 2 * len(first)))
                if gone:
                    await db.execute(SQL["free_keys"], (to_json(gone),))
                await self._commit(db)
        return [counts[key] for key, _ in claims]

    async def free_keys(self, claims: Sequence[tuple[str, str]]) -> None:
        await persist(lambda: self._free_keys(to_json(sorted(claims))))

    async def _free_keys(self, claims: str) -> None:
        with translated(self.url):
            async with self._transaction() as db:
                await db.execute(SQL["free_keys"], (claims,))
                await self._commit(db)

    async def _change(self, query: str, args: Row) -> bool:
        """One guarded statement in a transaction of its own; whether it changed a row."""
        with translated(self.url):
            async with self._transaction() as db:
                try:
                    matched = await db.execute(SQL[query], args)
                except DRIVER as cause:
                    if code_of(cause) != DUPLICATE:
                        raise
                    matched = 0
                if not matched:
                    await db.rollback()
                    return False
                await self._commit(db)
        return True


async def _abandon(db: Connection) -> None:
    """Rolls back, or drops the connection where even that gets no answer."""
    try:
        await db.rollback()
    except DRIVER:
        db.close()


def _moved(moves: Sequence[Move], rows: Sequence[Row], now: Millis) -> list[Row]:
    """What becomes of the cursors that stand where they were, and have no higher fence."""
    there = {event: cursor for event, *cursor in rows}
    moved: list[Row] = []
    for move in moves:
        seq, fence, moved_ms = there.get(move.event, (None, 0, 0))
        if seq == move.was and fence <= move.fence:
            at = moved_ms if seq == move.seq else now
            moved.append((move.event, move.seq, move.fence, at))
    return moved


def _joined(parts: Sequence[Row], sold: int) -> str:
    """The ids of seats, of the parts that the server made of them."""
    chosen = [(count, bytes(ids).decode()) for kind, count, ids in parts if kind == sold]
    for count, ids in chosen:
        if ids.count(BETWEEN) != count - 1:
            raise ValueError("the server cut a list of seats: raise its max_allowed_packet")
    return BETWEEN.join(ids for _, ids in chosen)
