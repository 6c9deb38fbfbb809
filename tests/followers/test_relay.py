"""The relay: every fact at least once, those of an event in order, whatever dies between any two
steps. On every store; the brokers themselves are tested in tests/brokers/."""

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

from holdfast.brokers.memory import MemoryBroker
from holdfast.domain.cloudevents import Message
from holdfast.domain.facts import Entry
from holdfast.domain.outcomes import Created, Placed, Released
from holdfast.errors import BrokerDown
from holdfast.followers.dead_letters import DeadLetters
from holdfast.followers.relay import Relay
from holdfast.followers.shards import Shards, shard_of
from tests.conftest import PLAIN, marked

pytestmark = pytest.mark.parametrize("setup", [marked(setup) for setup in PLAIN], indirect=True)

SECTION = {"id": "A", "tier": "any", "rows": 10, "seats_per_row": 10}


class Crash(Exception):
    """The process dies here."""


class Sink(MemoryBroker):
    """A broker that can be told to go wrong, before or after it has the messages."""

    def __init__(self) -> None:
        super().__init__()
        self.down_before = self.down_after = False
        self.poison: set[str] = set()
        self.batches: list[int] = []

    async def publish(self, messages: Sequence[Message]) -> dict[int, str]:
        if self.down_before:
            raise BrokerDown("away")
        bad = {nth: "too strange" for nth, each in enumerate(messages) if each.id in self.poison}
        await super().publish([each for nth, each in enumerate(messages) if nth not in bad])
        self.batches.append(len(messages))
        if self.down_after:
            raise BrokerDown("the reply was lost")
        return bad


async def sell(shop, event: str, holds: int) -> None:
    """An event, or more facts of one."""
    if await shop.event(event) is None:
        made = await shop.create_event({"id": event, "prices": {"any": 1}, "sections": [SECTION]})
        assert isinstance(made, Created)
    for _ in range(holds):
        placed = await shop.place_hold(event, buyer="b", best=1)
        assert isinstance(placed, Placed)
        assert isinstance(await shop.release_hold(placed.hold.id), Released)


def relay(shop, sink, member: str = "a", **options) -> Relay:
    return Relay(shop.store, sink, Shards(shop.store, "relay", member), **options)


async def all_of_it(*relays: Relay) -> None:
    """Rounds of each until nothing is left."""
    for each in relays:
        await each._shards.renew()
    while sum([await each.round() for each in relays]):
        pass


def numbers(messages: Sequence[Message]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for each in messages:
        found.setdefault(each.event, []).append(each.seq)
    return found


def once(messages: Sequence[Message]) -> list[Message]:
    """As a consumer has them that drops repeats."""
    return list({each.id: each for each in messages}.values())


async def expected(shop) -> dict[str, list[int]]:
    return {event: list(range(1, head + 1)) for event, head in (await shop.store.heads()).items()}


async def test_everything_arrives_in_order_and_once(shop):
    for event in ("e1", "e2", "e3"):
        await sell(shop, event, 3)
    sink = Sink()
    follower = relay(shop, sink)
    await all_of_it(follower)
    assert numbers(sink.messages) == await expected(shop)
    await sell(shop, "e2", 2)
    await sell(shop, "new", 1)
    await all_of_it(follower)
    assert numbers(sink.messages) == await expected(shop)


async def test_a_message_is_the_cloud_event_that_the_log_shows(shop):
    await sell(shop, "e1", 1)
    sink = Sink()
    await all_of_it(relay(shop, sink))
    entry: Entry = (await shop.log("e1"))[1]
    told = msgspec.json.decode(sink.messages[1].body)
    assert told["specversion"] == "1.0"
    assert told["id"] == sink.messages[1].id == f"e1.{entry.seq}"
    assert (told["type"], told["subject"], told["sequence"]) == ("hold.placed", "e1", 2)
    assert told["data"] == entry.data


async def test_a_crash_before_publishing_loses_nothing(shop):
    """The commit is there, the process is not: the next one publishes."""
    await sell(shop, "e1", 3)
    sink = Sink()
    sink.down_before = True
    first = relay(shop, sink)
    with pytest.raises(BrokerDown):
        await all_of_it(first)
    sink.down_before = False
    await first._shards.leave()
    await all_of_it(relay(shop, sink, "b"))
    assert numbers(sink.messages) == await expected(shop)


async def test_a_crash_after_publishing_and_before_the_cursor_repeats_and_loses_nothing(shop):
    await sell(shop, "e1", 3)
    sink = Sink()
    sink.down_after = True
    first = relay(shop, sink)
    with pytest.raises(BrokerDown):
        await all_of_it(first)
    sink.down_after = False
    await sell(shop, "e1", 1)
    await first._shards.leave()
    await all_of_it(relay(shop, sink, "b"))
    assert len(sink.messages) > len(once(sink.messages))
    assert numbers(once(sink.messages)) == await expected(shop)


async def test_a_cursor_that_moved_before_the_broker_had_it_would_lose_facts(shop):
    """The control: what goes wrong when the order of the two steps is the other one."""
    await sell(shop, "e1", 3)
    sink = Sink()

    class Careless(Relay):
        async def _publish(self, entries):
            await self._store.move("relay", self._moves(entries))
            return await super()._publish(entries)

    sink.down_before = True
    careless = Careless(shop.store, sink, Shards(shop.store, "relay", "a"))
    with pytest.raises(BrokerDown):
        await all_of_it(careless)
    sink.down_before = False
    await careless._shards.leave()
    await all_of_it(relay(shop, sink, "b"))
    assert numbers(once(sink.messages)) != await expected(shop)


async def test_poison_goes_to_the_dead_letters_and_the_rest_goes_on(shop):
    await sell(shop, "e1", 2)
    sink = Sink()
    sink.poison = {"e1.2"}
    follower = relay(shop, sink)
    await all_of_it(follower)
    assert numbers(sink.messages) == {"e1": [1, 3, 4, 5]}
    assert [(message.id, why) for message, why in sink.dead] == [("e1.2", "too strange")]
    letters = DeadLetters(shop.store)
    (letter,) = await letters.all()
    assert (letter.id, letter.reason) == ("relay/e1.2", "too strange")
    again = await letters.message(letter)
    assert again is not None
    assert again.body == sink.dead[0][0].body
    assert await letters.drop(letter)
    assert await letters.all() == []


async def test_two_relays_divide_the_events_and_an_heir_goes_on_where_the_dead_one_stood(
    shop, clock
):
    events = [f"e{nth}" for nth in range(12)]
    for event in events:
        await sell(shop, event, 1)
    sinks = Sink(), Sink()
    first, second = relay(shop, sinks[0], "a"), relay(shop, sinks[1], "b")
    for each in (first, second, first, second):
        await each._shards.renew()
    await all_of_it(first, second)
    assert all(numbers(sink.messages) for sink in sinks)
    assert not numbers(sinks[0].messages).keys() & numbers(sinks[1].messages).keys()
    together = numbers(sinks[0].messages) | numbers(sinks[1].messages)
    assert together == await expected(shop)
    # The first dies: the second has its events when the lease is over, and repeats nothing.
    for event in events:
        await sell(shop, event, 1)
    clock.advance(first._shards.lease_ms + 1)
    await all_of_it(second)
    together = numbers([*sinks[0].messages, *sinks[1].messages])
    assert together == await expected(shop)


async def test_one_that_was_replaced_and_does_not_know_it_moves_no_cursor(shop, clock):
    await sell(shop, "e1", 2)
    sink = Sink()
    frozen, heir = relay(shop, sink, "a"), relay(shop, sink, "b")
    await frozen._shards.renew()
    await frozen._take_over()
    clock.advance(frozen._shards.lease_ms + 1)
    await heir._shards.renew()
    await heir._take_over()
    assert shard_of("e1") in heir._taken
    await sell(shop, "e1", 1)
    entries = await shop.store.tails({"e1": 0}, 100)
    await all_of_it(heir)
    await frozen._publish(entries)  # it had read them before it was frozen
    assert frozen.repeated == len(entries)
    cursors, _ = await shop.store.cursors("relay")
    assert [(each.event, each.seq) for each in cursors] == [("e1", 7)]
    assert numbers(once(sink.messages)) == await expected(shop)


async def test_a_batch_has_room_for_every_event_in_turns(shop):
    for event in ("e1", "e2", "e3", "e4", "e5"):
        await sell(shop, event, 2)
    sink = Sink()
    await all_of_it(relay(shop, sink, batch_max=2))
    assert max(sink.batches) <= 2
    assert numbers(sink.messages) == await expected(shop)
    # Nobody waits for the end of another's log.
    assert {each.event for each in list(sink.messages)[:6]} == {"e1", "e2", "e3", "e4", "e5"}


async def test_a_broker_without_a_place_for_dead_letters_blocks_nothing(shop):
    await sell(shop, "e1", 2)

    class Placeless(Sink):
        async def bury(self, message: Message, reason: str) -> None:
            raise BrokerDown("no such topic")

    sink = Placeless()
    sink.poison = {"e1.2"}
    await all_of_it(relay(shop, sink))
    assert numbers(sink.messages) == {"e1": [1, 3, 4, 5]}
    assert len(await DeadLetters(shop.store).all()) == 1


async def test_large_facts_come_in_smaller_batches(shop, monkeypatch):
    monkeypatch.setattr("holdfast.followers.relay.BATCH_BYTES_MAX", 2_000)
    await sell(shop, "e1", 30)
    sink = Sink()
    await all_of_it(relay(shop, sink))
    assert max(sink.batches[1:]) < sink.batches[0]
    assert numbers(sink.messages) == await expected(shop)


async def test_a_renewal_that_fails_strangely_is_tried_again(shop):
    sink = Sink()
    follower = Relay(shop.store, sink, Shards(shop.store, "relay", "a", 500), poll_seconds=0.02)
    renew, failures = follower._shards.renew, iter([1, 2])

    async def stumbling() -> None:
        if next(failures, None):
            raise RuntimeError("something nobody thought of")
        await renew()

    follower._shards.renew = stumbling  # type: ignore[method-assign]  # a fault to inject
    follower.start()
    try:
        await until(lambda: "nobody thought of" in follower.trouble)
        await sell(shop, "e1", 1)
        await until(lambda: len(sink.messages) == 3)
        await until(lambda: not follower.trouble)
    finally:
        await follower.stop()


async def test_one_that_is_stopped_finishes_its_batch(shop):
    """What was published and not noted would be published again."""
    await sell(shop, "e1", 3)

    class Slow(Sink):
        async def publish(self, messages: Sequence[Message]) -> dict[int, str]:
            done = await super().publish(messages)
            await asyncio.sleep(0.2)
            return done

    sink = Slow()
    follower = relay(shop, sink, poll_seconds=0.02)
    follower.start()
    await until(lambda: sink.messages)
    await follower.stop()
    cursors, _ = await shop.store.cursors("relay")
    assert [each.seq for each in cursors] == [len(sink.messages)]


async def test_it_runs_by_itself_until_it_is_stopped_and_survives_a_broker_that_is_away(shop):
    sink = Sink()
    follower = relay(shop, sink, poll_seconds=0.02)
    follower.start()
    try:
        await sell(shop, "e1", 1)
        await until(lambda: len(sink.messages) == 3)
        sink.down_before = True
        await sell(shop, "e1", 1)
        await until(lambda: follower.trouble)
        assert follower.state == "retrying"
        await until(lambda: sum(follower.lags().values()) == 2)
        assert follower.lag_seconds() >= 0
        sink.down_before = False
        await until(lambda: len(sink.messages) == 5)
        await until(lambda: not follower.trouble)
        await until(lambda: not sum(follower.lags().values()))
    finally:
        await follower.stop()
    assert numbers(sink.messages) == await expected(shop)


async def until(condition) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - of a broker that knows nothing of tests
            await asyncio.sleep(0.01)
