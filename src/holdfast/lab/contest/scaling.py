"""How Holdfast behaves as something grows: the crowd, the basket, the event, the processes.

Every point is a new event, a short warm-up and about a second of measuring through the Python API.
A curve is `{"points": [{"x", "per_second", "p99_ms"}, ...], "knee": x or None, "store": kind}`.
"""

import asyncio
import itertools
import math
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.domain.outcomes import Placed, Released
from holdfast.engine import Holdfast
from holdfast.ids import Ids
from holdfast.lab.bench.crowd import run_writers
from holdfast.lab.bench.figures import percentile
from holdfast.lab.bench.holding import ROW, new_event, seat_ids

TASKS = 1_000
"""Buyers at once, where it is not them that grow."""
PAIRS_TASKS = 300
"""Buyers at once who hold and release: each has seats of his own in the smallest event too."""
STALL_SECONDS = 60.0
"""A slow disk is to show as a slow point, not to end the curve."""
BEND_PER_DOUBLING = 0.10

Progress = Callable[[str], None]
Point = dict[str, Any]  # ready for JSON
Curve = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Extent:
    """How far the curves go, and how long each point takes."""

    seconds: float
    warm_up_seconds: float
    seats: int
    """Of an event in which seats are held and kept; a point ends early when they are gone."""
    concurrency: Sequence[int]
    seats_per_hold: Sequence[int]
    event_sizes: Sequence[int]
    processes: Sequence[int]


WHOLE = Extent(
    seconds=1.0,
    warm_up_seconds=0.3,
    seats=100_000,
    concurrency=(1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000),
    seats_per_hold=range(1, 11),
    event_sizes=(1_000, 10_000, 100_000, 1_000_000),
    processes=(1, 2, 3, 4),
)
QUICK = Extent(
    seconds=0.2,
    warm_up_seconds=0.05,
    seats=20_000,
    concurrency=(1, 10, 100, 1_000),
    seats_per_hold=(1, 2, 4, 10),
    event_sizes=(1_000, 10_000),
    processes=(1, 2),
)


async def measure(store: str, progress: Progress, quick: bool) -> dict[str, Curve]:
    """All four curves of Holdfast on that store, by name. Every event it makes is a new one."""
    return await Scaling(store, progress, QUICK if quick else WHOLE).curves()


class Scaling:
    """Each method is one curve's points."""

    def __init__(self, store: str, progress: Progress, extent: Extent) -> None:
        self._store = store
        self._progress = progress
        self._extent = extent
        self._ids = Ids()

    async def curves(self) -> dict[str, Curve]:
        async with Holdfast.open(self._store, upkeep=False, stall_seconds=STALL_SECONDS) as shop:
            concurrency = await self.concurrency(shop)
            baskets = await self.seats_per_hold(shop)
            sizes = await self.event_size(shop)
        processes = await self.processes()
        in_seats = [{**point, "per_second": point["x"] * point["per_second"]} for point in baskets]
        return {
            "concurrency": self._curve(concurrency, knee(concurrency)),
            # More seats in a hold always mean fewer holds: what may bend is seats a second.
            "seats_per_hold": self._curve(baskets, knee(in_seats)),
            "event_size": self._curve(sizes, knee(sizes, falling=True)),
            "processes": self._curve(processes, knee(processes)),
        }

    def _curve(self, points: list[Point], bend: int | None) -> Curve:
        kind = self._store.partition(":")[0]
        return {"points": points, "knee": bend, "store": kind}

    async def concurrency(self, shop: Holdfast) -> list[Point]:
        """Single-seat holds by ever more buyers at once."""
        points = []
        for tasks in self._extent.concurrency:
            self._progress(f"scaling: {tasks:,} buyers at once")
            points.append(await self._holds(shop, tasks, tasks, 1))
        return points

    async def seats_per_hold(self, shop: Holdfast) -> list[Point]:
        """Holds of ever more seats; the rate is of holds."""
        points = []
        for seats in self._extent.seats_per_hold:
            self._progress(f"scaling: {seats} seats in a hold")
            points.append(await self._holds(shop, seats, TASKS, seats))
        return points

    async def _holds(self, shop: Holdfast, x: int, tasks: int, seats_of_one: int) -> Point:
        event = f"scaling-{self._ids.new()}"
        await new_event(shop, event, self._extent.seats)
        seats = seat_ids(self._extent.seats)

        async def ask(buyer: int) -> bool:
            wanted = list(itertools.islice(seats, seats_of_one))
            if len(wanted) < seats_of_one:
                return False
            placed = await shop.place_hold(event, buyer=f"u{buyer}", seats=wanted)
            assert isinstance(placed, Placed), placed
            return True

        return await self._point(x, tasks, ask)

    async def event_size(self, shop: Holdfast) -> list[Point]:
        """A hold and its release, as one, on seats all over ever larger events."""
        points = []
        for seats in self._extent.event_sizes:
            self._progress(f"scaling: an event of {seats:,} seats")
            event = f"scaling-{self._ids.new()}"
            await new_event(shop, event, seats)
            points.append(await self._pairs(shop, event, seats))
        return points

    async def _pairs(self, shop: Holdfast, event: str, seats: int) -> Point:
        chance = random.Random(seats)

        async def ask(buyer: int) -> bool:
            nth = chance.choice(range(buyer, seats, PAIRS_TASKS))
            name = f"A-{nth // ROW + 1}-{nth % ROW + 1}"
            placed = await shop.place_hold(event, buyer=f"u{buyer}", seats=[name])
            assert isinstance(placed, Placed), placed
            return isinstance(await shop.release_hold(placed.hold.id), Released)

        return await self._point(seats, PAIRS_TASKS, ask)

    async def processes(self) -> list[Point]:
        """Ever more processes that hold seats of the same event."""
        points = []
        for count in self._extent.processes:
            self._progress(f"scaling: {count} processes")
            event, seats = f"scaling-{self._ids.new()}", self._extent.seats
            async with Holdfast.open(self._store, upkeep=False) as shop:
                await new_event(shop, event, seats)
            parts = [range(nth, seats, count) for nth in range(count)]
            seconds = self._extent.seconds
            ask = (self._store, [event] * count, parts, seconds, 0)
            written = await asyncio.to_thread(run_writers, *ask)
            latencies = [latency for each in written for latency in each.latencies_ms]
            points.append(point(count, sum(each.held for each in written) / seconds, latencies))
        return points

    async def _point(self, x: int, tasks: int, ask: Callable[[int], Awaitable[bool]]) -> Point:
        """So many tasks ask, each again when it was answered, until one is told False or the time
        is over. What is answered after the warm-up counts."""
        opens = time.perf_counter() + self._extent.warm_up_seconds
        closes = opens + self._extent.seconds
        latencies_ms: list[float] = []
        last = opens

        async def buyer(task: int) -> None:
            nonlocal last
            asked = time.perf_counter()
            # Once at least: a machine that stumbles must not make a point of nothing.
            while await ask(task):
                answered = time.perf_counter()
                if opens <= answered:
                    latencies_ms.append((answered - asked) * 1000)
                    last = answered
                if (asked := answered) >= closes:
                    return

        await asyncio.gather(*map(buyer, range(tasks)))
        return point(x, len(latencies_ms) / (last - opens) if last > opens else 0, latencies_ms)


def point(x: int, per_second: float, latencies_ms: list[float]) -> Point:
    p99_ms = percentile(sorted(latencies_ms) or [0.0], 0.99)
    return {"x": x, "per_second": round(per_second, 1), "p99_ms": round(p99_ms, 3)}


def knee(points: Sequence[Point], falling: bool = False) -> int | None:
    """Where growing stops to pay: the first x past which no later point has a rate that is higher
    by 10 % for each doubling of x. With `falling`, where it begins to cost: the first x past which
    every later rate is lower by 10 % for each doubling.

    None where the curve does not bend: it is the same to its end, or was never anything else.
    """
    bends = [_bends(here, points[nth + 1 :], falling) for nth, here in enumerate(points[:-1])]
    if True not in bends or bends[0]:
        return None
    return int(points[bends.index(True)]["x"])


def _bends(here: Point, later: Sequence[Point], falling: bool) -> bool:
    each_doubling = 1 - BEND_PER_DOUBLING if falling else 1 + BEND_PER_DOUBLING
    return all(
        point["per_second"]
        <= here["per_second"] * each_doubling ** math.log2(point["x"] / here["x"])
        for point in later
    )
