"""From the log to a broker: every fact at least once, those of an event in order.

A round reads what is new of the events that are ours, publishes it as one batch, and moves the
cursors when the broker has said that it has it. Dying between any two of these repeats facts, and
loses none. Which events are ours is divided among all processes that relay (`shards.py`); wake-ups
only save time, and losing one loses nothing.

With a `Source`, such as PostgreSQL's write-ahead log, what is new comes by itself; cursors are kept
all the same, and what a source leaves out is read from the log.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Sequence
from typing import Protocol

from holdfast.domain.cloudevents import Message, message
from holdfast.domain.facts import Entry
from holdfast.domain.views import Cursor, Move
from holdfast.errors import BrokerDown, HoldfastError, StoreBusy
from holdfast.followers.dead_letters import DeadLetters
from holdfast.followers.shards import Shards, shard_of
from holdfast.ids import Ids
from holdfast.ports import Broker, Store
from holdfast.settings import Settings
from holdfast.tasks import end_task
from holdfast.wiring import make_broker

BATCH_MAX = 1_000
POLL_SECONDS = 0.25
"""A wake-up may be missed."""
BATCH_MIN = 50
"""With which it begins: facts may be large, and how large is known only when they are there."""
BATCH_BYTES_MAX = 8_000_000
"""About: a batch that had more is followed by a smaller one."""
RETRY_SECONDS = 0.2
RETRY_SECONDS_MAX = 10.0
STAND_BY_SECONDS = 0.5
STOP_SECONDS = 2.0
CLAIMS_MAX = 500

log = logging.getLogger("holdfast.relay")


class Committed(Protocol):
    """What one transaction wrote, as a source tells it."""

    @property
    def entries(self) -> list[Entry]: ...

    @property
    def lsn(self) -> int:
        """Its place, to be confirmed when it was published."""


class Source(Protocol):
    """Facts that come by themselves. May repeat, and begins at some point of its own."""

    async def open(self) -> object:
        """Raises StoreBusy while another process has it."""

    async def close(self) -> None: ...

    async def read(self, timeout_seconds: float) -> Sequence[Committed]: ...

    def confirm(self, lsn: int) -> None: ...


def make_relay(store: Store, settings: Settings, source: Source | None = None) -> "Relay | None":
    """A relay as the settings want it, not started; None where they name no broker."""
    broker = make_broker(settings)
    if broker is None:
        return None
    lease_ms = round(settings.relay_lease_seconds * 1000)
    return Relay(
        store,
        broker,
        Shards(store, settings.relay_name, Ids().new(), lease_ms),
        batch_max=settings.relay_batch,
        poll_seconds=settings.relay_poll_ms / 1000,
        wake=settings.relay_wake,
        source=source,
    )


class Relay:
    def __init__(
        self,
        store: Store,
        broker: Broker,
        shards: Shards,
        *,
        batch_max: int = BATCH_MAX,
        poll_seconds: float = POLL_SECONDS,
        wake: bool = True,
        source: Source | None = None,
    ) -> None:
        self._store = store
        self._broker = broker
        self._shards = shards
        self._batch_max = batch_max
        self._room = min(BATCH_MIN, batch_max)
        """Facts that the next batch may have."""
        self._poll_seconds = poll_seconds
        self._wake = wake
        self._source = source
        self._joined = source is None
        """Whether it takes part in the division of the events: not before it has the source."""
        self._letters = DeadLetters(store)
        self._taken: dict[int, int] = {}
        """Shards whose cursors were read, and under which fence they were claimed."""
        self._at: dict[str, int] = {}
        """How far it has come with each event of those shards."""
        self._heads: dict[str, int] = {}
        self._owed: dict[str, int] = {}
        """Up to where the log itself has to be read: what comes later, a source tells."""
        self._begun = ""
        """The event that a batch began with last: the next begins with the one after it."""
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()
        self.state = "starting"
        """starting, running, retrying, or standing by: another has the source."""
        self._trouble = ""
        self._unrenewed = ""
        self.published = 0
        self.refused = 0
        self.repeated = 0
        """Facts that were published but whose cursors had been moved by another meanwhile."""
        self._oldest_ms: int | None = None

    # What can be watched

    @property
    def broker(self) -> str:
        return self._broker.url

    @property
    def shards(self) -> int:
        return len(self._shards.mine)

    @property
    def trouble(self) -> str:
        """Why facts are not published; empty when all is well."""
        return self._trouble or self._unrenewed

    def lags(self) -> dict[str, int]:
        """Of each event that is ours: facts on its log that were not published yet."""
        return {
            event: max(0, head - self._at.get(event, 0))
            for event, head in self._heads.items()
            if shard_of(event) in self._taken
        }

    def lag_seconds(self) -> float:
        """The age of the oldest fact that is known and not published yet."""
        if self._oldest_ms is None or not self._taken:
            return 0.0
        return max(0.0, (self._shards.now_ms() - self._oldest_ms) / 1000)

    # Running

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._renew()), asyncio.create_task(self._run())]

    async def stop(self) -> None:
        """Finishes what it has in hand, if that does not take long: what was published and not
        noted is published again, by the next."""
        self._stopping.set()
        if self._tasks:
            await asyncio.wait(self._tasks[1:], timeout=STOP_SECONDS)
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(self._broker.close)
            if self._source is not None:
                stack.push_async_callback(self._source.close)
            stack.push_async_callback(self._leave)
            for task in self._tasks:
                stack.push_async_callback(end_task, task)
            self._tasks = []

    async def _leave(self) -> None:
        with contextlib.suppress(HoldfastError):
            await self._shards.leave()

    async def _renew(self) -> None:
        """Beside the rounds, for a broker may take longer than a lease lasts."""
        while True:
            try:
                if self._joined:
                    await self._shards.renew()
                self._unrenewed = ""
            except Exception as trouble:  # whatever it is, the next time may go better
                self._unrenewed = f"the relay's share was not renewed: {trouble}"
                log.warning("%s", self._unrenewed)
            await asyncio.sleep(self._shards.renew_seconds)

    async def _run(self) -> None:
        pause = RETRY_SECONDS
        opened = False
        while not self._stopping.is_set():
            try:
                if not opened:
                    await self._open()
                    opened = True
                if await self._turn():
                    self._say("running")
                    pause = RETRY_SECONDS
            except Exception as trouble:  # the relay goes on, whatever it is
                # What was too much may have been what is wrong.
                opened, self._room = False, max(1, self._room // 2)
                if not isinstance(trouble, HoldfastError | OSError):
                    log.exception("the relay stumbled, and begins again")
                self._say(self.state if self.state == "standing by" else "retrying", str(trouble))
                await self._pause(STAND_BY_SECONDS if self.state == "standing by" else pause)
                pause = min(2 * pause, RETRY_SECONDS_MAX)

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    def _say(self, state: str, trouble: str = "") -> None:
        if trouble and trouble != self._trouble and state == "standing by":
            log.info("standing by: %s", trouble)
        elif trouble and trouble != self._trouble:
            log.warning("facts are not published: %s", trouble)
        elif self._trouble and not trouble:
            log.info("facts are published")
        self.state, self._trouble = state, trouble

    async def _open(self) -> None:
        if self._source is not None:
            await self._open_source(self._source)
        await self._look()
        await self._broker.open()

    async def _open_source(self, source: Source) -> None:
        await source.close()
        try:
            await source.open()
        except StoreBusy:
            # Another has it. Whoever only waits must not be given events.
            self._joined, self.state = False, "standing by"
            await self._leave()
            raise
        if not self._joined:
            self._joined, self.state = True, "starting"
            await self._shards.renew()
        self._owed = await self._store.heads()

    async def _look(self) -> None:
        """How much waits is known also while the broker is away."""
        await self._take_over()
        self._heads = await self._store.heads()
        if after := self._behind():
            oldest = await self._store.tails(after, 1)
            self._oldest_ms = min((entry.at_ms for entry in oldest), default=None)

    async def _turn(self) -> bool:
        """Publishes what there is, and waits where there is nothing; whether all has been tried
        that could go wrong."""
        await self._take_over()
        if self._source is not None and self._taken and not self._owing():
            await self._from_source(self._source)
        elif await self.round():
            return self._source is None
        elif self._wake and self._source is None:
            await self._store.wake(self._poll_seconds)
        else:
            await self._pause(self._poll_seconds)
        return True

    # One batch

    async def round(self) -> int:
        """Publishes what is new on the log, as one batch of all events together; how many facts."""
        await self._take_over()
        if not self._taken:
            return 0
        self._heads = await self._store.heads()
        after = self._behind()
        if not after:
            self._oldest_ms = None
            return 0
        each = max(1, self._room // len(after))
        return await self._publish(await self._store.tails(after, each))

    def _behind(self) -> dict[str, int]:
        """The events of which something is new, and up to where they were published: as many as a
        batch has room for, in turns."""
        behind = sorted(
            event
            for event, head in self._heads.items()
            if head > self._at.get(event, 0) and shard_of(event) in self._taken
        )
        turned = [each for each in behind if each > self._begun]
        turned += [each for each in behind if each <= self._begun]
        chosen = turned[: self._room]
        self._begun = chosen[-1] if len(turned) > len(chosen) else ""
        return {event: self._at.get(event, 0) for event in chosen}

    async def _publish(self, entries: Sequence[Entry]) -> int:
        if not entries:
            return 0
        self._oldest_ms = min(entry.at_ms for entry in entries)
        moves = self._moves(entries)
        messages = [message(entry) for entry in entries]
        refused = await self._broker.publish(messages)
        await self._refuse(messages, refused)
        self.published += len(messages) - len(refused)
        self._make_room(sum(len(each.body) for each in messages))
        moved = await self._store.move(self._shards.follower, moves)
        for move in moves:
            if move.event in moved:
                self._at[move.event] = move.seq
            else:
                # Another has them now, or a reply was lost: the cursor itself tells.
                self.repeated += move.seq - move.was
                self._taken.pop(shard_of(move.event), None)
        return len(messages)

    def _make_room(self, size: int) -> None:
        """For more, as long as facts are small."""
        if size > BATCH_BYTES_MAX:
            self._room = max(1, self._room * BATCH_BYTES_MAX // size)
        else:
            self._room = min(self._batch_max, 2 * self._room)

    def _moves(self, entries: Iterable[Entry]) -> list[Move]:
        """Where the cursors will be. A gap means that facts were pruned before they were read."""
        last: dict[str, int] = {}
        for entry in entries:
            before = last.get(entry.event, self._at.get(entry.event, 0))
            if entry.seq != before + 1:
                log.error(
                    "%s: facts %d to %d were pruned before they were published",
                    *(entry.event, before + 1, entry.seq - 1),
                )
            last[entry.event] = entry.seq
        return [
            Move(event, self._at.get(event, 0), seq, self._taken.get(shard_of(event), 0))
            for event, seq in last.items()
        ]

    async def _refuse(self, messages: Sequence[Message], refused: dict[int, str]) -> None:
        """Before the cursor moves past them: a letter that is lost is a fact that is lost. What
        counts is ours; the broker's own dead letters are a courtesy to its people."""
        for nth, reason in sorted(refused.items()):
            log.error("%s goes to the dead letters: %s", messages[nth].id, reason)
            await self._letters.add(self._shards.follower, messages[nth], reason)
            self.refused += 1
            try:
                await self._broker.bury(messages[nth], reason)
            except BrokerDown as trouble:
                log.warning("the broker has no dead letter of %s: %s", messages[nth].id, trouble)

    async def _take_over(self) -> None:
        """Reads the cursors of shards that have become ours, and puts our fence on them: whoever
        had them before moves them no more."""
        mine = dict(self._shards.mine)
        for nth in [nth for nth, fence in self._taken.items() if mine.get(nth) != fence]:
            del self._taken[nth]
        new = {nth: fence for nth, fence in mine.items() if nth not in self._taken}
        if not new:
            return
        cursors, _ = await self._store.cursors(self._shards.follower)
        found = [each for each in cursors if shard_of(each.event) in new]
        for event in [event for event in self._at if shard_of(event) in new]:
            del self._at[event]
        self._at.update({each.event: each.seq for each in found})
        for nth in await self._unclaimed(found, new):
            new.pop(nth, None)
        if self._source is not None:
            self._owed = await self._store.heads()
        self._taken.update(new)

    async def _unclaimed(self, cursors: Sequence[Cursor], fences: dict[int, int]) -> set[int]:
        """Puts the fences on the cursors; the shards of which one was moved meanwhile: they are
        read again."""
        moves = [
            Move(each.event, each.seq, each.seq, fences[shard_of(each.event)])
            for each in cursors
            if each.fence != fences[shard_of(each.event)]
        ]
        left: set[int] = set()
        for first in range(0, len(moves), CLAIMS_MAX):
            some = moves[first : first + CLAIMS_MAX]
            claimed = await self._store.move(self._shards.follower, some)
            left |= {shard_of(move.event) for move in some if move.event not in claimed}
        return left

    # From a source

    async def _from_source(self, source: Source) -> None:
        batch = await source.read(self._poll_seconds)
        if not batch:
            return
        told = [entry for committed in batch for entry in committed.entries]
        self._heads.update({entry.event: entry.seq for entry in told})
        fresh = self._fresh(told)
        if self._gaps(fresh):
            # The log has what was there before the source began.
            self._owed.update({entry.event: entry.seq for entry in fresh})
            while self._owing() and await self.round():
                pass
        else:
            for first in range(0, len(fresh), self._batch_max):
                await self._publish(fresh[first : first + self._batch_max])
        self._oldest_ms = None
        source.confirm(batch[-1].lsn)

    def _owing(self) -> bool:
        """Whether something has to be read from the log; what comes meanwhile does not count."""
        self._owed = {
            event: head for event, head in self._owed.items() if head > self._at.get(event, 0)
        }
        return any(shard_of(event) in self._taken for event in self._owed)

    def _fresh(self, entries: Iterable[Entry]) -> list[Entry]:
        """Those of ours that were not published yet. What becomes ours later is read from the log
        then."""
        return [
            entry
            for entry in entries
            if shard_of(entry.event) in self._taken and entry.seq > self._at.get(entry.event, 0)
        ]

    def _gaps(self, entries: Iterable[Entry]) -> bool:
        last: dict[str, int] = {}
        for entry in entries:
            if entry.seq != last.get(entry.event, self._at.get(entry.event, 0)) + 1:
                return True
            last[entry.event] = entry.seq
        return False
