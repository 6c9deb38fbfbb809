"""One request and its answer, as ASGI has them: what a connection has read of the one, and is to
write of the other."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import unquote

import httptools

from holdfast.api.problems import CONTENT_TYPE, Problem

Header = tuple[bytes, bytes]
App = Callable[[dict[str, Any], Any, Any], Awaitable[None]]  # of ASGI

BODY_AHEAD_BYTES_MAX = 64 * 1024
"""Of a body that nobody reads yet; then no more is read of its connection."""
COPIED_BYTES_MAX = 64 * 1024
"""A larger body is not put behind its head, which would be a copy for each who waits to take it:
many are sent the same seat map."""
LINES = {status.value: f"HTTP/1.1 {status} {status.phrase}\r\n".encode() for status in HTTPStatus}
NO_BODY = (204, 304)
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
CLOSE = b"connection: close\r\n"
KEEP_ALIVE = b"connection: keep-alive\r\n"
"""For HTTP/1.0, which closes unless both sides say otherwise."""
CHUNKED = b"transfer-encoding: chunked\r\n"
END = b"\r\n"
LAST_CHUNK = b"0\r\n\r\n"
EXCHANGE = "holdfast.exchange"
"""Where a scope has what it was made of, for those who need not go by messages."""
ASGI = {"version": "3.0", "spec_version": "2.4"}
GONE = {"type": "http.disconnect"}

log = logging.getLogger("holdfast.api")


class Line(Protocol):
    """What an exchange needs of its connection."""

    peer: tuple[str, int] | None
    host: tuple[str, int] | None
    closing: bool
    """Whether it ends with this answer."""
    date: bytes
    """The header that tells the time."""
    done: "asyncio.Future[None]"
    """There is room for more already."""

    def write(self, data: bytes) -> None: ...
    def answer(self, data: bytes) -> None:
        """Writes all of an answer, with those of others."""
        ...

    def written(self) -> "asyncio.Future[None]":
        """Done when there is room for more."""
        ...

    def more_body(self, wanted: bool) -> None:
        """Goes on reading, or waits with it."""
        ...

    def finished(self, exchange: "Exchange") -> None: ...


class Exchange:
    __slots__ = (
        *(
            "_chunked",
            "_held",
            "_line",
            "_parts",
            "_read",
            "_start",
            "_waiting",
            "expects",
        ),
        *("headers", "keeps", "lost", "method", "refusal", "sent", "target", "task", "unread"),
        *("version", "whole"),
    )

    def __init__(
        self, line: Line, method: str, target: bytes, headers: list[Header], version: str
    ) -> None:
        self._line = line
        self.method = method
        self.target = target
        self.headers = headers
        self.version = version
        self.keeps = True
        """Whether the client wants to go on after it."""
        self.expects = False
        """Whether the client waits to be asked for the body."""
        self.refusal: Problem | None = None
        """What is wrong with it, so that no application sees it."""
        self.whole = False
        """Whether all of the body has come."""
        self.lost = False
        """Whether nothing more of it will come."""
        self.sent = False
        """Whether all of the answer was written."""
        self.task: object = None  # so that somebody knows it while it runs
        self._parts: list[bytes] = []
        self.unread = 0
        """Bytes of the body that have come, and that nobody has taken."""
        self._read = False
        """Whether all of the body was handed on."""
        self._held = False
        """Whether reading was stopped, for nobody takes what came."""
        self._waiting: Any = None  # the future of whoever waits for the body
        self._start: dict[str, Any] | None = None  # the message of ASGI
        self._chunked = False

    async def run(self, app: App) -> None:
        """Has it answered, whatever happens."""
        try:
            if self.refusal is None:
                await app(self.scope(), self.receive, self.send)
            else:
                self.refuse(self.refusal)
        except Exception:  # the application answers its own; whatever this is, it is not answered
            log.exception("a request was not answered")
        finally:
            if not self.sent:
                self._line.closing = True
                self.sent = True
                self._line.finished(self)

    def scope(self) -> dict[str, Any]:  # of ASGI
        line, target = self._line, self.target
        if target[:1] != b"/" and target != b"*":
            target = _origin_form(target)
        raw_path, _, query = target.partition(b"?")
        path = raw_path.decode("ascii", "replace")
        return {
            "type": "http",
            "asgi": ASGI,
            "http_version": self.version,
            "method": self.method,
            "scheme": "http",
            "path": unquote(path) if "%" in path else path,
            "raw_path": raw_path,
            "query_string": query,
            "root_path": "",
            "headers": self.headers,
            "client": line.peer,
            "server": line.host,
            EXCHANGE: self,
        }

    @property
    def websocket(self) -> bool:
        """Whether it asks for the connection to become one. No such request has a body."""
        named = dict(self.headers)
        return (
            self.method == "GET"
            and named.get(b"upgrade", b"").lower() == b"websocket"
            and named.keys().isdisjoint((b"content-length", b"transfer-encoding"))
        )

    def head(self) -> bytes:
        """As it came."""
        lines = b"".join(b"%b: %b\r\n" % header for header in self.headers)
        return b"%b %b HTTP/%b\r\n%b\r\n" % (
            self.method.encode(),
            self.target,
            self.version.encode(),
            lines,
        )

    def take_body(self) -> bytes | None:
        """All of the body, if it has come: as nearly always, when its head has."""
        if not self.whole or self._read:
            return None
        self._read = True
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)

    # The body, as it comes

    def add(self, body: bytes) -> None:
        if self.sent:
            return
        self._parts.append(body)
        self.unread += len(body)
        if self.unread > BODY_AHEAD_BYTES_MAX and not self._held:
            self._held = True
            self._line.more_body(wanted=False)
        self._wake()

    def complete(self) -> None:
        self.whole = True
        if self._held:  # it need not wait any more: this is all of it
            self._held = False
            self._line.more_body(wanted=True)
        self._wake()

    def lose(self) -> None:
        """The client is gone, or what it sends makes no sense."""
        self.lost = True
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def receive(self) -> dict[str, Any]:  # a message of ASGI
        while not self._parts and (self._read or not self.whole):
            if self.lost:
                return GONE
            await self._more()
        body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self.unread = 0
        if self._held:
            self._held = False
            self._line.more_body(wanted=True)
        self._read = self.whole
        return {"type": "http.request", "body": body, "more_body": not self.whole}

    async def _more(self) -> None:
        """Waits until something has changed."""
        if self.expects and not self.whole:
            self.expects = False
            self._line.write(CONTINUE)
        self._waiting = asyncio.get_running_loop().create_future()
        try:
            await self._waiting
        finally:
            self._waiting = None

    # The answer

    def send(self, message: dict[str, Any]) -> "asyncio.Future[None]":  # a message of ASGI
        """Begins at once; what it returns is done when there is room for more."""
        line = self._line
        if message["type"] == "http.response.start":
            self._start = message
            return line.done
        body, more = message.get("body", b""), message.get("more_body", False)
        if self.sent:
            return line.done
        if self._start is not None:
            head, body = self._head(self._start, body, more)
            self._start = None
            if not more:
                self._say(head, body)
                self._end(False)
                return line.done
            data = b"".join((*head, body))
        elif self._chunked:
            data = _chunk(body) if body else b""
        else:
            data = body
        if self._chunked and not more:
            data += LAST_CHUNK
        line.write(data)
        self._end(more)
        return line.written() if more else line.done

    def answer(self, status: int, head: bytes, body: bytes) -> None:
        """All of it at once. `head`: the headers as they are written, the length among them."""
        line = self._line
        more = self._how_it_goes_on()
        self._say((LINES[status], line.date, head, more, END), body)
        self._end(False)

    def _say(self, head: Sequence[bytes], body: bytes) -> None:
        line = self._line
        if len(body) <= COPIED_BYTES_MAX:
            line.answer(b"".join((*head, body)))
        else:
            line.write(b"".join(head))
            line.write(body)

    def _how_it_goes_on(self) -> bytes:
        line = self._line
        if not (self.keeps and self.whole):
            # What is still to come of this request must not be taken for the next.
            line.closing = True
        if line.closing:
            return CLOSE
        return KEEP_ALIVE if self.version == "1.0" else b""

    def _end(self, more: bool) -> None:
        if not more and not self.sent:
            self.sent = True
            self._line.finished(self)

    def _head(
        self, start: dict[str, Any], body: bytes, more: bool
    ) -> tuple[Sequence[bytes], bytes]:
        """The head of the answer, and the body as far as it is there."""
        line, status = self._line, start["status"]
        headers: list[Header] = start["headers"]
        told = b"".join([b"%b: %b\r\n" % header for header in headers])
        if told.count(b"\n") != len(headers):
            raise ValueError("a header has more than one line")
        length = any(name == b"content-length" for name, _ in headers)
        if more and not length and status not in NO_BODY and self.method != "HEAD":
            if self.version == "1.0":
                line.closing = True  # that is how its end is told
            else:
                self._chunked = True
                told += CHUNKED
                body = _chunk(body) if body else b""
        return (LINES[status], line.date, told, self._how_it_goes_on(), END), body

    def refuse(self, problem: Problem) -> None:
        """Answers it without asking anybody, and ends the connection."""
        self._line.closing = True
        body = problem.body()
        headers = [(b"content-type", CONTENT_TYPE.encode())]
        headers.append((b"content-length", b"%d" % len(body)))
        headers += [
            (name.lower().encode(), value.encode())
            for name, value in (problem.headers or {}).items()
        ]
        self.send({"type": "http.response.start", "status": problem.status, "headers": headers})
        self.send({"type": "http.response.body", "body": b"" if self.method == "HEAD" else body})


def _chunk(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(body), body)


def _origin_form(target: bytes) -> bytes:
    """The path and the query of an absolute address."""
    try:
        url = httptools.parse_url(target)
    except httptools.HttpParserInvalidURLError:
        return target
    query = b"" if url.query is None else b"?" + url.query
    return (url.path or b"/") + query
