"""A process to be killed: it holds and sells for ever, and says of each answer that it has it.

python -m tests.chaos.holder sqlite:///shop.db EVENT NAME
"""

import asyncio
import itertools
import os
import random
import sys

from holdfast import Confirmed, Holdfast, Placed

TASKS = 40


async def hold_for_ever(url: str, event: str, name: str) -> None:
    numbers = itertools.count()
    chance = random.Random(name)
    async with Holdfast.open(url) as shop:

        async def buyer() -> None:
            for number in numbers:
                best = None if number % 3 else chance.randint(1, 3)
                pools = {"floor": 1} if number % 3 or number % 7 == 0 else None
                buyer_name = f"{name}-{number}"
                placed = await shop.place_hold(event, buyer=buyer_name, best=best, pools=pools)
                if not isinstance(placed, Placed):
                    continue
                say(f"hold {placed.hold.id}")
                if number % 2 == 0:
                    confirmed = await shop.confirm_hold(placed.hold.id)
                    if isinstance(confirmed, Confirmed):
                        say(f"order {confirmed.order.id}")

        await asyncio.gather(*(buyer() for _ in range(TASKS)))


def say(line: str) -> None:
    """In one write: a line is there whole or not at all."""
    os.write(sys.stdout.fileno(), f"{line}\n".encode())


if __name__ == "__main__":
    asyncio.run(hold_for_ever(*sys.argv[1:4]))
