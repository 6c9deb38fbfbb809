"""One process that asks for everything at random, for a while.

    python -m tests.databases.mixer SECONDS URL NAME

It says `ready`, waits for a line, runs, and ends with one line of JSON: answers and errors.
"""

import asyncio
import random
import sys
import time
from collections import Counter
from typing import Any

import msgspec

from holdfast import Confirmed, Holdfast, Placed
from tests.contract.helpers import said
from tests.databases.shops import E1, plan, shop_at

TASKS = 12
BATCH_MAX = 8
"""Small, so that a process has several batches a moment and meets the others in all of them."""
ROWS, WIDTH = 3, 12
POOLS = ("balcony", "floor", "stand")

EVENT = plan(
    ROWS,
    WIDTH,
    hold_seconds=1,
    grace_seconds=1,
    max_extensions=2,
    max_per_buyer=8,
    prices={"seat": 100, **dict.fromkeys(POOLS, 50)},
    pools=[{"id": pool, "capacity": 10} for pool in POOLS],
)
"""Small and short-lived: everybody wants the same rows, and most holds lapse with several seats,
which different batches then take apart."""


class Told(msgspec.Struct):
    answers: dict[str, int]
    errors: dict[str, int]


class Mixer:
    def __init__(self, shop: Holdfast, name: str) -> None:
        self.shop = shop
        self.chance = random.Random(name)
        self.holds: list[str] = []
        self.orders: list[str] = []
        self.answers: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()

    async def run(self, until: float) -> None:
        while time.monotonic() < until:
            try:
                self.remember(await self.step())
            except Exception as trouble:  # whatever it is, the test wants to see it
                self.errors[repr(trouble)] += 1

    def remember(self, outcome: Any) -> None:
        self.answers[said(outcome)] += 1
        if isinstance(outcome, Placed):
            self.holds.append(outcome.hold.id)
        if isinstance(outcome, Confirmed):
            self.orders.append(outcome.order.id)

    async def step(self) -> Any:
        chance, shop = self.chance, self.shop
        buyer = f"u{chance.randrange(60)}"
        hold = chance.choice(self.holds[-60:]) if self.holds else f"{E1}.none"
        order = chance.choice(self.orders) if self.orders else f"{E1}.none"
        match chance.randrange(24):
            case 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | 10 | 11:
                return await shop.place_hold(E1, buyer=buyer, **self.basket())
            case 12:
                return await shop.sell(E1, buyer=buyer, **self.basket())
            case 13 | 14:
                return await shop.extend_hold(hold, seconds=1)
            case 15 | 16:
                return await shop.pay_hold(hold)
            case 17:
                return await shop.confirm_hold(hold, payment=f"p{chance.randrange(10**9)}")
            case 18 | 19:
                return await shop.release_hold(hold)
            case 20 | 21 | 22:
                return await shop.cancel_order(order)
            case _:
                return await shop.expire(E1, limit=3)

    def basket(self) -> dict[str, Any]:
        """Named seats in no order, best seats and pools, in any mix."""
        chance = self.chance
        every = [f"A-{row}-{n}" for row in range(1, ROWS + 1) for n in range(1, WIDTH + 1)]
        mix: dict[str, Any] = {}
        while not mix:
            if chance.random() < 0.4:
                mix["seats"] = chance.sample(every, chance.randint(1, 4))
            if chance.random() < 0.5:
                together = chance.random() < 0.6
                mix["best"] = {"quantity": chance.randint(1, 3), "together": together}
            if chance.random() < 0.4:
                pools = chance.sample(POOLS, chance.randint(1, len(POOLS)))
                mix["pools"] = {pool: chance.randint(1, 3) for pool in pools}
        return mix


async def mix(seconds: float, url: str, name: str) -> Told:
    # Without upkeep: who takes a seat of a dead hold has to announce it himself.
    async with shop_at(url, batch_max=BATCH_MAX) as shop:
        mixer = Mixer(shop, name)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        until = time.monotonic() + seconds
        await asyncio.gather(*(mixer.run(until) for _ in range(TASKS)))
    return Told(mixer.answers, mixer.errors)


if __name__ == "__main__":
    seconds, url, name = sys.argv[1:]
    print(msgspec.json.encode(asyncio.run(mix(float(seconds), url, name))).decode())
