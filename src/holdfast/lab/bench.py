"""What this machine can do: each figure with the control it is compared with, in one run.

Machines are noisy, so what counts are ratios: the two sides of a ratio are measured in turns.
"""

import asyncio
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from holdfast.domain.model import FOREVER_MS, Best, Ranking, SeatPlan
from holdfast.domain.outcomes import Created, Placed, Refused
from holdfast.domain.seating import House
from holdfast.engine import Holdfast

TASKS = 1_000
ROUNDS = 3
ROW = 100

Progress = Callable[[str], None]
Result = dict[str, Any]  # figures by name, ready for JSON


class Bench:
    """Each method is one measurement; `scale` 1.0 is the whole of it, less is a trial."""

    def __init__(self, folder: Path, progress: Progress, scale: float = 1.0) -> None:
        self._folder = folder
        self._progress = progress
        self._scale = scale
        self._files = 0

    def url(self) -> str:
        self._files += 1
        return f"sqlite:///{self._folder / f'bench-{self._files}.db'}"

    def scaled(self, count: int, least: int) -> int:
        return max(least, int(count * self._scale))

    async def group_commit(self) -> Result:
        """Single-seat holds through the public API, with group commit and with batches of one."""
        grouped, single = [], []
        for turn in range(ROUNDS):
            self._progress(f"group commit, round {turn + 1} of {ROUNDS}")
            single.append(await hold_rate(self.url(), self.scaled(4_000, 500), batch_max=1))
            grouped.append(await hold_rate(self.url(), self.scaled(60_000, 5_000)))
        ratios = [many / one for many, one in zip(grouped, single, strict=True)]
        return {
            "holds_per_second": round(statistics.median(grouped)),
            "holds_per_second_batch_of_1": round(statistics.median(single)),
            "ratio": round(statistics.median(ratios), 1),
            "tasks": TASKS,
        }

    async def refusals(self) -> Result:
        """A crowd that is refused: how fast, and what it leaves behind in memory."""
        asks = self.scaled(1_000_000, 50_000)
        async with Holdfast.open(self.url(), upkeep=False) as shop:
            await new_event(shop, "hot", 1)
            await shop.place_hold("hot", buyer="first", seats=["A-1-1"])
            await refuse(shop, min(asks, 50_000))
            before = resident_bytes()
            started = time.perf_counter()
            for done in range(0, asks, 50_000):
                self._progress(f"refusals, {done:,} of {asks:,}")
                await refuse(shop, min(50_000, asks - done))
            elapsed = time.perf_counter() - started
            grown = resident_bytes() - before
        return {
            "refused": asks,
            "refusals_per_second": round(asks / elapsed),
            "memory_growth_mb": round(grown / 1e6, 2),
        }

    async def processes(self) -> Result:
        """Four processes that write the same file: does each get its share?"""
        self._progress("four writing processes on one file")
        url, count = self.url(), 4
        seconds = max(1.0, 5.0 * self._scale)
        async with Holdfast.open(url, upkeep=False) as shop:
            for writer in range(count):
                await new_event(shop, f"share-{writer}", 200_000)
        held = await asyncio.to_thread(run_writers, url, count, seconds)
        return {
            "processes": count,
            "holds_per_second": round(sum(held) / seconds),
            "shares": [round(each / sum(held), 3) for each in held],
            "largest_to_smallest": round(max(held) / max(1, min(held)), 2),
        }

    async def best_available(self) -> Result:
        """The choice of 1 to 10 seats together in a house of 60,000, at three degrees of sold."""
        result: Result = {"seats": 60_000}
        for percent in (0, 50, 98):
            self._progress(f"best available, {percent} % sold")
            first, later = choice_millis(percent, self.scaled(200, 20))
            result[f"first_choice_worst_ms_{percent}_percent_sold"] = round(max(first), 3)
            result[f"choice_p50_ms_{percent}_percent_sold"] = round(statistics.median(later), 3)
            result[f"choice_worst_ms_{percent}_percent_sold"] = round(max(later), 3)
        return result


MEASUREMENTS = ("group_commit", "refusals", "processes", "best_available")


async def hold_rate(url: str, holds: int, **settings: int) -> float:
    """Holds a second of one seat each, by a thousand tasks at once."""
    async with Holdfast.open(url, upkeep=False, **settings) as shop:
        await new_event(shop, "rate", holds)
        seats = seat_ids(holds)

        async def buyer(name: str) -> None:
            for seat in seats:
                outcome = await shop.place_hold("rate", buyer=name, seats=[seat])
                assert isinstance(outcome, Placed), outcome

        started = time.perf_counter()
        await asyncio.gather(*(buyer(f"u{task}") for task in range(TASKS)))
        return holds / (time.perf_counter() - started)


async def refuse(shop: Holdfast, asks: int) -> None:
    async def buyer(name: str) -> None:
        for _ in range(asks // TASKS):
            outcome = await shop.place_hold("hot", buyer=name, seats=["A-1-1"])
            assert isinstance(outcome, Refused), outcome

    await asyncio.gather(*(buyer(f"u{task}") for task in range(TASKS)))


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


def run_writers(url: str, count: int, seconds: float) -> list[int]:
    """Starts the writers, lets them begin together, and returns how much each has held."""
    command = [sys.executable, "-m", "holdfast.lab.writer", url]
    writers = [
        subprocess.Popen(
            [*command, f"share-{nth}", str(seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for nth in range(count)
    ]
    held = []
    for writer in writers:
        assert writer.stdout is not None
        writer.stdout.readline()
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        out, _ = writer.communicate(timeout=seconds + 60)
        held.append(int(out.split()[-1]))
    return held


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
