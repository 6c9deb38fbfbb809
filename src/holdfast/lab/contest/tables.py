"""The tables that all SQL strategies sell from: made anew for every run, counted, dropped.

On PostgreSQL they are in a schema of their own, elsewhere their names begin with lab_. What is
there already under these names is somebody's: then nothing is done.
"""

import asyncio
from contextlib import suppress

from holdfast.errors import SettingsError, StoreUnavailable
from holdfast.lab.contest.databases import SCHEMA, Rows, dialect_of, driver_trouble
from holdfast.lab.contest.field import POOL, Scenario, seat
from holdfast.settings import Settings
from holdfast.stores.addresses import without_secrets
from holdfast.wiring import make_store

INSERT_ROWS = 1_000
LOOK_SECONDS = 0.02
NAMES = ("lab_seats", "lab_pools", "lab_sales")
# Ids are compared byte by byte: a seat a-1 is not A-1.
TEXT = {
    "postgresql": 'text COLLATE "C"',
    "mysql": "VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
    "sqlite": "TEXT",
}
NUMBERED = {
    "postgresql": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    "mysql": "BIGINT AUTO_INCREMENT PRIMARY KEY",
    "sqlite": "INTEGER PRIMARY KEY",
}
TABLES = (
    "CREATE TABLE lab_seats (id {text} PRIMARY KEY, status {text} NOT NULL DEFAULT 'free', "
    "buyer {text}, version BIGINT NOT NULL DEFAULT 0, until_ms BIGINT NOT NULL DEFAULT 0)",
    "CREATE TABLE lab_pools (id {text} PRIMARY KEY, capacity BIGINT NOT NULL, "
    "held BIGINT NOT NULL DEFAULT 0, sold BIGINT NOT NULL DEFAULT 0, "
    "version BIGINT NOT NULL DEFAULT 0)",
    # No unit is unique here: what is sold twice shall be found twice.
    "CREATE TABLE lab_sales (id {numbered}, unit {text} NOT NULL, quantity BIGINT NOT NULL, "
    "buyer {text} NOT NULL)",
)
EXISTING = {
    "postgresql": f"SELECT nspname FROM pg_namespace WHERE nspname = '{SCHEMA}'",
    "mysql": "SELECT table_name FROM information_schema.tables "
    "WHERE table_schema = DATABASE() AND table_name IN ('lab_seats', 'lab_pools', 'lab_sales')",
    "sqlite": "SELECT name FROM sqlite_master "
    "WHERE name IN ('lab_seats', 'lab_pools', 'lab_sales')",
}
QUEUE = {
    "postgresql": "SELECT count(*) FROM pg_stat_activity "
    "WHERE datname = current_database() AND wait_event_type = 'Lock'",
    "mysql": "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'",
}


class Tables:
    """One connection of the lab's own, to one database."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.shown = without_secrets(url)
        self.dialect = dialect_of(url)
        self.name = self.dialect.name
        """As people call it: MySQL's dialect is MariaDB's too."""
        self.version = ""
        self._made = False
        self.left = False
        """Whether they could not be dropped."""

    async def open(self, *, again: bool = False) -> None:
        """Raises StoreUnavailable or SettingsError, without a password in what it says. `again`:
        what is there is known to be left of a lab that was killed, and is dropped."""
        store = make_store(Settings(store=self.url))
        if look := getattr(store, "has_schema", None):
            await look()  # connects, and says in one line what is wrong
        try:
            await self._begin(again)
        except Exception as trouble:
            if not driver_trouble(trouble):
                raise
            raise StoreUnavailable(
                f"{self.shown}: {' '.join(str(trouble).split())}; the lab makes tables of its own "
                "and needs the right to create and drop them"
            ) from trouble

    async def _begin(self, again: bool) -> None:
        self._line = await self.dialect.open(self.url)
        await self._learn_version()
        if again:
            await self._drop_all()
        if found := await self._line.rows(EXISTING[self.dialect.name]):
            names = ", ".join(str(name) for (name,) in found)
            await self._line.close()
            raise SettingsError(
                f"{self.shown} has {names} already: another lab is running, or one was killed; "
                "drop it, or name another database"
            )
        if self.dialect.name == "postgresql":
            await self._line.run(f"CREATE SCHEMA {SCHEMA}")
        self._made = True

    async def close(self) -> None:
        """Leaves nothing."""
        if not self._made:
            return
        self.left = True
        with suppress(Exception):  # the server may be gone, and its data with it
            await self._drop_all()
            self.left = False
        self._made = False
        await self._line.close()

    async def fill(self, scenario: Scenario, *, unit_rows: bool, index: str) -> None:
        await self._drop()
        words = {"text": TEXT[self.dialect.name], "numbered": NUMBERED[self.dialect.name]}
        for table in TABLES:
            await self._line.run(table.format(**words))
        if index:
            await self._line.run(index)
        if scenario.pool:
            await self._line.run(
                "INSERT INTO lab_pools (id, capacity) VALUES (?, ?)", POOL, scenario.units
            )
        if unit_rows or not scenario.pool:
            await self._fill_seats(scenario.units)
        # Without ANALYZE: told that every unit is free, PostgreSQL would look for a free one by
        # walking along all ids, which is slower with each unit sold.

    async def _fill_seats(self, seats: int) -> None:
        if self.dialect.name == "sqlite":
            await self._line.run("BEGIN IMMEDIATE")
        for first in range(0, seats, INSERT_ROWS):
            some = range(first, min(first + INSERT_ROWS, seats))
            values = ", ".join(f"('{seat(nth)}')" for nth in some)
            await self._line.run(f"INSERT INTO lab_seats (id) VALUES {values}")
        if self.dialect.name == "sqlite":
            await self._line.run("COMMIT")

    async def sales(self) -> list[tuple[str, int, str]]:
        """Unit, quantity and buyer of every receipt."""
        found = await self._line.rows("SELECT unit, quantity, buyer FROM lab_sales")
        return [(unit, int(quantity), buyer) for unit, quantity, buyer in found]

    async def watch_queue(self, over: asyncio.Event) -> int | None:
        """The most transactions that waited for a lock at one moment, as the server showed it,
        until it is over. None where nobody can tell."""
        look = QUEUE.get(self.dialect.name)
        if look is None:
            return None
        longest = 0
        while not over.is_set():
            try:
                [(*_, waiting)] = await self._line.rows(look)
            except Exception as trouble:
                if driver_trouble(trouble):
                    return None  # this user may not look
                raise
            longest = max(longest, int(waiting))
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), LOOK_SECONDS)
        return longest

    async def _drop_all(self) -> None:
        await self._drop()
        if self.dialect.name == "postgresql":
            await self._line.run(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")

    async def _drop(self) -> None:
        for name in NAMES:
            await self._line.run(f"DROP TABLE IF EXISTS {name}")

    async def _learn_version(self) -> None:
        ask = {"postgresql": "SHOW server_version", "mysql": "SELECT VERSION()"}
        sql = ask.get(self.dialect.name, "SELECT sqlite_version()")
        rows: Rows = await self._line.rows(sql)
        text = str(rows[0][0])
        if "mariadb" in text.lower():
            self.name = "mariadb"
        self.version = text.split()[0].split("-")[0]
