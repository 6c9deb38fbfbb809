"""A process that sells at a steady rate: `python -m holdfast.lab.bench.sales FIRST RATE SECONDS`.

It reads the store's address, and prints how many it sold. Each sale is one fact.
"""

import asyncio
import sys

from holdfast.domain.outcomes import Confirmed, Created
from holdfast.engine import Holdfast
from holdfast.ids import Ids

EVENTS = 50
POOL = {"id": "floor", "capacity": 1_000_000, "tier": "any"}


async def make_events(url: str) -> list[str]:
    """New events on sale, with names that begin alike."""
    prefix = f"bench-sales-{Ids().new()}"
    async with Holdfast.open(url, upkeep=False) as shop:
        names = [f"{prefix}-{nth}" for nth in range(EVENTS)]
        for name in names:
            plan = {"id": name, "prices": {"any": 100}, "pools": [POOL]}
            assert isinstance(await shop.create_event(plan), Created)
    return names


async def sell(url: str, first: str, rate: int, seconds: float) -> int:
    """Asks when it is time to, whether or not the earlier ones were answered."""
    prefix = first.rpartition("-")[0]
    sold = 0
    async with Holdfast.open(url, upkeep=False) as shop:

        async def sell_one(nth: int) -> None:
            nonlocal sold
            event = f"{prefix}-{nth % EVENTS}"
            outcome = await shop.sell(event, buyer="u", pools={"floor": 1})
            sold += isinstance(outcome, Confirmed)

        loop = asyncio.get_running_loop()
        began = loop.time()
        async with asyncio.TaskGroup() as tasks:
            for nth in range(int(rate * seconds)):
                if (early := began + nth / rate - loop.time()) > 0:
                    await asyncio.sleep(early)
                tasks.create_task(sell_one(nth))
    return sold


if __name__ == "__main__":
    address = sys.stdin.readline().strip()
    print(asyncio.run(sell(address, sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))))
