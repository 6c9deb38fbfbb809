"""One route: who may call it, within which limits, and every way in which a call can end."""

import itertools
import logging
import re
import time
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import parse_qs

from holdfast.api.arriving import CutShort, Receive, TooLong
from holdfast.api.callers import UNAUTHORIZED, Caller, Stranger, address_of
from holdfast.api.calls import Call, Reply
from holdfast.api.exchange import EXCHANGE, Exchange
from holdfast.api.keys import Key, Role
from holdfast.api.problems import Problem, invalid
from holdfast.api.routes import Route
from holdfast.api.sending import Send, say, send
from holdfast.api.service import Service
from holdfast.errors import (
    CommitUnknown,
    Invalid,
    NotOpen,
    Overloaded,
    StoreError,
)
from holdfast.ids import Ids

REQUEST_ID = re.compile(rb"[\x21-\x7e]{1,64}")
RETRY_SOON = {"Retry-After": "1"}
SLOW_SECONDS = 1.0
NOBODY = Caller(Key("", Role.PUBLIC, ""))
ONCE = (b"authorization", b"buyer-token", b"hold-token", b"idempotency-key", b"content-length")
EXPOSED = "ETag, Idempotency-Replayed, RateLimit, RateLimit-Policy, Retry-After, X-Request-Id"

Scope = dict[str, Any]  # of ASGI

log = logging.getLogger("holdfast.api")


class Numbers:
    """Requests are told apart by a number, after what tells processes apart."""

    def __init__(self) -> None:
        self._prefix = f"{Ids().new()}-"
        self._count = itertools.count(1)

    def next(self) -> str:
        return f"{self._prefix}{next(self._count)}"


class Endpoint:
    """Answers ASGI itself: what a framework makes of every request and of every answer would cost a
    refusal, of which there are most, a good part of its time."""

    def __init__(self, service: Service, route: Route, numbers: Numbers) -> None:
        self._service = service
        self._route = route
        self._name = route.name
        self._numbers = numbers
        self._max = service.settings.requests_max
        self._waiting = service.patience.waiting
        self._has_body = route.body is not None
        self._access_log = service.settings.access_log

    async def serve(
        self, scope: Scope, receive: Receive, to: Send, params: dict[str, str], head: bool
    ) -> None:
        """`head`: without the body of the answer."""
        extra: dict[str, str] = {}
        answer, request_id = await self.handle(scope, receive, params, extra)
        exchange: Exchange | None = scope.get(EXCHANGE)
        if exchange is not None and not extra and say(exchange, answer, request_id, head=head):
            return
        await send(to, receive, answer, request_id, extra, head=head)

    async def handle(
        self, scope: Scope, receive: Receive, params: dict[str, str], extra: dict[str, str]
    ) -> tuple[Reply, str]:
        """The answer, whatever happened, and the number of the call; `extra` gets its headers."""
        began = time.perf_counter()
        service = self._service
        headers: dict[bytes, bytes] = dict(scope["headers"])
        given = headers.get(b"x-request-id")
        request_id = self._numbers.next() if given is None else self._request_id(given)
        service.in_hand += 1
        try:
            answer = await self._answer(scope, receive, headers, params, request_id, extra)
        except Exception as trouble:  # whatever it is, this call alone ends with it
            answer = ended(trouble, self._route, request_id)
        finally:
            service.in_hand -= 1
        try:
            self._note(answer, time.perf_counter() - began, headers, request_id)
        except Exception as trouble:  # what is noted of a call may go wrong as well
            answer = ended(trouble, self._route, request_id)
        return answer, request_id

    def _note(
        self, answer: Reply, seconds: float, headers: Mapping[bytes, bytes], request_id: str
    ) -> None:
        """For those who watch the service."""
        service, status = self._service, answer.status
        service.metrics.answered(self._name, status, seconds)
        if service.traces is not None:
            service.traces.request(self._route, status, seconds, headers, request_id)
        if status >= 500 or seconds > SLOW_SECONDS or self._access_log:
            _log(self._route, status, seconds, request_id)

    def _request_id(self, given: bytes) -> str:
        return given.decode() if REQUEST_ID.fullmatch(given) else self._numbers.next()

    async def _answer(
        self,
        scope: Scope,
        receive: Receive,
        headers: dict[bytes, bytes],
        params: dict[str, str],
        request_id: str,
        extra: dict[str, str],
    ) -> Reply:
        service, route = self._service, self._route
        if len(headers) != len(scope["headers"]):
            _check_once(scope["headers"])
        query_string: bytes = scope["query_string"]
        caller = NOBODY
        address = ""
        if route.roles:
            stranger = None
            known = service.callers.known(headers)
            try:
                caller = known or await self._identify(headers, query_string)
            except Stranger as trouble:
                # The page that called can read why, and trying tokens costs its address as well.
                stranger, caller = trouble, Caller(trouble.key)
            except Problem:
                # As the preflight: a page whose key was revoked can read that it was.
                _allow_origin(service.keys.origins(), headers, extra)
                raise
            if caller.key.origins:
                extra["Vary"] = "Origin"
                _allow_origin(caller.key.origins, headers, extra)
            if service.in_hand - len(self._waiting) > self._max:
                raise _overloaded("too much is in hand already")
            if caller.limited:
                peer = scope.get("client") or ("", 0)
                address = address_of(peer[0], scope["headers"], service.trusted)
                verdict = await service.limits.admit(caller, address)
                extra.update(verdict.headers)
                if verdict.retry_after:
                    raise _too_many(verdict.retry_after)
            if stranger is not None:
                raise stranger
            if caller.role not in route.roles:
                needed = " or ".join(sorted(route.roles))
                raise Problem(403, "forbidden", f"this needs a key of role {needed}")
        call = Call(caller, params, headers, query_string, address, request_id)
        if self._has_body:
            if len(self._waiting) >= self._max:
                raise _overloaded("too many bodies are still to come")
            exchange: Exchange | None = scope.get(EXCHANGE)
            body = None if exchange is None else exchange.take_body()
            if body is None:
                body = await self._body(receive, headers)
            elif len(body) > route.body_max:
                raise _too_large(route.body_max)
            call.body = body
            if service.in_hand - len(self._waiting) > self._max:
                raise _overloaded("too much is in hand already")
        answer: Reply = await route.handle(service, call)
        return answer

    async def _identify(self, headers: dict[bytes, bytes], query_string: bytes) -> Caller:
        key = None
        if self._route.key_in_query and b"key=" in query_string:
            key = parse_qs(query_string.decode("latin-1")).get("key", [None])[-1]
        caller = await self._service.callers.identify(headers, key)
        if key is not None and b"authorization" not in headers and not caller.public:
            detail = "only a public key may be in the address: send this one as a header"
            raise Problem(401, "unauthorized", detail, headers=UNAUTHORIZED)
        return caller

    async def _body(self, receive: Receive, headers: dict[bytes, bytes]) -> bytes:
        most = self._route.body_max
        told = headers.get(b"content-length")
        length = -1
        if told is not None:
            length = int(told) if told.isdigit() and len(told) < 19 else -2
            if length < 0:
                raise Problem(400, "bad_request", "Content-Length is not a number")
            if length > most:
                raise _too_large(most)
        try:
            body = await self._service.patience.read(receive, most, length)
        except TimeoutError:
            raise Problem(408, "too_slow", "the body did not come in time") from None
        except TooLong:
            raise _too_large(most) from None
        except CutShort:
            raise _cut_short() from None
        if length > len(body):
            raise _cut_short()
        return body


def ended(trouble: Exception, route: Route, request_id: str) -> Reply:
    """What went wrong, as an answer."""
    match trouble:
        case Problem():
            problem = trouble
        case Invalid():
            problem = invalid(trouble.faults)
        case Overloaded():
            problem = Problem(
                503,
                "overloaded",
                str(trouble),
                headers={"Retry-After": f"{trouble.retry_after:.0f}"},
            )
        case CommitUnknown():
            detail = "nobody knows yet whether this was done: send it again with the same key"
            problem = Problem(503, "unknown", detail, headers=RETRY_SOON)
        case NotOpen() | StoreError():
            log.warning("%s: %s", route.name, trouble, extra={"request_id": request_id})
            problem = Problem(
                503, "store_unavailable", "the store cannot be reached", headers=RETRY_SOON
            )
        case _:
            extra = {"request_id": request_id}
            log.error("%s failed", route.name, exc_info=trouble, extra=extra)
            problem = Problem(500, "internal", f"our fault; its number is {request_id}")
    return Reply(problem.status, problem.body(), problem.headers)


def _log(route: Route, status: int, seconds: float, request_id: str) -> None:
    level = logging.WARNING if status >= 500 else logging.INFO
    log.log(
        level,
        "%s %d",
        route.name,
        status,
        extra={"request_id": request_id, "ms": round(seconds * 1000, 1)},
    )


def _overloaded(detail: str) -> Problem:
    return Problem(503, "overloaded", detail, headers=RETRY_SOON)


def _cut_short() -> Problem:
    return Problem(400, "bad_request", "the body ended early")


def _too_large(most: int) -> Problem:
    return Problem(413, "too_large", f"a body of this call may have {most} bytes")


def _too_many(retry_after: float) -> Problem:
    headers = {"Retry-After": f"{max(1, round(retry_after + 0.5))}"}
    return Problem(429, "rate_limited", "too many requests; slow down", headers=headers)


def _check_once(headers: list[tuple[bytes, bytes]]) -> None:
    """Which of two would count? None."""
    for name in ONCE:
        if sum(each == name for each, _ in headers) > 1:
            raise Problem(400, "bad_request", f"the header {name.decode()} is there twice")


def _allow_origin(
    origins: Collection[str], headers: Mapping[bytes, bytes], extra: dict[str, str]
) -> None:
    origin = headers.get(b"origin", b"").decode("latin-1")
    if origin in origins:
        extra["Vary"] = "Origin"
        extra["Access-Control-Allow-Origin"] = origin
        extra["Access-Control-Expose-Headers"] = EXPOSED
