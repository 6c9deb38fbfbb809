"""What buyers want, and how it is found out what they got."""

import asyncio

from holdfast.lab.contest.crew import shares
from holdfast.lab.contest.databases import formatted, numbered
from holdfast.lab.contest.field import POOL, SCENARIOS, Counters, Sold, count, merged, seat
from holdfast.lab.contest.lending import Lending

LAST, STOCK, PAIRS = SCENARIOS["last-seat"], SCENARIOS["small-stock"], SCENARIOS["pairs"]


def test_a_seat_with_two_owners_is_oversold():
    assert count(LAST, [(seat(0), 1, "a")]) == Sold(1, 0, 0)
    assert count(LAST, [(seat(0), 1, "a"), (seat(0), 1, "b")]) == Sold(2, 1, 0)


def test_more_than_the_stock_is_oversold():
    assert count(STOCK, [(POOL, 1, f"b{nth}") for nth in range(5)]) == Sold(5, 0, 0)
    assert count(STOCK, [(POOL, 1, f"b{nth}") for nth in range(7)]) == Sold(7, 2, 0)


def test_one_seat_of_a_pair_is_a_torn_pair():
    both = [(seat(0), 1, "a"), (seat(1), 1, "a")]
    assert count(PAIRS, both) == Sold(2, 0, 0)
    assert count(PAIRS, both[:1]) == Sold(1, 0, 1)


def test_every_buyer_wants_the_same_in_every_run():
    for scenario in SCENARIOS.values():
        wants = [scenario.want(nth) for nth in range(200)]
        assert wants == [scenario.want(nth) for nth in range(200)]
        assert {want.units for want in wants} == {scenario.quantity}


def test_the_stock_is_what_is_there_and_wanted():
    stock = {name: each.stock() for name, each in SCENARIOS.items()}
    wanted = {SCENARIOS["spread"].want(nth).seats for nth in range(10_000)}
    assert stock == {
        "last-seat": 1,
        "small-stock": 5,
        "spread": len(wanted),
        "pairs": 2_000,
        "pool": 10_000,
    }


def test_fewer_buyers_find_it_as_scarce():
    small = {name: each.scaled(100).units for name, each in SCENARIOS.items()}
    assert small == {"last-seat": 1, "small-stock": 5, "spread": 500, "pairs": 20, "pool": 83}


def test_counters_of_processes_are_added_and_every_latency_is_kept():
    first = Counters(attempts=3, statements=7, latencies_us=[1, 2], began_us=10, ended_us=20)
    second = Counters(attempts=4, errors={"no": 1}, latencies_us=[3], began_us=12, ended_us=30)
    both = merged([first, second])
    assert (both.attempts, both.statements, both.errors) == (7, 7, {"no": 1})
    assert (both.latencies_us, both.began_us, both.ended_us) == ([1, 2, 3], 10, 30)
    assert both.percentile_ms(50) == 0.002


def test_no_buyer_comes_through_two_processes():
    parts = shares(10, 4)
    assert [nth for part in parts for nth in part] == list(range(10))


def test_values_go_where_each_database_wants_them():
    assert numbered("a = ? AND b = ?") == "a = $1 AND b = $2"
    assert formatted("a = ? AND b = ?") == "a = %s AND b = %s"


async def test_nobody_who_waits_is_overtaken():
    lending: Lending[str] = Lending()
    lending.add("line")
    served: list[str] = []

    async def buyer(name: str) -> None:
        for _ in range(3):
            async with lending.lent():
                served.append(name)
                await asyncio.sleep(0)

    await asyncio.gather(*(buyer(name) for name in "abc"))
    assert served == list("abc" * 3)
