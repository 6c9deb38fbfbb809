"""Look, then write: what every first version of a shop does, and the bug the rest is about.

    SELECT status ...        it is free
                             (meanwhile somebody else looks, too)
    UPDATE ... SET buyer     it is mine; and it is his

Nothing here is careless on its own: the look is right, and the write is right. Between them there
is time, and all who look in that time are told that the seat is free. A transaction around both
would not help: at READ COMMITTED, which is everybody's default or close to it, a plain SELECT
locks nothing. With a counter it is worse: each writes the number that he computed from what he
saw, so sales are forgotten again, and the next crowd is let in.

The pause between look and write stands for what a shop does there (draws a page, asks a bank). It
is short, and is here so that the race does not depend on luck. On SQLite the look is one
transaction and the write another, as two requests of a shop are; one IMMEDIATE transaction around
both would be the pessimistic strategy.
"""

import asyncio

from holdfast.lab.databases import Transaction, begun, marks
from holdfast.lab.field import POOL, Strategy, Want
from holdfast.lab.strategies.receipts import write_receipt

PAUSE_SECONDS = 0.01


class Naive(Strategy):
    name = "naive"

    async def buy(self, buyer: str, want: Want) -> bool:
        async with self.db.connection() as db:
            if want.seats:
                return await self._buy_seats(db, buyer, want)
            return await self._buy_stock(db, buyer, want)

    async def _buy_seats(self, db: Transaction, buyer: str, want: Want) -> bool:
        places = marks(want.seats)
        free = await db.rows(
            f"SELECT id FROM lab_seats WHERE id IN ({places}) AND status = 'free'", *want.seats
        )
        if len(free) < len(want.seats):
            return False
        await asyncio.sleep(PAUSE_SECONDS)
        async with begun(db, self.db.dialect.begin):
            await db.run(
                f"UPDATE lab_seats SET status = 'sold', buyer = ? WHERE id IN ({places})",
                buyer,
                *want.seats,
            )
            await write_receipt(db, buyer, want)
        return True

    async def _buy_stock(self, db: Transaction, buyer: str, want: Want) -> bool:
        [(capacity, sold)] = await db.rows(
            "SELECT capacity, sold FROM lab_pools WHERE id = ?", POOL
        )
        if sold + want.quantity > capacity:
            return False
        await asyncio.sleep(PAUSE_SECONDS)
        async with begun(db, self.db.dialect.begin):
            await db.run("UPDATE lab_pools SET sold = ? WHERE id = ?", sold + want.quantity, POOL)
            await write_receipt(db, buyer, want)
        return True
