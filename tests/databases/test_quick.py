"""PostgreSQL: batches that lock nothing before they write. Whoever was faster is found out by the
write, which then leaves nothing behind; the batch is run again with locks."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast import Confirmed, Paying, Placed, Refused, Released
from holdfast.domain.commands import OpenOrder, SettleOrder
from holdfast.domain.outcomes import Opened, Settled
from holdfast.stores.postgres import writing
from holdfast.stores.postgres.writing import Writer
from tests.conftest import drift
from tests.contract.helpers import said
from tests.databases.shops import E1, held, plan, shop_at

pytestmark = [pytest.mark.service, pytest.mark.usefixtures("postgres_only")]

SECTIONS = [{"id": "A", "tier": "seat", "rows": 2, "seats_per_row": 20}]
Rival = Callable[[], Awaitable[Any]]


@pytest.fixture
async def shop(url):
    async with shop_at(url) as shop:
        await shop.create_event(plan(sections=SECTIONS))
        await held(shop, "zoe", seats=["A-1-9"])  # what is done once is done
        yield shop


@pytest.fixture
def between(monkeypatch) -> Callable[[Rival], None]:
    """Does something after a batch has looked and before it writes, once."""

    def arranged(rival: Rival) -> None:
        write = Writer.write_alone
        rivals = [rival]

        async def late(writer: Writer, *args: Any, **more: Any) -> Any:
            if rivals:
                await rivals.pop()()
            return await write(writer, *args, **more)

        monkeypatch.setattr(Writer, "write_alone", late)

    return arranged


async def both(shop: Any) -> list[str]:
    """Two buyers, two seats, one batch."""
    asks = [shop.place_hold(E1, buyer=f"u{n}", seats=[f"A-1-{n}"]) for n in (1, 2)]
    return [said(outcome) for outcome in await asyncio.gather(*asks)]


async def test_a_crowd_on_many_seats_takes_no_lock(shop, database):
    with database.counted() as sent:
        asks = (shop.place_hold(E1, buyer=f"u{n}", seats=[f"A-2-{n}"]) for n in range(1, 21))
        assert all(isinstance(outcome, Placed) for outcome in await asyncio.gather(*asks))
    assert not [query for query in sent if "FOR UPDATE" in query and "order_keys" not in query]
    assert not [query for query in sent if query.startswith("BEGIN ISOLATION LEVEL READ COMM")]
    assert await drift(shop.store) == []


async def test_who_was_faster_has_the_seat_and_the_others_have_theirs(shop, between, url):
    async with shop_at(url) as other:
        between(lambda: other.place_hold(E1, buyer="rival", seats=["A-1-1"]))
        assert await both(shop) == ["no.taken", "placed"]
    assert await drift(shop.store) == []


async def test_without_its_last_guard_half_of_a_batch_would_stay(shop, between, url, monkeypatch):
    """The control: the statement is a transaction of its own, and has to undo itself."""
    monkeypatch.setattr(writing, "ALL_OR_NOTHING", "(SELECT seq FROM counter)")
    writing._together.cache_clear()
    async with shop_at(url) as other:
        between(lambda: other.place_hold(E1, buyer="rival", seats=["A-1-1"]))
        await both(shop)
    assert await drift(shop.store) != []
    writing._together.cache_clear()


async def test_an_event_that_was_paused_meanwhile_sells_nothing(shop, between, url):
    async with shop_at(url) as other:
        between(lambda: other.change_event(E1, state="paused"))
        assert await both(shop) == ["no.not_on_sale", "no.not_on_sale"]
    assert await drift(shop.store) == []


async def test_a_hold_that_was_given_back_meanwhile_is_not_sold(shop, between, url):
    hold = await held(shop, "ann", seats=["A-1-3"])
    assert isinstance(await shop.pay_hold(hold.id), Paying)
    opening = shop.clerk.open_order(E1, hold.id, "sandbox:ok", driver="d", lease_ms=1000)
    assert isinstance(opening, OpenOrder)
    opened = (await shop.submit(opening)).outcome
    assert isinstance(opened, Opened)
    settling = SettleOrder(
        id=shop.clerk.ids.new(),
        event=E1,
        order=opened.order.id,
        hold=hold.id,
        fence=opened.order.version,
        payment="sandbox:p1",
        lease_ms=1000,
    )
    async with shop_at(url) as other:

        async def given_back() -> None:
            assert isinstance(await other.release_hold(hold.id), Released)

        between(given_back)
        settled = (await shop.submit(settling)).outcome
    assert isinstance(settled, Settled)
    assert settled.order.checkout.reason == "released"
    assert await drift(shop.store) == []


async def test_a_seat_of_a_dead_hold_is_taken_and_the_dead_is_announced(shop, session):
    dead = await held(shop, "ann", seats=["A-1-4"])
    await session.execute("UPDATE holdfast.seats SET until_ms = 1 WHERE id = 'A-1-4'")
    await session.execute(
        f"UPDATE holdfast.holds SET soft_ms = 1, until_ms = 1 WHERE id = '{dead.id}'"
    )
    assert isinstance(await shop.place_hold(E1, buyer="bob", seats=["A-1-4"]), Placed)
    types = [entry.type for entry in await shop.log(E1)]
    assert types[-2:] == ["hold.expired", "hold.placed"]


async def test_what_was_committed_though_nobody_heard_of_it_is_found_again(shop, monkeypatch):
    """The connection is lost with the answer: the batch runs again, and finds its own holds."""
    write = Writer.write_alone
    lost = [True]

    async def unheard(writer: Writer, *args: Any, **more: Any) -> Any:
        last = await write(writer, *args, **more)
        if lost:
            lost.pop()
            raise ConnectionError("gone")
        return last

    monkeypatch.setattr(Writer, "write_alone", unheard)
    assert await both(shop) == ["placed", "placed"]
    assert len(await shop.log(E1)) == 1 + 1 + 2
    assert await drift(shop.store) == []


async def test_a_confirmed_order_of_a_batch_with_refusals(shop):
    """Refusals and sales side by side."""
    hold = await held(shop, "ann", seats=["A-1-5"])
    asks = [
        shop.place_hold(E1, buyer="bob", seats=["A-1-5"]),
        shop.place_hold(E1, buyer="bob", seats=["A-1-6"]),
    ]
    taken, placed = await asyncio.gather(*asks)
    assert isinstance(taken, Refused)
    assert isinstance(placed, Placed)
    assert isinstance(await shop.confirm_hold(hold.id), Confirmed)
    assert await drift(shop.store) == []
