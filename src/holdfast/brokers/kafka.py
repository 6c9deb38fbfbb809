"""Kafka: one topic for all facts, keyed by event, so that those of an event are in one partition
and in order; and one for the dead letters.

The producer is idempotent and waits for all replicas. It never gives a message up by itself: had it
done so while a later one arrived, their order would have changed for good. When an answer takes too
long the producer is thrown away with all it has in hand, and a new one begins with the first of
those that are not known to have arrived. Each producer sends the facts of an event without a gap,
so whoever drops repeats has them in order.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as Delivered
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from holdfast.brokers.letters import dead_letter
from holdfast.domain.cloudevents import CONTENT_TYPE, Message
from holdfast.errors import BrokerDown, SettingsError

DEAD_LETTERS = ".dead-letters"
OPEN_SECONDS = 10.0
PUBLISH_SECONDS = 30.0
POLL_SECONDS = 0.05
MESSAGE_BYTES_MAX = 64_000_000
"""The broker has a limit of its own, and tells: ours is only there because the client wants one."""

LOG_LEVEL = 0
"""Nothing: what goes wrong is told of each message, and said once by whoever publishes."""
HEADERS: dict[str, str | bytes | None] = {"content-type": CONTENT_TYPE}
REFUSED = {
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.INVALID_MSG_SIZE,
    KafkaError.INVALID_RECORD,
    KafkaError._INVALID_DIFFERENT_RECORD,
    KafkaError.INVALID_TIMESTAMP,
    KafkaError.POLICY_VIOLATION,
}
"""What is wrong with a message, or with one of those that were sent along with it."""
MISUSED = {
    KafkaError._INVALID_ARG,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError._AUTHENTICATION,
}

log = logging.getLogger("holdfast.kafka")


class KafkaBroker:
    def __init__(
        self, url: str, topic: str, partitions: int, options: dict[str, str] | None = None
    ) -> None:
        self.url = f"kafka://{_servers(url)}"
        self._topic = topic
        self._partitions = partitions
        self._options: dict[str, Any] = {  # whatever librdkafka takes
            "bootstrap.servers": _servers(url),
            "client.id": "holdfast",
            "log.queue": False,
            "logger": log,
            "log_level": LOG_LEVEL,
            **(options or {}),
        }
        self._producer: Producer | None = None
        self._closing = False
        # One thread: it is the producer's, and calls never overlap.
        self._thread = ThreadPoolExecutor(1, "kafka")

    async def open(self) -> None:
        await self._call(self._make_topics)

    async def close(self) -> None:
        self._closing = True  # whoever waits for an answer in the thread waits no longer
        await self._call(self._throw_away)
        self._thread.shutdown(wait=False)

    async def publish(self, messages: Sequence[Message]) -> dict[int, str]:
        bodies = [(message.event, message.body) for message in messages]
        refused = await self._call(self._publish, self._topic, bodies)
        return {nth: f"Kafka refused it: {why}" for nth, why in refused.items()}

    async def bury(self, message: Message, reason: str) -> None:
        letter = (message.event, dead_letter(message, reason))
        refused = await self._call(self._publish, self._topic + DEAD_LETTERS, [letter])
        for why in refused.values():
            log.warning("%s has no place among Kafka's dead letters: %s", message.id, why)

    async def _call(self, work: Any, *args: Any) -> Any:  # any method of ours that blocks
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, work, *args)
        except KafkaException as trouble:
            raise self._translated(trouble.args[0]) from trouble

    def _translated(self, error: KafkaError) -> BrokerDown | SettingsError:
        kind = SettingsError if error.code() in MISUSED else BrokerDown
        return kind(f"{self.url}: {error.str()}")

    # From here on in the thread

    def _make_topics(self) -> None:
        self._current()  # options that no producer can have are found now
        admin = AdminClient(self._options)
        known = admin.list_topics(timeout=OPEN_SECONDS).topics
        names = (self._topic, self._topic + DEAD_LETTERS)
        missing = [NewTopic(name, self._partitions) for name in names if name not in known]
        if not missing:
            return
        for made in admin.create_topics(missing, request_timeout=OPEN_SECONDS).values():
            try:
                made.result()
            except KafkaException as trouble:
                # Another relay may have been quicker.
                if trouble.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise

    def _publish(self, topic: str, bodies: list[tuple[str, bytes]]) -> dict[int, str]:
        """Which were refused, and why. Kafka refuses a whole request for one message, or because
        it is too large as a whole: only what is refused alone is refused."""
        try:
            refused = self._send(self._current(), topic, bodies)
        except BaseException:
            self._throw_away()
            raise
        if refused:
            self._throw_away()
            return self._one_by_one(topic, bodies)
        return {}

    def _one_by_one(self, topic: str, bodies: list[tuple[str, bytes]]) -> dict[int, str]:
        """Where one waits for the other there can be no gap, and the producer need not look."""
        producer = Producer({**self._ways(), "enable.gapless.guarantee": False, "linger.ms": 0})
        try:
            told = [self._send(producer, topic, [body]) for body in bodies]
        finally:
            producer.purge()
        return {nth: refused[0] for nth, refused in enumerate(told) if refused}

    def _send(
        self, producer: Producer, topic: str, bodies: list[tuple[str, bytes]]
    ) -> dict[int, str]:
        sent = _Sent(len(bodies))
        ends = time.monotonic() + PUBLISH_SECONDS
        for nth, (key, body) in enumerate(bodies):
            while not self._produce(producer, topic, key, body, sent.delivery(nth)):
                self._poll(producer, ends)
        while sent.unknown:
            self._poll(producer, ends)
        if sent.failed is not None and not sent.refused:
            raise BrokerDown(f"{self.url}: {sent.failed.str()}")
        return sent.refused

    def _poll(self, producer: Producer, ends: float) -> None:
        try:
            producer.poll(POLL_SECONDS)
        except KafkaException as trouble:
            if not trouble.args[0].fatal():
                raise
            # It will send nothing more: what it has in hand comes back, each with its error.
            producer.purge()
        if time.monotonic() > ends or self._closing:
            raise BrokerDown(f"{self.url}: no answer in time")

    def _produce(self, producer: Producer, topic: str, key: str, body: bytes, told: Any) -> bool:
        """False while there is no room for it."""
        try:
            producer.produce(topic, body, key, on_delivery=told, headers=HEADERS)
        except BufferError:
            return False
        except KafkaException as trouble:
            # What is too large already here goes the way of what the broker refuses.
            told(trouble.args[0], None)
        return True

    def _current(self) -> Producer:
        if self._producer is None:
            self._producer = Producer(self._ways())
        return self._producer

    def _ways(self) -> dict[str, Any]:  # whatever librdkafka takes
        return {
            "enable.idempotence": True,
            # After one that was not taken it takes none either: else a later fact would arrive
            # before an earlier one.
            "enable.gapless.guarantee": True,
            "acks": "all",
            "message.timeout.ms": 0,
            "message.max.bytes": MESSAGE_BYTES_MAX,
            "linger.ms": 2,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 100_000,
            **self._options,
        }

    def _throw_away(self) -> None:
        """Also what it has in hand: that is published again, by its successor."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            producer.flush(0.1)


class _Sent:
    """What became of a batch."""

    def __init__(self, count: int) -> None:
        self.unknown = count
        self.refused: dict[int, str] = {}
        self.failed: KafkaError | None = None

    def delivery(self, nth: int) -> Any:  # what the client calls: an error or None, the message
        def told(error: KafkaError | None, _: Delivered | None) -> None:
            self.unknown -= 1
            if error is None:
                return
            if error.code() in REFUSED:
                self.refused[nth] = error.str()
            else:
                self.failed = error

        return told


def _servers(url: str) -> str:
    rest = url.removeprefix("kafka://")
    hosts = rest.rstrip("/")
    if not hosts or any(part in hosts for part in "/@?# ") or not _plausible(hosts):
        raise SettingsError(
            "a Kafka broker is named kafka://host:port,host:port; everything else is for "
            "broker_options"
        )
    return hosts


def _plausible(hosts: str) -> bool:
    try:
        return all(
            urlsplit(f"//{host}").port and urlsplit(f"//{host}").hostname
            for host in hosts.split(",")
        )
    except ValueError:
        return False
