"""A crowd that wants the same few seats at the same moment.

    await shop.create_event(house("rush", seats=5))
    tally = await stampede(shop, "rush", range(10_000), 5)     # what the buyers were told
    found = await count(shop.store, "rush", 5)                 # what the authority's rows say

The two are kept apart on purpose: an engine that oversells would also be wrong about it, so `count`
reads orders row by row and asks the engine nothing.
"""

import asyncio
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence

import msgspec

from holdfast.domain.faults import Fault
from holdfast.domain.outcomes import Confirmed, Placed, Refused
from holdfast.engine import Holdfast
from holdfast.errors import Invalid
from holdfast.ports import Store

WAITING_MAX = 10_000
"""Buyers of one process that wait for an answer at a time; the next one asks as one is answered."""
PROGRESS_EVERY = 100
"""Answers between two reports of progress."""
ERROR_TEXTS_MAX = 20
"""Different errors told apart; the rest is counted together."""
ROW_SEATS = 100

Seats = int | Sequence[str]
"""Which seats a crowd wants: the first so many of the event's map, or these."""
Buy = Callable[[str, str], Awaitable[bool]]
"""A buyer asks for a seat, and buys it if he gets it: whether he did."""


class Tally(msgspec.Struct):
    """What buyers were told. Every buyer is in exactly one of `sold`, `rejected` and `errors`."""

    sold: int = 0
    rejected: int = 0
    errors: dict[str, int] = {}
    """How many buyers got no answer, by the text of the error."""
    latencies_us: list[int] = []
    """Of every buyer, from his ask to his last answer."""
    began_us: int = 0
    ended_us: int = 0
    """By the machine's monotonic clock, which all of its processes share."""

    @property
    def failed(self) -> int:
        return sum(self.errors.values())

    @property
    def answered(self) -> int:
        return len(self.latencies_us)

    @property
    def elapsed_ms(self) -> float:
        return round((self.ended_us - self.began_us) / 1000, 3)

    def percentile_ms(self, percent: float) -> float:
        """The time within which that share of the buyers had their answer (nearest rank)."""
        if not self.latencies_us:
            return 0.0
        ranked = sorted(self.latencies_us)
        return ranked[max(math.ceil(len(ranked) * percent / 100), 1) - 1] / 1000


class Found(msgspec.Struct, frozen=True):
    """What the authority's rows say. `oversold` counts the units that somebody bought in vain."""

    sold: int
    oversold: int


def house(event: str, seats: int, price: int = 1000) -> dict[str, object]:
    """The description of an event with that many seats and nothing else."""
    plans = [
        {
            "id": f"S-{n + 1}",
            "section": "S",
            "row": n // ROW_SEATS + 1,
            "number": n + 1,
            "tier": "seat",
        }
        for n in range(seats)
    ]
    return {"id": event, "name": "Stampede", "prices": {"seat": price}, "seats": plans}


async def wanted(shop: Holdfast, event: str, seats: Seats) -> Sequence[str]:
    """The names of the seats that a crowd wants."""
    if not isinstance(seats, int):
        return seats
    seat_map = await shop.seats(event)
    if seat_map is None:
        raise Invalid([Fault("event", "there is no such event", repr(event))])
    if not 1 <= seats <= len(seat_map.seats):
        raise Invalid([Fault("seats", f"{event} has {len(seat_map.seats)}", str(seats))])
    return [seat.id for seat in seat_map.seats[:seats]]


async def stampede(
    shop: Holdfast,
    event: str,
    buyers: range,
    seats: Seats,
    on_progress: Callable[[Tally], None] | None = None,
) -> Tally:
    """Every buyer asks for a seat, the i-th for seat i modulo the number of seats; who gets it
    buys it. All ask at once, but no more than WAITING_MAX wait at a time.

    A buyer who meets an error is counted and the others go on. `on_progress` is called now and
    then, and at the end, with the tally as it stands.
    """
    names = await wanted(shop, event, seats)
    waiting = min(WAITING_MAX, shop.settings.lane_max)
    return await rush(buyer_of(shop, event), buyers, names, waiting, on_progress)


def buyer_of(shop: Holdfast, event: str, pool: str | None = None) -> Buy:
    """A buyer at that event; of a pool he wants one, whatever seat he is told."""

    async def buy(buyer: str, seat: str) -> bool:
        seats, pools = ((), {pool: 1}) if pool else ((seat,), None)
        match await shop.place_hold(event, buyer=buyer, seats=seats, pools=pools):
            case Placed(hold):
                answer = await shop.confirm_hold(hold.id, buyer=buyer)
                return isinstance(answer, Confirmed)
            case Refused():
                return False

    return buy


async def rush(
    buy: Buy,
    buyers: range,
    seats: Sequence[str],
    waiting: int,
    on_progress: Callable[[Tally], None] | None = None,
) -> Tally:
    """The crowd itself, whatever it buys from; no more than `waiting` wait at a time."""
    crowd = _Crowd(buy, seats, on_progress)
    numbers = iter(buyers)
    crowd.tally.began_us = _now_us()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(min(len(buyers), waiting)):
            tasks.create_task(crowd.serve(numbers))
    crowd.tally.ended_us = _now_us()
    if on_progress:
        on_progress(crowd.tally)
    return crowd.tally


class _Crowd:
    def __init__(
        self, buy: Buy, seats: Sequence[str], on_progress: Callable[[Tally], None] | None
    ) -> None:
        self.tally = Tally(began_us=_now_us())
        self._buy = buy
        self._seats = seats
        self._on_progress = on_progress

    async def serve(self, numbers: Iterator[int]) -> None:
        """One after the other, the buyers that nobody else serves."""
        tally = self.tally
        for number in numbers:
            asked_us = _now_us()
            try:
                if await self._buy(f"buyer-{number}", self._seats[number % len(self._seats)]):
                    tally.sold += 1
                else:
                    tally.rejected += 1
            except Exception as trouble:  # whatever it is, it happened to this buyer alone
                self._fail(trouble)
            tally.ended_us = _now_us()
            tally.latencies_us.append(tally.ended_us - asked_us)
            if self._on_progress and tally.answered % PROGRESS_EVERY == 0:
                self._on_progress(tally)

    def _fail(self, trouble: Exception) -> None:
        errors = self.tally.errors
        text = f"{type(trouble).__name__}: {trouble}"
        if text not in errors and len(errors) >= ERROR_TEXTS_MAX:
            text = "other errors"
        errors[text] = errors.get(text, 0) + 1


async def count(store: Store, event: str, seats: Seats) -> Found:
    """Counts what was sold from the rows of the authority, order by order.

    With a number of seats the whole event is counted, and every unit beyond that number is
    oversold; with names, those seats alone. A seat with two owners is oversold in any case. An
    event that is not there has sold nothing.
    """
    census = await store.census(event)
    owners: Counter[str] = Counter()
    counted = 0
    for order in census.orders if census else ():
        if order.sold:
            owners.update(order.seats)
            counted += sum(order.pools.values())
    if isinstance(seats, int):
        sold, offered = owners.total() + counted, seats
    else:
        owners = Counter({seat: owners[seat] for seat in seats})
        sold, offered = owners.total(), len(seats)
    return Found(sold=sold, oversold=max(sold_twice(owners), sold - offered, 0))


def sold_twice(owners: Counter[str]) -> int:
    """Owners that seats have beyond their first."""
    return sum(each - 1 for each in owners.values() if each > 1)


def merged(tallies: Sequence[Tally]) -> Tally:
    """Several processes' tallies as one: every latency is kept, none is averaged."""
    errors: Counter[str] = Counter()
    for tally in tallies:
        errors.update(tally.errors)
    return Tally(
        sold=sum(tally.sold for tally in tallies),
        rejected=sum(tally.rejected for tally in tallies),
        errors=dict(errors),
        latencies_us=[latency for tally in tallies for latency in tally.latencies_us],
        began_us=min(tally.began_us for tally in tallies),
        ended_us=max(tally.ended_us for tally in tallies),
    )


class Report(msgspec.Struct, frozen=True):
    """A stampede's result, as `holdfast stampede --json` prints it."""

    buyers: int
    seats: int
    sold: int
    rejected: int
    errors: int
    oversold: int
    elapsed_ms: float
    p50_ms: float
    p99_ms: float
    store: str
    gate: str = "none"
    policy: str = "authority"

    @property
    def rate(self) -> int:
        """Answers in a second."""
        answered = self.buyers - self.errors
        return round(answered / self.elapsed_ms * 1000) if self.elapsed_ms else answered

    @property
    def faults(self) -> list[str]:
        """What is wrong with it, each in a line; empty when every promise was kept."""
        expected = min(self.seats, self.buyers)
        found = []
        if self.oversold:
            found.append(f"oversold by {self.oversold}")
        if self.sold != expected:
            found.append(f"{expected} should be sold, the authority's rows have {self.sold}")
        if self.errors:
            found.append(f"{self.errors} buyers got an error instead of an answer")
        told = self.buyers - self.rejected - self.errors
        if told != self.sold:
            found.append(f"{told} buyers were told that they bought, the rows have {self.sold}")
        return found


def report(
    tally: Tally,
    found: Found,
    seats: int,
    store: str,
    gate: str = "none",
    policy: str = "authority",
) -> Report:
    return Report(
        buyers=tally.answered,
        seats=seats,
        sold=found.sold,
        rejected=tally.rejected,
        errors=tally.failed,
        oversold=found.oversold,
        elapsed_ms=tally.elapsed_ms,
        p50_ms=tally.percentile_ms(50),
        p99_ms=tally.percentile_ms(99),
        store=store,
        gate=gate,
        policy=policy,
    )


def _now_us() -> int:
    return time.monotonic_ns() // 1000
