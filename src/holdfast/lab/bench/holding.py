"""Crowds of tasks in one process that hold, are refused and release: what the bench is made of."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

from holdfast.domain.outcomes import Created, Placed, Refused, Released
from holdfast.engine import Holdfast
from holdfast.lab.bench.figures import percentile

TASKS = 1_000
ROW = 100
PAIRS = 10_000

T = TypeVar("T")


class Pace(NamedTuple):
    """How a crowd was served."""

    per_second: float
    p50_ms: float
    p99_ms: float


async def stampede(
    asks: Iterable[T], ask: Callable[[str, T], Awaitable[None]], tasks: int = TASKS
) -> Pace:
    """All asks, by so many tasks at once, each one after the other."""
    waiting, taken = iter(asks), []

    async def buyer(name: str) -> None:
        for each in waiting:
            began = time.perf_counter()
            await ask(name, each)
            taken.append(time.perf_counter() - began)

    started = time.perf_counter()
    await asyncio.gather(*(buyer(f"u{task}") for task in range(tasks)))
    elapsed = time.perf_counter() - started
    taken.sort()
    p50, p99 = (percentile(taken, share) * 1000 for share in (0.5, 0.99))
    return Pace(len(taken) / elapsed, p50, p99)


async def refuse(shop: Holdfast, event: str, asks: int) -> Pace:
    async def ask(buyer: str, nth: int) -> None:
        outcome = await shop.place_hold(event, buyer=buyer, seats=["A-1-1"])
        assert isinstance(outcome, Refused), outcome

    return await stampede(range(asks), ask)


async def hold_pool(shop: Holdfast, event: str, units: int, tasks: int = TASKS) -> Pace:
    """All units of one pool of a new event, one by one."""
    pool = {"id": "stock", "capacity": units, "tier": "any"}
    await shop.create_event({"id": event, "prices": {"any": 100}, "pools": [pool]})

    async def hold(buyer: str, nth: int) -> None:
        outcome = await shop.place_hold(event, buyer=buyer, pools={"stock": 1})
        assert isinstance(outcome, Placed), outcome

    return await stampede(range(units), hold, tasks)


async def hold_and_release(shop: Holdfast, event: str, seats: int, pairs: int = PAIRS) -> float:
    """Pairs of a hold and its release a second, on seats all over the event."""
    chance = random.Random(event)

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
    return pairs // TASKS * TASKS / (time.perf_counter() - started)


async def new_event(shop: Holdfast, event: str, seats: int) -> None:
    rows = -(-seats // ROW)
    section = {"id": "A", "tier": "any", "rows": rows, "seats_per_row": min(ROW, seats)}
    created = await shop.create_event({"id": event, "prices": {"any": 100}, "sections": [section]})
    assert isinstance(created, Created), created


def seat_ids(count: int) -> Iterator[str]:
    for nth in range(count):
        yield f"A-{nth // ROW + 1}-{nth % ROW + 1}"
