"""SQLite as the authority: one file, durable, any number of processes on one machine."""

from holdfast.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
