"""The databases as strategies use them: a few connections, plain SQL with `?` for each value, and
a count of every statement that is sent. So thin that what is measured is the strategy."""

import asyncio
import functools
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from typing import Any, NamedTuple, Protocol, TypeVar

import apsw

from holdfast.errors import SettingsError
from holdfast.lab.contest.lending import Lending
from holdfast.settings import Settings
from holdfast.wiring import make_store

T = TypeVar("T")

CONNECTIONS = 32
"""Of all processes together."""
FILE_CONNECTIONS = 4
"""To a SQLite file, which admits one writer at a time: with 32 they sleep more than they write."""
CONNECTED_SECONDS = 1.0
PATIENCE_MS = 60_000
"""For a lock, or a busy file: longer than any queue of the lab."""
SCHEMA = "holdfast_lab"
AGAIN = ("40001", "40P01", "55P03", 1020, 1205, 1213)
"""Deadlocks and waits that took too long: PostgreSQL's codes, then MySQL's."""
DRIVERS = ("apsw", "asyncpg", "aiomysql", "pymysql", "redis")

Row = tuple[Any, ...]  # whatever the columns are
Rows = list[Row]


class Again(Exception):
    """The database rolled a transaction back so that another could go on: try again."""


class Counts(Protocol):
    statements: int


class Line(Protocol):
    """One connection. Each statement commits by itself, unless a transaction was begun."""

    async def rows(self, sql: str, *args: object) -> Rows: ...

    async def run(self, sql: str, *args: object) -> int:
        """Returns how many rows it changed."""

    async def close(self) -> None: ...


def _hang_up(connecting: "asyncio.Future[Any]") -> None:
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result().terminate()


class PostgresLine:
    def __init__(self, db: Any) -> None:  # asyncpg is untyped
        self._db = db

    @classmethod
    async def open(cls, url: str) -> "PostgresLine":
        import asyncpg

        settings = {"search_path": SCHEMA, "application_name": "holdfast-lab"}
        connecting = asyncio.ensure_future(asyncpg.connect(url, server_settings=settings))
        try:
            return cls(await asyncio.shield(connecting))
        except asyncio.CancelledError:
            # asyncpg, cancelled before it has asked for TLS, leaves a future behind that complains
            # on stderr: it may connect first, if that takes a moment.
            await asyncio.wait({connecting}, timeout=CONNECTED_SECONDS)
            connecting.add_done_callback(_hang_up)
            connecting.cancel()
            raise

    async def rows(self, sql: str, *args: object) -> Rows:
        return [tuple(row) for row in await self._db.fetch(numbered(sql), *args)]

    async def run(self, sql: str, *args: object) -> int:
        last = (await self._db.execute(numbered(sql), *args)).rpartition(" ")[2]  # UPDATE 1
        return int(last) if last.isdigit() else 0

    async def close(self) -> None:
        await self._db.close()


class MysqlLine:
    def __init__(self, db: Any, opened: AsyncExitStack) -> None:  # a connection of the store's kind
        self._db = db
        self._opened = opened

    @classmethod
    async def open(cls, url: str) -> "MysqlLine":
        """By way of the store, which knows every option that an address may have."""
        settings = Settings(
            store=url, lock_timeout_ms=PATIENCE_MS, statement_timeout_ms=PATIENCE_MS
        )
        store: Any = make_store(settings)  # it has sessions, which the port lacks
        async with AsyncExitStack() as opening:
            db = await opening.enter_async_context(store.session(PATIENCE_MS / 1000))
            await db.execute("SET autocommit = 1")
            return cls(db, opening.pop_all())

    async def rows(self, sql: str, *args: object) -> Rows:
        rows: Rows = await self._db.rows(formatted(sql), args)
        return rows

    async def run(self, sql: str, *args: object) -> int:
        changed: int = await self._db.execute(formatted(sql), args)
        return changed

    async def close(self) -> None:
        await self._opened.aclose()


class SqliteLine:
    """On a thread of its own, so that whoever waits for the file holds up nobody else."""

    def __init__(self, path: str) -> None:
        self._thread = ThreadPoolExecutor(1, "holdfast-lab")
        self._path = path

    @classmethod
    async def open(cls, url: str) -> "SqliteLine":
        line = cls(url.removeprefix("sqlite:///"))
        await line._on_thread(line._connect)
        return line

    def _connect(self) -> None:
        self._db = apsw.Connection(self._path)
        self._db.set_busy_timeout(PATIENCE_MS)
        self._db.pragma("journal_mode", "wal")
        self._db.pragma("synchronous", "FULL")

    async def rows(self, sql: str, *args: Any) -> Rows:  # as SQLite binds them
        return await self._on_thread(lambda: list(self._db.execute(sql, args)))

    async def run(self, sql: str, *args: Any) -> int:  # as above
        return await self._on_thread(lambda: self._run(sql, args))

    def _run(self, sql: str, args: tuple[Any, ...]) -> int:  # as above
        self._db.execute(sql, args)
        return self._db.changes()

    async def close(self) -> None:
        await self._on_thread(self._db.close)
        self._thread.shutdown()

    async def _on_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


class Dialect(NamedTuple):
    """What strategies must know of a database."""

    name: str
    open: Callable[[str], Awaitable[Line]]
    begin: str = "BEGIN"
    for_update: str = "FOR UPDATE"
    one_statement: bool = False
    """Whether an UPDATE can feed an INSERT: a whole sale in one statement."""


POSTGRESQL = Dialect("postgresql", PostgresLine.open, one_statement=True)
MYSQL = Dialect("mysql", MysqlLine.open)
# There are no row locks: whoever means to write takes the only place for writers first.
SQLITE = Dialect("sqlite", SqliteLine.open, begin="BEGIN IMMEDIATE", for_update="")


class Transaction:
    """Statements that are committed together, or not at all."""

    def __init__(self, line: Line, counts: Counts, begun: bool) -> None:
        self._line = line
        self._counts = counts
        self.begun = begun

    async def rows(self, sql: str, *args: object) -> Rows:
        self._counts.statements += 1
        return await self._line.rows(sql, *args)

    async def run(self, sql: str, *args: object) -> int:
        self._counts.statements += 1
        return await self._line.run(sql, *args)

    async def rollback(self) -> None:
        self.begun = False
        await self.run("ROLLBACK")


class Database:
    """A bounded number of connections, each lent to one buyer at a time, in order of arrival."""

    def __init__(self, url: str, counts: Counts) -> None:
        """Without an address it is never opened: all is in Redis."""
        self.dialect = dialect_of(url) if url else SQLITE
        self._url = url
        self._counts = counts
        self._lines: list[Line] = []
        self._lending: Lending[Line] = Lending()

    async def open(self, connections: int) -> None:
        for _ in range(connections):
            line = await self.dialect.open(self._url)
            self._lines.append(line)
            self._lending.add(line)

    async def close(self) -> None:
        """All at once: one may wait for a lock that another has until it is closed. Whether the
        server is gone already does not matter."""
        lines, self._lines = self._lines, []
        await asyncio.gather(*(line.close() for line in lines), return_exceptions=True)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Transaction]:
        """Each statement commits by itself."""
        async with self._lending.lent() as line:
            yield Transaction(line, self._counts, begun=False)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """Committed in the end, unless it was rolled back. Raises Again where it should be run
        again, all of it."""
        async with self.connection() as lent, begun(lent, self.dialect.begin):
            yield lent


@asynccontextmanager
async def begun(lent: Transaction, begin: str) -> AsyncIterator[None]:
    """A transaction on a connection that one has already."""
    await lent.run(begin)
    lent.begun = True
    try:
        yield
        if lent.begun:
            await lent.run("COMMIT")
            lent.begun = False
    except BaseException as cause:
        if lent.begun:
            with suppress(Exception):  # what went wrong first is what is told
                await lent.rollback()
        if _rolled_back(cause):
            raise Again(str(cause)) from cause
        raise


def _rolled_back(cause: BaseException) -> bool:
    first = cause.args[0] if cause.args else None
    return getattr(cause, "sqlstate", first) in AGAIN


def driver_trouble(cause: BaseException) -> bool:
    """Whether a driver raised it, or the way to its server."""
    return isinstance(cause, OSError) or type(cause).__module__.partition(".")[0] in DRIVERS


def dialect_of(url: str) -> Dialect:
    for beginnings, dialect in (
        (("postgresql://", "postgres://"), POSTGRESQL),
        (("mysql://", "mariadb://"), MYSQL),
        (("sqlite:///",), SQLITE),
    ):
        if url.startswith(beginnings):
            return dialect
    raise SettingsError("the lab needs postgresql://..., mysql://... or sqlite:///file.db")


@functools.cache
def numbered(sql: str) -> str:
    """PostgreSQL's way to say where a value goes."""
    count = itertools.count(1)
    return "".join(f"${next(count)}" if each == "?" else each for each in sql)


@functools.cache
def formatted(sql: str) -> str:
    return sql.replace("?", "%s")


def marks(values: tuple[str, ...]) -> str:
    """A place for each, as in IN (?, ?)."""
    return ", ".join("?" * len(values))


@contextmanager
def metered(dialect: str, counts: Counts) -> Iterator[None]:
    """Counts what the drivers are asked, for whoever brings connections of his own: Holdfast. The
    drivers have no one place to ask, so the methods that its stores call are wrapped."""
    if dialect == "sqlite":
        with _metered_apsw(counts):
            yield
        return
    names: tuple[str, ...] = ("execute",)
    if dialect == "postgresql":
        import asyncpg

        kind: Any = asyncpg.Connection  # drivers are untyped
        names = ("execute", "executemany", "fetch", "fetchrow", "fetchval")
    else:
        import aiomysql

        kind = aiomysql.Cursor
    plain = {name: getattr(kind, name) for name in names}
    for name, method in plain.items():
        setattr(kind, name, _counted(method, counts))
    try:
        yield
    finally:
        for name, method in plain.items():
            setattr(kind, name, method)


def _counted(method: Callable[..., Any], counts: Counts) -> Callable[..., Any]:  # of any driver
    @functools.wraps(method)
    def count(*args: Any, **options: Any) -> Any:
        counts.statements += 1
        return method(*args, **options)

    return count


@contextmanager
def _metered_apsw(counts: Counts) -> Iterator[None]:
    def count(*_: object) -> bool:
        counts.statements += 1
        return True

    def hook(db: apsw.Connection) -> None:
        db.exec_trace = count

    apsw.connection_hooks.append(hook)
    try:
        yield
    finally:
        apsw.connection_hooks.remove(hook)
