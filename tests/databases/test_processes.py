"""Four processes, 250 buyers each, one moment. What was sold is counted from the rows."""

from collections import Counter

import msgspec
import pytest

from holdfast import Holdfast
from holdfast.domain.model import Order
from tests.databases import churn
from tests.databases.crowd import NAIVE_SEATS, TASKS, Told
from tests.databases.shops import E1, run_helpers, selling

pytestmark = [pytest.mark.service, pytest.mark.slow]

PROCESSES = 4
BUYERS = PROCESSES * TASKS
SHORTAGES = ("no.sold_out", "no.insufficient", "no.not_together")
"""Which of them it is depends on how much of the last seats' sale the refusal has seen."""


async def stampede(kind: str, url: str, batch_max: int = 500) -> list[Told]:
    """Starts the processes, waits until all are ready, and lets them go."""
    asked = [(kind, batch_max, url, f"p{n}") for n in range(PROCESSES)]
    lines = await run_helpers("crowd", asked)
    return [msgspec.json.decode(line, type=Told) for line in lines]


def answers(told: list[Told]) -> Counter[str]:
    assert [each.errors for each in told] == [{}] * PROCESSES
    found: Counter[str] = Counter()
    for each in told:
        found.update(each.answers)
    assert found.total() == BUYERS, "everybody got an answer"
    return found


async def orders(shop: Holdfast) -> list[Order]:
    census = await shop.store.census(E1)
    assert census is not None
    assert all(order.sold for order in census.orders)
    return census.orders


@pytest.mark.parametrize(("kind", "seats"), [("one-seat", 1), ("five-seats", 5)])
async def test_named_seats_are_sold_exactly_once(url, kind, seats):
    async with selling(url) as shop:
        told = await stampede(kind, url)
        assert answers(told) == {"confirmed": seats, "no.taken": BUYERS - seats}
        found = [seat for order in await orders(shop) for seat in order.seats]
        assert sorted(found) == [f"A-1-{n + 1}" for n in range(seats)]


async def test_a_pool_is_sold_to_its_last_unit_and_no_further(url):
    stock = 100
    async with selling(url, stock=stock) as shop:
        told = await stampede("one-pool", url)
        assert answers(told) == {"confirmed": stock, "no.sold_out": BUYERS - stock}
        assert sum(order.pools["floor"] for order in await orders(shop)) == stock


# In one batch a process asks for all that is left; in small ones the four meet all the time.
@pytest.mark.parametrize("batch_max", [500, 10])
async def test_every_pair_of_a_house_is_sold_to_somebody_who_asked_for_a_pair(url, batch_max):
    """200 rows of two seats, so that nobody can strand a seat."""
    async with selling(url, rows=200, width=2) as shop:
        told = await stampede("pairs", url, batch_max)
        found = answers(told)
        assert found["confirmed"] == 200
        assert found.keys() <= {"confirmed", *SHORTAGES}
        rows = Counter(seat.rpartition("-")[0] for o in await orders(shop) for seat in o.seats)
        assert rows == {f"A-{row}": 2 for row in range(1, 201)}
        assert await adjacent_at_first_refusal(shop, told) == []


async def test_no_pair_is_refused_while_two_seats_side_by_side_are_free(url):
    """10 rows of 40, as a house has them: single seats may be left over, two neighbours may not."""
    async with selling(url, rows=10, width=40) as shop:
        told = await stampede("pairs", url, batch_max=10)
        found = answers(told)
        bought = await orders(shop)
        assert found["confirmed"] == len(bought) <= 200
        assert found.keys() <= {"confirmed", *SHORTAGES}
        for order in bought:
            (row, left), right = sorted(map(place, order.seats))
            assert right == (row, left + 1), "they sit side by side"
        assert await adjacent_at_first_refusal(shop, told) == []


@pytest.mark.parametrize("seconds", [4, pytest.param(60, marks=pytest.mark.soak)])
async def test_no_pair_is_refused_while_pairs_come_and_go(url, seconds):
    """As many pairs as buyers, and each has one at a time at most: whoever asks, one is free."""
    async with selling(url, rows=PROCESSES * churn.TASKS, width=2):
        lines = await run_helpers("churn", [(seconds, url, f"p{n}") for n in range(PROCESSES)])
        found: Counter[str] = Counter()
        for line in lines:
            found.update(msgspec.json.decode(line, type=dict[str, int]))
    assert found.keys() == {"placed"}, found


async def adjacent_at_first_refusal(shop: Holdfast, told: list[Told]) -> list[tuple[int, int]]:
    """Seats that nobody had asked for when the first pair was refused, and the next one neither.
    Seats never come back in these tests, so the first refusal is the one that could be wrong."""
    first_ms = min(each.first_refusal_ms for each in told if each.first_refusal_ms is not None)
    census = await shop.store.census(E1)
    assert census is not None
    free = {place(seat.id) for seat in census.seats}
    for entry in await shop.log(E1, limit=10_000):
        # The log's time is that of the decision, rounded: the seats were locked by then.
        if entry.type == "hold.placed" and entry.at_ms <= first_ms + 1:
            free -= set(map(place, entry.data["seats"]))
    return sorted((row, number) for row, number in free if (row, number + 1) in free)


def place(seat: str) -> tuple[int, int]:
    _, row, number = seat.split("-")
    return int(row), int(number)


async def test_the_same_crowd_oversells_where_it_reads_first_and_writes_after(session, url):
    """The control: plain SQL on the same database."""
    await session.execute("CREATE TABLE naive (seat INTEGER, buyer VARCHAR(20))")
    told = await stampede("naive", url)
    [(sold,)] = await session.rows("SELECT COUNT(*) FROM naive")
    assert sold > NAIVE_SEATS
    assert answers(told)["confirmed"] == sold
