"""The brokers that tests stand on: real ones, whose data are there again after kill -9."""

import contextlib

import pytest

from tests.conftest import needed
from tests.servers import Kafka, Nats, own_server

pytestmark = pytest.mark.service


@pytest.fixture
def kafka():
    with contextlib.ExitStack() as stack:
        yield needed(lambda: stack.enter_context(own_server(Kafka)))


@pytest.fixture
def nats_server():
    with contextlib.ExitStack() as stack:
        yield needed(lambda: stack.enter_context(own_server(Nats)))


def test_kafka_has_after_kill_9_what_it_acknowledged(kafka):
    confluent_kafka = pytest.importorskip("confluent_kafka")
    admin = pytest.importorskip("confluent_kafka.admin")
    address = {"bootstrap.servers": kafka.url.removeprefix("kafka://")}
    client = admin.AdminClient(address)
    client.create_topics([admin.NewTopic("facts", 2, 1)])["facts"].result(10)
    send(confluent_kafka.Producer({**address, "acks": "all"}), b"first")

    kafka.kill()
    assert not kafka.answers()
    kafka.start()

    send(confluent_kafka.Producer({**address, "acks": "all"}), b"second")
    consumer = confluent_kafka.Consumer(
        {**address, "group.id": "readers", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["facts"])
    with contextlib.closing(consumer):
        assert [received(consumer) for _ in range(2)] == [b"first", b"second"]


def send(producer, value: bytes) -> None:
    faults = []
    producer.produce("facts", value, partition=0, on_delivery=lambda fault, _: faults.append(fault))
    assert producer.flush(10) == 0
    assert faults == [None]


def received(consumer) -> bytes:
    message = consumer.poll(20)
    assert message is not None
    assert message.error() is None
    value: bytes = message.value()
    return value


async def test_nats_has_after_kill_9_what_it_acknowledged(nats_server):
    nats = pytest.importorskip("nats")
    client = await nats.connect(nats_server.url, allow_reconnect=False)
    await client.jetstream().add_stream(name="facts", subjects=["facts.*"])
    await client.jetstream().publish("facts.shop", b"first")

    nats_server.kill()
    assert not nats_server.answers()
    nats_server.start()

    await client.close()
    client = await nats.connect(nats_server.url, allow_reconnect=False)
    assert (await client.jetstream().publish("facts.shop", b"second")).seq == 2
    assert (await client.jetstream().get_msg("facts", seq=1)).data == b"first"
    await client.close()
