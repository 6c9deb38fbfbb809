"""The relay from PostgreSQL's write-ahead log: what is new comes by itself, what was there before
is read from the log, and one process at a time has the slot."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from holdfast.brokers.memory import MemoryBroker
from holdfast.engine import Holdfast
from holdfast.followers.relay import Relay
from holdfast.followers.shards import SHARDS, Shards, read_table
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


async def test_one_that_only_waits_takes_no_events_from_the_one_that_works(shop, server):
    sink = Sink()
    async with relaying(server.url, sink, "a") as working:
        await until(lambda: working.state == "running" and working.shards == SHARDS)
        async with relaying(server.url, Sink(), "b") as waiting:
            await until(lambda: waiting.state == "standing by" and waiting.trouble)
            documents, _ = await shop.store.documents("shards", "relay")
            assert list(read_table(documents[0].body).members) == ["a"]
            await working._shards.renew()
            assert working.shards == SHARDS
            assert not waiting.shards


async def test_a_sink_that_is_slower_than_the_sale_still_reads_from_the_write_ahead_log(
    shop, server
):
    """What is there when it begins has an end; what comes later comes from the source."""

    class Slow(Sink):
        async def publish(self, messages):
            await asyncio.sleep(0.05)
            return await super().publish(messages)

    sink = Slow()
    selling = asyncio.create_task(sell(shop, "w8", 150))
    async with relaying(server.url, sink) as relay:
        rounds = 0
        original = relay.round

        async def counted() -> object:
            nonlocal rounds
            rounds += 1
            return await original()

        relay.round = counted
        await until(lambda: relay.state == "running")
        before = rounds
        await selling
        await until_arrived(shop, sink)
        assert rounds - before <= 3
    assert len(sink.messages) == len(once(sink.messages))


async def test_two_names_share_nothing_so_that_one_can_be_dropped(shop, server):
    other = Settings(store=server.url, relay_name="other.one")
    sink = Sink()
    async with relaying(server.url, sink):
        wal = make_wal(other)
        await wal.open()
        await wal.close()
        await wal.drop()
        await sell(shop, "w9", 2)
        await until_arrived(shop, sink)
