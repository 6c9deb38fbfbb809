"""Serves ASGI on a socket that is listened at already, on the event loop of whoever starts it.

Everything is done by one thread. A server that reads and writes on threads of its own has to hand
each request over to the loop's thread, and each answer back, and wait for Python's lock in between:
measured with wrk, holds and PostgreSQL on two cores, that took 18 us more of them for each hold (of
88), and 8 more for a handler that does nothing.
"""

import asyncio
import logging
import resource
import socket
import sys
from email.utils import formatdate
from typing import Protocol

from websockets.frames import Frame, Opcode

from holdfast.api.connection import Connection
from holdfast.api.exchange import App, Exchange
from holdfast.api.heads import Heads
from holdfast.api.websocket import WebSocket
from holdfast.tasks import end_task

LOOK_SECONDS = 0.25
"""How often those are looked for who wait for nothing, and what time it is."""
FRESH_SECONDS = 0.5
"""Whoever has just been accepted when the server stops has so long to say what he wants."""
BACKLOG = 4_096
CONNECTIONS_MAX = 50_000
FILES_KEPT = 128
"""Of those that this process may have open, so many are not for clients: others are the store's,
the gate's, the log's."""


log = logging.getLogger("holdfast.api")


class Open(Protocol):
    """A connection, or a socket."""

    fresh: bool
    """Nothing was asked yet."""

    @property
    def idle(self) -> bool: ...

    since: float
    """Since when it is idle."""

    def expire(self) -> None: ...
    def retire(self) -> None: ...


def files_max() -> int:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if most == resource.RLIM_INFINITY else most


class Server:
    def __init__(self, app: App, listener: socket.socket, header_seconds: float) -> None:
        """`header_seconds`: how long it waits for the head of a request."""
        self.app = app
        self.stopping = False
        self.connections: set[Open] = set()
        self.date = b""
        self.heads = Heads()
        self.connections_max = min(CONNECTIONS_MAX, max(1, files_max() - FILES_KEPT))
        """Whoever comes then is told so."""
        self._listener = listener
        self._header_seconds = header_seconds
        self._all_left = asyncio.Event()
        self._serving: asyncio.Server | None = None
        self._answered: list[Connection] = []
        self._text, self._frame = "", b""
        """What was said last over sockets."""

    async def serve(self) -> None:
        """Until `stop` was called, and everybody has left."""
        self.loop = asyncio.get_running_loop()
        self.done = self.loop.create_future()
        self.done.set_result(None)
        self._look()
        looking = self.loop.create_task(self._look_around())
        try:
            self._serving = await self.loop.create_server(
                lambda: Connection(self), sock=self._listener, backlog=BACKLOG
            )
            if self.stopping:
                self.stop()
            await self._all_left.wait()
        finally:
            await end_task(looking)

    def stop(self) -> None:
        """Nobody is accepted any more; what was asked is answered, and then all have to leave."""
        self.stopping = True
        if self._serving is None:
            return  # not yet begun
        self._serving.close()
        for each in list(self.connections):
            if not each.fresh:
                each.retire()
        self.loop.call_later(FRESH_SECONDS, self._retire_all)
        self._ask_whether_all_left()

    def _retire_all(self) -> None:
        for each in list(self.connections):
            each.retire()

    def left(self, connection: Open) -> None:
        self.connections.discard(connection)
        if self.stopping:
            self._ask_whether_all_left()

    def _ask_whether_all_left(self) -> None:
        if not self.connections:
            self._all_left.set()

    def send_soon(self, connection: Connection) -> None:
        """Together with all that are answered in this turn of the loop. One after the other they
        find their clients' side awake: to wake it up for each costs more than the sending."""
        if not self._answered:
            self.loop.call_soon(self._send_all)
        self._answered.append(connection)

    def _send_all(self) -> None:
        answered, self._answered = self._answered, []
        for connection in answered:
            try:
                connection.send()
            except Exception:  # whatever it is, the others are sent theirs
                log.exception("an answer was not sent")
                connection.abort()

    def open_socket(
        self, transport: asyncio.Transport, exchange: Exchange, more: bytes, full: bool
    ) -> WebSocket:
        """`full`: the client has not taken yet what it was sent before."""
        opened = WebSocket(self, transport, exchange, more)
        if full:
            opened.pause_writing()  # the transport has said so already, and says it once
        self.connections.add(opened)
        transport.set_protocol(opened)
        opened.start()
        return opened

    def frame_of(self, text: str) -> bytes:
        """The text as a frame. Many are told the same, one after the other."""
        if text is not self._text:
            self._text = text
            self._frame = Frame(Opcode.TEXT, text.encode()).serialize(mask=False)
        return self._frame

    async def _look_around(self) -> None:
        while True:
            await asyncio.sleep(min(LOOK_SECONDS, self._header_seconds / 2))
            try:
                self._look()
            except Exception:  # whatever it is, the next look may do better
                log.exception("connections were not looked through")

    def _look(self) -> None:
        self.date = f"date: {formatdate(usegmt=True)}\r\n".encode()
        ends = self.loop.time() - self._header_seconds
        late = [each for each in self.connections if each.idle and each.since < ends]
        # In their order: a client that sees one end may go on with one that it has used since.
        for each in sorted(late, key=lambda each: each.since):
            each.expire()
