"""What this machine can do: each figure with the control it is compared with, in one run.

Machines are noisy, so what counts are ratios: the two sides of a ratio are measured in turns.
"""

import asyncio
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from holdfast.domain.model import FOREVER_MS, Best, Ranking, SeatPlan
from holdfast.domain.outcomes import Created, Placed, Refused, Released
from holdfast.domain.seating import House
from holdfast.engine import Holdfast
from holdfast.errors import SettingsError
from holdfast.ids import Ids
from holdfast.lab import baseline
from holdfast.lab.crowd import run_writers
from holdfast.lab.http import Http
from holdfast.lab.relaying import Relaying
from holdfast.settings import Settings
from holdfast.wiring import make_gate

TASKS = 1_000
ROUNDS = 3
ROW = 100
PROCESSES = 4
PACED_HOLDS_PER_SECOND = 4_000

Progress = Callable[[str], None]
Result = dict[str, Any]  # figures by name, ready for JSON


class Bench:
    """Each method is one measurement; `scale` 1.0 is the whole of it, less is a trial. Without a
    store it runs on SQLite files in the folder; in a store, every event it makes is a new one."""

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
        self._ids = Ids()
        self._files = 0

    def _url(self) -> str:
        self._files += 1
        return self._store or f"sqlite:///{self._folder / f'bench-{self._files}.db'}"

    def _event(self, name: str) -> str:
        return f"bench-{name}-{self._ids.new()}"

    def _scaled(self, count: int, least: int) -> int:
        return max(least, int(count * self._scale))

    async def group_commit(self) -> Result:
        """Single-seat holds through the public API, with group commit and with batches of one."""
        grouped, single = [], []
        few, many = self._scaled(4_000, 500), self._scaled(60_000, 5_000)
        for turn in range(ROUNDS):
            self._progress(f"group commit, round {turn + 1} of {ROUNDS}")
            single.append(await self._hold_rate(few, lambda _: 1, batch_max=1))
            grouped.append(await self._hold_rate(many, lambda _: 1))
        ratios = [many / one for many, one in zip(grouped, single, strict=True)]
        return {
            "holds_per_second": round(statistics.median(grouped)),
            "holds_per_second_batch_of_1": round(statistics.median(single)),
            "ratio": round(statistics.median(ratios), 1),
            "tasks": TASKS,
        }

    async def baskets(self) -> Result:
        """Holds of 1 to 4 seats and of one, against the best that one guarded update and insert for
        each seat, in a transaction of its own, can do over 1 to 32 connections."""
        holds = self._scaled(30_000, 3_000)
        baskets, singles, control = [], [], []
        for turn in range(ROUNDS):
            self._progress(f"baskets of 1 to 4 seats, round {turn + 1} of {ROUNDS}")
            baskets.append(await self._hold_rate(holds, lambda nth: nth % 4 + 1))
            singles.append(await self._hold_rate(holds, lambda _: 1))
            control.append(await self._baseline())
        connections, best = max(control, key=lambda each: each[1])
        basket, single = statistics.median(baskets), statistics.median(singles)
        return {
            "holds_per_second": round(basket),
            "seats_per_second": round(basket * 2.5),
            "single_seat_holds_per_second": round(single),
            "one_transaction_for_each_seat_per_second": round(best),
            "connections_of_the_best": connections,
            "ratio_of_seats": round(basket * 2.5 / best, 1),
            "ratio_of_single_seat_holds": round(single / best, 1),
        }

    async def _baseline(self) -> tuple[int, float]:
        if self._store is None:
            raise SettingsError("baskets compares with a database: name one with --store")
        seconds = max(0.3, 1.5 * self._scale)
        return await baseline.best_rate(self._store, seconds)

    async def hot_pool(self) -> Result:
        """A thousand buyers at once on one counter row."""
        self._progress("hot pool")
        holds = self._scaled(30_000, 3_000)
        event = self._event("pool")
        async with Holdfast.open(self._url(), upkeep=False) as shop:
            pool = {"id": "stock", "capacity": 10 * holds, "tier": "any"}
            await shop.create_event({"id": event, "prices": {"any": 100}, "pools": [pool]})
            asks = iter(range(holds))

            async def buyer(name: str) -> None:
                for _ in asks:
                    outcome = await shop.place_hold(event, buyer=name, pools={"stock": 1})
                    assert isinstance(outcome, Placed), outcome

            started = time.perf_counter()
            await asyncio.gather(*(buyer(f"u{task}") for task in range(TASKS)))
            elapsed = time.perf_counter() - started
        return {"holds_per_second": round(holds / elapsed), "buyers": TASKS}

    async def refusals(self) -> Result:
        """A crowd that the authority refuses, without the cache: how fast, and what it leaves
        behind in memory."""
        asks = self._scaled(1_000_000, 50_000)
        event = self._event("hot")
        async with Holdfast.open(self._url(), upkeep=False, refusal_cache=False) as shop:
            await new_event(shop, event, 1)
            await shop.place_hold(event, buyer="first", seats=["A-1-1"])
            await refuse(shop, event, min(asks, 50_000))
            before = resident_bytes()
            started = time.perf_counter()
            for done in range(0, asks, 50_000):
                self._progress(f"refusals, {done:,} of {asks:,}")
                await refuse(shop, event, min(50_000, asks - done))
            elapsed = time.perf_counter() - started
            grown = resident_bytes() - before
        return {
            "refused": asks,
            "refusals_per_second": round(asks / elapsed),
            "memory_growth_mb": round(grown / 1e6, 2),
        }

    async def processes(self) -> Result:
        """Four processes that write the same store: does each get its share?"""
        self._progress("four writing processes")
        seconds = max(1.0, 5.0 * self._scale)
        held = [writer.held for writer in await self._writers(seconds, rate=0)]
        return {
            "processes": PROCESSES,
            "holds_per_second": round(sum(held) / seconds),
            "shares": [round(each / sum(held), 3) for each in held],
            "largest_to_smallest": round(max(held) / max(1, min(held)), 2),
        }

    async def paced(self) -> Result:
        """Four processes on one event, together at a steady 4,000 holds a second: how long each
        hold takes. On a server with a slow flush this shows what early lock release is for."""
        self._progress(f"four processes at {PACED_HOLDS_PER_SECOND} holds a second")
        seconds = max(2.0, 8.0 * self._scale)
        writers = await self._writers(seconds, PACED_HOLDS_PER_SECOND // PROCESSES, shared=True)
        latencies = sorted(latency for writer in writers for latency in writer.latencies_ms)
        return {
            "holds_per_second": round(len(latencies) / seconds),
            "p50_ms": round(latencies[len(latencies) // 2], 1),
            "p99_ms": round(latencies[len(latencies) * 99 // 100], 1),
        }

    async def _writers(self, seconds: float, rate: int, shared: bool = False) -> list[Any]:
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
        sizes = (self._scaled(10_000, 1_000), self._scaled(1_000_000, 1_000))
        rates: dict[int, list[float]] = {seats: [] for seats in sizes}
        async with Holdfast.open(self._url(), upkeep=False) as shop:
            events = {seats: self._event("size") for seats in sizes}
            for seats, event in events.items():
                self._progress(f"an event of {seats:,} seats is being made")
                await new_event(shop, event, seats)
            for turn in range(ROUNDS):
                for seats, event in events.items():
                    self._progress(f"hold and release among {seats:,}, round {turn + 1}")
                    rates[seats].append(await hold_and_release(shop, event, seats))
        small, large = (statistics.median(each) for each in rates.values())
        return {
            f"pairs_per_second_of_{sizes[0]:,}": round(small),
            f"pairs_per_second_of_{sizes[1]:,}": round(large),
            "ratio": round(large / small, 2),
        }

    async def long_log(self) -> Result:
        """Hold and release in an event with a short log and in one with ten million facts."""
        if self._store is None or not self._store.startswith("postgres"):
            raise SettingsError("long_log fills a PostgreSQL log: name one with --store")
        facts = self._scaled(10_000_000, 100_000)
        rates: dict[str, list[float]] = {"short": [], "long": []}
        async with Holdfast.open(self._store, upkeep=False) as shop:
            events = {name: self._event(name) for name in rates}
            for event in events.values():
                await new_event(shop, event, 10_000)
            for name, event in events.items():
                self._progress(f"the {name} log is being filled")
                rows = facts if name == "long" else 10_000
                await baseline.fill_log(self._store, event, rows)
            for turn in range(ROUNDS):
                for name, event in events.items():
                    self._progress(f"hold and release with a {name} log, round {turn + 1}")
                    rates[name].append(await hold_and_release(shop, event, 10_000))
        short, long = (statistics.median(each) for each in rates.values())
        return {
            "facts": facts,
            "pairs_per_second_short_log": round(short),
            "pairs_per_second_long_log": round(long),
            "ratio": round(long / short, 2),
        }

    async def best_available(self) -> Result:
        """The choice of 1 to 10 seats together in a house of 60,000, at three degrees of sold."""
        result: Result = {"seats": 60_000}
        for percent in (0, 50, 98):
            self._progress(f"best available, {percent} % sold")
            first, later = choice_millis(percent, self._scaled(200, 20))
            result[f"first_choice_worst_ms_{percent}_percent_sold"] = round(max(first), 3)
            result[f"choice_p50_ms_{percent}_percent_sold"] = round(statistics.median(later), 3)
            result[f"choice_worst_ms_{percent}_percent_sold"] = round(max(later), 3)
        return result

    async def gate(self) -> Result:
        """A hot seat with gate and refusal cache against neither; holds under each policy."""
        if self._gate is None:
            raise SettingsError("gate measures a gate: name one with --gate redis://host:port/0")
        await self._ask_gate(self._gate)
        holds, asks = self._scaled(20_000, 2_000), self._scaled(100_000, 10_000)
        none: dict[str, Any] = {"gate": "none", "policy": "authority"}
        gated = {"gate": self._gate, "gate_timeout_ms": 1_000}
        setups = {
            "authority": none,
            "two_layer": {**gated, "policy": "two-layer"},
            "gate": {**gated, "policy": "gate"},
        }
        rates: dict[str, list[float]] = {name: [] for name in setups}
        bare, refused = [], []
        for turn in range(ROUNDS):
            self._progress(f"gate, round {turn + 1} of {ROUNDS}")
            bare.append(await self._refusal_rate(asks, **none, refusal_cache=False))
            refused.append(await self._refusal_rate(asks, **setups["two_layer"]))
            for name, settings in setups.items():
                rates[name].append(await self._hold_rate(holds, lambda _: 1, **settings))
        medians = {name: statistics.median(each) for name, each in rates.items()}
        slow, fast = statistics.median(bare), statistics.median(refused)
        return {
            "refusals_per_second_without": round(slow),
            "refusals_per_second_with_gate_and_cache": round(fast),
            "ratio_of_refusals": round(fast / slow, 1),
            **{f"holds_per_second_{name}": round(each) for name, each in medians.items()},
            "two_layer_to_authority": round(medians["two_layer"] / medians["authority"], 2),
            "gate_to_two_layer": round(medians["gate"] / medians["two_layer"], 2),
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
            started = time.perf_counter()
            await refuse(shop, event, asks)
            return asks / (time.perf_counter() - started)

    async def _hold_rate(
        self, holds: int, seats_of: Callable[[int], int], **settings: Any
    ) -> float:
        """Holds a second, by a thousand tasks at once; the n-th of `seats_of(n)` seats."""
        event = self._event("rate")
        async with Holdfast.open(self._url(), upkeep=False, **settings) as shop:
            await new_event(shop, event, sum(seats_of(nth) for nth in range(holds)))
            seats = seat_ids(10**9)
            asks = iter([[next(seats) for _ in range(seats_of(nth))] for nth in range(holds)])

            async def buyer(name: str) -> None:
                for ask in asks:
                    outcome = await shop.place_hold(event, buyer=name, seats=ask)
                    assert isinstance(outcome, Placed), outcome

            started = time.perf_counter()
            await asyncio.gather(*(buyer(f"u{task}") for task in range(TASKS)))
            return holds / (time.perf_counter() - started)

    async def http(self) -> Result:
        """`holdfast serve` under wrk, against an empty handler on the same server."""
        self._progress("holds over HTTP")
        measured = Http(self._url(), self._gate, self._folder, 5 * self._scale)
        rounds = ROUNDS if self._scale >= 1 else 1
        return await asyncio.to_thread(measured.measure, rounds)

    async def checkout(self) -> Result:
        """Hold, then order, over HTTP with the sandbox in process; and holds alone."""
        self._progress("checkouts over HTTP")
        measured = Http(self._url(), self._gate, self._folder, 5 * self._scale)
        rounds = ROUNDS if self._scale >= 1 else 1
        return await asyncio.to_thread(measured.checkouts, rounds)

    async def relay(self) -> Result:
        """Facts to a broker: how fast, how late, from which source, by how many processes."""
        return await Relaying(self._store, self._broker, self._progress, self._scale).measure()


EMBEDDED = ("group_commit", "refusals", "processes", "hot_pool", "best_available")
DATABASE = (
    *("baskets", "hot_pool", "group_commit", "refusals", "processes", "paced"),
    *("large_event", "best_available"),
)
EXTRA = ("long_log", "gate", "http", "checkout", "relay")
"""Only when asked for: by name, for one writes gigabytes and two need wrk; or by naming a gate or a
broker."""


def measurements(store: str | None, gate: str | None, broker: str | None) -> list[str]:
    embedded = store is None or store.startswith(("sqlite:", "memory:"))
    named = {"gate": gate, "relay": broker}
    return [*(EMBEDDED if embedded else DATABASE), *(name for name, url in named.items() if url)]


async def refuse(shop: Holdfast, event: str, asks: int) -> None:
    async def buyer(name: str) -> None:
        for _ in range(asks // TASKS):
            outcome = await shop.place_hold(event, buyer=name, seats=["A-1-1"])
            assert isinstance(outcome, Refused), outcome

    await asyncio.gather(*(buyer(f"u{task}") for task in range(TASKS)))


async def hold_and_release(shop: Holdfast, event: str, seats: int) -> float:
    """Pairs of a hold and its release a second, on seats all over the event."""
    chance = random.Random(event)
    pairs = 10_000

    async def buyer(task: int) -> None:
        # Every task has seats of its own, so that nobody is refused.
        mine = range(task, seats, TASKS)
        for _ in range(pairs // TASKS):
            nth = chance.choice(mine)
            name = f"A-{nth // ROW + 1}-{nth % ROW + 1}"
            placed = await shop.place_hold(event, buyer=f"u{task}", seats=[name])
            assert isinstance(placed, Placed), placed
            assert isinstance(await shop.release_hold(placed.hold.id), Released)

    started = time.perf_counter()
    await asyncio.gather(*(buyer(task) for task in range(TASKS)))
    return pairs / (time.perf_counter() - started)


async def new_event(shop: Holdfast, event: str, seats: int) -> None:
    rows = -(-seats // ROW)
    section = {"id": "A", "tier": "any", "rows": rows, "seats_per_row": min(ROW, seats)}
    created = await shop.create_event({"id": event, "prices": {"any": 100}, "sections": [section]})
    assert isinstance(created, Created), created


def seat_ids(count: int) -> Iterator[str]:
    for nth in range(count):
        yield f"A-{nth // ROW + 1}-{nth % ROW + 1}"


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
