"""What this machine can do: each figure with the control it is compared with, in one run.

Machines are noisy, so what counts are ratios: the two sides of a ratio are measured in turns, and
every figure over several rounds, after a warm-up that does not count.
"""

import asyncio
import os
import random
import statistics
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

from holdfast.domain.model import FOREVER_MS, Best, Ranking, SeatPlan
from holdfast.domain.outcomes import Placed
from holdfast.domain.seating import House
from holdfast.engine import Holdfast
from holdfast.errors import SettingsError
from holdfast.ids import Ids
from holdfast.lab.bench import baseline
from holdfast.lab.bench.crowd import Written, run_writers
from holdfast.lab.bench.figures import MARIADB, POSTGRES, SQLITE, Result, percentile
from holdfast.lab.bench.granian import Granian
from holdfast.lab.bench.holding import (
    PAIRS,
    TASKS,
    Pace,
    hold_and_release,
    hold_pool,
    new_event,
    refuse,
    seat_ids,
    stampede,
)
from holdfast.lab.bench.http import Http
from holdfast.lab.bench.pages import Pages
from holdfast.lab.bench.relaying import Relaying
from holdfast.lab.bench.rivals import Neveroversell
from holdfast.lab.bench.watched import Watched
from holdfast.lab.bench.watching import Watching
from holdfast.settings import Settings
from holdfast.wiring import make_gate

ROUNDS = 3
WARM_UP = 0.1
"""The share of a round that is done before the first, and not counted."""
PROCESSES = 4
PACED_HOLDS_PER_SECOND = 4_000

Progress = Callable[[str], None]


class Bench:
    """One place to measure on. Each method that `measure` may be asked for is one round of that
    measurement; `scale` 1.0 is the whole of it, less is a trial. Without a store it runs on SQLite
    files in the folder; in a store, every event it makes is a new one. Whoever has it calls
    `close`."""

    def __init__(
        self,
        store: str | None,
        folder: Path,
        progress: Progress,
        scale: float = 1.0,
        gate: str | None = None,
        broker: str | None = None,
    ) -> None:
        self._store = store
        self._broker = broker
        self._gate = gate
        self._folder = folder
        self._progress = progress
        self._scale = scale
        self._share = scale
        self._turn = ""
        self._ids = Ids()
        self._files = 0
        self._sized: tuple[str, dict[int, str]] | None = None
        self._logs: dict[str, str] = {}
        self._rival: Neveroversell | None = None
        self._granian: Granian | None = None

    def close(self) -> None:
        if self._rival is not None:
            self._rival.close()

    async def measure(self, name: str, rounds: int = ROUNDS) -> list[Result]:
        """What each round gave, after a warm-up."""
        one_round: Callable[[], Awaitable[Result]] = getattr(self, name)
        self._share, self._turn = self._scale * WARM_UP, "warm-up"
        await one_round()
        results = []
        self._share = self._scale
        for turn in range(rounds):
            self._turn = f"round {turn + 1} of {rounds}"
            results.append(await one_round())
        return results

    def _say(self, doing: str) -> None:
        self._progress(f"{doing}, {self._turn}" if self._turn else doing)

    def _url(self) -> str:
        self._files += 1
        return self._store or f"sqlite:///{self._folder / f'bench-{self._files}.db'}"

    def _event(self, name: str) -> str:
        return f"bench-{name}-{self._ids.new()}"

    def _scaled(self, count: int, least: int) -> int:
        return max(least, int(count * self._share))

    # The engine

    async def group_commit(self) -> Result:
        """Single-seat holds through the public API, with group commit and with batches of one."""
        self._say("group commit")
        few, many = self._scaled(4_000, 500), self._scaled(60_000, 5_000)
        single = await self._hold_pace(few, lambda _: 1, batch_max=1)
        grouped = await self._hold_pace(many, lambda _: 1)
        return {
            "holds_per_second": grouped.per_second,
            "p50_ms": grouped.p50_ms,
            "p99_ms": grouped.p99_ms,
            "holds_per_second_batch_of_1": single.per_second,
            "ratio": grouped.per_second / single.per_second,
            "tasks": TASKS,
        }

    async def hot_pool(self) -> Result:
        """A thousand buyers at once on one counter row."""
        self._say("hot pool")
        async with Holdfast.open(self._url(), upkeep=False) as shop:
            pace = await hold_pool(shop, self._event("pool"), self._scaled(30_000, 3_000), TASKS)
        return {
            "holds_per_second": pace.per_second,
            "p50_ms": pace.p50_ms,
            "p99_ms": pace.p99_ms,
            "buyers": TASKS,
        }

    async def refusals(self) -> Result:
        """A crowd that the authority refuses, without the cache: how fast, and what it leaves
        behind in memory."""
        asks = self._scaled(1_000_000, 50_000)
        event = self._event("hot")
        paces = []
        async with Holdfast.open(self._url(), upkeep=False, refusal_cache=False) as shop:
            await new_event(shop, event, 1)
            await shop.place_hold(event, buyer="first", seats=["A-1-1"])
            await refuse(shop, event, min(asks, 50_000))
            before = resident_bytes()
            started = time.perf_counter()
            for done in range(0, asks, 50_000):
                self._say(f"refusals, {done:,} of {asks:,}")
                paces.append(await refuse(shop, event, min(50_000, asks - done)))
            elapsed = time.perf_counter() - started
            grown = resident_bytes() - before
        return {
            "refusals_per_second": asks / elapsed,
            "p99_ms": statistics.median(pace.p99_ms for pace in paces),
            "memory_growth_mb": max(0.0, grown / 1e6),
            "refused": asks,
        }

    async def processes(self) -> Result:
        """Four processes that write the same store: does each get its share?"""
        self._say("four writing processes")
        seconds = max(1.0, 5.0 * self._share)
        writers = await self._writers(seconds, rate=0)
        held = [writer.held for writer in writers]
        return {
            "holds_per_second": sum(held) / seconds,
            "p99_ms": percentile(latencies(writers), 0.99),
            "largest_to_smallest": max(held) / max(1, min(held)),
            "shares": [round(each / sum(held), 3) for each in held],
            "processes": PROCESSES,
        }

    async def best_available(self) -> Result:
        """The choice of 1 to 10 seats together in a house of 60,000, at three degrees of sold."""
        result: Result = {"seats": 60_000}
        for percent in (0, 50, 98):
            self._say(f"best available, {percent} % sold")
            first, later = choice_millis(percent, self._scaled(200, 20))
            result[f"first_choice_worst_ms_{percent}_percent_sold"] = max(first)
            result[f"choice_p50_ms_{percent}_percent_sold"] = statistics.median(later)
            result[f"choice_worst_ms_{percent}_percent_sold"] = max(later)
        return result

    # The stores

    async def baskets(self) -> Result:
        """Holds of 1 to 4 seats and of one, against the best that one guarded update and insert for
        each seat, in a transaction of its own, can do over 1 to 32 connections."""
        if self._store is None:
            raise SettingsError("baskets compares with a database: name one with --store")
        self._say("baskets of 1 to 4 seats")
        holds = self._scaled(30_000, 3_000)
        connections, alone = await baseline.best_rate(self._store, max(0.3, 1.5 * self._share))
        basket = (await self._hold_pace(holds, lambda nth: nth % 4 + 1)).per_second
        single = (await self._hold_pace(holds, lambda _: 1)).per_second
        return {
            "holds_per_second": basket,
            "seats_per_second": basket * 2.5,
            "single_seat_holds_per_second": single,
            "one_transaction_for_each_seat_per_second": alone,
            "ratio_of_seats": basket * 2.5 / alone,
            "ratio_of_single_seat_holds": single / alone,
            "connections_of_the_best": connections,
        }

    async def paced(self) -> Result:
        """Four processes on one event, together at a steady 4,000 holds a second: how long each
        hold takes. On a server with a slow flush this shows what early lock release is for."""
        self._say(f"four processes at {PACED_HOLDS_PER_SECOND:,} holds a second")
        seconds = max(2.0, 8.0 * self._share)
        writers = await self._writers(seconds, PACED_HOLDS_PER_SECOND // PROCESSES, shared=True)
        taken = latencies(writers)
        return {
            "holds_per_second": len(taken) / seconds,
            "p50_ms": percentile(taken, 0.5),
            "p99_ms": percentile(taken, 0.99),
        }

    async def _writers(self, seconds: float, rate: int, shared: bool = False) -> list[Written]:
        url, seats = self._url(), 200_000
        names = [self._event("shared")] * PROCESSES if shared else []
        names = names or [self._event(f"share{nth}") for nth in range(PROCESSES)]
        async with Holdfast.open(url, upkeep=False) as shop:
            for name in dict.fromkeys(names):
                await new_event(shop, name, seats)
        parts = [range(nth, seats, PROCESSES) for nth in range(PROCESSES)]
        return await asyncio.to_thread(run_writers, url, names, parts, seconds, rate)

    async def large_event(self) -> Result:
        """Hold and release in a small event and in one a hundred times as large, in turns."""
        url, events = await self._events_of_two_sizes()
        pace = []
        async with Holdfast.open(url, upkeep=False) as shop:
            for seats, event in events.items():
                self._say(f"hold and release among {seats:,}")
                await hold_and_release(shop, event, seats, TASKS)
                pairs = self._scaled(PAIRS, TASKS)
                pace.append(await hold_and_release(shop, event, seats, pairs))
        small, large = pace
        return {
            "pairs_per_second_small": small,
            "pairs_per_second_large": large,
            "ratio": large / small,
            "small_seats": min(events),
            "large_seats": max(events),
        }

    async def _events_of_two_sizes(self) -> tuple[str, dict[int, str]]:
        """Made once: the large one takes its time."""
        if self._sized is None:
            url, sizes = self._url(), [max(1_000, int(n * self._scale)) for n in (10_000, 10**6)]
            events = {seats: self._event("size") for seats in sizes}
            async with Holdfast.open(url, upkeep=False) as shop:
                for seats, event in events.items():
                    self._say(f"an event of {seats:,} seats is being made")
                    await new_event(shop, event, seats)
            self._sized = url, events
        return self._sized

    async def long_log(self) -> Result:
        """Hold and release in an event with a short log and in one with ten million facts."""
        if self._store is None or not self._store.startswith("postgres"):
            raise SettingsError("long_log fills a PostgreSQL log: name one with --store")
        facts = max(100_000, int(10_000_000 * self._scale))
        pace = []
        async with Holdfast.open(self._store, upkeep=False) as shop:
            for name, rows in (("short", 10_000), ("long", facts)):
                event = await self._event_with_log(self._store, shop, name, rows)
                self._say(f"hold and release with a {name} log")
                await hold_and_release(shop, event, 10_000, TASKS)
                pairs = self._scaled(PAIRS, TASKS)
                pace.append(await hold_and_release(shop, event, 10_000, pairs))
        short, long = pace
        return {
            "pairs_per_second_short_log": short,
            "pairs_per_second_long_log": long,
            "ratio": long / short,
            "facts": facts,
        }

    async def _event_with_log(self, url: str, shop: Holdfast, name: str, facts: int) -> str:
        if name not in self._logs:
            event = self._event(name)
            await new_event(shop, event, 10_000)
            self._say(f"the {name} log is being filled")
            await baseline.fill_log(url, event, facts)
            self._logs[name] = event
        return self._logs[name]

    # The gate

    async def gate(self) -> Result:
        """A hot seat with gate and refusal cache against neither; holds under each policy."""
        if self._gate is None:
            raise SettingsError("gate measures a gate: name one with --gate redis://host:port/0")
        await self._ask_gate(self._gate)
        self._say("gate")
        holds, asks = self._scaled(20_000, 2_000), self._scaled(100_000, 10_000)
        none: dict[str, Any] = {"gate": "none", "policy": "authority"}
        gated = {"gate": self._gate, "gate_timeout_ms": 1_000}
        setups = {
            "authority": none,
            "two_layer": {**gated, "policy": "two-layer"},
            "gate": {**gated, "policy": "gate"},
        }
        slow = await self._refusal_rate(asks, **none, refusal_cache=False)
        fast = await self._refusal_rate(asks, **setups["two_layer"])
        rates = {
            name: (await self._hold_pace(holds, lambda _: 1, **settings)).per_second
            for name, settings in setups.items()
        }
        return {
            "refusals_per_second_without": slow,
            "refusals_per_second_with_gate_and_cache": fast,
            "ratio_of_refusals": fast / slow,
            **{f"holds_per_second_{name}": each for name, each in rates.items()},
            "two_layer_to_authority": rates["two_layer"] / rates["authority"],
            "gate_to_two_layer": rates["gate"] / rates["two_layer"],
        }

    async def _ask_gate(self, url: str) -> None:
        """A gate that does not answer would be passed by, and its figures would be nobody's."""
        gate = make_gate(Settings(gate=url))
        if gate is None:
            raise SettingsError("gate measures a gate: name one with --gate redis://host:port/0")
        await gate.open()
        try:
            await gate.snapshot("-")
        finally:
            await gate.close()

    async def _refusal_rate(self, asks: int, **settings: Any) -> float:
        event = self._event("hot")
        async with Holdfast.open(self._url(), upkeep=False, **settings) as shop:
            await new_event(shop, event, 1)
            await shop.place_hold(event, buyer="first", seats=["A-1-1"])
            await refuse(shop, event, 5 * TASKS)
            return (await refuse(shop, event, asks)).per_second

    async def _hold_pace(self, holds: int, seats_of: Callable[[int], int], **settings: Any) -> Pace:
        """Holds by a thousand tasks at once; the n-th of `seats_of(n)` seats."""
        event = self._event("rate")
        async with Holdfast.open(self._url(), upkeep=False, **settings) as shop:
            await new_event(shop, event, sum(seats_of(nth) for nth in range(holds)))
            seats = seat_ids(10**9)
            asks = [[next(seats) for _ in range(seats_of(nth))] for nth in range(holds)]

            async def hold(buyer: str, ask: list[str]) -> None:
                outcome = await shop.place_hold(event, buyer=buyer, seats=ask)
                assert isinstance(outcome, Placed), outcome

            return await stampede(asks, hold)

    # The service, and what follows it

    async def http(self) -> Result:
        """`holdfast serve` under wrk, against an empty handler on the same server."""
        self._say("holds over HTTP")
        measured = Http(self._url(), self._gate, self._folder, 5 * self._share)
        return await asyncio.to_thread(measured.measure, 1)

    async def checkout(self) -> Result:
        """Hold, then order, over HTTP with the sandbox in process; and holds alone."""
        self._say("checkouts over HTTP")
        measured = Http(self._url(), self._gate, self._folder, 5 * self._share)
        return await asyncio.to_thread(measured.checkouts, 1)

    async def relay(self) -> Result:
        """Facts to a broker: how fast, how late, from which source, by how many processes."""
        return await Relaying(self._store, self._broker, self._say, self._share).measure()

    async def live(self) -> Result:
        """Frames to those who watch: how many, how late, and what they cost the holds."""
        self._say("the live map")
        event = self._event("live")
        async with Holdfast.open(self._url(), upkeep=False) as shop:
            return await Watching(shop, event, self._share).measure()

    async def watchers(self) -> Result:
        """WebSockets on one event of a server: whether each is told all, and what it costs."""
        self._say("watchers of a live map")
        measured = Watched(self._url(), self._share)
        return await asyncio.to_thread(measured.measure)

    async def pages(self) -> Result:
        """The seat map in Chromium: the first picture, dragging, and seats that change."""
        self._say("the pages in Chromium")
        return await Pages(self._url(), self._share).measure()

    # The rivals

    async def neveroversell(self) -> Result:
        """One hot resource: its holds and ours, on the same server."""
        if self._store is None or not self._store.startswith("postgres"):
            raise SettingsError("neveroversell works on PostgreSQL: name one with --store")
        if self._rival is None:
            self._say("neveroversell is being installed into an environment of its own")
            self._rival = await asyncio.to_thread(Neveroversell, self._store, self._folder)
        return await self._rival.measure(self._say, self._share)

    async def granian(self) -> Result:
        """A handler that does nothing, there and on our server; and holds."""
        if self._store is None or not self._store.startswith("postgres"):
            raise SettingsError("holds over HTTP are compared on PostgreSQL: name one with --store")
        if self._granian is None:
            self._say("granian is being installed into an environment of its own")
            self._granian = await asyncio.to_thread(Granian, self._folder)
        self._say("a handler that does nothing, on Granian and here, and holds")
        http = Http(self._store, self._gate, self._folder, 5 * self._share)
        return await asyncio.to_thread(self._granian.measure, http)


EMBEDDED = ("group_commit", "refusals", "processes", "hot_pool", "best_available")
DATABASE = (
    *("baskets", "hot_pool", "group_commit", "refusals", "processes", "paced"),
    *("large_event", "best_available"),
)


def ground_of(store: str | None) -> str:
    """What the store at that address is called among figures."""
    kind = (store or "sqlite:").partition(":")[0].partition("+")[0]
    return {"postgres": POSTGRES, "mysql": MARIADB, "sqlite": SQLITE}.get(kind, kind)


def measurements(store: str | None, gate: str | None, broker: str | None) -> list[str]:
    """What is measured where nothing is named."""
    embedded = store is None or store.startswith(("sqlite:", "memory:"))
    named = {"gate": gate, "relay": broker}
    return [*(EMBEDDED if embedded else DATABASE), *(name for name, url in named.items() if url)]


def resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as pages:
        return int(pages.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def choice_millis(percent: int, choices: int) -> tuple[list[float], list[float]]:
    """How long a choice takes: the first of each size, which builds its index, and the later."""
    chance = random.Random(percent)
    plans = [
        SeatPlan(f"A-{row}-{nth}", "A", str(row), nth, "any", float(nth), float(row))
        for row in range(1, 601)
        for nth in range(1, 101)
    ]
    house = House(plans, Ranking.ROWS)
    for plan in plans:
        if chance.random() * 100 < percent:
            house.set(plan.id, FOREVER_MS)
    first: list[float] = []
    later: list[float] = []
    for quantity in range(1, 11):
        for nth in range(choices // 10 + 1):
            started = time.perf_counter()
            chosen = house.choose(Best(quantity), (), 0)
            (later if nth else first).append((time.perf_counter() - started) * 1000)
            for seat in chosen if isinstance(chosen, list) else ():
                house.set(seat, FOREVER_MS)
    return first, later


def latencies(writers: Iterable[Written]) -> list[float]:
    """Of all of them, in order."""
    return sorted(latency for writer in writers for latency in writer.latencies_ms)
