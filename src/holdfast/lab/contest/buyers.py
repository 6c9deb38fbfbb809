"""A process that buyers come through: `python -m holdfast.lab.contest.buyers`, see `crew.py`.

It reads orders, one JSON value a line. For each it gets ready, prints `ready`, waits for a line,
lets its buyers click, and prints what they met. It ends when nothing more can come.
"""

import asyncio
import gc
import sys
import time
from collections.abc import Awaitable, Callable, Iterator

import msgspec

from holdfast.lab.contest.claims import Claims
from holdfast.lab.contest.databases import Again, Database
from holdfast.lab.contest.field import Counters, Ground, Scenario, Strategy, Want
from holdfast.lab.strategies import STRATEGIES

AGAIN_MAX = 100
"""Times that a database may ask one buyer to try again."""


class Order(msgspec.Struct, frozen=True):
    """What one process does in one run."""

    strategy: str
    scenario: Scenario
    first: int
    """The number of its first buyer."""
    buyers: int
    waiting: int
    """Buyers who wait for an answer at a time."""
    connections: int
    """To the database and to Redis, each."""
    store: str
    """Its address; none where all is in Redis."""
    redis: str | None = None
    event: str = ""


class Failure(msgspec.Struct, tag=True):
    """Instead of counters."""

    text: str


async def said_go() -> None:
    """Says that all is ready, and waits for the word."""
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)


async def rush(
    order: Order,
    counters: Counters | None = None,
    go: Callable[[], Awaitable[None]] = said_go,
) -> Counters:
    """As many at a time as may wait; each is answered before this returns. Whoever gives the
    counters can watch them meanwhile."""
    counters = Counters() if counters is None else counters
    kind = STRATEGIES[order.strategy]
    db, redis = Database(order.store, counters), Claims(order.redis, counters)
    abreast = min(order.connections, order.waiting, order.buyers)
    ground = Ground(order.scenario, counters, db, redis, order.store, order.event, abreast)
    strategy = kind(ground)
    try:
        if kind.name != "group-commit" and kind.stores != ("redis",):
            await db.open(order.connections)
        if kind.uses_redis:
            await redis.open(order.connections)
        await strategy.open()
        numbers = range(order.first, order.first + order.buyers)
        wants = [(f"buyer-{number}", order.scenario.want(number)) for number in numbers]
        await go()
        # As the service does, for every strategy alike: what would be measured else is how Python
        # looks for cycles among ten thousand who wait.
        gc.freeze()
        gc.disable()
        counters.statements = counters.redis_calls = 0
        counters.began_us = _now_us()
        clicks = iter(wants)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(order.waiting, order.buyers)):
                tasks.create_task(serve_clicks(strategy, counters, clicks))
        counters.ended_us = _now_us()
    finally:
        gc.enable()
        gc.unfreeze()
        await strategy.close()
        await redis.close()
        await db.close()
    return counters


async def serve_clicks(
    strategy: Strategy, counters: Counters, clicks: Iterator[tuple[str, Want]]
) -> None:
    """One after the other, those that nobody else serves."""
    for buyer, want in clicks:
        await click(strategy, counters, buyer, want)


async def click(strategy: Strategy, counters: Counters, buyer: str, want: Want) -> None:
    counters.attempts += 1
    asked_us = _now_us()
    try:
        if await tried(strategy, counters, buyer, want):
            counters.bought += want.units
    except Exception as trouble:  # whatever it is, it happened to this buyer alone
        counters.fail(trouble)
    counters.latencies_us.append(_now_us() - asked_us)


async def tried(strategy: Strategy, counters: Counters, buyer: str, want: Want) -> bool:
    """As often as the database asks for it."""
    for _ in range(AGAIN_MAX):
        try:
            return await strategy.buy(buyer, want)
        except Again:
            counters.again()
    counters.gave_up += 1
    return False


async def serve() -> None:
    while line := await asyncio.to_thread(sys.stdin.readline):
        order = msgspec.json.decode(line, type=Order)
        answer: Counters | Failure
        try:
            answer = await rush(order)
        except Exception as trouble:  # told to whoever gave the order, who ends it all
            answer = Failure(f"{type(trouble).__name__}: {trouble}")
        print(msgspec.json.encode(answer).decode(), flush=True)


def _now_us() -> int:
    return time.monotonic_ns() // 1000


if __name__ == "__main__":
    # Here, because whoever only orders needs none.
    import uvloop

    uvloop.run(serve())
