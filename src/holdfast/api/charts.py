"""Seat maps, encoded: what never changes about a seat is written once, its state at every read.

All who ask while one read is going on share the next one, and between two reads of an event others
get their turn: a map that everybody reloads costs the holds nothing. The map is of the authority's
rows at that moment, not of a cache: a hold answered before the ask is on it.
"""

import asyncio
import hashlib
import zlib
from collections.abc import Iterable

import msgspec

from holdfast.domain.gating import Owned
from holdfast.domain.model import SeatState
from holdfast.domain.views import PoolView, Statuses
from holdfast.engine import Holdfast

PLANS_MAX = 100
SEATS_MAX = 2_000_000
"""Over all plans; past it, those least recently used are forgotten."""
REST = 2.0
"""How much longer than a read the pause after it is."""
REST_SECONDS_MAX = 0.5
COMPRESSION = 4
FLAGS = ("accessible", "companion", "restricted_view")
"""Of a seat; said only where it is so: of most seats it is not."""

_encode = msgspec.json.Encoder().encode
_FREE = b'available"}'


class Plan:
    """What never changes about the seats of an event, until its layout does."""

    def __init__(
        self, layout: int, seats: list[bytes], index: dict[str, int], hidden: frozenset[str]
    ) -> None:
        self.layout = layout
        self.seats = seats
        self.index = index
        self.hidden = hidden
        """Seats of channels: to whoever may not have them they look sold."""


class Chart:
    """The map at one moment, as it is sent."""

    def __init__(
        self, seq: int, etag: str, body: bytes, hidden: frozenset[str] = frozenset()
    ) -> None:
        self.seq = seq
        self.etag = etag
        self.body = body
        self.hidden = hidden
        """Seats that look sold on it, whatever their state."""
        self._compressed: asyncio.Task[bytes] | None = None

    async def compressed(self) -> bytes:
        """Once, on a thread, for all who want it."""
        if self._compressed is None:
            self._compressed = asyncio.create_task(asyncio.to_thread(_gzip, self.body))
        return await asyncio.shield(self._compressed)


class _Reads:
    """The reads of one event: one going on, one that the rest wait for."""

    def __init__(self) -> None:
        self.next: asyncio.Task[Chart | None] | None = None
        self.going: asyncio.Task[Chart | None] | None = None
        self.rested = 0.0
        self.last: Chart | None = None


class Charts:
    def __init__(self, shop: Holdfast) -> None:
        self._shop = shop
        self._plans: dict[str, Plan] = {}
        self._reads: dict[str, _Reads] = {}

    async def chart(self, event: str) -> Chart | None:
        """The map as it is now, or was at a moment after this call."""
        reads = self._reads.get(event)
        if reads is None:
            reads = self._reads[event] = _Reads()
        if reads.next is None:
            reads.next = asyncio.create_task(self._after(event, reads, reads.going))
        return await asyncio.shield(reads.next)

    async def _after(
        self, event: str, reads: _Reads, before: "asyncio.Task[Chart | None] | None"
    ) -> Chart | None:
        loop = asyncio.get_running_loop()
        if before is not None and not before.done():
            await asyncio.wait([before])
        if (rest := reads.rested - loop.time()) > 0:
            await asyncio.sleep(rest)
        reads.going, reads.next = reads.next, None
        began = loop.time()
        try:
            chart = await self._read(event, reads.last)
            reads.last = chart
            return chart
        finally:
            took = loop.time() - began
            reads.rested = loop.time() + min(REST * took, REST_SECONDS_MAX)
            if reads.last is None and reads.next is None:
                self._reads.pop(event, None)  # there is no such event

    async def _read(self, event: str, last: Chart | None) -> Chart | None:
        found = await self._shop.statuses(event)
        if found is None:
            return None
        statuses, courtesies = found
        plan = await self._plan(event, statuses.event.layout)
        if plan is None:
            return None
        return await asyncio.to_thread(_drawn, plan, statuses, courtesies, last)

    async def _plan(self, event: str, layout: int) -> Plan | None:
        plan = self._plans.pop(event, None)
        if plan is None or plan.layout != layout:
            seat_map = await self._shop.store.seat_map(event)
            if seat_map is None:
                return None
            plan = await asyncio.to_thread(_planned, seat_map.seats, layout)
        self._plans[event] = plan  # the latest used
        while len(self._plans) > 1 and self._crowded():
            self._plans.pop(next(iter(self._plans)))
        return plan

    def _crowded(self) -> bool:
        seats = sum(len(plan.seats) for plan in self._plans.values())
        return len(self._plans) > PLANS_MAX or seats > SEATS_MAX

    async def stock(self, event: str) -> dict[str, int] | None:
        """What is available now of each pool that everybody may see."""
        found = await self._shop.statuses(event)
        if found is None:
            return None
        statuses, courtesies = found
        seen = [pool for pool in statuses.pools if pool.channel is None]
        return {pool.id: _available(pool, courtesies) for pool in seen}


def _planned(seats: Iterable[object], layout: int) -> Plan:
    encoded: list[bytes] = []
    index: dict[str, int] = {}
    hidden: set[str] = set()
    for nth, seat in enumerate(seats):
        view = msgspec.to_builtins(seat)
        if view.pop("channel") is not None:
            hidden.add(view["id"])
        del view["state"]
        for flag in FLAGS:
            if not view[flag]:
                del view[flag]
        view["state"] = SeatState.AVAILABLE.value  # the last field: only its end is rewritten
        encoded.append(_encode(view))
        index[view["id"]] = nth
    return Plan(layout, encoded, index, frozenset(hidden))


def _drawn(plan: Plan, statuses: Statuses, courtesies: list[Owned], last: Chart | None) -> Chart:
    """Runs on a thread. What has not changed is not drawn again."""
    held = [*statuses.held, *(seat for owned in courtesies for seat in owned.seats)]
    pools = [_pool(pool, courtesies) for pool in statuses.pools]
    told = [statuses.seq, plan.layout, sorted(held), sorted(statuses.sold), pools]
    etag = _etag(_encode(told))
    if last is not None and last.etag == etag:
        return last
    seats = plan.seats.copy()
    for ids, state in (
        (held, b'held"}'),
        (statuses.sold, b'sold"}'),
        (plan.hidden, b'sold"}'),
    ):
        for id in ids:
            nth = plan.index.get(id)
            if nth is not None:
                seats[nth] = plan.seats[nth][: -len(_FREE)] + state
    body = b'{"seq":%d,"seats":[%b],"pools":%b}' % (
        statuses.seq,
        b",".join(seats),
        _encode(pools),
    )
    return Chart(statuses.seq, etag, body, plan.hidden)


def _pool(pool: PoolView, courtesies: list[Owned]) -> dict[str, object]:
    available = 0 if pool.channel is not None else _available(pool, courtesies)
    return {
        "id": pool.id,
        "capacity": pool.capacity,
        "available": available,
        "tier": pool.tier,
    }


def _available(pool: PoolView, courtesies: list[Owned]) -> int:
    return max(0, pool.available - sum(owned.pools.get(pool.id, 0) for owned in courtesies))


def _etag(told: bytes) -> str:
    return f'W/"{hashlib.blake2b(told, digest_size=12).hexdigest()}"'


def _gzip(body: bytes) -> bytes:
    return zlib.compress(body, COMPRESSION, wbits=31)
