"""The fold: the same facts give the same figures, wherever it was cut and whatever was repeated."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.domain import tiers
from holdfast.domain.facts import Entry
from holdfast.domain.limits import (
    ASK_POOLS_MAX,
    ASK_SEATS_MAX,
    EVENT_TIERS_MAX,
    EVENT_WORTH_MAX,
    LABEL_CHARS_MAX,
)
from holdfast.domain.model import TierShare
from holdfast.domain.stats import (
    HOUR_ENTRIES_MAX,
    HOUR_MS,
    RECENT_MAX,
    RECENT_UNITS_MAX,
    SUM_MAX,
    TICK_MS,
    Stats,
    Taken,
)

NOON = 1_790_000_000_000 // HOUR_MS * HOUR_MS
MINUTE_MS = 60_000


def entries(*told: tuple[str, dict[str, Any]], at_ms: int = NOON) -> list[Entry]:
    return [Entry("e1", seq, type, at_ms, data) for seq, (type, data) in enumerate(told, 1)]


def folded(told: Iterable[Entry], stats: Stats | None = None) -> Stats:
    stats = stats or Stats.empty("e1")
    for entry in told:
        assert stats.take(entry) is Taken.TAKEN
    return stats


def units(**data: Any) -> dict[str, Any]:
    """What a fact about units carries at least."""
    base = {
        "buyer": "ann",
        "seats": [],
        "pools": {},
        "amount": 0,
        "currency": "EUR",
        "hold": "e1.h",
    }
    return base | data


def sale(
    amount: int, was: str | None = "paying", tier: str = "gold", n: int = 1, **data: Any
) -> tuple[str, dict[str, Any]]:
    data = {"order": "e1.o", "tiers": {tier: {"units": n, "amount": amount}}} | data
    if was is not None:
        data["was"] = was
    seats = [f"A-1-{number}" for number in range(n)]
    return "order.confirmed", units(seats=seats, amount=amount, **data)


def back(amount: int, tier: str = "gold", n: int = 1) -> tuple[str, dict[str, Any]]:
    shares = {tier: {"units": n, "amount": amount}}
    seats = [f"A-1-{number}" for number in range(n)]
    return "order.cancelled", units(seats=seats, amount=amount, order="e1.o", tiers=shares)


PLACED = ("hold.placed", units(seats=["A-1-1"], amount=9000))
PAYING = ("hold.paying", units(seats=["A-1-1"], amount=9000))


def ended(how: str, was: str | None) -> tuple[str, dict[str, Any]]:
    return f"hold.{how}", units(seats=["A-1-1"]) | ({} if was is None else {"was": was})


def states(stats: Stats) -> dict[str, int]:
    found: dict[str, int] = msgspec.to_builtins(stats.holds)
    return {name: count for name, count in found.items() if count}


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ([PLACED], {"placed": 1, "held": 1}),
        ([PLACED, ("hold.extended", units())], {"placed": 1, "held": 1}),
        ([PLACED, PAYING], {"placed": 1, "paying": 1}),
        ([PLACED, ended("released", "held")], {"placed": 1, "released": 1}),
        ([PLACED, PAYING, ended("released", "paying")], {"placed": 1, "released": 1}),
        ([PLACED, PAYING, ended("expired", "paying")], {"placed": 1, "expired": 1}),
        ([PLACED, sale(9000, "held")], {"placed": 1, "confirmed": 1}),
        ([PLACED, PAYING, sale(9000, "paying")], {"placed": 1, "confirmed": 1}),
        # A late payer: his hold was announced as expired, and is sold after all.
        (
            [PLACED, PAYING, ended("expired", "paying"), sale(9000, "expired")],
            {"placed": 1, "confirmed": 1},
        ),
        # A direct sale, and one of a hold that lived in a gate alone.
        ([sale(9000, None, hold=None)], {}),
        ([PLACED, sale(9000, None)], {"placed": 1, "held": 1}),
        # What is sold and comes back was sold from its hold all the same.
        ([PLACED, sale(9000, "held"), back(9000)], {"placed": 1, "confirmed": 1}),
    ],
)
def test_a_hold_is_counted_in_one_state(told, expected):
    assert states(folded(entries(*told))) == expected


def test_conversion_and_abandonment_are_parts_of_all_holds():
    told = [PLACED] * 8 + [sale(9000, "held")] * 2 + [ended("released", "held")]
    stats = folded(entries(*told, *[ended("expired", "held")] * 3))
    assert (stats.conversion, stats.abandonment) == (0.25, 0.5)
    assert (Stats.empty("e1").conversion, Stats.empty("e1").abandonment) == (0.0, 0.0)


def test_what_is_sold_is_counted_by_tier_and_by_hour_less_what_came_back():
    gold, floor = {"units": 2, "amount": 18_000}, {"units": 3, "amount": 300}
    both = units(
        seats=["A-1-1", "A-1-2"],
        pools={"floor": 3},
        amount=18_300,
        order="e1.o",
        was="held",
        tiers={"gold": gold, "floor": floor},
    )
    created = {"state": "on_sale", "version": 1, "name": "n", "capacity": 50, "currency": "CHF"}
    told = [
        Entry("e1", 1, "event.created", NOON, created),
        Entry("e1", 2, "hold.placed", NOON, PLACED[1]),
        Entry("e1", 3, "order.confirmed", NOON + HOUR_MS - 1, both),
        Entry("e1", 4, "order.cancelled", NOON + HOUR_MS, back(9000)[1]),
    ]
    stats = folded(told)
    assert (stats.capacity, stats.sold, stats.percent_sold, stats.revenue) == (50, 4, 8.0, 9300)
    assert msgspec.to_builtins(stats.by_tier()) == {"floor": [3, 300], "gold": [1, 9000]}
    assert msgspec.to_builtins(stats.by_hour()) == [
        (NOON, {"floor": [3, 300], "gold": [2, 18_000]}),
        (NOON + HOUR_MS, {"gold": [-1, -9000]}),
    ]
    assert (stats.returns.cancellations, stats.returns.cancelled_units) == (1, 1)
    assert stats.returns.cancelled_amount == 9000


def test_money_that_is_given_back_is_counted_apart_from_what_came_back():
    told = [sale(9000), back(9000), ("order.refunded", units(amount=9000, order="e1.o"))]
    stats = folded(entries(*told))
    assert (stats.revenue, stats.returns.refunds, stats.returns.refunded_amount) == (0, 1, 9000)


def test_a_repeat_is_dropped_and_nothing_is_taken_after_a_gap():
    one, two, three = entries(PLACED, PLACED, PLACED)
    stats = folded([one, two])
    before = msgspec.json.encode(stats)
    assert [stats.take(two), stats.take(one)] == [Taken.REPEAT] * 2
    assert folded([one]).take(three) is Taken.GAP
    assert msgspec.json.encode(stats) == before
    assert folded([three], stats).seq == 3


def test_a_fact_of_an_unknown_type_counts_nothing_but_was_there():
    stats = folded(entries(PLACED, ("ticket.printed", {"printer": 7}), PLACED))
    assert (stats.seq, states(stats)) == (3, {"placed": 2, "held": 2})


def test_velocity_looks_back_from_now():
    sold = [(0, 1), (50 * MINUTE_MS, 2), (56 * MINUTE_MS, 4), (59 * MINUTE_MS + 30_000, 8)]
    told = [
        Entry("e1", seq, "order.confirmed", NOON + at, sale(1, n=n)[1])
        for seq, (at, n) in enumerate(sold, 1)
    ]
    stats = folded(told)
    now = NOON + HOUR_MS - 1
    assert [stats.velocity(now, minutes) for minutes in (1, 5, 60)] == [8, 12, 15]
    assert [stats.velocity(now + 5 * MINUTE_MS, minutes) for minutes in (1, 5, 60)] == [0, 0, 14]
    assert stats.velocity(now + 10 * HOUR_MS, 60) == 0
    # A clock that is behind is taken to stand at the latest fact.
    assert stats.velocity(NOON, 60) == 15
    # What is too old for any question is not kept.
    later = NOON + 3 * HOUR_MS
    folded([Entry("e1", 5, "order.confirmed", later, sale(1)[1])], stats)
    assert list(stats.ticks) == [later // TICK_MS]


def test_the_last_bookings_say_neither_who_nor_under_which_id():
    told = [sale(n, order=f"e1.secret-{n}", hold="e1.secret-hold") for n in range(RECENT_MAX + 5)]
    stats = folded(entries(*told))
    assert [each.amount for each in stats.recent] == list(range(5, RECENT_MAX + 5))
    kept = msgspec.json.encode(stats)
    assert b"secret" not in kept
    assert b"ann" not in kept


def test_facts_of_earlier_versions_are_counted_as_far_as_they_tell():
    created = ("event.created", {"state": "on_sale", "version": 1, "name": "n"})
    sold = units(seats=["A-1-1"], pools={"floor": 2}, amount=500, order="e1.o")
    told = [
        created,
        *[PLACED] * 4,
        PAYING,
        ended("released", None),
        ("order.confirmed", sold),
        ended("expired", None),
        ("order.confirmed", sold | {"settlement": "same_units"}),
        ("order.confirmed", sold | {"hold": None}),
        ("order.cancelled", sold),
    ]
    stats = folded(entries(*told))
    assert (stats.capacity, stats.percent_sold) == (None, 0.0)
    assert states(stats) == {"placed": 4, "held": 1, "released": 1, "confirmed": 2}
    assert (stats.sold, stats.revenue, stats.currency) == (6, 1000, "EUR")
    assert msgspec.to_builtins(stats.by_tier()) == {"": [6, 1000]}


def test_capacity_follows_also_those_changes_that_do_not_say_what_it_is():
    created = ("event.created", {"capacity": 10, "currency": "EUR"})
    silent = {"seats_added": ["B-1", "B-2"], "seats_withdrawn": ["A-1"], "pools": {"floor": -3}}
    told = entries(created, ("event.changed", silent), ("event.changed", {"capacity": 99}))
    assert [folded(told[:n]).capacity for n in (1, 2, 3)] == [10, 8, 99]


def of_any_kind() -> st.SearchStrategy[tuple[str, int, dict[str, Any]]]:
    money, tier = st.integers(0, 10_000), st.sampled_from(["gold", "silver", "floor"])
    holds = st.sampled_from([PLACED, PLACED, PAYING, ended("released", "held")])
    sales = st.builds(sale, money, st.sampled_from(["held", "paying", None]), tier)
    told = st.one_of(holds, sales, st.builds(back, money, tier), st.just(("what.else", {})))
    return st.tuples(told, st.integers(0, 3 * HOUR_MS)).map(lambda both: (*both[0], both[1]))


@given(st.lists(of_any_kind(), max_size=60), st.data())
@settings(max_examples=60, deadline=None)
def test_wherever_it_is_cut_saved_and_repeated_the_same_comes_out(kinds, data):
    told = [
        Entry("e1", seq, type, NOON + at, fields) for seq, (type, fields, at) in enumerate(kinds, 1)
    ]
    whole = folded(told)
    stats = Stats.empty("e1")
    for entry in told:
        if data.draw(st.booleans()):
            stats = msgspec.json.decode(msgspec.json.encode(stats), type=Stats)
        again = told[data.draw(st.integers(0, entry.seq - 1))]
        assert stats.take(again) in (Taken.REPEAT, Taken.GAP, Taken.TAKEN)
        stats.take(entry)
    assert msgspec.json.encode(stats) == msgspec.json.encode(whole)
    for name, tally in whole.by_tier().items():
        hours = [tiers[name] for _, tiers in whole.by_hour() if name in tiers]
        parts = [*hours, *[each for tier, each in whole.earlier().items() if tier == name]]
        assert sum(each.units for each in parts) == tally.units
        assert sum(each.revenue for each in parts) == tally.revenue


def test_hours_past_the_limit_are_summed_up_and_none_is_lost():
    stats, seq = Stats.empty("e1"), 0
    for hour in range(700):
        for tier in ("gold", "silver"):
            seq += 1
            at_ms = NOON + hour * HOUR_MS
            folded([Entry("e1", seq, "order.confirmed", at_ms, sale(10, tier=tier)[1])], stats)
            kept = sum(len(tiers) for _, tiers in stats.by_hour())
            assert kept == stats.hour_entries <= HOUR_ENTRIES_MAX
    assert msgspec.to_builtins(stats.by_tier()) == {"gold": [700, 7000], "silver": [700, 7000]}
    assert msgspec.to_builtins(stats.earlier()) == {"gold": [200, 2000], "silver": [200, 2000]}
    assert stats.by_hour()[0][0] == NOON + 200 * HOUR_MS


def test_at_every_limit_it_is_a_document_well_under_a_mebibyte():
    """Names of characters that take four bytes each, and the largest numbers there may be."""
    stats = Stats.empty("e" * 64)
    many = EVENT_WORTH_MAX // 2
    for seq in range(1, 3 * EVENT_TIERS_MAX):
        name = f"{seq:05}" + "\N{LARGE BLUE CIRCLE}" * (LABEL_CHARS_MAX - 5)
        type, data = sale(many, tier=name, n=1)
        seats = [name] * ASK_SEATS_MAX if seq > 3 * EVENT_TIERS_MAX - 2 * RECENT_MAX else [name]
        pools = {f"{nth:05}{name[5:]}": 1_000_000 for nth in range(ASK_POOLS_MAX)}
        data |= {"seats": seats, "pools": pools}
        at_ms = NOON + seq * TICK_MS + seq % 3 * 400 * HOUR_MS
        stats.revenue = 0
        stats.take(Entry("e1", seq, type, at_ms, data))
    assert len(stats.tiers) == EVENT_TIERS_MAX + 1
    assert stats.by_tier()[""].units > EVENT_TIERS_MAX / 2, "those of a tier too many count too"
    assert all(len(each.seats) <= RECENT_UNITS_MAX for each in stats.recent)
    stats.returns.cancelled_amount = stats.returns.refunded_amount = SUM_MAX
    for tier in stats.tiers.values():
        tier.all.revenue = tier.earlier.revenue = -SUM_MAX
    for hour in stats.hours.values():
        for tally in hour.values():
            tally.revenue = -SUM_MAX
    assert len(msgspec.json.encode(stats)) < 700_000


def test_what_only_grows_stops_at_what_a_document_can_hold():
    stats = folded(entries(("order.refunded", units(amount=SUM_MAX, order="e1.o"))))
    folded([Entry("e1", 2, "order.refunded", NOON, units(amount=7, order="e1.o"))], stats)
    assert stats.returns.refunded_amount == SUM_MAX
    assert msgspec.json.decode(msgspec.json.encode(stats), type=Stats) == stats


names = st.sampled_from(["a", "b", "c", "d"])
baskets = st.dictionaries(names, st.integers(1, 50), min_size=1)
price_lists = st.fixed_dictionaries({name: st.integers(0, 10_000) for name in "abcd"})


@given(baskets, price_lists, st.integers(0, 10**9))
def test_a_split_gives_away_all_that_was_paid_and_nothing_below_zero(basket, prices, amount):
    shares = tiers.split(basket, prices, amount)
    assert {tier: share.units for tier, share in shares.items()} == basket
    assert sum(share.amount for share in shares.values()) == amount
    assert min(share.amount for share in shares.values()) >= 0


@given(baskets, price_lists)
def test_what_costs_its_prices_is_split_by_them(basket, prices):
    worth = {tier: TierShare(n, n * prices[tier]) for tier, n in basket.items()}
    amount = sum(share.amount for share in worth.values())
    assert tiers.split(basket, prices, amount) == worth


@given(baskets, price_lists, st.integers(0, 10**9), st.data())
def test_however_it_comes_back_each_tier_gets_back_what_was_paid_for_it(
    basket, prices, amount, data
):
    whole = tiers.split(basket, prices, amount)
    had = dict(basket)
    came = dict.fromkeys(basket, 0)
    while any(had.values()):
        part = {t: data.draw(st.integers(0, n)) for t, n in had.items() if n}
        part = {t: n for t, n in part.items() if n} or {t: n for t, n in had.items() if n}
        for tier, share in tiers.returned(whole, had, part).items():
            assert share.amount >= 0
            came[tier] += share.amount
            had[tier] -= share.units
    assert came == {tier: share.amount for tier, share in whole.items()}
