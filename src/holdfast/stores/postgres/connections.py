"""Connections to PostgreSQL: a pool for batches and views, one for the barrier, and what each is
told about its work. A connection that had trouble is not used again."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from holdfast.errors import CommitUnknown, SettingsError, StoreBusy, StoreError, StoreUnavailable
from holdfast.settings import Settings
from holdfast.stores.addresses import without_secrets
from holdfast.stores.postgres import schema, ways
from holdfast.stores.postgres.address import check_address, unusable
from holdfast.stores.postgres.errors import LOST, Connection, said, translated
from holdfast.stores.postgres.wakeups import Wakeups

FLUSH = "SET LOCAL synchronous_commit = on"
MIGRATE_SECONDS = 3600.0
"""For a step of a migration, which may have to walk through large tables."""
PATIENCE_SECONDS = 1.0
"""How much longer than the server's own limit we wait for a server that does not answer at all."""
REFUSED_SECONDS = 0.5
"""For so long we do without a connection that the server did not admit, before we ask again."""


class Connections:
    def __init__(self, url: str, settings: Settings) -> None:
        self.url = without_secrets(url)
        check_address(url, self.url)
        self._dsn = url
        self._settings = settings
        self.pooled = True  # assumed until the first connection tells
        self._pool: asyncpg.Pool | None = None
        self._places = asyncio.Semaphore(settings.pool_max)
        self._barrier_db: Connection | None = None
        self._wakeups = Wakeups(self._connect)
        self._ways = ways.of_a_batch(settings)

    def _renewed(self) -> None:
        """A new connection was opened: where the others went, the server may have forgotten what
        was seen of it."""

    @property
    def _begin(self) -> str:
        """One round trip. Behind a pooler what a connection was told is soon told to another."""
        begin = "BEGIN ISOLATION LEVEL READ COMMITTED"
        if not self.pooled:
            return begin
        return "; ".join([begin, *(f"SET LOCAL {way}" for way in self._ways)])

    async def _tell_ways(self, db: Connection) -> None:
        self._renewed()
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

    async def _commit(self, db: Connection) -> None:
        try:
            # Without the limit: cancelled while it waits for a standby, a commit would be reported
            # as done. Whoever waits too long for it here does not know, and finds out.
            await db.execute("SET LOCAL statement_timeout = 0; COMMIT")
        except LOST as cause:
            await self._distrust()
            raise CommitUnknown(f"{self.url} did not answer a commit: {cause}") from cause

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
                        drop(db)
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
                await abandon(db)
                raise
            except LOST as cause:
                drop(db)
                await self._distrust()
                raise StoreBusy(f"{self.url}: the connection was lost: {cause}") from cause
            except BaseException:
                await abandon(db)
                raise

    async def _distrust(self) -> None:
        """One connection was lost: the idle ones probably are as well, and each would be waited for
        in turn. They are opened anew."""
        await self._opened().expire_connections()

    def _opened(self) -> "asyncpg.Pool":
        if self._pool is None:
            raise StoreUnavailable(f"{self.url} is not open")
        return self._pool


async def abandon(db: Any) -> None:  # a connection, as a pool hands it out
    """Rolls back, or drops the connection where even that gets no answer. Whoever was told to stop
    while the transaction began cannot know whether there is one."""
    try:
        await db.execute("ROLLBACK")
    except (*LOST, asyncpg.PostgresError):
        drop(db)


def drop(db: Any) -> None:  # as above
    """A connection that had trouble is not used again. The pool may have noticed by itself."""
    with contextlib.suppress(asyncpg.InterfaceError):
        db.terminate()


async def _no_reset(db: Any) -> None:
    """Nothing to reset: what a connection was told counts for all that it does."""


async def _through_a_pooler(db: Connection) -> bool:
    """A pooler tells its clients a process id of its own making."""
    async with db.transaction():
        return bool(await db.fetchval("SELECT pg_backend_pid()") != db.get_server_pid())
