"""The HTTP server by itself, with a small application: whatever is answered arrives, in order and
once, however the connection ends."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast.api.connection import Connection
from holdfast.api.server import Server
from tests.api.small import SOCKET, get, post, said, served, until

PATHS = ("/at-once", "/messages", "/parts", "/slow")


@pytest.mark.parametrize("last", PATHS)
async def test_pipelined_answers_come_in_order_whatever_kind_they_are(last):
    paths = ["/at-once", "/slow", "/messages", "/parts", "/at-once", "/at-once", "/slow", last]
    async with served() as (_, port):
        told = await said(port, b"".join(map(get, paths)))
    heads = told.split(b"HTTP/1.1 200 OK\r\n")[1:]
    assert len(heads) == len(paths)
    for path, head in zip(paths, heads, strict=True):
        body = b"5\r\nthree\r\n0\r\n\r\n" if path == "/parts" else path.encode()
        assert head.endswith(body), (path, head)


@pytest.mark.parametrize("path", PATHS)
async def test_who_says_no_more_hears_his_answer(path):
    async with served() as (_, port):
        assert b"200 OK" in await said(port, get(path))


@pytest.mark.parametrize("path", PATHS)
async def test_who_wants_no_more_hears_his_answer_to_its_end(path):
    async with served() as (_, port):
        told = await said(port, get(path, "Connection: close"), close=False)
    assert b"connection: close\r\n" in told
    assert told.endswith(b"three\r\n0\r\n\r\n" if path == "/parts" else path.encode())


@pytest.mark.parametrize("path", PATHS)
async def test_the_old_version_ends_with_its_answer_unless_both_go_on(path):
    async with served() as (_, port):
        ended = await said(port, get(path, version="1.0"), close=False)
        again = get(path, "Connection: keep-alive", version="1.0")
        both = await said(port, again * 2)
    assert ended.endswith(b"three" if path == "/parts" else path.encode())
    kept = 1 if path == "/parts" else 2  # the end of what has no length is told by the connection's
    assert both.count(b"200 OK") == kept
    assert (b"connection: keep-alive" in both) is (path != "/parts")


@pytest.mark.parametrize("path", PATHS)
async def test_what_was_asked_before_the_server_stops_is_answered(path):
    async with served() as (server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(get(path))
        await until(lambda: any(not each.fresh for each in server.connections))
        server.stop()
        told = await asyncio.wait_for(reader.read(), 10)
        writer.close()
    assert told.endswith(b"three\r\n0\r\n\r\n" if path == "/parts" else path.encode())
    assert path != "/slow" or b"connection: close\r\n" in told, "he is told to ask elsewhere"


async def a_crowd(
    server: Server, port: int, count: int, asked: bytes
) -> list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """So many are connected, and ask at one moment."""
    opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]
    await until(lambda: len(server.connections) == len(opened))
    for _, writer in opened:
        writer.write(asked)
    return opened


async def test_answers_of_one_turn_are_sent_one_after_the_other(monkeypatch):
    """And none before all of them are there: that is what wakes their clients' side up once."""
    turns: list[str] = []
    send_all = Server._send_all

    def sent(server: Server) -> None:
        turns.append(f"{len(server._answered)} sent")
        send_all(server)

    monkeypatch.setattr(Server, "_send_all", sent)
    async with served() as (server, port):
        opened = await a_crowd(server, port, 10, get("/at-once"))
        for reader, writer in opened:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
            assert head.startswith(b"HTTP/1.1 200 OK")
            writer.close()
    assert sum(int(each.split()[0]) for each in turns) == len(opened)
    assert len(turns) < len(opened)


async def test_one_who_cannot_be_sent_his_answer_costs_nobody_else_his(monkeypatch, caplog):
    send = Connection.send
    unlucky: list[Connection] = []

    def failing(connection: Connection) -> None:
        if not unlucky:
            unlucky.append(connection)
        if connection is unlucky[0]:
            raise RuntimeError("it cannot be written to")
        send(connection)

    monkeypatch.setattr(Connection, "send", failing)
    async with served() as (server, port):
        opened = await a_crowd(server, port, 5, get("/at-once", "Connection: keep-alive"))
        answered = 0
        for reader, writer in opened:
            try:
                head = await asyncio.wait_for(reader.read(12), 10)
            except ConnectionResetError:
                head = b""
            answered += head == b"HTTP/1.1 200"
            writer.close()
        await until(lambda: not server.connections)
    assert answered == 4
    assert "an answer was not sent" in caplog.text


async def test_an_answer_is_sent_though_the_connection_expires_in_the_same_turn():
    async with served() as (server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(get("/at-once"))
        await until(lambda: bool(server._answered))
        for each in list(server.connections):
            each.expire()
        told = await asyncio.wait_for(reader.read(), 10)
        writer.close()
    assert told.endswith(b"/at-once")


@pytest.mark.parametrize("size", [4, 400_000])
async def test_what_a_client_offers_to_become_costs_it_no_body(size):
    """curl --http2 and others ask like this."""
    offer = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")
    body = b"y" * size
    async with served() as (_, port):
        told = await said(port, post("/echo", body, *offer) + get("/at-once"))
    assert body in told
    assert told.endswith(b"/at-once"), "and the connection goes on"


async def test_what_follows_chunks_is_no_header_of_the_next_request():
    chunked = get("/echo", "Transfer-Encoding: chunked").replace(b"GET", b"POST")
    chunks = b"3\r\nabc\r\n0\r\nAuthorization: Bearer key\r\n\r\n"
    async with served() as (_, port):
        told = await said(port, chunked + chunks + get("/headers"))
    assert b"abc" in told
    assert told.endswith(b"\r\n\r\nhost")


async def test_a_long_body_keeps_no_connection_from_going_on():
    async with served() as (_, port):
        told = await said(port, post("/echo", b"y" * 100_000), get("/messages"))
    assert told.endswith(b"/messages")


MASK = b"\0\0\0\0"


@asynccontextmanager
async def talking(server: Server, port: int) -> AsyncIterator[tuple[Any, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
    writer.write(get("/socket", *SOCKET))
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
    (opened,) = server.connections
    try:
        yield opened, writer
    finally:
        writer.transport.abort()
        await until(lambda: not server.connections)


async def test_nobody_is_listened_to_who_does_not_take_the_answers_to_his_pings():
    async with served() as (server, port), talking(server, port) as (opened, writer):
        pings = (b"\x89\xfd" + MASK + b"p" * 125) * 500
        for _ in range(2_000):
            writer.write(pings)
            await asyncio.sleep(0)
            if opened.full:
                break
        assert opened.full
        assert not opened._reading


async def test_frames_with_nothing_in_them_do_not_pile_up():
    async with served() as (server, port), talking(server, port) as (opened, writer):
        writer.write(b"\x01\x81" + MASK + b"a" + (b"\x00\x80" + MASK) * 10_000)
        writer.write(b"\x00\x81" + MASK + b"b")
        await until(lambda: b"b" in opened._parts)
        assert opened._parts == [b"a", b"b"]


async def test_a_socket_with_a_body_is_a_request_like_any_other():
    async with served() as (_, port):
        told = await said(port, post("/echo", b"abc", *SOCKET).replace(b"POST", b"GET", 1))
    assert told.endswith(b"abc")


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (b"GET /at-once HTTP/1.1\r\n\r\n", 400),
        (b"GET /at-once HTTP/1.0\r\n\r\n", 200),
        (get("/at-once", "Host: other"), 400),
        (get("/echo", "Transfer-Encoding: gzip, chunked").replace(b"GET", b"POST"), 400),
        (get("/echo", "Transfer-Encoding: chunked", version="1.0") + b"0\r\n\r\n", 200),
    ],
)
async def test_what_can_be_read_in_two_ways_is_not_read(asked, status):
    async with served() as (_, port):
        told = await said(port, asked)
    assert told.startswith(b"HTTP/1.1 %d " % status)
    assert status == 200 or b"connection: close" in told


async def test_who_knows_no_interim_answers_gets_none():
    body = post("/echo", b"abc", "Expect: 100-continue").replace(b"1.1", b"1.0", 1)
    async with served() as (_, port):
        told = await said(port, body[:-3], body[-3:])
    assert told.startswith(b"HTTP/1.1 200")


async def test_who_asks_for_too_much_ahead_is_told_when_to_come_back():
    async with served() as (_, port):
        told = await said(port, get("/slow") * 100)
    assert told.count(b"HTTP/1.1 200") == 65
    assert told.count(b"HTTP/1.1 503") == 1
    assert b"retry-after: 1\r\n" in told


async def test_who_comes_when_all_places_are_taken_is_told_so():
    async with served() as (server, port):
        server.connections_max = 2
        first = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        await until(lambda: len(server.connections) == 2)
        told = await said(port, get("/at-once"), close=False)
        assert told.startswith(b"HTTP/1.1 503")
        assert b"retry-after: 1\r\n" in told
        first.pop()[1].close()
        await until(lambda: len(server.connections) < 2)
        assert (await said(port, get("/at-once"))).startswith(b"HTTP/1.1 200")
        first.pop()[1].close()


async def test_a_refusal_of_a_head_has_no_body():
    async with served() as (_, port):
        told = await said(port, b"HEAD /at-once HTTP/1.1\r\n\r\n")
    assert told.startswith(b"HTTP/1.1 400")
    assert told.endswith(b"\r\n\r\n")


async def test_who_begins_another_request_behind_one_is_told_that_it_did_not_come():
    async with served() as (server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(get("/at-once") + b"GET /heal")
        await asyncio.wait_for(reader.readuntil(b"/at-once"), 10)
        (connection,) = server.connections
        connection.expire()
        told = await asyncio.wait_for(reader.read(), 10)
        writer.close()
    assert told.startswith(b"HTTP/1.1 408")


async def test_sockets_that_open_and_close_say_nothing_in_the_log(caplog):
    caplog.set_level("DEBUG")
    async with served() as (server, port), talking(server, port):
        pass
    assert "connection open" not in caplog.text
