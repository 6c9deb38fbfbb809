"""A small application on the HTTP server, for tests of the server by itself."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

from holdfast.api.connection import Connection
from holdfast.api.exchange import EXCHANGE
from holdfast.api.server import Server

HEADER_SECONDS = 30.0
BODY = b"x" * 10
HEAD = b"content-length: %d\r\ncontent-type: text/plain\r\n"


LARGE = 4 * 1024 * 1024


async def echo(scope: dict[str, Any], receive: Any) -> bytes:
    body: bytes | None = scope[EXCHANGE].take_body()
    if body is not None:
        return body
    parts, more = [], True
    while more:
        event = await receive()
        parts.append(event["body"])
        more = event["more_body"]
    return b"".join(parts)


async def headers(scope: dict[str, Any], receive: Any) -> bytes:
    return b" ".join(name for name, _ in scope["headers"])


ANSWERED = {"/echo": echo, "/headers": headers}
"""And what a test adds."""


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """/at-once is answered as most calls are, /messages as ASGI has it, /parts bit by bit, /slow
    after others had their turns; /echo says what it was sent, /headers what came before that."""
    path = scope["path"]
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        await asyncio.Event().wait()
    if path in ANSWERED:
        body = await ANSWERED[path](scope, receive)
        scope[EXCHANGE].answer(200, HEAD % len(body), body)
        return
    if path == "/parts":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for part in (b"one ", b"two ", b"three"):
            await send({"type": "http.response.body", "body": part, "more_body": True})
            await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b""})
        return
    if path == "/slow":
        for _ in range(20):
            await asyncio.sleep(0)
    body = path.encode()
    if path == "/messages":
        headers = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        return
    scope[EXCHANGE].answer(200, HEAD % len(body), body)


@asynccontextmanager
async def served() -> AsyncIterator[tuple[Server, int]]:
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    server = Server(app, listener, HEADER_SECONDS)
    task = asyncio.create_task(server.serve())
    await asyncio.sleep(0)
    try:
        yield server, listener.getsockname()[1]
    finally:
        server.stop()
        await asyncio.wait_for(task, 10)


def get(path: str, *more: str, version: str = "1.1") -> bytes:
    return "\r\n".join([f"GET {path} HTTP/{version}", "Host: h", *more, "", ""]).encode()


async def said(port: int, *pieces: bytes, close: bool = True) -> bytes:
    """All that is answered to these pieces until the server ends it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        if close:
            writer.write_eof()
        return await asyncio.wait_for(reader.read(), 10)
    finally:
        writer.close()


async def until(so: Callable[[], bool]) -> None:
    """After as few turns of the loop as that takes."""
    while not so():  # noqa: ASYNC110  # it is turns that count
        await asyncio.sleep(0)


def post(path: str, body: bytes, *more: str) -> bytes:
    head = get(path, f"Content-Length: {len(body)}", *more).removeprefix(b"GET")
    return b"POST" + head + body


async def the_only(server: Server) -> Connection:
    """Who is connected, as soon as he is."""
    await until(lambda: bool(server.connections))
    (connection,) = cast("set[Connection]", server.connections)
    return connection


SOCKET = (
    *("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"),
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)
"""What asks for a connection to become one."""
