"""What the provider has taken is written down for many orders at once.

Nobody waits for it: the buyer was told when the money was taken, and should we die before it is
written, whoever resumes the order asks the provider again. So orders of an event that are captured
while others are being written, or shortly after, share a command: in a crowd that saves each of
them a turn of its own in the lane. One alone is written at once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from holdfast.checkout.saga import Overtaken
from holdfast.domain.commands import Command, RecordCaptures
from holdfast.domain.model import Millis, Order
from holdfast.domain.outcomes import Answer, CapturesRecorded
from holdfast.ids import Ids

TOGETHER_MAX = 500
PAUSE_SECONDS = 0.02
"""After some were written, so long for others to come."""

Waiting = tuple[Order, "asyncio.Future[Order]"]


class Recorder:
    """As many wait here as sagas run. Each event has a line of its own: what holds up one, holds up
    no other."""

    def __init__(self, submit: Callable[[Command], Awaitable[Answer]], lease_ms: Millis) -> None:
        """`lease_ms`: how long nobody else goes on with what is still to be given back."""
        self._submit = submit
        self._lease_ms = lease_ms
        self._ids = Ids()
        self._lines: dict[str, list[Waiting]] = {}
        self._writing: set[asyncio.Task[None]] = set()
        self._pauses: set[asyncio.Future[None]] = set()
        self._closing = False

    def captured(self, order: Order) -> "asyncio.Future[Order]":
        """The order when that is written down. It fails with Overtaken where somebody else has gone
        on with it, and with whatever the authority does."""
        loop = asyncio.get_running_loop()
        written: asyncio.Future[Order] = loop.create_future()
        line = self._lines.get(order.event)
        if line is None:
            line = self._lines[order.event] = []
            task = loop.create_task(self._write(order.event, line))
            self._writing.add(task)
            task.add_done_callback(self._writing.discard)
        line.append((order, written))
        return written

    async def close(self) -> None:
        """Returns when all were written, or could not be."""
        self._closing = True
        for pause in self._pauses:
            _end(pause)
        while self._writing:
            await asyncio.wait(self._writing)

    async def _write(self, event: str, line: list[Waiting]) -> None:
        try:
            while line:
                some = line[:TOGETHER_MAX]
                del line[:TOGETHER_MAX]
                await self._write_together(event, some)
                if len(line) < TOGETHER_MAX and not self._closing:
                    await self._pause()
        finally:
            del self._lines[event]
            for _, written in line:  # only where this task is cancelled
                written.cancel()

    async def _pause(self) -> None:
        loop = asyncio.get_running_loop()
        pause: asyncio.Future[None] = loop.create_future()
        over = loop.call_later(PAUSE_SECONDS, _end, pause)
        self._pauses.add(pause)
        try:
            await pause
        finally:
            over.cancel()
            self._pauses.discard(pause)

    async def _write_together(self, event: str, some: Sequence[Waiting]) -> None:
        command = RecordCaptures(
            id=self._ids.new(),
            event=event,
            orders=tuple([(order.id, order.version) for order, _ in some]),
            lease_ms=self._lease_ms,
        )
        try:
            answer = await self._submit(command)
        except BaseException as trouble:
            # Each of them hears of it; it is tried again by whoever resumes them.
            for _, written in some:
                if not isinstance(trouble, Exception):
                    written.cancel()
                elif not written.done():
                    written.set_exception(trouble)
            if not isinstance(trouble, Exception):
                raise
            return
        outcome = answer.outcome
        recorded = outcome.orders if isinstance(outcome, CapturesRecorded) else ()
        now = {order.id: order for order in recorded}
        for order, written in some:
            if written.done():
                continue
            if (after := now.get(order.id)) is not None:
                written.set_result(after)
            else:
                written.set_exception(Overtaken(order.id))


def _end(pause: "asyncio.Future[None]") -> None:
    if not pause.done():
        pause.set_result(None)
