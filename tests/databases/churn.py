"""One process that takes pairs and gives them back, for a while.

    python -m tests.databases.churn SECONDS URL NAME

It says `ready`, waits for a line, runs, and ends with one line of JSON: what its buyers were told.
"""

import asyncio
import sys
import time
from collections import Counter

import msgspec

from holdfast import Placed
from tests.contract.helpers import said
from tests.databases.shops import E1, shop_at

TASKS = 3
"""Each has one pair at a time at most."""


async def churn(seconds: float, url: str, name: str) -> dict[str, int]:
    answers: Counter[str] = Counter()
    async with shop_at(url) as shop:

        async def buyer(number: int) -> None:
            while time.monotonic() < until:
                outcome = await shop.place_hold(E1, buyer=f"{name}-{number}", best=2)
                answers[said(outcome)] += 1
                if isinstance(outcome, Placed):
                    await shop.release_hold(outcome.hold.id)

        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        until = time.monotonic() + seconds
        await asyncio.gather(*map(buyer, range(TASKS)))
    return dict(answers)


if __name__ == "__main__":
    seconds, url, name = sys.argv[1:]
    print(msgspec.json.encode(asyncio.run(churn(float(seconds), url, name))).decode())
