"""Schema versions in the database: created when absent, brought forward by `holdfast migrate`."""

from importlib.resources import files

from holdfast.errors import SchemaMismatch, StoreBusy
from holdfast.stores.mysql.connections import Connection
from holdfast.stores.mysql.errors import DONE_BEFORE, DRIVER, code_of

SCHEMA_VERSION = 4
MIGRATIONS: dict[int, str] = {
    1: "schema.sql",
    2: "schema_2.sql",
    3: "schema_3.sql",
    4: "schema_4.sql",
}
"""Each version and the file that leads to it from the one before. DDL commits at once on these
servers: a process may die in the middle of a file, so every statement in it may be run again."""
UNKNOWN = -1

STEP_SECONDS = 3600.0
"""A step may rebuild a table of many millions of rows."""
LOCK_SECONDS = 60
# One process at a time, whoever comes first; the others find the work done. The lock's name is of
# the whole server and has 64 characters at most, as the database's may have: two databases with the
# same checksum wait for each other, which does no harm.
LOCK = f"SELECT GET_LOCK(CONCAT('holdfast.', CRC32(DATABASE())), {LOCK_SECONDS})"
UNLOCK = "SELECT RELEASE_LOCK(CONCAT('holdfast.', CRC32(DATABASE())))"
HAS_TABLE = """
SELECT COUNT(*) FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_name = 'holdfast_schema_version'
"""
VERSION_TABLE = """
CREATE TABLE IF NOT EXISTS holdfast_schema_version (
    id TINYINT NOT NULL PRIMARY KEY, version BIGINT NOT NULL
) ENGINE = InnoDB
"""
SET_VERSION = "REPLACE INTO holdfast_schema_version (id, version) VALUES (1, %s)"


async def version(db: Connection) -> int:
    """0 where there is no schema yet, or its making was interrupted; UNKNOWN where its version is
    lost."""
    if await db.one(HAS_TABLE) == (0,):
        return 0
    row = await db.one("SELECT version FROM holdfast_schema_version")
    if row is None:
        return 0
    return int(row[0]) if row[0] > 0 else UNKNOWN


async def migrate(db: Connection) -> list[str]:
    """Runs what is missing, step by step."""
    db.patience_seconds = STEP_SECONDS
    if await db.one(LOCK) != (1,):
        raise StoreBusy("another process is changing the schema; wait until it is done")
    try:
        return await _run_missing(db)
    finally:
        await db.one(UNLOCK)


async def _run_missing(db: Connection) -> list[str]:
    done = []
    found = await version(db)
    if found == 0:
        await db.execute(VERSION_TABLE)
    while found != UNKNOWN and found < SCHEMA_VERSION:
        for statement in statements(MIGRATIONS[found + 1]):
            await _run(db, statement)
        await db.execute(SET_VERSION, (found + 1,))
        await db.commit()
        done.append(f"schema {found} -> {found + 1}")
        found += 1
    return done


async def _run(db: Connection, statement: str) -> None:
    """MySQL has no ADD COLUMN IF NOT EXISTS: where the column is there, the statement was run; so
    it was where nothing is left to drop."""
    try:
        await db.execute(statement)
    except DRIVER as cause:
        if code_of(cause) not in DONE_BEFORE:
            raise


def statements(file: str) -> list[str]:
    text = (files(__package__) / file).read_text(encoding="utf-8")
    bare = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
    return [statement for part in bare.split(";") if (statement := part.strip())]


def compare(found: int, url: str) -> None:
    if found == UNKNOWN:
        raise SchemaMismatch(
            f"{url}: the table holdfast_schema_version does not tell a version: restore it, "
            "or drop the tables holdfast_... to begin anew"
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
