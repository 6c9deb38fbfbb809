"""What everybody does: one transaction for each hold, a guarded update and an insert. The control
that group commit is measured against, on the same server in the same run."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from holdfast.errors import SettingsError, StoreError, StoreUnavailable
from holdfast.settings import Settings
from holdfast.wiring import make_store

CONNECTIONS = (1, 4, 8, 16, 32)
SEATS = 200_000
PATIENCE_SECONDS = 60.0
FILL_SECONDS = 3600.0
RIGHTS = (
    "the comparison makes two tables of its own, holdfast_baseline_*, and needs the right to "
    "create and drop tables; without it run bench --only group_commit"
)

Hold = Callable[[int], Awaitable[None]]


async def best_rate(url: str, seconds: float) -> tuple[int, float]:
    """The number of connections that holds most in a second, and how many that is."""
    if url.startswith(("postgresql:", "postgres:")):
        kind: type[PostgresBaseline | MysqlBaseline] = PostgresBaseline
    elif url.startswith(("mysql:", "mariadb:")):
        kind = MysqlBaseline
    else:
        raise SettingsError("this comparison needs a database server: --store postgresql://...")
    async with opened(url) as store:
        return await _best_rate(kind(store), seconds)


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Any]:  # a store that has sessions, which the port lacks
    """The store at the address: its connections know every option that an address may have."""
    store = make_store(Settings(store=url))
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def _best_rate(baseline: Any, seconds: float) -> tuple[int, float]:  # one of those below
    try:
        await baseline.prepare()
    except StoreError as cause:
        raise StoreUnavailable(f"{cause}; {RIGHTS}") from cause
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
    def __init__(self, store: Any) -> None:  # as `opened` gives it
        self._store = store
        self.next_seat = 0

    async def prepare(self) -> None:
        async with self._store.session(PATIENCE_SECONDS) as db:
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

    async def clean(self) -> None:
        async with self._store.session(PATIENCE_SECONDS) as db:
            await db.execute("DROP TABLE holdfast_baseline_seats, holdfast_baseline_holds")

    @asynccontextmanager
    async def holder(self) -> AsyncIterator[Hold]:
        """A connection of its own that holds seats one by one."""
        async with self._store.session(PATIENCE_SECONDS) as db:
            yield lambda seat: self._hold(db, seat)

    async def _hold(self, db: Any, seat: int) -> None:  # asyncpg is untyped
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
    def __init__(self, store: Any) -> None:  # as `opened` gives it
        self._store = store
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
        async with self._store.session(PATIENCE_SECONDS) as db:
            for statement in statements:
                await db.execute(statement)
            await db.commit()

    @asynccontextmanager
    async def holder(self) -> AsyncIterator[Hold]:
        """A connection of its own that holds seats one by one."""
        async with self._store.session(PATIENCE_SECONDS) as db:
            yield lambda seat: self._hold(db, seat)

    async def _hold(self, db: Any, seat: int) -> None:  # a connection of the store's own kind
        await db.execute(
            "UPDATE holdfast_baseline_seats SET hold = %s WHERE id = %s AND hold IS NULL",
            (f"h{seat}", seat),
        )
        await db.execute(
            "INSERT INTO holdfast_baseline_holds VALUES (%s, %s, 'u', NOW(6))", (f"h{seat}", seat)
        )
        await db.commit()


async def add_facts(url: str, event: str, facts: int) -> None:
    """So many more at the end of the log, as a sale would have left them."""
    async with opened(url) as store, store.session(FILL_SECONDS) as db:
        await db.execute(
            """
            WITH counter AS (
                UPDATE holdfast.counters SET seq = seq + $2 WHERE event = $1 RETURNING seq
            )
            INSERT INTO holdfast.log (event, seq, type, at_ms, data)
            SELECT $1, counter.seq - $2 + n, 'hold.placed',
                   extract(epoch FROM clock_timestamp())::bigint * 1000,
                   '{"buyer":"u-' || n || '","seats":["A-1-' || n || '"],"pools":{},"amount":9000,'
                   || '"currency":"EUR","hold":"' || $1 || '.01K9TQ2M6J8Y3V5W7X9ZABCDEF",'
                   || '"version":1,"expires_at":"2026-11-16T12:08:00Z"}'
            FROM counter, generate_series(1, $2::bigint) AS n
            """,
            event,
            facts,
        )


async def fill_log(url: str, event: str, facts: int) -> None:
    """Puts that many old facts before the event's own, as a long sale would have left them."""
    async with opened(url) as store, store.session(FILL_SECONDS) as db:
        await db.execute("UPDATE holdfast.log SET seq = seq + $2 WHERE event = $1", event, facts)
        await db.execute(
            """
            INSERT INTO holdfast.log (event, seq, type, at_ms, data)
            SELECT $1, n, 'hold.released', 0, '{"seats":[],"pools":{},"buyer":"u","amount":100}'
            FROM generate_series(1, $2::bigint) AS n
            """,
            event,
            facts,
        )
        await db.execute(
            "UPDATE holdfast.counters SET seq = seq + $2 WHERE event = $1", event, facts
        )
