"""All expected errors of PostgreSQL on one page, and what each is to the rest of Holdfast."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

import asyncpg

from holdfast.errors import HoldfastError, StoreBusy, StoreError, StoreUnavailable

Connection: TypeAlias = asyncpg.Connection

AGAIN = (
    asyncpg.SerializationError,  # 40001
    asyncpg.DeadlockDetectedError,  # 40P01
    asyncpg.LockNotAvailableError,  # 55P03, our lock_timeout
    asyncpg.QueryCanceledError,  # 57014, our statement_timeout
)
"""Rolled back by the server; run again, decisions included."""

LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.AdminShutdownError,  # 57P01
    asyncpg.CrashShutdownError,  # 57P02
    asyncpg.CannotConnectNowError,  # 57P03
    asyncpg.TooManyConnectionsError,
    ConnectionError,
    OSError,
    asyncio.TimeoutError,
)
"""The server cannot be reached, or did not answer in time."""

BACKSTOPS = ("sold_seats_once",)


def said(cause: BaseException) -> str:
    """In one line: asyncpg puts details and hints below."""
    return " ".join(str(cause).split())


@contextmanager
def translated(url: str) -> Iterator[None]:
    """Driver errors stop here."""
    try:
        yield
    except HoldfastError:
        raise
    except AGAIN as cause:
        raise StoreBusy(f"{url}: {said(cause)}") from cause
    except asyncpg.UniqueViolationError as cause:
        if cause.constraint_name in BACKSTOPS:
            raise StoreError(f"the schema refused a batch: {said(cause)}") from cause
        # Another process made the same id meanwhile: run again, and it is found.
        raise StoreBusy(f"{url}: {said(cause)}") from cause
    except asyncpg.IntegrityConstraintViolationError as cause:
        raise StoreError(f"the schema refused a batch: {said(cause)}") from cause
    except asyncpg.DataError as cause:
        # One command's values: the batch is split, and the others go on.
        raise StoreError(f"{url}: {said(cause)}") from cause
    except asyncpg.InvalidPasswordError as cause:
        raise StoreUnavailable(f"{url}: wrong user or password") from cause
    except asyncpg.InvalidAuthorizationSpecificationError as cause:
        raise StoreUnavailable(f"{url}: this user may not connect: {said(cause)}") from cause
    except asyncpg.InvalidCatalogNameError as cause:
        why = "create it first, or name another in the address"
        raise StoreUnavailable(f"{url}: there is no such database: {said(cause)}: {why}") from cause
    except asyncpg.InsufficientPrivilegeError as cause:
        raise StoreUnavailable(f"{url}: the user lacks a right: {said(cause)}") from cause
    except asyncpg.ReadOnlySQLTransactionError as cause:  # 25006, a standby or after a failover
        raise StoreUnavailable(f"{url} takes no writes: {said(cause)}") from cause
    except asyncpg.TooManyConnectionsError as cause:
        raise StoreUnavailable(f"{url} admits no more connections: {said(cause)}") from cause
    except LOST as cause:
        why = said(cause) or "no answer in time"
        raise StoreUnavailable(f"{url} cannot be reached: {why}") from cause
    except asyncpg.PostgresError as cause:
        raise StoreUnavailable(f"{url}: {said(cause)}") from cause
