"""What each method of payment makes the sandbox do."""

from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

NAME = "sandbox"
SLOW_SECONDS_MAX = 60.0
TIMES_MAX = 1_000
SHOWN_CHARS_MAX = 64


class Kind(StrEnum):
    OK = "ok"
    DECLINED = "declined"
    SLOW = "slow"  # authorized after so many seconds, pending until then
    TIMEOUT = "timeout"  # authorized at once, but the answer never comes
    ERROR = "error"  # the provider is down: nothing is made
    CHALLENGED = "3ds"  # pending until the buyer acts
    CAPTURE_DECLINED = "capture-declined"
    REFUND_REFUSED = "refund-refused"
    CAPTURE_ERROR = "capture-error"  # unavailable the first so many times
    VOID_ERROR = "void-error"


NUMBERED = {Kind.SLOW: "SECONDS", Kind.CAPTURE_ERROR: "N", Kind.VOID_ERROR: "N"}
METHODS = ", ".join(
    f"{NAME}:{kind}:{NUMBERED[kind]}" if kind in NUMBERED else f"{NAME}:{kind}" for kind in Kind
)


class Method(NamedTuple):
    kind: Kind
    seconds: float = 0.0
    times: int = 0


# The benchmarked path asks for the same method over and over.
@lru_cache(maxsize=1_000)
def read_method(method: str) -> Method | None:
    """None if there is no such method."""
    provider, _, rest = method.partition(":")
    name, colon, number = rest.partition(":")
    if provider != NAME or name not in list(Kind):
        return None
    kind = Kind(name)
    if kind not in NUMBERED:
        return None if colon else Method(kind)
    if kind is Kind.SLOW:
        return _slow(number)
    fine = number.isascii() and number.isdigit() and len(number) <= 4
    return Method(kind, times=int(number)) if fine and int(number) <= TIMES_MAX else None


def _slow(number: str) -> Method | None:
    whole, _, part = number.partition(".")
    digits = whole + part
    if not (whole and digits.isascii() and digits.isdigit() and len(digits) <= 6):
        return None
    return Method(Kind.SLOW, seconds=min(float(number), SLOW_SECONDS_MAX))


def fault_of(method: str) -> str | None:
    """One line on what is wrong with a method; None if the sandbox knows it."""
    if read_method(method) is not None:
        return None
    return f"{method[:SHOWN_CHARS_MAX]!r} is no method of the sandbox; there are {METHODS}"
