"""Claim in Redis, hold in SQL at once, confirm in SQL later.

From the two-layer hold for a ticket shop: 10,000 clicks on one seat, one wins, 9,999 are told at
once. Redis filters the crowd, and the hold is a row with a deadline, so that nothing is lost with
Redis: of its four layers of defence the SQL row is the truth. If the row cannot be written the
claim is given back. Where it stops: those who pass the filter pay twice, a transaction to hold
and one to confirm, so it sells half as many a second as one guarded UPDATE; and a crash between
claim and row blocks the seat until the claim's deadline, which is why that is short.

The deadline is compared with this program's clock, which is good enough on one machine. A shop
with two needs the database's.
"""

import time
from typing import ClassVar

from holdfast.lab.contest.claims import key
from holdfast.lab.contest.databases import marks
from holdfast.lab.contest.field import POOL, Strategy, Want
from holdfast.lab.strategies.receipts import write_receipt

CLAIM_MS = 60_000
HOLD_MS = 480_000


class TwoLayer(Strategy):
    name = "two-layer"
    stores = ("postgresql", "mysql")
    uses_redis = True
    why_not: ClassVar[dict[str, str]] = {
        "sqlite": "a file on one machine is no slower to ask than Redis: nothing to keep from it"
    }

    async def open(self) -> None:
        # Every process says the same, before anybody clicks.
        await self.redis.call("SET", key("left"), self.ground.scenario.units)

    async def buy(self, buyer: str, want: Want) -> bool:
        if not await self._claim(buyer, want):
            return False
        if not await self._hold(buyer, want):
            await self._release(buyer, want)
            return False
        return await self._confirm(buyer, want)

    async def _claim(self, buyer: str, want: Want) -> bool:
        if not want.seats:
            return bool(await self.redis.script("take", [key("left")], [want.quantity]))
        for nth, seat in enumerate(want.seats):
            name = key("claim", seat)
            if await self.redis.call("SET", name, buyer, "NX", "PX", CLAIM_MS) is None:
                await self._release(buyer, Want(seats=want.seats[:nth]))
                return False
        return True

    async def _release(self, buyer: str, want: Want) -> None:
        if want.quantity:
            await self.redis.script("take", [key("left")], [-want.quantity])
        for seat in want.seats:
            await self.redis.script("release", [key("claim", seat)], [buyer])

    async def _hold(self, buyer: str, want: Want) -> bool:
        """A guarded write: free, or held by somebody whose time is over."""
        now_ms = time.time_ns() // 1_000_000
        async with self.db.transaction() as db:
            if want.seats:
                held = await db.run(
                    "UPDATE lab_seats SET status = 'held', buyer = ?, until_ms = ? "
                    f"WHERE id IN ({marks(want.seats)}) "
                    "AND (status = 'free' OR (status = 'held' AND until_ms <= ?))",
                    *(buyer, now_ms + HOLD_MS, *want.seats, now_ms),
                )
            else:
                held = await db.run(
                    "UPDATE lab_pools SET held = held + ? "
                    "WHERE id = ? AND held + sold + ? <= capacity",
                    *(want.quantity, POOL, want.quantity),
                )
            if held < max(len(want.seats), 1):
                await db.rollback()
                return False
        return True

    async def _confirm(self, buyer: str, want: Want) -> bool:
        """Fenced by the buyer: a hold that lapsed, and was taken over, changes no row."""
        async with self.db.transaction() as db:
            if want.seats:
                sold = await db.run(
                    "UPDATE lab_seats SET status = 'sold' "
                    f"WHERE id IN ({marks(want.seats)}) AND status = 'held' AND buyer = ?",
                    *(*want.seats, buyer),
                )
            else:
                sold = await db.run(
                    "UPDATE lab_pools SET held = held - ?, sold = sold + ? "
                    "WHERE id = ? AND held >= ?",
                    *(want.quantity, want.quantity, POOL, want.quantity),
                )
            if sold < max(len(want.seats), 1):
                await db.rollback()
                return False
            await write_receipt(db, buyer, want)
        return True
