"""Scaling curves: where they are said to bend, and that they can be measured at all."""

from itertools import pairwise

import pytest

from holdfast.lab.contest import scaling
from holdfast.lab.contest.scaling import Extent, Scaling, knee
from holdfast.lab.report.findings import Curve, read

TINY = Extent(
    seconds=0.05,
    warm_up_seconds=0.0,
    seats=3_000,
    concurrency=(1, 10),
    seats_per_hold=(1, 3),
    event_sizes=(1_000, 2_000),
    processes=(1, 2),
)


def curve(*rates: float, xs=(1, 10, 100, 1_000, 10_000)) -> list[scaling.Point]:
    points = zip(xs, rates, strict=True)
    return [{"x": x, "per_second": rate, "p99_ms": 1.0} for x, rate in points]


@pytest.mark.parametrize(
    ("rates", "bend"),
    [
        ((100, 1_000, 10_000, 10_100, 10_050), 100),
        ((100, 1_000, 10_000, 9_000, 4_000), 100),
        ((100, 1_000, 10_000, 100_000, 101_000), 1_000),
        # A dip on the way up is noise, not the end of it.
        ((100, 5_000, 3_000, 20_000, 20_100), 1_000),
    ],
)
def test_the_knee_is_where_more_stops_to_bring_more(rates, bend):
    assert knee(curve(*rates)) == bend


@pytest.mark.parametrize(
    "rates",
    [
        pytest.param((100, 1_000, 10_000, 100_000, 1_000_000), id="grows to the end"),
        pytest.param((100, 100, 100, 100, 100), id="never grew"),
        pytest.param((900, 700, 500, 300, 100), id="only fell"),
        pytest.param((0, 0, 0, 0, 0), id="nothing at all"),
    ],
)
def test_a_curve_that_does_not_bend_has_no_knee(rates):
    assert knee(curve(*rates)) is None


@pytest.mark.parametrize(
    ("rates", "bend"),
    [
        ((1_000, 1_000, 980, 300, 90), 100),
        ((1_000, 990, 1_010, 1_000, 950), None),
        ((10_000, 5_000, 2_500, 1_200, 600), None),
    ],
)
def test_of_what_should_stay_flat_the_knee_is_where_it_begins_to_fall(rates, bend):
    assert knee(curve(*rates), falling=True) == bend


@pytest.mark.parametrize("count", [0, 1, 2])
def test_two_points_bend_nowhere(count):
    assert knee(curve(*range(1, count + 1), xs=range(1, count + 1))) is None


async def test_all_four_curves_are_measured_as_the_report_reads_them(tmp_path):
    told: list[str] = []
    store = f"sqlite:///{tmp_path / 'scaling.db'}"
    measured = await Scaling(store, told.append, TINY).curves()
    curves: dict[str, Curve] = read({"curves": measured}).curves or {}
    assert [*curves] == ["concurrency", "seats_per_hold", "event_size", "processes"]
    assert [[each.x for each in curve.points] for curve in curves.values()] == [
        [1, 10],
        [1, 3],
        [1_000, 2_000],
        [1, 2],
    ]
    for found in curves.values():
        assert found.store == "sqlite"
        assert all(each.per_second > 0 and each.p99_ms > 0 for each in found.points)
    assert len(told) == 8


def test_the_whole_extent_is_the_one_that_was_promised():
    whole = scaling.WHOLE
    assert (whole.concurrency[0], whole.concurrency[-1]) == (1, 10_000)
    assert [*whole.seats_per_hold] == [*range(1, 11)]
    assert [*whole.event_sizes] == [1_000, 10_000, 100_000, 1_000_000]
    assert [*whole.processes] == [1, 2, 3, 4]
    for steps in (whole.concurrency, whole.event_sizes, whole.processes):
        assert all(one < next_one for one, next_one in pairwise(steps))
