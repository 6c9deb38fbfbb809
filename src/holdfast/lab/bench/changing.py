"""A process that changes seats of an event at a steady rate, through the HTTP API: `python -m
holdfast.lab.bench.changing`. It reads an order, a line of JSON, and answers with a line what came
of it; then the next.

It holds two seats, and releases the hold of a while ago: that is four changes. It asks when it is
time to, answered or not, and counts the time from when it was: a crowd does not slow down because
the shop does.
"""

import asyncio
import sys
import time
from collections import deque
from typing import cast
from urllib.parse import urlsplit

import msgspec
import uvloop

SEATS = 2
CONNECTIONS = 32
STANDING = 100
"""Holds that stand before the oldest is released."""
ANSWER_SECONDS = 30.0
ROW = 100


class Change(msgspec.Struct):
    url: str
    key: str
    event: str
    seats: int
    seats_per_second: int
    seconds: float


class Changed(msgspec.Struct):
    latencies_ms: list[float] = []
    """Of the holds."""
    seats: int = 0
    failed: int = 0
    seconds: float = 0.0


class Connection(asyncio.Protocol):
    """One request at a time, kept alive."""

    def __init__(self) -> None:
        self._buffer = b""
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await asyncio.wait_for(self._answer, ANSWER_SECONDS)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, end, body = self._buffer.partition(b"\r\n\r\n")
        if not end:
            return
        _, found, rest = head.lower().partition(b"content-length: ")
        length = int(rest.partition(b"\r\n")[0]) if found else 0
        if len(body) >= length and self._answer is not None:
            self._buffer = b""
            self._answer.set_result((int(head[9:12]), body))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError("the server hung up"))

    def close(self) -> None:
        self._transport.close()


class Changer:
    def __init__(self, change: Change) -> None:
        self._change = change
        at = urlsplit(change.url)
        self._address = at.hostname or "", at.port or 80
        self._head = f"Host: {at.netloc}\r\nAuthorization: Bearer {change.key}\r\n"
        self._free: deque[Connection] = deque()
        self._holds: deque[str] = deque()
        self._standing = 0
        """Holds, those too that were not answered yet."""
        self.changed = Changed()

    async def run(self) -> Changed:
        loop = asyncio.get_running_loop()
        for _ in range(CONNECTIONS):
            _, connection = await loop.create_connection(Connection, *self._address)
            self._free.append(connection)
        try:
            began = time.perf_counter()  # a loop of uvloop counts in whole milliseconds
            rate = self._change.seats_per_second / SEATS
            async with asyncio.TaskGroup() as tasks:
                for nth in range(int(rate * self._change.seconds)):
                    due = began + nth / rate
                    if (early := due - time.perf_counter()) > 0:
                        await asyncio.sleep(early)
                    tasks.create_task(self._turn(nth, due))
            changed = msgspec.structs.replace(self.changed, seconds=time.perf_counter() - began)
            while self._holds:
                await self._release(self._holds.popleft())
        finally:
            for connection in self._free:
                connection.close()
        return changed

    async def _turn(self, nth: int, due: float) -> None:
        if self._standing <= STANDING or nth % 2 == 0:
            self._standing += 1
            await self._hold(nth, due)
        elif self._holds:  # else none of them was answered yet
            self._standing -= 1
            await self._release(self._holds.popleft())

    async def _hold(self, nth: int, due: float) -> None:
        first = nth * SEATS % self._change.seats
        seats = [f"A-{each // ROW + 1}-{each % ROW + 1}" for each in range(first, first + SEATS)]
        body = msgspec.json.encode({"buyer": f"u{nth}", "seats": seats})
        head = (
            f"POST /v1/events/{self._change.event}/holds HTTP/1.1\r\n{self._head}"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        status, answer = await self._ask(head.encode() + body)
        taken = time.perf_counter() - due
        self.changed.latencies_ms.append(taken * 1000)
        if status == 201:
            self.changed.seats += SEATS
            self._holds.append(msgspec.json.decode(answer)["id"])
        else:
            self._standing -= 1
            self.changed.failed += 1

    async def _release(self, hold: str) -> None:
        status, _ = await self._ask(
            f"DELETE /v1/holds/{hold} HTTP/1.1\r\n{self._head}\r\n".encode()
        )
        if status == 204:
            self.changed.seats += SEATS
        else:
            self.changed.failed += 1

    async def _ask(self, request: bytes) -> tuple[int, bytes]:
        if self._free:
            connection = self._free.popleft()
        else:  # all wait: a crowd opens more
            loop = asyncio.get_running_loop()
            _, connection = await loop.create_connection(Connection, *self._address)
        answer = await connection.ask(request)
        self._free.append(connection)
        return answer


async def obey() -> None:
    while line := await asyncio.to_thread(sys.stdin.readline):
        changed = await Changer(msgspec.json.decode(line, type=Change)).run()
        print(msgspec.json.encode(changed).decode(), flush=True)


if __name__ == "__main__":
    uvloop.run(obey())
