"""Early lock release on PostgreSQL: a batch commits without waiting for the disk, and is answered
after a barrier that does wait. A crash in between loses only what nobody was told."""

import asyncio
from collections.abc import Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from holdfast import Holdfast, Placed
from holdfast.errors import StoreError
from holdfast.stores.postgres import barrier, writing
from holdfast.stores.postgres.reading import SQL
from tests.conftest import drift
from tests.contract.helpers import said
from tests.databases.conftest import found
from tests.databases.kinds import DATABASES
from tests.databases.mishaps import kill, restart
from tests.databases.shops import E1, count_rows, held, plan, shop_at, until
from tests.servers import Postgres, own_server

pytestmark = pytest.mark.service

POSTGRES = DATABASES["postgres"]


@pytest.fixture(scope="module")
def one_server():
    """Durable, but slow to write by itself: what no flush asked for stays in its memory."""
    found(POSTGRES)
    with own_server(Postgres, wal_writer_delay="10s") as server:
        yield server


@pytest.fixture
def server(one_server):
    """Running, whatever the test before has done to it."""
    if one_server.process is None:
        one_server.start()
    return one_server


class Gate:
    """Stands before the store's barrier while it is shut."""

    def __init__(self, store: Any) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.waiting = 0
        flush = store._barrier._flush

        async def behind_the_gate(evidence: Any) -> Any:
            self.waiting += 1
            await self.open.wait()
            return await flush(evidence)

        store._barrier._flush = behind_the_gate


async def place(shop: Holdfast, id: str) -> str:
    """The answer, or that there was none."""
    try:
        return said(await shop.place_hold(E1, buyer=id, best=1, pools={"floor": 1}, id=id))
    except StoreError:
        return "no answer"


async def there(shop: Holdfast, ids: list[str]) -> list[str]:
    return [id for id in ids if await shop.hold(f"{E1}.{id}") is not None]


@pytest.mark.slow
@pytest.mark.parametrize("meanwhile", ["down", "back"])
async def test_a_crash_between_commit_and_barrier_loses_only_what_nobody_was_told(
    server, meanwhile
):
    """The barrier is asked for while the server is still down, or when it is back already and has
    forgotten: in both cases nobody may be told of a hold that is not there."""
    url = await POSTGRES.created(server)
    async with shop_at(url, connect_timeout_seconds=2.0, statement_timeout_ms=2_000) as shop:
        gate = Gate(shop.store)
        await shop.create_event(plan())
        told = [f"told-{n}" for n in range(10)]
        assert [await place(shop, id) for id in told] == ["placed"] * 10
        gate.open.clear()
        gate.waiting = 0
        untold = [f"untold-{n}" for n in range(10)]
        asked = [asyncio.create_task(place(shop, id)) for id in untold]
        async with POSTGRES.sessions(url) as (other,):

            async def committed() -> bool:
                return gate.waiting > 0 and await count_rows(POSTGRES, other, "holds") == 20

            await until(committed, "that the holds are committed")
        assert not any(task.done() for task in asked), "nobody was told"
        kill(server)
        if meanwhile == "back":
            await restart(server)
            async with shop_at(url) as fresh:
                assert await there(fresh, told) == told
                assert await there(fresh, untold) == [], "the crash was a real one"
        gate.open.set()
        answers = await asyncio.gather(*asked)
        if meanwhile == "down":
            assert answers == ["no answer"] * 10
            await restart(server)
        # Whoever was answered after all was answered rightly, and the others ask again.
        assert await there(shop, told) == told
        now_told = [id for id, answer in zip(untold, answers, strict=True) if answer == "placed"]
        assert await there(shop, now_told) == now_told
        assert [await place(shop, id) for id in untold] == ["placed"] * 10
        assert await there(shop, untold) == untold
        assert await drift(shop.store) == []


@pytest.mark.slow
async def test_a_crash_loses_nothing_that_was_answered_by_whoever_found_it(server):
    """A second process is asked the same, finds the hold that is not durable yet, and waits too."""
    url = await POSTGRES.created(server)
    async with shop_at(url) as one, shop_at(url) as two:
        gates = [Gate(one.store), Gate(two.store)]
        await one.create_event(plan())
        assert await place(two, "open") == "placed"
        for gate in gates:
            gate.open.clear()
            gate.waiting = 0
        asked = []
        for shop, gate in zip((one, two), gates, strict=True):
            asked.append(asyncio.create_task(place(shop, "mine")))
            await until(partial(has_waited, gate), "that it waits for its barrier")
        kill(server)
        await restart(server)
        gates[1].open.set()
        found = await asked[1]
        is_there = await there(two, ["mine"])
        gates[0].open.set()
        await asked[0]
        assert found == "no answer" or is_there
        assert await place(two, "mine") == "placed"
        assert await drift(two.store) == []


@asynccontextmanager
async def seen_and_lost(server, begin: Callable[[Holdfast], Any], look: Callable[[Holdfast], Any]):
    """Two shops. What the one begins is committed, seen by the other, and lost in a crash before
    anybody was told; the server is back with what was there before. Yields the other."""
    url = await POSTGRES.created(server)
    async with shop_at(url) as one, shop_at(url) as two:
        await one.create_event(plan(rows=1))
        gate = Gate(one.store)
        gate.open.clear()
        begun = asyncio.create_task(begin(one))
        try:
            await until(partial(has_waited, gate), "that it is committed")
            await look(two)
            kill(server)
            await restart(server)
            async with shop_at(url) as three:
                yield two, three
                assert await drift(two.store) == []
        finally:
            gate.open.set()
            await asyncio.gather(begun, return_exceptions=True)


@pytest.mark.slow
async def test_a_configuration_that_a_crash_lost_is_not_kept_by_others(server):
    """Another change gets the same version: the number alone would not tell."""

    def begin(one: Holdfast) -> Any:
        return one.change_event(E1, prices={"seat": 200})

    async def look(two: Holdfast) -> None:
        assert said(await two.place_hold(E1, buyer="ann", seats=["nope"])) == "no.unknown_unit"
        assert two.store._configs[E1].prices["seat"] == 200  # type: ignore[attr-defined]

    async with seen_and_lost(server, begin, look) as (two, three):
        assert said(await three.change_event(E1, prices={"seat": 300})) == "changed"
        for shop, seat in ((two, "A-1-1"), (three, "A-1-2")):
            assert (await held(shop, seats=[seat])).amount == 300


@pytest.mark.slow
async def test_a_house_that_a_crash_lost_is_not_kept_by_others(server):
    """Another sale gets the same number on the log: the number alone would not tell."""

    def begin(one: Holdfast) -> Any:
        return one.sell(E1, buyer="rich", seats=[f"A-1-{n}" for n in range(1, 11)])

    async def look(two: Holdfast) -> None:
        assert said(await two.place_hold(E1, buyer="ann", best=1)) == "no.sold_out"

    async with seen_and_lost(server, begin, look) as (two, three):
        assert said(await three.sell(E1, buyer="bob", seats=["A-1-1"])) == "confirmed"
        free = {f"A-1-{n}" for n in range(2, 11)}
        for shop in (two, three, two):
            free -= set((await held(shop, best=1)).seats)
        assert len(free) == 6


async def has_waited(gate: Gate) -> bool:
    return gate.waiting > 0


@pytest.mark.slow
async def test_without_its_barrier_a_crash_loses_what_was_answered(server):
    """The control: it is the barrier that makes a hold durable."""
    url = await POSTGRES.created(server)
    async with shop_at(url) as shop:
        await shop.create_event(plan())

        async def no_flush(evidence: Any) -> Any:
            return set(evidence)

        shop.store._barrier._flush = no_flush  # type: ignore[attr-defined]
        assert await place(shop, "lost") == "placed"
    kill(server)
    await restart(server)
    async with shop_at(url) as shop:
        assert await there(shop, ["lost"]) == []


@pytest.mark.parametrize(("early", "setting"), [(True, "off"), (False, "on")])
async def test_a_batch_commits_synchronously_unless_a_barrier_follows(
    server, monkeypatch, early, setting
):
    url = await POSTGRES.created(server)
    seen: list[str] = []
    async with shop_at(url, early_release=early) as shop:
        gate = Gate(shop.store)
        commit = shop.store._commit  # type: ignore[attr-defined]

        async def looking(db: Any) -> None:
            seen.append(await db.fetchval("SHOW synchronous_commit"))
            await commit(db)

        shop.store._commit = looking  # type: ignore[attr-defined]
        await shop.create_event(plan())
        hold = await held(shop, best=1)
        await shop.confirm_hold(hold.id)
        assert seen == [setting] * 3
        assert gate.waiting == (3 if early else 0)


async def there_after_a_crash(server: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is there after a crash, of two holds that were answered though no barrier came about."""
    monkeypatch.setattr(barrier, "QUICK_SECONDS", 60.0)
    url = await POSTGRES.created(server)
    async with shop_at(url) as shop:
        gate = Gate(shop.store)
        await shop.create_event(plan())
        await held(shop, seats=["A-1-1"])
        gate.open.clear()
        for n in (2, 3):
            await held(shop, f"u{n}", seats=[f"A-1-{n}"], id=f"h{n}")
    kill(server)
    await restart(server)
    async with shop_at(url) as shop:
        return await there(shop, ["h2", "h3"])


@pytest.mark.slow
async def test_where_the_disk_is_quick_a_batch_waits_for_it_itself(server, monkeypatch):
    assert await there_after_a_crash(server, monkeypatch) == ["h2", "h3"]


@pytest.mark.slow
async def test_if_it_did_not_wait_what_was_answered_would_be_lost(server, monkeypatch):
    """The control."""
    monkeypatch.setitem(SQL, "flush", "SELECT true AS told")
    writing._together.cache_clear()
    try:
        # The server writes full pages by itself, but not the last one.
        assert "h3" not in await there_after_a_crash(server, monkeypatch)
    finally:
        writing._together.cache_clear()


async def test_where_the_disk_is_slow_a_batch_is_answered_after_a_barrier(server, monkeypatch):
    monkeypatch.setattr(barrier, "QUICK_SECONDS", 0.0)
    url = await POSTGRES.created(server)
    async with shop_at(url) as shop:
        gate = Gate(shop.store)
        await shop.create_event(plan())
        await held(shop, seats=["A-1-1"])
        gate.waiting = 0
        for n in (2, 3):
            await held(shop, f"u{n}", seats=[f"A-1-{n}"])
        assert gate.waiting == 2


@pytest.mark.slow
async def test_for_a_standby_only_a_barrier_waits():
    """Told to stop waiting for a standby, a commit would be reported as done."""
    found(POSTGRES)
    with own_server(Postgres, synchronous_standby_names="nobody") as server:
        async with POSTGRES.sessions(POSTGRES.home(server)) as (db,):
            await db.execute("BEGIN")
            assert await db.rows(SQL["flush"]) == [(False,)]
            assert await db.rows("SHOW synchronous_commit") == [("off",)]
            await db.execute("ROLLBACK")


async def test_refusals_wait_for_no_barrier(server):
    """They made nothing, so there is nothing to make durable."""
    url = await POSTGRES.created(server)
    async with shop_at(url) as shop:
        gate = Gate(shop.store)
        await shop.create_event(plan())
        await held(shop, seats=["A-1-1"])
        gate.open.clear()
        assert said(await shop.place_hold(E1, buyer="bob", seats=["A-1-1"])) == "no.taken"


async def test_one_barrier_serves_all_batches_that_wait_for_it(server):
    url = await POSTGRES.created(server)
    async with shop_at(url) as shop:
        gate = Gate(shop.store)
        events = [f"e{n}" for n in range(8)]
        for event in events:
            await shop.create_event(plan(id=event))
        gate.open.clear()
        gate.waiting = 0
        asked = [
            asyncio.create_task(shop.place_hold(event, buyer="ann", best=1)) for event in events
        ]
        async with POSTGRES.sessions(url) as (other,):

            async def committed() -> bool:
                return await count_rows(POSTGRES, other, "holds") == len(events)

            await until(committed, "that all are committed")
        gate.open.set()
        assert all(isinstance(outcome, Placed) for outcome in await asyncio.gather(*asked))
        assert gate.waiting <= 2, "the one under way, and one for those who came meanwhile"
