"""What can be tried, how it goes, and what came of it."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Literal

import msgspec

from holdfast.domain.model import Millis
from holdfast.lab.contest.field import Scenario
from holdfast.lab.contest.field import seat as seat_name

BUYERS_MAX = 20_000
SEATS_MAX = 1_000
RUN_SECONDS_MAX = 120
"""A run that takes longer is stopped."""
WAITING_MAX = 1_000
"""Buyers who wait for an answer at a time, of every strategy alike; the next one clicks as one is
answered."""
HTTP_CONNECTIONS_MAX = 500
HOLDFAST = "holdfast"
POOL = "stock"

BOUNDS_MS = tuple(round(10 ** (nth / 5 - 2), 3) for nth in range(37))
"""Upper bounds of the histogram's buckets, five for each power of ten: from 0.01 ms to 158 s."""

Over = Literal["engine", "http"]
State = Literal["running", "done", "failed"]


class Trial(msgspec.Struct, frozen=True):
    """What is asked for. With `stock` the seats are not numbered, but one counted pool."""

    strategy: str
    buyers: int
    seats: int
    stock: bool = False
    policy: str = "authority"
    """The one that counts: where no gate stands before the event it is the authority's."""
    gate: bool = False
    over: Over = "engine"

    def wanted(self) -> list[str]:
        """Of each buyer the seat that he wants. Neighbours in the queue want the same one: so they
        meet, however many seats there are, and every seat is wanted by somebody."""
        return [seat_name(nth * self.seats // self.buyers) for nth in range(self.buyers)]

    def house(self, event: str) -> dict[str, object]:
        """The event that Holdfast sells from. It is free: no order waits for a payment."""
        units = ("place" if self.stock else "seat") + ("s" if self.seats > 1 else "")
        described = {
            "id": event,
            "name": f"Lab: {self.buyers:,} buyers, {self.seats:,} {units}",
            "prices": {"any": 0},
            "policy": self.policy,
            "gate": self.gate,
        }
        if self.stock:
            return {**described, "pools": [{"id": POOL, "capacity": self.seats, "tier": "any"}]}
        seats = [
            {"id": seat_name(nth), "section": "S", "row": "1", "number": nth + 1, "tier": "any"}
            for nth in range(self.seats)
        ]
        return {**described, "seats": seats}

    def scenario(self) -> Scenario:
        """The same for the other strategies."""
        return Scenario("run", "Lab", self.buyers, self.seats, pool=self.stock, in_turn=True)


class Progress(msgspec.Struct, frozen=True, tag=True):
    """By what buyers were told so far."""

    answered: int = 0
    sold: int = 0
    rejected: int = 0
    errors: int = 0
    elapsed_ms: float = 0.0


class Bucket(msgspec.Struct, frozen=True):
    """So many buyers waited for up to `le_ms`, and longer than the bucket before says."""

    le_ms: float
    count: int


class Crowded(msgspec.Struct, frozen=True, tag=True):
    """What a crowd met. `sold` and `oversold` are counted from rows by whoever made these: of
    Holdfast's own event they are not known yet here."""

    progress: Progress
    p50_ms: float
    p99_ms: float
    histogram: list[Bucket]
    reached: int = 0
    """Commands, or statements, that reached the authority."""
    batches: int | None = None
    """Transactions that they were in, where several share one."""
    redis_calls: int = 0
    sold: int = 0
    oversold: int = 0


class Result(msgspec.Struct, frozen=True):
    """`sold` and `oversold` are counted from the authority's rows, after the run."""

    buyers: int
    seats: int
    stock: bool
    sold: int
    rejected: int
    errors: int
    oversold: int
    elapsed_ms: float
    rate: float
    p50_ms: float
    p99_ms: float
    histogram: list[Bucket]
    reached_authority: int
    batches: int | None
    redis_calls: int
    store: str
    gate: str
    policy: str | None
    strategy: str
    over: str


class Run(msgspec.Struct, frozen=True):
    id: str
    trial: Trial
    created_ms: Millis
    state: State = "running"
    progress: Progress = Progress()
    result: Result | None = None
    error: str | None = None
    key: str | None = None
    """The idempotency key that it was asked for with."""

    @property
    def event(self) -> str:
        """The one that Holdfast sells from; other strategies need none."""
        return f"lab-{self.id}"


def histogram(latencies_us: Sequence[int]) -> list[Bucket]:
    """From the first bucket that has somebody to the last; those between are there, also empty."""
    counts = [0] * (len(BOUNDS_MS) + 1)
    for latency in latencies_us:
        counts[bisect_left(BOUNDS_MS, latency / 1000)] += 1
    # A run is stopped before anybody can have waited longer than the last bound says.
    longer = counts.pop()
    counts[-1] += longer
    used = [nth for nth, count in enumerate(counts) if count]
    if not used:
        return []
    return [Bucket(BOUNDS_MS[nth], counts[nth]) for nth in range(used[0], used[-1] + 1)]
