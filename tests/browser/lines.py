"""A line between a browser and the service, to be cut: a TCP proxy that knows nothing of HTTP but
how a WebSocket is asked for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

CHUNK = 65_536
HEAD_MAX = 65_536
REFUSAL = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Line:
    """Whole, until it is cut. `sockets=False`: one that lets no WebSocket through, as some proxies
    of companies do."""

    def __init__(self, url: str, sockets: bool = True) -> None:
        self._far = urlsplit(url)
        self._sockets = sockets
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.refused = 0
        """WebSockets that were not let through."""
        self.carried: list[tuple[bytearray, bytearray]] = []
        """What went there and what came back, connection by connection."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def mend(self) -> None:
        """At the same port as before."""
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """Everything that goes through it ends, and nobody else gets through."""
        assert self._server is not None
        self._server.close()
        for writer in tuple(self._open):
            writer.transport.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _carry(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._open.add(back)
        try:
            await self._between(near, back)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # one of the two is gone; so is the other, below
        finally:
            self._open.discard(back)
            self._tasks.discard(task)
            back.close()

    async def _between(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        head = await near.read(CHUNK)
        if not self._sockets and b"upgrade: websocket" in head.lower():
            self.refused += 1
            back.write(REFUSAL)
            await back.drain()
            return
        far, there = await asyncio.open_connection(self._far.hostname, self._far.port)
        self._open.add(there)
        try:
            there.write(head)
            asked, answered = bytearray(head), bytearray()
            self.carried.append((asked, answered))
            await asyncio.gather(_pour(near, there, asked), _pour(far, back, answered))
        finally:
            self._open.discard(there)
            there.close()


async def _pour(source: asyncio.StreamReader, into: asyncio.StreamWriter, noted: bytearray) -> None:
    try:
        while chunk := await source.read(CHUNK):
            noted += chunk
            into.write(chunk)
            await into.drain()
    finally:
        into.close()


@asynccontextmanager
async def line_to(url: str, sockets: bool = True) -> AsyncIterator[Line]:
    line = Line(url, sockets)
    await line.mend()
    try:
        yield line
    finally:
        await line.cut()
