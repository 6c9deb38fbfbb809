"""The live seat map over HTTP: as server-sent events, and as messages of a WebSocket."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable
from typing import Self, cast

from falcon import PayloadTypeError, WebSocketDisconnected
from falcon.asgi import WebSocket

from holdfast.api.arriving import Receive
from holdfast.api.calls import Call, Reply
from holdfast.api.events import unknown
from holdfast.api.problems import Problem
from holdfast.api.routes import Route
from holdfast.api.sending import Send
from holdfast.api.service import Service
from holdfast.errors import HoldfastError, Overloaded
from holdfast.followers.live import Ended, Gone, Slow, Stopping, Subscription

HEARTBEAT_SECONDS = 15.0
"""A quiet stream says so often that it is still there."""
HEARTBEAT = b": still here\n\n"
OPENING = b"retry: 1000\n\n"
EVENT_STREAM = "text/event-stream"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

MESSAGES_AT_ONCE_MAX = 20
MESSAGES_A_SECOND_MAX = 1.0
"""What a client says is not listened to, but it must not say it without end."""
MESSAGE_CHARS_MAX = 4_096
CLOSE_SECONDS = 10.0
"""How long one that was too slow has for the rest of its frame and the word that it was."""

log = logging.getLogger("holdfast.api")


class Talkative(Ended):
    """A client said more than it may."""


CODES = {
    Gone: (4404, "unknown_event: there is no such event any more"),
    Stopping: (1012, "stopping: connect again and go on from the last number"),
    Slow: (1013, "too_slow: connect again and go on from the last number"),
    Talkative: (1008, "too many or too long messages; none are needed"),
    Ended: (1000, ""),
}
"""With which code and reason a socket is closed when a subscription has ended."""


async def stream(service: Service, call: Call) -> Reply:
    subscription = await _subscribe(service, call, call.header(b"last-event-id"))
    return Reply(
        200, b"", HEADERS, EVENT_STREAM, stream=lambda receive: EventStream(subscription, receive)
    )


async def live(service: Service, call: Call) -> Reply:
    subscription = await _subscribe(service, call, keeps=True)

    def tell(socket: WebSocket, send: Send) -> Awaitable[None]:
        # Our server begins to send when it is called, and what it returns is a future already.
        subscription.push = lambda frame: asyncio.ensure_future(
            send({"type": "websocket.send", "text": frame.text})
        )
        return _tell(socket, subscription)

    return Reply(101, stream=lambda line: tell(*line))


async def _subscribe(
    service: Service, call: Call, last: str | None = None, *, keeps: bool = False
) -> Subscription:
    """From the last number that the caller has, if it says one. A Last-Event-ID is newer than the
    address, which a browser repeats each time; one that is no number is none of ours."""
    since: int | None = call.query(since=-1)["since"]
    if last is not None and last.isascii() and last.isdigit() and len(last) < 19:
        since = int(last)
    event = call.params["event"]
    try:
        known = None if since == -1 else since
        subscription = await service.live.subscribe(event, known, keeps=keeps)
    except Stopping:
        raise Problem(503, "stopping", "this process is about to stop") from None
    except Gone:
        subscription = None
    if subscription is None:
        raise unknown(event)
    return subscription


class EventStream:
    """The body of an answer that goes on until somebody has had enough. `close` is called when it
    ends, however it does."""

    def __init__(self, subscription: Subscription, receive: Receive) -> None:
        self._subscription = subscription
        self._receive = receive
        self._watcher: asyncio.Task[None] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self._watcher is None:
            self._watcher = asyncio.create_task(self._watch())
            return OPENING
        try:
            frame = await self._subscription.next(HEARTBEAT_SECONDS)
        except Ended:
            raise StopAsyncIteration from None
        except HoldfastError as trouble:
            log.warning("a live stream ends: %s", trouble)
            raise StopAsyncIteration from None
        return HEARTBEAT if frame is None else frame.sse

    async def _watch(self) -> None:
        """Nothing else would tell that the client went away while there is nothing to send."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._subscription.end(Ended())

    async def close(self) -> None:
        self._subscription.close()
        if self._watcher is not None:
            self._watcher.cancel()


async def _tell(socket: WebSocket, subscription: Subscription) -> None:
    listener: asyncio.Task[None] | None = None
    try:
        await socket.accept()
        listener = asyncio.create_task(_listen(socket, subscription))
        code, reason = await _send_all(socket, subscription)
    except asyncio.CancelledError:
        if not isinstance(subscription.ended, Slow):
            raise
        # Not the task is to end, but what it was waiting for.
        cast("asyncio.Task[None]", asyncio.current_task()).uncancel()
        code, reason = CODES[Slow]
    finally:
        subscription.close()
        if listener is not None:
            listener.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await listener
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(CLOSE_SECONDS):
            await socket.close(code, reason)


async def _send_all(socket: WebSocket, subscription: Subscription) -> tuple[int, str]:
    """Sends frames until there are no more; how to close then."""
    try:
        while True:
            frame = await subscription.next()
            if frame is not None:
                await socket.send_text(frame.text)
    except Ended as why:
        return CODES[type(why)]
    except Overloaded:
        return 1013, "overloaded: get the map first, then connect with since"
    except HoldfastError as trouble:
        log.warning("a live map ends: %s", trouble)
        return 1013, "store_unavailable: try again later"


async def _listen(socket: WebSocket, subscription: Subscription) -> None:
    """Hears that the client goes away; whatever else it says is dropped."""
    loop = asyncio.get_running_loop()
    left, at = float(MESSAGES_AT_ONCE_MAX), loop.time()
    try:
        while True:
            said = ""
            with contextlib.suppress(PayloadTypeError):
                said = await socket.receive_text()
            now = loop.time()
            left = min(MESSAGES_AT_ONCE_MAX, left + (now - at) * MESSAGES_A_SECOND_MAX) - 1
            at = now
            if left < 0 or len(said) > MESSAGE_CHARS_MAX:
                subscription.end(Talkative())
                return
    except WebSocketDisconnected:
        subscription.end(Ended())


ROUTES = [
    Route(
        method="GET",
        path="/v1/events/{event}/stream",
        handle=stream,
        operation="streamSeats",
        summary="The seat map, then its changes as they happen, as server-sent events",
        answers={200: str},
        media=EVENT_STREAM,
        reasons={404: ("unknown_event",), 503: ("stopping",)},
        query={"since": "the last number you have: go on after it, if that is still possible"},
        headers=("Last-Event-ID",),
        key_in_query=True,
        stream=True,
    ),
    Route(
        method="WEBSOCKET",
        path="/v1/events/{event}/live",
        handle=live,
        operation="followSeats",
        summary="The seat map, then its changes as they happen, as messages of a WebSocket",
        query={"since": "the last number you have: go on after it, if that is still possible"},
        key_in_query=True,
        stream=True,
    ),
]
