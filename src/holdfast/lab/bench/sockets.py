"""A process with thousands of WebSockets that watch one event: `python -m
holdfast.lab.bench.sockets`. It reads orders, a line of JSON each, and answers each with a line:

    Watch    opens so many, and answers when each has its snapshot
    Gather   waits until all who read were told up to that number, answers what all were told

It shares the machine with the server that is measured, so it does as little as it can: sockets
without a library, and frames that were seen before are not read again.
"""

import asyncio
import contextlib
import socket
import sys
from collections import Counter
from typing import cast
from urllib.parse import urlsplit

import msgspec
import uvloop

from holdfast.lab.bench.frames import Ledger, Way, digests

AT_ONCE = 50
"""Connections that are being opened at the same time."""
SLOW_BYTES = 4_096
"""What the kernel keeps for a slow one, and how much it takes at a time."""
PATIENCE_SECONDS = 60.0
HANDSHAKE = (
    "GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\n"
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
TEXT, CLOSE = 1, 8


class Watch(msgspec.Struct, tag=True):
    url: str
    key: str
    event: str
    watchers: int
    slow: int = 0
    """Of those, so many read `slow_bytes_per_second`; if that is 0 they are deaf."""
    slow_bytes_per_second: int = 0
    skip: int = 0
    """A control: the first of them is not shown the frame of that number, and must notice."""


class Gather(msgspec.Struct, tag=True):
    seq: int


class Told(msgspec.Struct):
    """What became of all of them."""

    watchers: int
    frames: int
    """All that were read, snapshots too."""
    snapshots: int
    different_frames: int
    """Each counted once, whoever read it."""
    gaps: int
    """Those who were told something that does not join what they were told before."""
    ended_in: dict[str, int]
    """How many of those who read have which map in the end."""
    fewest_frames: int
    most_frames: int
    """Of those who read."""
    closed: dict[str, int]
    """How many were closed with which code, 1006 where there was none."""


def whole_messages(data: bytes) -> tuple[list[tuple[int, bytes]], bytes]:
    """The messages of a server that are whole, each with its kind; and the rest. They are not
    masked, and ours are not split."""
    found = []
    at = 0
    while len(data) - at >= 2:
        size, head = data[at + 1], 2
        if size > 125:
            head = 4 if size == 126 else 10
            size = int.from_bytes(data[at + 2 : at + head], "big")
        end = at + head + size
        if len(data) < max(end, at + head):
            break
        found.append((data[at] & 15, data[at + head : end]))
        at = end
    return found, data[at:]


class Watcher(asyncio.Protocol):
    """One WebSocket. A slow one takes a little at a time."""

    def __init__(self, crowd: "Crowd", slow: bool, skip: int) -> None:
        self.way = Way(crowd.ledger)
        self.slow = slow
        self.deaf = slow and crowd.watch.slow_bytes_per_second == 0
        self.closed = 0
        """The code."""
        self._crowd = crowd
        self._skip = skip
        self._frames = 0
        self._buffer = b""
        self._open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is none
        self.transport.write(self._crowd.handshake)

    def data_received(self, data: bytes) -> None:
        if self.slow and self._open:
            self._pause(len(data))
        if self._buffer:
            data = self._buffer + data
        if not self._open:
            head, end, rest = data.partition(b"\r\n\r\n")
            if not end:
                self._buffer = data
                return
            if b" 101 " not in head.partition(b"\r\n")[0]:
                self._crowd.fail(head.decode(errors="replace"))
            self._open, data = True, rest
            if self.slow:
                self._crowd.one_more()
                self._pause(0)
        found, self._buffer = whole_messages(data)
        for kind, message in found:
            self._see(kind, message)

    def _pause(self, taken: int) -> None:
        self.transport.pause_reading()
        if rate := self._crowd.watch.slow_bytes_per_second:
            loop = asyncio.get_running_loop()
            loop.call_later(taken / rate, self._resume)

    def _resume(self) -> None:
        if not self.transport.is_closing():
            self.transport.resume_reading()

    def _see(self, kind: int, message: bytes) -> None:
        if kind == CLOSE:
            self.closed = int.from_bytes(message[:2], "big") or 1005
            self.transport.close()
        elif kind == TEXT:
            self._frames += 1
            if self._frames == 1 and not self.slow:
                self._crowd.one_more()
            if self._frames != self._skip:
                self.way.see(message)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = self.closed or 1006


class Crowd:
    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.ledger = Ledger()
        at = urlsplit(watch.url)
        self._address = at.hostname or "", at.port or 80
        path = f"/v1/events/{watch.event}/live"
        asked = HANDSHAKE.format(path=path, host=at.netloc, key=watch.key)
        self.handshake = asked.encode()
        self.watchers: list[Watcher] = []
        self._ready = 0
        self._all_ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def one_more(self) -> None:
        self._ready += 1
        if self._ready == self.watch.watchers and not self._all_ready.done():
            self._all_ready.set_result(None)

    def fail(self, said: str) -> None:
        if not self._all_ready.done():
            self._all_ready.set_exception(ConnectionError(said))

    async def come(self) -> None:
        turn = asyncio.Semaphore(AT_ONCE)
        watch = self.watch

        async def one(nth: int) -> None:
            async with turn:
                await self._connect(nth >= watch.watchers - watch.slow, watch.skip * (nth == 0))

        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.gather(*map(one, range(watch.watchers)))
            await self._all_ready

    async def _connect(self, slow: bool, skip: int) -> None:
        loop = asyncio.get_running_loop()
        connection = socket.socket()
        connection.setblocking(False)
        if slow:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SLOW_BYTES)
        await loop.sock_connect(connection, self._address)
        watcher = Watcher(self, slow, skip)
        await loop.create_connection(lambda: watcher, sock=connection)
        self.watchers.append(watcher)

    async def gather(self, seq: int) -> Told:
        """Who reads is waited for, as long as it takes within reason."""
        read = [each for each in self.watchers if not each.deaf]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                while any(each.way.seq < seq and not each.closed for each in read):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
        frames = [len(each.way.numbers) for each in read]
        seen = [number for each in self.watchers for number in each.way.numbers]
        return Told(
            watchers=len(self.watchers),
            frames=len(seen),
            snapshots=sum(map(self.ledger.is_snapshot, seen)),
            different_frames=len(self.ledger),
            gaps=sum(each.way.gaps > 0 for each in self.watchers),
            ended_in=digests(self.ledger, [each.way for each in read]),
            fewest_frames=min(frames, default=0),
            most_frames=max(frames, default=0),
            closed=dict(Counter(str(each.closed) for each in self.watchers if each.closed)),
        )


async def obey() -> None:
    crowd: Crowd | None = None
    while line := await asyncio.to_thread(sys.stdin.readline):
        order = msgspec.json.decode(line, type=Watch | Gather)
        answer = None
        if isinstance(order, Watch):
            crowd = Crowd(order)
            await crowd.come()
        else:
            assert crowd is not None
            answer = await crowd.gather(order.seq)
        print(msgspec.json.encode(answer).decode(), flush=True)


if __name__ == "__main__":
    uvloop.run(obey())
