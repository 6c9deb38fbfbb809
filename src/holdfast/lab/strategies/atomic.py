"""One UPDATE that is its own guard: it changes the row only if that is still free.

    UPDATE lab_pools SET sold = sold + 1 WHERE id = 'pool' AND sold + 1 <= capacity

From the write-up on flash sales, at 2,000 a second, and from the move of an inventory to MySQL.
Look and write are one, so there is no time between them; how many rows were changed is the
answer. Where it stops: a row can be changed by one transaction at a time, and whoever changed it
keeps it until his commit is on the disk. One hot row sells as fast as the disk flushes, one buyer
after the other.

On PostgreSQL the receipt is written by the same statement, so that a whole sale is one round
trip, and a no is one round trip without a flush: the best that one transaction for each buyer can
be. MariaDB and SQLite have no such statement, and two seats must both be had or none, which takes
a transaction everywhere.
"""

from holdfast.lab.contest.databases import Transaction, marks
from holdfast.lab.contest.field import POOL, Strategy, Want
from holdfast.lab.strategies.receipts import write_receipt

SEATS = "UPDATE lab_seats SET status = 'sold', buyer = ? WHERE id IN ({}) AND status = 'free'"
STOCK = "UPDATE lab_pools SET sold = sold + ? WHERE id = ? AND sold + ? <= capacity"
AND_RECEIPT = (
    "WITH won AS ({} RETURNING id) "
    "INSERT INTO lab_sales (unit, quantity, buyer) SELECT id, ?, ? FROM won"
)


class Atomic(Strategy):
    name = "atomic"

    async def buy(self, buyer: str, want: Want) -> bool:
        if self.db.dialect.one_statement and len(want.seats) <= 1:
            async with self.db.connection() as db:
                return await self._buy_at_once(db, buyer, want)
        async with self.db.transaction() as db:
            sql, values = guarded(buyer, want)
            # Some of the seats is none of them.
            if await db.run(sql, *values) < max(len(want.seats), 1):
                await db.rollback()
                return False
            await write_receipt(db, buyer, want)
        return True

    async def _buy_at_once(self, db: Transaction, buyer: str, want: Want) -> bool:
        sql, values = guarded(buyer, want)
        return await db.run(AND_RECEIPT.format(sql), *values, want.units, buyer) == 1


def guarded(buyer: str, want: Want) -> tuple[str, list[object]]:
    """The statement that takes what is wanted, if it is there, and its values."""
    if want.seats:
        return SEATS.format(marks(want.seats)), [buyer, *want.seats]
    return STOCK, [want.quantity, POOL, want.quantity]
