"""The refusal cache: a seat just lost is refused again without any I/O, and so is a pool that is
sold out.

An entry is only a memory of what the authority or the gate said, so it ends with the deadline that
it was told, and it counts only while the log was read within the last second: whatever opens a seat
is on the log. The log is followed from where the first refusal found it, so already that is given
again. An entry names the holder: his own asks always go through.

It is asked twice: at the door, and when the turn of a command comes. So a crowd that is waiting
already when the last seat goes is sent home as fast as one that comes later.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence

import msgspec

from holdfast.domain import facts
from holdfast.domain.facts import Entry
from holdfast.domain.model import Ask, Millis
from holdfast.domain.outcomes import Answer, Reason, Refused
from holdfast.errors import HoldfastError
from holdfast.tasks import end_task

ENTRIES_MAX = 100_000
EVENTS_MAX = 1_000
FRESH_MS = 1_000
"""How old the last look at the log may be."""
READ_SECONDS = 0.2
PAGE = 5_000
IDLE_MS = 30_000
"""An event that nobody was refused for so long is watched no longer."""

OPENING = (facts.HOLD_RELEASED, facts.HOLD_EXPIRED, facts.ORDER_CANCELLED)

log = logging.getLogger("holdfast.refusals")


class Taken(msgspec.Struct):
    buyer: str | None
    until_ms: Millis
    """By the clock of the cache."""


class Watched(msgspec.Struct):
    """An event whose log is followed."""

    since_ms: Millis
    seats: dict[str, Taken] = {}
    pools: set[str] = set()
    """Those of which all is sold."""
    cursor: int | None = None
    """None until it is known where the log stood: before that, nothing is remembered."""
    last: Entry | None = None
    """The fact under that number, once it was read."""
    read_ms: Millis = 0
    used_ms: Millis = 0
    first: int = 0
    """What was refused before this number was reached may have been opened since."""


class Refusals:
    def __init__(
        self,
        heads: Callable[[], Awaitable[dict[str, int]]],
        read_log: Callable[[str, int, int], Awaitable[list[Entry]]],
        clock: Callable[[], Millis],
    ) -> None:
        self._heads = heads
        self._read_log = read_log
        self._clock = clock
        self._events: dict[str, Watched] = {}
        self._entries = 0
        self._opened_ms: Millis = 0
        """When anything was last opened, as far as this process knows."""
        self._task: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()
        self.refused = 0

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        await end_task(self._task)

    def refuse(self, event: str, buyer: str, ask: Ask) -> Refused | None:
        """The refusal, if all these seats are known to be others', or if this one pool is known to
        be sold out. What is not known could make another refusal of it, so then the authority is
        asked; so it is for the best seats, which nobody has named."""
        watched = self._events.get(event)
        if watched is None or watched.cursor is None or ask.best:
            return None
        now = self._clock()
        if not 0 <= now - watched.read_ms <= FRESH_MS:
            return None
        no = _short(watched, ask) if ask.pools else _lost(watched, buyer, ask.seats, now)
        if no is not None:
            watched.used_ms = now
            self.refused += 1
        return no

    def learn(self, event: str, answer: Answer, asked_ms: Millis) -> None:
        """Remembers whom the authority named, if the log was followed when it was asked."""
        if answer.holders:
            entries = ((h.seat, h.buyer, h.until_ms - answer.now_ms) for h in answer.holders)
            self.remember(event, entries, asked_ms, answer.as_of)
        elif answer.sold_out is not None:
            watched = self._watched(event, asked_ms, answer.as_of)
            if watched is not None and self._entries < ENTRIES_MAX:
                self._entries += answer.sold_out not in watched.pools
                watched.pools.add(answer.sold_out)

    def _watched(self, event: str, asked_ms: Millis, as_of: int | None) -> Watched | None:
        """The event, if what was asked at that moment may be remembered. One that nobody was
        refused at yet is followed from now on, or from there."""
        now = self._clock()
        watched = self._events.get(event)
        if watched is None:
            if len(self._events) >= EVENTS_MAX:
                return None
            watched = self._events[event] = Watched(since_ms=now)
            self._wanted.set()
            if as_of is not None:
                watched.cursor = watched.first = as_of
                watched.since_ms, watched.read_ms = self._opened_ms, asked_ms
        watched.used_ms = now
        early = asked_ms <= watched.since_ms or (as_of is not None and as_of < watched.first)
        return None if watched.cursor is None or early else watched

    def remember(
        self,
        event: str,
        taken: Iterable[tuple[str, str | None, Millis]],
        asked_ms: Millis,
        as_of: int | None = None,
    ) -> None:
        """Each a seat, its holder, and how long he still has it."""
        watched = self._watched(event, asked_ms, as_of)
        if watched is None:
            return
        for seat, buyer, left_ms in taken:
            if seat not in watched.seats:
                if self._entries >= ENTRIES_MAX:
                    return
                self._entries += 1
            # From when it was asked: the decision is not older, whatever its commit took.
            watched.seats[seat] = Taken(buyer, asked_ms + left_ms)

    def opened(self, event: str, seats: Iterable[str]) -> None:
        """These are free again, and maybe some of any pool: this process did it itself, or read of
        it."""
        self._opened_ms = self._clock()
        if watched := self._events.get(event):
            # An answer that is on its way already may be of before.
            watched.since_ms = self._clock()
            for seat in seats:
                self._entries -= watched.seats.pop(seat, None) is not None
            self._entries -= len(watched.pools)
            watched.pools.clear()

    def forget(self, event: str) -> None:
        """What this process has changed itself it need not read first."""
        self._opened_ms = self._clock()
        if watched := self._events.get(event):
            self._entries -= len(watched.seats) + len(watched.pools)
            watched.seats.clear()
            watched.pools.clear()
            # An answer that was on its way already may be of before the change.
            watched.since_ms = self._clock()

    async def read(self) -> None:
        """Follows the log of every event that somebody was refused at."""
        began = self._clock()
        await self._begin(began)
        for event, watched in list(self._events.items()):
            if began - watched.used_ms > IDLE_MS:
                self._drop(event)
            elif watched.cursor is not None:
                await self._follow(event, watched)
                watched.read_ms = began

    def _drop(self, event: str) -> None:
        """Whoever is refused next makes it watched again."""
        self.forget(event)
        del self._events[event]

    async def _begin(self, began: Millis) -> None:
        new = [event for event, watched in self._events.items() if watched.cursor is None]
        if not new:
            return
        heads = await self._heads()
        for event in new:
            watched = self._events[event]
            watched.cursor = heads.get(event, 0)
            # What was asked before this moment may have been opened again unseen.
            watched.since_ms = watched.read_ms = self._clock()

    async def _follow(self, event: str, watched: Watched) -> None:
        assert watched.cursor is not None
        while True:
            # Again with the last that was read: it must still be there, and be the same. Else facts
            # were pruned, or a server that crashed has lost what it had not written to disk: nobody
            # can tell what was opened in between.
            page = await self._read_log(event, max(0, watched.cursor - 1), PAGE)
            if watched.cursor:
                if (
                    not page
                    or page[0].seq != watched.cursor
                    or page[0] != (watched.last or page[0])
                ):
                    self._drop(event)
                    return
                watched.last = page.pop(0)
            for entry in page:
                self._take(event, watched, entry)
            if len(page) < PAGE - 1:
                return

    def _take(self, event: str, watched: Watched, entry: Entry) -> None:
        watched.cursor, watched.last = entry.seq, entry
        if entry.type in OPENING:
            self.opened(event, entry.data.get("seats", ()))
            watched.first = entry.seq
        elif entry.type == facts.EVENT_CHANGED:
            self.forget(event)
            watched.first = entry.seq

    def _distrust(self) -> None:
        """The server may have crashed: of an event whose log was not read yet, nobody can tell
        whether the numbers that come are those that were meant."""
        for event in [event for event, each in self._events.items() if each.last is None]:
            self._drop(event)

    async def _run(self) -> None:
        while True:
            if not self._events:
                self._wanted.clear()
                await self._wanted.wait()
            try:
                await self.read()
            except HoldfastError as trouble:
                # Entries do not count until the log can be read again.
                log.debug("the log was not read: %s", trouble)
                self._distrust()
            except Exception:
                log.exception("the log was not read")
                self._distrust()
            await asyncio.sleep(READ_SECONDS)


def _lost(watched: Watched, buyer: str, seats: Sequence[str], now: Millis) -> Refused | None:
    for id in seats:
        taken = watched.seats.get(id)
        if taken is None or taken.until_ms <= now or taken.buyer == buyer:
            return None
    return Refused(Reason.TAKEN, seats=tuple(seats)) if seats else None


def _short(watched: Watched, ask: Ask) -> Refused | None:
    """Of one pool alone: beside others, or seats, the authority might name another reason."""
    if ask.seats or len(ask.pools) != 1:
        return None
    (pool,) = ask.pools
    return Refused(Reason.SOLD_OUT, pools=(pool,), available=0) if pool in watched.pools else None
