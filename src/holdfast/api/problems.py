"""Everything that is answered with `application/problem+json`: refusals, faults and trouble.

A refusal is a value that handlers return. A `Problem` is raised, for what ends a call early.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import msgspec

from holdfast.api import wire
from holdfast.domain.faults import Fault
from holdfast.domain.outcomes import Reason, Refused

REFUSALS_MAX = 1_000
"""Written once, as long as they are given again and again: thousands lose the same seat."""
CONTENT_TYPE = "application/problem+json"

STATUS = {
    Reason.UNKNOWN_EVENT: 404,
    Reason.UNKNOWN_HOLD: 404,
    Reason.UNKNOWN_ORDER: 404,
    Reason.NOT_YOURS: 404,
    Reason.UNKNOWN_UNIT: 422,
    Reason.IDEMPOTENCY_MISMATCH: 422,
    Reason.PAYMENT_REQUIRED: 422,
    Reason.TOO_MUCH: 422,
}
"""Of refusals; where nothing is said, 409."""

TITLES = {
    400: "Bad request",
    401: "Who are you?",
    402: "Payment declined",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    408: "Too slow",
    409: "Refused",
    410: "Gone",
    413: "Too large",
    422: "Cannot be processed",
    429: "Too many requests",
    431: "Headers too large",
    500: "Our fault",
    503: "Try again",
}

encode = msgspec.json.Encoder().encode


class Problem(Exception):
    def __init__(
        self,
        status: int,
        reason: str,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        faults: Sequence[Fault] = (),
        order: str | None = None,
        first: int | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.reason = reason
        self.detail = detail
        self.headers = headers or {}
        self.faults = faults
        self.order = order
        self.first = first

    def body(self) -> bytes:
        return encode(
            wire.Problem(
                type=kind(self.reason),
                title=TITLES.get(self.status, "Problem"),
                status=self.status,
                detail=self.detail,
                reason=self.reason,
                first=self.first,
                order=self.order,
                faults=tuple([_fault(fault) for fault in self.faults]),
            )
        )


def kind(reason: str) -> str:
    """The problem's type, which is also where /docs explains it."""
    return f"/docs#{reason}"


@lru_cache(REFUSALS_MAX)
def refusal(no: Refused, reason: str | None = None) -> tuple[int, bytes]:
    """Status and body of a refusal; `reason` where HTTP has another word for it."""
    status = STATUS.get(no.reason, 409)
    detail = no.detail
    if no.reason is Reason.NOT_YOURS:
        reason = reason or Reason.UNKNOWN_HOLD
        detail = f"there is no hold {no.value!r}"  # whose it is, is nobody else's business
    if no.reason is Reason.IDEMPOTENCY_MISMATCH:
        detail = _mismatch(no.value or "")
    word = reason or no.reason.value
    return status, encode(
        wire.Problem(
            type=kind(word),
            title=TITLES[status],
            status=status,
            detail=detail,
            reason=word,
            seats=no.seats,
            pools=no.pools,
            available=no.available,
            cap=no.cap,
        )
    )


def _mismatch(command: str) -> str:
    """In the caller's words: he does not know the ids of commands."""
    kind, _, id = command.partition(":")
    name = f"the id {id!r}" if kind == "place" else "this Idempotency-Key"
    return f"{name} was used for something else"


def invalid(faults: Sequence[Fault]) -> Problem:
    """A malformed body or parameter, with the path of each fault."""
    detail = "; ".join(str(fault) for fault in faults[:3])
    if len(faults) > 3:
        detail += f"; and {len(faults) - 3} more"
    return Problem(422, "invalid", detail, faults=faults)


def _fault(fault: Fault) -> wire.Fault:
    got = f" (got {fault.value})" if fault.value else ""
    return wire.Fault(path=fault.path, problem=fault.problem + got)
