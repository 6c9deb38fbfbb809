"""PostgreSQL as the authority: the shop's own database, any number of processes."""

from holdfast.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
