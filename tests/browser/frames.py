"""What a live map was sent, and whether it joins: every number of the log, once and in order."""

import json
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qs, urlsplit


class Frames:
    """Those of one connection."""

    def __init__(self, url: str) -> None:
        since = parse_qs(urlsplit(url).query).get("since")
        self.since = int(since[0]) if since else None
        """Where it was asked to go on; None: from the beginning."""
        self.all: list[dict[str, Any]] = []

    @classmethod
    def of_stream(cls, asked: bytes, answered: bytes) -> "Frames | None":
        """Those that came as server-sent events, read off a connection; None if it had no stream.
        Nothing follows a stream, so it is the last that the connection was used for."""
        start = answered.rfind(b"HTTP/1.1 200")
        head, _, body = answered[start:].partition(b"\r\n\r\n")
        if b"text/event-stream" not in head.lower():
            return None
        request = asked[asked.rindex(b"GET ") :]
        frames = cls(request.split()[1].decode())
        if last := re.search(rb"last-event-id: *(\d+)", request, re.IGNORECASE):
            frames.since = int(last[1])
        text = _unchunked(body) if b"chunked" in head.lower() else body
        for data in re.findall(rb"^data: *(.+?)\r?\n\r?\n", text, re.MULTILINE):
            frames.take(data)
        return frames

    def take(self, text: str | bytes) -> None:
        self.all.append(json.loads(text))


def _unchunked(body: bytes) -> bytes:
    """As far as it came: the line may have been cut anywhere."""
    text = bytearray()
    while (size := body.partition(b"\r\n")[0]) and b"\r\n" in body:
        ends = len(size) + 2 + int(size, 16)
        text += body[len(size) + 2 : ends]
        body = body[ends + 2 :]
    return bytes(text)


class Gap(AssertionError):
    """Numbers that nobody was sent."""


def numbers(connections: Iterable[Frames]) -> tuple[int, list[int]]:
    """The number of the map that was got first, or of the first snapshot, and every number that was
    sent after it. Raises Gap where one is missing, within a connection or from one to the next."""
    first: int | None = None
    last = 0
    told: list[int] = []
    for connection in connections:
        if first is None and connection.since is not None:
            first = last = connection.since
        if first is not None and connection.all and connection.since != last:
            raise Gap(f"went on after {connection.since}, and had {last}")
        for frame in connection.all:
            if frame["type"] == "snapshot":
                if first is not None and frame["seq"] != last:
                    raise Gap(f"a snapshot at {frame['seq']} after {last}")
                first = frame["seq"] if first is None else first
                last = frame["seq"]
                continue
            if frame["from"] != last + 1:
                raise Gap(f"{frame['from']} after {last}")
            told.extend(range(frame["from"], frame["to"] + 1))
            last = frame["to"]
    assert first is not None, "no snapshot"
    return first, told


def drawn(connections: Iterable[Frames], before: dict[str, str]) -> dict[str, str]:
    """The state of every seat, as all these frames say it; `before` is of the map that was got."""
    seats = dict(before)
    for connection in connections:
        for frame in connection.all:
            if frame["type"] == "snapshot":
                seats = {seat["id"]: seat["state"] for seat in frame["seats"]}
            else:
                seats.update(frame["changes"])
    return seats
