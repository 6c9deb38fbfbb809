"""Live frames: the parser by the standard, and a stream that goes on after every loss."""

import json
import socket
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from holdfast.client import (
    Changes,
    Client,
    Snapshot,
    StreamGap,
    Unauthorized,
    Unavailable,
    Unexpected,
)
from holdfast.client.sse import Message, Parser
from tests.api.serving import ADMIN, serving
from tests.client.faults import listening

pytestmark = pytest.mark.slow

QUICK = {"backoff_seconds": 0.001}


def snapshot(seq: int) -> bytes:
    return sent("snapshot", seq, {"type": "snapshot", "seq": seq, "seats": [], "pools": []})


def changes(first: int, to: int, *moves: tuple[str, str]) -> bytes:
    body = {"type": "changes", "from": first, "to": to, "changes": moves}
    return sent("changes", to, body)


def sent(type: str, id: int, body: object) -> bytes:
    return f"id: {id}\nevent: {type}\ndata: {json.dumps(body)}\n\n".encode()


class Feed:
    """A service whose connections each send what they are told and then are lost."""

    def __init__(self, *connections: list[bytes] | web.Response) -> None:
        self.connections = list(connections)
        self.resumed: list[str | None] = []
        """The Last-Event-ID of each connection."""
        self.url = ""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        assert request.path == "/v1/events/e1/stream"
        self.resumed.append(request.headers.get("Last-Event-ID"))
        pieces = self.connections.pop(0) if self.connections else web.Response(status=503)
        if isinstance(pieces, web.Response):
            return pieces
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
        return response


@asynccontextmanager
async def following(
    feed: Feed, since: int | None = None, **options: Any
) -> AsyncIterator[AsyncIterator[Snapshot | Changes]]:
    async with (
        listening(feed.handle) as url,
        Client(url, "key", **{**QUICK, **options}) as client,
        aclosing(client.stream("e1", since)) as frames,
    ):
        yield frames


async def taken(frames: AsyncIterator[Any], count: int) -> list[Any]:
    return [await anext(frames) for _ in range(count)]


async def test_frames_come_as_values():
    feed = Feed([snapshot(4), changes(5, 6, ("A-1-1", "held"))])
    async with following(feed) as frames:
        assert await taken(frames, 2) == [Snapshot(4), Changes(5, 6, [("A-1-1", "held")])]
    assert feed.resumed == [None]


async def test_after_a_loss_it_goes_on_where_it_was():
    feed = Feed(
        [snapshot(4), changes(5, 6), b"id: 9\nevent: changes\ndata: {"],
        [],
        web.Response(status=503),
        [changes(7, 8), changes(9, 9)],
    )
    async with following(feed) as frames:
        got = await taken(frames, 4)
    assert got == [Snapshot(4), Changes(5, 6, []), Changes(7, 8, []), Changes(9, 9, [])]
    assert feed.resumed == [None, "6", "6", "6"]


async def test_since_is_where_it_begins():
    feed = Feed([changes(8, 9)])
    async with following(feed, since=7) as frames:
        assert await anext(frames) == Changes(8, 9, [])
    assert feed.resumed == ["7"]


async def test_whoever_was_away_too_long_gets_a_new_snapshot():
    feed = Feed([snapshot(4)], [snapshot(900), changes(901, 901)])
    async with following(feed) as frames:
        assert await taken(frames, 3) == [Snapshot(4), Snapshot(900), Changes(901, 901, [])]


async def test_what_was_told_already_is_not_told_again():
    feed = Feed([snapshot(4), changes(5, 6)], [changes(5, 6), changes(7, 7)])
    async with following(feed) as frames:
        assert await taken(frames, 3) == [
            Snapshot(4),
            Changes(5, 6, []),
            Changes(7, 7, []),
        ]


@pytest.mark.parametrize("loss", [False, True])
async def test_a_gap_is_an_error(loss):
    feed = Feed([snapshot(4)], [changes(6, 7)]) if loss else Feed([snapshot(4), changes(6, 7)])
    async with following(feed) as frames:
        await anext(frames)
        with pytest.raises(StreamGap, match="after 4 came changes from 6"):
            await anext(frames)


async def test_changes_without_a_beginning_are_an_error():
    async with following(Feed([changes(5, 6)])) as frames:
        with pytest.raises(StreamGap, match="before any snapshot"):
            await anext(frames)


async def test_frames_of_a_newer_service_and_signs_of_life_are_passed_over():
    feed = Feed([b": alive\n\n", sent("weather", 5, {"rain": 1}), snapshot(4)])
    async with following(feed) as frames:
        assert await anext(frames) == Snapshot(4)


async def test_patience_ends():
    began = time.monotonic()
    async with following(Feed(), total_seconds=0.3) as frames:
        with pytest.raises(Unavailable, match="does not do it now"):
            await anext(frames)
    assert time.monotonic() - began < 5


async def test_a_wrong_key_is_told_at_once():
    body = {"reason": "unauthorized", "detail": "unknown key"}
    async with following(Feed(web.json_response(body, status=401))) as frames:
        with pytest.raises(Unauthorized, match="unknown key"):
            await anext(frames)


async def test_a_page_is_no_stream():
    async with following(Feed(web.Response(text="<html>"))) as frames:
        with pytest.raises(Unexpected, match="no stream"):
            await anext(frames)


EVERYTHING = (
    b"\xef\xbb\xbf: a comment\nretry: 250\n\nid: 1\nevent: a\ndata: one\ndata:two\n\n"
    b"data\n\nevent: lost\n\nid: x\0y\ndata: last\nother: field\n\ndata: unfinished"
)
MESSAGES = [
    Message("a", b"one\ntwo", "1"),
    Message("message", b"", "1"),
    Message("message", b"last", "1"),
]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_the_parser_does_not_care_where_it_is_cut(end, size):
    text = EVERYTHING.replace(b"\n", end)
    parser = Parser()
    got = []
    for start in range(0, len(text), size):
        got += parser.feed(text[start : start + size])
    assert got == MESSAGES
    assert parser.retry_ms == 250


def test_a_message_without_end_is_given_up(monkeypatch):
    monkeypatch.setattr("holdfast.client.sse.MESSAGE_BYTES_MAX", 1000)
    parser = Parser()
    for _ in range(100):
        parser.feed(b"data: small\n\n")
        parser.feed(b": alive\n\n")
    endless = [b"data: and so on, and so on\n"] * 100
    with pytest.raises(Unexpected, match="has no end"):
        deque(map(parser.feed, endless))


async def test_a_stream_of_the_real_service_survives_its_restart(tmp_path):
    store = f"sqlite:///{tmp_path / 'shop.db'}"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    plan = {
        "id": "e1",
        "prices": {"a": 1},
        "sections": [{"id": "A", "tier": "a", "rows": 1, "seats_per_row": 5}],
    }
    async with Client(f"http://127.0.0.1:{port}", ADMIN) as client:
        with serving(store, "--port", port, cwd=tmp_path):
            await client.create_event(plan)
            frames = client.stream("e1")
            first = await anext(frames)
        assert isinstance(first, Snapshot)
        with serving(store, "--port", port, cwd=tmp_path):
            await client.place_hold("e1", buyer="ann", seats=["A-1-3"])
            changes = await anext(frames)
            await frames.aclose()
        assert changes == Changes(first.seq + 1, first.seq + 1, [("A-1-3", "held")])
