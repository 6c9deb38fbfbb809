"""The pruner: forgets facts that are older than the retention and that nobody needs any more.

A fact is needed while a live follower is not done with it. A cursor tells how far a follower has
come; one that stands still for too long with facts before it is idle: it stops blocking, and that
is said. One that has put a fact off, to try it again, is at work however long it waits. A follower
that is at work and has no cursor of an event yet needs all of that.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from holdfast.domain.facts import Entry
from holdfast.domain.model import Millis
from holdfast.domain.views import Cursor
from holdfast.errors import HoldfastError
from holdfast.followers.shards import KIND, read_table
from holdfast.ports import Store
from holdfast.tasks import end_task
from holdfast.upkeep.lease import Lease
from holdfast.upkeep.pruned import note_pruned

EVERY_SECONDS = 60.0
FIRST_SECONDS = 2.0
BITE_FACTS_MAX = 1_000
"""So many at a time: buyers wait for no more than that."""
EVENTS_MAX = 500
"""Whose first facts one read tells."""

DAY_MS = 24 * 3600 * 1000
HOUR_MS = 3600 * 1000

log = logging.getLogger("holdfast.upkeep")


class Follower(NamedTuple):
    """One that is at work, by the name of its cursors."""

    name: str
    follows: Callable[[str], bool]
    """Whether it wants the facts of an event, also where it has no cursor of it yet."""


class Idle(NamedTuple):
    """A cursor that blocks no longer: what comes after it may be pruned unread."""

    follower: str
    event: str
    seq: int


Settle = Callable[[str, int], Awaitable[None]]
"""Called before facts of an event up to that number go. Where it raises, they stay."""
Crews = Mapping[str, Callable[[], Awaitable[Sequence[Follower]]]]
"""Of a table of shards (`followers/shards.py`) that several followers share: which they are. Where
nothing is said, a table is that of the follower of its name, which follows every event."""
Waiting = Callable[[], Awaitable[Collection[tuple[str, str]]]]
"""Pairs of a follower and an event whose next fact failed, and is to be tried again."""


async def nothing_to_settle(event: str, through: int) -> None:
    """Where nobody keeps anything that is made of facts."""


async def nothing_waits() -> Collection[tuple[str, str]]:
    """Where no follower puts facts off."""
    return ()


async def is_idle(store: Store, cursor: Cursor, head: int, now: Millis, idle_ms: Millis) -> bool:
    """Whether it has had something to do for too long, and did nothing. One that waits to try
    again (`Waiting`) is at work: ask only of others."""
    if cursor.seq >= head or now - cursor.moved_ms <= idle_ms:
        return False
    for waiting in await store.log(cursor.event, cursor.seq, 1):
        # Since when there is something to do. One whose next fact is gone has been idle before.
        gone = waiting.seq != cursor.seq + 1
        return gone or now - waiting.at_ms > idle_ms
    return False


class Pruner:
    def __init__(
        self,
        store: Store,
        retention_days: float,
        cursor_idle_hours: float,
        lease: Lease | None = None,
        *,
        every_seconds: float = EVERY_SECONDS,
        settle: Settle = nothing_to_settle,
        crews: Crews | None = None,
        waiting: Waiting = nothing_waits,
    ) -> None:
        self._store = store
        self._retention_ms = round(retention_days * DAY_MS)
        self._idle_ms = round(cursor_idle_hours * HOUR_MS)
        self._lease = lease
        self._every_seconds = every_seconds
        self._settle = settle
        self._crews = crews or {}
        self._waiting = waiting
        self._task: asyncio.Task[None] | None = None
        self._missing: dict[tuple[str, str], Millis] = {}
        """Followers that have no cursor of an event, and since when that is known here."""
        self._said: set[tuple[str, str]] = set()
        self.idle: list[Idle] = []
        """As the last round found them, in order of follower and event; none where another process
        has the lease: it tells of them."""
        self.pruned = 0

    def start(self) -> None:
        """Does nothing where facts are kept for ever."""
        if self._retention_ms:
            self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            await end_task(self._task)
            self.idle = []
            if self._lease is not None:
                with contextlib.suppress(HoldfastError):
                    await self._lease.give_back()

    async def _run(self) -> None:
        await asyncio.sleep(min(FIRST_SECONDS, self._every_seconds))
        while True:
            try:
                await self.round()
            except Exception as trouble:  # whatever it is, the next round may go better
                log.warning("facts were not pruned: %s", trouble)
            await asyncio.sleep(self._every_seconds)

    async def round(self) -> None:
        """One process of all on this store prunes: the others would only find nothing to do."""
        if await self._ours():
            await self.prune()
        else:
            self.idle = []

    async def _ours(self) -> bool:
        return self._lease is None or await self._lease.hold()

    async def prune(self) -> int:
        """Prunes all that may go now; returns how many facts that were."""
        if not self._retention_ms:
            return 0
        # Heads first: a cursor that is read later stands there or further.
        heads = await self._store.heads()
        # Before the cursors: whoever delivers what waited moves his cursor later.
        waiting = await self._waiting()
        followers, cursors, now = await self._followers()
        bounds = await self._bounds(heads, followers, cursors, waiting, now)
        pruned = 0
        for first in await self._old(bounds, now - self._retention_ms):
            if not await self._ours():
                break
            try:
                pruned += await self._prune(first, bounds[first.event], now - self._retention_ms)
            except HoldfastError as trouble:
                # One event's trouble is its own: the others are pruned.
                log.warning("facts of %s were not pruned: %s", first.event, trouble)
            except Exception:
                log.exception("facts of %s were not pruned", first.event)
        self.pruned += pruned
        return pruned

    # What is needed

    async def _followers(self) -> tuple[list[Follower], list[Cursor], Millis]:
        """Those that were at work lately, and all cursors."""
        tables, now = await self._store.documents(KIND)
        followers: list[Follower] = []
        for document in tables:
            if now - read_table(document.body).seen_ms > self._idle_ms:
                continue
            crew = self._crews.get(document.id)
            followers += await crew() if crew else [Follower(document.id, _everything)]
        # Read after the tables: whoever has come meanwhile has no cursors that could be missed.
        cursors, now = await self._store.cursors()
        return followers, cursors, now

    async def _bounds(
        self,
        heads: Mapping[str, int],
        followers: Sequence[Follower],
        cursors: Sequence[Cursor],
        waiting: Collection[tuple[str, str]],
        now: Millis,
    ) -> dict[str, int]:
        """Of each event, up to which number nobody needs its facts; without those of which all are
        needed. Its last fact stays, whoever needs it."""
        bounds = {event: head - 1 for event, head in heads.items()}
        idle: list[Idle] = []
        for cursor in cursors:
            if cursor.event not in bounds:
                continue
            at_work = (cursor.follower, cursor.event) in waiting
            head = heads[cursor.event]
            if not at_work and await is_idle(self._store, cursor, head, now, self._idle_ms):
                idle.append(Idle(cursor.follower, cursor.event, cursor.seq))
            else:
                bounds[cursor.event] = min(bounds[cursor.event], cursor.seq)
        for follower, event in self._without_cursor(heads, followers, cursors, now):
            at_work = (follower, event) in waiting
            if not at_work and now - self._missing[follower, event] > self._idle_ms:
                idle.append(Idle(follower, event, 0))
            else:
                bounds[event] = 0
        self._say(sorted(idle))
        return {event: bound for event, bound in bounds.items() if bound > 0}

    def _without_cursor(
        self,
        heads: Mapping[str, int],
        followers: Sequence[Follower],
        cursors: Sequence[Cursor],
        now: Millis,
    ) -> list[tuple[str, str]]:
        there = {(cursor.follower, cursor.event) for cursor in cursors}
        missing = [
            key
            for follower in followers
            for event in heads
            if (key := (follower.name, event)) not in there and follower.follows(event)
        ]
        self._missing = {key: self._missing.get(key, now) for key in missing}
        return missing

    def _say(self, idle: list[Idle]) -> None:
        """Once of each; again when it was at work in between."""
        for each in idle:
            if (each.follower, each.event) not in self._said:
                log.warning(
                    "%s has not moved from fact %d of %s for too long: what comes after it is kept "
                    "for it no longer",
                    *(each.follower, each.seq, each.event),
                )
        self._said = {(each.follower, each.event) for each in idle}
        self.idle = idle

    # What is old

    async def _old(self, bounds: Mapping[str, int], before_ms: Millis) -> list[Entry]:
        """The first facts of the logs that begin with an old one."""
        firsts: list[Entry] = []
        events = list(bounds)
        for start in range(0, len(events), EVENTS_MAX):
            part = dict.fromkeys(events[start : start + EVENTS_MAX], 0)
            firsts += await self._store.tails(part, 1)
        return [
            first
            for first in firsts
            if first.at_ms < before_ms and first.seq <= bounds[first.event]
        ]

    async def _prune(self, first: Entry, bound: int, before_ms: Millis) -> int:
        event = first.event
        through = await self._last_old(first, bound, before_ms)
        await self._settle(event, through)
        await note_pruned(self._store, event, through)
        pruned = 0
        while await self._ours():
            bite = await self._store.prune(event, through, BITE_FACTS_MAX)
            pruned += bite
            if bite < BITE_FACTS_MAX:
                break
        if pruned:
            log.info("%s: %d facts were pruned, up to %d", event, pruned, through)
        return pruned

    async def _last_old(self, first: Entry, bound: int, before_ms: Millis) -> int:
        """The last fact of before that, of those up to the bound. Halves what is left: times go
        along with numbers, as far as matters here."""
        old, young = first.seq, bound + 1
        while young - old > 1:
            middle = (old + young) // 2
            [entry] = await self._store.log(first.event, middle - 1, 1)
            if entry.at_ms < before_ms:
                old = middle
            else:
                young = middle
        return old


def _everything(event: str) -> bool:
    return True
