"""Schema versions in the database: created when absent, brought forward by `holdfast migrate`."""

from importlib.resources import files

from holdfast.errors import SchemaMismatch
from holdfast.stores.postgres.errors import Connection

SCHEMA_VERSION = 1
MIGRATIONS: dict[int, str] = {1: "schema.sql"}
"""Each version and the file that leads to it from the one before."""

# One process at a time, whoever comes first; the others find the work done.
LOCK = "SELECT pg_advisory_xact_lock(hashtext('holdfast migrate'))"
VERSION_TABLE = """
CREATE SCHEMA IF NOT EXISTS holdfast;
CREATE TABLE IF NOT EXISTS holdfast.schema_version (version integer NOT NULL)
"""


async def version(db: Connection) -> int:
    """0 where there is no schema yet."""
    # A look into the catalogue itself: to_regclass remembers, within a session, what was not there.
    there = "SELECT count(*) FROM pg_tables WHERE schemaname = $1 AND tablename = $2"
    if not await db.fetchval(there, "holdfast", "schema_version"):
        return 0
    return int(await db.fetchval("SELECT max(version) FROM holdfast.schema_version") or 0)


async def migrate(db: Connection) -> list[str]:
    """Runs what is missing, all of it or nothing."""
    done = []
    async with db.transaction():
        await db.execute(LOCK)
        found = await version(db)
        if found == 0:
            await db.execute(VERSION_TABLE)
        while found < SCHEMA_VERSION:
            steps = (files(__package__) / MIGRATIONS[found + 1]).read_text(encoding="utf-8")
            await db.execute(steps)
            await db.execute("DELETE FROM holdfast.schema_version")
            await db.execute("INSERT INTO holdfast.schema_version VALUES ($1)", found + 1)
            done.append(f"schema {found} -> {found + 1}")
            found += 1
    return done


def compare(found: int, url: str) -> None:
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
