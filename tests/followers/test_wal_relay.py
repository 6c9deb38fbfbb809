"""The relay from PostgreSQL's write-ahead log: what is new comes by itself, what was there before
is read from the log, and one process at a time has the slot."""

from contextlib import asynccontextmanager

import pytest

from holdfast.brokers.memory import MemoryBroker
from holdfast.engine import Holdfast
from holdfast.followers.relay import Relay
from holdfast.followers.shards import Shards
from holdfast.settings import Settings
from holdfast.wiring import make_store, make_wal
from tests.conftest import needed_server
from tests.followers.test_relay import Sink, expected, numbers, once, sell, until
from tests.servers import Postgres

pytestmark = [pytest.mark.service, pytest.mark.xdist_group("wal")]


@pytest.fixture(scope="module")
def server():
    with needed_server(Postgres, wal_level="logical") as server:
        yield server


@pytest.fixture
async def shop(server):
    async with Holdfast.open(server.url, upkeep=False) as shop:
        for document in (await shop.store.documents("shards"))[0]:
            await shop.store.drop(document.kind, document.id, document.version)
        await shop.store.forget("relay")
        yield shop
    await make_wal(Settings(store=server.url)).drop()


@asynccontextmanager
async def relaying(url: str, sink: MemoryBroker, member: str = "a"):
    store = make_store(Settings(store=url))
    await store.open()
    shards = Shards(store, "relay", member, 1_500)
    relay = Relay(store, sink, shards, source=make_wal(Settings(store=url)))
    relay.start()
    try:
        yield relay
    finally:
        await relay.stop()
        await store.close()


async def until_arrived(shop, sink: Sink) -> None:
    wanted = await expected(shop)
    await until(lambda: numbers(once(sink.messages)) == wanted)


async def test_what_was_there_before_and_what_is_new_arrive_once_and_in_order(shop, server):
    await sell(shop, "w1", 3)
    sink = Sink()
    async with relaying(server.url, sink) as relay:
        await until_arrived(shop, sink)
        for event in ("w1", "w2", "w3"):
            await sell(shop, event, 3)
        await until_arrived(shop, sink)
        assert len(sink.messages) == len(once(sink.messages))
        assert numbers(sink.messages) == await expected(shop)
        await until(lambda: not any(relay.lags().values()))


async def test_after_a_restart_it_goes_on_where_it_stood(shop, server):
    sink = Sink()
    async with relaying(server.url, sink) as relay:
        await sell(shop, "w4", 2)
        await until_arrived(shop, sink)
        await until(lambda: not any(relay.lags().values()))  # the cursors have followed
    await sell(shop, "w4", 2)  # while nobody relays
    before = len(sink.messages)
    async with relaying(server.url, sink, "b"):
        await until_arrived(shop, sink)
    assert len(sink.messages) == before + 4


async def test_a_broker_that_is_away_loses_nothing_and_changes_no_order(shop, server):
    sink = Sink()
    async with relaying(server.url, sink) as relay:
        await sell(shop, "w5", 1)
        await until_arrived(shop, sink)
        sink.down_after = True  # it has them, and does not say so
        await sell(shop, "w5", 2)
        await until(lambda: relay.trouble)
        sink.down_after = False
        await sell(shop, "w5", 1)
        await until_arrived(shop, sink)


async def test_the_second_stands_by_and_takes_over(shop, server):
    sinks = Sink(), Sink()
    async with relaying(server.url, sinks[1], "b") as second:
        await until(lambda: second.state == "running" and second.shards)
        async with relaying(server.url, sinks[0], "a") as first:
            await until(lambda: first.state == "standing by" and first.trouble)
            await sell(shop, "w6", 2)
            await until_arrived(shop, sinks[1])
            assert not sinks[0].messages
            await second.stop()
            await sell(shop, "w6", 2)
            await until(lambda: numbers(sinks[0].messages).get("w6") == [6, 7, 8, 9])


async def test_the_control_without_the_log_what_was_there_before_would_never_arrive(shop, server):
    """What a relay that trusted the slot alone would do."""
    await sell(shop, "w7", 1)
    wal = make_wal(Settings(store=server.url))
    await wal.open()
    try:
        await sell(shop, "w7", 1)
        told = [entry.seq for each in await wal.read(5.0) for entry in each.entries]
        assert told
        assert told[0] == 4
    finally:
        await wal.close()
