"""Best available: every choice is compared with one made by trying everything."""

import re
from collections.abc import Collection, Iterator
from fractions import Fraction
from itertools import pairwise
from math import cos, hypot, pi, sin, sqrt
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.domain import seating
from holdfast.domain.model import FOREVER_MS, Best, Millis, Ranking, SeatPlan
from holdfast.domain.seating import House, Shortage

NOW = 1_000_000


def row_of(count: int, row: str = "1", *, section: str = "Stalls", y: float = 0) -> list[SeatPlan]:
    """Seats 1 to `count` side by side, named like `1-3`."""
    return [
        SeatPlan(f"{row}-{number}", section, row, number, "A", x=number, y=y)
        for number in range(1, count + 1)
    ]


def house_of(
    *plans: SeatPlan, ranking: Ranking = Ranking.ROWS, sold: Collection[str] = ()
) -> House:
    house = House(plans, ranking)
    for seat in sold:
        house.set(seat, FOREVER_MS)
    return house


def choice(house: House, quantity: int, without: Collection[str] = (), **rest):
    return house.choose(Best(quantity, **rest), (), NOW, without)


def apart(a: SeatPlan, b: SeatPlan) -> float:
    return hypot(b.x - a.x, b.y - a.y)


class Naive:
    """The promise written down as plainly as possible: try every window."""

    def __init__(self, plans: list[SeatPlan], ranking: Ranking) -> None:
        self.until = {plan.id: 0 for plan in plans}
        self.rows = self.rows_in_order(plans)
        self.costs = self.costs_of(plans, ranking)

    @staticmethod
    def middle(values: list[float]) -> Fraction:
        return (Fraction(min(values)) + Fraction(max(values))) / 2

    def rows_in_order(self, plans: list[SeatPlan]) -> list[list[SeatPlan]]:
        names = {(plan.section, plan.row) for plan in plans}
        rows = [[plan for plan in plans if (plan.section, plan.row) == name] for name in names]
        centre = self.middle([plan.x for plan in plans])

        def place(row: list[SeatPlan]) -> tuple[object, ...]:
            aside = abs(self.middle([seat.x for seat in row]) - centre)
            name = [
                [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", text)]
                for text in (row[0].section, row[0].row)
            ]
            return (self.middle([seat.y for seat in row]), aside, name)

        return [sorted(row, key=lambda s: (s.number, s.id)) for row in sorted(rows, key=place)]

    def costs_of(self, plans: list[SeatPlan], ranking: Ranking) -> dict[str, int]:
        xs, ys = [plan.x for plan in plans], [plan.y for plan in plans]
        extent = Fraction(max(max(xs) - min(xs), max(ys) - min(ys))) or 1
        ranks = [plan.rank for plan in plans if plan.rank is not None] or [0]
        costs = {}
        for place, row in enumerate(self.rows):
            for seat in row:
                if ranking is Ranking.RANK:
                    unranked = max(ranks) * 1_000_000
                    costs[seat.id] = unranked if seat.rank is None else seat.rank
                elif ranking is Ranking.CENTRE:
                    across = float((seat.x - self.middle(xs)) ** 2)
                    metres = sqrt(across + (seat.y - min(ys)) ** 2)
                    costs[seat.id] = round(metres * 1_000_000 / float(extent))
                else:
                    aside = abs(seat.x - self.middle([s.x for s in row]))
                    costs[seat.id] = 10**9 * place + round(aside * 1_000_000 / extent)
        return costs

    def runs(self, usable: Collection[str]) -> Iterator[tuple[int, list[tuple[int, SeatPlan]]]]:
        """The maximal runs of adjacent usable seats, each with its row and positions."""
        for place, row in enumerate(self.rows):
            steps = [apart(a, b) for a, b in pairwise(row) if b.number - a.number == 1]
            run: list[tuple[int, SeatPlan]] = []
            for position, seat in enumerate(row):
                if run and not (
                    seat.number - run[-1][1].number == 1
                    and run[-1][0] == position - 1
                    and apart(seat, run[-1][1]) <= 1.5 * median(steps)
                ):
                    yield place, run
                    run = []
                if seat.id in usable:
                    run.append((position, seat))
            if run:
                yield place, run

    def usable(self, best: Best, channels: Collection[str], now: Millis) -> set[str]:
        def fits(seat: SeatPlan) -> bool:
            return (
                self.until[seat.id] <= now
                and best.section in (None, seat.section)
                and best.tier in (None, seat.tier)
                and (seat.channel is None or seat.channel in channels)
                and (seat.accessible or seat.companion) == best.accessible
            )

        return {seat.id for row in self.rows for seat in row if fits(seat)}

    def best_window(self, usable: Collection[str], size: int, accessible: bool) -> list[str] | None:
        found = []
        for place, run in self.runs(usable):
            for start in range(len(run) - size + 1):
                window = [seat for _, seat in run[start : start + size]]
                if accessible and not any(seat.accessible for seat in window):
                    continue
                stranded = (start == 1) + (len(run) - start - size == 1)
                cost = sum(self.costs[seat.id] for seat in window)
                ids = [seat.id for seat in window]
                found.append((stranded, cost, place, run[start][0], ids))
        return min(found)[-1] if found else None

    def choose(
        self, best: Best, channels: tuple[str, ...], now: Millis, without: Collection[str] = ()
    ) -> list[str] | Shortage:
        usable = self.usable(best, channels, now) - set(without)
        available = sum(
            len(run)
            for _, run in self.runs(usable)
            if not best.accessible or any(seat.accessible for _, seat in run)
        )
        if available < best.quantity:
            return Shortage(available)
        if (window := self.best_window(usable, best.quantity, best.accessible)) is not None:
            return window
        if best.together:
            return Shortage(available)
        chosen: list[str] = []
        while missing := best.quantity - len(chosen):
            blocks = (self.best_window(usable, k, best.accessible) for k in range(missing, 0, -1))
            block = next(block for block in blocks if block)
            chosen += block
            usable -= set(block)
        return chosen


SECTIONS = ("Block 2", "Block 10", "Terrace")
TIERS = ("A", "B")
CHANNELS = ("club", "press")

rarely = st.integers(0, 5).map(lambda roll: roll == 0)


@st.composite
def plans(draw: st.DrawFn) -> list[SeatPlan]:
    names = draw(
        st.lists(
            st.tuples(st.sampled_from(SECTIONS), st.sampled_from(("1", "2", "10", "A"))),
            min_size=1,
            max_size=5,
            unique=True,
        )
    )
    seats = []
    for section, row in names:
        number, x = 0, draw(st.integers(-4, 4)) / 2
        y = draw(st.integers(0, 3)) / 2
        special = draw(rarely)
        for _ in range(draw(st.integers(1, 12))):
            number += draw(st.sampled_from((1, 1, 1, 1, 1, 1, 1, 2)))
            x += draw(st.sampled_from((1, 1, 1, 1, 1, 1.5, 1.75, 3, 0)))
            kind = draw(st.sampled_from(("", "accessible", "companion"))) if special else ""
            seats.append(
                SeatPlan(
                    f"{section}/{row}/{number}",
                    section,
                    row,
                    number,
                    draw(st.sampled_from(TIERS)) if draw(rarely) else TIERS[0],
                    x,
                    y + draw(st.sampled_from((0, 0, 0, 0.25))),
                    rank=draw(st.none() | st.integers(1, 30)),
                    accessible=kind == "accessible",
                    companion=kind == "companion",
                    channel=draw(st.sampled_from(CHANNELS)) if draw(rarely) else None,
                )
            )
    return draw(st.permutations(seats))


asks = st.builds(
    Best,
    quantity=st.integers(1, 12),
    section=st.none() | st.sampled_from((*SECTIONS, "nowhere")),
    tier=st.none() | st.sampled_from((*TIERS, "none")),
    together=st.booleans(),
    accessible=st.booleans(),
)
easy_asks = st.builds(Best, quantity=st.integers(1, 5), together=st.booleans())
channel_lists = st.lists(st.sampled_from((*CHANNELS, "unheard of")), max_size=2).map(tuple)


@settings(max_examples=300, deadline=None)
@given(plans(), st.sampled_from(Ranking), st.sampled_from((1, 2, 5, 512)), st.data())
def test_every_choice_is_the_one_found_by_trying_everything(
    seats: list[SeatPlan], ranking: Ranking, band: int, data: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seating, "BAND_WINDOWS_MIN", band)
        patch.setattr(seating, "ORDERS_MAX", 11)
        house, naive, now = House(seats, ranking), Naive(seats, ranking), NOW
        ids = st.sampled_from([seat.id for seat in seats])
        untils = st.integers(-3, 6).map(lambda ms: now + ms) | st.sampled_from((0, FOREVER_MS))
        for _ in range(data.draw(st.integers(1, 12))):
            now += data.draw(st.integers(-2, 3))
            for seat, until in data.draw(st.lists(st.tuples(ids, untils), max_size=8)):
                house.set(seat, until)
                naive.until[seat] = until
            best, channels = data.draw(easy_asks | asks), data.draw(channel_lists)
            without = data.draw(st.sets(ids, max_size=3)) if data.draw(rarely) else ()
            chosen = house.choose(best, channels, now, without)
            assert chosen == naive.choose(best, channels, now, without)
            assert chosen == house.choose(best, channels, now, without)
            for seat in chosen if isinstance(chosen, list) else ():
                house.set(seat, now + 2)
                naive.until[seat] = now + 2


@pytest.mark.parametrize("ranking", Ranking)
def test_a_house_sold_to_the_last_seat_gives_the_best_choice_every_time(ranking: Ranking) -> None:
    seats = [
        replace(seat, rank=(7 * number + 3 * row) % 41, y=float(row))
        for row in range(40)
        for number, seat in enumerate(row_of(30, str(row)))
    ]
    house, naive = House(seats, ranking), Naive(seats, ranking)
    sizes = 0
    while any(until == 0 for until in naive.until.values()):
        sizes += 1
        best = Best(1 + sizes % 10, together=bool(sizes % 3))
        chosen = house.choose(best, (), NOW)
        assert chosen == naive.choose(best, (), NOW)
        if isinstance(chosen, Shortage):
            chosen = choice(house, min(best.quantity, chosen.available), together=False)
        assert isinstance(chosen, list)
        for seat in chosen:
            house.set(seat, FOREVER_MS)
            naive.until[seat] = FOREVER_MS
    assert house.choose(Best(1), (), NOW) == Shortage(0)


def test_the_front_row_comes_first_and_its_middle_before_its_ends() -> None:
    house = house_of(*row_of(7, "2", y=1), *row_of(7, "1", y=0))
    assert choice(house, 3) == ["1-3", "1-4", "1-5"]


def test_row_2_comes_before_row_10_where_the_map_does_not_tell() -> None:
    assert choice(house_of(*row_of(4, "10"), *row_of(4, "2")), 4) == [f"2-{n}" for n in range(1, 5)]


def test_of_rows_equally_near_the_front_the_middle_section_is_preferred() -> None:
    left, centre, right = (
        [replace(seat, x=seat.x + shift) for seat in row_of(5, name, section=name)]
        for name, shift in (("a", 0), ("b", 10), ("c", 20))
    )
    assert choice(house_of(*right, *left, *centre), 1) == ["b-3"]


def test_ranked_by_centre_a_central_seat_further_back_beats_a_front_corner() -> None:
    seats = [*row_of(21, "1", y=0), *row_of(21, "2", y=1)]
    sold = [f"1-{number}" for number in range(4, 19)]
    assert choice(house_of(*seats, ranking=Ranking.CENTRE, sold=sold), 1) == ["2-11"]
    assert choice(house_of(*seats, ranking=Ranking.ROWS, sold=sold), 1) == ["1-3"]


def test_ranked_explicitly_the_lowest_rank_wins_and_unranked_seats_come_last() -> None:
    ranks = [None, None, 900, 900, 1, 2]
    seats = [replace(seat, rank=rank) for seat, rank in zip(row_of(6), ranks, strict=True)]
    house = house_of(*seats, ranking=Ranking.RANK)
    assert choice(house, 2) == ["1-5", "1-6"]
    house = house_of(*seats, ranking=Ranking.RANK, sold=["1-5", "1-6"])
    assert choice(house, 2) == ["1-3", "1-4"]


def test_one_unranked_seat_is_worse_than_several_of_the_worst_rank() -> None:
    first = [replace(seat, rank=rank) for seat, rank in zip(row_of(3), (1, None, 1), strict=True)]
    second = [replace(seat, rank=900) for seat in row_of(3, "2", y=1)]
    assert choice(house_of(*first, *second, ranking=Ranking.RANK), 3) == ["2-1", "2-2", "2-3"]


def test_together_never_crosses_an_aisle() -> None:
    seats = [replace(seat, x=seat.x + (seat.number > 3)) for seat in row_of(6)]
    assert choice(house_of(*seats), 4) == Shortage(6)
    assert choice(house_of(*seats), 3) == ["1-1", "1-2", "1-3"]


def test_an_aisle_is_more_than_one_and_a_half_of_the_usual_steps() -> None:
    for shift, together in ((0.5, True), (0.51, False)):
        seats = [replace(seat, x=seat.x + shift * (seat.number > 3)) for seat in row_of(6)]
        assert isinstance(choice(house_of(*seats), 6), list) is together


def test_in_a_bent_row_neighbours_are_neighbours_and_an_aisle_is_an_aisle() -> None:
    def bent(aisle: int) -> list[SeatPlan]:
        """Around the corner of a stand: it ends running straight to the front."""
        steps = [6 - seat.number + aisle * (seat.number <= 3) for seat in row_of(6)]
        angles = [pi / 2 - step * 0.16 for step in steps]
        places = zip(row_of(6), angles, strict=True)
        return [replace(seat, x=10 * sin(at), y=10 * cos(at)) for seat, at in places]

    assert isinstance(choice(house_of(*bent(aisle=0)), 6), list)
    assert choice(house_of(*bent(aisle=1)), 4) == Shortage(6)


def test_together_never_crosses_a_missing_number() -> None:
    seats = [seat for seat in row_of(7) if seat.number != 4]
    assert choice(house_of(*seats), 4) == Shortage(6)


def test_together_never_crosses_into_another_row_or_section() -> None:
    other = [replace(seat, id=f"other {seat.id}", section="Circle") for seat in row_of(2)]
    assert choice(house_of(*row_of(2), *row_of(2, "2"), *other), 3) == Shortage(6)


def test_seats_without_positions_are_adjacent_by_number() -> None:
    seats = [replace(seat, x=0.0) for seat in row_of(4)]
    assert choice(house_of(*seats), 4) == ["1-1", "1-2", "1-3", "1-4"]


def test_a_choice_strands_no_single_seat_where_that_can_be_avoided() -> None:
    assert choice(house_of(*row_of(5)), 2) == ["1-1", "1-2"]
    assert choice(house_of(*row_of(4), *row_of(3, "2", y=1)), 3) == ["2-1", "2-2", "2-3"]


def test_stranding_a_seat_is_better_than_refusing() -> None:
    assert choice(house_of(*row_of(3)), 2) == ["1-1", "1-2"]


def test_stranding_one_seat_is_better_than_stranding_two() -> None:
    # Ordinary seats never come to this: a run with a seat over on both sides has a better end.
    front = [replace(s, accessible=s.number == 2, companion=s.number != 2) for s in row_of(3)]
    back = [replace(s, accessible=s.number == 1, companion=True) for s in row_of(2, "2", y=1)]
    assert choice(house_of(*front), 1, accessible=True) == ["1-2"]
    assert choice(house_of(*front, *back), 1, accessible=True) == ["2-1"]


def test_a_seat_the_ask_may_not_have_does_not_count_as_stranded() -> None:
    seats = row_of(4)
    seats[3] = replace(seats[3], tier="B")
    assert choice(house_of(*seats, *row_of(3, "2", y=1)), 3, tier="A") == ["1-1", "1-2", "1-3"]


WHEELCHAIR_ROW = [
    replace(seat, accessible=seat.number == 3, companion=seat.number in (2, 4))
    for seat in row_of(6)
]


def test_accessible_and_companion_seats_are_given_only_when_asked_for() -> None:
    house = house_of(*WHEELCHAIR_ROW)
    assert choice(house, 1) == ["1-1"]
    assert choice(house, 2) == ["1-5", "1-6"]
    assert choice(house, 4, together=False) == Shortage(3)
    assert choice(house, 2, accessible=True) == ["1-3", "1-4"]
    assert choice(house, 3, accessible=True) == ["1-2", "1-3", "1-4"]


def test_asked_for_one_accessible_seat_a_companion_seat_is_no_answer() -> None:
    assert choice(house_of(*WHEELCHAIR_ROW), 1, accessible=True) == ["1-3"]
    house = house_of(*WHEELCHAIR_ROW, sold=["1-3"])
    assert choice(house, 1, accessible=True) == Shortage(0)
    assert choice(house, 1, accessible=True, together=False) == Shortage(0)


def test_each_block_of_a_split_party_has_an_accessible_seat() -> None:
    second = [replace(seat, id=f"2-{seat.number}", row="2", y=1.0) for seat in WHEELCHAIR_ROW]
    house = house_of(*WHEELCHAIR_ROW, *second, sold=["1-4"])
    split = ["2-2", "2-3", "2-4", "1-3"]
    assert choice(house, 4, accessible=True, together=False) == split


def test_a_party_is_split_only_if_it_need_not_sit_together() -> None:
    house = house_of(*row_of(5), *row_of(2, "2", y=1), sold=["1-4"])
    assert choice(house, 4) == Shortage(6)
    assert choice(house, 4, together=False) == ["1-1", "1-2", "1-3", "1-5"]
    assert choice(house, 5, together=False) == ["1-1", "1-2", "1-3", "2-1", "2-2"]
    assert choice(house, 2, together=False) == ["2-1", "2-2"]


def test_a_shortage_says_how_many_seats_are_left_for_such_an_ask() -> None:
    seats = [*row_of(3), *(replace(seat, tier="B") for seat in row_of(2, "2", y=1))]
    house = house_of(*seats, sold=["1-2"])
    assert choice(house, 5, together=False) == Shortage(4)
    assert choice(house, 3, tier="B") == Shortage(2)
    assert choice(house, 2, tier="A") == Shortage(2)
    assert choice(house, 1, tier="C") == Shortage(0)
    assert choice(house, 1, section="nowhere") == Shortage(0)


def test_a_section_and_a_tier_are_kept_to() -> None:
    circle = [replace(seat, id=f"c{seat.id}", section="Circle", tier="B") for seat in row_of(2)]
    house = house_of(*row_of(4), *circle)
    assert choice(house, 2, section="Circle") == ["c1-1", "c1-2"]
    assert choice(house, 2, tier="B") == ["c1-1", "c1-2"]
    assert choice(house, 2, section="Circle", tier="A") == Shortage(0)


def test_a_channel_seat_is_given_only_to_who_has_the_channel() -> None:
    seats = [replace(seat, channel="club") for seat in row_of(2)] + row_of(2, "2", y=1)
    house = house_of(*seats)
    assert house.choose(Best(2), (), NOW) == ["2-1", "2-2"]
    assert house.choose(Best(2), ("press",), NOW) == ["2-1", "2-2"]
    assert house.choose(Best(2), ("press", "club"), NOW) == ["1-1", "1-2"]


def test_a_lapsed_hold_is_free_at_its_deadline_and_not_a_millisecond_before() -> None:
    house = house_of(*row_of(1))
    house.set("1-1", NOW)
    assert house.choose(Best(1), (), NOW - 1) == Shortage(0)
    assert house.choose(Best(1), (), NOW) == ["1-1"]


def test_when_time_goes_backwards_a_hold_is_live_again() -> None:
    house = house_of(*row_of(1))
    house.set("1-1", NOW)
    for _ in range(3):
        assert house.choose(Best(1), (), NOW + 5) == ["1-1"]
        assert house.choose(Best(1), (), NOW - 1) == Shortage(0)
    house.choose(Best(1), (), NOW + 5)
    house.set("1-1", NOW + 3)
    assert house.choose(Best(1), (), NOW + 2) == Shortage(0)
    assert house.choose(Best(1), (), NOW + 3) == ["1-1"]


def test_an_extended_hold_does_not_lapse_at_its_old_deadline() -> None:
    house = house_of(*row_of(1))
    house.set("1-1", NOW)
    house.set("1-1", NOW + 10)
    assert house.choose(Best(1), (), NOW + 9) == Shortage(0)
    assert house.choose(Best(1), (), NOW + 10) == ["1-1"]


def test_a_sold_seat_stays_sold_until_it_is_given_back() -> None:
    house = house_of(*row_of(1))
    house.set("1-1", NOW)
    house.set("1-1", FOREVER_MS)
    assert house.choose(Best(1), (), NOW + 10**12) == Shortage(0)
    house.set("1-1", 0)
    assert house.choose(Best(1), (), NOW) == ["1-1"]


def test_seats_already_in_the_basket_are_not_chosen_again_and_stay_free_for_others() -> None:
    house = house_of(*row_of(6))
    mine = choice(house, 2)
    assert mine == ["1-3", "1-4"]
    assert choice(house, 2, without=[*mine, "unknown"]) == ["1-1", "1-2"]
    assert choice(house, 6, together=False, without=mine) == Shortage(4)
    assert choice(house, 2) == mine


def test_choosing_marks_nothing_and_the_answer_belongs_to_the_caller() -> None:
    house = house_of(*row_of(3))
    first = choice(house, 1)
    assert first == ["1-1"]
    first.append("scribble")
    assert choice(house, 1) == ["1-1"]


def test_unknown_seats_are_ignored_and_an_empty_house_is_sold_out() -> None:
    for ranking in Ranking:
        house = House([], ranking)
        house.set("1-1", FOREVER_MS)
        assert choice(house, 1) == Shortage(0)


def test_a_house_does_not_grow_with_the_holds_and_asks_it_has_seen() -> None:
    house = house_of(*row_of(8))
    for turn in range(20_000):
        house.set(f"1-{1 + turn % 8}", NOW + turn % 5_000)
        house.choose(Best(1, section=f"invented {turn}"), (f"invented {turn}",), NOW + turn % 700)
    assert len(house._ahead) + len(house._passed) <= 2 * 8 + seating.DEADLINES_IDLE_MAX
    assert len(house._due) <= 8
    assert len(house._answers) <= seating.ANSWERS_MAX


def test_a_house_does_not_grow_with_the_party_sizes_it_has_seen() -> None:
    house = house_of(*row_of(60))
    for quantity in range(1, 61):
        assert len(choice(house, quantity)) == quantity
    assert len(house._floor._orders) <= seating.ORDERS_MAX
