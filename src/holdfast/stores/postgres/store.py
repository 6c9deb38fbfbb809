"""The authority on PostgreSQL: READ COMMITTED, the lock order of `domain.batch`, the database's
clock, and no lock that outlives a batch."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from holdfast.domain import audit
from holdfast.domain.batch import Fetch, What, run
from holdfast.domain.commands import Command
from holdfast.domain.facts import Entry
from holdfast.domain.model import Event, Hold, Millis, Order
from holdfast.domain.outcomes import Answer, Reason, Refused
from holdfast.domain.shelf import Shelf, Totals
from holdfast.domain.views import Census, Cursor, Document, Move, SeatMap, Statuses, Summary
from holdfast.errors import CommitUnknown, SettingsError, StoreBusy, StoreError, StoreUnavailable
from holdfast.ports import Committed, nothing
from holdfast.settings import Settings
from holdfast.stores import Clock, drive_async, persist
from holdfast.stores.addresses import without_secrets
from holdfast.stores.houses import Houses, Unbuilt, build
from holdfast.stores.postgres import schema, ways
from holdfast.stores.postgres.address import check_address, unusable
from holdfast.stores.postgres.arrays import columns, literal
from holdfast.stores.postgres.barrier import Barrier, Evidence
from holdfast.stores.postgres.errors import LOST, Connection, said, translated
from holdfast.stores.postgres.presumed import Neighbours, Presumptions
from holdfast.stores.postgres.quick import Look, NotQuick, fits
from holdfast.stores.postgres.reading import SQL, Reader
from holdfast.stores.postgres.recent import Recent
from holdfast.stores.postgres.wakeups import Wakeups
from holdfast.stores.postgres.ways import NARROW, VIEWS, WIDE, view
from holdfast.stores.postgres.writing import Writer
from holdfast.stores.rows import (
    CENSUS,
    RECORDS_KEPT_MS,
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
    to_order,
    to_pair,
    to_pool_view,
    to_seat_view,
    to_statuses,
    to_summary,
)

FLUSH = "SET LOCAL synchronous_commit = on"
GUARDED = (asyncpg.DivisionByZeroError, asyncpg.IntegrityConstraintViolationError)
"""What a write fails with where something is not as it was taken to be."""
DOUBTFUL_MAX = 100_000
BUILD_SECONDS = 60.0
"""For reading the plan of a house of a million seats."""
MIGRATE_SECONDS = 3600.0
"""For a step of a migration, which may have to walk through large tables."""
PATIENCE_SECONDS = 1.0
"""How much longer than the server's own limit we wait for a server that does not answer at all."""
REFUSED_SECONDS = 0.5
"""For so long we do without a connection that the server did not admit, before we ask again."""


class PostgresStore:
    one_lane = False

    def __init__(self, url: str, settings: Settings, clock: Clock | None = None) -> None:
        self.url = without_secrets(url)
        check_address(url, self.url)
        self._dsn = url
        self._settings = settings
        self._clock = clock
        self.pooled = True  # assumed until the first connection tells
        self._houses = Houses()
        self._configs: dict[str, Event] = {}
        self._recent = Recent()
        self._presumptions = Presumptions()
        self._server_started: object = None
        self._pool: asyncpg.Pool | None = None
        self._places = asyncio.Semaphore(settings.pool_max)
        self._barrier = Barrier(self._flush)
        self._barrier_db: Connection | None = None
        self._wakeups = Wakeups(self._connect)
        self._ways = ways.of_a_batch(settings)
        self._doubtful: set[str] = set()
        """Commands that may have been done, until they are run again: that is looked up."""

    @property
    def _begin(self) -> str:
        """One round trip. Behind a pooler what a connection was told is soon told to another."""
        begin = "BEGIN ISOLATION LEVEL READ COMMITTED"
        if not self.pooled:
            return begin
        return "; ".join([begin, *(f"SET LOCAL {way}" for way in self._ways)])

    async def _tell_ways(self, db: Connection) -> None:
        # Where the others went, the server may have forgotten what was seen of it.
        self._configs.clear()
        if not self.pooled:
            await db.execute("; ".join(f"SET {way}" for way in self._ways))

    async def open(self) -> None:
        with translated(self.url):
            db = await self._connect()
            try:
                self.pooled = await _through_a_pooler(db)
                found = await schema.version(db)
            finally:
                await db.close()
            if found == 0:
                await self._make_schema()
            else:
                schema.compare(found, self.url)
            # From none: a pool that has to keep some logs a traceback whenever the server is away.
            self._pool = await asyncpg.create_pool(
                self._dsn,
                min_size=0,
                max_size=self._settings.pool_max,
                reset=_no_reset,
                init=self._tell_ways,
                **self._options(),
            )
            await self._first_connections(self._pool)
        self._wakeups.start(listening=not self.pooled)

    async def _first_connections(self, pool: "asyncpg.Pool") -> None:
        """One for batches and one for the barrier, before either may have all that a server with
        few connections admits."""
        try:
            await pool.release(await pool.acquire())
            if self._settings.early_release:
                self._barrier_db = await self._connect_barrier()
        except asyncpg.TooManyConnectionsError:
            pass  # there is one at least, or there will be: whoever needs it waits for it
        except BaseException:
            pool.terminate()
            raise

    async def _make_schema(self) -> None:
        try:
            await self._migrate()
        except asyncpg.InsufficientPrivilegeError as cause:
            raise StoreUnavailable(
                f"{self.url}: the schema is not there: its owner runs holdfast migrate; "
                f"this user may not ({said(cause)})"
            ) from cause

    def _options(self) -> dict[str, Any]:  # keyword arguments of asyncpg.connect
        patience = self._settings.statement_timeout_ms / 1000 + PATIENCE_SECONDS
        # A pooler may give each transaction another server, which knows no statement of ours.
        cache = {"statement_cache_size": 0} if self.pooled else {}
        connect = self._settings.connect_timeout_seconds
        return {"timeout": connect, "command_timeout": patience, **cache}

    async def _connect(self, **more: Any) -> Connection:  # more options, as above
        try:
            return await asyncpg.connect(self._dsn, **{**self._options(), **more})
        except asyncpg.ClientConfigurationError as cause:
            raise SettingsError(f"{self.url} is not a PostgreSQL address: {cause}") from cause
        except (ValueError, OverflowError):
            raise unusable(self.url) from None

    async def _connect_barrier(self) -> Connection:
        db = await self._connect()
        if not self.pooled:
            await db.execute("; ".join(f"SET {way}" for way in ways.BY_KEY))
        return db

    async def close(self) -> None:
        await self._wakeups.stop()
        if self._barrier_db is not None:
            self._barrier_db.terminate()
        if self._pool is not None:
            await self._pool.close()

    async def migrate(self) -> list[str]:
        with translated(self.url):
            return await self._migrate()

    async def _migrate(self) -> list[str]:
        db = await self._connect(command_timeout=MIGRATE_SECONDS)
        try:
            done = await schema.migrate(db)
            schema.compare(await schema.version(db), self.url)
            return done
        finally:
            await db.close()

    async def has_schema(self) -> bool:
        """Looks, and makes nothing."""
        async with self.session(self._settings.connect_timeout_seconds) as db:
            return await schema.version(db) != 0

    @asynccontextmanager
    async def session(self, patience_seconds: float) -> AsyncIterator[Connection]:
        """A connection beside the pool's, for those who look or measure. What the driver raises is
        translated."""
        with translated(self.url):
            db = await self._connect(command_timeout=patience_seconds)
            try:
                yield db
            finally:
                await db.close()

    async def apply(
        self, commands: Sequence[Command], committed: Committed = nothing
    ) -> list[Answer]:
        try:
            with translated(self.url):
                done = await self._quickly(commands[0].event, commands)
                while done is None:
                    try:
                        async with self._transaction() as db:
                            done = await self._apply(db, commands[0].event, commands)
                    except Unbuilt as missing:
                        await self._build(missing.event)
            answers, evidence = done
            self._houses.trim()
            committed()
            if not all(_harmless(answer) for answer in answers):
                await self._durable(evidence)
        except CommitUnknown:
            if len(self._doubtful) > DOUBTFUL_MAX:
                self._doubtful.clear()  # of commands that nobody has run again
            self._doubtful.update(command.id for command in commands)
            raise
        if self._doubtful:
            self._doubtful.difference_update([command.id for command in commands])
        return answers

    def _may_be_quick(self, event: str) -> bool:
        """Not where a house is kept: it would have to be told, and untold if that fails."""
        if self.pooled or not self._settings.early_release:
            return False
        return self._houses.peek(event) is None

    async def _quickly(
        self, event: str, commands: Sequence[Command], *, trusting: bool = True
    ) -> tuple[list[Answer], Evidence | None] | None:
        """Looks, decides, and writes under guard, without a lock; None if it has to be done with
        locks. `trusting`: what was written here a moment ago, and what is most probably so, is
        not looked at first."""
        config = self._configs.get(event)
        if not self._may_be_quick(event) or not fits(config, commands):
            return None
        if self._doubtful and any(command.id in self._doubtful for command in commands):
            return None
        assert config is not None
        shelf = Shelf(event, config)
        async with self._acquired() as db:
            if self._configs.get(event) is not config:
                return None  # a new connection: the server may have forgotten it
            # Of one moment: the server that is looked at is the one that was written to.
            written = self._recent.of(event) if trusting else None
            presumed = self._presumed(config) if trusting else None
            look = Look(
                db, config, shelf, commands, self._server_started, written, presumed, self._clock
            )
            try:
                answers = await drive_async(run(shelf, commands), look.fetch)
                if look.sure:
                    return await self._written_alone(db, look, shelf, answers)
            except LOST as cause:
                _drop(db)
                await self._distrust()
                raise CommitUnknown(f"{self.url} did not answer a batch: {said(cause)}") from cause
            except NotQuick:
                return None
            except (StoreBusy, asyncpg.PostgresError) as cause:
                # Whatever it is, it is found again, and dealt with, under locks; perhaps it was
                # because of a row that is no longer as it was recalled.
                self._recent.forget(event)
                if not (look.presumed and isinstance(cause, GUARDED)):
                    return None
                self._presumptions.failed(event)
            except asyncio.CancelledError:
                _drop(db)
                raise
        return await self._quickly(event, commands, trusting=False)

    async def _written_alone(
        self, db: Connection, look: Look, shelf: Shelf, answers: list[Answer]
    ) -> tuple[list[Answer], Evidence | None] | None:
        """As `_quickly`, of a batch that was decided."""
        if not shelf.changed:
            return (answers, None) if all(map(_harmless, answers)) else None
        if not shelf.facts:
            return None
        timed = not look.looked and self._clock is None
        flushed = self._barrier.quick
        done = await Writer(db).write_alone(shelf, look.now, timed=timed, flushed=flushed)
        if done is None:
            return None
        event = shelf.event_id
        self._recent.learn(event, shelf)
        self._presumptions.told(done.server_ms)
        self._presumptions.learn(event, look.seen, done.last)
        self._wakeups.notify()
        if done.durable:
            return answers, None
        return answers, Evidence(event, done.last, look.now, to_json(shelf.facts[-1].data))

    def _presumed(self, config: Event) -> tuple[Neighbours, Millis] | None:
        """What seats of the event are like, and what time it is, if both may be presumed."""
        neighbours = self._presumptions.of(config.id)
        now = self._clock() if self._clock else self._presumptions.now()
        if neighbours is None or now is None:
            return None
        # What is held at the new prices is not held before they came.
        changed_ms = config.earlier_prices[-1][0] if config.earlier_prices else 0
        return neighbours, max(now, changed_ms)

    async def _build(self, event: Event) -> None:
        async with self._transaction() as db:
            await db.execute("SET LOCAL statement_timeout = 0")
            rows = await db.fetch(SQL["house"], event.id, timeout=BUILD_SECONDS)
            await db.execute("ROLLBACK")
        self._houses.keep(event, await asyncio.to_thread(build, event, rows))

    async def _durable(self, *evidence: Evidence | None) -> None:
        """Returns when all that was seen or done so far is on disk. What was seen, others may have
        committed a moment ago: the evidence is the last fact, whoever wrote it."""
        seen = [each for each in evidence if each is not None]
        if not self._settings.early_release or not seen:
            return
        try:
            await self._barrier.wait(*seen)
        except BaseException:
            # What was committed may be lost, and with it what houses and configurations know.
            self._houses.forget_all()
            self._configs.clear()
            self._recent.forget_all()
            self._presumptions.forget_all()
            raise

    async def _last_fact(self, db: Connection, event: str) -> Evidence | None:
        """All that was read so far was committed before it, or with it."""
        row = await db.fetchrow(SQL["last_fact"], event)
        return Evidence(event, *row) if row else None

    async def _apply(
        self, db: Connection, event: str, commands: Sequence[Command]
    ) -> tuple[list[Answer], Evidence | None]:
        """Decides, writes and commits; returns what shows that none of it was lost."""
        config, seq, totals = await self._config(db, event)
        reader = Reader(db, event)
        shelf = Shelf(event, config, self._houses.peek(event), totals, hinted=True)
        shelf.as_of = seq
        now: Millis = 0

        async def fetch(want: Fetch) -> Sequence[Any]:
            nonlocal now
            if want.what is What.HOUSE:
                # As of now, not of before the locks were waited for.
                head = await db.fetchval(SQL["head"], event)
                return [await reader.house(self._houses.current(config, head))] if config else []
            if want.what is What.NOW:
                now = self._clock() if self._clock else (await reader.fetch(want))[0]
                self._presumptions.told(now)
                return [now]
            if want.what is What.DUE and self._clock:
                want = Fetch(want.what, want.keys, self._clock())
            return await reader.fetch(want)

        try:
            answers = await drive_async(run(shelf, commands), fetch)
            shelf.unskip()
            if not shelf.changed:
                told = not all(_harmless(answer) for answer in answers)
                seen = await self._last_fact(db, event) if told else None
                # Nothing to commit: the commit of nothing would still cost a flush.
                await db.execute("ROLLBACK")
                return answers, seen
            last = await Writer(db).write(shelf, now)
            if not shelf.facts:
                # A step of a checkout: it writes no fact that a barrier could look for.
                await db.execute(FLUSH)
            await self._commit(db)
        except BaseException:
            self._houses.forget(event)
            self._configs.pop(event, None)
            self._recent.forget(event)
            raise
        if shelf.event is not None:
            self._configs[event] = shelf.event
        self._houses.committed(event, last - len(shelf.facts), last)
        if self._may_be_quick(event):
            self._recent.learn(event, shelf)
        if not shelf.facts:
            return answers, None
        self._wakeups.notify()
        return answers, Evidence(event, last, now, to_json(shelf.facts[-1].data))

    async def _commit(self, db: Connection) -> None:
        try:
            # Without the limit: cancelled while it waits for a standby, a commit would be reported
            # as done. Whoever waits too long for it here does not know, and finds out.
            await db.execute("SET LOCAL statement_timeout = 0; COMMIT")
        except LOST as cause:
            await self._distrust()
            raise CommitUnknown(f"{self.url} did not answer a commit: {cause}") from cause

    async def _flush(self, evidence: Sequence[Evidence]) -> set[Evidence]:
        """The barrier: a commit of its own connection that waits for the disk."""
        try:
            async with self._barrier_connection() as db:
                # One statement, which is a transaction of its own: its reply comes after its flush.
                asked = columns(evidence) if evidence else ["{}", "{}", "{}", "{}"]
                rows = await db.fetch(SQL["barrier"], *asked)
                found = {Evidence(*row[:-1]) for row in rows if row[0] is not None}
                self._presumptions.told(rows[0][-1])
        except (*LOST, asyncpg.PostgresError, StoreError) as cause:
            if self._barrier_db is not None:
                self._barrier_db.terminate()
            await self._distrust()
            raise CommitUnknown(f"{self.url} did not answer a barrier: {said(cause)}") from cause
        return found

    @asynccontextmanager
    async def _barrier_connection(self) -> AsyncIterator[Connection]:
        """Its own; where the server admits no more, one of the pool's."""
        if self._barrier_db is None or self._barrier_db.is_closed():
            try:
                self._barrier_db = await self._connect_barrier()
            except asyncpg.TooManyConnectionsError:
                async with self._acquired() as db:
                    try:
                        # Its commits do not wait for the disk, but this one has to.
                        async with db.transaction():
                            await db.execute(FLUSH)
                            yield db
                    except BaseException:
                        _drop(db)
                        raise
                return
        yield self._barrier_db

    @asynccontextmanager
    async def _acquired(self) -> AsyncIterator[Any]:  # a connection, as a pool hands it out
        pool = self._opened()
        db = await self._acquire(pool)
        try:
            yield db
        finally:
            try:
                await pool.release(db)
            finally:
                self._places.release()

    async def _acquire(self, pool: "asyncpg.Pool") -> Any:  # as above
        """Where the server admits fewer than `pool_max`, one that is there already is waited for:
        the place of the one that was refused is out of use for a while."""
        loop = asyncio.get_running_loop()
        refused: asyncpg.TooManyConnectionsError | None = None
        try:
            async with asyncio.timeout(self._settings.connect_timeout_seconds):
                while True:
                    await self._places.acquire()
                    try:
                        return await pool.acquire()
                    except asyncpg.TooManyConnectionsError as cause:
                        refused = cause
                        loop.call_later(REFUSED_SECONDS, self._places.release)
                    except BaseException:
                        self._places.release()
                        raise
        except TimeoutError as cause:
            if refused is not None:
                text = f"{self.url} admits no more connections: {said(refused)}"
                raise StoreBusy(text) from refused
            if pool.get_size() == pool.get_max_size() and not pool.get_idle_size():
                busy = f"{self.url}: all {pool.get_size()} connections are busy"
                raise StoreBusy(busy) from cause
            raise StoreUnavailable(f"{self.url}: no connection in time") from cause

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[Connection]:
        """A connection in a transaction. Lost before its commit, it surely changed nothing, and
        the batch may run again on another."""
        async with self._acquired() as db:
            try:
                await db.execute(self._begin)
                yield db
            except (StoreError, asyncio.CancelledError):
                await _abandon(db)
                raise
            except LOST as cause:
                _drop(db)
                await self._distrust()
                raise StoreBusy(f"{self.url}: the connection was lost: {cause}") from cause
            except BaseException:
                await _abandon(db)
                raise

    async def _distrust(self) -> None:
        """One connection was lost: the idle ones probably are as well, and each would be waited for
        in turn. They are opened anew."""
        await self._opened().expire_connections()

    def _opened(self) -> "asyncpg.Pool":
        if self._pool is None:
            raise StoreUnavailable(f"{self.url} is not open")
        return self._pool

    async def _config(self, db: Connection, event: str) -> tuple[Event | None, int, Totals]:
        """As it stands, how far the log is, and what the event has."""
        row = await db.fetchrow(SQL["counters"], event)
        if row is None:
            return None, 0, Totals()
        version, seq, *totals, started = row
        if started != self._server_started:
            # Another server, or one that crashed: it may have forgotten what was seen of it.
            self._houses.forget_all()
            self._configs.clear()
            self._recent.forget_all()
            self._presumptions.forget_all()
            self._server_started = started
        config = self._configs.get(event)
        if config is None or config.version != version:
            config = self._configs[event] = read_config(await db.fetchval(SQL["config"], event))
        return config, seq, Totals(*totals)

    @asynccontextmanager
    async def _snapshot(self, *, wide: bool = False) -> AsyncIterator[tuple[Connection, Millis]]:
        """Everything read inside is of one moment. `wide`: it reads large parts of tables."""
        with translated(self.url):
            async with self._acquired() as db, view(db, WIDE if wide else NARROW, _abandon):
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
                    _drop(db)
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


async def _abandon(db: Any) -> None:  # a connection, as a pool hands it out
    """Rolls back, or drops the connection where even that gets no answer. Whoever was told to stop
    while the transaction began cannot know whether there is one."""
    try:
        await db.execute("ROLLBACK")
    except (*LOST, asyncpg.PostgresError):
        _drop(db)


def _drop(db: Any) -> None:  # as above
    """A connection that had trouble is not used again. The pool may have noticed by itself."""
    with contextlib.suppress(asyncpg.InterfaceError):
        db.terminate()


async def _no_reset(db: Any) -> None:
    """Nothing to reset: what a connection was told counts for all that it does."""


async def _through_a_pooler(db: Connection) -> bool:
    """A pooler tells its clients a process id of its own making."""
    async with db.transaction():
        return bool(await db.fetchval("SELECT pg_backend_pid()") != db.get_server_pid())


HARMLESS = (
    *(Reason.TAKEN, Reason.SOLD_OUT, Reason.INSUFFICIENT, Reason.NOT_TOGETHER),
    *(Reason.BUYER_CAP, Reason.NOT_ON_SALE, Reason.UNKNOWN_EVENT, Reason.UNKNOWN_UNIT),
)
"""Refusals that say nothing which a crash could make untrue to somebody's loss."""


def _harmless(answer: Answer) -> bool:
    return isinstance(answer.outcome, Refused) and answer.outcome.reason in HARMLESS
