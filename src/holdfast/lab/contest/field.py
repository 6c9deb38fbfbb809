"""The common ground on which strategies meet: what buyers want, what a strategy is, what is
counted.

Every strategy sells the same stock to the same buyers. What was sold is
counted afterwards from the rows, never from what a strategy said about itself.
"""

import math
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import ClassVar

import msgspec

from holdfast.lab.contest.claims import Claims
from holdfast.lab.contest.databases import Database

POOL = "pool"
SEATS_MAX = 100_000
"""So many have names of one length, which sort as they stand side by side."""


class Want(msgspec.Struct, frozen=True):
    """What one buyer wants: these seats, all of them or none; or so many units of the pool."""

    seats: tuple[str, ...] = ()
    quantity: int = 0

    @property
    def units(self) -> int:
        return len(self.seats) or self.quantity


class Scenario(msgspec.Struct, frozen=True):
    name: str
    title: str
    buyers: int
    units: int
    quantity: int = 1
    """Units that each buyer wants."""
    contended: bool = True
    """Whether buyers meet at the same row."""
    pool: bool = False
    """Counted stock instead of numbered seats."""
    in_turn: bool = False
    """Whether neighbours in the queue want the same seat, and all seats are wanted; else each wants
    one by chance."""

    def want(self, buyer: int) -> Want:
        """The same for the same buyer in every run."""
        if self.pool:
            return Want(quantity=self.quantity)
        if self.in_turn:
            return Want(seats=(seat(buyer * self.units // self.buyers),))
        first = random.Random(buyer).randrange(self.units - self.quantity + 1)
        return Want(seats=tuple(seat(first + nth) for nth in range(self.quantity)))

    def stock(self) -> int:
        """The units that are there and wanted by somebody."""
        if self.pool or self.quantity > 1:
            return min(self.units, self.buyers * self.quantity)
        return len({self.want(buyer).seats for buyer in range(self.buyers)})

    def scaled(self, buyers: int) -> "Scenario":
        """As many buyers as told. What is scarce stays as scarce as it was, but the last seat and
        the small stock are what they are."""
        units = self.units
        if self.name in ("pairs", "pool", "spread"):
            units = max(round(self.units * buyers / self.buyers), self.quantity)
        return msgspec.structs.replace(self, buyers=buyers, units=units)


SCENARIOS = {
    each.name: each
    for each in (
        Scenario("last-seat", "Everybody wants the last seat", 10_000, 1),
        Scenario("small-stock", "Everybody wants one of the last five", 10_000, 5, pool=True),
        Scenario("spread", "Each wants one seat of many", 10_000, 50_000, contended=False),
        Scenario("pairs", "Two seats side by side, or none", 10_000, 2_000, quantity=2),
        Scenario("pool", "One counter, more buyers than stock", 12_000, 10_000, pool=True),
    )
}


class Counters(msgspec.Struct):
    """What the buyers of one process met."""

    attempts: int = 0
    """Times that a buyer tried, the first included."""
    retries: int = 0
    gave_up: int = 0
    """Buyers who stopped trying, though there may have been stock."""
    statements: int = 0
    """That reached the database, BEGIN and COMMIT included."""
    redis_calls: int = 0
    bought: int = 0
    """Units that buyers were told they have."""
    errors: dict[str, int] = {}
    """How many buyers got no answer, by the text of the error."""
    latencies_us: list[int] = []
    """Of every buyer, from his click to his answer."""
    began_us: int = 0
    ended_us: int = 0
    """By the machine's monotonic clock, which all of its processes share."""

    def again(self) -> None:
        self.attempts += 1
        self.retries += 1

    def fail(self, trouble: Exception) -> None:
        text = f"{type(trouble).__name__}: {trouble}"
        self.errors[text] = self.errors.get(text, 0) + 1

    def percentile_ms(self, percent: float) -> float:
        """The time within which that share of the buyers had their answer (nearest rank)."""
        if not self.latencies_us:
            return 0.0
        ranked = sorted(self.latencies_us)
        return ranked[max(math.ceil(len(ranked) * percent / 100), 1) - 1] / 1000


def merged(parts: Sequence[Counters]) -> Counters:
    """Several processes' counters as one: every latency is kept, none is averaged."""
    errors: Counter[str] = Counter()
    for part in parts:
        errors.update(part.errors)
    counted = ("attempts", "retries", "gave_up", "statements", "redis_calls", "bought")
    return Counters(
        **{name: sum(getattr(part, name) for part in parts) for name in counted},
        errors=dict(errors),
        latencies_us=[each for part in parts for each in part.latencies_us],
        began_us=min(part.began_us for part in parts),
        ended_us=max(part.ended_us for part in parts),
    )


class Ground(msgspec.Struct):
    """What a strategy stands on in one process."""

    scenario: Scenario
    counters: Counters
    db: Database
    """Some of the lab's connections; of group commit, which brings its own, none is used."""
    redis: Claims
    url: str = ""
    """The store's address."""
    event: str = ""
    """The event that was made for Holdfast."""
    abreast: int = 1
    """Buyers who have a connection at the same time."""


class Strategy:
    """One design. What a class says of itself decides where it runs and how it is shown."""

    name: ClassVar[str]
    stores: ClassVar[tuple[str, ...]] = ("postgresql", "mysql", "sqlite")
    """Those it runs on; `redis` is that alone."""
    uses_redis: ClassVar[bool] = False
    durable: ClassVar[bool] = True
    """Whether a sale that was confirmed outlives a loss of power."""
    unit_rows: ClassVar[bool] = False
    """Whether it wants a row for every unit of a pool."""
    index: ClassVar[str] = ""
    """An index that it needs beside the tables that all have."""
    why_not: ClassVar[dict[str, str]] = {}
    """Why it is left out, by store or by scenario."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.db = ground.db
        self.redis = ground.redis
        self.counters = ground.counters

    async def open(self) -> None:
        """Before the first click; not part of what is measured."""

    async def close(self) -> None:
        """After the last answer."""

    async def buy(self, buyer: str, want: Want) -> bool:
        """What one click does: whether the buyer has all that he wants, sold to the end. Raises
        Again where the database asks for another try."""
        raise NotImplementedError


class Sold(msgspec.Struct, frozen=True):
    """What the rows say."""

    sold: int
    oversold: int
    """Units that somebody bought in vain."""
    torn: int
    """Buyers who got a part of what they wanted."""


def count(scenario: Scenario, sales: Iterable[tuple[str, int, str]]) -> Sold:
    """From rows of unit, quantity and buyer."""
    owners: Counter[str] = Counter()
    buyers: Counter[str] = Counter()
    for unit, quantity, buyer in sales:
        owners[unit] += quantity
        buyers[buyer] += quantity
    if scenario.pool:
        oversold = max(owners.total() - scenario.units, 0)
    else:
        oversold = sum(each - 1 for each in owners.values() if each > 1)
    torn = sum(each != scenario.quantity for each in buyers.values())
    return Sold(owners.total(), oversold, torn)


def seat(nth: int) -> str:
    return f"S-{nth:05}"
