"""Requests that are tried again. Nothing here knows what they ask for.

A request is tried again when no answer came, or one that says "not now" (408, 502, 503, 504), up to
`attempts` times in all; and as often as there is time when it was too early (429, 409 in_progress).
Between two attempts it waits for what Retry-After says, else for twice as long each time. What may
not be done twice (`repeatable=False`) is tried again only when it certainly was not done.
"""

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from typing import NamedTuple, Self
from urllib.parse import urlsplit

import msgspec

from holdfast.client.errors import RateLimited, Unavailable
from holdfast.client.replies import Reply, problem
from holdfast.errors import NotOpen, SettingsError

try:
    import aiohttp
    from yarl import URL
except ImportError:
    raise ImportError("the client needs aiohttp: pip install 'holdfast[client]'") from None

NOT_NOW = {408, 409, 429, 502, 503, 504}
TOO_EARLY = 429
IN_PROGRESS = "in_progress"
BACKOFF_SECONDS_MAX = 5.0
STREAM_SILENCE_SECONDS = 60.0
"""A stream that says nothing for so long, not even that it is alive, is opened anew."""
ATTEMPTS_MAX = 100
CONNECTIONS_MAX = 10_000
DOUBLINGS_MAX = 20


class Patience(msgspec.Struct, frozen=True):
    """How long somebody goes on. `attempts=1`: everything is tried once."""

    attempts: int = 3
    attempt_seconds: float = 10.0
    total_seconds: float = 30.0
    backoff_seconds: float = 0.1

    def pause(self, tried: int, retry_after: float | None) -> float:
        """Seconds to wait after so many tries; by chance shorter, so that a crowd spreads."""
        doubled = self.backoff_seconds * 2.0 ** min(tried - 1, DOUBLINGS_MAX)
        backoff = min(doubled, BACKOFF_SECONDS_MAX) * random.uniform(0.5, 1)
        return max(backoff, retry_after or 0.0)


class Lost(Exception):
    """No answer came. `sent` is False where the request certainly did not arrive."""

    def __init__(self, text: str, *, sent: bool = True) -> None:
        super().__init__(text)
        self.sent = sent


class Later(NamedTuple):
    """Why a request is to be tried again, if it may be."""

    text: str
    status: int | None = None
    reason: str = ""
    retry_after: float | None = None
    sent: bool = True

    @property
    def counts(self) -> bool:
        """Too early is no failed attempt: the service works."""
        return self.status != TOO_EARLY and self.reason != IN_PROGRESS


class Transport:
    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        patience: Patience,
        connections: int,
    ) -> None:
        self.url = _checked_url(url)
        self.patience = patience
        self._headers = {name: checked_header(name, text) for name, text in headers.items()}
        self._connections = connections
        _check(patience, connections)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._connections),
            headers=self._headers,
            timeout=aiohttp.ClientTimeout(total=None),
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self

    async def __aexit__(self, *exc: object) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def send(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        *,
        repeatable: bool = True,
    ) -> Reply:
        """The first answer that is one. Raises Unavailable or RateLimited when patience ends."""
        deadline = time.monotonic() + self.patience.total_seconds
        tried = failed = 0
        while True:
            tried += 1
            try:
                reply = await self._attempt(method, path, headers, body, deadline)
            except Lost as trouble:
                later = Later(str(trouble), sent=trouble.sent)
            else:
                not_yet = self.later(reply)
                if not_yet is None:
                    return reply
                later = not_yet
            failed += later.counts
            pause = self.patience.pause(tried, later.retry_after)
            may = repeatable or not later.sent or not later.counts
            last = self.patience.attempts == 1 or failed >= self.patience.attempts
            if last or not may or time.monotonic() + pause >= deadline:
                raise _given_up(later, tried, headers.get("Idempotency-Key"))
            await asyncio.sleep(pause)

    async def _attempt(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | None,
        deadline: float,
    ) -> Reply:
        seconds = min(self.patience.attempt_seconds, deadline - time.monotonic())
        try:
            async with (
                asyncio.timeout(seconds),
                self._opened().request(
                    method,
                    URL(self.url + path, encoded=True),
                    headers=headers,
                    data=body,
                    # A key is for this service, not for whomever it would send us to.
                    allow_redirects=False,
                ) as answer,
            ):
                return Reply(answer.status, answer.headers, await answer.read())
        except TimeoutError:
            text = f"no answer from {self.url} within {seconds:.3g} s"
            raise Lost(text) from None
        except (aiohttp.ClientError, OSError) as cause:
            raise self._lost(cause) from None

    @asynccontextmanager
    async def stream(
        self, path: str, headers: Mapping[str, str]
    ) -> AsyncIterator[Reply | AsyncIterator[bytes]]:
        """The pieces of an endless answer as they come, or an answer that is not endless. Raises
        Lost, also in the middle."""
        timeout = aiohttp.ClientTimeout(
            total=None,
            sock_connect=self.patience.attempt_seconds,
            sock_read=STREAM_SILENCE_SECONDS,
        )
        try:
            async with self._opened().get(
                URL(self.url + path, encoded=True),
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
            ) as answer:
                if answer.status == 200 and answer.content_type == "text/event-stream":
                    yield answer.content.iter_any()
                else:
                    yield Reply(answer.status, answer.headers, await answer.read())
        except TimeoutError:
            raise Lost(f"{self.url} says nothing any more") from None
        except (aiohttp.ClientError, OSError) as cause:
            raise self._lost(cause) from None

    def later(self, reply: Reply) -> Later | None:
        """Why to try again, if this answer says so."""
        if reply.status not in NOT_NOW:
            return None
        said = problem(reply)
        if reply.status == 409 and said.reason != IN_PROGRESS:
            return None
        text = f"{self.url} does not do it now: {said.detail}"
        retry_after = read_retry_after(reply.headers.get("Retry-After"))
        return Later(text, reply.status, said.reason, retry_after)

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise NotOpen("the client is not open: use it inside `async with Client(...)`")
        return self._session

    def _lost(self, cause: Exception) -> Lost:
        if isinstance(cause, aiohttp.ClientConnectorError):
            return Lost(f"{self.url} cannot be reached: {_strerror(cause)}", sent=False)
        return Lost(f"the connection to {self.url} was lost before the answer came")


def _given_up(later: Later, tried: int, key: str | None) -> RateLimited | Unavailable:
    text = later.text if tried == 1 else f"{later.text} (tried {tried} times)"
    if later.status == TOO_EARLY:
        return RateLimited(text, later.retry_after or 0.0, later.reason)
    return Unavailable(
        text,
        status=later.status,
        reason=later.reason,
        retry_after=later.retry_after,
        idempotency_key=key,
    )


def read_retry_after(text: str | None) -> float | None:
    """Seconds from now; the header has seconds or a date."""
    if text is None:
        return None
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except ValueError:
        return None


def _strerror(cause: aiohttp.ClientConnectorError) -> str:
    number = cause.os_error.errno
    if number is not None and number > 0:
        return os.strerror(number)
    return cause.os_error.strerror or str(cause)


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        fine = False
    if not fine or parts.query or parts.fragment or parts.username is not None:
        shown = url.rpartition("@")[2]  # without a password
        raise SettingsError(
            f"{shown!r} is no address of a service: http://host or http://host:port"
        )
    return url.rstrip("/")


def checked_header(name: str, text: str) -> str:
    """What could not be sent is refused here, without showing it: it may be a secret."""
    if not text.isascii() or not text.isprintable() or not text or text != text.strip():
        raise SettingsError(f"the value of {name} must be printable ASCII, without spaces around")
    return text


def _check(patience: Patience, connections: int) -> None:
    if not 1 <= patience.attempts <= ATTEMPTS_MAX:
        raise SettingsError(f"attempts must be from 1 to {ATTEMPTS_MAX}")
    if not 1 <= connections <= CONNECTIONS_MAX:
        raise SettingsError(f"connections must be from 1 to {CONNECTIONS_MAX}")
    if not (patience.attempt_seconds > 0 and patience.total_seconds > 0):
        raise SettingsError("attempt_seconds and total_seconds must be more than 0")
    if patience.backoff_seconds < 0:
        raise SettingsError("backoff_seconds must not be negative")
