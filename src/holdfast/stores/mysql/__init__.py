"""MySQL or MariaDB as the authority: the shop's own database, any number of processes."""

from holdfast.stores.mysql.store import MysqlStore

__all__ = ["MysqlStore"]
