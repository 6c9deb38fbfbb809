"""Live frames by server-sent events: one endless stream, however often the connection is lost."""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping

from holdfast.client import replies
from holdfast.client.errors import StreamGap, Unavailable, Unexpected
from holdfast.client.replies import Reply
from holdfast.client.sse import Message, Parser
from holdfast.client.transport import Lost, Transport
from holdfast.client.values import Changes, Snapshot

Frame = Snapshot | Changes


class Joint:
    """Where a stream stands, and whether the next frame joins it."""

    def __init__(self, since: int | None) -> None:
        self.last = since

    def take(self, message: Message) -> Frame | None:
        """The frame, unless it brings nothing new. Raises StreamGap when one is missing."""
        match message.type:
            case "snapshot":
                snapshot = replies.decoded(message.data, Snapshot)
                self.last = snapshot.seq
                return snapshot
            case "changes":
                changes = replies.decoded(message.data, Changes)
                return self._joined(changes)
        return None  # of a kind that a newer service sends

    def _joined(self, changes: Changes) -> Changes | None:
        if self.last is None:
            raise StreamGap(f"changes from {changes.from_} came before any snapshot")
        if changes.to <= self.last:
            return None
        if changes.from_ > self.last + 1:
            raise StreamGap(
                f"after {self.last} came changes from {changes.from_}: some are missing"
            )
        self.last = changes.to
        return changes


async def follow(
    transport: Transport, path: str, headers: Mapping[str, str], since: int | None
) -> AsyncGenerator[Frame, None]:
    """Frames without end. A lost connection is made again and goes on after the last frame; raises
    Unavailable when nothing came for as long as the transport's patience."""
    joint = Joint(since)
    patience = transport.patience
    tried = 0
    alive = time.monotonic()
    while True:
        parser = Parser()
        retry_after: float | None = None
        text = f"{transport.url} ended the stream"
        try:
            resumed = {} if joint.last is None else {"Last-Event-ID": str(joint.last)}
            async with transport.stream(path, {**headers, **resumed}) as answer:
                if isinstance(answer, Reply):
                    text, retry_after = _not_now(transport, answer)
                else:
                    async for piece in answer:
                        tried, alive = 0, time.monotonic()
                        for message in parser.feed(piece):
                            if frame := joint.take(message):
                                yield frame
                                alive = time.monotonic()
        except Lost as trouble:
            text = str(trouble)
        tried += 1
        if parser.retry_ms is not None:
            retry_after = max(retry_after or 0.0, parser.retry_ms / 1000)
        pause = patience.pause(tried, retry_after)
        if time.monotonic() + pause >= alive + patience.total_seconds:
            raise Unavailable(text, retry_after=retry_after)
        await asyncio.sleep(pause)


def _not_now(transport: Transport, reply: Reply) -> tuple[str, float | None]:
    """Why there is no stream yet; raises where there never will be."""
    later = transport.later(reply)
    if later is not None:
        return later.text, later.retry_after
    if reply.status == 200:
        raise Unexpected("the answer is no stream of events", status=200)
    raise replies.unexpected(replies.refusal(reply))
