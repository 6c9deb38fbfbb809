"""The databases that these tests run on, and what differs between them: how a test looks and
reaches behind the store's back. Every value in this SQL is the tests' own."""

import asyncio
import contextlib
import itertools
import os
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from types import ModuleType
from typing import Any, ClassVar, Protocol
from urllib.parse import urlsplit

import aiomysql
import asyncpg

from tests.servers import MariaDB, Postgres, Server, running

_numbers = itertools.count()

# The columns that a query names, of whatever type they are.
Row = tuple[Any, ...]


class Session(Protocol):
    """A connection beside the store's own."""

    async def execute(self, sql: str) -> None: ...

    async def rows(self, sql: str) -> list[Row]: ...

    async def close(self) -> None: ...


class Database:
    name: ClassVar[str]
    kind: ClassVar[type[Server]]
    calm: ClassVar[dict[str, str]] = {}
    """Settings of the server that tests share: it has no power to lose."""
    again: ClassVar[tuple[str, ...]] = ()
    """Errors after which a batch is run again, as `fail_updates` names them."""

    def shared(self) -> Server:
        return running(self.kind, **self.calm)

    def table(self, name: str) -> str:
        raise NotImplementedError

    def at(self, server: Server, database: str, login: str | None = None) -> str:
        """The address of a database on that server, for the login `user` or `user:password`."""
        raise NotImplementedError

    def queries(self) -> dict[str, str]:
        """The store's statements by name, to be changed by a test."""
        raise NotImplementedError

    def schema(self) -> ModuleType:
        """The module that knows the versions of the schema."""
        raise NotImplementedError

    def allowed(self, handful: int, rows: int) -> int:
        """How many statements so many rows may take."""
        return handful

    def login(self, server: Server, url: str) -> contextlib.AbstractAsyncContextManager[str]:
        """The address of that database for a new user with the password `right-word` and no rights
        of his own."""
        raise NotImplementedError

    def grants(self, url: str, login: str) -> list[str]:
        """What a user needs who does not migrate, as the docs have it."""
        raise NotImplementedError

    async def session(self, url: str) -> Session:
        raise NotImplementedError

    @contextlib.asynccontextmanager
    async def sessions(self, url: str, count: int = 1) -> AsyncIterator[list[Session]]:
        opened: list[Session] = []
        try:
            for _ in range(count):
                opened.append(await self.session(url))
            yield opened
        finally:
            for each in opened:
                await each.close()

    async def created(self, server: Server) -> str:
        """The address of a new database."""
        name = f"test_{os.getpid()}_{next(_numbers)}"
        async with self.sessions(self.home(server)) as (admin,):
            await self.create(admin, name)
        return self.at(server, name)

    async def create(self, admin: Session, name: str) -> None:
        await admin.execute(f"CREATE DATABASE {name}")

    @contextlib.asynccontextmanager
    async def empty(self, server: Server) -> AsyncIterator[str]:
        """The address of a new database that is gone afterwards."""
        url = await self.created(server)
        try:
            yield url
        finally:
            async with self.sessions(self.home(server)) as (admin,):
                await admin.execute(self.dropping(url.rpartition("/")[2]))

    def home(self, server: Server) -> str:
        """The address of a database that every such server has."""
        raise NotImplementedError

    def dropping(self, name: str) -> str:
        return f"DROP DATABASE {name}"

    async def waiting(self, session: Session) -> int:
        """How many transactions wait for a lock."""
        raise NotImplementedError

    async def lock_table(self, session: Session, table: str) -> None:
        """Nobody reads or writes the table until `unlock_table`."""
        raise NotImplementedError

    async def unlock_table(self, session: Session) -> None:
        raise NotImplementedError

    async def deadlocks(self, session: Session) -> int:
        """By the server's own statistics, since it was started."""
        raise NotImplementedError

    async def cut(self, session: Session) -> int:
        """Ends every connection to this database but this one; returns how many there were."""
        raise NotImplementedError

    async def fail_updates(self, session: Session, table: str, error: str, times: int) -> None:
        """The next so many statements that update the table fail with that error."""
        raise NotImplementedError

    async def failures(self, session: Session) -> int:
        """How many statements `fail_updates` has looked at; rolled back or not."""
        raise NotImplementedError

    def lose_replies(self, monkeypatch: Any, times: int) -> Counter[str]:
        """The next so many commits are done, and then the connection breaks. Counts them."""
        raise NotImplementedError

    @contextlib.contextmanager
    def counted(self) -> Iterator[list[str]]:
        """The statements that stores of this process send meanwhile."""
        raise NotImplementedError


class PostgresDatabase(Database):
    name = "postgres"
    kind = Postgres
    calm: ClassVar = {"fsync": "off", "full_page_writes": "off"}
    again = ("40001", "40P01", "55P03")

    def table(self, name: str) -> str:
        return f"holdfast.{name}"

    def at(self, server: Server, database: str, login: str | None = None) -> str:
        return f"postgresql://{login or 'holdfast'}@127.0.0.1:{server.port}/{database}"

    def home(self, server: Server) -> str:
        return self.at(server, "postgres")

    async def create(self, admin: Session, name: str) -> None:
        # As before PostgreSQL 15, whose new way writes every page of it to the log: half the time.
        [(version,)] = await admin.rows("SHOW server_version_num")
        strategy = "STRATEGY FILE_COPY" if int(version) >= 150_000 else ""
        await admin.execute(f"CREATE DATABASE {name} {strategy}")

    def dropping(self, name: str) -> str:
        return f"DROP DATABASE {name} WITH (FORCE)"

    def queries(self) -> dict[str, str]:
        from holdfast.stores.postgres.reading import SQL

        return SQL

    def schema(self) -> ModuleType:
        from holdfast.stores.postgres import schema

        return schema

    @contextlib.asynccontextmanager
    async def login(self, server: Server, url: str) -> AsyncIterator[str]:
        name = f"clerk_{next(_numbers)}"
        # Everybody else is trusted on loopback; the first line that fits counts.
        rules = server.folder / "data" / "pg_hba.conf"
        before = rules.read_text()
        rules.write_text(f"host all {name} 127.0.0.1/32 scram-sha-256\n{before}")
        database = url.rpartition("/")[2]
        async with self.sessions(self.home(server)) as (admin,):
            await admin.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'right-word'")
            await admin.execute("SELECT pg_reload_conf()")
            for _ in range(1_000):
                if not await self._lets_in(self.at(server, database, f"{name}:wrong-word")):
                    break  # the new rules have been read
                await asyncio.sleep(0.01)
            try:
                yield self.at(server, database, f"{name}:right-word")
            finally:
                rules.write_text(before)
                async with self.sessions(url) as (there,):
                    await there.execute(f"DROP OWNED BY {name}")
                await admin.execute(f"DROP ROLE {name}")

    async def _lets_in(self, url: str) -> bool:
        try:
            await (await self.session(url)).close()
        except asyncpg.InvalidPasswordError:
            return False
        return True

    def grants(self, url: str, login: str) -> list[str]:
        name = urlsplit(login).username
        return [
            f"GRANT USAGE ON SCHEMA holdfast TO {name}",
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA holdfast TO {name}",
        ]

    async def session(self, url: str) -> Session:
        return PostgresSession(await asyncpg.connect(url))

    async def waiting(self, session: Session) -> int:
        [(count,)] = await session.rows(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return int(count)

    async def lock_table(self, session: Session, table: str) -> None:
        await session.execute("BEGIN")
        await session.execute(f"LOCK TABLE {self.table(table)} IN ACCESS EXCLUSIVE MODE")

    async def unlock_table(self, session: Session) -> None:
        await session.execute("COMMIT")

    async def deadlocks(self, session: Session) -> int:
        [(count,)] = await session.rows(
            "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        )
        return int(count)

    async def cut(self, session: Session) -> int:
        ended = await session.rows(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return len(ended)

    async def fail_updates(self, session: Session, table: str, error: str, times: int) -> None:
        # A sequence is not rolled back with the statement that it let fail.
        await session.execute(f"""
            CREATE SEQUENCE tries;
            CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                IF nextval('tries') <= {times} THEN
                    RAISE 'made by the test' USING ERRCODE = '{error}';
                END IF;
                RETURN NULL;
            END $$;
            CREATE TRIGGER fail BEFORE UPDATE ON {self.table(table)} EXECUTE FUNCTION fail();
        """)

    async def failures(self, session: Session) -> int:
        [(last,)] = await session.rows("SELECT last_value FROM tries")
        return int(last)

    def lose_replies(self, monkeypatch: Any, times: int) -> Counter[str]:
        lost: Counter[str] = Counter()
        execute = asyncpg.Connection.execute

        async def lossy(db: Any, query: str, *args: Any, **options: Any) -> str:
            done: str = await execute(db, query, *args, **options)
            # A batch's own commit, which lifts its limit first; not the barrier's.
            ends = query.endswith("; COMMIT")
            if ends and lost["replies"] < times:
                lost["replies"] += 1
                db.terminate()
                raise ConnectionResetError("the reply was lost")
            return done

        monkeypatch.setattr(asyncpg.Connection, "execute", lossy)
        return lost

    @contextlib.contextmanager
    def counted(self) -> Iterator[list[str]]:
        sent: list[str] = []
        originals = {
            name: getattr(asyncpg.Connection, name)
            for name in ("execute", "fetch", "fetchrow", "fetchval")
        }

        def counting(original: Any) -> Any:
            async def run(db: Any, query: str, *args: Any, **options: Any) -> Any:
                sent.append(query)
                return await original(db, query, *args, **options)

            return run

        try:
            for name, original in originals.items():
                setattr(asyncpg.Connection, name, counting(original))
            yield sent
        finally:
            for name, original in originals.items():
                setattr(asyncpg.Connection, name, original)


class PostgresSession:
    def __init__(self, db: Any) -> None:
        self.db = db

    async def execute(self, sql: str) -> None:
        await self.db.execute(sql)

    async def rows(self, sql: str) -> list[Row]:
        return [tuple(row) for row in await self.db.fetch(sql)]

    async def close(self) -> None:
        self.db.terminate()


class MysqlDatabase(Database):
    name = "mysql"
    kind = MariaDB
    calm: ClassVar = {"innodb_flush_log_at_trx_commit": "0", "innodb_doublewrite": "OFF"}
    again = ("1213", "1205", "1020")

    def table(self, name: str) -> str:
        return f"holdfast_{name}"

    def at(self, server: Server, database: str, login: str | None = None) -> str:
        return f"mysql://{login or 'root'}@127.0.0.1:{server.port}/{database}"

    def home(self, server: Server) -> str:
        return self.at(server, "mysql")

    def queries(self) -> dict[str, str]:
        from holdfast.stores.mysql.reading import SQL

        return SQL

    def schema(self) -> ModuleType:
        from holdfast.stores.mysql import schema

        return schema

    def allowed(self, handful: int, rows: int) -> int:
        # Lists are cut below 1,000, for the sake of MariaDB's optimizer.
        return handful * (1 + rows // 500)

    @contextlib.asynccontextmanager
    async def login(self, server: Server, url: str) -> AsyncIterator[str]:
        name = f"clerk_{next(_numbers)}"
        async with self.sessions(self.home(server)) as (admin,):
            await admin.execute(f"CREATE USER {name}@'127.0.0.1' IDENTIFIED BY 'right-word'")
            try:
                yield self.at(server, url.rpartition("/")[2], f"{name}:right-word")
            finally:
                await admin.execute(f"DROP USER {name}@'127.0.0.1'")

    def grants(self, url: str, login: str) -> list[str]:
        database, name = url.rpartition("/")[2], urlsplit(login).username
        return [f"GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.* TO {name}@'127.0.0.1'"]

    async def session(self, url: str) -> Session:
        parts = urlsplit(url)
        db = await aiomysql.connect(
            host=parts.hostname,
            port=parts.port,
            user=parts.username,
            password=parts.password or "",
            db=parts.path.removeprefix("/"),
            autocommit=True,
            init_command="SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
        )
        return MysqlSession(db)

    async def waiting(self, session: Session) -> int:
        # Not innodb_trx: that is a copy, made anew only when nobody has looked for 100 ms.
        [(_, rows)] = await session.rows("SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'")
        [(tables,)] = await session.rows(
            "SELECT COUNT(*) FROM information_schema.processlist"
            " WHERE state = 'Waiting for table metadata lock'"
        )
        return int(rows) + int(tables)

    async def lock_table(self, session: Session, table: str) -> None:
        await session.execute(f"LOCK TABLES {self.table(table)} WRITE")

    async def unlock_table(self, session: Session) -> None:
        await session.execute("UNLOCK TABLES")

    async def deadlocks(self, session: Session) -> int:
        [(_, count)] = await session.rows("SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'")
        return int(count)

    async def cut(self, session: Session) -> int:
        others = await session.rows(
            "SELECT id FROM information_schema.processlist"
            " WHERE db = DATABASE() AND id <> CONNECTION_ID()"
        )
        for (id,) in others:
            with contextlib.suppress(aiomysql.OperationalError):  # it has gone by itself
                await session.execute(f"KILL {id}")
        return len(others)

    async def fail_updates(self, session: Session, table: str, error: str, times: int) -> None:
        await session.execute("CREATE SEQUENCE tries NOCACHE")
        await session.execute(f"""
            CREATE TRIGGER fail BEFORE UPDATE ON {self.table(table)} FOR EACH ROW
            IF NEXTVAL(tries) <= {times} THEN
                SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = {error}, MESSAGE_TEXT = 'by the test';
            END IF
        """)

    async def failures(self, session: Session) -> int:
        [(following,)] = await session.rows("SELECT next_not_cached_value FROM tries")
        return int(following) - 1

    def lose_replies(self, monkeypatch: Any, times: int) -> Counter[str]:
        lost: Counter[str] = Counter()
        execute = aiomysql.Cursor.execute

        async def lossy(cursor: Any, query: str, args: Any = None) -> Any:
            done = await execute(cursor, query, args)
            if query.endswith("COMMIT") and lost["replies"] < times:
                lost["replies"] += 1
                cursor.connection.close()
                raise ConnectionResetError("the reply was lost")
            return done

        monkeypatch.setattr(aiomysql.Cursor, "execute", lossy)
        return lost

    @contextlib.contextmanager
    def counted(self) -> Iterator[list[str]]:
        sent: list[str] = []
        execute = aiomysql.Cursor.execute

        async def counting(cursor: Any, query: str, args: Any = None) -> Any:
            sent.append(query)
            return await execute(cursor, query, args)

        try:
            aiomysql.Cursor.execute = counting
            yield sent
        finally:
            aiomysql.Cursor.execute = execute


class MysqlSession:
    def __init__(self, db: Any) -> None:
        self.db = db

    async def execute(self, sql: str) -> None:
        await self.rows(sql)

    async def rows(self, sql: str) -> list[Row]:
        async with self.db.cursor() as cursor:
            await cursor.execute(sql)
            return list(await cursor.fetchall())

    async def close(self) -> None:
        self.db.close()


DATABASES: dict[str, Database] = {
    "postgres": PostgresDatabase(),
    "mysql": MysqlDatabase(),
}
