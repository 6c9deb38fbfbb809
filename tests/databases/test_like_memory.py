"""PostgreSQL, in three processes that recall, presume and lose replies, against the store of dicts:
the same commands have the same answers, and leave the same log."""

import random
from collections.abc import Iterator
from functools import partialmethod
from typing import Any

import pytest

from holdfast.clerk import Clerk
from holdfast.domain.commands import Command, SettleOrder, StepOrder
from holdfast.domain.model import Ask, Order
from holdfast.domain.outcomes import Answer, Confirmed, Opened, Placed, Stepped
from holdfast.domain.plan import EventPlan, read_event
from holdfast.errors import CommitUnknown
from holdfast.ports import Store
from holdfast.settings import Settings
from holdfast.stores.postgres import presumed
from holdfast.stores.postgres.presumed import Presumptions
from holdfast.stores.postgres.writing import Writer
from holdfast.wiring import make_store
from tests.conftest import Clock, drift
from tests.databases.shops import E1, plan

pytestmark = [pytest.mark.service, pytest.mark.slow, pytest.mark.usefixtures("postgres_only")]

SEEDS = range(8)
ROUNDS = 80
PROCESSES = 3
LOSSES = [*[None] * 8, "before", "after"]
SECTIONS = [
    {"id": "A", "tier": "seat", "rows": 6, "seats_per_row": 10},
    {"id": "B", "tier": "floor", "rows": 2, "seats_per_row": 10},
]
ODD = [
    {"id": "A-9-1", "section": "A", "row": "9", "number": 1, "tier": "floor"},
    {"id": "A-9-2", "section": "A", "row": "9", "number": 2, "tier": "seat", "channel": "press"},
]


class Crowd:
    """Commands as buyers and the shop may think of them, about what they have seen so far."""

    def __init__(self, chance: random.Random, seats: list[str]) -> None:
        self._chance = chance
        self._seats = [*seats, "A-77-1"]
        self._clerk = Clerk()
        self._holds: list[str] = []
        self._orders: dict[str, Order] = {}

    def creates(self, event: EventPlan) -> Command:
        return self._clerk.create_event(event)

    def batch(self) -> list[Command]:
        chance = self._chance
        if chance.random() < 0.15:
            return [self._of_the_shop()]
        return [self._of_a_buyer() for _ in range(chance.choice([1, 1, 2, 3, 6]))]

    def learn(self, answers: list[Answer]) -> None:
        for answer in answers:
            match answer.outcome:
                case Placed(hold):
                    self._holds = [*self._holds, hold.id][-12:]
                case Opened(order) | Confirmed(order) | Stepped(order):
                    self._orders.pop(order.id, None)
                    self._orders[order.id] = order

    def _of_a_buyer(self) -> Command:
        chance, clerk = self._chance, self._clerk
        kind = chance.random()
        if kind < 0.5 or not self._holds:
            return self._place()
        if kind < 0.7:
            named = chance.choice([{}, {"key": self._one_of("key", 30)}, {"order": "o1"}])
            more: dict[str, Any] = {"driver": "d", "lease_ms": 60_000, **named}
            return clerk.open_order(E1, chance.choice(self._holds), "sandbox:ok", **more)
        if not self._orders:
            return self._place()
        order = chance.choice(list(self._orders.values())[-10:])
        if kind < 0.9:
            return SettleOrder(
                id=clerk.ids.new(),
                event=E1,
                order=order.id,
                hold=order.hold or "",
                fence=order.version,
                payment=f"sandbox:{order.id}",
                lease_ms=60_000,
            )
        due = chance.choice([None, 1000])
        return StepOrder(
            id=clerk.ids.new(), event=E1, order=order.id, fence=order.version, due_in_ms=due
        )

    def _place(self) -> Command:
        chance = self._chance
        seats = tuple(chance.sample(self._seats, chance.choice([1, 1, 2, 3])))
        ask = Ask(seats=seats, channels=chance.choice([(), (), ("press",)]))
        id = chance.choice([None, None, self._one_of("mine", 40)])
        key = chance.choice([None, None, None, self._one_of("key", 40)])
        return self._clerk.place_hold(E1, chance.choice(["ann", "bob"]), ask, id=id, key=key)

    def _one_of(self, name: str, most: int) -> str:
        return f"{name}-{self._chance.randrange(most)}"

    def _of_the_shop(self) -> Command:
        chance, clerk = self._chance, self._clerk
        hold = chance.choice(self._holds) if self._holds else f"{E1}.nobody"
        return chance.choice(
            [
                clerk.release_hold(E1, hold),
                clerk.extend_hold(E1, hold),
                clerk.confirm_hold(E1, hold),
                clerk.expire_holds(E1, 50),
                clerk.withdraw(E1, (chance.choice(self._seats),), {}),
                clerk.change_event(E1, {"prices": {"seat": chance.randrange(50, 150)}}),
            ]
        )


class Losing:
    """The connection is lost with the next batch that is one statement: before it came to the
    server, or after."""

    def __init__(self) -> None:
        self.next: str | None = None
        self.done = False
        """Whether it was lost after."""

    async def write(self, write: Any, *args: Any, **more: Any) -> Any:
        lost, self.next = self.next, None
        if lost == "before":
            raise ConnectionError("gone")
        done = await write(*args, **more)
        if lost == "after" and done is not None:
            self.done = True
            raise ConnectionError("gone")
        return done


@pytest.fixture
def losing(monkeypatch) -> Losing:
    losing, write = Losing(), Writer.write_alone
    monkeypatch.setattr(Writer, "write_alone", partialmethod(losing_write, losing, write))
    return losing


async def losing_write(writer: Writer, losing: Losing, write: Any, *args: Any, **more: Any) -> Any:
    return await losing.write(write, writer, *args, **more)


@pytest.fixture
def presuming(monkeypatch) -> Iterator[list[bool]]:
    """Whoever was wrong presumes again at once. Tells whether anything was presumed at all."""
    monkeypatch.setattr(presumed, "WARY_SECONDS", -1.0)
    monkeypatch.setattr(presumed, "FRESH_SECONDS", 3600.0)
    asked: list[bool] = []
    of = Presumptions.of

    def noted(presumptions: Presumptions, event: str) -> Any:
        asked.append((found := of(presumptions, event)) is not None)
        return found

    monkeypatch.setattr(Presumptions, "of", noted)
    yield asked
    assert any(asked)


def told(answers: list[Answer]) -> list[Any]:
    return [(each.outcome, each.replayed, each.holders, each.now_ms) for each in answers]


@pytest.mark.parametrize("seed", SEEDS)
async def test_the_same_commands_have_the_same_answers(url, losing, presuming, seed):
    chance, clock = random.Random(seed), Clock()
    event = read_event(plan(sections=SECTIONS, seats=ODD))
    assert isinstance(event, EventPlan)
    crowd = Crowd(chance, [seat.id for seat in event.seats])
    dicts = make_store(Settings(store="memory://"), clock)
    stores = [make_store(Settings(store=url), clock) for _ in range(PROCESSES)]
    try:
        for store in (dicts, *stores):
            await store.open()
        created = crowd.creates(event)
        await dicts.apply([created])
        await stores[0].apply([created])
        for _ in range(ROUNDS):
            clock.advance(chance.choice([0, 1, 50, 1000, 3000, 120_000]))
            store, batch = chance.choice(stores), crowd.batch()
            losing.next, losing.done = chance.choice(LOSSES), False
            answers = await applied(store, batch)
            losing.next = None
            if losing.done:
                await dicts.apply(batch)  # nobody heard of it
            assert told(answers) == told(await dicts.apply(batch)), batch
            crowd.learn(answers)
        logs = [await each.log(E1, 0, 10_000) for each in (dicts, stores[0])]
        assert logs[0] == logs[1]
        assert await drift(stores[0]) == []
    finally:
        for store in (dicts, *stores):
            await store.close()


async def applied(store: Store, batch: list[Command]) -> list[Answer]:
    """Run again, as a lane does, where nobody knows."""
    try:
        return await store.apply(batch)
    except CommitUnknown:
        return await store.apply(batch)
