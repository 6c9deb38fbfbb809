"""Connections: every wait for the server has a limit, and what had trouble is closed for good."""

import asyncio
import math
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import aiomysql
from pymysql.constants import CLIENT, FIELD_TYPE

from holdfast.errors import SettingsError, StoreBusy, StoreUnavailable
from holdfast.settings import Settings
from holdfast.stores.mysql.errors import DRIVER, FULL, code_of, said
from holdfast.stores.rows import Row

PATIENCE_SECONDS = 1.0
"""How much longer than a statement may take we wait for a server that does not answer at all."""
IDLE_SECONDS = 30
"""The server closes a connection that says nothing for so long, and rolls back what it had begun:
the locks of a process that froze, or whose network went away, end then. MariaDB ends them sooner,
by a limit of its own for transactions."""
AUDIT_SECONDS = 60
"""For reading all of an event, between the statements that read it."""
REFUSED_SECONDS = 0.5
"""For so long we do without a connection that the server did not admit, before we ask again."""
FRESH_SECONDS = 1.0
"""A connection used within this time is trusted; an older one is asked first."""
STREAM_ROWS = 2_000
GROUP_BYTES_MAX = 16 * 1024 * 1024
OPTIONS = ("unix_socket", "ssl", "ssl_ca")

_numbers = (
    FIELD_TYPE.TINY,
    FIELD_TYPE.SHORT,
    FIELD_TYPE.INT24,
    FIELD_TYPE.LONG,
    FIELD_TYPE.LONGLONG,
)
_texts = (FIELD_TYPE.STRING, FIELD_TYPE.VAR_STRING, FIELD_TYPE.VARCHAR)
DECODERS: dict[int, Callable[[bytes], Any]] = {
    **dict.fromkeys(_numbers, int),
    **dict.fromkeys(_texts, bytes.decode),
    FIELD_TYPE.DOUBLE: float,
}
"""The driver hands out bytes. Ids and labels are UTF-8; MEDIUMTEXT is JSON, to be read as bytes."""


class Connection:
    """A connection in READ COMMITTED. Its first statement begins a transaction: autocommit is off,
    so that nothing is ever committed but by a commit; except on one that is made for looking."""

    def __init__(
        self, raw: "aiomysql.Connection", settings: Settings, *, autocommit: bool = False
    ) -> None:
        self._raw = raw
        self._autocommit = autocommit
        self.mariadb = "mariadb" in raw.get_server_info().lower()
        self.patience_seconds = settings.statement_timeout_ms / 1000 + PATIENCE_SECONDS
        self._cursor: aiomysql.Cursor | None = None
        self._begun = False
        self._spent = False
        self.used_at = asyncio.get_running_loop().time()

    async def rows(self, sql: str, args: Sequence[Any] = ()) -> list[Row]:
        cursor = await self._run(sql, args)
        return list(await cursor.fetchall())

    async def one(self, sql: str, args: Sequence[Any] = ()) -> Row | None:
        cursor = await self._run(sql, args)
        row: Row | None = await cursor.fetchone()
        return row

    def render(self, sql: str, args: Sequence[Any]) -> str:
        """The statement with its values in it: with this protocol the client puts them in.

        The driver does so too, at twice the cost. Where there is no backslash, doubled quotes are
        right in every mode of the server; all else is left to the driver."""
        escape = self._raw.escape
        return sql % tuple(
            [
                "'" + value.replace("'", "''") + "'"
                if type(value) is str and "\\" not in value
                else str(value)
                if type(value) is int
                else escape(value)
                for value in args
            ]
        )

    async def execute(self, sql: str, args: Sequence[Any] = ()) -> int:
        """Returns how many rows matched, changed or not: the client asked for FOUND_ROWS."""
        return await self.send(self.render(sql, args))

    async def send(self, statement: str) -> int:
        """As `execute`, for a statement that has its values in it already."""
        matched: int = (await self._ask(statement)).rowcount
        return matched

    async def advance(self, sql: str, args: Sequence[Any]) -> int | None:
        """An update of one row with LAST_INSERT_ID; returns that, or None if no row matched."""
        cursor = await self._run(sql, args)
        return int(cursor.lastrowid) if cursor.rowcount else None

    async def stream(self, sql: str, args: Sequence[Any] = ()) -> list[Row]:
        """As `rows`, where there may be a million: the limit is on each silence, not on all."""
        self._begun = not self._autocommit
        rows: list[Row] = []
        cursor = await self._raw.cursor(aiomysql.SSCursor)
        async with asyncio.timeout(self.patience_seconds):
            await cursor.execute(self.render(sql, args))
        more = True
        while more:
            async with asyncio.timeout(self.patience_seconds):
                page = await cursor.fetchmany(STREAM_ROWS)
            rows += page
            more = len(page) == STREAM_ROWS
        return rows

    async def limit_idle(self, seconds: int) -> None:
        """How long a transaction may be idle before the server ends it, with all its locks."""
        if self.mariadb:  # MySQL has no such limit, only that of IDLE_SECONDS
            await self.execute("SET SESSION idle_transaction_timeout = %s", (seconds,))

    async def take_time(self) -> None:
        """For one who computes for long between two statements. Not used again afterwards."""
        self._spent = True
        await self.limit_idle(AUDIT_SECONDS)

    async def commit(self) -> None:
        await self.send("COMMIT")
        self._begun = False

    async def rollback(self) -> None:
        await self.send("ROLLBACK")
        self._begun = False

    async def alive(self) -> bool:
        try:
            async with asyncio.timeout(self.patience_seconds):
                await self._raw.ping(reconnect=False)
        except DRIVER:
            return False
        return True

    @property
    def reusable(self) -> bool:
        """Whether its last transaction came to its end, and the line is still there."""
        return not (self._begun or self._spent or self._raw.closed)

    def close(self) -> None:
        """At once, without a word: the server rolls back whatever was begun."""
        self._raw.close()

    async def quit(self) -> None:
        with suppress(*DRIVER):
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._raw.ensure_closed()
        self.close()

    async def _run(self, sql: str, args: Sequence[Any]) -> "aiomysql.Cursor":
        return await self._ask(self.render(sql, args))

    async def _ask(self, statement: str) -> "aiomysql.Cursor":
        self._begun = not self._autocommit
        if self._cursor is None:
            self._cursor = await self._raw.cursor()
        async with asyncio.timeout(self.patience_seconds):
            await self._cursor.execute(statement)
        return self._cursor


class Full(StoreBusy):
    """The server admits no more connections for now."""


class Pool:
    """A few connections, each handed out to one user at a time. Where the server admits fewer than
    `most`, one that is there already is waited for; a pool that is not `patient` raises Full."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[Connection]],
        most: int,
        settings: Settings,
        *,
        patient: bool = True,
    ) -> None:
        self._connect = connect
        self._places = asyncio.Semaphore(most)
        self._wait_seconds = settings.connect_timeout_seconds
        self._patient = patient
        self._idle: list[Connection] = []

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Kept for the next user if it is reusable afterwards, else closed."""
        db = await self._taken()
        try:
            yield db
        finally:
            self.give(db)
            self._places.release()

    async def _taken(self) -> Connection:
        loop = asyncio.get_running_loop()
        until = loop.time() + self._wait_seconds
        refused: BaseException | None = None
        while True:
            try:
                async with asyncio.timeout_at(until):
                    await self._places.acquire()
            except TimeoutError as cause:
                if refused is not None:
                    raise Full(_no_more(refused)) from refused
                raise StoreUnavailable("no connection to the database is free") from cause
            try:
                return await self._take()
            except BaseException as cause:
                if code_of(cause) not in FULL or not self._patient:
                    self._places.release()
                    if code_of(cause) in FULL:
                        raise Full(_no_more(cause)) from cause
                    raise
                # Its place is out of use for a while.
                refused = cause
                loop.call_later(REFUSED_SECONDS, self._places.release)

    def give(self, db: Connection) -> None:
        if db.reusable:
            db.used_at = asyncio.get_running_loop().time()
            self._idle.append(db)
        else:
            db.close()

    def drop_idle(self) -> None:
        """One connection was lost: the others are no better, and each would cost a batch."""
        while self._idle:
            self._idle.pop().close()

    async def close(self) -> None:
        while self._idle:
            await self._idle.pop().quit()

    async def _take(self) -> Connection:
        if self._idle:
            db = self._idle.pop()
            unused_seconds = asyncio.get_running_loop().time() - db.used_at
            if unused_seconds < FRESH_SECONDS or await db.alive():
                return db
            db.close()
            self.drop_idle()
        return await self._connect()


def _no_more(cause: BaseException) -> str:
    return f"the server admits no more connections: {said(cause)}"


async def connect(
    url: str, shown: str, settings: Settings, *, autocommit: bool = False
) -> Connection:
    """A new connection, ready for a batch."""
    options = _options(url, shown)
    raw = aiomysql.Connection(
        **options,
        charset="utf8mb4",
        use_unicode=False,
        conv=DECODERS,
        client_flag=CLIENT.FOUND_ROWS,
        # Without backslashes a quote is the only character that has to be escaped.
        sql_mode="'STRICT_ALL_TABLES,NO_BACKSLASH_ESCAPES,NO_ENGINE_SUBSTITUTION'",
        init_command=_session(settings),
        autocommit=autocommit,
        program_name="holdfast",
    )
    try:
        async with asyncio.timeout(settings.connect_timeout_seconds):
            await raw.ping(reconnect=True)
            db = Connection(raw, settings, autocommit=autocommit)
            await db.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
            await db.limit_idle(math.ceil(settings.statement_timeout_ms / 1000))
            if options["ssl"] is not None:
                await _check_tls(db, shown)
            await db.rollback()
    except RuntimeError as cause:
        # MySQL's own way of asking for a password needs, without TLS, a package that nobody else
        # needs.
        raw.close()
        hint = "pip install cryptography, or add ?ssl=require to the address"
        raise StoreUnavailable(f"{shown}: {cause}: {hint}") from cause
    except BaseException:
        raw.close()
        raise
    return db


async def _check_tls(db: Connection, shown: str) -> None:
    """The driver goes on in the clear where a server has no TLS; whoever asked for it must not."""
    row = await db.one("SHOW SESSION STATUS LIKE 'Ssl_cipher'")
    if row is None or not row[1]:
        raise StoreUnavailable(f"{shown}: the server offers no TLS")


def _session(settings: Settings) -> str:
    lock_seconds = max(1, math.ceil(settings.lock_timeout_ms / 1000))
    values = {
        "innodb_lock_wait_timeout": lock_seconds,
        # Of whole tables, while somebody alters one.
        "lock_wait_timeout": lock_seconds,
        "wait_timeout": IDLE_SECONDS,
        "time_zone": "'+00:00'",
        # MySQL cuts a GROUP_CONCAT at 1,024 bytes unless told otherwise.
        "group_concat_max_len": GROUP_BYTES_MAX,
        # IF NOT EXISTS would else be told as a warning.
        "sql_notes": 0,
    }
    return "SET " + ", ".join(f"SESSION {name} = {value}" for name, value in values.items())


def _options(url: str, shown: str) -> dict[str, Any]:  # keyword arguments of aiomysql.connect
    # Without the cause: it may quote a part of the password.
    unusable = SettingsError(
        f"{shown} is not a MySQL address: write mysql://user:password@host:3306/database, "
        "with %2F for a / in the password"
    )
    try:
        parts = urlsplit(url)
    except ValueError:
        raise unusable from None
    try:
        port = 3306 if parts.port is None else parts.port
    except ValueError:
        port = 0
    database = parts.path.removeprefix("/")
    # An @ after the host is one of a password with a /, ? or # before it.
    if not parts.hostname or not re.fullmatch("[^/@]+", database) or "@" in parts.query:
        raise unusable
    if parts.fragment:
        raise unusable
    if not port:
        raise SettingsError(f"{shown}: the port must be a number from 1 to 65535")
    extra = dict(parse_qsl(parts.query, keep_blank_values=True))
    if odd := sorted(set(extra) - set(OPTIONS)):
        known = ", ".join(OPTIONS)
        raise SettingsError(f"{shown}: unknown option {', '.join(odd)}: use {known}")
    return {
        "host": parts.hostname,
        "port": port,
        "user": unquote(parts.username or "root"),
        "password": unquote(parts.password or ""),
        "db": unquote(database),
        "unix_socket": extra.get("unix_socket"),
        "ssl": _tls(extra, shown),
    }


def _tls(extra: dict[str, str], shown: str) -> ssl.SSLContext | None:
    """`require` encrypts; `verify`, or a file of `ssl_ca`, lets the server prove itself as well."""
    wanted = extra.get("ssl", "verify" if "ssl_ca" in extra else "off")
    if wanted not in ("off", "require", "verify"):
        raise SettingsError(f"{shown}: ssl must be off, require or verify, not {wanted!r}")
    if wanted == "off":
        return None
    try:
        context = ssl.create_default_context(cafile=extra.get("ssl_ca"))
    except OSError as cause:
        raise SettingsError(f"{shown}: cannot read ssl_ca: {cause}") from cause
    if wanted == "require":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
