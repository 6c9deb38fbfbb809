"""One request, as handlers see it, and what they answer."""

import asyncio
import hashlib
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeVar, get_args
from urllib.parse import parse_qs

import msgspec

from holdfast.api.callers import Caller, Headers
from holdfast.api.problems import Problem, invalid, refusal
from holdfast.api.wording import misfit, not_json
from holdfast.domain.faults import Fault, Faults
from holdfast.domain.outcomes import Refused

T = TypeVar("T")

BODY_BYTES_MAX = 64 * 1024
UPLOAD_BYTES_MAX = 32 * 1024 * 1024
BIG_BODY_BYTES = 256 * 1024
IDEMPOTENCY_KEY = "[!-~]([ -~]{0,253}[!-~])?"
"""Printable ASCII, 1 to 255 characters, no blank at its ends."""

FROM_0: Mapping[str, int] = {}
REPLAYED = {"Idempotency-Replayed": "true"}
NOT_KEPT = {"Cache-Control": "no-store"}
"""For what a token in a header opens: whoever keeps answers by their address must not keep it."""

encode = msgspec.json.Encoder().encode
_is_key = re.compile(IDEMPOTENCY_KEY.encode()).fullmatch


class Reply(NamedTuple):
    status: int
    body: bytes = b""
    headers: Mapping[str, str] | None = None
    content_type: str | None = None
    """Else JSON, or a problem from 400 on."""
    stream: Callable[[Any], Any] | None = None
    """What goes on after the answer has begun: given how the caller is heard (a WebSocket: the
    socket), the parts of the body as they come (a WebSocket: the talk)."""


class Call:
    __slots__ = ("address", "body", "caller", "headers", "params", "query_string", "request_id")

    def __init__(
        self,
        caller: Caller,
        params: dict[str, str],
        headers: Headers,
        query_string: bytes,
        address: str,
        request_id: str,
    ) -> None:
        self.caller = caller
        self.params = params
        self.headers = headers
        self.query_string = query_string
        self.address = address
        self.request_id = request_id
        self.body = b""

    def header(self, name: bytes) -> str | None:
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")

    def idempotency_key(self, hold: str | None = None) -> str | None:
        """The command's id under which this call may be repeated. What callers choose is hashed
        with whose it is: nobody can meet another's key. Who does not say which buyer he is, but
        has the token of a hold, is whoever holds that."""
        key = self.headers.get(b"idempotency-key")
        if key is None:
            return None
        if not _is_key(key):
            fault = "must have 1 to 255 printable ASCII characters, no blank at its ends"
            raise invalid([Fault("Idempotency-Key", fault)])
        caller = self.caller
        nobody = caller.public and caller.buyer is None
        scope = (f"hold:{hold}" if nobody else caller.scope).encode()
        asked = b"%d:%b:%b" % (len(scope), scope, key)
        return f"key:{hashlib.blake2b(asked, digest_size=20).hexdigest()}"

    def query(self, least: Mapping[str, int] = FROM_0, **known: int) -> dict[str, int]:
        """Whole numbers of the query string, from 0 unless `least` says otherwise, and of 18 digits
        at most; each that is not there is its default here. Names that are not known are passed
        over."""
        try:
            given = parse_qs(self.query_string.decode(), keep_blank_values=True, max_num_fields=20)
        except (UnicodeDecodeError, ValueError):
            raise invalid([Fault("", "the query cannot be read")]) from None
        faults = Faults()
        found = dict(known)
        for name in known:
            if name in given:
                text = given[name][-1]
                begin = least.get(name, 0)
                number = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else -1
                if number < begin:
                    faults.add(name, f"must be a whole number from {begin}", text)
                found[name] = number
        if faults.found:
            raise invalid(faults.found)
        return found


def reply(status: int, value: object, headers: Mapping[str, str] | None = None) -> Reply:
    return Reply(status, encode(value), headers)


def refused(no: Refused, reason: str | None = None) -> Reply:
    status, body = refusal(no, reason)
    return Reply(status, body)


async def aside(body: bytes, work: Callable[..., T], *more: Any) -> T:
    """Reads a body: a big one on a thread, while others are served."""
    if len(body) > BIG_BODY_BYTES:
        return await asyncio.to_thread(work, body, *more)
    return work(body, *more)


class Body:
    """Reads a JSON body: fast where it is right, and with every fault listed where it is not."""

    def __init__(self, kind: Any, explain: Callable[[Faults, Any], object] | None = None) -> None:
        """`explain` reads it again, slowly; else it is read field by field."""
        self._decoder = msgspec.json.Decoder(kind)
        self._explain = explain or partial(_read_fields, kind)

    async def read(self, body: bytes) -> Any:
        """A value of the kind."""
        return await aside(body, self.decode)

    def decode(self, body: bytes) -> Any:
        try:
            return self._decoder.decode(body)
        except msgspec.ValidationError as fault:
            raise self._faults(body, fault) from None
        except NOT_JSON as fault:
            raise invalid([not_json(body, fault)]) from None

    def _faults(self, body: bytes, fault: msgspec.ValidationError) -> Problem:
        try:
            raw = msgspec.json.decode(body)
        except msgspec.ValidationError:  # a number that is too large for any type
            return invalid([misfit(str(fault))])
        except NOT_JSON as worse:  # the fault came before the place where it stops being JSON
            return invalid([not_json(body, worse)])
        faults = Faults()
        self._explain(faults, raw)
        return invalid(faults.found or [misfit(str(fault))])


def _read_fields(kind: Any, faults: Faults, raw: Any, path: str = "") -> None:
    """What the decoder would say of each field of an object; alone, it stops at the first."""
    if not isinstance(raw, dict):
        return
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    for name in raw:
        if name not in fields:
            faults.add(f"{path}{name}", f"unknown; known are {', '.join(fields)}")
    for name, field in fields.items():
        if name not in raw:
            if field.required:
                faults.add(f"{path}{name}", "is missing")
            continue
        parts = [each for each in get_args(field.type) or (field.type,) if _is_struct(each)]
        if parts and isinstance(raw[name], dict):
            _read_fields(parts[0], faults, raw[name], f"{path}{name}.")
            continue
        try:
            msgspec.convert(raw[name], field.type)
        except msgspec.ValidationError as trouble:
            fault = misfit(str(trouble), f"{path}{name}")
            faults.add(fault.path, fault.problem)


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
