"""Through pgbouncer in transaction mode, with two server connections for everybody: each
transaction may get another server, which knows nothing that an earlier one prepared."""

import asyncio
import time

import pytest

from holdfast import Holdfast
from holdfast.errors import StoreError
from holdfast.lab.stampede import count, stampede
from tests import services
from tests.conftest import drift
from tests.contract.helpers import said, seat_states, summary
from tests.databases.bouncer import pgbouncer
from tests.databases.conftest import found
from tests.databases.kinds import DATABASES
from tests.databases.mishaps import kill, restart
from tests.databases.shops import (
    E1,
    audited,
    count_rows,
    held,
    plan,
    selling,
    shop_at,
    sold,
    until,
)
from tests.databases.test_early_release import Gate
from tests.servers import MissingServer, Postgres, own_server

pytestmark = pytest.mark.service

POSTGRES = DATABASES["postgres"]
POOL_SIZE = 2


@pytest.fixture
def behind():
    """The PostgreSQL behind the pooler."""
    return found(POSTGRES).shared()


@pytest.fixture
async def pooled(behind):
    """The address of an empty database, through the pooler."""
    async with POSTGRES.empty(behind) as url:
        try:
            with pgbouncer(behind, POOL_SIZE) as pooler:
                yield pooler.url(url.rpartition("/")[2])
        except MissingServer as missing:
            if services.strict():
                raise
            pytest.skip(str(missing))


async def test_a_pooler_is_noticed(pooled, behind):
    direct = POSTGRES.at(behind, pooled.rpartition("/")[2])
    async with shop_at(pooled) as through, shop_at(direct) as past:
        assert through.store.pooled  # type: ignore[attr-defined]
        assert not past.store.pooled  # type: ignore[attr-defined]


async def test_everything_that_can_be_asked_works_through_a_pooler(pooled):
    async with selling(pooled, hold_seconds=60, max_per_buyer=20) as shop:
        hold = await held(shop, seats=["A-1-1"], best=2, pools={"floor": 3})
        assert said(await shop.extend_hold(hold.id)) == "extended"
        assert said(await shop.pay_hold(hold.id)) == "paying"
        assert said(await shop.confirm_hold(hold.id, payment="p1")) == "confirmed"
        assert said(await shop.confirm_hold(hold.id, payment="p1")) == "confirmed"
        other = await held(shop, "bob", best={"quantity": 3, "together": True}, id="mine")
        assert said(await shop.release_hold(other.id)) == "released"
        order = await sold(shop, "bob", pools={"floor": 2}, payment="p2")
        assert said(await shop.cancel_order(order.id)) == "cancelled"
        assert said(await shop.sell(E1, buyer="eve", seats=["A-1-1"])) == "no.taken"
        assert said(await shop.change_event(E1, hold_seconds=90)) == "changed"
        added = await shop.add_capacity(E1, {"pools": [{"id": "floor", "capacity": 5}]})
        assert said(added) == "changed"
        assert said(await shop.withdraw(E1, seats=["A-4-1"])) == "changed"
        assert said(await shop.expire(E1, limit=10)) == "expired"
        now = await summary(shop)
        assert (now.sold, now.capacity) == (6, 144)
        assert await shop.store.heads() == {E1: now.seq}
        assert len(await shop.log(E1)) == now.seq
        assert len(await seat_states(shop)) == 39


async def test_nothing_is_prepared_on_a_server_that_others_use_too(pooled, behind):
    async with selling(pooled) as shop:
        await held(shop, best=1, pools={"floor": 1})
        await shop.events()
        # Both of the pooler's servers, seen through it: neither knows a statement of ours.
        async with POSTGRES.sessions(pooled, POOL_SIZE) as sessions:
            for each in sessions:
                await each.execute("BEGIN")
            for each in sessions:
                await each.execute(NO_PREPARED_STATEMENTS)
                await each.execute("ROLLBACK")


NO_PREPARED_STATEMENTS = """
    DO $$ BEGIN
        IF (SELECT count(*) FROM pg_prepared_statements) > 0 THEN
            RAISE 'something is prepared';
        END IF;
    END $$
"""


async def test_a_stampede_through_a_pooler_sells_each_seat_once(pooled):
    buyers, seats = 500, 5
    async with selling(pooled) as one, audited(pooled) as two:
        tallies = await asyncio.gather(
            stampede(one, E1, range(0, buyers, 2), seats),
            stampede(two, E1, range(1, buyers, 2), seats),
        )
        found = await count(one.store, E1, [f"A-1-{n + 1}" for n in range(seats)])
        assert (found.sold, found.oversold) == (seats, 0)
        assert [tally.errors for tally in tallies] == [{}, {}]
        assert sum(tally.sold for tally in tallies) == seats
        assert sum(tally.rejected for tally in tallies) == buyers - seats


async def test_shops_that_open_while_others_sell_are_not_disturbed(pooled):
    """What a shop asks while it opens is spread over servers that are busy with others."""
    stopping = asyncio.Event()
    async with selling(pooled, rows=50, width=50) as shop:

        async def sell_on(number: int) -> None:
            while not stopping.is_set():
                await held(shop, f"u{number}", pools={"floor": 1}, best=1)

        async def open_and_close() -> None:
            for _ in range(10):
                async with shop_at(pooled) as other:
                    assert await other.event(E1) is not None

        async with asyncio.TaskGroup() as group:
            busy = [group.create_task(sell_on(n)) for n in range(4)]
            async with asyncio.TaskGroup() as opening:
                for _ in range(4):
                    opening.create_task(open_and_close())
            stopping.set()
        assert all(task.done() for task in busy)


async def test_followers_poll_where_nobody_can_listen(pooled):
    async with selling(pooled) as one, audited(pooled) as two:
        before = await two.store.heads()
        await held(one, best=1)
        began = time.monotonic()
        await two.store.wake(0.2)
        assert time.monotonic() - began >= 0.19, "nothing wakes it but the timeout"
        after = await two.store.heads()
        assert after[E1] == before[E1] + 1


@pytest.mark.slow
async def test_a_crash_behind_a_pooler_loses_nothing_that_was_answered():
    """The pooler keeps its clients through a restart of the server: a barrier that comes after it
    says nothing about a commit before."""
    found(POSTGRES)
    with own_server(Postgres, wal_writer_delay="10s") as server, pgbouncer(server, 2) as pooler:
        direct = await POSTGRES.created(server)
        async with shop_at(pooler.url(direct.rpartition("/")[2])) as shop:
            gate = Gate(shop.store)
            await shop.create_event(plan())
            gate.open.clear()
            asked = asyncio.create_task(shop.place_hold(E1, buyer="ann", best=1, id="mine"))
            async with POSTGRES.sessions(direct) as (other,):

                async def committed() -> bool:
                    return await count_rows(POSTGRES, other, "holds") == 1

                await until(committed, "that the hold is committed")
            kill(server)
            await restart(server)
            gate.open.set()
            try:
                answer = said(await asked)
            except StoreError:
                answer = "no answer"
            # The pooler may need a moment to see that its servers are gone.
            await until(lambda: answers(shop), "that the pooler is through with the crash")
            if answer == "placed":
                assert await shop.hold(f"{E1}.mine") is not None
            assert said(await shop.place_hold(E1, buyer="ann", best=1, id="mine")) == "placed"
            assert await shop.hold(f"{E1}.mine") is not None
            assert await drift(shop.store) == []


async def answers(shop: Holdfast) -> bool:
    try:
        return await shop.event(E1) is not None
    except StoreError:
        return False
