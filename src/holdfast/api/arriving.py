"""What of a request is still to come, read within its time and its length."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.tasks import end_task

LOOK_SECONDS = 0.25
"""How often those who are late are looked for. A timer for each request would cost more than
reading most bodies does."""

Receive = Callable[[], Awaitable[Any]]  # events of ASGI


class TooLong(Exception):
    """More than it may be."""


class CutShort(Exception):
    """It ended before its end."""


async def read_all(receive: Receive, event: Any, most: int) -> bytes:  # an event of ASGI
    """All of a body that begins with this event; raises where it is longer than `most`, or the
    sender went away."""
    parts, got = [], 0
    while True:
        if event["type"] != "http.request":
            raise CutShort
        parts.append(event.get("body") or b"")
        got += len(parts[-1])
        if got > most:
            raise TooLong
        if not event.get("more_body"):
            return b"".join(parts)
        event = await receive()


class Patience:
    """Ends the wait of those whose time is up."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.waiting: dict[asyncio.Task[Any], float] = {}
        """Until when, of each call whose body is still to come."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        await end_task(self._task)

    async def read(self, receive: Receive, most: int, length: int = -1) -> bytes:
        """The body; TimeoutError when it does not come. `length` is what it was said to have, if
        it was: what is whole need not be asked for its end."""
        task = asyncio.current_task(self._loop)
        assert task is not None
        self.waiting[task] = self._loop.time() + self._seconds
        try:
            event = await receive()
            body: bytes = event.get("body") or b""
            whole = len(body) == length or not event.get("more_body")
            if whole and len(body) <= most and event["type"] == "http.request":
                return body
            return await read_all(receive, event, most)
        except asyncio.CancelledError:
            if task in self.waiting:
                raise
            task.uncancel()
            raise TimeoutError from None
        finally:
            self.waiting.pop(task, None)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(min(LOOK_SECONDS, self._seconds / 2))
            now = loop.time()
            for task, ends in list(self.waiting.items()):
                if ends < now:
                    # Whoever finds that he waits no longer was cancelled by us.
                    del self.waiting[task]
                    task.cancel()
