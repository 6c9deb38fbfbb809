"""Group commit: while one batch commits, the commands that arrive form the next.

A lane is a queue and a runner. There are no timers: a lone command goes straight through, and a
crowd forms batches by itself, because it waits while the last batch commits. Every queue has a
limit, past which the answer is no, at once.
"""

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from msgspec.structs import replace

from holdfast.domain.commands import (
    AddCapacity,
    ChangeEvent,
    Command,
    CreateEvent,
    PlaceHold,
    Sell,
    Withdraw,
)
from holdfast.domain.outcomes import Answer
from holdfast.errors import CommitUnknown, NotOpen, Overloaded, StoreBusy, StoreUnavailable

BATCH_COMMANDS_MAX = 500
LANE_COMMANDS_MAX = 20_000
RETRIES_MAX = 3
SETTLE_SECONDS_MAX = 20.0
"""How long a batch that fails again and again may keep others waiting while it is split."""
WAITS_MAX = 20
"""How often an ask waits for seats that others have locked."""
RETRY_FIRST_SECONDS = 0.005
RETRY_AFTER_SECONDS = 1.0

ALONE = (CreateEvent, ChangeEvent, AddCapacity, Withdraw)
"""These change what other commands are decided under, so each is a batch of its own."""

Apply = Callable[[Sequence[Command]], Awaitable[list[Answer]]]
Waiting = tuple[Command, "asyncio.Future[Answer]"]


class Lane:
    """FIFO. Whoever stops waiting before his batch begins is left out of it; whoever stops later
    changes nothing for the others."""

    def __init__(self, apply: Apply, batch_max: int, commands_max: int) -> None:
        self._apply = apply
        self._batch_max = batch_max
        self._commands_max = commands_max
        self._queue: deque[Waiting] = deque()
        self.runner: asyncio.Task[None] | None = None

    def submit(self, command: Command) -> "asyncio.Future[Answer]":
        if len(self._queue) >= self._commands_max:
            raise Overloaded(RETRY_AFTER_SECONDS)
        loop = asyncio.get_running_loop()
        waiting = loop.create_future()
        self._queue.append((command, waiting))
        if self.runner is None:
            self.runner = loop.create_task(self._run())
        return waiting

    async def _run(self) -> None:
        try:
            while batch := self._next_batch():
                ends = asyncio.get_running_loop().time() + SETTLE_SECONDS_MAX
                await self._settle(batch, ends, RETRIES_MAX)
        finally:
            self.runner = None

    def _next_batch(self) -> list[Waiting]:
        batch: list[Waiting] = []
        queue = self._queue
        while queue and len(batch) < self._batch_max:
            alone = isinstance(queue[0][0], ALONE)
            if alone and batch:
                break
            command, waiting = queue.popleft()
            if not waiting.done():
                batch.append((command, waiting))
                if alone:
                    break
        return batch

    async def _settle(self, batch: list[Waiting], ends: float, retries: int) -> None:
        """Answers everybody in the batch. What fails as a whole is split, so that one poisonous
        command cannot take others down; but not for ever, for others are waiting behind."""
        try:
            answers = await self._retried([command for command, _ in batch], retries)
        except Exception as failure:
            late = asyncio.get_running_loop().time() > ends
            if len(batch) == 1 or late or isinstance(failure, StoreUnavailable):
                for _, waiting in batch:
                    if not waiting.done():
                        waiting.set_exception(failure)
                return
            # The whole was tried again already: each part is tried once.
            middle = len(batch) // 2
            await self._settle(batch[:middle], ends, 0)
            await self._settle(batch[middle:], ends, 0)
        else:
            self._answer(batch, answers)

    def _answer(self, batch: list[Waiting], answers: list[Answer]) -> None:
        again: list[Waiting] = []
        for (command, waiting), answer in zip(batch, answers, strict=True):
            if waiting.done():
                continue
            if not answer.waiting_for:
                waiting.set_result(answer)
                continue
            assert isinstance(command, PlaceHold | Sell), command
            if command.waits >= WAITS_MAX:
                waiting.set_exception(StoreBusy("the seats asked for are locked by others"))
            else:
                seats, waits = answer.waiting_for, command.waits + 1
                again.append((replace(command, waited=seats, waits=waits), waiting))
        # They have waited already: they head the next batch, in their own order.
        self._queue.extendleft(reversed(again))

    async def _retried(self, commands: list[Command], retries: int) -> list[Answer]:
        """Runs the batch again, decisions included, when its trouble was a passing one. After a
        lost commit reply that settles it too: what was committed is found by the commands' ids."""
        for attempt in range(RETRIES_MAX):
            try:
                return await self._apply(commands)
            except StoreBusy:
                if attempt >= retries:
                    raise
            except CommitUnknown:
                pass  # nobody may be left in doubt, not even in a part
            # Two processes that met should not meet again at the same moment.
            await asyncio.sleep(RETRY_FIRST_SECONDS * 2**attempt * (1 + random.random()))
        return await self._apply(commands)


class Lanes:
    """One lane per event, or one for all where the store admits one writer at a time."""

    def __init__(
        self,
        apply: Apply,
        *,
        one_lane: bool,
        batch_max: int = BATCH_COMMANDS_MAX,
        commands_max: int = LANE_COMMANDS_MAX,
    ) -> None:
        self._apply = apply
        self._one_lane = one_lane
        self._batch_max = batch_max
        self._commands_max = commands_max
        self._lanes: dict[str, Lane] = {}
        self._closed = ""

    def open(self) -> None:
        self._closed = ""

    def shut(self, because: str) -> None:
        """From now on every command is refused, with that text."""
        self._closed = because

    def check_open(self) -> None:
        if self._closed:
            raise NotOpen(self._closed)

    def submit(self, command: Command) -> "asyncio.Future[Answer]":
        self.check_open()
        key = "" if self._one_lane else command.event
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = self._add_lane()
        return lane.submit(command)

    def _add_lane(self) -> Lane:
        # Lanes that nobody uses are dropped now and then: asking for odd events costs no memory.
        if len(self._lanes) >= 1_000:
            self._lanes = {key: lane for key, lane in self._lanes.items() if lane.runner}
        return Lane(self._apply, self._batch_max, self._commands_max)

    async def close(self) -> None:
        """Takes no more commands and answers all that were taken."""
        self.shut("the shop is closed, or closing: it takes no more commands")
        while runners := [lane.runner for lane in self._lanes.values() if lane.runner]:
            await asyncio.wait(runners)
