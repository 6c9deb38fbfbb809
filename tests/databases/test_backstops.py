"""Should the Python be wrong, the schema refuses. Each test takes one guard away."""

import asyncio
import re

import pytest

from holdfast import Holdfast
from holdfast.domain import batch, selling
from holdfast.domain.model import Pool, Seat
from holdfast.errors import StoreError
from tests.conftest import Clock
from tests.contract import helpers
from tests.contract.helpers import nothing_changes
from tests.databases import shops
from tests.databases.shops import E1, held, plan, shop_at, sold, somebody_waits

pytestmark = pytest.mark.service


@pytest.fixture
async def shop(url):
    """At a fixed time, so that rows can be compared byte by byte."""
    async with shops.selling(url, stock=10, clock=Clock()) as shop:
        yield shop


async def refused_by_the_schema(shop: Holdfast, asked, names: str) -> str:
    """Runs it; returns what the error says, in which the backstop is named."""
    async with nothing_changes(shop):
        with pytest.raises(StoreError) as refused:
            await asked
    said = str(refused.value)
    assert re.search(names, said), said
    return said


async def test_a_sold_seat_cannot_be_sold_again(shop, monkeypatch):
    await sold(shop, "ann", seats=["A-1-1"])
    with monkeypatch.context() as unguarded:
        unguarded.setattr(Seat, "free", lambda seat, now: True)
        again = shop.sell(E1, buyer="bob", seats=["A-1-2", "A-1-1"], pools={"floor": 1})
        said = await refused_by_the_schema(shop, again, "sold")
        assert "A-1-1" in said, "it says which seat"
    await sold(shop, "bob", seats=["A-1-2"])


async def test_a_refusal_by_the_schema_is_one_line(shop, monkeypatch):
    await sold(shop, "ann", seats=["A-1-1"])
    with monkeypatch.context() as unguarded:
        unguarded.setattr(Seat, "free", lambda seat, now: True)
        again = shop.sell(E1, buyer="bob", seats=["A-1-1"])
        said = await refused_by_the_schema(shop, again, "sold")
    assert len(said.splitlines()) == 1


async def test_what_was_held_in_spite_of_a_sale_can_still_not_be_sold(url, monkeypatch):
    # Not audited afterwards: without its guard such a hold is placed, and the auditor says so.
    async with shop_at(url, Clock()) as shop:
        await shop.create_event(plan())
        await sold(shop, "ann", seats=["A-1-1"])
        monkeypatch.setattr(Seat, "free", lambda seat, now: True)
        hold = await held(shop, "bob", seats=["A-1-1"])
        await refused_by_the_schema(shop, shop.confirm_hold(hold.id), "sold")


async def test_a_pool_cannot_be_overdrawn_by_sales(shop, monkeypatch):
    await sold(shop, "ann", pools={"floor": 9})
    with monkeypatch.context() as unguarded:
        unguarded.setattr(Pool, "free", property(lambda pool: 10**9))
        again = shop.sell(E1, buyer="bob", seats=["A-1-1"], pools={"floor": 2})
        await refused_by_the_schema(shop, again, "pools_not_oversold")
    await sold(shop, "bob", seats=["A-1-1"], pools={"floor": 1})


async def test_a_pool_cannot_be_overdrawn_by_holds(shop, monkeypatch):
    await held(shop, "ann", pools={"floor": 9})
    with monkeypatch.context() as unguarded:
        unguarded.setattr(Pool, "free", property(lambda pool: 10**9))
        again = shop.place_hold(E1, buyer="bob", seats=["A-1-1"], pools={"floor": 2})
        await refused_by_the_schema(shop, again, "pools_not_oversold")
    await held(shop, "bob", seats=["A-1-1"], pools={"floor": 1})


async def test_a_payment_cannot_pay_twice(shop, monkeypatch):
    await sold(shop, "ann", seats=["A-1-1"], payment="p1")
    with monkeypatch.context() as unguarded:
        unguarded.setattr(selling, "_said", lambda shelf, command: None)
        again = shop.sell(E1, buyer="bob", seats=["A-1-2"], payment="p1")
        said = await refused_by_the_schema(shop, again, "orders_by_payment")
        assert "p1" in said, "it says which payment"
    await sold(shop, "bob", seats=["A-1-2"], payment="p2")


async def test_an_idempotency_key_cannot_make_two_things(shop, monkeypatch):
    await held(shop, "ann", seats=["A-1-1"], idempotency_key="k1")
    with monkeypatch.context() as unguarded:
        unguarded.setattr(batch, "_replay", lambda shelf, command, now: None)
        again = shop.place_hold(E1, buyer="bob", seats=["A-1-2"], idempotency_key="k1")
        await refused_by_the_schema(shop, again, "commands")
    await held(shop, "bob", seats=["A-1-2"], idempotency_key="k2")


STALE = {
    "seats": (
        "hold = 'e1.rival', until_ms = 4000000000000 WHERE id = 'A-1-1'",
        "hold = NULL, until_ms = 0 WHERE id = 'A-1-1'",
        "no.taken",
    ),
    "pools": ("sold = 9 WHERE id = 'floor'", "sold = 1 WHERE id = 'floor'", "no.sold_out"),
    "holds": ("version = 7 WHERE id = 'e1.h1'", "version = 1 WHERE id = 'e1.h1'", "no.stale"),
    "orders": (
        "state = 'refunded', version = 2 WHERE id = 'e1.o1'",
        "state = 'confirmed', version = 1 WHERE id = 'e1.o1'",
        "no.not_sold",
    ),
}
"""What a rival does to a row, how it is undone, and the answer of whoever sees it."""


@pytest.mark.parametrize("table", STALE)
async def test_without_its_locks_a_batch_still_overwrites_nothing_that_changed_meanwhile(
    shop, database, session, watcher, monkeypatch, table
):
    """Each update is guarded by what its row was when it was decided on."""
    await sold(shop, "ann", seats=["A-1-2"], pools={"floor": 1}, order="o1")
    await held(shop, "ann", seats=["A-1-3"], pools={"floor": 1}, id="h1")
    asks = {
        "seats": lambda: shop.place_hold(E1, buyer="bob", seats=["A-1-1"]),
        "pools": lambda: shop.place_hold(E1, buyer="bob", pools={"floor": 1}),
        "holds": lambda: shop.extend_hold("e1.h1", version=1),
        "orders": lambda: shop.cancel_order("e1.o1"),
    }
    change, undo, answer = STALE[table]
    queries = database.queries()
    for name in STALE:
        monkeypatch.setitem(queries, name, re.sub(r"\bFOR UPDATE\b", "", queries[name]))
    async with nothing_changes(shop):
        await session.execute("BEGIN")
        await session.execute(f"UPDATE {database.table(table)} SET {change}")
        asked = asyncio.create_task(asks[table]())
        await somebody_waits(database, watcher)  # it has decided, and waits to write
        await session.execute("COMMIT")
        assert helpers.said(await asked) == answer, "it was decided anew on the row as it is"
        await session.execute(f"UPDATE {database.table(table)} SET {undo}")
