"""A process that holds seats of an event as fast as it can: `python -m holdfast.lab.writer`.

It prints `ready`, waits for a line, writes for so many seconds, and prints how many it held.
"""

import asyncio
import sys
import time

from holdfast.domain.outcomes import Placed
from holdfast.engine import Holdfast
from holdfast.lab.bench import seat_ids

TASKS = 250
SEATS = 200_000


async def write(url: str, event: str, seconds: float) -> int:
    held = 0
    seats = seat_ids(SEATS)
    async with Holdfast.open(url, upkeep=False) as shop:
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        until = time.monotonic() + seconds

        async def buyer(name: str) -> None:
            nonlocal held
            for seat in seats:
                if time.monotonic() >= until:
                    return
                outcome = await shop.place_hold(event, buyer=name, seats=[seat])
                held += isinstance(outcome, Placed)

        await asyncio.gather(*(buyer(f"u{task}") for task in range(TASKS)))
    return held


if __name__ == "__main__":
    print(asyncio.run(write(sys.argv[1], sys.argv[2], float(sys.argv[3]))))
