"""A WebSocket, as ASGI has it: `websockets` knows the protocol, this carries its bytes."""

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any

from websockets.exceptions import InvalidState
from websockets.frames import Close, CloseCode, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol

from holdfast.api.exchange import Exchange
from holdfast.api.pacing import Paced

if TYPE_CHECKING:
    from holdfast.api.server import Server

MESSAGE_BYTES_MAX = 64 * 1024
MESSAGES_AHEAD_MAX = 32
"""That nobody has heard yet; then no more are read."""
CLOSE_SECONDS = 10.0
"""How long one may take to answer that the socket is closed, or to take what comes before that."""
STOP_SECONDS = 1.0
"""The same, when the server stops."""

log = logging.getLogger("holdfast.api")


class Quiet(logging.LoggerAdapter[logging.Logger]):
    """Of what the protocol says, only what is wrong: it tells of each socket that it is open."""

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802  # as the library calls it
        return level >= logging.WARNING and super().isEnabledFor(level)


class WebSocket(Paced):
    fresh = False
    idle = False
    since = 0.0

    def __init__(
        self, server: "Server", transport: asyncio.Transport, exchange: Exchange, more: bytes
    ) -> None:
        super().__init__(server.loop, server.done)
        self._server = server
        self._transport = transport
        self._exchange = exchange
        self._early = more
        """What came before the socket was open."""
        self._protocol = ServerProtocol(max_size=MESSAGE_BYTES_MAX, logger=Quiet(log))
        self._heard: deque[dict[str, Any]] = deque([{"type": "websocket.connect"}])
        self._parts: list[bytes] = []
        self._waiting: asyncio.Future[None] | None = None
        self._open = False

    def start(self) -> None:
        self._protocol.receive_data(self._exchange.head())
        asked = self._protocol.events_received()
        if not asked or not isinstance(asked[0], Request):
            self._flush()
            return
        self._response = self._protocol.accept(asked[0])
        if self._response.status_code != 101:
            self._protocol.send_response(self._response)
            self._flush()
            return
        self._task = self._loop.create_task(self._run())

    async def _run(self) -> None:
        scope = self._exchange.scope()
        del scope["method"]
        scope |= {"type": "websocket", "scheme": "ws", "subprotocols": []}
        try:
            await self._server.app(scope, self.receive, self.send)
        except OSError:
            pass  # he is gone
        except Exception:  # the application answers its own; whatever this is, it is over
            log.exception("a socket has failed")
        if self._protocol.state in (State.CONNECTING, State.OPEN):
            self._close(CloseCode.INTERNAL_ERROR, "")

    # What is heard

    def data_received(self, data: bytes) -> None:
        if not self._open:
            self._early += data
            if len(self._early) > MESSAGE_BYTES_MAX:
                self._transport.abort()
            return
        self._protocol.receive_data(data)
        for event in self._protocol.events_received():
            if isinstance(event, Frame):
                self._hear(event)
        self._flush()
        if self._protocol.state is not State.OPEN:
            self._leave()
        self._mind()

    def _hear(self, frame: Frame) -> None:
        if frame.opcode not in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            return  # the protocol answers these itself
        if frame.opcode is not Opcode.CONT:
            self._parts.clear()
            self._text = frame.opcode is Opcode.TEXT
        if frame.data:  # of frames with nothing in them there may be any number
            self._parts.append(bytes(frame.data))
        if not frame.fin:
            return
        data = b"".join(self._parts)
        self._parts.clear()
        if not self._text:
            self._tell({"type": "websocket.receive", "bytes": data})
            return
        try:
            self._tell({"type": "websocket.receive", "text": data.decode()})
        except UnicodeDecodeError:
            self._protocol.fail(CloseCode.INVALID_DATA, "this is not UTF-8")

    def _tell(self, message: dict[str, Any]) -> None:
        self._heard.append(message)
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def _leave(self) -> None:
        """Nothing more will be heard."""
        if self._heard and self._heard[-1]["type"] == "websocket.disconnect":
            return
        said = self._protocol.close_rcvd or Close(CloseCode.ABNORMAL_CLOSURE, "")
        self._tell({"type": "websocket.disconnect", "code": said.code, "reason": said.reason})

    def eof_received(self) -> None:
        self._protocol.receive_eof()
        self._leave()
        self._flush()

    def connection_lost(self, trouble: Exception | None) -> None:
        self._server.left(self)
        if self._protocol.state is not State.CLOSED:
            self._protocol.receive_eof()
        self._leave()
        super().resume_writing()

    async def receive(self) -> dict[str, Any]:  # a message of ASGI
        while not self._heard:
            self._waiting = self._loop.create_future()
            try:
                await self._waiting
            finally:
                self._waiting = None
        message = self._heard.popleft()
        if message["type"] == "websocket.disconnect":
            self._heard.append(message)  # whoever asks again hears it again
        self._mind()
        return message

    def _mind(self) -> None:
        """Reads on, unless nobody listens, or he does not take the answers to his pings."""
        self._read_on(len(self._heard) < MESSAGES_AHEAD_MAX and not self.full)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._mind()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._mind()

    # What is said

    def send(self, message: dict[str, Any]) -> "asyncio.Future[None]":  # a message of ASGI
        """Begins at once; what it returns is done when there is room for more."""
        kind = message["type"]
        if kind == "websocket.send":
            if self._protocol.state is not State.OPEN or self._transport.is_closing():
                raise ConnectionResetError("the socket is closed")
            text = message.get("text")
            if text is None:
                self._protocol.send_binary(message["bytes"])
                self._flush()
            else:
                self.write(self._server.frame_of(text))
        elif kind == "websocket.accept":
            self._accept(message.get("headers", ()))
        else:
            self._close(message.get("code", CloseCode.NORMAL_CLOSURE), message.get("reason") or "")
        return self.written()

    def _accept(self, headers: Any) -> None:  # pairs of bytes
        if self._transport.is_closing():
            raise ConnectionResetError("the client has gone away")
        for name, value in headers:
            self._response.headers[name.decode()] = value.decode()
        self._protocol.send_response(self._response)
        self._flush()
        self._open = True
        early, self._early = self._early, b""
        if early:
            self.data_received(early)

    def _close(self, code: int, reason: str) -> None:
        if self._protocol.state is State.CONNECTING:
            self._protocol.send_response(self._protocol.reject(403, ""))
        else:
            try:
                self._protocol.send_close(code, reason)
            except InvalidState:
                return  # it is closed already
        self._flush()

    def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                self.write(data)
            else:
                # Without a word more; what was said is sent first.
                self._transport.close()
        if self._protocol.close_expected() and not self._transport.is_closing():
            seconds = STOP_SECONDS if self._server.stopping else CLOSE_SECONDS
            self._loop.call_later(seconds, self._transport.abort)

    def expire(self) -> None:
        """A socket may be silent."""

    def retire(self) -> None:
        """Whoever talks to it ends it."""
        if self._protocol.state is not State.OPEN:
            self._loop.call_later(STOP_SECONDS, self._transport.abort)
