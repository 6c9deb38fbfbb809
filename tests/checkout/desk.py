"""A shop with a till, whose processes can be made to die at any step, and the books to compare."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from holdfast import Holdfast
from holdfast.checkout.payments.bank import Bank
from holdfast.checkout.payments.sandbox import SandboxProvider
from holdfast.checkout.saga import Patience, Step
from holdfast.checkout.till import Till
from holdfast.domain.model import Order
from holdfast.errors import PaymentRefused, PaymentUnavailable
from holdfast.upkeep.check import check_store
from tests.conftest import Clock
from tests.contract.helpers import E1, held, on_sale

LEASE_MS = 15_000
PATIENCE = Patience(lease_ms=LEASE_MS, attempt_seconds=0.05, waiting_ms=1_000)
ROUNDS_MAX = 20


class Crash(BaseException):
    """The process dies here. No handler of the program may see it as trouble to deal with."""


Meanwhile = Callable[["Desk"], Awaitable[None]]


class Desk:
    """One authority and one bank that outlive every process, and the process that is running."""

    def __init__(self, shop: Holdfast, clock: Clock) -> None:
        self.shop = shop
        self.clock = clock
        self.bank = Bank(clock=lambda: clock() / 1000)
        self.steps: list[tuple[Step, str]] = []
        """Every point at which a process could have died: before and after each step."""
        self.crash_at: set[int] = set()
        self.meanwhile: dict[Step, Meanwhile] = {}
        """What happens elsewhere while a step is on its way, once."""
        self.till = self.process()

    def process(self, remembers_seconds: float = 86_400) -> Till:
        provider = SandboxProvider(self.bank, remembers_seconds=remembers_seconds)
        till = Till(self.shop, provider, PATIENCE, resume=False, trap=self._trap)
        self.till = till
        return till

    @asynccontextmanager
    async def _trap(self, step: Step) -> AsyncIterator[None]:
        self._point(step, "before")
        if step in self.meanwhile:
            await self.meanwhile.pop(step)(self)
        yield
        self._point(step, "after")

    def _point(self, step: Step, side: str) -> None:
        self.steps.append((step, side))
        if len(self.steps) - 1 in self.crash_at:
            raise Crash(f"{side} {step}, point {len(self.steps) - 1}")

    async def insist(self, stage: Callable[["Desk"], Awaitable[object]]) -> None:
        """As a client does who gets no answer: until there is one. Between two tries other
        processes go on with what was left."""
        while True:
            try:
                await stage(self)
                await asyncio.gather(*self.till._tasks.values())  # what goes on after the answer
                return
            except Crash:
                await self.recovered()

    async def recovered(self) -> None:
        """Processes that may die as well, until there is nothing left to do."""
        for _ in range(ROUNDS_MAX):
            self.clock.advance(LEASE_MS + 1)
            try:
                await self.resumed()
            except Crash:
                continue
            if not await self.unfinished():
                return
        raise AssertionError("there is still something to do")

    async def resumed(self) -> None:
        till = self.process()
        await till.resume()
        for ended in await asyncio.gather(*till._tasks.values(), return_exceptions=True):
            if ended is not None:
                raise ended

    async def unfinished(self) -> list[Order]:
        """Orders that somebody has to go on with, and that do not wait for the buyer."""
        orders = await self.orders()
        return [o for o in orders if o.due_ms is not None and not o.checkout.next_action]

    async def orders(self) -> list[Order]:
        census = await self.shop.store.census(E1)
        assert census is not None
        return census.orders

    async def books_balance(self) -> None:
        """Money and seats agree, and nobody was charged twice."""
        summary = await self.shop.event(E1)
        assert summary is not None
        orders = await self.orders()
        sold = [order for order in orders if order.sold]
        assert summary.sold == sum(order.units for order in sold)
        assert summary.revenue == sum(order.amount for order in sold)
        tally = self.bank.tally
        assert tally.authorizations <= len(orders), "one payment for each order at most"
        assert tally.captures <= tally.authorizations
        assert tally.authorized == tally.captured + tally.voided, "nothing is left set aside"
        stuck = sum(
            refund.amount for o in orders for refund in o.checkout.refunds if not refund.done
        )
        paid = sum(order.amount for order in sold if order.checkout.method)
        assert tally.captured - tally.refunded - stuck == paid
        async for checked in check_store(self.shop.store):
            assert checked.drift == []


async def a_hold(desk: Desk) -> str:
    await on_sale(desk.shop)
    return (await held(desk.shop)).id


def down(charge: object) -> None:
    raise PaymentUnavailable("no route to the bank\nat all")


def refused(charge: object) -> None:
    raise PaymentRefused("no such card")
