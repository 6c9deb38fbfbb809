"""Counters in Redis, checked and changed by one script; no database at all.

From the write-up on stock for flash sales, at 50,000 a second. Redis runs one script at a time,
so that check and change are one moment, for everybody. A reservation has a deadline, and checkout
turns it into a sale: two calls for who buys, one for who is told no. Where it stops: what Redis
says it has done is in memory. With the settings most people run, a second of sales is lost with
the power, and more at a failover; the write-up therefore writes orders to SQL afterwards and
reconciles every five minutes. So this is no sale yet, and it is not compared with those that are
on a disk.

The published figure is of many calls sent at a time (pipelined) or of a C client. Here each click
is a call of its own from Python, as in a shop written in it, and Python is what limits it.
"""

import json

from holdfast.lab.contest.claims import Argument, Claims, key
from holdfast.lab.contest.field import POOL, Strategy, Want

KEEP_MS = 480_000
OWNERS, LEFT, DEADLINES, CONTENTS, SALES = (
    key(name) for name in ("owners", "left", "deadlines", "contents", "sales")
)


class RedisLua(Strategy):
    name = "redis-lua"
    stores = ("redis",)
    uses_redis = True
    durable = False

    async def open(self) -> None:
        # Every process says the same, before anybody clicks.
        await self.redis.call("SET", LEFT, self.ground.scenario.units)

    async def buy(self, buyer: str, want: Want) -> bool:
        keys = [OWNERS, LEFT, DEADLINES, CONTENTS]
        ask: list[Argument] = [buyer, KEEP_MS, want.quantity, *want.seats]
        if not await self.redis.script("reserve", keys, ask):
            return False
        keys = [DEADLINES, CONTENTS, SALES]
        return bool(await self.redis.script("sell", keys, [buyer, buyer, POOL]))


async def sales(redis: Claims) -> list[tuple[str, int, str]]:
    """All that Redis says was sold: unit, quantity and buyer."""
    return [tuple(json.loads(sale)) for sale in await redis.call("LRANGE", SALES, 0, -1)]
