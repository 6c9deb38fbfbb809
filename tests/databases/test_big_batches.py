"""Set-based: a batch of any size is a handful of statements."""

import asyncio

import pytest

from holdfast import Confirmed, Holdfast, Placed
from tests.contract.helpers import summary
from tests.databases.shops import E1, audited, count_rows, held, over, selling, until

pytestmark = pytest.mark.service

HANDFUL = 30
"""Reads in the order of locks, writes table by table, the counter, the log, begin and commit."""


async def mixed(shop: Holdfast, size: int, first: int = 0) -> list[object]:
    """One batch: holds of a named seat, of a best seat and of the pool, in turns."""
    asks = []
    for n in range(first, first + size):
        units = [{"seats": [f"A-1-{n + 1}"]}, {"best": {"quantity": 1, "section": "B"}}, {}][n % 3]
        asks.append(
            shop.place_hold(E1, buyer=f"u{n}", pools={"floor": 1}, id=f"h{n}", **units)  # type: ignore[arg-type]
        )
    return list(await asyncio.gather(*asks))


SECTIONS = [
    {"id": "A", "tier": "seat", "rows": 1, "seats_per_row": 5_000},
    {"id": "B", "tier": "seat", "rows": 50, "seats_per_row": 40},
]


async def test_two_thousand_commands_are_one_batch_of_a_handful_of_statements(
    database, url, session
):
    async with selling(url, sections=SECTIONS, stock=10_000, batch_max=5_000) as shop:
        await mixed(shop, 3)  # whatever is done once is done
        with database.counted() as few:
            assert all(isinstance(answer, Placed) for answer in await mixed(shop, 3, 10))
        with database.counted() as many:
            assert all(isinstance(answer, Placed) for answer in await mixed(shop, 2_000, 100))
        assert len(few) <= HANDFUL
        assert len(many) <= database.allowed(HANDFUL, rows=2_000), many
        assert await count_rows(database, session, "holds") == 2_006
        assert (await summary(shop)).seq == 2_007


async def test_a_batch_of_refusals_writes_nothing(database, url):
    # Without the refusal cache, which reads the log meanwhile, in transactions of its own.
    async with selling(url, batch_max=5_000, refusal_cache=False) as shop:
        await held(shop, seats=["A-1-1"])
        with database.counted() as sent:
            asks = (shop.place_hold(E1, buyer=f"u{n}", seats=["A-1-1"]) for n in range(1_000))
            assert not any(isinstance(answer, Placed) for answer in await asyncio.gather(*asks))
        assert len(sent) <= HANDFUL
        assert not [query for query in sent if query.lstrip()[:6].upper() in ("INSERT", "COMMIT")]


async def test_five_thousand_named_seats_are_one_hold(database, url, session):
    seats = [f"A-1-{n + 1}" for n in range(5_000)]
    async with selling(url, sections=SECTIONS, stock=1) as shop:
        with database.counted() as sent:
            hold = await held(shop, seats=seats)
        assert len(sent) <= database.allowed(HANDFUL, rows=5_000)
        assert sorted(hold.seats) == sorted(seats)
        await shop.pay_hold(hold.id)
        bought = await shop.confirm_hold(hold.id)
        assert isinstance(bought, Confirmed)
        assert await count_rows(database, session, "sold_seats") == 5_000
        await shop.cancel_order(bought.order.id)
        assert await count_rows(database, session, "sold_seats") == 0


async def test_holds_that_lapsed_by_the_thousand_are_announced_and_resold(url):
    async with selling(url, sections=SECTIONS, stock=2_000, hold_seconds=1) as shop:
        asks = (shop.place_hold(E1, buyer=f"u{n}", pools={"floor": 1}) for n in range(2_000))
        await asyncio.gather(*asks)
        async with audited(url) as other:
            last = await held(shop, seats=["A-1-1"])
            await until(lambda: over(shop, last.id), "that the holds are over")
            whole = await held(other, pools={"floor": 2_000})
            assert whole.units == 2_000
            types = [entry.type for entry in await shop.log(E1, after=1, limit=10_000)]
            assert types.count("hold.expired") == 2_000
