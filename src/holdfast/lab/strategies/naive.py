"""Look, then write: what every first version of a shop does, and the bug the rest is about.

    SELECT status ...        it is free
                             (meanwhile somebody else looks, too)
    UPDATE ... SET buyer     it is mine; and it is his

Nothing here is careless on its own: the look is right, and the write is right. Between them there
is time, and all who look in that time are told that the seat is free. A transaction around both
would not help: at READ COMMITTED, which is everybody's default or close to it, a plain SELECT
locks nothing. With a counter it is worse: each writes the number that he computed from what he
saw, so sales are forgotten again, and the next crowd is let in.

The first buyers of each process, one on each connection, all look before one of them writes, so
that the race does not depend on luck; later ones write when they have looked. On SQLite the look
is one transaction and the write another, as two requests of a shop are; one IMMEDIATE transaction
around both would be the pessimistic strategy.
"""

import asyncio

from holdfast.lab.contest.databases import Transaction, begun, marks
from holdfast.lab.contest.field import POOL, Ground, Strategy, Want
from holdfast.lab.strategies.receipts import write_receipt


class Naive(Strategy):
    name = "naive"

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        self._looks = 0
        self._all_looked = asyncio.Event()

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
        self._looked()
        if len(free) < len(want.seats):
            return False
        await self._all_looked.wait()
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
        self._looked()
        if sold + want.quantity > capacity:
            return False
        await self._all_looked.wait()
        async with begun(db, self.db.dialect.begin):
            await db.run("UPDATE lab_pools SET sold = ? WHERE id = ?", sold + want.quantity, POOL)
            await write_receipt(db, buyer, want)
        return True

    def _looked(self) -> None:
        self._looks += 1
        if self._looks >= self.ground.abreast:
            self._all_looked.set()
