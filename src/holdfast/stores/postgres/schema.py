"""Schema versions in the database: created when absent, brought forward by `holdfast migrate`."""

from importlib.resources import files

from holdfast.errors import SchemaMismatch
from holdfast.stores.postgres.errors import Connection

SCHEMA_VERSION = 5
MIGRATIONS: dict[int, str] = {
    1: "schema.sql",
    2: "schema_2.sql",
    3: "schema_3.sql",
    4: "schema_4.sql",
    5: "schema_5.sql",
}
"""Each version and the file that leads to it from the one before."""
UNKNOWN = -1

# One process at a time, whoever comes first; the others find the work done.
LOCK = "SELECT pg_advisory_xact_lock(hashtext('holdfast migrate'))"
VERSION_TABLE = """
CREATE SCHEMA IF NOT EXISTS holdfast;
CREATE TABLE IF NOT EXISTS holdfast.schema_version (version integer NOT NULL)
"""


async def version(db: Connection) -> int:
    """0 where there is no schema yet, UNKNOWN where its version is lost."""
    # A look into the catalogue itself: to_regclass remembers, within a session, what was not there.
    there = "SELECT count(*) FROM pg_tables WHERE schemaname = $1 AND tablename = $2"
    if not await db.fetchval(there, "holdfast", "schema_version"):
        return 0
    found = await db.fetchval("SELECT max(version) FROM holdfast.schema_version")
    # Made and filled in one transaction: an empty table is not one that is about to be filled.
    return int(found) if found and found > 0 else UNKNOWN


async def migrate(db: Connection) -> list[str]:
    """Runs what is missing, all of it or nothing."""
    done = []
    async with db.transaction():
        await db.execute(LOCK)
        found = await version(db)
        if found == 0:
            await db.execute(VERSION_TABLE)
        while found != UNKNOWN and found < SCHEMA_VERSION:
            steps = (files(__package__) / MIGRATIONS[found + 1]).read_text(encoding="utf-8")
            await db.execute(steps)
            await db.execute("DELETE FROM holdfast.schema_version")
            await db.execute("INSERT INTO holdfast.schema_version VALUES ($1)", found + 1)
            done.append(f"schema {found} -> {found + 1}")
            found += 1
    return done


def compare(found: int, url: str) -> None:
    if found == UNKNOWN:
        raise SchemaMismatch(
            f"{url}: the table holdfast.schema_version does not tell a version: restore it, "
            "or drop the schema holdfast to begin anew"
        )
    if found > SCHEMA_VERSION:
        raise SchemaMismatch(
            f"{url} has schema {found}, newer than this program's {SCHEMA_VERSION}: "
            "upgrade holdfast"
        )
    if found < SCHEMA_VERSION:
        raise SchemaMismatch(
            f"{url} has schema {found}, older than this program's {SCHEMA_VERSION}: "
            "run holdfast migrate"
        )
