"""Reads back what a broker has, as a consumer would, from the beginning and in its order."""

import contextlib
import time
from collections.abc import Callable

import nats
from confluent_kafka import Consumer, TopicPartition
from nats.errors import Error as NatsError
from nats.js.api import ConsumerConfig

from holdfast.ids import Ids

READ_SECONDS = 60.0
NOTHING_SECONDS = 1.0


def read_kafka(url: str, topic: str, enough: Callable[[list[bytes]], bool]) -> list[bytes]:
    """All bodies, partition by partition as they come, until it is enough or nothing comes."""
    consumer = Consumer(
        {
            "bootstrap.servers": url.removeprefix("kafka://"),
            "group.id": Ids().new(),
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    try:
        found = consumer.list_topics(topic, timeout=10).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in found])
        bodies: list[bytes] = []
        ends = time.monotonic() + READ_SECONDS
        while not enough(bodies) and time.monotonic() < ends:
            for message in consumer.consume(10_000, NOTHING_SECONDS / 5):
                assert message.error() is None, message.error()
                bodies.append(message.value() or b"")
        return bodies
    finally:
        consumer.close()


async def read_nats(url: str, subject: str, enough: Callable[[list[bytes]], bool]) -> list[bytes]:
    """All bodies in the order of the stream, until it is enough or nothing comes."""
    line = await nats.connect(url, allow_reconnect=False)
    try:
        stream = line.jetstream()
        config = ConsumerConfig(inactive_threshold=60)
        pulled = await stream.pull_subscribe(subject, config=config)
        bodies: list[bytes] = []
        ends = time.monotonic() + READ_SECONDS
        while not enough(bodies) and time.monotonic() < ends:
            with contextlib.suppress(TimeoutError, NatsError):
                for message in await pulled.fetch(1_000, timeout=NOTHING_SECONDS):
                    bodies.append(message.data)
                    await message.ack()
        return bodies
    finally:
        await line.close()
