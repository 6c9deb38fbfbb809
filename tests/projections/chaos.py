"""A sale in which everything happens at once, and what its tables say of it afterwards."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable
from typing import Any

from msgspec.structs import replace

from holdfast import Confirmed, Hold, Holdfast, Order, Placed
from holdfast.domain import tiers
from holdfast.domain.commands import SettleOrder, StepOrder
from holdfast.domain.model import OrderState
from holdfast.domain.outcomes import Opened, Refused
from holdfast.domain.stats import Stats
from holdfast.domain.views import Census
from tests.conftest import Clock

E1 = "e1"
SOFT_MS, GRACE_MS = 30_000, 20_000
EVENT: dict[str, Any] = {
    "id": E1,
    "hold_seconds": SOFT_MS // 1000,
    "grace_seconds": GRACE_MS // 1000,
    "max_extensions": 2,
    "prices": {"gold": 9_001, "silver": 6_007, "floor": 333, "free": 0},
    "sections": [
        {"id": "A", "tier": "gold", "rows": 6, "seats_per_row": 8},
        {"id": "B", "tier": "silver", "rows": 6, "seats_per_row": 8},
    ],
    "pools": [
        {"id": "floor", "capacity": 40, "tier": "floor"},
        {"id": "lawn", "capacity": 40, "tier": "free"},
    ],
}
SEATS = [f"{section}-{row}-{n}" for section in "AB" for row in range(1, 7) for n in range(1, 9)]
BUYERS = ("ann", "bob", "cid", "dee", "eva")


class Chaos:
    """Random commands, several at a time, while the clock jumps over deadlines and hours."""

    def __init__(self, shop: Holdfast, clock: Clock, seed: int) -> None:
        self._shop = shop
        self._clock = clock
        self._random = random.Random(seed)
        self._holds: list[Hold] = []
        self._orders: list[str] = []
        self._pending: list[Order] = []
        self.done: Counter[str] = Counter()
        """What came of it: refusals, and each kind of outcome."""
        self._extra = 0

    async def run(self, rounds: int) -> None:
        for _ in range(rounds):
            steps = (1, 1, 50, 50, 900, 900, 7_000, 26_000, 2_400_000)
            self._clock.advance(self._random.choice(steps))
            count = self._random.randint(1, 6)
            for outcome in await asyncio.gather(*[self._command() for _ in range(count)]):
                self._note(outcome)

    def _command(self) -> Awaitable[Any]:
        kinds = (
            *((self._place, 8), (self._sell, 3), (self._extend, 1), (self._pay, 2)),
            *((self._release, 2), (self._confirm, 3), (self._open, 4), (self._settle, 4)),
            *((self._cancel, 3), (self._refund, 2), (self._expire, 1), (self._capacity, 1)),
            *((self._prices, 1), (self._policy, 1), (self._overtake, 3)),
        )
        (chosen,) = self._random.choices([kind for kind, _ in kinds], [n for _, n in kinds])
        return chosen()

    def _note(self, outcome: Any) -> None:
        self.done["refused" if isinstance(outcome, Refused) else type(outcome).__name__] += 1
        match outcome:
            case Placed(hold):
                self._holds.append(hold)
            case Opened(order):
                self._pending.append(order)
            case Confirmed(order):
                late = order.checkout.settlement
                self.done[f"settled {late}"] += late is not None
                self._orders.append(order.id)

    def _ask(self) -> dict[str, Any]:
        match self._random.randint(0, 3):
            case 0:
                return {"seats": self._random.sample(SEATS, self._random.randint(1, 4))}
            case 1:
                return {"best": self._random.randint(1, 4)}
            case 2:
                return {"pools": {self._random.choice(("floor", "lawn")): 3}}
        return {"seats": self._random.sample(SEATS, 2), "pools": {"floor": 2, "lawn": 1}}

    def _hold(self) -> str:
        recent = self._holds[-12:]
        return self._random.choice(recent).id if recent else f"{E1}.none"

    async def _place(self) -> Any:
        return await self._shop.place_hold(E1, buyer=self._random.choice(BUYERS), **self._ask())

    async def _sell(self) -> Any:
        return await self._shop.sell(E1, buyer=self._random.choice(BUYERS), **self._ask())

    async def _extend(self) -> Any:
        return await self._shop.extend_hold(self._hold())

    async def _pay(self) -> Any:
        return await self._shop.pay_hold(self._hold())

    async def _release(self) -> Any:
        return await self._shop.release_hold(self._hold())

    async def _confirm(self) -> Any:
        return await self._shop.confirm_hold(self._hold())

    async def _expire(self) -> Any:
        return await self._shop.expire(E1, self._random.randint(1, 10))

    async def _open(self) -> Any:
        """Payment begins; the money comes some rounds later, or too late."""
        others = self._random.random() < 0.7
        clerk = self._shop.clerk
        command = clerk.open_order(E1, self._hold(), "sandbox:ok", other_seats=others)
        return (await self._shop.submit(command)).outcome

    async def _settle(self) -> Any:
        if not self._pending:
            return None
        order = self._pending.pop(self._random.randrange(len(self._pending)))
        command = SettleOrder(
            id=self._shop.clerk.ids.new(),
            event=E1,
            order=order.id,
            hold=order.hold or "",
            fence=order.version,
            payment=f"sandbox:{order.id}",
            captured=self._random.random() < 0.5,
            late=True,
            buyer=order.buyer,
            pools=order.pools,
            other_seats=order.checkout.other_seats,
        )
        outcome = (await self._shop.submit(command)).outcome
        found = await self._shop.order(order.id)
        if found is not None and found.checkout.settlement == "refunded":
            self.done["refunded late"] += 1
            back = StepOrder(
                id=self._shop.clerk.ids.new(),
                event=E1,
                order=order.id,
                fence=found.version,
                state=OrderState.REFUNDED,
            )
            await self._shop.submit(back)
        return outcome

    async def _overtake(self) -> Any:
        """Somebody else takes a seat of one who pays too late."""
        late = [order for order in self._pending if order.seats and order.checkout.other_seats]
        if not late:
            return None
        self._pending = [late[-1]]
        self._clock.advance(SOFT_MS + GRACE_MS)
        await self._shop.place_hold(E1, buyer="fox", seats=late[-1].seats[:1])
        return await self._settle()

    async def _cancel(self) -> Any:
        """All of an order, or a part of it, over and over."""
        if not self._orders:
            return None
        order = await self._shop.order(self._random.choice(self._orders[-60:]))
        assert order is not None
        if order.units < 2 or self._random.random() < 0.3:
            return await self._shop.cancel_order(order.id)
        self.done["part"] += 1
        seats = order.seats[: self._random.randint(0, len(order.seats))]
        pools = {id: 1 for id in order.pools if self._random.random() < 0.5}
        if not seats and not pools:
            return None
        return await self._shop.cancel_order(order.id, seats=seats, pools=pools)

    async def _refund(self) -> Any:
        """A provider has given back what is due."""
        for id in self._orders:
            order = await self._shop.order(id)
            if order is not None and order.checkout.refund_due:
                done = tuple(replace(each, done=True) for each in order.checkout.refunds)
                step = StepOrder(
                    id=self._shop.clerk.ids.new(),
                    event=E1,
                    order=id,
                    fence=order.version,
                    changes={"refunds": done},
                )
                return (await self._shop.submit(step)).outcome
        return None

    async def _capacity(self) -> Any:
        self._extra += 1
        if self._random.random() < 0.5:
            more = {"id": f"X-{self._extra}", "tier": "gold", "number": self._extra}
            return await self._shop.add_capacity(
                E1, {"seats": [more], "pools": [{"id": "floor", "capacity": 2}]}
            )
        return await self._shop.withdraw(E1, seats=self._random.sample(SEATS, 1), pools={"lawn": 1})

    async def _prices(self) -> Any:
        prices = {"gold": 8_000 + self._random.randint(0, 999), "floor": 100 + self._extra}
        return await self._shop.change_event(E1, prices=prices)

    async def _policy(self) -> Any:
        return await self._shop.change_event(E1, max_extensions=self._random.randint(0, 3))


def of_tables(census: Census) -> dict[str, Any]:
    """What the rows say, counted from them alone."""
    tier_of = {seat.id: seat.tier for seat in census.seats} | {p.id: p.tier for p in census.pools}
    by_tier: dict[str, list[int]] = {}
    for order in census.orders:
        if not order.sold:
            continue
        units: Counter[str] = Counter(tier_of[seat] for seat in order.seats)
        for pool, quantity in order.pools.items():
            units[tier_of[pool]] += quantity
        whole = order.checkout.tiers
        for tier, count in units.items():
            tally = by_tier.setdefault(tier, [0, 0])
            tally[0] += count
            tally[1] += tiers.left(whole[tier], count) if whole else order.amount
    states = Counter(hold.state.value for hold in census.holds)
    refunded = sum(order.checkout.refunded for order in census.orders)
    late = [order.amount for order in census.orders if order.state is OrderState.REFUNDED]
    return {
        "seq": census.seq,
        "capacity": census.capacity,
        "sold": census.sold,
        "revenue": census.revenue,
        "by_tier": {tier: tuple(tally) for tier, tally in sorted(by_tier.items())},
        "placed": len(census.holds),
        "holds": {state: states[state] for state in STATES},
        "refunded": refunded + sum(late),
    }


STATES = ("held", "paying", "confirmed", "released", "expired")


def of_stats(stats: Stats) -> dict[str, Any]:
    tallies = {name: (t.units, t.revenue) for name, t in stats.by_tier().items()}
    return {
        "seq": stats.seq,
        "capacity": stats.capacity,
        "sold": stats.sold,
        "revenue": stats.revenue,
        "by_tier": {name: tally for name, tally in tallies.items() if tally != (0, 0)},
        "placed": stats.holds.placed,
        "holds": {state: getattr(stats.holds, state) for state in STATES},
        "refunded": stats.returns.refunded_amount,
    }
