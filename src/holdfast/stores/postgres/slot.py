"""The slot and the publication of the stream: made where they are missing, looked at, dropped.

The slot is the server's promise to keep what nobody has confirmed; the publication names the table.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from holdfast.errors import SettingsError, StoreBusy, StoreError, StoreUnavailable
from holdfast.stores.addresses import without_secrets
from holdfast.stores.postgres.address import check_address, unusable
from holdfast.stores.postgres.errors import Connection, translated
from holdfast.stores.sql import load_queries

SQL = load_queries(__package__, "wal.sql")

VERSION_MIN = 130_000
NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
CONNECT_SECONDS = 10.0
MAKE_SECONDS = 60.0
"""A slot is made only when all transactions that write have come to an end."""
LOOK_SECONDS = 0.02


class Slot:
    def __init__(self, url: str, name: str, publication: str) -> None:
        self.url = without_secrets(url)
        check_address(url, self.url)
        for each in (name, publication):
            if not NAME.fullmatch(each):
                raise SettingsError(f"{each!r} cannot be a slot or publication: use a-z, 0-9 and _")
        self._dsn = url
        self.name = name
        self.publication = publication
        self._login = ""
        self.has_right = False
        """Whether the role itself says so; a managed service may give the right in another way."""

    async def prepare(self) -> bool:
        """Makes what is missing; whether the slot was. What was committed before it was made does
        not come from it, and can be read from the log when this returns."""
        async with self._connected() as db:
            server = await db.fetchrow(SQL["server"])
            self._login, self.has_right = server["login"], server["has_right"]
            self._check_server(server)
            # First: a slot made before its publication stumbles over what lies between.
            await self._make_publication(db)
            found = await db.fetchrow(SQL["slot"], self.name)
            if found is not None:
                self._check_slot(found, server["database"])
                return False
            return await self._make_slot(db)

    async def retained_bytes(self) -> int:
        """How much of its write-ahead log the server keeps because of the slot, 0 where there is
        none. Raises StoreError when it no longer does: the slot is lost."""
        async with self._connected() as db:
            found = await db.fetchrow(SQL["slot"], self.name)
        if found is None:
            return 0
        self._check_kept(found)
        return int(found["retained_bytes"])

    async def drop(self) -> None:
        """Removes both; where there is none, nothing. Raises StoreBusy while somebody reads."""
        async with self._connected() as db:
            try:
                await db.fetch(SQL["drop_slot"], self.name)
            except asyncpg.ObjectInUseError as cause:
                raise StoreBusy(f"{self.url}: {cause}: stop that relay first") from cause
            await db.execute(f"DROP PUBLICATION IF EXISTS {self.publication}")

    def lost(self) -> StoreError:
        return StoreError(
            f"{self.url}: the slot {self.name} was lost, it lagged by more than "
            "max_slot_wal_keep_size: drop it and start again, the cursors tell where to go on"
        )

    def lacking(self) -> SettingsError:
        return SettingsError(
            f"{self.url}: the user {self._login} may not read the write-ahead log: "
            f"ALTER ROLE {self._login} REPLICATION"
        )

    def _check_server(self, server: Any) -> None:  # a row of the driver's
        if server["version"] < VERSION_MIN:
            raise SettingsError(f"{self.url}: PostgreSQL 13 or newer is needed")
        if server["standby"]:
            raise StoreUnavailable(f"{self.url} is a standby: the stream comes from the primary")
        if server["wal_level"] != "logical":
            raise SettingsError(
                f"{self.url} has wal_level = {server['wal_level']}: "
                "set wal_level = logical and restart the server"
            )
        if not server["has_log"]:
            raise StoreUnavailable(f"{self.url} has no table holdfast.log: run holdfast migrate")

    async def _make_publication(self, db: Connection) -> None:
        fits = await db.fetchval(SQL["publication"], self.publication)
        if fits is None:
            try:
                await db.execute(
                    f"CREATE PUBLICATION {self.publication} FOR TABLE holdfast.log"
                    " WITH (publish = 'insert')"
                )
            except asyncpg.InsufficientPrivilegeError as cause:
                raise SettingsError(
                    f"{self.url}: let the owner of the tables CREATE PUBLICATION "
                    f"{self.publication} FOR TABLE holdfast.log WITH (publish = 'insert')"
                ) from cause
            except (asyncpg.DuplicateObjectError, asyncpg.UniqueViolationError):
                fits = await db.fetchval(SQL["publication"], self.publication)
            else:
                return
        if not fits:
            raise SettingsError(
                f"{self.url}: the publication {self.publication} does not tell what is inserted "
                "into holdfast.log: drop it, or name another"
            )

    async def _make_slot(self, db: Connection) -> bool:
        try:
            await db.fetchval(SQL["create_slot"], self.name)
        except asyncpg.DuplicateObjectError:
            return False  # another process was first
        except asyncpg.InsufficientPrivilegeError as cause:
            raise self.lacking() from cause
        except asyncpg.ConfigurationLimitExceededError as cause:
            raise SettingsError(
                f"{self.url}: all replication slots are taken: raise max_replication_slots"
            ) from cause
        except TimeoutError:
            raise self._kept_waiting() from None
        # A commit that the slot came too late for may still be unseen, for an instant: whoever
        # reads the log after this must find it, for it comes from nowhere else.
        newest = await db.fetchval(SQL["newest_transaction"])
        until = asyncio.get_running_loop().time() + MAKE_SECONDS
        while True:
            if await db.fetchval(SQL["oldest_transaction"]) >= newest:
                return True
            if asyncio.get_running_loop().time() > until:
                await db.fetch(SQL["drop_slot"], self.name)
                raise self._kept_waiting()
            await asyncio.sleep(LOOK_SECONDS)

    def _kept_waiting(self) -> StoreBusy:
        return StoreBusy(
            f"{self.url}: the slot {self.name} cannot be made while a transaction that writes is "
            f"open for more than {MAKE_SECONDS:g} s: see pg_stat_activity"
        )

    def _check_slot(self, found: Any, database: str) -> None:  # a row of the driver's
        if found["plugin"] != "pgoutput" or found["database"] != database:
            raise SettingsError(
                f"{self.url}: the slot {self.name} is another's ({found['plugin']} in the database "
                f"{found['database']}): name another"
            )
        self._check_kept(found)

    def _check_kept(self, found: Any) -> None:  # a row of the driver's
        if found["wal_status"] == "lost":
            raise self.lost()

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Connection]:
        """A connection of its own: all this is rare."""
        with translated(self.url):
            try:
                db = await asyncpg.connect(
                    self._dsn,
                    timeout=CONNECT_SECONDS,
                    command_timeout=MAKE_SECONDS,
                    statement_cache_size=0,
                )
            except asyncpg.ClientConfigurationError as cause:
                raise SettingsError(f"{self.url} is not a PostgreSQL address: {cause}") from cause
            except (ValueError, OverflowError):
                raise unusable(self.url) from None
            try:
                yield db
            finally:
                db.terminate()
