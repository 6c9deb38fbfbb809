"""The choice of the best seats still free.

The idea: every seat is one bit, and all bits of the house lie in one Python integer, best row
first. Adjacent seats are adjacent bits; wherever two neighbours do not belong together (an aisle,
a missing number, the end of the row) a bit that is never set stands between them. A question
about all rows at once is then a few shifts and ANDs over some kilobytes:

    free & free >> 1 & free >> 2    where three free seats begin (a *window* of three)
    free & ~(free << 1)             the first seat of each free *run*
    free & eligible                 the free seats that this ask may have

So `set` flips one bit, and a choice costs the same whether the house is empty or nearly sold out.

That leaves the cheapest of the windows found. What a window costs never changes during a sale, so
for each party size all windows were sorted once, and cut into bands of a few hundred. Bisection
finds the first band in which a window is still to be had, and a look through that band alone
finds the window itself.
"""

import re
from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from heapq import heappop, heappush
from itertools import accumulate, chain, pairwise
from math import hypot
from operator import sub
from statistics import median
from typing import TypeVar

import msgspec

from holdfast.domain.model import FOREVER_MS, Best, Millis, Ranking, SeatPlan

AISLE_STEPS = 1.5
"""Neighbours further apart than this many usual steps of their row have an aisle between them."""

COST_UNITS = 1_000_000
"""Distances are counted in this many parts of the house's extent: integers compare exactly."""

PARTY_PREPARED_MAX = 10
"""Party sizes up to this are sorted when the house is built, larger ones when first asked for."""

ORDERS_MAX = 24
ANSWERS_MAX = 1_024
DEADLINES_IDLE_MAX = 64
BAND_WINDOWS_MIN = 512
BANDS_MAX = 128
"""Each band keeps a bit for every seat, so their number is limited, not their length."""

_Facet = TypeVar("_Facet", bound=Hashable)
_Row = list[SeatPlan]


class Shortage(msgspec.Struct, frozen=True):
    """No choice meets the ask. `available` seats could be had by one that accepts any split.

    None of them: sold out. Fewer than asked for: insufficient. Else they are not together.
    """

    available: int


class House:
    """The free seats of one event, kept up to date, and the choice of the best of them."""

    def __init__(self, plans: Iterable[SeatPlan], ranking: Ranking) -> None:
        self._floor = _Floor(plans, ranking)
        self._now: Millis = 0
        # Bit b of `_free` is set exactly if `_until[b] <= _now` and b is a seat.
        self._free = self._floor.seats
        self._until: list[Millis] = [0] * len(self._floor.ids)
        # The seats of each deadline, and the deadlines on either side of the present: those ahead
        # soonest first, those passed latest first (so negated). A deadline that has lost all its
        # seats may linger there.
        self._due: dict[Millis, set[int]] = {}
        self._ahead: list[Millis] = []
        self._passed: list[Millis] = []
        # What was answered since the last change: a crowd asks the same again and again.
        self._answers: dict[tuple[Best, frozenset[str]], list[str] | Shortage] = {}

    def set(self, seat_id: str, until_ms: Millis) -> None:
        """From now on the seat is free at `until_ms` and later. An unknown seat is ignored."""
        bit = self._floor.bits.get(seat_id)
        if bit is None or (before_ms := self._until[bit]) == until_ms:
            return
        self._until[bit] = until_ms
        if (before_ms <= self._now) != (until_ms <= self._now):
            self._flip(1 << bit)
        if due := self._due.get(before_ms):
            due.remove(bit)
            if not due:
                del self._due[before_ms]
        if due := self._due.get(until_ms):
            due.add(bit)
        elif 0 < until_ms < FOREVER_MS:
            self._due[until_ms] = {bit}
            self._watch(until_ms)

    def reset(self) -> None:
        """All seats free, as at the beginning."""
        self._free = self._floor.seats
        self._until = [0] * len(self._floor.ids)
        self._due.clear()
        self._ahead.clear()
        self._passed.clear()
        self._answers.clear()

    def until(self, seat_id: str) -> Millis:
        """What `set` last said of the seat; 0 if nothing, or if there is no such seat."""
        bit = self._floor.bits.get(seat_id)
        return 0 if bit is None else self._until[bit]

    def accessible(self, seat_ids: Iterable[str]) -> bool:
        """Whether one of these is an accessible seat."""
        bits = (self._floor.bits.get(id, self._floor.nowhere) for id in seat_ids)
        return any(self._floor.accessible >> bit & 1 for bit in bits)

    def restricted(self, seat_ids: Collection[str]) -> frozenset[str]:
        """Seats with a restricted view; none, if one of these is such a seat."""
        restricted = self._floor.restricted
        return frozenset() if restricted.intersection(seat_ids) else restricted

    def candidates(
        self, best: Best, channels: tuple[str, ...], now: Millis, most: int
    ) -> list[str]:
        """The free seats that the ask may have, those in the better rows first."""
        self._move_to(now)
        allowed = frozenset(channels).intersection(self._floor.channels)
        free = self._free_for(best, allowed, ())
        ids: list[str] = []
        while free and len(ids) < most:
            bit = (free & -free).bit_length() - 1
            ids.append(self._floor.ids[bit])
            free ^= 1 << bit
        return ids

    def choose(
        self, best: Best, channels: tuple[str, ...], now: Millis, without: Collection[str] = ()
    ) -> list[str] | Shortage:
        """The best seats free at `now`, except those in `without`, or how many are left.

        The choice is the exact optimum: fewest single seats stranded, then least cost, then the
        better row, then the lower position. It marks nothing: the caller reports with `set` what
        became of the seats.
        """
        self._move_to(now)
        # Only channels that exist count, so invented names cannot fill the cache.
        allowed = frozenset(channels).intersection(self._floor.channels)
        if without:
            return self._decide(best, allowed, without)
        answer = self._answers.get((best, allowed))
        if answer is None:
            if len(self._answers) >= ANSWERS_MAX:
                self._answers.clear()
            answer = self._answers[best, allowed] = self._decide(best, allowed, ())
        return answer if isinstance(answer, Shortage) else answer.copy()

    def _decide(
        self, best: Best, channels: frozenset[str], without: Collection[str]
    ) -> list[str] | Shortage:
        free = self._free_for(best, channels, without)
        if (available := free.bit_count()) < best.quantity:
            return Shortage(available)
        chosen: list[str] = []
        while (size := best.quantity - len(chosen)) > 0:
            if not (windows := _windows(free, size)):
                if best.together:
                    return Shortage(available)
                # These windows are whole runs, so taking one leaves the others as they are.
                size, windows = _largest_windows(free)
            start = self._best_window(free, windows, size, best.accessible)
            chosen += self._floor.ids[start : start + size]
            free ^= ((1 << size) - 1) << start
        return chosen

    def _free_for(self, best: Best, channels: frozenset[str], without: Collection[str]) -> int:
        floor = self._floor
        free = self._free & floor.eligible(best, channels)
        if without:
            free &= ~_mask([floor.bits.get(seat_id, floor.nowhere) for seat_id in without])
        # Companion seats with no accessible seat in their run serve nobody who asks for one.
        return _runs_with(floor.accessible, free) if best.accessible else free

    def _best_window(self, free: int, windows: int, size: int, accessible: bool) -> int:
        """Where the best of the windows begins, of which there must be one."""
        if accessible:
            windows &= _overlapping(self._floor.accessible, size)
        # The first and the last seat of each run. `a ^ (a & b)` is `a & ~b` without a negative
        # number, on which Python is slow.
        first, last = free ^ (free & free << 1), free ^ (free & free >> 1)
        # A single seat is stranded on the left if the seat before the window is the first of its
        # run, and on the right if the seat after the window is the last.
        left, right = windows & first << 1, windows & last >> size
        none_stranded, one_stranded = windows ^ (left | right), left ^ right
        return self._floor.order(size).first(none_stranded or one_stranded or windows)

    def _move_to(self, now: Millis) -> None:
        """Make `now` the present. It may lie before the last one: clocks are read in turns."""
        self._now = now
        crossed: set[int] = set()
        while self._ahead and self._ahead[0] <= now:
            deadline = heappop(self._ahead)
            heappush(self._passed, -deadline)
            crossed |= self._due.get(deadline, set())
        while self._passed and -self._passed[0] > now:
            deadline = -heappop(self._passed)
            heappush(self._ahead, deadline)
            crossed |= self._due.get(deadline, set())
        if crossed:
            self._flip(_mask(crossed))

    def _flip(self, seats: int) -> None:
        self._free ^= seats
        self._answers.clear()

    def _watch(self, deadline: Millis) -> None:
        if deadline > self._now:
            heappush(self._ahead, deadline)
        else:
            heappush(self._passed, -deadline)
        if len(self._ahead) + len(self._passed) > 2 * len(self._due) + DEADLINES_IDLE_MAX:
            # Most have lost their seats. Sorted lists are heaps.
            self._ahead = sorted(due for due in self._due if due > self._now)
            self._passed = sorted(-due for due in self._due if due <= self._now)


class _Floor:
    """Where each seat lies in the house's integer, whom it is for, what it costs. Constant."""

    def __init__(self, plans: Iterable[SeatPlan], ranking: Ranking) -> None:
        rows = _rows({plan.id: plan for plan in plans}.values())
        self.ids: list[str] = []
        self.runs: list[range] = []
        placed: list[tuple[int, SeatPlan]] = []
        for run in chain.from_iterable(map(_adjacent, rows)):
            start = len(self.ids)
            self.runs.append(range(start, start + len(run)))
            placed += enumerate(run, start)
            self.ids += [seat.id for seat in run]
            self.ids.append("")
        self.nowhere = len(self.ids)
        self.bits = {seat.id: bit for bit, seat in placed}
        self.seats = _mask(self.bits.values())
        self.sections = _masks(placed, lambda seat: seat.section)
        self.tiers = _masks(placed, lambda seat: seat.tier)
        self.channels = _masks(placed, lambda seat: seat.channel)
        self.accessible = _mask([bit for bit, seat in placed if seat.accessible])
        self.special = self.accessible | _mask([bit for bit, seat in placed if seat.companion])
        self.ordinary = self.seats ^ self.special
        self.restricted = frozenset(seat.id for _, seat in placed if seat.restricted_view)
        costs = [0] * len(self.ids)
        for bit, cost in zip(self.bits.values(), _COSTS[ranking](rows), strict=True):
            costs[bit] = cost
        self._sums = list(accumulate(costs, initial=0))
        self._orders: dict[int, _Order] = {}
        for size in range(1, PARTY_PREPARED_MAX + 1):
            self.order(size)

    def eligible(self, best: Best, channels: frozenset[str]) -> int:
        """The seats, free or not, that the ask may have."""
        seats = self.channels.get(None, 0)
        for channel in channels:
            seats |= self.channels[channel]
        if best.section is not None:
            seats &= self.sections.get(best.section, 0)
        if best.tier is not None:
            seats &= self.tiers.get(best.tier, 0)
        return seats & (self.special if best.accessible else self.ordinary)

    def order(self, size: int) -> "_Order":
        """The windows of one size by cost."""
        order = self._orders.get(size)
        if order is None:
            if len(self._orders) >= ORDERS_MAX:
                self._orders.popitem()  # The latest: the prepared sizes are the oldest, and stay.
            order = self._orders[size] = _Order(size, self.runs, self._sums)
        return order


class _Order:
    """All windows of one size, cheapest first; equals by row and position, as the bits lie."""

    def __init__(self, size: int, runs: Iterable[range], sums: list[int]) -> None:
        starts = [start for run in runs for start in run[: max(0, len(run) - size + 1)]]
        costs = list(map(sub, sums[size:], sums))
        starts.sort(key=costs.__getitem__)
        self._starts = array("I", starts)
        self._octets = len(sums) // 8 + 1
        # The windows of the first band, of the first two, of the first three...
        self._band = band = max(BAND_WINDOWS_MIN, len(starts) // BANDS_MAX + 1)
        bands = (starts[at : at + band] for at in range(0, len(starts), band))
        self._reached = list(accumulate(map(_mask, bands), int.__or__))

    def first(self, windows: int) -> int:
        """The cheapest of `windows`, of which there must be one."""
        band = bisect_left(self._reached, True, key=lambda reached: windows & reached != 0)
        bits = windows.to_bytes(self._octets, "little")
        for start in self._starts[band * self._band : (band + 1) * self._band]:
            if bits[start >> 3] >> (start & 7) & 1:
                return start
        raise AssertionError("a band that was reached holds no window")


def _mask(bits: Collection[int]) -> int:
    octets = bytearray(max(bits, default=0) // 8 + 1)
    for bit in bits:
        octets[bit >> 3] |= 1 << (bit & 7)
    return int.from_bytes(octets, "little")


def _masks(
    placed: Iterable[tuple[int, SeatPlan]], facet: Callable[[SeatPlan], _Facet]
) -> dict[_Facet, int]:
    found: defaultdict[_Facet, list[int]] = defaultdict(list)
    for bit, seat in placed:
        found[facet(seat)].append(bit)
    return {value: _mask(bits) for value, bits in found.items()}


def _windows(seats: int, size: int) -> int:
    """Where `size` adjacent seats begin. The width doubles, so ten seats take four steps."""
    width = 1
    while width < size:
        step = min(width, size - width)
        seats &= seats >> step
        width += step
    return seats


def _overlapping(seats: int, size: int) -> int:
    """Where a window of `size` holds at least one of `seats`."""
    width = 1
    while width < size:
        step = min(width, size - width)
        seats |= seats >> step
        width += step
    return seats


def _largest_windows(seats: int) -> tuple[int, int]:
    """The length of the longest runs, and where they begin."""
    size = 1
    while longer := seats & seats >> 1:
        size, seats = size + 1, longer
    return size, seats


def _runs_with(wanted: int, seats: int) -> int:
    """The whole runs of `seats` that hold at least one of `wanted`."""
    reached, before = seats & wanted, 0
    while reached != before:
        reached, before = seats & (reached | reached << 1 | reached >> 1), reached
    return reached


def _rows(plans: Iterable[SeatPlan]) -> list[_Row]:
    """The rows, best first: nearer the front, then nearer the middle of the house, then by name."""
    rows: defaultdict[tuple[str, str], _Row] = defaultdict(list)
    for plan in plans:
        rows[plan.section, plan.row].append(plan)
    if not rows:
        return []
    middle = _middle(plan.x for row in rows.values() for plan in row)

    def place(row: _Row) -> tuple[object, ...]:
        aside = abs(_middle(seat.x for seat in row) - middle)
        section, name = row[0].section, row[0].row
        return (_middle(s.y for s in row), aside, _natural(section), _natural(name), section, name)

    for row in rows.values():
        row.sort(key=lambda seat: (seat.number, seat.id))
    return sorted(rows.values(), key=place)


def _natural(name: str) -> list[tuple[str, int]]:
    """Row 2 comes before row 10."""
    return [(text, int(digits or 0)) for text, digits in re.findall(r"([^0-9]*)([0-9]*)", name)]


def _adjacent(row: _Row) -> Iterator[_Row]:
    """The row cut at every aisle and missing number."""
    steps = [_apart(a, b) for a, b in pairwise(row) if b.number - a.number == 1]
    step_max = AISLE_STEPS * median(steps) if steps else 0.0
    start = 0
    for at, (a, b) in enumerate(pairwise(row), 1):
        if b.number - a.number != 1 or _apart(a, b) > step_max:
            yield row[start:at]
            start = at
    yield row[start:]


def _apart(a: SeatPlan, b: SeatPlan) -> float:
    """In a bent row, or one that runs front to back, x alone does not say."""
    return hypot(b.x - a.x, b.y - a.y)


def _middle(values: Iterable[float]) -> float:
    values = list(values)
    return (min(values) + max(values)) / 2


def _extent(seats: _Row) -> float:
    xs, ys = [seat.x for seat in seats], [seat.y for seat in seats]
    return max(max(xs) - min(xs), max(ys) - min(ys)) or 1.0


def _costs_by_row(rows: list[_Row]) -> Iterator[int]:
    extent = _extent(list(chain.from_iterable(rows))) if rows else 1.0
    for place, row in enumerate(rows):
        middle = _middle(seat.x for seat in row)
        for seat in row:
            # No seat is further than half an extent from its middle, so the row always decides.
            yield place * COST_UNITS + round(abs(seat.x - middle) * COST_UNITS / extent)


def _costs_by_centre(rows: list[_Row]) -> Iterator[int]:
    seats = list(chain.from_iterable(rows))
    if not seats:
        return
    extent = _extent(seats)
    middle, front = _middle(seat.x for seat in seats), min(seat.y for seat in seats)
    for seat in seats:
        yield round(hypot(seat.x - middle, seat.y - front) * COST_UNITS / extent)


def _costs_by_rank(rows: list[_Row]) -> Iterator[int]:
    seats = list(chain.from_iterable(rows))
    ranks = [seat.rank for seat in seats if seat.rank is not None] or [0]
    # Also in a sum, one seat without a rank is worse than a whole row of the worst ranked ones.
    longest = max(map(len, rows), default=0)
    unranked = max(ranks) + longest * (max(ranks) - min(ranks)) + 1
    for seat in seats:
        yield unranked if seat.rank is None else seat.rank


_COSTS: dict[Ranking, Callable[[list[_Row]], Iterator[int]]] = {
    Ranking.ROWS: _costs_by_row,
    Ranking.CENTRE: _costs_by_centre,
    Ranking.RANK: _costs_by_rank,
}
