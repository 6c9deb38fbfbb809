"""One process of a crowd: 250 buyers who all ask at the same moment.

    python -m tests.databases.crowd KIND BATCH_MAX URL NAME

It says `ready` when everything is open, waits for a line, lets its buyers run, and ends with one
line of JSON: what they were told.
"""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from holdfast import Confirmed, Placed
from tests.contract.helpers import said
from tests.databases.kinds import DATABASES, Session
from tests.databases.shops import E1, shop_at

TASKS = 250
NAIVE_SEATS = 25
"""More than one, so that the race has more than one moment to be lost in."""
LINES = 8
"""Connections of the naive shop, as many as a store's pool has."""


class Told(msgspec.Struct):
    answers: dict[str, int]
    """How many buyers got which answer, in the words of the tables of outcomes."""
    errors: dict[str, int]
    first_refusal_ms: int | None
    """When the first buyer was refused, by the clock that this machine's database shares."""


ASKS: dict[str, Callable[[int], dict[str, Any]]] = {
    "one-seat": lambda n: {"seats": ["A-1-1"]},
    "five-seats": lambda n: {"seats": [f"A-1-{n % 5 + 1}"]},
    "one-pool": lambda n: {"pools": {"floor": 1}},
    "pairs": lambda n: {"best": 2},
}


async def crowd(kind: str, batch_max: int, url: str, name: str) -> Told:
    """Everybody holds, and whoever holds buys."""
    answers: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    refused_ms: list[int] = []
    async with shop_at(url, upkeep=True, batch_max=batch_max) as shop:

        async def buyer(number: int) -> None:
            try:
                outcome: Any = await shop.place_hold(
                    E1, buyer=f"{name}-{number}", **ASKS[kind](number)
                )
                if isinstance(outcome, Placed):
                    outcome = await shop.confirm_hold(outcome.hold.id, buyer=f"{name}-{number}")
                if not isinstance(outcome, Confirmed):
                    refused_ms.append(time.time_ns() // 1_000_000)
                answers[said(outcome)] += 1
            except Exception as trouble:  # whatever it is, the test wants to see it
                errors[repr(trouble)] += 1

        await together(buyer)
    return Told(answers, errors, min(refused_ms, default=None))


async def naive_crowd(url: str, name: str) -> Told:
    """The control: each buyer looks first and writes after, on the table `naive`."""
    database = DATABASES["postgres" if url.startswith("postgres") else "mysql"]
    answers: Counter[str] = Counter()
    async with database.sessions(url, LINES) as sessions:
        idle: asyncio.Queue[Session] = asyncio.Queue()
        for session in sessions:
            idle.put_nowait(session)

        async def buyer(number: int) -> None:
            session = await idle.get()
            seat = number * NAIVE_SEATS // TASKS  # neighbours in the queue want the same seat
            [(sold,)] = await session.rows(f"SELECT COUNT(*) FROM naive WHERE seat = {seat}")
            if not sold:
                await session.execute(f"INSERT INTO naive VALUES ({seat}, '{name}-{number}')")
            answers["no.taken" if sold else "confirmed"] += 1
            idle.put_nowait(session)

        await together(buyer)
    return Told(answers, {}, None)


async def together(buyer: Callable[[int], Coroutine[Any, Any, None]]) -> None:
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await asyncio.gather(*map(buyer, range(TASKS)))


if __name__ == "__main__":
    kind, batch_max, *where = sys.argv[1:]
    told = naive_crowd(*where) if kind == "naive" else crowd(kind, int(batch_max), *where)
    print(msgspec.json.encode(asyncio.run(told)).decode())
