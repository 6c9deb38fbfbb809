"""What every broker promises: it has what it said it has, in order per event; it refuses what it
will never take, and says when it does not know. On real Kafka and NATS, killed and restarted."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import msgspec
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from holdfast.brokers.kafka import DEAD_LETTERS, KafkaBroker
from holdfast.brokers.memory import MemoryBroker
from holdfast.brokers.nats import NatsBroker
from holdfast.domain.cloudevents import DEAD_LETTER, Message
from holdfast.errors import BrokerDown, SettingsError
from holdfast.ports import Broker
from holdfast.settings import Settings
from holdfast.wiring import make_broker
from tests.brokers.reading import read_kafka, read_nats
from tests.conftest import needed, needed_server
from tests.servers import Kafka, Nats, Server, own_server, running

EVENTS = ("e1", "e2", "e3")


class World(NamedTuple):
    broker: Broker
    server: Server | None
    read: Callable[[int], Awaitable[list[bytes]]]
    """At least so many facts, and their repeats, as a consumer gets them."""
    dead: Callable[[int], Awaitable[list[bytes]]]


def memory_world(topic: str, own: bool) -> World:
    broker = MemoryBroker()

    async def read(_: int) -> list[bytes]:
        return [message.body for message in broker.messages]

    async def dead(_: int) -> list[bytes]:
        return []

    return World(broker, None, read, dead)


def kafka_world(topic: str, server: Kafka) -> World:
    broker = KafkaBroker(server.url, topic, 3)

    def reader(name: str) -> Callable[[int], Awaitable[list[bytes]]]:
        async def read(count: int) -> list[bytes]:
            enough = lambda bodies: len(set(bodies)) >= count  # noqa: E731 - it is all there is
            return await asyncio.to_thread(read_kafka, server.url, name, enough)

        return read

    return World(broker, server, reader(topic), reader(topic + DEAD_LETTERS))


def nats_world(topic: str, server: Nats) -> World:
    broker = NatsBroker(server.url, topic)

    def reader(subject: str) -> Callable[[int], Awaitable[list[bytes]]]:
        async def read(count: int) -> list[bytes]:
            return await read_nats(server.url, subject, lambda bodies: len(set(bodies)) >= count)

        return read

    return World(broker, server, reader(f"{topic}.facts.*"), reader(f"{topic}.dead-letters.*"))


SERVICE = (pytest.mark.service, pytest.mark.xdist_group("brokers"))
REAL = [pytest.param("kafka", marks=SERVICE), pytest.param("nats", marks=SERVICE)]


@pytest.fixture(params=["memory", *REAL])
async def world(request):
    topic = f"t{abs(hash(request.node.name))}"
    if request.param == "memory":
        made = memory_world(topic, False)
    elif request.param == "kafka":
        made = kafka_world(topic, needed(lambda: running(Kafka)))
    else:
        made = nats_world(topic, needed(lambda: running(Nats)))
    await made.broker.open()
    await made.broker.open()  # what it needs is there already the second time
    yield made
    await made.broker.close()


def messages(numbers: Sequence[int], size: int = 10) -> list[Message]:
    return [
        Message(event, seq, f"{event}.{seq}", "hold.placed", body(event, seq, size))
        for seq in numbers
        for event in EVENTS
    ]


def body(event: str, seq: int, size: int) -> bytes:
    return msgspec.json.encode({"subject": event, "sequence": seq, "data": "x" * size})


def numbers(bodies: Sequence[bytes]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for each in map(msgspec.json.decode, bodies):
        found.setdefault(each["subject"], []).append(each["sequence"])
    return found


def first(found: dict[str, list[int]]) -> dict[str, list[int]]:
    """As a consumer has them that drops repeats."""
    return {event: list(dict.fromkeys(each)) for event, each in found.items()}


def every(each: Sequence[int]) -> dict[str, list[int]]:
    return {event: list(each) for event in EVENTS}


async def test_what_was_published_is_there_in_order_per_event(world):
    assert await world.broker.publish(messages(range(1, 101))) == {}
    assert await world.broker.publish(messages(range(101, 151))) == {}
    found = numbers(await world.read(450))
    assert found == every(range(1, 151))


@pytest.mark.parametrize("world", REAL, indirect=True)
async def test_a_message_that_it_will_never_take_is_refused_alone_and_can_be_buried(world):
    batch = messages(range(1, 11))
    incompressible = {"subject": "e2", "sequence": 5, "data": os.urandom(2_000_000).hex()}
    large = Message("e2", 5, "e2.5", "hold.placed", msgspec.json.encode(incompressible))
    batch[13] = large
    refused = await world.broker.publish(batch)
    assert list(refused) == [13]
    assert "refused it" in refused[13]
    left = {event: [n for n in range(1, 11) if (event, n) != ("e2", 5)] for event in EVENTS}
    assert first(numbers(await world.read(29))) == left
    await world.broker.bury(large, refused[13])
    (letter,) = map(msgspec.json.decode, await world.dead(1))
    assert (letter["type"], letter["id"]) == (DEAD_LETTER, "e2.5")
    assert letter["data"] == {"reason": refused[13], "type": "hold.placed", "fact": None}
    small = messages([11])[0]
    await world.broker.bury(small, "because")
    letters = [msgspec.json.decode(each) for each in await world.dead(2)]
    assert {"subject": "e1", "sequence": 11, "data": "x" * 10} in [
        each["data"]["fact"] for each in letters
    ]


@pytest.mark.parametrize(
    "kind", [pytest.param(Kafka, marks=SERVICE), pytest.param(Nats, marks=SERVICE)]
)
async def test_what_was_acknowledged_survives_a_kill_and_the_rest_is_known_to_be_unknown(
    kind, monkeypatch
):
    with own_server(kind) as server:
        made = kafka_world("facts", server) if kind is Kafka else nats_world("facts", server)
        await made.broker.open()
        await made.broker.publish(messages(range(1, 11)))
        monkeypatch.setattr("holdfast.brokers.kafka.PUBLISH_SECONDS", 2.0)
        monkeypatch.setattr("holdfast.brokers.nats.PUBLISH_SECONDS", 2.0)
        server.kill()
        with pytest.raises(BrokerDown):
            await made.broker.publish(messages(range(11, 21)))
        server.start()
        # Not known to have arrived, so it is published again: repeats may be, gaps not.
        async with asyncio.timeout(60):
            while True:
                try:
                    await made.broker.publish(messages(range(11, 21)))
                    break
                except BrokerDown:
                    await asyncio.sleep(0.1)
        await made.broker.close()
        found = numbers(await made.read(60))
    assert first(found) == every(range(1, 21))


@pytest.mark.service
@pytest.mark.xdist_group("brokers")
async def test_nats_itself_drops_a_repeat_that_comes_soon():
    server = needed(lambda: running(Nats))
    made = nats_world("repeats", server)
    await made.broker.open()
    for _ in range(3):
        await made.broker.publish(messages([1, 2]))
    await made.broker.publish(messages([3]))
    assert numbers(await made.read(9)) == every([1, 2, 3])
    await made.broker.close()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("kafka://", "kafka://host:port"),
        ("kafka://nowhere", "kafka://host:port"),
        ("kafka://user:secret@host:9092", "kafka://host:port"),
        ("kafka://a:1,b:x", "kafka://host:port"),
        ("nats://", "nats://host:port"),
        ("nats://user:secret@host:abc", "nats://host:port"),
        ("nats://a:1,b:x", "nats://host:port"),
        ("rabbit://host", "unknown broker"),
        ("", "unknown broker"),
    ],
)
def test_a_wrong_address_gets_one_line(url, said):
    with pytest.raises(SettingsError, match=said) as caught:
        make_broker(Settings(broker=url))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("url", ["kafka://127.0.0.1:1", "nats://127.0.0.1:1"])
async def test_one_that_is_not_there_is_down(url, monkeypatch):
    monkeypatch.setattr("holdfast.brokers.kafka.OPEN_SECONDS", 1.0)
    broker = make_broker(Settings(broker=url))
    assert broker is not None
    with pytest.raises(BrokerDown):
        await broker.open()
    await broker.close()


async def test_wrong_options_for_kafka_get_one_line():
    with pytest.raises(SettingsError, match="name=value"):
        make_broker(Settings(broker="kafka://a:1", broker_options="sasl"))
    with pytest.raises(SettingsError, match="for Kafka"):
        make_broker(Settings(broker="nats://a:1", broker_options="acks=1"))
    for options, said in (("no.such=thing", r"no\.such"), ("acks=0", "acks")):
        broker = make_broker(Settings(broker="kafka://127.0.0.1:1", broker_options=options))
        assert broker is not None
        with pytest.raises(SettingsError, match=said):
            await broker.open()
        await broker.close()


@pytest.mark.service
@pytest.mark.xdist_group("brokers")
async def test_facts_that_kafka_refuses_together_are_no_poison():
    """A request may be too large although each of its messages fits."""
    server = needed(lambda: running(Kafka))
    admin = AdminClient({"bootstrap.servers": server.url.removeprefix("kafka://")})
    small = NewTopic("narrow", 1, config={"max.message.bytes": "20000"})
    for created in admin.create_topics([small]).values():
        created.result()
    made = kafka_world("narrow", server)
    await made.broker.open()
    batch = [
        Message("e1", seq, f"e1.{seq}", "hold.placed", incompressible("e1", seq, 2_000))
        for seq in range(1, 31)
    ]
    batch[11] = Message("e1", 12, "e1.12", "hold.placed", incompressible("e1", 12, 50_000))
    assert list(await made.broker.publish(batch)) == [11]
    found = numbers(await made.read(29))["e1"]
    assert list(dict.fromkeys(found)) == [n for n in range(1, 31) if n != 12]
    await made.broker.close()


def incompressible(event: str, seq: int, size: int) -> bytes:
    data = os.urandom(size // 2).hex()
    return msgspec.json.encode({"subject": event, "sequence": seq, "data": data})


@pytest.mark.service
@pytest.mark.xdist_group("brokers")
async def test_a_queue_that_is_full_is_waited_for():
    server = needed(lambda: running(Kafka))
    options = {"queue.buffering.max.messages": "10"}
    broker = KafkaBroker(server.url, "waiting", 3, options)
    await broker.open()
    assert await broker.publish(messages(range(1, 101))) == {}
    await broker.close()


@pytest.mark.service
@pytest.mark.xdist_group("brokers")
async def test_a_kafka_topic_that_was_deleted_is_made_again_when_it_is_opened():
    server = needed(lambda: running(Kafka))
    made = kafka_world("gone", server)
    await made.broker.open()
    await made.broker.publish(messages([1]))
    admin = AdminClient({"bootstrap.servers": server.url.removeprefix("kafka://")})
    for deleted in admin.delete_topics(["gone"]).values():
        deleted.result()
    await made.broker.close()
    made = kafka_world("gone", server)
    async with asyncio.timeout(30):
        while True:
            try:
                await made.broker.open()
                await made.broker.publish(messages([2]))
                break
            except BrokerDown:
                await asyncio.sleep(0.1)
    assert numbers(await made.read(3)) == every([2])
    await made.broker.close()


@pytest.mark.service
@pytest.mark.xdist_group("brokers")
@pytest.mark.parametrize("spare", [-10, 0, 10, 200])
async def test_nats_refuses_by_itself_what_the_server_would_hang_up_on(spare):
    """The server counts the headers too."""
    server = needed(lambda: running(Nats))
    made = nats_world(f"size{spare + 100}", server)
    await made.broker.open()
    limit = 1024 * 1024
    large = Message("e1", 1, "e1.1", "hold.placed", b"x" * (limit - spare))
    after = messages([2])[0]
    refused = await made.broker.publish([large, after])
    assert list(refused) == ([0] if spare < 200 else [])
    assert len(await made.read(1 if refused else 2)) == (1 if refused else 2)
    await made.broker.close()


@pytest.mark.service
async def test_nats_that_is_killed_is_noticed_at_once(monkeypatch):
    monkeypatch.setattr("holdfast.brokers.nats.PUBLISH_SECONDS", 60.0)
    with needed_server(Nats) as server:
        made = nats_world("facts", server)
        await made.broker.open()
        server.freeze()
        publishing = asyncio.create_task(made.broker.publish(messages([1])))
        await asyncio.sleep(0)
        server.kill()
        async with asyncio.timeout(20):
            with pytest.raises(BrokerDown):
                await publishing
        await made.broker.close()
