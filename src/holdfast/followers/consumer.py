"""Projections fed from Kafka: for those who would rather read facts there than from the log.

Every message is a CloudEvent that the relay has published, at least once, those of an event in
order in one partition. A batch is folded, saved, and only then noted as read: dying in between
repeats it, and repeats are dropped by their number.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.domain.cloudevents import CloudEvent
from holdfast.domain.facts import Entry
from holdfast.errors import BrokerDown, HoldfastError, SettingsError
from holdfast.followers.projections import Projections

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message

GROUP = "holdfast-projections"
BATCH_MAX = 1_000
POLL_SECONDS = 0.5
RETRY_SECONDS = 1.0
LOOK_MS = 5_000
QUIET_SECONDS = 30.0
"""A broker that is away is tried at least every ten seconds: after so long without an error it is
back, though nothing new may have come."""
LOG_LEVEL = 2
"""The client writes a line for every attempt to connect, many in a second; its errors come to us
as well, and are said once."""

log = logging.getLogger("holdfast.projections")

_read = msgspec.json.Decoder(CloudEvent).decode


def entry_of(body: bytes) -> Entry:
    """The fact that a CloudEvent tells. Raises msgspec.DecodeError where it is none of ours."""
    told = _read(body)
    at_ms = round(told.time.timestamp() * 1000)
    return Entry(told.subject, told.sequence, told.type, at_ms, told.data)


class KafkaFollower:
    """One member of the group: its partitions are divided among all that run."""

    def __init__(
        self,
        projections: Projections,
        url: str,
        topic: str,
        options: dict[str, str] | None = None,
        group: str = GROUP,
    ) -> None:
        self.url = url
        self.folded = 0
        """Messages, repeats among them."""
        self._projections = projections
        self._topic = topic
        self._options: dict[str, Any] = {  # whatever librdkafka takes
            "bootstrap.servers": url.removeprefix("kafka://").rstrip("/"),
            "client.id": "holdfast-projections",
            "group.id": group,
            # Whoever is new begins where the topic does; what it has no more is on the log.
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            # The relay may make the topic later.
            "topic.metadata.refresh.interval.ms": LOOK_MS,
            "log.queue": False,
            "logger": log,
            "log_level": LOG_LEVEL,
            "error_cb": self._heard,
            **(options or {}),
        }
        self._trouble = ""
        """What was said last, and is not over."""
        self._broker_trouble = ""
        """What the client told last of a single broker."""
        self._troubled_at = 0.0
        self._consumer: Consumer | None = None
        # One thread: it is the consumer's, and calls never overlap.
        self._thread = ThreadPoolExecutor(1, "kafka-projections")

    async def run(self) -> None:
        """Follows until it is cancelled; trouble is waited out."""
        while True:
            try:
                if self._consumer is None:
                    await self._call(self._open)
                await self.round()
            except SettingsError:
                raise
            except HoldfastError as trouble:
                # What was read and not noted comes again, to whoever takes the partitions.
                self._say(str(trouble))
                await self._call(self._close)
                await asyncio.sleep(RETRY_SECONDS)

    async def close(self) -> None:
        await self._call(self._close)
        self._thread.shutdown(wait=False)

    async def round(self) -> int:
        """Folds what has come, at most a batch of it; how many messages."""
        messages: Sequence[Message] = await self._call(self._poll)
        if messages:
            await self._projections.fold(_entries(messages))
            await self._call(self._note)
            self.folded += len(messages)
        if messages or time.monotonic() - self._troubled_at > QUIET_SECONDS:
            self._say("")
        return len(messages)

    def _say(self, trouble: str) -> None:
        """Once, when it begins and when it is over: it may last for days."""
        if trouble and trouble != self._trouble:
            log.warning("facts are not folded: %s", trouble)
        elif self._trouble and not trouble:
            log.info("facts of %s are folded again", self.url)
        self._trouble = trouble
        if trouble:
            self._troubled_at = time.monotonic()

    async def _call(self, work: Any, *args: Any) -> Any:  # any method of ours that blocks
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *args)

    # From here on in the thread

    def _open(self) -> None:
        try:
            from confluent_kafka import Consumer, KafkaException
        except ImportError:
            raise SettingsError("Kafka needs its client: pip install 'holdfast[kafka]'") from None
        try:
            self._consumer = Consumer(self._options)
            self._consumer.subscribe([self._topic])
        except KafkaException as trouble:
            raise SettingsError(f"{self.url}: {trouble.args[0].str()}") from trouble

    def _heard(self, error: "KafkaError") -> None:
        """Errors of the client itself. That one broker is away is no trouble while there are
        others."""
        self._troubled_at = time.monotonic()
        if error.code() in (error._TRANSPORT, error._RESOLVE):
            self._broker_trouble = error.str()
        elif error.code() == error._ALL_BROKERS_DOWN:
            self._say(f"{self.url}: {self._broker_trouble or error.str()}")
        else:
            self._say(f"{self.url}: {error.str()}")

    def _close(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def _poll(self) -> "list[Message]":
        from confluent_kafka import KafkaError, KafkaException

        assert self._consumer is not None
        try:
            found = self._consumer.consume(BATCH_MAX, POLL_SECONDS)
        except KafkaException as trouble:
            raise BrokerDown(f"{self.url}: {trouble.args[0].str()}") from trouble
        passing = (KafkaError._PARTITION_EOF, KafkaError.UNKNOWN_TOPIC_OR_PART)
        for message in found:
            if (error := message.error()) is not None and error.code() not in passing:
                raise BrokerDown(f"{self.url}: {error.str()}")
        return [message for message in found if message.error() is None]

    def _note(self) -> None:
        from confluent_kafka import KafkaException

        assert self._consumer is not None
        try:
            self._consumer.commit(asynchronous=False)
        except KafkaException as trouble:
            raise BrokerDown(f"{self.url}: {trouble.args[0].str()}") from trouble


def _entries(messages: "Sequence[Message]") -> list[Entry]:
    entries = []
    for message in messages:
        try:
            entries.append(entry_of(message.value() or b""))
        except (msgspec.DecodeError, UnicodeDecodeError):
            # Somebody else writes to the topic as well: no reason to stop for ever.
            place = f"{message.topic()}/{message.partition()}/{message.offset()}"
            log.warning("%s is no fact of ours, and is passed over", place)
    return entries
