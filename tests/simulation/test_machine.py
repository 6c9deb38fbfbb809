"""Random sales against a model of a few lines: whatever happens, every unit has one place.

Commands are drawn in small batches and sent at once, so that most decisions are made on a shelf
that others in the batch have already changed. After every step each unit is where the model says,
and available + held + sold is the capacity, for seats and for stock.
"""

import asyncio
import tempfile
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from holdfast import Expired, Holdfast, Placed, Refused
from holdfast.domain.model import FOREVER_MS, Hold, Pool, Seat
from holdfast.domain.outcomes import Outcome
from holdfast.ports import Store
from holdfast.settings import Settings
from tests.conftest import STORES, Clock, drift, marks, needed
from tests.contract.helpers import said

E1 = "e1"
ROWS, WIDTH = 2, 4
SEATS = [f"A-{row}-{number}" for row in range(1, ROWS + 1) for number in range(1, WIDTH + 1)]
POOLS = {"floor": 6, "stand": 3}
PRICES = {"gold": 700, "floor": 30, "stand": 1}
SOFT_MS, GRACE_MS, CAP, EXTENSIONS = 10_000, 4_000, 9, 2

EVENT = {
    "id": E1,
    "hold_seconds": SOFT_MS // 1000,
    "grace_seconds": GRACE_MS // 1000,
    "max_extensions": EXTENSIONS,
    "max_per_buyer": CAP,
    "prices": PRICES,
    "sections": [{"id": "A", "tier": "gold", "rows": ROWS, "seats_per_row": WIDTH}],
    "pools": [{"id": id, "capacity": size, "tier": id} for id, size in POOLS.items()],
}


@dataclass
class Owner:
    """A hold or, with no end to it, an order."""

    buyer: str
    seats: tuple[str, ...]
    pools: dict[str, int]
    until_ms: int
    paying: bool = False
    extensions: int = 0
    sold: bool = False

    @property
    def units(self) -> int:
        return len(self.seats) + sum(self.pools.values())

    @property
    def amount(self) -> int:
        stock = sum(PRICES[pool] * quantity for pool, quantity in self.pools.items())
        return len(self.seats) * PRICES["gold"] + stock


@dataclass
class Model:
    """Who has what. Everything that can be said about units follows from it."""

    seats: set[str] = field(default_factory=lambda: set(SEATS))
    pools: dict[str, int] = field(default_factory=lambda: dict(POOLS))
    owners: dict[str, Owner] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)
    on_sale: bool = True

    def alive(self, now: int) -> dict[str, Owner]:
        return {id: owner for id, owner in self.owners.items() if owner.until_ms > now}

    def owner_of(self, now: int) -> dict[str, str]:
        return {seat: id for id, owner in self.alive(now).items() for seat in owner.seats}

    def free(self, now: int) -> set[str]:
        return self.seats - self.owner_of(now).keys()

    def left(self, pool: str, now: int) -> int:
        return self.pools[pool] - sum(o.pools.get(pool, 0) for o in self.alive(now).values())


buyers = st.sampled_from(["ann", "bob", "cid", "dee"])
stock = st.dictionaries(st.sampled_from(list(POOLS)), st.integers(1, 3), max_size=2)
seats = st.lists(st.sampled_from(SEATS), max_size=2, unique=True)
odd_seats = st.lists(st.sampled_from([*SEATS, "X-1"]), max_size=4, unique=True)
party = st.sampled_from([0, 0, 1, 2, 3, 4, 5])


def basket(seats: Any, best: Any, pools: Any) -> Any:
    parts = {"seats": seats, "best": best, "pools": pools}
    return st.fixed_dictionaries(parts).filter(lambda ask: any(ask.values()))


no_seats: Any = st.builds(list)
no_party: Any = st.just(0)
no_stock: Any = st.builds(dict)
baskets = st.one_of(
    basket(seats, no_party, no_stock),
    basket(no_seats, party, no_stock),
    basket(no_seats, no_party, stock),
    basket(seats, party, stock),
    basket(odd_seats, party, stock),
)
# Of the holds and orders there are, the latest are the most interesting.
NOBODY = 99
recent = st.sampled_from([0, 0, 0, 1, 1, 2, 3, 4, 6, 9, NOBODY])
follows = st.tuples(
    st.just("follow"),
    st.sampled_from(["extend", "pay", "pay", "release", "confirm", "confirm"]),
    recent,
    st.sampled_from([None, None, None, "ann", "bob"]),
)
asks = st.tuples(st.sampled_from(["place", "place", "place", "sell"]), buyers, baskets)
commands = st.one_of(
    asks,
    follows,
    st.tuples(st.just("cancel"), recent),
    st.tuples(st.just("again"), recent),
    st.tuples(st.just("expire"), st.integers(1, 5)),
)
event_commands = st.one_of(
    st.tuples(st.just("switch"), st.sampled_from(["pause_event", "open_event"])),
    st.tuples(st.just("withdraw"), st.lists(st.sampled_from(SEATS), max_size=1), stock).filter(
        lambda command: bool(command[1] or command[2])
    ),
)

Ask = Callable[[], Coroutine[Any, Any, Outcome]]


class Sale(RuleBasedStateMachine):
    def __init__(self, make: Callable[[Path, Clock], Store], folder: Path) -> None:
        super().__init__()
        self.clock = Clock()
        self.model = Model()
        self.made: list[tuple[Ask, Outcome]] = []
        self.asks = 0
        self.hold_ids: list[str] = []
        self.order_ids: dict[str, str] = {}
        self.folder = tempfile.TemporaryDirectory(dir=folder)
        self.runner = asyncio.Runner()
        self.shop = Holdfast(
            make(Path(self.folder.name), self.clock), Settings(store="memory://"), upkeep=False
        )
        self.run(self.shop.__aenter__())
        self.run(self.shop.create_event(EVENT))

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(work)

    @rule(batch=st.lists(asks, min_size=1, max_size=3))
    def ask_for_units(self, batch: list[Any]) -> None:
        self.send(batch)

    @rule(batch=st.lists(commands, min_size=2, max_size=8))
    def send_many_at_once(self, batch: list[Any]) -> None:
        self.send(batch)

    @rule(
        before=st.lists(commands, max_size=2),
        change=event_commands,
        after=st.lists(commands, max_size=2),
    )
    def change_the_event_among_others(
        self, before: list[Any], change: Any, after: list[Any]
    ) -> None:
        self.send([*before, change, *after])
        if not self.model.on_sale:
            self.send([("switch", "open_event")])

    def send(self, batch: list[Any]) -> None:
        started = [getattr(self, f"start_{name}")(*args) for name, *args in batch]

        async def together() -> list[Outcome]:
            return list(await asyncio.gather(*[ask() for ask, _ in started]))

        for (ask, expect), outcome in zip(started, self.run(together()), strict=True):
            expect(outcome, ask)

    @rule(ms=st.sampled_from([1, 999, GRACE_MS, SOFT_MS // 2, SOFT_MS]))
    def wait(self, ms: int) -> None:
        self.clock.advance(ms)

    @precondition(lambda self: any(not o.sold for o in self.model.alive(self.clock()).values()))
    @rule(data=st.data(), tick=st.sampled_from([-1, 0, 0, 1]))
    def wait_for_a_deadline(self, data: st.DataObject, tick: int) -> None:
        alive = self.model.alive(self.clock()).values()
        deadlines = sorted({owner.until_ms for owner in alive if not owner.sold})
        self.clock.move_to(max(self.clock(), data.draw(st.sampled_from(deadlines)) + tick))

    @precondition(lambda self: len(self.model.seats) < len(SEATS))
    @rule(data=st.data(), more=stock)
    def add_capacity(self, data: st.DataObject, more: dict[str, int]) -> None:
        gone = sorted(set(SEATS) - self.model.seats)
        seat = data.draw(st.sampled_from([*gone, *gone, SEATS[0]]))
        row, number = seat.split("-")[1:]
        plan = {"id": seat, "section": "A", "row": row, "number": int(number), "tier": "gold"}
        pools = [{"id": id, "capacity": size, "tier": id} for id, size in more.items()]
        outcome = self.run(self.shop.add_capacity(E1, {"seats": [plan], "pools": pools}))
        if seat in self.model.seats:
            assert said(outcome) == "no.exists"
            return
        assert said(outcome) == "changed"
        self.model.seats.add(seat)
        for pool, size in more.items():
            self.model.pools[pool] += size

    # Each of these gives a way to ask, and what to expect of the answer when its turn has come.

    def start_place(self, buyer: str, ask: dict[str, Any]) -> Any:
        self.asks += 1
        id = f"h{self.asks}"
        self.hold_ids.append(f"{E1}.{id}")

        def place() -> Coroutine[Any, Any, Outcome]:
            return self.shop.place_hold(E1, buyer=buyer, id=id, **asked(ask))

        def expect(outcome: Any, again: Ask) -> None:
            now = self.clock()
            if own := self.own(buyer, ask, now):
                assert isinstance(outcome, Placed)
                assert outcome.hold.id == own
                self.hold_ids.remove(f"{E1}.{id}")
                return
            self.expect_basket(buyer, ask, outcome, "placed")
            if isinstance(outcome, Placed):
                hold = outcome.hold
                self.model.owners[hold.id] = Owner(buyer, hold.seats, hold.pools, now + SOFT_MS)
                assert (hold.amount, hold.pools) == (
                    self.model.owners[hold.id].amount,
                    ask["pools"],
                )
                self.made.append((again, outcome))
            else:
                self.hold_ids.remove(f"{E1}.{id}")

        return place, expect

    def start_sell(self, buyer: str, ask: dict[str, Any]) -> Any:
        self.asks += 1
        id = f"o{self.asks}"

        def sell() -> Coroutine[Any, Any, Outcome]:
            return self.shop.sell(E1, buyer=buyer, order=id, payment=id, **asked(ask))

        def expect(outcome: Any, again: Ask) -> None:
            self.expect_basket(buyer, ask, outcome, "confirmed")
            if not isinstance(outcome, Refused):
                order = outcome.order
                self.model.owners[order.id] = Owner(
                    buyer, order.seats, order.pools, FOREVER_MS, sold=True
                )
                self.order_ids[order.id] = order.id
                self.made.append((again, outcome))

        return sell, expect

    def own(self, buyer: str, ask: dict[str, Any], now: int) -> str | None:
        """The buyer's own live hold of exactly this basket."""
        if not ask["seats"] or ask["best"]:
            return None
        id = self.model.owner_of(now).get(ask["seats"][0])
        owner = self.model.owners.get(id) if id else None
        if owner is None or owner.sold or owner.buyer != buyer or owner.pools != ask["pools"]:
            return None
        return id if set(owner.seats) == set(ask["seats"]) else None

    def expect_basket(self, buyer: str, ask: dict[str, Any], outcome: Any, yes: str) -> None:
        assert said(outcome) == (self.refusal(buyer, ask) or yes)
        if isinstance(outcome, Refused):
            return
        seats = (outcome.hold if yes == "placed" else outcome.order).seats
        named, chosen = seats[: len(ask["seats"])], seats[len(ask["seats"]) :]
        assert named == tuple(ask["seats"])
        assert len(set(seats)) == len(seats)
        assert set(seats) <= self.model.free(self.clock())
        assert len(chosen) == ask["best"]
        assert len(runs(set(chosen))) <= 1

    def refusal(self, buyer: str, ask: dict[str, Any]) -> str | None:
        model, now = self.model, self.clock()
        if not model.on_sale:
            return "no.not_on_sale"
        units = len(ask["seats"]) + ask["best"] + sum(ask["pools"].values())
        if units + sum(o.units for o in model.alive(now).values() if o.buyer == buyer) > CAP:
            return "no.buyer_cap"
        if "X-1" in ask["seats"]:
            return "no.unknown_unit"
        free = model.free(now)
        if not set(ask["seats"]) <= free:
            return "no.taken"
        free -= set(ask["seats"])
        if ask["best"] > len(free):
            return "no.insufficient" if free else "no.sold_out"
        if ask["best"] > max(map(len, runs(free)), default=0):
            return "no.not_together"
        for pool, quantity in ask["pools"].items():
            if quantity > (left := model.left(pool, now)):
                return "no.insufficient" if left else "no.sold_out"
        return None

    def start_follow(self, command: str, back: int, buyer: str | None) -> Any:
        id = one_of_the_last(self.hold_ids, back)
        method: Any = {
            "extend": self.shop.extend_hold,
            "pay": self.shop.pay_hold,
            "release": self.shop.release_hold,
            "confirm": self.shop.confirm_hold,
        }[command]

        def follow() -> Any:
            return method(id, buyer=buyer)

        def expect(outcome: Any, again: Ask) -> None:
            assert said(outcome) == self.followed(command, id, buyer, outcome)

        return follow, expect

    def followed(self, command: str, id: str, buyer: str | None, outcome: Any) -> str:
        """What to expect, done to the model too."""
        owner = self.model.owners.get(id)
        if owner is None:
            return "no.unknown_hold"
        if buyer not in (None, owner.buyer):
            return "no.not_yours"
        if ended := self.model.ended.get(id):
            if command == "confirm" and ended == "confirmed" and id in self.order_ids.values():
                return "confirmed"
            return "released" if (command, ended) == ("release", "released") else f"no.{ended}"
        if owner.until_ms <= self.clock():
            return "released" if command == "release" else "no.expired"
        if command == "extend":
            if owner.extensions == EXTENSIONS:
                return "no.extension_limit"
            owner.extensions += 1
            owner.until_ms += SOFT_MS
            return "extended"
        if command == "pay":
            owner.until_ms += 0 if owner.paying else GRACE_MS
            owner.paying = True
            return "paying"
        if command == "confirm":
            owner.until_ms, owner.sold = FOREVER_MS, True
            self.model.ended[id] = "confirmed"
            self.order_ids[outcome.order.id] = id
            return "confirmed"
        owner.until_ms = 0
        self.model.ended[id] = "released"
        return "released"

    def start_cancel(self, back: int) -> Any:
        ids = list(self.order_ids)
        id = one_of_the_last(ids, back)

        def expect(outcome: Any, again: Ask) -> None:
            if id not in self.order_ids:
                assert said(outcome) == ("cancelled" if id in ids else "no.unknown_order")
                return
            assert said(outcome) == "cancelled"
            owner = self.model.owners[self.order_ids.pop(id)]
            owner.until_ms, owner.sold = 0, False

        return lambda: self.shop.cancel_order(id), expect

    def start_again(self, back: int) -> Any:
        """A command that was sent before, with its id: the first answer, and nothing new."""
        if back >= len(self.made):
            return self.start_expire(1)
        ask, first = self.made[-1 - back]

        def expect(outcome: Any, again: Ask) -> None:
            assert outcome == first

        return ask, expect

    def start_expire(self, limit: int) -> Any:
        def expect(outcome: Any, again: Ask) -> None:
            assert isinstance(outcome, Expired)
            assert outcome.count <= limit

        return lambda: self.shop.expire(E1, limit), expect

    def start_switch(self, command: str) -> Any:
        def expect(outcome: Any, again: Ask) -> None:
            assert said(outcome) == "changed"
            self.model.on_sale = command == "open_event"

        return lambda: getattr(self.shop, command)(E1), expect

    def start_withdraw(self, seats: list[str], pools: dict[str, int]) -> Any:
        def expect(outcome: Any, again: Ask) -> None:
            model, now = self.model, self.clock()
            if not set(seats) <= model.seats:
                assert said(outcome) == "no.unknown_unit"
            elif not set(seats) <= model.free(now):
                assert said(outcome) == "no.taken"
            elif any(quantity > model.left(pool, now) for pool, quantity in pools.items()):
                assert said(outcome) == "no.insufficient"
            else:
                assert said(outcome) == "changed"
                model.seats -= set(seats)
                for pool, quantity in pools.items():
                    model.pools[pool] -= quantity

        return lambda: self.shop.withdraw(E1, seats=seats, pools=pools), expect

    @invariant()
    def every_unit_is_where_the_model_says(self) -> None:
        model, now = self.model, self.clock()
        alive = model.alive(now)
        seat_map = self.run(self.shop.seats(E1))
        owner_of = model.owner_of(now)
        expected = {
            seat: "available"
            if seat not in owner_of
            else "sold"
            if model.owners[owner_of[seat]].sold
            else "held"
            for seat in model.seats
        }
        assert {seat.id: seat.state.value for seat in seat_map.seats} == expected
        assert {pool.id: pool.available for pool in seat_map.pools} == {
            pool: model.left(pool, now) for pool in model.pools
        }
        summary = self.run(self.shop.event(E1))
        held = sum(owner.units for owner in alive.values() if not owner.sold)
        sold = sum(owner.units for owner in alive.values() if owner.sold)
        assert (summary.held, summary.sold) == (held, sold)
        assert summary.capacity == len(model.seats) + sum(model.pools.values())
        assert summary.revenue == sum(owner.amount for owner in alive.values() if owner.sold)
        assert summary.seq == seat_map.seq

    @invariant()
    def nothing_is_lost_and_nothing_is_there_twice(self) -> None:
        """Available + held + sold is the capacity, counted from rows alone, model aside."""
        census = self.run(self.shop.store.census(E1))
        seats = [seat for seat in census.seats if not seat.withdrawn]
        states = Counter(seat.state(census.now).value for seat in seats)
        assert states.total() == len(self.model.seats)
        seat_map = self.run(self.shop.seats(E1))
        assert Counter(seat.state.value for seat in seat_map.seats) == states
        claims = [claim for claim in census.claims if claim.until_ms > census.now]
        available = {pool.id: pool.available for pool in seat_map.pools}
        for pool in census.pools:
            held = sum(claim.quantity for claim in claims if claim.pool == pool.id)
            assert available[pool.id] >= 0
            assert available[pool.id] + held + pool.sold == pool.capacity
            assert pool.capacity == self.model.pools[pool.id]

    def teardown(self) -> None:
        try:
            assert self.run(drift(self.shop.store)) == []
        finally:
            self.run(self.shop.__aexit__())
            self.runner.close()
            self.folder.cleanup()


def sale_on(make: Callable[[Path, Clock], Store], folder: Path) -> type[Sale]:
    class SaleThere(Sale):
        def __init__(self) -> None:
            super().__init__(make, folder)

    return SaleThere


def one_of_the_last(ids: list[str], back: int) -> str:
    return ids[-1 - back % len(ids)] if ids and back < NOBODY else f"{E1}.nobody"


def asked(ask: dict[str, Any]) -> dict[str, Any]:
    return ask | {"best": ask["best"] or None}


def runs(seats: set[str]) -> list[set[str]]:
    """Seats side by side, as long as they come."""
    found: list[set[str]] = []
    for seat in SEATS:
        if seat not in seats:
            continue
        row, number = seat.rsplit("-", 1)
        before = f"{row}-{int(number) - 1}"
        if found and before in found[-1]:
            found[-1].add(seat)
        else:
            found.append({seat})
    return found


QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


EXAMPLES = 100
"""In memory always, elsewhere in the soak."""


def quick(name: str) -> int:
    """The rules are the same everywhere; a store only adds its own way of storing."""
    return {"memory": EXAMPLES, "sqlite": 25}.get(name, 10)


DEPTHS = [
    *(pytest.param(name, quick(name), marks=marks(name)) for name in STORES),
    *(
        pytest.param(name, EXAMPLES, marks=(*marks(name), pytest.mark.soak))
        for name in STORES
        if quick(name) < EXAMPLES
    ),
]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("name", "examples"), DEPTHS)
def test_no_course_of_a_sale_breaks_the_books(name, examples, tmp_path):
    def make(folder: Path, clock: Clock) -> Store:
        return needed(lambda: STORES[name](folder, clock))

    run_state_machine_as_test(
        sale_on(make, tmp_path),
        settings=settings(
            max_examples=examples,
            stateful_step_count=30,
            deadline=None,
            derandomize=True,
            suppress_health_check=QUIET,
        ),
    )


SABOTAGE = {
    "a held seat counts as free": (Seat, "free", lambda seat, now: seat.order is None),
    "a sold seat counts as free": (Seat, "free", lambda seat, now: seat.until_ms <= now + 2**62),
    "a hold lives a millisecond too long": (
        Hold,
        "live",
        lambda hold, now: hold.open and hold.until_ms >= now,
    ),
    "paying gives no grace": (Hold, "until_ms", property(lambda hold: hold.soft_ms)),
    "a pool has one more than it has": (
        Pool,
        "free",
        property(lambda pool: pool.capacity - pool.held - pool.sold + 1),
    ),
    "sold stock is not counted": (
        Pool,
        "free",
        property(lambda pool: pool.capacity - pool.held),
    ),
}


@pytest.mark.parametrize("how", SABOTAGE)
def test_the_simulation_notices_when(how, monkeypatch, tmp_path):
    owner, name, wrong = SABOTAGE[how]
    monkeypatch.setattr(owner, name, wrong)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            sale_on(STORES["memory"], tmp_path),
            settings=settings(
                max_examples=80,
                stateful_step_count=30,
                deadline=None,
                derandomize=True,
                database=None,
                phases=[Phase.generate],
                report_multiple_bugs=False,
                suppress_health_check=QUIET,
            ),
        )
