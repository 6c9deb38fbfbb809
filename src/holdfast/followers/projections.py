"""How every sale stands, kept up to date from the log (`domain/stats.py` says how).

The state of an event and how far it has come are one document, replaced under its version: whoever
writes it has folded all facts up to its number, and of two who fold at once one writes and the
other takes over what was written. A read is the document and the rest of the log, so it is fresh
even where nobody writes.

Facts may be pruned. Before they are, `settle` folds them into a second document, the baseline, from
which a rebuild begins instead of from nothing. It is all that is left of them, so it is read
whatever its format: what is added to `Stats` has a default, and what is there keeps its name and
type.
"""

import asyncio
import contextlib
import itertools
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from holdfast.domain.facts import Entry
from holdfast.domain.stats import Stats, Taken
from holdfast.domain.views import Document
from holdfast.errors import HoldfastError, Pruned, SchemaMismatch, StoreBusy
from holdfast.ids import Ids
from holdfast.ports import Store
from holdfast.tasks import end_task
from holdfast.upkeep.lease import Lease

KIND = "projection"
BASELINE = "projection-base"
FORMAT = 1
"""Grows when facts come to be counted in another way: what was counted before is then rebuilt. Of
what was pruned, the old count stands."""
LEASE = "projections"

PAGE_FACTS = 1_000
TAIL_FACTS = 200
"""Of each event at a time, where many are read at once."""
ROUND_EVENTS_MAX = 100
KEPT_MAX = 500
"""Events whose state is kept in memory."""
KEPT_SECONDS = 60.0
"""Then it is read again: somebody may have rebuilt it."""
BEHIND_FACTS_MAX = 10_000
"""Where nobody saves, a read that had to fold so many does."""
SAVE_FACTS = 20_000
"""After so many a long log is saved in between: whoever goes on does not begin anew."""
HELD_SECONDS = 1.0
"""So long a lease is taken for ours without asking; it lasts longer."""
TRIES_MAX = 10
EVERY_SECONDS = 1.0

log = logging.getLogger("holdfast.projections")


class Saved(msgspec.Struct):
    format: int
    stats: Stats


class Rebuilt(NamedTuple):
    """What came of folding logs again."""

    facts: dict[str, int]
    """Of each event the number of its last."""
    failed: dict[str, HoldfastError]


Ours = Callable[[], Awaitable[bool]]
"""Whether the work is still this process's."""

_read = msgspec.json.Decoder(Saved).decode
_encode = msgspec.json.Encoder().encode


async def _always() -> bool:
    return True


class _Kept:
    """An event's state in this process. Facts are taken by whoever has read them: a repeat does
    nothing, and none can be skipped."""

    __slots__ = ("event", "loaded", "lock", "read", "saved", "stats", "version")

    def __init__(self, event: str) -> None:
        self.event = event
        self.stats = Stats.empty(event)
        self.version = 0
        """Of the document."""
        self.saved = 0
        """How far the document has come."""
        self.loaded = float("-inf")
        self.read = 0
        """When the last read began; see `current`."""
        self.lock = asyncio.Lock()

    def take(self, entries: Sequence[Entry]) -> bool:
        """Whether it could: none was missing before them."""
        return all(self.stats.take(entry) is not Taken.GAP for entry in entries)


class Projections:
    def __init__(
        self,
        store: Store,
        every_seconds: float = EVERY_SECONDS,
        kept_max: int = KEPT_MAX,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._every_seconds = every_seconds
        self._kept_max = kept_max
        self._clock = clock
        self._lease = Lease(store, LEASE, Ids().new())
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._turns = itertools.count(1)
        self._heads: Mapping[str, int] = {}
        self._saved: dict[str, int] = {}
        """How far each event's document has come, of those that were seen."""
        self._complained: dict[str, str] = {}
        """What was said last, of each event that is not well."""
        self._held_at = float("-inf")
        self._task: asyncio.Task[None] | None = None

    # Reading

    async def current(self, event: str) -> Stats | None:
        """With every fact that was on the log when it was asked for; None if there is no such
        event. It goes on changing: read it before anything is awaited. Raises Pruned where facts
        are missing that nobody had folded, and what the store does."""
        asked = next(self._turns)
        kept = self._keep(event)
        async with kept.lock:
            # All who asked before the last read began are served by it.
            if kept.read < asked:
                began = next(self._turns)
                await self._load(kept)
                await self._catch_up(kept)
                kept.read = began
        if not kept.stats.seq:
            self._kept.pop(event, None)
            self._saved.pop(event, None)
            return None
        if kept.stats.seq - kept.saved >= BEHIND_FACTS_MAX:
            with contextlib.suppress(HoldfastError):
                await self._save(kept)
                await self._catch_up(kept)
        return kept.stats

    def lags(self) -> dict[str, int]:
        """Facts that are on the log and not in the document, of each event: as this process saw it
        when it last saved; nothing where another does that."""
        heads = self._heads.items()
        return {event: max(0, head - self._saved.get(event, 0)) for event, head in heads}

    def _keep(self, event: str) -> _Kept:
        kept = self._kept.get(event)
        if kept is None:
            kept = self._kept[event] = _Kept(event)
        self._kept.move_to_end(event)
        if len(self._kept) > self._kept_max:
            self._kept.popitem(last=False)
        return kept

    async def _load(self, kept: _Kept) -> None:
        """From the document, if that was not done lately."""
        if self._clock() - kept.loaded >= KEPT_SECONDS:
            await self._adopt(kept)

    async def _adopt(self, kept: _Kept) -> None:
        """What the document says counts, also if it is less than we had."""
        stats, version = await self._document(KIND, kept.event)
        if stats is None:
            stats, _ = await self._document(BASELINE, kept.event)
            kept.saved = 0
        else:
            kept.saved = stats.seq
        kept.stats = stats or Stats.empty(kept.event)
        kept.version = version
        kept.loaded = self._clock()
        self._saved[kept.event] = kept.saved

    async def _document(self, kind: str, event: str) -> tuple[Stats | None, int]:
        """What it says, if that counts here, and its version."""
        saved, version = await self._saved_as(kind, event)
        fits = saved is not None and (saved.format == FORMAT or kind == BASELINE)
        return (saved.stats if saved and fits else None), version

    async def _saved_as(self, kind: str, event: str) -> tuple[Saved | None, int]:
        documents, _ = await self._store.documents(kind, event)
        if not documents:
            return None, 0
        try:
            return _read(documents[0].body), documents[0].version
        except msgspec.DecodeError:
            return None, documents[0].version

    async def _catch_up(self, kept: _Kept) -> None:
        """Folds the rest of the log."""
        while await self._take_page(kept):
            pass

    async def _take_page(self, kept: _Kept) -> bool:
        """Whether there may be more."""
        after = kept.stats.seq
        await asyncio.sleep(0)  # a long log must not keep the loop to itself
        page = await self._store.log(kept.event, after, PAGE_FACTS)
        if page and page[0].seq != after + 1:
            await self._pass_over(kept, page[0].seq)
            return True
        # Others may have changed what we have: then it is read again.
        return not kept.take(page) or len(page) == PAGE_FACTS

    async def _pass_over(self, kept: _Kept, first: int) -> None:
        """The log begins later: others have folded what was before."""
        for kind in (KIND, BASELINE):
            stats, version = await self._document(kind, kept.event)
            if kind == KIND:
                kept.version = version
            if stats is not None and stats.seq > kept.stats.seq:
                kept.stats = stats
                return
        raise Pruned(kept.event, first)

    # Saving

    def start(self) -> "asyncio.Task[None]":
        """Saves what has moved, about once a second: one process of all on this store. The task
        ends by `stop` alone."""
        self._task = asyncio.create_task(self._run())
        return self._task

    async def stop(self) -> None:
        if self._task is not None:
            await end_task(self._task)
            self._task, self._held_at = None, float("-inf")
            with contextlib.suppress(HoldfastError):
                await self._lease.give_back()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._every_seconds)
            try:
                if await self._ours():
                    await self.round(self._ours)
                else:
                    self._heads = {}
            except Exception as trouble:  # whatever it is, the next round may go better
                log.warning("projections were not saved: %s", trouble)

    async def _ours(self) -> bool:
        """Whether the lease is ours. It is renewed here, so a long round asks all the while."""
        if (asked := self._clock()) - self._held_at >= HELD_SECONDS:
            self._held_at = asked if await self._lease.hold() else float("-inf")
        return self._held_at > float("-inf")

    async def round(self, ours: Ours = _always) -> int:
        """Saves the state of every event that has moved, for as long as that is ours; how often."""
        self._heads = await self._store.heads()
        behind = [event for event, head in self._heads.items() if head > self._saved.get(event, 0)]
        saved = 0
        for first in range(0, len(behind), ROUND_EVENTS_MAX):
            saved += await self._follow(behind[first : first + ROUND_EVENTS_MAX], ours)
        return saved

    async def _follow(self, events: Sequence[str], ours: Ours) -> int:
        kept = {event: self._keep(event) for event in events}
        for each in kept.values():
            if not await ours():
                return 0
            await self._load(each)
        await self._take_tails(kept)
        saved = 0
        for event, each in kept.items():
            try:
                saved += await self._follow_one(each, ours)
                self._complained.pop(event, None)
            except Exception as trouble:
                # One event's trouble is its own: the others are saved.
                self._complain(event, f"the projection was not saved: {trouble}")
        return saved

    async def _follow_one(self, kept: _Kept, ours: Ours) -> int:
        """How often it was saved: of a long log, in between."""
        saved, more = 0, kept.stats.seq < self._heads[kept.event]
        while more:
            if not await ours():
                return saved
            more = await self._take_page(kept)
            if more and kept.stats.seq - kept.saved >= SAVE_FACTS:
                saved += await self._save(kept)
        if kept.stats.seq > kept.saved and await ours():
            saved += await self._save(kept)
        return saved

    def _complain(self, event: str, trouble: str) -> None:
        """Once, until it is well again or something else is wrong."""
        if self._complained.get(event) != trouble:
            self._complained[event] = trouble
            log.error("%s: %s", event, trouble)

    async def _take_tails(self, kept: Mapping[str, _Kept]) -> None:
        """Most are behind by a few facts: these are read in one go. What is left is for others."""
        after = {
            event: each.stats.seq
            for event, each in kept.items()
            if each.stats.seq < self._heads[event]
        }
        if len(after) > 1:
            for entry in await self._store.tails(after, TAIL_FACTS):
                kept[entry.event].stats.take(entry)

    async def _save(self, kept: _Kept) -> bool:
        """Whether it was ours that was written; else another's, which we have now."""
        seq, version = kept.stats.seq, kept.version + 1
        if await self._put(KIND, kept.stats, version):
            kept.version = version
            kept.saved = self._saved[kept.event] = seq
            return True
        await self._adopt(kept)
        return False

    async def _put(self, kind: str, stats: Stats, version: int) -> bool:
        body = _encode(Saved(FORMAT, stats)).decode()
        return await self._store.put(Document(kind, stats.event, version, body))

    # From elsewhere

    async def fold(self, entries: Sequence[Entry]) -> None:
        """Folds facts that came another way, repeats and all, each event's in order, and returns
        when what came of them is saved. What is missing before one is read from the log; where
        that has it not, the event stays where it is, and it is said once."""
        by_event: dict[str, list[Entry]] = {}
        for entry in entries:
            by_event.setdefault(entry.event, []).append(entry)
        for event, its in by_event.items():
            await self._fold_one(event, its)

    async def _fold_one(self, event: str, entries: Sequence[Entry]) -> None:
        for _ in range(TRIES_MAX):
            kept = self._keep(event)
            await self._load(kept)
            if not kept.take(entries):
                await self._fill(kept, entries)
            if kept.stats.seq <= kept.saved or await self._save(kept):
                return
        raise StoreBusy(f"others write the projection of {event} all the while")

    async def _fill(self, kept: _Kept, entries: Sequence[Entry]) -> None:
        with contextlib.suppress(Pruned):
            await self._catch_up(kept)
        if kept.take(entries):
            self._complained.pop(kept.event, None)
        else:
            self._complain(kept.event, f"the facts after {kept.stats.seq} are missing")

    # Anew

    async def rebuild(self, event: str | None = None) -> Rebuilt:
        """Folds the logs again, of one event or of all, from the baseline or from nothing, and
        replaces what was saved. Processes that have a state of their own take over the rebuilt one.
        One whose facts are missing (Pruned), or that cannot be saved, fails alone."""
        rebuilt = Rebuilt({}, {})
        for each in sorted(await self._store.heads()) if event is None else [event]:
            try:
                if seq := await self._rebuild(each):
                    rebuilt.facts[each] = seq
            except (Pruned, StoreBusy) as trouble:
                rebuilt.failed[each] = trouble
        return rebuilt

    async def _rebuild(self, event: str) -> int:
        base, _ = await self._document(BASELINE, event)
        stats = base or Stats.empty(event)
        for _ in range(TRIES_MAX):
            stats = await self._replayed(stats)
            if not stats.seq:
                return 0
            # Read late: whoever saves meanwhile has the version after it.
            _, version = await self._document(KIND, event)
            if await self._put(KIND, stats, version + 1):
                self._kept.pop(event, None)
                self._saved[event] = stats.seq
                return stats.seq
        raise StoreBusy(f"others write the projection of {event} all the while")

    async def settle(self, event: str, through: int) -> None:
        """Returns when the baseline has every fact up to that one, so that these may be pruned: a
        rebuild gives the same without them. Raises Pruned where some are gone already, and
        SchemaMismatch where a newer program wrote the baseline: it counts what we do not."""
        for _ in range(TRIES_MAX):
            base, version = await self._saved_as(BASELINE, event)
            stats = base.stats if base else Stats.empty(event)
            if stats.seq >= through:
                return
            if base and base.format > FORMAT:
                raise SchemaMismatch(f"a newer version of Holdfast wrote the baseline of {event}")
            stats = await self._replayed(stats, through)
            if await self._put(BASELINE, stats, version + 1):
                return
        raise StoreBusy(f"others write the baseline of {event} all the while")

    async def _replayed(self, stats: Stats, through: int | None = None) -> Stats:
        """The facts of the log and nothing else, up to that one or to the end."""
        while through is None or stats.seq < through:
            limit = PAGE_FACTS if through is None else min(PAGE_FACTS, through - stats.seq)
            page = await self._store.log(stats.event, stats.seq, limit)
            if page and page[0].seq != stats.seq + 1:
                base, _ = await self._document(BASELINE, stats.event)
                if base is None or base.seq <= stats.seq:
                    raise Pruned(stats.event, page[0].seq)
                stats = base  # it was pruned meanwhile, and settled before that
                continue
            for entry in page:
                stats.take(entry)
            if len(page) < limit:
                break
            await asyncio.sleep(0)
        return stats
