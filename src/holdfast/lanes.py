"""Group commit: while one batch commits, the commands that arrive form the next.

A lane is a queue and its batches. There are no timers: a lone command goes straight through, and a
crowd forms batches by itself, because it waits while the last batch commits. Whatever its size, a
batch costs a few round trips: none is begun while the crowd is still coming in, and no small one
while a crowd is about to be answered. Every queue has a limit, past which the answer is no, at
once.
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
    SettleOrder,
    Withdraw,
)
from holdfast.domain.outcomes import Answer
from holdfast.errors import CommitUnknown, NotOpen, Overloaded, StoreBusy, StoreUnavailable
from holdfast.ports import Committed, nothing
from holdfast.tasks import gather_crowd

BATCH_COMMANDS_MAX = 500
BATCHES_ABREAST = 2
SHARE = 0.5
"""Of a crowd that goes round and round, a batch takes that much: while the database has one half of
it, this process answers and hears the other. All of them in one batch would have it wait for the
database, and then the database for it; smaller parts are dearer, for a batch has its price whatever
is in it. Measured over HTTP, with 200 connections: 5 % more holds and 4 % more checkouts than with
two fifths, 13 % more holds under ids of the callers' own."""
SHARE_MIN = 32
"""A smaller part would not be worth the round trip."""
CROWD_LEFT = 0.9
"""How much of a crowd is still expected at the next batch if fewer came."""
COLD_SECONDS = 1.0
"""After so long without a batch, the first is one of a few. If a crowd has come, most of it wants
the same: what the authority says to the first is the answer to nearly all who wait behind them."""
FIRST_COMMANDS = 64
"""Those few."""
BATCHES_MAX = 4
"""Of one lane, with those that are committed and wait for the disk."""
LANE_COMMANDS_MAX = 20_000
STALL_SECONDS = 5.0
RETRIES_MAX = 3
SETTLE_SECONDS_MAX = 20.0
"""How long a batch that fails again and again may keep others waiting while it is split."""
WAITS_MAX = 20
"""How often an ask waits for seats that others have locked."""
RETRY_FIRST_SECONDS = 0.005
RETRY_AFTER_SECONDS = 1.0

ALONE = (CreateEvent, ChangeEvent, AddCapacity, Withdraw)
"""These change what other commands are decided under, so each is a batch of its own."""

ASKING = (PlaceHold, Sell)

Apply = Callable[[Sequence[Command], Committed], Awaitable[list[Answer]]]
Known = Callable[[Command], Answer | None]
"""What a command whose turn has come can be told without asking the authority."""
Waiting = tuple[Command, "asyncio.Future[Answer]"]


def nobody_knows(command: Command) -> Answer | None:
    return None


class Lane:
    """FIFO. Whoever stops waiting before his batch begins is left out of it; whoever stops later
    changes nothing for the others.

    The next batch begins when the last has committed; if a few wait behind a crowd, when that is
    answered. One of many commands need not wait for either: while one batch is in the database
    another can be decided here. Then the two meet there as those of two processes would.
    """

    def __init__(
        self,
        apply: Apply,
        known: Known,
        batch_max: int,
        commands_max: int,
        abreast: int,
        stall_seconds: float,
    ) -> None:
        self._apply = apply
        self._known = known
        self._batch_max = batch_max
        self._commands_max = commands_max
        self._few = min(FIRST_COMMANDS, batch_max)
        self._abreast = abreast
        self._crowd = 0.0
        """How many have been in here lately at one time."""
        self._share = self._share_of(0)
        """So many need not wait for the batch before them: there is work for two."""
        self._stall_seconds = stall_seconds
        self._loop = asyncio.get_running_loop()
        self._moved = 0.0
        """When a batch last began, committed or was answered, by the loop's clock."""
        self._queue: deque[Waiting] = deque()
        self._solo_waiting = 0
        self._solo_running = False
        self._cold = False
        """Whether a batch is about to be formed that is the first after a while."""
        self._gathering = False
        """Whether a batch has begun that is not formed yet."""
        self._running = 0
        """Batches that have not committed yet."""
        self._unanswered = 0
        """Commands in batches, also in those that have committed."""
        self.batches: set[asyncio.Task[None]] = set()
        """Those too that are committed and not yet answered."""

    def submit(self, command: Command) -> "asyncio.Future[Answer]":
        loop = self._loop
        waits = len(self._queue)
        if waits >= self._commands_max or (waits >= self._batch_max and self._stalled(loop)):
            raise Overloaded(RETRY_AFTER_SECONDS)
        waiting = loop.create_future()
        self._queue.append((command, waiting))
        self._solo_waiting += _solo(command)
        self._begin()
        return waiting

    def _stalled(self, loop: asyncio.AbstractEventLoop) -> bool:
        """A whole batch waits, and for a while nothing has moved: who comes now would wait longer
        than anybody has patience, so he is told at once."""
        return bool(self.batches) and loop.time() - self._moved > self._stall_seconds

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def _begin(self) -> None:
        """A batch is formed when its task runs, so all that arrives at one moment is in it."""
        if not self._queue or self._gathering or len(self.batches) >= BATCHES_MAX:
            return
        many = len(self._queue) >= self._share and self._running < self._abreast
        if self._running and (not many or self._solo_waiting or self._solo_running):
            return
        # Of a crowd that is about to be answered, most come back at once.
        if self._unanswered >= self._share and not many:
            return
        now = self._loop.time()
        self._cold = not self.batches and now - self._moved > COLD_SECONDS
        self._running += 1
        self._gathering = True
        self._moved = now
        task = self._loop.create_task(self._run())
        self.batches.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self.batches.discard(task)
        self._moved = self._loop.time()
        self._begin()

    async def _run(self) -> None:
        batch: list[Waiting] = []
        running, solo = True, False
        loop = self._loop

        def committed() -> None:
            nonlocal running
            if running:
                running = False
                self._running -= 1
                self._moved = loop.time()
                if solo:
                    self._solo_running = False
                self._begin()

        try:
            await gather_crowd(self._queue, self._share)
            self._crowd = max(self._crowd * CROWD_LEFT, len(self._queue) + self._unanswered)
            self._share = self._share_of(self._crowd)
            first = self._cold and len(self._queue) > self._few
            solos = self._solo_waiting
            # Nothing can be done beside those who have to be alone.
            part = self._batch_max if solos else self._share
            batch = self._next_batch(self._few if first else part)
            # What the first of a crowd were told has to be known before the next batch is formed.
            solo = self._solo_running = first or self._solo_waiting < solos
            self._unanswered += len(batch)
            self._gathering = False
            self._begin()  # for those that had no room in it
            if batch:
                ends = loop.time() + SETTLE_SECONDS_MAX
                # A solo batch stays alone until it is answered: it may have to run again, and an
                # ask in it that has to wait for seats heads the next.
                await self._settle(batch, ends, RETRIES_MAX, nothing if solo else committed)
        finally:
            self._gathering = False
            self._unanswered -= len(batch)
            committed()

    def _share_of(self, crowd: float) -> int:
        if self._abreast == 1:
            return self._batch_max  # nothing can be done beside it
        return min(max(SHARE_MIN, int(crowd * SHARE)), self._batch_max)

    def _next_batch(self, most: int) -> list[Waiting]:
        batch: list[Waiting] = []
        queue = self._queue
        while queue and len(batch) < most:
            solo = self._solo_waiting > 0 and _solo(queue[0][0])
            alone = solo and isinstance(queue[0][0], ALONE)
            if (alone and batch) or (solo and self._running > 1):
                break
            command, waiting = queue.popleft()
            self._solo_waiting -= solo
            if waiting.done():
                continue
            if (answer := self._known(command)) is not None:
                waiting.set_result(answer)
                continue
            batch.append((command, waiting))
            if alone:
                break
        return batch

    async def _settle(
        self, batch: list[Waiting], ends: float, retries: int, committed: Committed
    ) -> None:
        """Answers everybody in the batch. What fails as a whole is split, so that one poisonous
        command cannot take others down; but not for ever, for others are waiting behind."""
        try:
            commands = [command for command, _ in batch]
            answers = await self._retried(commands, retries, committed)
        except Exception as failure:
            late = asyncio.get_running_loop().time() > ends
            if len(batch) == 1 or late or isinstance(failure, StoreUnavailable):
                for _, waiting in batch:
                    if not waiting.done():
                        waiting.set_exception(failure)
                return
            # The whole was tried again already: each part is tried once.
            middle = len(batch) // 2
            await self._settle(batch[:middle], ends, 0, nothing)
            await self._settle(batch[middle:], ends, 0, nothing)
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
            assert isinstance(command, ASKING), command
            if command.waits >= WAITS_MAX:
                waiting.set_exception(StoreBusy("the seats asked for are locked by others"))
            else:
                seats, waits = answer.waiting_for, command.waits + 1
                again.append((replace(command, waited=seats, waits=waits), waiting))
        # They have waited already: they head the next batch, in their own order.
        self._queue.extendleft(reversed(again))
        self._solo_waiting += sum(_solo(command) for command, _ in again)

    async def _retried(
        self, commands: list[Command], retries: int, committed: Committed
    ) -> list[Answer]:
        """Runs the batch again, decisions included, when its trouble was a passing one. After a
        lost commit reply that settles it too: what was committed is found by the commands' ids."""
        for attempt in range(RETRIES_MAX):
            try:
                return await self._apply(commands, committed)
            except StoreBusy:
                if attempt >= retries:
                    raise
            except CommitUnknown:
                pass  # nobody may be left in doubt, not even in a part
            # Two processes that met should not meet again at the same moment.
            await asyncio.sleep(RETRY_FIRST_SECONDS * 2**attempt * (1 + random.random()))
        return await self._apply(commands, committed)


def _solo(command: Command) -> bool:
    """No other batch of the lane may run beside its own: it changes what others are decided under,
    or it chooses from a house in which others leave marks before they commit."""
    if isinstance(command, ASKING):
        return bool(command.ask.best)
    if isinstance(command, SettleOrder):
        return command.late and command.other_seats
    return isinstance(command, ALONE)


class Lanes:
    """One lane per event, or one for all where the store admits one writer at a time."""

    def __init__(
        self,
        apply: Apply,
        known: Known = nobody_knows,
        *,
        one_lane: bool,
        batch_max: int = BATCH_COMMANDS_MAX,
        commands_max: int = LANE_COMMANDS_MAX,
        stall_seconds: float = STALL_SECONDS,
    ) -> None:
        self._apply = apply
        self._known = known
        self._one_lane = one_lane
        self._batch_max = batch_max
        self._commands_max = commands_max
        self._stall_seconds = stall_seconds
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

    def waiting(self) -> list[int]:
        """How many commands wait, lane by lane."""
        return [lane.waiting for lane in self._lanes.values()]

    def _add_lane(self) -> Lane:
        # Lanes that nobody uses are dropped now and then: asking for odd events costs no memory.
        if len(self._lanes) >= 1_000:
            self._lanes = {key: lane for key, lane in self._lanes.items() if lane.batches}
        abreast = 1 if self._one_lane else BATCHES_ABREAST
        limits = (self._batch_max, self._commands_max, abreast, self._stall_seconds)
        return Lane(self._apply, self._known, *limits)

    async def close(self) -> None:
        """Takes no more commands and answers all that were taken."""
        self.shut("the shop is closed, or closing: it takes no more commands")
        while batches := [task for lane in self._lanes.values() for task in lane.batches]:
            await asyncio.wait(batches)
