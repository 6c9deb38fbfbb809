"""Whoever is to be told something is told in turn: a few, then a pause in which others are served.

To write to thousands of sockets takes tens of milliseconds. Done in one go, every hold that comes
meanwhile waits for all of it; done a few at a time, it waits for those few. So a bigger crowd gets
fewer frames a second, and the holds notice next to nothing.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from holdfast.tasks import end_task

SLICE_MAX = 20
"""So many are told before others get their turn."""
SLICE_SECONDS = 0.001
"""What takes longer than that makes the next slice smaller."""
LISTENERS_PER_SECOND_MAX = 4_000
"""So many are told in a second by one process, however short it would take."""
REST = 3.0
"""How much longer than a slice the pause after it is, at least."""
PAUSE_SECONDS_MAX = 0.1


log = logging.getLogger("holdfast.live")


class Listener(Protocol):
    def wake(self) -> None:
        """There is something to tell."""


class Round:
    """Those who are still to be told of something."""

    def __init__(self, crowd: Iterable[Listener]) -> None:
        self._left = list(crowd)

    def __len__(self) -> int:
        return len(self._left)

    @property
    def done(self) -> bool:
        return not self._left

    def tell(self, most: int) -> int:
        """How many of them it were."""
        told = min(most, len(self._left))
        for _ in range(told):
            try:
                self._left.pop().wake()
            except Exception:
                # One's trouble is his own: the others are told all the same.
                log.exception("somebody could not be told")
        return told


class Turns:
    """All rounds of a process. They take turns too: a small one does not wait for a big one."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._rounds: deque[Round] = deque()
        self._slice = SLICE_MAX
        self._task: asyncio.Task[None] | None = None

    def begin(self, crowd: Iterable[Listener]) -> Round:
        """Tells all of them; a few at once, more of them while others are served."""
        begun = Round(crowd)
        if self._task is None and len(begun) <= self._slice:
            begun.tell(len(begun))
        else:
            self._rounds.append(begun)
            if self._task is None:
                self._task = asyncio.create_task(self._run())
        return begun

    async def stop(self) -> None:
        """Whoever was not told yet is not told any more."""
        self._rounds.clear()
        if self._task is not None:
            await end_task(self._task)
            self._task = None

    async def _run(self) -> None:
        try:
            while self._rounds:
                await self._turn(self._rounds.popleft())
        finally:
            self._task = None

    async def _turn(self, turn: Round) -> None:
        began = self._clock()
        told = turn.tell(self._slice)
        if not turn.done:
            self._rounds.append(turn)
        await asyncio.sleep(0)  # those who were woken write now
        took = self._clock() - began
        if took > SLICE_SECONDS:
            self._slice = max(1, self._slice // 2)
        else:
            self._slice = min(SLICE_MAX, self._slice + 2)
        pause = max(REST * took, told / LISTENERS_PER_SECOND_MAX - took)
        await asyncio.sleep(min(pause, PAUSE_SECONDS_MAX))
