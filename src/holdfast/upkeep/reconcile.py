"""Reconciliation: compares a gate with the authority, event by event, and mends the gate.

Sales go on meanwhile. The gate is looked at first and the authority after, so what the authority
lacks then was surely over or not yet there when the gate was looked at; and nothing that was
written to the gate since is touched. Courtesies and claims are the gate's own affair: they end by
their deadlines.
"""

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import msgspec
from msgspec.structs import replace

from holdfast.catalogue import Catalogues
from holdfast.domain.gating import (
    Adjust,
    Free,
    Kind,
    Mark,
    Op,
    Owned,
    Snapshot,
    Stock,
    held,
    sold,
)
from holdfast.domain.model import FOREVER_MS, Event, Millis
from holdfast.domain.views import Census
from holdfast.errors import GateBroken, GateDown, HoldfastError
from holdfast.ports import Gate, Store
from holdfast.stores import host_clock
from holdfast.tasks import end_task
from holdfast.upkeep.rounds import EVENTS_MAX, NAMES_MAX, Fixed, Round, Rounds, note

OPS_MAX = 250
LEASE = "reconcile"
ASKED_LEASE = f"{LEASE}:all"
ASKED_SECONDS = 1.0
TURN_SECONDS = 0.05
TURNS_MAX = 100
MENDING_MS = 30_000
"""For one event. Whoever dies meanwhile keeps others from it for so long."""
PROBE_SECONDS = 1.0
SETTLE_SECONDS = 0.5
TOLERANCE_MS = 2_000
"""Two clocks and a round trip may lie between two deadlines that are the same."""

log = logging.getLogger("holdfast.upkeep")


class Mended(msgspec.Struct, frozen=True):
    """What differed in one event's gate."""

    event: str
    missing: list[str] = []
    """In the authority but not in the gate: holds, or orders."""
    orphans: list[str] = []
    """In the gate but not in the authority."""
    stock: bool = False
    """What there is to sell of pools, or the event's version."""
    counters: int = 0
    """Counts that did not follow from what is there."""
    broken: bool = False
    """What the gate had could not be read at all."""

    @property
    def found(self) -> int:
        return len(self.missing) + len(self.orphans) + self.stock + self.counters + self.broken

    @property
    def lines(self) -> list[str]:
        """For people."""
        said = [f"{id} is not in the gate" for id in self.missing]
        said += [f"{id} is only in the gate" for id in self.orphans]
        said += ["its settings or stock are not the authority's"] if self.stock else []
        said += [f"{self.counters} of its counters are wrong"] if self.counters else []
        said += ["what the gate has of it cannot be read"] if self.broken else []
        return [f"{self.event}: {line}" for line in said]

    def fixed(self) -> Fixed:
        """As it is kept."""
        missing, orphans = len(self.missing), len(self.orphans)
        names = [*self.missing[:NAMES_MAX], *self.orphans[:NAMES_MAX]][:NAMES_MAX]
        return Fixed(self.event, missing, orphans, self.stock, self.counters, self.broken, names)


def wanted(census: Census) -> dict[str, Owned]:
    """What a gate should keep, by the authority."""
    live = [hold for hold in census.holds if hold.live(census.now)]
    owned = [held(hold, hold.until_ms - census.now) for hold in live]
    owned += [sold(order) for order in census.orders if order.sold]
    return {each.id: each for each in owned}


def compare(before: Snapshot, census: Census, between_ms: Millis = 0) -> tuple[Mended, list[Op]]:
    """What differs, and what mends it. So much time was between the two looks."""
    want = wanted(census)
    have = {kept.owned.id: kept.owned for kept in before.owners}
    missing = [
        each for id, each in want.items() if not _same(have.get(id), each, before, between_ms)
    ]
    # A courtesy that the authority knows was handed over to it.
    closed = {hold.id for hold in census.holds} - want.keys()
    mirrored = [id for id, each in have.items() if each.kind is Kind.HELD or id in closed]
    orphans = [id for id in mirrored if id not in want]
    counts, ops = _miscounts(before)
    if census.event.flash_sale:
        # In a flash sale nobody meddles with counters.
        counts, ops = 0, []
    ops += [Free(id, unless_after_ms=before.now_ms) for id in orphans]
    ops += [Mark(each) for each in missing]
    stock = {pool.id: pool.capacity for pool in census.pools}
    restock = before.version < census.event.version or stock != before.stock
    if restock:
        ops.append(Stock(stock))
    return Mended(census.event.id, [e.id for e in missing], orphans, restock, counts), ops


def _same(have: Owned | None, want: Owned, before: Snapshot, between_ms: Millis) -> bool:
    if have is None or have.kind is not Kind.HELD:
        return False
    units = have.buyer == want.buyer and have.pools == want.pools
    units = units and set(have.seats) == set(want.seats)
    units = units and all(before.seats.get(seat) == want.id for seat in want.seats)
    if FOREVER_MS in (have.keep_ms, want.keep_ms):
        return units and have.keep_ms == want.keep_ms
    # Lasting shorter than it should is no harm for a second or two.
    return units and abs(have.keep_ms - between_ms - want.keep_ms) <= TOLERANCE_MS


def _miscounts(before: Snapshot) -> tuple[int, list[Op]]:
    claimed: Counter[str] = Counter(before.claimed)
    units: Counter[str] = Counter(before.units)
    for kept in before.owners:
        claimed.subtract(kept.owned.pools)
        units.subtract({kept.owned.buyer: kept.owned.units})
    too_many = {pool: count for pool, count in claimed.items() if count}
    too_much = {buyer: count for buyer, count in units.items() if count}
    wrong = len(too_many) + len(too_much)
    return wrong, [Adjust(too_many, too_much)] if wrong else []


async def reconcile(store: Store, gate: Gate, event: str, *, mend: bool = True) -> Mended | None:
    """Compares, and mends unless told to look only. None where there is no such event."""
    try:
        return await _reconcile(store, gate, event, mend)
    except GateBroken:
        if not mend:
            return Mended(event, broken=True)
        await gate.clear(event)
        mended = await _reconcile(store, gate, event, mend)
        return replace(mended, broken=True) if mended is not None else None


async def _reconcile(store: Store, gate: Gate, event: str, mend: bool) -> Mended | None:
    before = await gate.snapshot(event)
    looked = time.monotonic()
    census = await store.census(event)
    if census is None:
        if mend:
            await gate.clear(event)
        return None
    mended, ops = compare(before, census, int(1000 * (time.monotonic() - looked)))
    if mend:
        await _run(gate, census, ops)
        if mended.missing:
            await _take_back(store, gate, event, mended.missing)
    return mended


async def _take_back(store: Store, gate: Gate, event: str, marked: list[str]) -> None:
    """What was given back between the look at the authority and the mark is given back again."""
    census = await store.census(event)
    if census is not None:
        want = wanted(census)
        await _run(gate, census, [Free(id) for id in marked if id not in want])


async def _run(gate: Gate, census: Census, ops: Sequence[Op]) -> None:
    for start in range(0, len(ops), OPS_MAX):
        await gate.run(census.event.id, census.event.version, ops[start : start + OPS_MAX])


def both(first: Mended, second: Mended) -> Mended:
    """What was so at both times."""
    return Mended(
        first.event,
        [id for id in first.missing if id in second.missing],
        [id for id in first.orphans if id in second.orphans],
        first.stock and second.stock,
        min(first.counters, second.counters),
        first.broken and second.broken,
    )


class Reconciler:
    """Every so often all events that have a gate, and at once those that somebody wants."""

    def __init__(
        self,
        store: Store,
        gate: Gate,
        catalogues: Catalogues,
        every_seconds: float,
        holder: str,
        up: Callable[[], bool],
    ) -> None:
        self._store = store
        self._gate = gate
        self._catalogues = catalogues
        self._every_seconds = every_seconds
        self._holder = holder
        self._up = up
        self._wanted: set[str] = set()
        self._wake = asyncio.Event()
        self.probe: Callable[[], Awaitable[object]] | None = None
        """Asks a gate that is down whether it is back: in a quiet hour nobody else does."""
        self._task: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        """One round after the other: each writes down what it came to."""
        self._mending = asyncio.Lock()
        self.known: Rounds | None = None
        """What this process knows of the last rounds."""

    def start(self, periodic: bool) -> None:
        self._task = asyncio.create_task(self._run(periodic))

    async def stop(self) -> None:
        await end_task(self._task)

    def want(self, event: str | None = None) -> None:
        """One event, or all of them."""
        self._wanted.add(event or "")
        self._wake.set()

    def notice(self) -> None:
        """The gate went down."""
        self._wake.set()

    async def round(self, only: str | None = None, *, strict: bool = False) -> list[Mended]:
        """All events that have a gate, or the one; what differed. Strict: trouble is raised."""
        async with self._turn:
            return await self._round(only, strict)

    async def now(self) -> Round:
        """All events at once, after whoever is at it, and what it came to."""
        lease_ms = int(1000 * ASKED_SECONDS)
        for _ in range(TURNS_MAX):
            if await self._gate.lease(ASKED_LEASE, self._holder, lease_ms):
                await self.round()
                assert self.known is not None
                return self.known.last
            await asyncio.sleep(TURN_SECONDS)
        raise GateDown("another process reconciles it")

    async def _round(self, only: str | None, strict: bool) -> list[Mended]:
        began = time.monotonic()
        found: list[Mended] = []
        failed: dict[str, str] = {}
        events = await self.events(only)
        for event in events:
            try:
                mended = await self.one(event)
            except HoldfastError as trouble:
                # One event's trouble is its own.
                if strict:
                    raise
                log.warning("the gate of %s was not reconciled: %s", event, trouble)
                failed[event] = str(trouble)
            else:
                found += [mended] if mended is not None and mended.found else []
        if only is None:
            came_to = Round(
                at_ms=host_clock(),
                took_ms=int(1000 * (time.monotonic() - began)),
                events=len(events),
                found=sum(each.found for each in found),
                mended=[each.fixed() for each in found[:EVENTS_MAX]],
                failed=dict(list(failed.items())[:EVENTS_MAX]),
            )
            self.known = await note(self._store, came_to, self.known)
        return found

    async def differences(self, only: str | None = None) -> list[Mended]:
        """What differs, mending nothing. Sales go on, so it counts only if it is still so after a
        moment."""
        found = []
        for event in await self.events(only):
            first = await reconcile(self._store, self._gate, event, mend=False)
            if first is not None and first.found:
                await asyncio.sleep(SETTLE_SECONDS)
                second = await reconcile(self._store, self._gate, event, mend=False)
                found += [both(first, second)] if second is not None else []
        return [each for each in found if each.found]

    async def events(self, only: str | None = None) -> list[str]:
        """Those that have a gate before them."""
        events = await self._catalogues.all()
        return [each.id for each in events if self._gated(each) and only in (None, each.id)]

    async def reset(self, event: str) -> None:
        """What was begun is not done: the gate begins anew."""
        with contextlib.suppress(HoldfastError):
            await self._gate.clear(event)
        await self.refresh(event)

    async def one(self, event: str) -> Mended | None:
        async with self._alone(event):
            mended = await reconcile(self._store, self._gate, event)
        if mended is not None and mended.found:
            log.info("the gate of %s was mended: %d differences", event, mended.found)
        return mended

    @contextlib.asynccontextmanager
    async def _alone(self, event: str) -> AsyncIterator[None]:
        """Two at once, of one process or of two, would both mend the same counter, and leave it
        wrong."""
        lease = f"{LEASE}:mending:{event}"
        async with self._mending:
            for _ in range(TURNS_MAX):
                if await self._gate.lease(lease, self._holder, MENDING_MS):
                    break
                await asyncio.sleep(TURN_SECONDS)
            else:
                raise GateDown("another process reconciles it")
            try:
                yield
            finally:
                with contextlib.suppress(HoldfastError):
                    await self._gate.lease(lease, self._holder, 0)

    async def _run(self, periodic: bool) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            pause = max(0.0, due - loop.time()) if periodic else None
            if not self._up():
                pause = min(PROBE_SECONDS, pause or PROBE_SECONDS)
            with contextlib.suppress(TimeoutError):
                # Not wait_for: in Python 3.11 it may swallow the cancellation that stops this.
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            self._wake.clear()
            wanted, self._wanted = self._wanted, set()
            try:
                if not self._up() and self.probe is not None:
                    await self.probe()
                if periodic and loop.time() >= due:
                    due = loop.time() + self._every_seconds
                    await self._all(LEASE, self._every_seconds)
                if "" in wanted:
                    await self._all(ASKED_LEASE, ASKED_SECONDS)
                for event in wanted - {""}:
                    await self._asked(event)
            except HoldfastError as trouble:
                log.info("the gate was not reconciled: %s", trouble)
                await asyncio.sleep(min(1.0, self._every_seconds))
            except Exception:
                log.exception("the gate was not reconciled")
                await asyncio.sleep(min(1.0, self._every_seconds))

    async def _all(self, lease: str, seconds: float) -> None:
        """One process at a time does it."""
        if self._up() and await self._gate.lease(lease, self._holder, int(1000 * seconds)):
            await self.round()

    async def refresh(self, event: str, *, wanted: bool = False) -> None:
        """At once, if the gate can be reached. Wanted: though its policy has no gate yet."""
        try:
            known = await self._catalogues.event(event)
            if known is None or not self._up():
                return
            if wanted or self._gated(known):
                await self.one(event)
            else:
                await self._gate.clear(event)
        except HoldfastError as trouble:
            log.info("the gate of %s was not refreshed: %s", event, trouble)
        except Exception:
            # Whatever it is: what the caller wanted is done, and this can be done again.
            log.exception("the gate of %s was not refreshed", event)

    def _gated(self, event: Event) -> bool:
        return self._catalogues.gated(event) != "authority"

    async def _asked(self, event: str) -> None:
        if self._up() and await self._gate.lease(f"{LEASE}:{event}", self._holder, 1_000):
            await self.refresh(event)
