"""What is answered becomes messages of ASGI, whatever is in it."""

from typing import Any

import pytest

from holdfast.api.calls import Reply
from holdfast.api.sending import send


class Line:
    """Where messages go, and whence none come."""

    def __init__(self, breaks_after: int = 100) -> None:
        self.messages: list[Any] = []
        self._breaks_after = breaks_after

    async def __call__(self, message: Any) -> None:
        if len(self.messages) == self._breaks_after:
            raise ConnectionError("the client went away")
        self.messages.append(message)

    @property
    def headers(self) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = dict(self.messages[0]["headers"])
        assert len(found) == len(self.messages[0]["headers"]), "none is there twice"
        return found


class Parts:
    """A body that comes in two parts."""

    def __init__(self) -> None:
        self._left = [b"a", b"b"]
        self.closed = 0

    def __aiter__(self) -> "Parts":
        return self

    async def __anext__(self) -> bytes:
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop(0)

    async def close(self) -> None:
        self.closed += 1


async def nothing() -> Any:
    raise AssertionError("nobody listens here")


async def test_an_answer_is_its_head_and_its_body():
    line = Line()
    await send(line, nothing, Reply(201, b"{}", {"ETag": "x"}), "r-1")
    assert line.messages[0]["status"] == 201
    assert line.headers == {
        b"x-request-id": b"r-1",
        b"content-length": b"2",
        b"content-type": b"application/json",
        b"etag": b"x",
    }
    assert line.messages[1:] == [{"type": "http.response.body", "body": b"{}"}]


async def test_a_head_has_the_length_of_the_body_that_is_left_out():
    line = Line()
    await send(line, nothing, Reply(404, b"none"), "r-1", head=True)
    assert line.headers[b"content-length"] == b"4"
    assert line.headers[b"content-type"] == b"application/problem+json"
    assert line.messages[1]["body"] == b""


async def test_what_has_no_body_has_neither_type_nor_length():
    line = Line()
    await send(line, nothing, Reply(204), "r-1")
    assert line.headers == {b"x-request-id": b"r-1"}


async def test_two_sides_may_say_what_an_answer_varies_by():
    line = Line()
    answer = Reply(200, b"{}", {"Vary": "Accept-Encoding"})
    await send(line, nothing, answer, "r-1", {"Vary": "Origin"})
    assert line.headers[b"vary"] == b"Origin, Accept-Encoding"


async def test_an_answer_that_cannot_be_written_is_our_fault(caplog):
    line = Line()
    await send(line, nothing, Reply(200, b"{}", {"X-Price": "9 \u20ac"}), "r-1")
    assert line.messages[0]["status"] == 500
    assert b"our fault" in line.messages[1]["body"]
    assert "could not be written" in caplog.text


@pytest.mark.parametrize("breaks_after", [0, 1, 2, 3, 100])
async def test_a_stream_is_closed_however_it_ends(breaks_after):
    line, parts = Line(breaks_after), Parts()
    answer = Reply(200, stream=lambda _: parts)
    if breaks_after < 100:
        with pytest.raises(ConnectionError):
            await send(line, nothing, answer, "r-1")
    else:
        await send(line, nothing, answer, "r-1")
        assert [each.get("body") for each in line.messages] == [None, b"a", b"b", b""]
        assert b"content-length" not in line.headers
    assert parts.closed == 1
