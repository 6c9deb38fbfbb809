"""Tasks that go on in the background until somebody ends them, or serve many at once."""

import asyncio
import time
from collections.abc import Callable, Sized
from itertools import takewhile
from typing import Any

GATHER_SECONDS_MAX = 0.005


async def end_task(task: "asyncio.Task[Any] | None") -> None:
    """Cancels it, and returns when it has ended; where there is none, nothing."""
    if task is None:
        return
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        # It was not the task that ended, but whoever waits for it is to end too.
        current = asyncio.current_task()
        if current is not None and current.cancelling():
            raise


async def gather_crowd(waiting: Sized, most: int) -> None:
    """Returns when a turn of the event loop has brought nobody new, or there are so many: whoever
    serves many at once begins better when the crowd has come in. One alone is no crowd, and goes
    straight on; one that never ends is waited for GATHER_SECONDS_MAX."""
    loop, seen = asyncio.get_running_loop(), 1
    ends = loop.time() + GATHER_SECONDS_MAX
    while seen < (seen := len(waiting)) < most and loop.time() < ends:  # noqa: ASYNC110  # turns count
        await asyncio.sleep(0)


class Timeout:
    """One wait that ends in time, or is ended."""

    __slots__ = ("_enough", "_timeouts", "at", "over")

    def __init__(self, timeouts: "Timeouts", at: float, enough: Callable[[], object]) -> None:
        self._timeouts = timeouts
        self._enough: Callable[[], object] | None = enough
        self.at = at
        self.over = False
        """Whether it was ended."""

    def cancel(self) -> None:
        """From now on it is not ended, though its time may be over."""
        self._enough = None
        self._timeouts.running.pop(self, None)

    def end(self) -> None:
        if self._enough is not None:
            self.over = True
            self._enough()


class Timeouts:
    """Of waits that may all last equally long. Nearly all of them end long before that: one timer
    for all costs a crowd less than one for each."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None
        self.running: dict[Timeout, None] = {}
        """In the order in which they end."""

    def begin(self, enough: Callable[[], object]) -> Timeout:
        """`enough` is called when the time is over, unless it is cancelled first."""
        begun = Timeout(self, time.monotonic() + self._seconds, enough)
        self.running[begun] = None
        if self._timer is None:
            self._wait_for(begun)
        return begun

    def close(self) -> None:
        """Nobody waits any more. It may be used again, on another loop too."""
        self.running.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait_for(self, first: Timeout) -> None:
        left = max(0.0, first.at - time.monotonic())
        self._timer = asyncio.get_running_loop().call_later(left, self._look)

    def _look(self) -> None:
        self._timer = None
        now = time.monotonic()
        over = list(takewhile(lambda each: each.at <= now, self.running))
        for each in over:
            del self.running[each]
        if self.running:
            self._wait_for(next(iter(self.running)))
        loop = asyncio.get_running_loop()
        for each in over:
            loop.call_soon(each.end)  # by itself: what goes wrong in one is no other's trouble
