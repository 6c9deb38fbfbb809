"""What everybody does: one transaction for each hold, a guarded update and an insert. The control
that group commit is measured against, on the same server in the same run."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

from holdfast.errors import SettingsError

CONNECTIONS = (1, 4, 8, 16, 32)
SEATS = 200_000

Hold = Callable[[int], Awaitable[None]]


async def best_rate(url: str, seconds: float) -> tuple[int, float]:
    """The number of connections that holds most in a second, and how many that is."""
    if url.startswith("postgres"):
        return await _best_rate(PostgresBaseline(url), seconds)
    if url.startswith(("mysql:", "mariadb:")):
        return await _best_rate(MysqlBaseline(url), seconds)
    raise SettingsError("this comparison needs a database server: --store postgresql://...")


async def _best_rate(baseline: Any, seconds: float) -> tuple[int, float]:  # one of those below
    await baseline.prepare()
    try:
        rates = []
        for connections in CONNECTIONS:
            rates.append((connections, await _rate(baseline, connections, seconds)))
        return max(rates, key=lambda each: each[1])
    finally:
        await baseline.clean()


async def _rate(baseline: Any, connections: int, seconds: float) -> float:  # as above
    held = 0
    async with AsyncExitStack() as stack:
        holders = [await stack.enter_async_context(baseline.holder()) for _ in range(connections)]
        until = time.monotonic() + seconds

        async def buyer(hold: Hold) -> None:
            nonlocal held
            while time.monotonic() < until:
                baseline.next_seat += 1
                await hold(baseline.next_seat)
                held += 1

        started = time.monotonic()
        await asyncio.gather(*(buyer(hold) for hold in holders))
        return held / (time.monotonic() - started)


class PostgresBaseline:
    def __init__(self, url: str) -> None:
        self._url = url
        self.next_seat = 0

    async def prepare(self) -> None:
        db = await self._connect()
        try:
            await db.execute(
                f"""
                DROP TABLE IF EXISTS holdfast_baseline_seats, holdfast_baseline_holds;
                CREATE TABLE holdfast_baseline_seats (id integer PRIMARY KEY, hold text);
                CREATE TABLE holdfast_baseline_holds (
                    id text PRIMARY KEY, seat integer, buyer text, until timestamptz);
                INSERT INTO holdfast_baseline_seats SELECT generate_series(1, {SEATS});
                ANALYZE holdfast_baseline_seats;
                """
            )
        finally:
            await db.close()

    async def clean(self) -> None:
        db = await self._connect()
        try:
            await db.execute("DROP TABLE holdfast_baseline_seats, holdfast_baseline_holds")
        finally:
            await db.close()

    def holder(self) -> Any:  # an async context manager that gives a Hold
        return _Holder(self._connect, self._hold)

    async def _connect(self) -> Any:  # asyncpg is untyped
        import asyncpg

        return await asyncpg.connect(self._url)

    async def _hold(self, db: Any, seat: int) -> None:
        async with db.transaction():
            await db.execute(
                "UPDATE holdfast_baseline_seats SET hold = $2 WHERE id = $1 AND hold IS NULL",
                seat,
                f"h{seat}",
            )
            await db.execute(
                "INSERT INTO holdfast_baseline_holds VALUES ($1, $2, 'u', now())", f"h{seat}", seat
            )


class MysqlBaseline:
    def __init__(self, url: str) -> None:
        self._url = url
        self.next_seat = 0

    async def prepare(self) -> None:
        await self._run(
            "DROP TABLE IF EXISTS holdfast_baseline_seats, holdfast_baseline_holds",
            "CREATE TABLE holdfast_baseline_seats (id INT PRIMARY KEY, hold VARCHAR(64))",
            "CREATE TABLE holdfast_baseline_holds (id VARCHAR(64) PRIMARY KEY, seat INT, "
            "buyer VARCHAR(64), until DATETIME(6))",
            "INSERT INTO holdfast_baseline_seats (id) WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL "
            f"SELECT id + 1 FROM n WHERE id < 1000) SELECT a.id + 1000 * (b.id - 1) "
            f"FROM n a JOIN n b WHERE b.id <= {SEATS // 1000}",
        )

    async def clean(self) -> None:
        await self._run("DROP TABLE holdfast_baseline_seats, holdfast_baseline_holds")

    async def _run(self, *statements: str) -> None:
        db = await self._connect()
        try:
            async with db.cursor() as cursor:
                for statement in statements:
                    await cursor.execute(statement)
            await db.commit()
        finally:
            db.close()

    def holder(self) -> Any:  # an async context manager that gives a Hold
        return _Holder(self._connect, self._hold)

    async def _connect(self) -> Any:  # aiomysql is untyped
        from urllib.parse import unquote, urlsplit

        import aiomysql

        parts = urlsplit(self._url)
        return await aiomysql.connect(
            host=parts.hostname or "127.0.0.1",
            port=parts.port or 3306,
            user=unquote(parts.username or "root"),
            password=unquote(parts.password or ""),
            db=parts.path.lstrip("/"),
        )

    async def _hold(self, db: Any, seat: int) -> None:
        async with db.cursor() as cursor:
            await cursor.execute(
                "UPDATE holdfast_baseline_seats SET hold = %s WHERE id = %s AND hold IS NULL",
                (f"h{seat}", seat),
            )
            await cursor.execute(
                "INSERT INTO holdfast_baseline_holds VALUES (%s, %s, 'u', NOW(6))",
                (f"h{seat}", seat),
            )
        await db.commit()


class _Holder:
    """A connection of its own that holds seats one by one."""

    def __init__(
        self, connect: Callable[[], Awaitable[Any]], hold: Callable[[Any, int], Awaitable[None]]
    ) -> None:
        self._connect = connect
        self._hold = hold

    async def __aenter__(self) -> Hold:
        self._db = await self._connect()
        return lambda seat: self._hold(self._db, seat)

    async def __aexit__(self, *exc: object) -> None:
        closing = self._db.close()
        if closing is not None:
            await closing


async def fill_log(url: str, event: str, facts: int) -> None:
    """Puts that many old facts before the event's own, as a long sale would have left them."""
    import asyncpg

    db = await asyncpg.connect(url)
    try:
        await db.execute(
            "UPDATE holdfast.log SET seq = seq + $2 WHERE event = $1", event, facts, timeout=600
        )
        await db.execute(
            """
            INSERT INTO holdfast.log (event, seq, type, at_ms, data)
            SELECT $1, n, 'hold.released', 0, '{"seats":[],"pools":{},"buyer":"u","amount":100}'
            FROM generate_series(1, $2::bigint) AS n
            """,
            event,
            facts,
            timeout=3600,
        )
        await db.execute(
            "UPDATE holdfast.counters SET seq = seq + $2 WHERE event = $1", event, facts
        )
    finally:
        await db.close()
