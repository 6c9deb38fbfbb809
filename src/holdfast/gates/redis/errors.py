"""All expected errors of Redis on one page, and what each is called to whoever reads the log.

To the engine they are one and the same: the gate is down, one goes on without it.
"""

import msgspec
from redis import exceptions as err

from holdfast.errors import GateBroken, GateDown

SAID_CHARS_MAX = 200

DRIVER = (
    err.RedisError,
    err.RedisClusterException,  # which is not one of the above
    OSError,
    TimeoutError,
    EOFError,
    # Loops written in C say so when a connection was closed under them.
    RuntimeError,
    # What came back cannot be read, or what should go there cannot be written.
    msgspec.MsgspecError,
    ValueError,
    TypeError,
    OverflowError,
    # The driver's cluster, when a node goes away while it writes to it.
    AttributeError,
)
"""Whatever the driver raises about a server, the way there, or an answer."""


def is_replica(cause: Exception) -> bool:
    """Redis 6 wraps what a script met in words of its own."""
    return isinstance(cause, err.ReadOnlyError) or "READONLY" in str(cause)


def translation(shown: str, password: str | None, timeout_ms: int, cause: Exception) -> GateDown:
    """One line that says what is wrong, with the address but no password."""
    text = " ".join(str(cause).split())[:SAID_CHARS_MAX]
    if password:
        text = text.replace(password, "***")
    line = f"{shown} {_what(cause, timeout_ms)}" + (f": {text}" if text else "")
    return GateBroken(line) if _of_one_event(cause) else GateDown(line)


def _of_one_event(cause: Exception) -> bool:
    """Somebody else has written to its keys, or what is there is not ours."""
    unread = isinstance(cause, msgspec.MsgspecError | ValueError | TypeError | OverflowError)
    return unread or "WRONGTYPE" in str(cause)


def _what(cause: Exception, timeout_ms: int) -> str:
    match cause:
        case err.TimeoutError() | TimeoutError():
            return f"did not answer within {timeout_ms} ms"
        case err.AuthenticationError():
            return "refused the user or the password"
        case err.NoPermissionError() | err.AuthorizationError():
            return "does not let this user do it"
        case err.BusyLoadingError():
            return "is loading its data"
        case err.MasterDownError() | err.ReadOnlyError():
            return "is a replica, which takes no writes"
        case err.OutOfMemoryError():
            return "is out of memory"
        case err.InvalidResponse():
            return "does not speak as Redis does"
        case err.ConnectionError() | OSError() | EOFError() | RuntimeError():
            return "cannot be reached"
        case err.RedisError() | err.RedisClusterException():
            return "did not do it"
        case _:
            return "said something that cannot be read"
