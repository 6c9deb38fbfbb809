"""Claim a seat in Redis with a deadline, then write it with a guard when it is confirmed.

From the booking demo with two independent layers, and the third of the three solutions to the
double sale. SET key buyer NX PX says who was first, in memory, and the crowd that was not first
never reaches the database. Where it stops: a claim is lost when Redis is (its copy after a
failover may not have it), so the seat is sold by the guarded UPDATE alone, and a claim is a
courtesy. Those who leave the guard out, because Redis "has checked already", sell seats twice at
the first failover. To give a claim back with DEL, as published, deletes the next owner's if one's
own has lapsed meanwhile: release.lua compares first.

A claim names a unit. The five of a small stock are numbered here, and a buyer looks which are
free before he claims one; with ten thousand that would be ten thousand keys to look at for each
click, so it is left out of the pool.
"""

import random
from collections.abc import Sequence
from typing import ClassVar

from holdfast.lab.contest.claims import key
from holdfast.lab.contest.field import Strategy, Want
from holdfast.lab.strategies.atomic import guarded
from holdfast.lab.strategies.receipts import write_receipt

KEEP_MS = 480_000


class RedisNx(Strategy):
    name = "redis-nx"
    stores = ("postgresql", "mysql")
    uses_redis = True
    why_not: ClassVar[dict[str, str]] = {
        "sqlite": "a file on one machine is no slower to ask than Redis: nothing to keep from it",
        "pool": "SET NX claims a unit by its name, and ten thousand names are too many to look at",
    }

    async def buy(self, buyer: str, want: Want) -> bool:
        claimed = await (self._claim(buyer, want.seats) if want.seats else self._claim_any(buyer))
        if not claimed:
            return False
        if await self._confirm(buyer, want):
            return True
        await self._release(buyer, claimed)
        return False

    async def _claim(self, buyer: str, units: Sequence[str]) -> list[str]:
        """All of them, in order, or none."""
        claimed: list[str] = []
        for unit in units:
            name = key("claim", unit)
            if await self.redis.call("SET", name, buyer, "NX", "PX", KEEP_MS) is None:
                await self._release(buyer, claimed)
                return []
            claimed.append(name)
        return claimed

    async def _claim_any(self, buyer: str) -> list[str]:
        """One of those that nobody has, until none is left."""
        names = [key("claim", f"U-{nth}") for nth in range(self.ground.scenario.units)]
        while True:
            owners = await self.redis.call("MGET", *names)
            free = [name for name, owner in zip(names, owners, strict=True) if owner is None]
            if not free:
                return []
            name = random.choice(free)
            if await self.redis.call("SET", name, buyer, "NX", "PX", KEEP_MS) is not None:
                return [name]
            self.counters.again()

    async def _confirm(self, buyer: str, want: Want) -> bool:
        """What makes it a sale, whatever Redis says."""
        async with self.db.transaction() as db:
            sql, values = guarded(buyer, want)
            if await db.run(sql, *values) < max(len(want.seats), 1):
                await db.rollback()
                return False
            await write_receipt(db, buyer, want)
        return True

    async def _release(self, buyer: str, claimed: Sequence[str]) -> None:
        for name in claimed:
            await self.redis.script("release", [name], [buyer])
