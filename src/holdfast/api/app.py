"""The Falcon application: from a request to its handler, and from what happened to an answer."""

import itertools
import logging
import re
import time
from collections.abc import Collection, Mapping
from typing import Any

import falcon
import falcon.asgi
import msgspec

from holdfast.api import (
    buyers,
    documentation,
    events,
    holds,
    lab,
    live,
    orders,
    pages,
    payments,
    stats,
    system,
    webhooks,
    wire,
)
from holdfast.api.arriving import ARRIVING, Arriving, CutShort, TooLong
from holdfast.api.callers import UNAUTHORIZED, Caller, Stranger, address_of
from holdfast.api.calls import Call, Reply
from holdfast.api.keys import Key, Role
from holdfast.api.problems import CONTENT_TYPE, Problem, invalid
from holdfast.api.routes import Route
from holdfast.api.service import Service
from holdfast.errors import (
    CommitUnknown,
    Invalid,
    NotOpen,
    Overloaded,
    StoreError,
)
from holdfast.ids import Ids

ROUTES: list[Route] = [
    *events.ROUTES,
    *stats.ROUTES,
    *holds.ROUTES,
    *live.ROUTES,
    *orders.ROUTES,
    *payments.ROUTES,
    *buyers.ROUTES,
    *system.ROUTES,
    *webhooks.ROUTES,
    *lab.ROUTES,
    *pages.ROUTES,
]
ROUTES += documentation.routes(ROUTES)

JSON = "application/json"
WEBSOCKET = "WEBSOCKET"
SENDING = "holdfast.sending"
"""Where a scope has the server's own `send`: Falcon's is for those who wait for each message."""
REQUEST_ID = re.compile(rb"[\x21-\x7e]{1,64}")
RETRY_SOON = {"Retry-After": "1"}
SLOW_SECONDS = 1.0
NOBODY = Caller(Key("", Role.PUBLIC, ""))
ONCE = (b"authorization", b"buyer-token", b"hold-token", b"idempotency-key", b"content-length")
EXPOSED = "ETag, Idempotency-Replayed, RateLimit, RateLimit-Policy, Retry-After, X-Request-Id"
PREFLIGHT = {
    "Access-Control-Allow-Headers": (
        "Authorization, Buyer-Token, Content-Type, Hold-Token, Idempotency-Key, If-None-Match, "
        "Last-Event-ID, Queue-Token, X-Request-Id"
    ),
    "Access-Control-Max-Age": "600",
}

log = logging.getLogger("holdfast.api")


# Falcon's own classes of requests are used, so its type arguments say nothing.
class App(falcon.asgi.App):  # type: ignore[type-arg]
    # Not a coroutine itself: it hands Falcon's on, which costs nothing.
    def __call__(  # type: ignore[override]
        self, scope: Any, receive: Any, send: Any
    ) -> Any:
        if scope["type"] == "http":
            if scope["http_version"] == "1":  # how Granian writes 1.0, which Falcon does not know
                scope["http_version"] = "1.0"
            receive = scope[ARRIVING] = Arriving(receive)
        else:
            scope[SENDING] = send
        return super().__call__(scope, receive, send)


def make_app(service: Service) -> "falcon.asgi.App[Any, Any]":
    app = App()
    by_path: dict[str, list[Route]] = {}
    for route in ROUTES:
        by_path.setdefault(route.path, []).append(route)
    numbers = Numbers()
    for path, routes in by_path.items():
        app.add_route(path, _resource(service, routes, numbers))
    # Whoever serves a socket also hears it: Falcon need not keep what it says.
    app.ws_options.max_receive_queue = 0
    app.add_error_handler(falcon.HTTPError, _Refusing(service).respond)
    app.add_error_handler(Exception, _our_fault)
    return app


class Numbers:
    """Requests are told apart by a number, after what tells processes apart."""

    def __init__(self) -> None:
        self._prefix = f"{Ids().new()}-"
        self._count = itertools.count(1)

    def next(self) -> str:
        return f"{self._prefix}{next(self._count)}"


def _resource(service: Service, routes: list[Route], numbers: Numbers) -> object:
    """What Falcon wants: an object with a method for each verb."""
    verbs: dict[str, Any] = {}
    for route in routes:
        kind = Socket if route.method == WEBSOCKET else Endpoint
        verbs[f"on_{route.method.lower()}"] = responder = _responder(kind(service, route, numbers))
        if route.hidden and route.method == "GET":
            verbs["on_head"] = responder  # Falcon sends the head of it alone
    if methods := [route.method for route in routes if route.method != WEBSOCKET]:
        verbs["on_options"] = _responder(Preflight(service, methods))
    return type("Resource", (), verbs)()


def _responder(endpoint: Any) -> Any:  # an Endpoint or the like, as a method
    return staticmethod(endpoint.respond)


class Endpoint:
    """One route: who may call, within which limits, and every way in which a call can end."""

    def __init__(self, service: Service, route: Route, numbers: "Numbers") -> None:
        self._service = service
        self._route = route
        self._name = route.name
        self._numbers = numbers
        self._max = service.settings.requests_max
        self._waiting = service.patience.waiting
        self._has_body = route.body is not None

    async def respond(
        self, req: falcon.asgi.Request, resp: falcon.asgi.Response, **params: str
    ) -> None:
        extra: dict[str, str] = {}
        answer, request_id = await self._handle(req, params, extra)
        _send(resp, answer, extra, request_id)
        if answer.stream is not None:
            resp.stream = answer.stream(req.scope[ARRIVING])

    async def _handle(
        self, req: falcon.asgi.Request, params: dict[str, str], extra: dict[str, str]
    ) -> tuple[Reply, str]:
        """The answer, whatever happened, and the number of the call; `extra` gets its headers."""
        began = time.perf_counter()
        service = self._service
        headers: dict[bytes, bytes] = dict(req.scope["headers"])
        request_id = self._request_id(headers)
        service.in_hand += 1
        try:
            answer = await self._answer(req, headers, params, request_id, extra)
        except Exception as trouble:  # whatever it is, this call alone ends with it
            answer = _ended(trouble, self._route, request_id)
        finally:
            service.in_hand -= 1
        seconds = time.perf_counter() - began
        service.metrics.answered(self._name, answer.status, seconds)
        if service.traces is not None:
            service.traces.request(self._route, answer.status, seconds, headers, request_id)
        if answer.status >= 500 or seconds > SLOW_SECONDS or service.settings.access_log:
            _note(self._route, answer.status, seconds, request_id)
        return answer, request_id

    def _request_id(self, headers: Mapping[bytes, bytes]) -> str:
        given = headers.get(b"x-request-id")
        if given is not None and REQUEST_ID.fullmatch(given):
            return given.decode()
        return self._numbers.next()

    async def _answer(
        self,
        req: falcon.asgi.Request,
        headers: dict[bytes, bytes],
        params: dict[str, str],
        request_id: str,
        extra: dict[str, str],
    ) -> Reply:
        service, route = self._service, self._route
        if len(headers) != len(req.scope["headers"]):
            _check_once(req.scope["headers"])
        query_string: bytes = req.scope["query_string"]
        caller = NOBODY
        address = ""
        if route.roles:
            stranger = None
            known = service.callers.known(headers)
            try:
                caller = known or await self._identify(headers, req, query_string)
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
            limited = service.limits.limits(caller)
            if caller.public or limited:
                peer = req.scope.get("client") or ("", 0)
                address = address_of(peer[0], req.scope["headers"], service.trusted)
            if limited:
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
            call.body = await self._body(req, headers)
            if service.in_hand - len(self._waiting) > self._max:
                raise _overloaded("too much is in hand already")
        answer: Reply = await route.handle(service, call)
        return answer

    async def _identify(
        self, headers: dict[bytes, bytes], req: falcon.asgi.Request, query_string: bytes
    ) -> Caller:
        key = None
        if self._route.key_in_query and b"key=" in query_string:
            key = req.get_param("key")
        caller = await self._service.callers.identify(headers, key)
        if key is not None and b"authorization" not in headers and not caller.public:
            detail = "only a public key may be in the address: send this one as a header"
            raise Problem(401, "unauthorized", detail, headers=UNAUTHORIZED)
        return caller

    async def _body(self, req: falcon.asgi.Request, headers: dict[bytes, bytes]) -> bytes:
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
            body = await self._service.patience.read(req.scope[ARRIVING], most, length)
        except TimeoutError:
            raise Problem(408, "too_slow", "the body did not come in time") from None
        except TooLong:
            raise _too_large(most) from None
        except CutShort:
            raise _cut_short() from None
        if length > len(body):
            raise _cut_short()
        return body


class Socket(Endpoint):
    """A route of WebSockets: whoever is refused is told so by the code it is closed with, 4000 and
    the status that any other call would get."""

    # Falcon gives a socket where others get a response.
    async def respond(  # type: ignore[override]
        self, req: falcon.asgi.Request, socket: falcon.asgi.WebSocket, **params: str
    ) -> None:
        answer, request_id = await self._handle(req, params, {})
        try:
            if answer.stream is not None:
                await answer.stream((socket, req.scope[SENDING]))
            else:
                # Codes are for those who were let in: before that, all one can say is 403.
                await socket.accept()
                await socket.close(*_closing(answer))
        except falcon.WebSocketDisconnected:
            pass
        except Exception as trouble:  # as for any call: it ends with it, and is logged
            await socket.close(*_closing(_ended(trouble, self._route, request_id)))


def _closing(answer: Reply) -> tuple[int, str]:
    """The code and the reason for a refusal; a reason may have 123 bytes."""
    problem = msgspec.json.decode(answer.body, type=wire.Problem)
    code = {500: 1011, 503: 1013}.get(problem.status, 4000 + problem.status)
    reason = f"{problem.reason}: {problem.detail}".encode()[:123]
    return code, reason.decode(errors="ignore")


class Preflight:
    """What a browser asks before it calls from another origin. It does not say with which key, so
    any key's origin is answered; the call itself is then checked against its own."""

    def __init__(self, service: Service, methods: list[str]) -> None:
        self._service = service
        self._methods = ", ".join([*methods, "OPTIONS"])

    async def respond(
        self, req: falcon.asgi.Request, resp: falcon.asgi.Response, **params: str
    ) -> None:
        resp.status = 204
        resp.set_header("Allow", self._methods)
        origin = req.get_header("Origin")
        if origin is not None and origin in self._service.keys.origins():
            resp.set_headers(
                {
                    **PREFLIGHT,
                    "Access-Control-Allow-Origin": origin,
                    "Access-Control-Allow-Methods": self._methods,
                    "Vary": "Origin",
                }
            )


def _send(
    resp: falcon.asgi.Response, answer: Reply, extra: Mapping[str, str], request_id: str
) -> None:
    resp.status = answer.status
    if answer.body or answer.status not in (204, 304):
        if answer.stream is None:
            resp.data = answer.body
        resp.content_type = answer.content_type or (CONTENT_TYPE if answer.status >= 400 else JSON)
    resp.set_header("X-Request-Id", request_id)
    if extra:
        resp.set_headers(dict(extra))
    if answer.headers:
        resp.set_headers(dict(answer.headers))
        if "Vary" in extra and "Vary" in answer.headers:
            resp.set_header("Vary", f"{extra['Vary']}, {answer.headers['Vary']}")


def _ended(trouble: Exception, route: Route, request_id: str) -> Reply:
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


def _note(route: Route, status: int, seconds: float, request_id: str) -> None:
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


class _Refusing:
    """No such path, no such method: what Falcon itself refuses. A person with a browser gets a page
    that says so, if there are pages."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def respond(
        self,
        req: falcon.asgi.Request,
        resp: falcon.asgi.Response,
        error: falcon.HTTPError,
        params: dict[str, Any],
        ws: falcon.asgi.WebSocket | None = None,
    ) -> None:
        if ws is None and error.status_code == 404:
            page = await pages.lost(self._service, req.method, req.path, _headers(req))
            if page is not None:
                _send(resp, page, {}, Ids().new())
                return
        await _falcon_error(req, resp, error, ws)


def _headers(req: falcon.asgi.Request) -> dict[bytes, bytes]:
    return dict(req.scope["headers"])


async def _falcon_error(
    req: falcon.asgi.Request,
    resp: falcon.asgi.Response,
    error: falcon.HTTPError,
    ws: falcon.asgi.WebSocket | None,
) -> None:
    status = error.status_code
    words = {404: "not_found", 405: "method_not_allowed"}
    detail = {
        404: f"there is nothing at {req.path}",
        405: f"{req.method} is not possible at {req.path}",
    }
    problem = Problem(
        status, words.get(status, "bad_request"), detail.get(status, error.title or "bad request")
    )
    if ws is not None:
        await ws.accept()
        await ws.close(*_closing(Reply(status, problem.body())))
        return
    resp.status = status
    resp.data = problem.body()
    resp.content_type = CONTENT_TYPE
    resp.set_header("X-Request-Id", Ids().new())
    if error.headers:
        resp.set_headers(error.headers)


async def _our_fault(
    req: falcon.asgi.Request,
    resp: falcon.asgi.Response,
    error: Exception,
    params: dict[str, Any],
) -> None:
    log.error("%s %s failed", req.method, req.path, exc_info=error)
    problem = Problem(500, "internal", "our fault; it is in the log")
    resp.status = 500
    resp.data = problem.body()
    resp.content_type = CONTENT_TYPE
