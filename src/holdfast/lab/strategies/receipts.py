"""The receipt that every SQL strategy writes: a row of lab_sales for each unit. That table has no
unique index on purpose, so that what was sold twice is there twice, and is found."""

from collections.abc import Sequence

from holdfast.lab.contest.databases import Transaction
from holdfast.lab.contest.field import POOL, Want


async def write_receipt(db: Transaction, buyer: str, want: Want, units: Sequence[str] = ()) -> None:
    """In the transaction that sells. `units` are the rows that were taken for a pool."""
    sold = [(unit, 1, buyer) for unit in units or want.seats] or [(POOL, want.quantity, buyer)]
    places = ", ".join(["(?, ?, ?)"] * len(sold))
    values = [value for row in sold for value in row]
    await db.run(f"INSERT INTO lab_sales (unit, quantity, buyer) VALUES {places}", *values)
