"""One connection: HTTP/1.1 as httptools (Node's parser) reads it, one request after the other.

What makes no sense is answered with what is wrong with it, and ends the connection. Nobody is
listened to further ahead than a few requests, or a part of a body, that nobody takes.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from holdfast.api.exchange import Exchange, Header
from holdfast.api.heads import END
from holdfast.api.pacing import Paced
from holdfast.api.problems import Problem

if TYPE_CHECKING:
    from holdfast.api.server import Server

HEAD_BYTES_MAX = 64 * 1024
HEADERS_MAX = 100
PIPELINED_MAX = 64
"""Requests of one connection that wait for the answer to the one before."""
PIECE_BYTES_MAX = 4 * 1024
"""That are parsed at once: only of a piece that is all of one body one knows how much of it is
about its chunks."""
CHUNKED_BYTES_MAX = 8 * 1024
CHUNK_OVERHEAD = 16
"""What may be said about chunks: so many bytes, and so many more for each byte that is in them."""
LINGER_BYTES_MAX = 8 * 1024 * 1024
LINGER_SECONDS = 1.0
"""How long, and how much, one who is still sending when he is refused is let send: else he would
never read why."""
TURNED_AWAY_MAX = 64
"""So many at once are told why. Others see their connection end."""
NOTHING_SEEN = 2**62
VERSIONS = ("1.0", "1.1")

TOO_SLOW = Problem(408, "too_slow", "the head of the request did not come in time")
TOO_LARGE = Problem(431, "too_large", "a request may have 64 KiB and 100 headers")
TOO_MANY = Problem(503, "overloaded", "too many requests at once", headers={"Retry-After": "1"})
FULL = Problem(503, "overloaded", "too many connections", headers={"Retry-After": "1"})
NO_HTTP = Problem(400, "bad_request", "this is not HTTP/1.1")
NO_HOST = Problem(400, "bad_request", "a request of HTTP/1.1 names one Host")


class Connection(Paced):
    __slots__ = (
        *(
            "_arriving",
            "_between",
            "_chunked",
            "_current",
            "_deaf",
            "_dropped",
            "_head_bytes",
            "_headers",
        ),
        *("_held", "_last", "_overhead", "_parser", "_server", "_socket", "_target"),
        *("_unsent", "_untaken", "_upgrading", "_waiting", "_whole"),
        *("closing", "date", "fresh", "host", "peer", "since"),
    )

    def __init__(self, server: "Server") -> None:
        super().__init__(server.loop, server.done)
        self._server = server
        self._parser: Any = HttpRequestParser(self)  # None when it is over
        self._headers: list[Header] = []
        self._target = b""
        self._head_bytes = 0
        """Of a head that is not complete."""
        self._arriving: Exchange | None = None
        """Whose body is coming."""
        self._whole: Exchange | None = None
        """The last of which all has come."""
        self._between = True
        """Surely: the parser has had whole requests, one at a time, and nothing of the next."""
        self._chunked = False
        self._overhead = 0
        self._upgrading: Exchange | None = None
        self._socket: asyncio.Protocol | None = None
        """What the connection has become."""
        self._current: Exchange | None = None
        """What is being answered."""
        self._waiting: deque[Exchange] = deque()
        self._deaf = False
        """Nothing more is listened to."""
        self._dropped = 0
        self._last = False
        """Nothing more will be asked than what was asked already."""
        self._held = False
        """Whether a body has to wait for whoever reads it."""
        self._untaken = NOTHING_SEEN
        """Bytes of answers that he had not taken when that was last looked at."""
        self._unsent = b""
        """An answer that is sent with those of others."""
        self.closing = False
        self.fresh = True
        """Nothing was asked yet."""
        self.since = self._loop.time()
        """Since when nothing is in hand: a head is waited for."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's has another base
        peer, host = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        self.peer = tuple(peer[:2]) if peer else None
        self.host = tuple(host[:2]) if host else None
        connections = self._server.connections
        connections.add(self)
        if len(connections) > self._server.connections_max:
            self._turn_away()

    def _turn_away(self) -> None:
        """More are there than may be."""
        if len(self._server.connections) > self._server.connections_max + TURNED_AWAY_MAX:
            self._transport.abort()
        else:
            self._make_no_sense(FULL)

    def connection_lost(self, trouble: Exception | None) -> None:
        self._server.left(self)
        self._deaf = True
        self._lose()
        self._waiting.clear()
        self._parser = None  # it knows us, as we know it
        super().resume_writing()

    def _lose(self) -> None:
        for exchange in (self._current, self._arriving):
            if exchange is not None:
                exchange.lose()

    # What is read

    def data_received(self, data: bytes) -> None:
        if len(data) <= PIECE_BYTES_MAX:
            self._read(data)
            return
        for start in range(0, len(data), PIECE_BYTES_MAX):
            self._read(data[start : start + PIECE_BYTES_MAX])

    def _read(self, data: bytes) -> None:
        if self._deaf:
            self._drop(data)
            return
        between, self._between = self._between, False
        head = data[: data.find(END) + len(END)] if between else b""
        if between and self._recall(head, data):
            self._between = True
            return
        if self._arriving is None:
            if not self._head_bytes and self._current is None:
                self.since = self._loop.time()
            self._head_bytes += len(data)
        elif self._chunked:
            self._overhead += len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            self._upgrade(data[upgrade.args[0] :])
        except HttpParserError:
            self._make_no_sense(NO_HTTP)
        else:
            if self._arriving is None:
                if not self._head_bytes and (self._target or self._headers):
                    self._head_bytes = 1  # of a head that came behind another request
                if self._head_bytes > HEAD_BYTES_MAX:
                    self._make_no_sense(TOO_LARGE)
            elif self._chunked and self._overhead > CHUNKED_BYTES_MAX:
                self._make_no_sense(NO_HTTP)
            if between and self._whole is not None:
                self._between = self._came_at_once(head, data, self._whole)
        self._whole = None

    def _recall(self, head: bytes, data: bytes) -> bool:
        """Whether it is a whole request whose head is known."""
        known = self._server.heads.get(head)
        if known is None or len(data) != len(head) + known.length:
            return False
        exchange = Exchange(self, known.method, known.target, list(known.headers), "1.1")
        if known.length:
            exchange.add(data[len(head) :])
        exchange.complete()
        self._next(exchange)
        return True

    def _came_at_once(self, head: bytes, data: bytes, exchange: Exchange) -> bool:
        """Whether the data is that request and nothing else; two, or chunks, would be more. After
        one that ends the connection, whatever comes is for the parser to refuse."""
        if not exchange.keeps or exchange.refusal is not None:
            return False
        if len(data) != len(head) + exchange.unread:
            return False
        self._server.heads.came(head, exchange.unread, exchange)
        return True

    # Called by the parser

    def on_url(self, target: bytes) -> None:
        self._target += target

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._arriving is None:  # what comes after a body of chunks is nobody's header
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        parser, headers = self._parser, self._headers
        method, version = parser.get_method().decode(), parser.get_http_version()
        exchange = Exchange(self, method, self._target, headers, version)
        exchange.keeps = parser.should_keep_alive()
        if self._head_bytes > HEAD_BYTES_MAX or len(headers) > HEADERS_MAX:
            size = len(self._target) + sum(len(name) + len(value) + 4 for name, value in headers)
            if size > HEAD_BYTES_MAX or len(headers) > HEADERS_MAX:
                exchange.refusal = TOO_LARGE
        if version not in VERSIONS:
            exchange.refusal = NO_HTTP
        hosts = 0
        for name, value in headers:
            if name == b"host":
                hosts += 1
            elif name == b"expect":
                exchange.expects = value.lower() == b"100-continue" and version != "1.0"
            elif name == b"transfer-encoding":
                if value.strip().lower() != b"chunked":
                    exchange.refusal = NO_HTTP
                self._chunked, self._overhead = True, 0
                if version == "1.0":  # which does not know of it: who knows where it ends
                    exchange.keeps = False
        if hosts != 1 and (hosts or version == "1.1"):
            exchange.refusal = NO_HOST
        self._headers, self._target, self._head_bytes = [], b"", 0
        self._arriving = exchange
        if parser.should_upgrade():
            self._upgrading = exchange
        else:
            self._next(exchange)

    def on_body(self, body: bytes) -> None:
        if self._chunked:
            self._overhead -= (1 + CHUNK_OVERHEAD) * len(body)
        if self._arriving is not None:
            self._arriving.add(body)

    def on_message_complete(self) -> None:
        exchange, self._arriving = self._arriving, None
        self._chunked = False
        self._whole = exchange
        if exchange is not None:
            exchange.complete()

    def eof_received(self) -> bool:
        """Whoever says no more may still be listening: what he asked is answered."""
        self._deaf = self._last = True
        self._lose()
        if self._owes_nothing:
            self.send()
            return False
        self.closing = self.closing or not self._waiting
        return True

    # What is written

    def answer(self, data: bytes) -> None:
        if self._unsent:
            self._unsent += data
            return
        self._unsent = data
        self._server.send_soon(self)

    def send(self) -> None:
        """What is still to be sent."""
        unsent, self._unsent = self._unsent, b""
        if unsent:
            super().write(unsent)

    def write(self, data: bytes) -> None:
        self.send()
        super().write(data)

    def _close(self) -> None:
        self.send()
        self._transport.close()

    def abort(self) -> None:
        """He is told nothing more."""
        self._transport.abort()

    # One request after the other

    @property
    def _owes_nothing(self) -> bool:
        """Whether all that was asked is answered. Some may wait though nothing is being answered:
        until he has taken what he was sent."""
        return self._current is None and not self._waiting

    def _next(self, exchange: Exchange) -> None:
        if self._deaf:
            return
        if self._owes_nothing:
            self._begin(exchange)
            return
        if len(self._waiting) >= PIPELINED_MAX:
            exchange.refusal = TOO_MANY
        self._waiting.append(exchange)
        if exchange.refusal is not None:
            self._deaf = True
        self._mind()

    def _begin(self, exchange: Exchange) -> None:
        server = self._server
        self.fresh = False
        self._current = exchange
        self.date = server.date
        if (self._last or server.stopping) and not self._waiting:
            self.closing = True
        if exchange.refusal is not None:
            self.closing = self._deaf = True
        exchange.task = self._loop.create_task(exchange.run(server.app))

    def finished(self, exchange: Exchange) -> None:
        """It was answered; then comes the next."""
        self._current = None
        exchange.task = None
        self.since, self._untaken = self._loop.time(), NOTHING_SEEN
        if self.closing:
            self._end(exchange)
        elif self._waiting:
            if not self.full:  # else when he has taken what he was sent
                self._begin(self._waiting.popleft())
                self._mind()
        elif self._server.stopping:
            self.retire()

    def _make_no_sense(self, problem: Problem) -> None:
        """What was asked before it is answered first. In the middle of a body, whoever reads that
        says so."""
        arriving, self._arriving = self._arriving, None
        self._deaf = True
        if arriving is not None:
            arriving.lose()
            return
        exchange = Exchange(self, "", b"", [], "1.1")
        exchange.refusal = problem
        if self._owes_nothing:
            self._begin(exchange)
        else:
            self._waiting.append(exchange)

    def _upgrade(self, more: bytes) -> None:
        """To a WebSocket, or to nothing at all."""
        exchange, self._upgrading = self._upgrading, None
        assert exchange is not None
        if exchange.refusal is not None or exchange.method == "CONNECT":
            self._last = True
            self._next(exchange)
            self._deaf = True
        elif exchange.websocket and self._owes_nothing:
            self.send()
            self._deaf = True
            self._socket = self._server.open_socket(self._transport, exchange, more, self.full)
            self._server.left(self)
        else:
            # Nobody has to do what a client offers: it is a request like any other, with its body.
            exchange.headers = [each for each in exchange.headers if each[0] != b"upgrade"]
            self._parser = HttpRequestParser(self)
            self._read(exchange.head() + more)

    # How it ends

    def _end(self, exchange: Exchange) -> None:
        heard_all = exchange.whole and exchange.refusal is None
        self._deaf = True
        self._waiting.clear()
        if heard_all or self._last or self._transport.is_closing():
            self._close()
            return
        # He is still sending, and would not read the answer if he were cut off now.
        self.send()
        self._transport.write_eof()
        self._mind()
        self._loop.call_later(LINGER_SECONDS, self._linger_no_longer)

    def _linger_no_longer(self) -> None:
        """Unless he is still being sent what he is owed: who is too slow at that, expires."""
        if self._transport.get_write_buffer_size() and not self._transport.is_closing():
            self._loop.call_later(LINGER_SECONDS, self._linger_no_longer)
        else:
            self._transport.abort()

    def _drop(self, data: bytes) -> None:
        if self._socket is not None:
            self._socket.data_received(data)
            return
        self._dropped += len(data)
        if self._dropped > LINGER_BYTES_MAX:
            self._transport.abort()

    @property
    def idle(self) -> bool:
        """Whether it is his turn: to ask, or to take what he was answered."""
        return self._current is None and (
            not self._deaf or self._transport.get_write_buffer_size() > 0
        )

    def expire(self) -> None:
        """He did not do it in time."""
        untaken = self._transport.get_write_buffer_size()
        if 0 < untaken < self._untaken:
            self.since = self._loop.time()  # slow, but he is at it
        elif untaken:
            self._transport.abort()
        elif self._head_bytes:
            self._make_no_sense(TOO_SLOW)
        else:
            self._close()
        self._untaken = untaken or NOTHING_SEEN

    def retire(self) -> None:
        """The server stops: what was asked is answered, and no more."""
        if self._waiting:
            return  # the last of them says so
        if self._current is not None:
            self.closing = True  # and he is told so
        elif not self._head_bytes:
            self._close()

    def pause_writing(self) -> None:
        """He does not take what he is sent: then he need not ask for more."""
        super().pause_writing()
        self._mind()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._current is None and self._waiting and not self._transport.is_closing():
            self._begin(self._waiting.popleft())
        self._mind()

    # Whether to read on

    def more_body(self, wanted: bool) -> None:
        self._held = not wanted
        self._mind()

    def _mind(self) -> None:
        """Reads on, unless there is enough to do already."""
        self._read_on(self._deaf or not (self._waiting or self._held or self.full))
