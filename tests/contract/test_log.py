"""Whatever happened is a fact on the log, numbered without a gap, in order of commits."""

import asyncio
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from holdfast import Reason, Refused
from holdfast.domain.model import Ask
from tests.contract.helpers import (
    E1,
    FLOOR,
    GOLD,
    ON_THE_LOG,
    SOFT_MS,
    description,
    held,
    log,
    nothing_changes,
    on_sale,
    sold,
    summary,
)


def rfc3339(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat().replace("+00:00", "Z")


async def test_every_step_of_a_hold_is_a_fact_with_what_it_is_about(shop, clock):
    await on_sale(shop)
    start = clock()
    steps = [
        shop.place_hold(E1, buyer="ann", id="h1", seats=["A-1-2", "A-1-1"], pools={"floor": 2}),
        shop.extend_hold("e1.h1"),
        shop.pay_hold("e1.h1"),
        shop.confirm_hold("e1.h1", order="o1", payment="pay-1"),
        shop.cancel_order("e1.o1"),
    ]
    for step in steps:
        clock.advance(1_000)
        assert not isinstance(await step, Refused)
    units = {
        "buyer": "ann",
        "seats": ["A-1-2", "A-1-1"],
        "pools": {"floor": 2},
        "amount": 2 * GOLD + 2 * FLOOR,
        "currency": "EUR",
        "hold": "e1.h1",
    }
    tiers = {
        "gold": {"units": 2, "amount": 2 * GOLD},
        "floor": {"units": 2, "amount": 2 * FLOOR},
    }
    soft, later = rfc3339(start + 1_000 + SOFT_MS), rfc3339(start + 1_000 + 2 * SOFT_MS)
    assert [(entry.seq, entry.type, entry.data) for entry in await log(shop, after=1)] == [
        (2, "hold.placed", units | {"version": 1, "expires_at": soft}),
        (3, "hold.extended", units | {"version": 2, "expires_at": later}),
        (4, "hold.paying", units | {"version": 3, "expires_at": later}),
        (5, "order.confirmed", units | {"order": "e1.o1", "was": "paying", "tiers": tiers}),
        (6, "order.cancelled", units | {"order": "e1.o1", "tiers": tiers}),
    ]


@pytest.mark.parametrize("end", ["released", "expired"])
async def test_the_end_of_a_hold_is_a_fact_with_what_comes_back(shop, clock, end):
    await on_sale(shop)
    hold = await held(shop, "ann", id="h1", seats=["A-1-1"], pools={"floor": 2})
    if end == "released":
        await shop.release_hold(hold.id)
    else:
        clock.advance(SOFT_MS)
        await shop.expire(E1, 10)
    fact = (await log(shop))[-1]
    assert fact.type == f"hold.{end}"
    assert fact.at_ms == clock()
    assert {name: fact.data[name] for name in ("hold", "buyer", "seats", "pools", "amount")} == {
        "hold": "e1.h1",
        "buyer": "ann",
        "seats": ["A-1-1"],
        "pools": {"floor": 2},
        "amount": GOLD + 2 * FLOOR,
    }
    assert fact.data["version"] == 2


async def test_a_direct_sale_is_a_fact_without_a_hold(shop):
    await on_sale(shop)
    await sold(shop, "ann", order="o1", seats=["A-1-1"])
    fact = (await log(shop))[-1]
    assert (fact.type, fact.data["order"], fact.data["hold"]) == ("order.confirmed", "e1.o1", None)
    assert (fact.data["seats"], fact.data["pools"]) == (["A-1-1"], {})


async def test_a_new_event_is_the_first_fact_of_its_log(shop, clock):
    await on_sale(shop)
    (fact,) = await log(shop)
    assert (fact.event, fact.seq, fact.type, fact.at_ms) == (E1, 1, "event.created", clock())
    assert fact.data["name"] == "Opening night"
    assert fact.data["state"] == "on_sale"
    assert fact.data["version"] == 1


@ON_THE_LOG
async def test_facts_carry_the_time_of_the_authority(shop, clock):
    await on_sale(shop)
    clock.advance(12_345)
    await held(shop)
    fact = (await log(shop))[-1]
    assert fact.at_ms == clock()
    assert fact.at.timestamp() * 1000 == clock()


async def test_numbers_have_no_gap_whatever_was_refused_repeated_or_batched(shop, clock):
    await on_sale(shop)
    for turn in range(3):
        await asyncio.gather(
            *[
                shop.place_hold(E1, buyer=f"u{n}", id=f"h{turn}-{n % 7}", best=1 + n % 3)
                for n in range(20)
            ],
            *[shop.extend_hold(f"e1.h{turn}-{n}") for n in range(7)],
            *[shop.release_hold(f"e1.h{turn}-{n}") for n in range(3)],
            *[shop.confirm_hold(f"e1.h{turn}-{n}") for n in range(2, 4)],
            shop.expire(E1, 3),
            return_exceptions=False,
        )
        clock.advance(SOFT_MS)
    entries = await log(shop)
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    assert len(entries) == (await summary(shop)).seq > 20
    assert [entry.at_ms for entry in entries] == sorted(entry.at_ms for entry in entries)


@ON_THE_LOG
async def test_the_log_is_read_in_pages_that_join(shop):
    await on_sale(shop)
    for n in range(1, 6):
        await held(shop, f"u{n}", seats=[f"A-1-{n}"])
    whole = await log(shop)
    assert len(whole) == 6
    for size in (1, 2, 3, 6, 7):
        pages, after = [], 0
        while page := await shop.log(E1, after=after, limit=size):
            assert len(page) <= size
            pages += page
            after = page[-1].seq
        assert pages == whole


@ON_THE_LOG
@pytest.mark.parametrize(
    ("after", "limit", "numbers"),
    [
        (0, 100, [1, 2, 3]),
        (2, 100, [3]),
        (3, 100, []),
        (99, 100, []),
        (-5, 100, [1, 2, 3]),
        (0, 1, [1]),
        (0, 0, [1]),
        (0, -1, [1]),
        (1, 10**9, [2, 3]),
    ],
)
async def test_a_page_may_start_anywhere_and_has_a_limit(shop, after, limit, numbers):
    await on_sale(shop)
    await held(shop, "ann", seats=["A-1-1"])
    await held(shop, "bob", seats=["A-1-2"])
    assert [entry.seq for entry in await shop.log(E1, after=after, limit=limit)] == numbers


@ON_THE_LOG
async def test_each_event_has_a_log_of_its_own(shop):
    await on_sale(shop)
    await shop.create_event(description(id="e2"))
    await asyncio.gather(
        *[
            shop.place_hold(event, buyer=f"u{n}", seats=[f"A-1-{n}"])
            for n in range(1, 6)
            for event in ("e1", "e2")
        ]
    )
    for event in ("e1", "e2"):
        entries = await log(shop, event)
        assert [entry.seq for entry in entries] == [1, 2, 3, 4, 5, 6]
        assert {entry.event for entry in entries} == {event}


async def test_the_views_and_the_log_name_the_same_last_fact(shop):
    await on_sale(shop)
    await held(shop)
    seq = (await log(shop))[-1].seq
    assert seq == (await summary(shop)).seq == (await shop.seats(E1)).seq
    assert seq == (await shop.store.census(E1)).seq


async def test_reading_writes_nothing(shop, clock):
    await on_sale(shop)
    await held(shop)
    clock.advance(SOFT_MS)
    async with nothing_changes(shop):
        await shop.seats(E1)
        await shop.event(E1)
        await shop.log(E1)
        await shop.store.due()


@ON_THE_LOG
async def test_names_come_through_the_log_as_they_were_given(shop):
    buyer = 'Zoë "quoted" \\ 日本 🎟 \'; DROP TABLE log;--'
    await on_sale(shop, name="Première — “Ötzi”")
    await held(shop, buyer, seats=["A-1-1"])
    created, placed = await log(shop)
    assert created.data["name"] == "Première — “Ötzi”"
    assert placed.data["buyer"] == buyer


@pytest.mark.policies("authority")
@pytest.mark.parametrize(
    "more", [{}, {"digest": "mine"}, {"cap": 9}], ids=["plain", "repeatable", "capped"]
)
async def test_a_refusal_says_how_far_the_log_was(shop, more):
    """The refusal cache follows the log from there: what opens the seat has a higher number."""
    await on_sale(shop)
    await held(shop, "ann", seats=["A-1-1"])
    for seat in ("A-1-2", "A-1-3"):
        await held(shop, "cid", seats=[seat])
        head = (await shop.store.heads())[E1]
        command = shop.clerk.place_hold(E1, "bob", Ask(seats=("A-1-1",)))
        (answer,) = await shop.store.apply([replace(command, **more)])
        assert (answer.outcome.reason, answer.as_of) == (Reason.TAKEN, head)
