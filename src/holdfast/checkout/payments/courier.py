"""Takes the sandbox's messages to the shop: signed, tried a few times, and as badly as is asked."""

import asyncio
import time
from random import Random

import msgspec

from holdfast.checkout.payments.sandbox_webhook import HEADER, Message, sign
from holdfast.domain.payments import Standing
from holdfast.tasks import end_task

try:
    import aiohttp
except ImportError:
    raise ImportError(
        "the sandbox over HTTP needs aiohttp: pip install 'holdfast[client]'"
    ) from None

SENDERS = 16
WAITING_MAX = 100_000
ATTEMPTS_MAX = 5
ATTEMPT_SECONDS = 5.0
BACKOFF_SECONDS = 0.1
SHUFFLE_SECONDS = 0.5
"""Shuffled messages are sent by chance up to so much later."""


class Delivered(msgspec.Struct):
    """What became of the messages, each copy counted."""

    sent: int = 0
    given_up: int = 0
    """Not taken in any attempt, or one too many to wait for its turn."""
    waiting: int = 0


class Courier:
    """Messages are sent in the order of changes, several at once. What was not delivered when it is
    closed is lost: the shop has to look payments up anyway."""

    def __init__(
        self,
        url: str,
        secret: str,
        *,
        delay_seconds: float = 0.0,
        copies: int = 1,
        shuffle: bool = False,
        seed: int = 0,
    ) -> None:
        self.delivered = Delivered()
        self._url = url
        self._secret = secret
        self._delay_seconds = delay_seconds
        self._copies = copies
        self._shuffle = shuffle
        self._random = Random(seed)
        self._number = 0
        self._due: asyncio.Queue[bytes] = asyncio.Queue()
        self._senders: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=ATTEMPT_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        self._senders = [asyncio.create_task(self._send_all()) for _ in range(SENDERS)]

    async def close(self) -> None:
        for sender in self._senders:
            await end_task(sender)
        await self._session.close()

    def send(self, standing: Standing) -> None:
        self._number += 1
        id = f"evt_{self._number}"
        message = Message(id, standing.reference, standing.payment, standing.state)
        body = msgspec.json.encode(message)
        for _ in range(self._copies):
            if self.delivered.waiting == WAITING_MAX:
                self.delivered.given_up += 1
                continue
            self.delivered.waiting += 1
            extra = SHUFFLE_SECONDS * self._random.random() if self._shuffle else 0.0
            loop = asyncio.get_running_loop()
            loop.call_later(self._delay_seconds + extra, self._due.put_nowait, body)

    async def _send_all(self) -> None:
        while True:
            if await self._deliver(await self._due.get()):
                self.delivered.sent += 1
            else:
                self.delivered.given_up += 1
            self.delivered.waiting -= 1

    async def _deliver(self, body: bytes) -> bool:
        for attempt in range(ATTEMPTS_MAX):
            if attempt:
                await asyncio.sleep(BACKOFF_SECONDS * 2 ** (attempt - 1))
            if await self._taken(body):
                return True
        return False

    async def _taken(self, body: bytes) -> bool:
        # Signed anew each time, as the signature grows old.
        headers = {
            HEADER: sign(self._secret, body, int(time.time())),
            "Content-Type": "application/json",
        }
        try:
            async with self._session.post(
                self._url, data=body, headers=headers, allow_redirects=False
            ) as answer:
                return answer.ok
        except (aiohttp.ClientError, OSError, TimeoutError):
            return False
