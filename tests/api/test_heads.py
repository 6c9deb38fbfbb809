"""A head that came before is not parsed again, and means what it meant."""

import asyncio
from contextlib import asynccontextmanager
from functools import partial

import pytest
from httptools import HttpRequestParser

from holdfast.api import heads
from holdfast.api.heads import Heads
from tests.api.small import ANSWERED, get, post, served, until


@pytest.fixture
def fed(monkeypatch) -> list[bytes]:
    """What parsers are given to read."""
    pieces: list[bytes] = []

    class Counting:
        def __init__(self, protocol: object) -> None:
            self._parser = HttpRequestParser(protocol)

        def feed_data(self, data: bytes) -> None:
            pieces.append(data)
            self._parser.feed_data(data)

        def __getattr__(self, name: str) -> object:
            return getattr(self._parser, name)

    monkeypatch.setattr("holdfast.api.connection.HttpRequestParser", Counting)
    return pieces


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, data: bytes) -> None:
        """So that it comes as one piece."""
        self.writer.write(data)
        await self.writer.drain()

    async def hear(self) -> bytes:
        """The body of one answer."""
        head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 10)
        (length,) = [line for line in head.split(b"\r\n") if line.startswith(b"content-length")]
        return await self.reader.readexactly(int(length.partition(b":")[2]))

    async def ask(self, data: bytes) -> bytes:
        await self.send(data)
        return await self.hear()


@asynccontextmanager
async def client(port: int):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()


async def test_from_the_third_time_on_it_is_known_whoever_sends_it(fed):
    async with served() as (_, port):
        async with client(port) as first:
            for body in (b"one", b"two", b"six"):
                assert await first.ask(post("/echo", body)) == body
        assert len(fed) == 2
        async with client(port) as second:
            for body in (b"ten", b"wee"):
                assert await second.ask(post("/echo", body)) == body
            assert await second.ask(post("/headers", b"")) == b"host content-length"
    assert len(fed) == 3


async def test_a_get_has_no_body_to_wait_for(fed):
    async with served() as (_, port), client(port) as one:
        for _ in range(4):
            assert await one.ask(get("/headers", "X-A: 1", "X-B: 2")) == b"host x-a x-b"
    assert len(fed) == 2


@pytest.mark.parametrize(
    "more",
    [b"X", b"\r\n", b"P", b"POST /echo HTTP/1.1\r\n", post("/echo", b"one")[:-1]],
    ids=["a letter", "an empty line", "a beginning", "a line", "most of a request"],
)
async def test_what_is_left_over_belongs_to_what_comes_next(fed, more):
    """The next piece looks like a request that is known, and is the rest of another."""
    known = post("/echo", b"one")
    async with served() as (_, port), client(port) as one:
        for _ in range(3):
            assert await one.ask(known) == b"one"
        assert await one.ask(known + more) == b"one"
        await one.send(known)
        if more == b"\r\n":  # which may stand before any request
            assert await one.hear() == b"one"
        elif more == known[:-1]:  # the letter that it lacked is the first of what came
            assert await one.hear() == b"onP"
        else:
            assert b"400 Bad Request" in await asyncio.wait_for(one.reader.read(), 10)


async def test_pieces_of_a_request_are_put_together(fed):
    known = post("/echo", b"one")
    async with served() as (_, port), client(port) as one:
        for _ in range(3):
            assert await one.ask(known) == b"one"
        for cut in (1, 10, len(known) - 3, len(known) - 1):
            before = len(fed)
            await one.send(known[:cut])
            await until(partial(lambda had: len(fed) > had, before))  # so that it comes as two
            assert await one.ask(known[cut:]) == b"one"


async def test_two_at_once_are_two(fed):
    known = post("/echo", b"one")
    async with served() as (_, port), client(port) as one:
        for _ in range(3):
            await one.ask(known)
        await one.send(known + post("/echo", b"two"))
        assert [await one.hear(), await one.hear()] == [b"one", b"two"]
        assert await one.ask(known) == b"one"


async def test_a_body_of_another_length_is_not_taken_for_its_own(fed):
    known = post("/echo", b"one")
    async with served() as (_, port), client(port) as one:
        for _ in range(3):
            await one.ask(known)
        await one.send(known + b"!")  # the next request begins with it
        assert await one.hear() == b"one"
        assert b"400 Bad Request" in await asyncio.wait_for(one.reader.read(), 10)


@pytest.mark.parametrize(
    "strange",
    [
        post("/echo", b"one", "Expect: 100-continue"),
        post("/echo", b"one", "Connection: close"),
        get("/headers", version="1.0"),
        get("/headers", "Transfer-Encoding: chunked") + b"3\r\none\r\n0\r\n\r\n",
        post("/echo", b"one", "Idempotency-Key: k"),
        post("/echo", b"one", "X-Long: " + "x" * heads.HEAD_BYTES_MAX),
        b"GET /headers HTTP/1.1\r\n\r\n",
    ],
    ids=["expects", "closes", "old", "chunked", "once", "long", "no host"],
)
async def test_what_is_not_plain_is_parsed_each_time(fed, strange):
    async with served() as (server, port):
        for _ in range(4):
            async with client(port) as one:
                await one.send(strange)
                await asyncio.wait_for(one.reader.readuntil(b"\r\n\r\n"), 10)
        assert not [head for head in server.heads._known.values() if head is not None]
    assert len(fed) == 4


async def test_what_an_application_does_to_headers_stays_its_own(fed, monkeypatch):
    async def greedy(scope, receive) -> bytes:
        scope["headers"].clear()
        return b"gone"

    monkeypatch.setitem(ANSWERED, "/greedy", greedy)
    known = get("/greedy")
    async with served() as (server, port), client(port) as one:
        for _ in range(4):
            assert await one.ask(known) == b"gone"
        (head,) = [head for head in server.heads._known.values() if head is not None]
        assert head.headers == ((b"host", b"h"),)


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\n", b"\n\r\n", b"\r\r"])
async def test_a_head_ends_in_one_way_alone(end):
    """Else what looks like one head could be two."""
    async with served() as (_, port), client(port) as one:
        await one.send(b"GET /headers HTTP/1.1\r\nHost: h" + end + get("/headers"))
        assert b"400 Bad Request" in await asyncio.wait_for(one.reader.read(), 10)


async def test_nothing_is_heard_after_a_request_that_is_the_last(fed):
    known = post("/echo", b"one")
    async with served() as (_, port):
        async with client(port) as first:
            for _ in range(3):
                await first.ask(known)
        async with client(port) as one:
            await one.send(post("/slow", b"", "Connection: close"))
            await one.send(known)
            told = await asyncio.wait_for(one.reader.read(), 10)
    assert told.count(b"HTTP/1.1 ") == 1


async def test_they_do_not_pile_up(monkeypatch):
    monkeypatch.setattr(heads, "HEADS_MAX", 3)
    async with served() as (server, port), client(port) as one:
        for n in range(20):
            await one.ask(get(f"/at-once?n={n}"))
            assert len(server.heads._known) <= 3


def test_nothing_is_known_at_first():
    assert Heads().get(get("/")) is None
