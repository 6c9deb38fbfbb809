"""Many subscriptions and many events: what a process does not have to look at costs it nothing."""

import asyncio
import logging

import msgspec
import pytest

from holdfast.brokers.webhooks.retries import KIND as RETRY_KIND
from holdfast.brokers.webhooks.retries import Retry
from holdfast.brokers.webhooks.subscriptions import State
from holdfast.domain.views import Document, Move
from holdfast.errors import StoreUnavailable
from holdfast.followers.deliveries import Deliveries
from holdfast.followers.shards import KIND as SHARDS_KIND
from tests.webhooks.conftest import INTERNAL
from tests.webhooks.receiving import becomes, until


class Counting:
    """A store that counts how often cursors are read."""

    def __init__(self, store) -> None:
        self._store = store
        self.reads: list[str | None] = []

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def cursors(self, follower=None):
        self.reads.append(follower)
        return await self._store.cursors(follower)


@pytest.fixture
async def counted(world):
    """A process that delivers, whose reads are counted."""
    store = Counting(world.store)
    made = Deliveries(store, INTERNAL, read_seconds=0.02, chance=lambda: 0.0, lease_ms=200)
    made.start()
    yield made, store
    await made.stop()


async def version(world) -> int:
    documents, _ = await world.store.documents(SHARDS_KIND)
    return documents[0].version if documents else 0


async def test_a_share_is_kept_while_a_round_takes_longer_than_a_lease(world, monkeypatch):
    await world.event()
    await world.subscribe()
    asked, answered = asyncio.Event(), asyncio.Event()
    heads = world.store.heads

    async def slow():
        asked.set()
        await answered.wait()
        return await heads()

    async with world.delivering(lease_ms=200) as delivering:
        await until(lambda: delivering._shards.mine)
        monkeypatch.setattr(world.store, "heads", slow)
        await asked.wait()
        first = await version(world)

        async def renewed():
            assert delivering._shards.mine
            return await version(world) > first + 10

        await becomes(renewed)
        answered.set()


async def test_whatever_goes_wrong_with_a_renewal_the_next_may_go_better(
    world, receiver, monkeypatch
):
    await world.event()
    await world.subscribe()
    async with world.delivering(lease_ms=200) as delivering:
        renew, failed = delivering._shards.renew, 0

        async def failing():
            nonlocal failed
            failed += 1
            raise StoreUnavailable("down") if failed % 2 else RuntimeError("odd")

        monkeypatch.setattr(delivering._shards, "renew", failing)
        await until(lambda: failed > 3)
        monkeypatch.setattr(delivering._shards, "renew", renew)
        await world.facts("gala", 1)
        await until(lambda: receiver.facts() == [2])


async def test_the_cursors_of_all_subscriptions_are_read_at_once(world, receiver, counted):
    await world.event()
    delivering, store = counted
    for nth in range(20):
        await world.subscribe(url=f"{receiver.url}/{nth}")
    await until(lambda: len(delivering._lines) == 20 and delivering._taken)
    await world.facts("gala", 1)
    await until(lambda: len(receiver.got) == 20)
    # They are not all seen in the same moment.
    assert 0 < len(store.reads) < 10


async def test_only_shards_that_have_become_ours_are_read(world, receiver, counted):
    delivering, store = counted
    events = [await world.event(f"e{nth}") for nth in range(20)]
    id = await world.subscribe()
    await until(lambda: len(delivering._taken) == 64)
    await until(lambda: not delivering._lines[id].unread)
    read = len(store.reads)
    async with world.delivering(lease_ms=200):
        await until(lambda: len(delivering._taken) == 32)
        await asyncio.gather(*(world.facts(event, 1) for event in events))
        await until(lambda: len(receiver.got) == 20)
        # What was given away needs no reading, and what was kept is known.
        assert len(store.reads) == read
        kept = dict(delivering._taken)
    await until(lambda: len(delivering._taken) == 64)
    await asyncio.gather(*(world.facts(event, 1) for event in events))
    await until(lambda: len(receiver.got) == 40)
    assert len(store.reads) == read + 1
    assert kept.items() <= delivering._taken.items()
    for event in events:
        assert receiver.facts(event) == [2, 3]


async def test_a_lease_that_ran_out_costs_no_reading_where_nobody_else_had_the_shards(
    world, receiver, counted, monkeypatch
):
    delivering, store = counted
    await world.event()
    id = await world.subscribe()
    await until(lambda: delivering._taken and not delivering._lines[id].unread)
    read, renew = len(store.reads), delivering._shards.renew

    async def failing():
        raise StoreUnavailable("down")

    monkeypatch.setattr(delivering._shards, "renew", failing)
    await until(lambda: not delivering._shards.mine)
    await world.facts("gala", 2)
    await until(lambda: delivering.lags() == {id: 2})
    assert receiver.got == []
    monkeypatch.setattr(delivering._shards, "renew", renew)
    await until(lambda: receiver.facts() == [2, 3])
    assert len(store.reads) == read


async def test_events_that_wait_are_not_looked_at_before_they_are_due(world, receiver):
    events = [await world.event(f"e{nth}") for nth in range(12)]
    id = await world.subscribe()
    receiver.answer = lambda got: 500
    async with world.delivering() as delivering:
        for event in events:
            await world.facts(event, 2)
        await until(lambda: id in delivering._lines and len(delivering._lines[id].waiting) == 12)
        line = delivering._lines[id]
        await until(lambda: not line.busy)
        assert not line.behind
        # What is new behind them waits too.
        await world.facts("e0", 1)
        await until(lambda: delivering.lags() == {id: 25})
        assert not line.behind
        receiver.answer = lambda got: 200
        world.clock.advance(5_000)
        await until(lambda: delivering.delivered == 25)
        await until(lambda: not line.behind)
        assert delivering.lags() == {id: 0}
    for event in events:
        assert receiver.first(event) == [2, 3, *([4] if event == "e0" else [])]


async def test_an_enabling_that_a_failure_saw_first_still_tries_what_waits(world, receiver):
    """Writing that it fails tells the process of the new turn before it reads subscriptions."""
    await world.event()
    await world.event("other")
    id = await world.subscribe()
    enabled, hanging = asyncio.Event(), asyncio.Event()

    async def answer(got):
        if got.event == "other" and not enabled.is_set():
            hanging.set()
            await enabled.wait()
            return 500
        return 200 if enabled.is_set() else 500

    receiver.answer = answer
    async with world.delivering() as delivering:
        await world.facts("gala", 1)
        await until(lambda: id in delivering._lines and delivering._lines[id].waiting)
        await world.facts("other", 1)
        await hanging.wait()
        await world.webhooks.enable(id)
        enabled.set()
        await until(lambda: receiver.facts("gala") == [2, 2])
        # Under the new turn it waits by the schedule.
        retry = await world.retry(id, "other")
        assert (retry.attempts, retry.turn) == (1, 2)


async def test_how_many_are_disabled_is_told_until_they_are_enabled(world):
    one, two = await world.subscribe(), await world.subscribe()
    async with world.delivering() as delivering:
        await until(lambda: len(delivering._lines) == 2)
        assert delivering.disabled_now == 0
        for id in (one, two):
            await world.webhooks.disable(id, "by a test")
        await until(lambda: delivering.disabled_now == 2)
        await world.webhooks.enable(one)
        await until(lambda: delivering.disabled_now == 1)
        await world.webhooks.remove(two)
        await until(lambda: delivering.disabled_now == 0)


async def test_facts_that_were_pruned_are_said_once_and_passed(world, receiver, caplog):
    await world.event()
    id = await world.subscribe()
    receiver.answer = lambda got: 500
    async with world.delivering():
        await world.facts("gala", 5)
        await becomes(lambda: world.retry(id))
    assert await world.store.prune("gala", 4, 100) == 4
    with caplog.at_level(logging.ERROR, "holdfast.webhooks"):
        async with world.delivering() as delivering:
            # It is tried from the first that is there, which fails too, again and again.
            for attempts in (1, 2, 3):
                world.clock.move_to((await world.retry(id)).due_ms)

                async def tried(attempts=attempts):
                    retry = await world.retry(id)
                    return retry and (retry.seq, retry.attempts) == (5, attempts)

                await becomes(tried)
                assert await world.cursor(id) == 4
            assert len(receiver.facts()) == 4
            assert delivering.missed == 3
            receiver.answer = lambda got: 200
            await world.webhooks.enable(id)
            await until(lambda: receiver.facts()[-2:] == [5, 6])
    said = [each.getMessage() for each in caplog.records if "pruned" in each.getMessage()]
    assert said == [f"gala: facts 2 to 4 were pruned before they were delivered to {id}"]


async def test_the_retry_of_a_fact_that_is_gone_is_forgotten(world, receiver):
    """Also where nothing of what is left is wanted."""
    await world.event()
    id = await world.subscribe("event.changed")
    await world.shop.change_event("gala", name="Gala")
    receiver.answer = lambda got: 500
    async with world.delivering():
        await becomes(lambda: world.retry(id))
    await world.facts("gala", 2)
    assert await world.store.prune("gala", 3, 100) == 3
    async with world.delivering() as delivering:
        world.clock.advance(5_000)

        async def passed():
            return await world.cursor(id) == 4

        await becomes(passed)
        await until(lambda: delivering.lags() == {id: 0})
        assert await world.retry(id) is None
        assert await world.webhooks.waiting() == set()
    assert receiver.facts() == [2]


async def test_a_retry_that_somebody_else_has_settled_is_forgotten(world):
    """One who lost his share while the receiver thought about it may write it late."""
    await world.event()
    id = await world.subscribe()
    await world.facts("gala", 1)
    await world.store.move(f"webhook:{id}", [Move("gala", 1, 2, 0)])
    late = Retry(2, 1, 0, 0, 0, 1, "answered 500")
    body = msgspec.json.encode(late).decode()
    await world.store.put(Document(RETRY_KIND, f"{id}/gala", 1, body))
    assert await world.webhooks.waiting() == {(f"webhook:{id}", "gala")}
    async with world.delivering():

        async def forgotten():
            return await world.retry(id) is None

        await becomes(forgotten)


async def test_what_a_disabled_one_waits_for_counts_for_some_days(world, receiver):
    await world.event()
    id = await world.subscribe()
    receiver.answer = lambda got: 500
    pair = (f"webhook:{id}", "gala")
    async with world.delivering():
        await world.facts("gala", 1)
        await becomes(lambda: world.retry(id))
    assert await world.webhooks.waiting() == {pair}
    # As long as it is active, for as long as it takes.
    world.clock.advance(100 * 24 * 3_600_000)
    assert await world.webhooks.waiting() == {pair}
    await world.webhooks.failing(id)
    assert (await world.webhooks.disable(id, "by a test")).state is State.DISABLED
    world.clock.advance(3 * 24 * 3_600_000)
    assert await world.webhooks.waiting() == {pair}
    world.clock.advance(1)
    assert await world.webhooks.waiting() == set()
