"""Look without a lock; write only if the row's version is still the one that was seen; else look
again.

From the same write-ups, at 500 a second. It shines where buyers seldom meet: nobody waits for
anybody. Where it stops: on one hot row only one of those who looked can win, all others have
worked in vain and come again, and the more there are, the smaller the share of work that sells
something. That is the retry storm: see `retries` in the pool scenario, several for each unit
sold. Backing off for a random and growing time calms it, and makes buyers wait; whoever loses too
often gives up, though there may be stock.

A buyer keeps his connection while he backs off, as a request in most frameworks does. That is
kinder to this strategy than to let the next in line use it: fewer are in the storm at once.
"""

import asyncio
import random

from holdfast.lab.contest.databases import Transaction, begun, marks
from holdfast.lab.contest.field import POOL, Strategy, Want
from holdfast.lab.strategies.receipts import write_receipt

TRIES_MAX = 200
"""Generous: a shop would give up after a handful, and sell less than it has."""
PAUSE_FIRST_SECONDS = 0.001
PAUSE_LAST_SECONDS = 0.05


class Stale(Exception):
    """Somebody else has written the row since it was seen."""


class Optimistic(Strategy):
    name = "optimistic"

    async def buy(self, buyer: str, want: Want) -> bool:
        take = self._take_seats if want.seats else self._take_stock
        async with self.db.connection() as db:
            for tries in range(1, TRIES_MAX + 1):
                try:
                    return await take(db, buyer, want)
                except Stale:
                    self.counters.again()
                    most = min(PAUSE_FIRST_SECONDS * 2**tries, PAUSE_LAST_SECONDS)
                    await asyncio.sleep(random.uniform(0, most))
        self.counters.gave_up += 1
        return False

    async def _take_seats(self, db: Transaction, buyer: str, want: Want) -> bool:
        seen = await db.rows(
            f"SELECT id, status, version FROM lab_seats WHERE id IN ({marks(want.seats)}) "
            "ORDER BY id",
            *want.seats,
        )
        if any(status != "free" for _, status, _ in seen):
            return False
        async with begun(db, self.db.dialect.begin):
            for id, _, version in seen:
                changed = await db.run(
                    "UPDATE lab_seats SET status = 'sold', buyer = ?, version = version + 1 "
                    "WHERE id = ? AND version = ?",
                    *(buyer, id, version),
                )
                if not changed:
                    raise Stale
            await write_receipt(db, buyer, want)
        return True

    async def _take_stock(self, db: Transaction, buyer: str, want: Want) -> bool:
        [(capacity, sold, version)] = await db.rows(
            "SELECT capacity, sold, version FROM lab_pools WHERE id = ?", POOL
        )
        if sold + want.quantity > capacity:
            return False
        async with begun(db, self.db.dialect.begin):
            changed = await db.run(
                "UPDATE lab_pools SET sold = ?, version = version + 1 WHERE id = ? AND version = ?",
                *(sold + want.quantity, POOL, version),
            )
            if not changed:
                raise Stale
            await write_receipt(db, buyer, want)
        return True
