"""Schema versions of the file: created when new, brought forward when old, refused when newer."""

from importlib.resources import files

import apsw

from holdfast.errors import SchemaMismatch

SCHEMA_VERSION = 4
MIGRATIONS: dict[int, str] = {
    1: "schema.sql",
    2: "schema_2.sql",
    3: "schema_3.sql",
    4: "schema_4.sql",
}
"""Each version and the file that leads to it from the one before."""


def migrate(db: apsw.Connection) -> list[str]:
    """Runs what is missing, each step in a transaction of its own; safe to run at any time."""
    done = []
    while (version := _version(db)) < SCHEMA_VERSION:
        target = version + 1
        steps = (files(__package__) / MIGRATIONS[target]).read_text(encoding="utf-8")
        with db:  # all of it or nothing, the version included
            db.execute(steps)
            db.pragma("user_version", target)
        done.append(f"schema {version} -> {target}")
    return done


def check_ours(db: apsw.Connection, path: str) -> None:
    """Refuses what another program made, and what a newer one of ours did."""
    version = _version(db)
    if version < 0 or (version == 0 and _tables(db)):
        raise SchemaMismatch(f"{path} is the database of another program: name another file")
    if version > SCHEMA_VERSION:
        raise SchemaMismatch(
            f"{path} has schema {version}, newer than this program's {SCHEMA_VERSION}: "
            "upgrade holdfast"
        )


def _tables(db: apsw.Connection) -> int:
    return int(db.execute("SELECT count(*) FROM sqlite_schema WHERE type = 'table'").get)


def _version(db: apsw.Connection) -> int:
    return int(db.pragma("user_version"))
