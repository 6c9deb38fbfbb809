"""NATS JetStream: a stream for all facts, each event a subject of its own.

Of an event one message at a time is on its way, and the next follows when the stream has said that
it has the one before: so neither a lost connection nor a change of leader can make a later one
arrive first. Events do not wait for each other. Each message carries its fact's id, by which the
stream itself drops repeats for a while (`DUPLICATE_SECONDS`).
"""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import nats
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.errors import NoRespondersError
from nats.js import JetStreamContext
from nats.js.api import StorageType, StreamConfig
from nats.js.errors import APIError, NotFoundError

from holdfast.brokers.letters import dead_letter
from holdfast.domain.cloudevents import CONTENT_TYPE, Message
from holdfast.errors import BrokerDown, SettingsError
from holdfast.stores.addresses import without_secrets
from holdfast.tasks import end_task

FACTS = "facts"
DEAD_LETTERS = "dead-letters"
OPEN_SECONDS = 5
PUBLISH_SECONDS = 10.0
DUPLICATE_SECONDS = 120
AT_ONCE_MAX = 256
"""Events whose messages are on their way at the same time."""
TOO_LARGE = 10054
"""What JetStream says of a message that is larger than the stream takes."""

log = logging.getLogger("holdfast.nats")


class NatsBroker:
    def __init__(self, url: str, topic: str) -> None:
        self.url = without_secrets(url)
        self._servers = url.split(",")
        if not all(map(_plausible, self._servers)):
            raise SettingsError("a NATS broker is named nats://host:port, several with commas")
        self._topic = topic
        self._line: Client | None = None
        self._stream: JetStreamContext | None = None
        self._lost = asyncio.Event()

    async def open(self) -> None:
        await self._connected()

    async def close(self) -> None:
        line, self._line, self._stream = self._line, None, None
        if line is not None:
            with contextlib.suppress(NatsError, OSError, TimeoutError):
                await line.close()

    async def publish(self, messages: Sequence[Message]) -> dict[int, str]:
        stream = await self._connected()
        events: dict[str, list[int]] = {}
        for nth, message in enumerate(messages):
            events.setdefault(message.event, []).append(nth)
        places = asyncio.Semaphore(AT_ONCE_MAX)
        refused: dict[int, str] = {}

        async def publish_event(numbers: list[int]) -> None:
            async with places:
                for nth in numbers:
                    why = await self._send(stream, FACTS, messages[nth], messages[nth].body)
                    if why is not None:
                        refused[nth] = why

        sending = [asyncio.create_task(publish_event(numbers)) for numbers in events.values()]
        try:
            await self._unless_lost(asyncio.gather(*sending))
        except BaseException:
            for each in sending:
                await end_task(each)
            await self.close()  # the next one begins with a connection of its own
            raise
        return refused

    async def _unless_lost(self, sending: "asyncio.Future[Any]") -> None:
        """An answer that is waited for never comes once the connection is gone."""
        lost = asyncio.ensure_future(self._lost.wait())
        try:
            await asyncio.wait([sending, lost], return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                raise BrokerDown(f"{self.url}: the connection was lost")
            await sending
        finally:
            lost.cancel()

    async def bury(self, message: Message, reason: str) -> None:
        stream = await self._connected()
        body = dead_letter(message, reason)
        if why := await self._send(stream, DEAD_LETTERS, message, body):
            log.warning("%s has no place among the dead letters of NATS: %s", message.id, why)

    async def _send(
        self, stream: JetStreamContext, kind: str, message: Message, body: bytes
    ) -> str | None:
        """None when the stream has it, else why it never will."""
        subject = f"{self._topic}.{kind}.{message.event}"
        id = message.id if kind == FACTS else f"{kind}:{message.id}"
        headers = {"Nats-Msg-Id": id, "Content-Type": CONTENT_TYPE}
        if self._line is not None and _size(headers, body) > self._line.max_payload:
            # The client itself counts no headers, and the server would drop the connection.
            return f"NATS refused it: more than {self._line.max_payload:,} bytes"
        try:
            await stream.publish(subject, body, timeout=PUBLISH_SECONDS, headers=headers)
        except APIError as cause:
            if cause.err_code == TOO_LARGE:
                return f"NATS refused it: {cause.description}"
            raise BrokerDown(f"{self.url}: {cause.description}") from cause
        except (NatsError, OSError, TimeoutError) as cause:
            raise BrokerDown(f"{self.url}: {_said(cause)}") from cause
        return None

    async def _connected(self) -> JetStreamContext:
        if self._stream is not None and self._line is not None and self._line.is_connected:
            return self._stream
        await self.close()
        lost = self._lost = asyncio.Event()

        async def disconnected() -> None:
            lost.set()

        try:
            # No reconnecting behind our back: what was on its way is published again, by us.
            self._line = await nats.connect(
                self._servers,
                name="holdfast",
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0.1,
                connect_timeout=OPEN_SECONDS,
                error_cb=_told,
                disconnected_cb=disconnected,
            )
            self._stream = self._line.jetstream()
            await self._make_stream(self._stream)
        except NoRespondersError as cause:
            raise SettingsError(f"{self.url} has no JetStream: start it with -js") from cause
        except APIError as cause:
            raise BrokerDown(f"{self.url}: {cause.description}") from cause
        except (NatsError, OSError, TimeoutError, ValueError) as cause:
            raise BrokerDown(f"{self.url}: {_said(cause)}") from cause
        return self._stream

    async def _make_stream(self, stream: JetStreamContext) -> None:
        """One that is there already stays as its owner made it."""
        try:
            await stream.find_stream_name_by_subject(f"{self._topic}.{FACTS}.any")
        except NotFoundError:
            await stream.add_stream(
                StreamConfig(
                    name=self._topic.replace(".", "-"),
                    subjects=[f"{self._topic}.{FACTS}.*", f"{self._topic}.{DEAD_LETTERS}.*"],
                    storage=StorageType.FILE,
                    duplicate_window=DUPLICATE_SECONDS,
                )
            )


def _plausible(server: str) -> bool:
    parts = urlsplit(server if "://" in server else f"nats://{server}")
    try:
        return parts.scheme in ("nats", "tls") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _size(headers: dict[str, str], body: bytes) -> int:
    """As the server counts it: with a line for each header, one before and one after them."""
    lines = sum(len(name) + len(value) + 4 for name, value in headers.items())
    return len("NATS/1.0\r\n\r\n") + lines + len(body)


async def _told(trouble: Exception) -> None:
    log.debug("%s", _said(trouble))


def _said(cause: Any) -> str:  # any exception of the client's, some of which say nothing
    return str(cause) or type(cause).__name__
