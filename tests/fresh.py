"""Stores on a server that many tests share: each begins with empty tables.

Tests hand the open connections on to each other. A connection that has met its statements before
answers in a fraction of the time of a new one, for which the server reads its catalogue and plans
everything anew. What opening and closing a store promises is tested in tests/databases/.
"""

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import asyncpg

from holdfast.settings import Settings
from holdfast.stores.mysql import MysqlStore
from holdfast.stores.mysql.connections import Pool
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.postgres.wakeups import Wakeups

TABLES = (
    *("events", "counters", "buyers", "seats", "seat_plans", "sold_seats", "pools", "claims"),
    *("holds", "orders", "order_keys", "commands", "log", "documents", "cursors"),
)


class Lines:
    """Connections that wait for the next test, all of one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[str, list[Any]] = {}

    def give(self, url: str, parts: Any) -> bool:
        """Whether they were taken: those of another loop would be of no use."""
        if asyncio.get_running_loop() is not self._loop:
            return False
        self._waiting.setdefault(url, []).append(parts)
        return True

    def take(self, url: str) -> Any | None:  # what was given
        here = asyncio.get_running_loop() is self._loop
        return self._waiting[url].pop() if here and self._waiting.get(url) else None

    async def close(self) -> None:
        for waiting in self._waiting.values():
            for parts in waiting:
                await parts.close()
        self._waiting.clear()


class PostgresParts(NamedTuple):
    pool: "asyncpg.Pool"
    barrier_db: Any
    wakeups: Wakeups

    @property
    def idle(self) -> bool:
        alone = self.pool.get_idle_size() == self.pool.get_size()
        return alone and not (self.barrier_db is None or self.barrier_db.is_closed())

    async def close(self) -> None:
        await self.wakeups.stop()
        self.barrier_db.terminate()
        await self.pool.close()


class FreshPostgres(PostgresStore):
    def __init__(
        self, url: str, settings: Settings, clock: Callable[[], int], lines: Lines | None = None
    ) -> None:
        super().__init__(url, settings, clock)
        self._lines = lines

    async def open(self) -> None:
        if self._lines is not None and (parts := self._lines.take(self.url)):
            self._pool, self._barrier_db, self._wakeups = parts
            self.pooled = False
        else:
            await super().open()
        # DELETE: for a handful of rows much faster than TRUNCATE, which makes new files.
        emptied = "; ".join(f"DELETE FROM holdfast.{table}" for table in TABLES)
        async with self._opened().acquire() as db:
            await db.execute(emptied)

    async def close(self) -> None:
        if self._lines is not None and self._pool is not None:
            parts = PostgresParts(self._pool, self._barrier_db, self._wakeups)
            if parts.idle and self._lines.give(self.url, parts):
                self._pool = None
                return
        await super().close()


class MysqlParts(NamedTuple):
    pool: Pool
    scouts: Pool

    async def close(self) -> None:
        await self.scouts.close()
        await self.pool.close()


class FreshMysql(MysqlStore):
    def __init__(
        self, url: str, settings: Settings, clock: Callable[[], int], lines: Lines | None = None
    ) -> None:
        super().__init__(url, settings, clock)
        self._lines = lines

    async def open(self) -> None:
        if self._lines is not None and (parts := self._lines.take(self.url)):
            self._pool, self._scouts = parts
        else:
            await super().open()
        async with self._transaction() as db:
            for table in TABLES:
                await db.execute(f"DELETE FROM holdfast_{table}")
            await db.commit()

    async def close(self) -> None:
        if self._lines is not None and self._pool is not None:
            parts = MysqlParts(self._pool, self._scouts)
            if self._lines.give(self.url, parts):
                self._pool = None
                return
        await super().close()
