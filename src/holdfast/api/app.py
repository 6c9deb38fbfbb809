"""The ASGI application: from a request to its endpoint. Falcon's router finds it; Falcon itself
serves the sockets."""

from collections.abc import Callable
from typing import Any, NamedTuple

import falcon.asgi
import msgspec
from falcon.routing import CompiledRouter

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
from holdfast.api.arriving import CutShort, Receive
from holdfast.api.calls import Reply
from holdfast.api.endpoint import Endpoint, Numbers, Scope, ended
from holdfast.api.problems import Problem
from holdfast.api.routes import Route
from holdfast.api.sending import Send, send
from holdfast.api.service import Service
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

WEBSOCKET = "WEBSOCKET"
SENDING = "holdfast.sending"
"""Where the scope of a socket has the server's own `send`: Falcon's is for those who wait for each
message."""
PATHS_KEPT_MAX = 1_000
PATH_CHARS_KEPT = 300
KEPT_PARAMS = {"event"}
"""Paths that name an event, or nothing, are few, and a crowd asks for them again and again: where
they lead is kept. Those of holds and orders are asked for a few times each."""
PREFLIGHT = {
    "Access-Control-Allow-Headers": (
        "Authorization, Buyer-Token, Content-Type, Hold-Token, Idempotency-Key, If-None-Match, "
        "Last-Event-ID, Queue-Token, X-Request-Id"
    ),
    "Access-Control-Max-Age": "600",
}


class Place(NamedTuple):
    """What is at a path: an endpoint for each method."""

    endpoints: dict[str, Endpoint]
    allowed: str


Found = tuple[Place, Any, dict[str, str], Any]
"""What Falcon's router says: what is there, and the parts of the path that have names. Nobody
changes those: they are kept for the next who asks for the same path."""


class App:
    def __init__(self, service: Service) -> None:
        self._service = service
        router = CompiledRouter()
        # To Falcon what it finds is an object.
        self._route: Callable[[str], Found | None] = router.find  # type: ignore[assignment]
        self._found: dict[str, Found] = {}
        self._sockets = falcon.asgi.App[falcon.asgi.Request, falcon.asgi.Response]()
        # Whoever serves a socket also hears it: Falcon need not keep what it says.
        self._sockets.ws_options.max_receive_queue = 0
        # Its types do not say that a handler of a socket's errors is given the socket, too.
        self._sockets.add_error_handler(falcon.HTTPError, self._no_socket)  # type: ignore[arg-type]
        numbers = Numbers()
        by_path: dict[str, dict[str, Endpoint]] = {}
        for route in ROUTES:
            endpoints = by_path.setdefault(route.path, {})
            if route.method == WEBSOCKET:
                responder = staticmethod(Socket(service, route, numbers).respond)
                resource = type("Resource", (), {"on_websocket": responder})()
                self._sockets.add_route(route.path, resource)
            else:
                endpoints[route.method] = Endpoint(service, route, numbers)
                if route.answers_head:
                    endpoints["HEAD"] = endpoints[route.method]
        for path, endpoints in by_path.items():
            router.add_route(path, Place(endpoints, ", ".join([*endpoints, "OPTIONS"])))

    # Not a coroutine itself: it hands another on, which costs nothing.
    def __call__(self, scope: Scope, receive: Receive, to: Send) -> Any:
        if scope["type"] != "http":
            scope[SENDING] = to
            return self._sockets(scope, receive, to)
        path = scope["path"]
        found = self._found.get(path) or self._find(path)
        if found is None:
            return self._nothing(scope, receive, to)
        place, _, params, _ = found
        method = scope["method"]
        endpoint = place.endpoints.get(method)
        if endpoint is None:
            return self._no_endpoint(place, scope, receive, to)
        return endpoint.serve(scope, receive, to, params, method == "HEAD")

    def _find(self, path: str) -> Found | None:
        # To the router all slashes at the beginning are one, which a proxy's rules may not know.
        found = None if path.startswith("//") else self._route(path)
        if found and found[2].keys() <= KEPT_PARAMS and len(path) <= PATH_CHARS_KEPT:
            if len(self._found) >= PATHS_KEPT_MAX:
                self._found.clear()
            self._found[path] = found
        return found

    async def _nothing(self, scope: Scope, receive: Receive, to: Send) -> None:
        """No such path. A person with a browser gets a page that says so, if there are pages."""
        method, path = scope["method"], scope["path"]
        try:
            answer = await pages.lost(self._service, method, path, dict(scope["headers"]))
        except (Problem, OSError):  # the pages are being built anew
            answer = None
        if answer is None:
            answer = _problem(404, "not_found", f"there is nothing at {path}")
        await send(to, receive, answer, Ids().new(), head=method == "HEAD")

    async def _no_endpoint(self, place: Place, scope: Scope, receive: Receive, to: Send) -> None:
        method, path = scope["method"], scope["path"]
        if method == "OPTIONS":
            answer = self._preflight(place, dict(scope["headers"]))
        else:
            detail = f"{method} is not possible at {path}"
            answer = _problem(405, "method_not_allowed", detail, {"Allow": place.allowed})
        await send(to, receive, answer, Ids().new(), head=method == "HEAD")

    def _preflight(self, place: Place, headers: dict[bytes, bytes]) -> Reply:
        """What a browser asks before it calls from another origin. It does not say with which key,
        so any key's origin is answered; the call itself is then checked against its own."""
        allowed = {"Allow": place.allowed}
        origin = headers.get(b"origin", b"").decode("latin-1")
        if origin in self._service.keys.origins():
            allowed |= {
                **PREFLIGHT,
                "Access-Control-Allow-Origin": origin,
                "Access-Control-Allow-Methods": place.allowed,
                "Vary": "Origin",
            }
        return Reply(204, headers=allowed)

    async def _no_socket(
        self,
        req: falcon.asgi.Request,
        resp: falcon.asgi.Response | None,
        error: falcon.HTTPError,
        params: dict[str, Any],
        ws: falcon.asgi.WebSocket,
    ) -> None:
        await ws.accept()
        if self._find(req.path) is None:
            refused = _problem(404, "not_found", f"there is nothing at {req.path}")
        else:
            refused = _problem(405, "method_not_allowed", f"there is no socket at {req.path}")
        await ws.close(*_closing(refused))


def _problem(status: int, reason: str, detail: str, headers: dict[str, str] | None = None) -> Reply:
    # What a caller sent is not always text.
    told = detail.encode(errors="replace").decode()
    return Reply(status, Problem(status, reason, told).body(), headers)


class Socket(Endpoint):
    """A route of WebSockets: whoever is refused is told so by the code it is closed with, 4000 and
    the status that any other call would get."""

    async def respond(
        self, req: falcon.asgi.Request, socket: falcon.asgi.WebSocket, **params: str
    ) -> None:
        answer, request_id = await self.handle(req.scope, _unheard, params, {})
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
            await socket.close(*_closing(ended(trouble, self._route, request_id)))


async def _unheard() -> Any:
    """No route of sockets has a body."""
    raise CutShort


def _closing(answer: Reply) -> tuple[int, str]:
    """The code and the reason for a refusal; a reason may have 123 bytes."""
    problem = msgspec.json.decode(answer.body, type=wire.Problem)
    code = {500: 1011, 503: 1013}.get(problem.status, 4000 + problem.status)
    reason = f"{problem.reason}: {problem.detail}".encode()[:123]
    return code, reason.decode(errors="ignore")
