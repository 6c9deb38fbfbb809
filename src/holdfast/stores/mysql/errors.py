"""All expected errors of MySQL and MariaDB on one page, and what each is to us."""

from collections.abc import Iterator
from contextlib import contextmanager

from pymysql import err

from holdfast.errors import HoldfastError, StoreBusy, StoreError, StoreUnavailable

AGAIN = {
    1020,  # the row has changed since it was read
    1205,  # waited for a lock too long: our innodb_lock_wait_timeout
    1213,  # deadlock
    1317,  # somebody killed the statement
    1969,  # ran too long (MariaDB)
    3024,  # ran too long (MySQL)
    3572,  # would have to wait for a lock
}
"""The server is there and did not do it; run again, decisions included."""

LOST = {
    1053,  # the server is shutting down
    1927,  # the connection was killed (MariaDB)
    2002,  # cannot connect to the socket
    2003,  # cannot connect to the host
    2006,  # the server has gone away
    2013,  # lost during a query
    2014,  # commands out of step
    2055,  # lost while reading
    4031,  # disconnected by the server, having been idle (MySQL)
}
"""The server cannot be reached, or did not answer in time."""

UNREACHED = {2002, 2003}
"""The driver says only where; the way there says why."""

LACKING = {1044, 1142, 1143, 1227, 1370}
"""The user may not do this: in the database, on a table, on a column, at all, in a routine."""

FULL = {
    1040,  # too many connections
    1203,  # of this user: the server's max_user_connections
    1226,  # of this user: his own MAX_USER_CONNECTIONS
}
"""The server admits no more connections for now."""

DONE_BEFORE = {
    1060,  # the column is there
    1091,  # what is to be dropped is not (MariaDB)
    3821,  # the same of a CHECK (MySQL)
    3940,  # the same of any constraint (MySQL)
}
"""What a step of a migration that was interrupted says when it is run again."""

DUPLICATE = 1062
WRONG_PASSWORD = {1045, 1698}
NO_DATABASE = 1049
NOT_HERE = {1290, 1836}
"""The server is read-only, as a replica or after a failover."""
REFUSED = {
    1048,  # NULL where there may be none
    1264,  # a number out of range
    1265,  # a text too long, in the rows of an update
    1406,  # a text too long
    3819,  # CHECK (MySQL)
    4025,  # CHECK (MariaDB)
}

BACKSTOPS = ("holdfast_sold_seats",)
"""Here a duplicate is not an id that somebody else made meanwhile: it is a seat sold twice."""

DRIVER = (err.MySQLError, OSError, TimeoutError, EOFError)
"""Whatever the driver raises about a server or the way there."""


def code_of(cause: BaseException) -> int:
    code = cause.args[0] if isinstance(cause, err.MySQLError) and cause.args else 0
    return code if isinstance(code, int) else 0


def lost(cause: BaseException) -> bool:
    """Whether the connection is gone, so that nobody heard the end of it."""
    if isinstance(cause, err.InterfaceError | err.InternalError):
        return True
    return not isinstance(cause, err.MySQLError) or code_of(cause) in LOST


def said(cause: BaseException) -> str:
    """What the server said, in one line, without the number that the driver puts before it."""
    text = str(cause.args[-1]) if cause.args else ""
    if code_of(cause) in UNREACHED and cause.__cause__ is not None:
        text += f" ({cause.__cause__})"
    return " ".join(text.split()) or "no answer in time"


@contextmanager
def inserting(table: str) -> Iterator[None]:
    """Names the table: MariaDB says only that something is twice in some PRIMARY key."""
    try:
        yield
    except err.IntegrityError as cause:
        if code_of(cause) != DUPLICATE:
            raise
        if table in BACKSTOPS:
            raise StoreError(f"the schema refused a batch: {table}: {said(cause)}") from cause
        # Another process made the same id meanwhile: run again, and it is found.
        raise StoreBusy(f"{table}: {said(cause)}") from cause


@contextmanager
def translated(url: str) -> Iterator[None]:
    """Driver errors stop here."""
    try:
        yield
    except HoldfastError:
        raise
    except DRIVER as cause:
        raise _translation(url, cause) from cause


def _translation(url: str, cause: Exception) -> StoreError:
    code = code_of(cause)
    if code in AGAIN or code == DUPLICATE:
        return StoreBusy(f"{url}: {said(cause)}")
    if code in REFUSED:
        return StoreError(f"the schema refused a batch: {said(cause)}")
    if code in WRONG_PASSWORD:
        return StoreUnavailable(f"{url}: wrong user or password")
    if code == NO_DATABASE:
        return StoreUnavailable(f"{url}: there is no such database: create it first")
    if code in LACKING:
        return StoreUnavailable(f"{url}: the user lacks a right: {said(cause)}")
    if code in NOT_HERE:
        return StoreUnavailable(f"{url} takes no writes: {said(cause)}")
    if code in FULL:
        return StoreUnavailable(f"{url} admits no more connections: {said(cause)}")
    if lost(cause):
        return StoreUnavailable(f"{url} cannot be reached: {said(cause)}")
    return StoreUnavailable(f"{url}: {said(cause)}")
