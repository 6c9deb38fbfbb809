"""A process that holds seats of an event: `python -m holdfast.lab.bench.writer`, see `crowd.py`.

It reads the store's address, prints `ready`, waits for a line, writes for so many seconds, and
prints what it did.
"""

import asyncio
import sys
import time

import msgspec

from holdfast.domain.outcomes import Placed
from holdfast.engine import Holdfast
from holdfast.lab.bench.crowd import Written
from holdfast.lab.bench.holding import ROW

TASKS = 250


class Writer:
    def __init__(self, shop: Holdfast, event: str, part: range) -> None:
        self._shop = shop
        self._event = event
        self._seats = iter(part)
        self.written = Written(0, [])

    async def hold_one(self, buyer: str) -> bool:
        """False when there are no seats left."""
        nth = next(self._seats, None)
        if nth is None:
            return False
        began = time.perf_counter()
        seat = f"A-{nth // ROW + 1}-{nth % ROW + 1}"
        outcome = await self._shop.place_hold(self._event, buyer=buyer, seats=[seat])
        self.written.held += isinstance(outcome, Placed)
        self.written.latencies_ms.append((time.perf_counter() - began) * 1000)
        return True

    async def flat_out(self, seconds: float) -> None:
        until = time.monotonic() + seconds

        async def buyer(name: str) -> None:
            while await self.hold_one(name) and time.monotonic() < until:
                pass

        await asyncio.gather(*(buyer(f"u{task}") for task in range(TASKS)))

    async def paced(self, seconds: float, rate: int) -> None:
        """Asks when it is time to, whether or not the earlier ones were answered: a crowd does
        not slow down because the shop does."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with asyncio.TaskGroup() as tasks:
            for nth in range(int(rate * seconds)):
                if (early := began + nth / rate - loop.time()) > 0:
                    await asyncio.sleep(early)
                tasks.create_task(self.hold_one(f"u{nth % TASKS}"))


async def write(url: str, event: str, seconds: float, rate: int, part: range) -> Written:
    async with Holdfast.open(url, upkeep=False) as shop:
        writer = Writer(shop, event, part)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        if rate:
            await writer.paced(seconds, rate)
        else:
            await writer.flat_out(seconds)
    return writer.written


def main(event: str, seconds: str, rate: str, *part: str) -> None:
    url = sys.stdin.readline().strip()
    written = asyncio.run(write(url, event, float(seconds), int(rate), range(*map(int, part))))
    print(msgspec.json.encode(written).decode())


if __name__ == "__main__":
    main(*sys.argv[1:])
