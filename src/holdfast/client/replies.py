"""From what came over the wire to a value, a refusal, or an error."""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec

from holdfast.client.errors import Forbidden, Invalid, Unauthorized, Unexpected
from holdfast.client.values import Refused
from holdfast.domain.faults import Fault

T = TypeVar("T")

REFUSALS = {402, 404, 409, 410, 422}
TEXT_SHOWN_CHARS = 200


class Reply(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def replayed(self) -> bool:
        return self.headers.get("Idempotency-Replayed") == "true"


class Problem(msgspec.Struct, frozen=True):
    """RFC 9457, as far as it was sent."""

    reason: str = ""
    detail: str = ""
    faults: tuple[Fault, ...] = ()


_problem = msgspec.json.Decoder(Problem).decode


def problem(reply: Reply) -> Problem:
    """What is wrong; of somebody else's error page nothing but its beginning."""
    try:
        return _problem(reply.body)
    except msgspec.DecodeError:
        shown = reply.body[:TEXT_SHOWN_CHARS].decode(errors="replace").strip()
        return Problem(detail=shown or f"status {reply.status}")


def value(reply: Reply, kind: type[T]) -> T | Refused:
    """The value that was promised, or the refusal. Raises for everything else."""
    if 200 <= reply.status < 300:
        return decoded(reply.body, kind, reply.status)
    return refusal(reply)


def found(reply: Reply, kind: type[T]) -> T | None:
    """The value, or None where there is no such thing."""
    got = value(reply, kind)
    if isinstance(got, Refused):
        if got.status == 404:
            return None
        raise unexpected(got)
    return got


def only(reply: Reply, kind: type[T]) -> T:
    """The value, of a call that nobody refuses."""
    got = value(reply, kind)
    if isinstance(got, Refused):
        raise unexpected(got)
    return got


def unexpected(no: Refused) -> Unexpected:
    return Unexpected(no.detail or no.reason, status=no.status, reason=no.reason)


def decoded(body: bytes, kind: type[T], status: int = 200) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as cause:
        text = f"the answer is no {kind.__name__.lower()} of Holdfast's: {cause}"
        raise Unexpected(text, status=status) from None


def refusal(reply: Reply) -> Refused:
    said = problem(reply)
    known: dict[str, Any] = {"status": reply.status, "reason": said.reason}
    if reply.status == 401:
        raise Unauthorized(said.detail, **known)
    if reply.status == 403:
        raise Forbidden(said.detail, **known)
    if reply.status == 422 and (said.faults or said.reason == "invalid"):
        raise Invalid(said.detail, said.faults)
    if reply.status not in REFUSALS or said.reason in ("", "not_found"):
        raise Unexpected(f"status {reply.status}: {said.detail}", **known)
    no = decoded(reply.body, Refused, reply.status)
    return msgspec.structs.replace(no, status=reply.status)
