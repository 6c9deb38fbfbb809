"""One message to one receiver. Needs aiohttp: pip install 'holdfast[webhooks]'."""

import ipaddress
import socket
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

import holdfast
from holdfast.brokers.webhooks.guard import address_fault, read_url, url_fault
from holdfast.brokers.webhooks.retries import BUSY, Failure

ANSWER_BYTES_MAX = 1_024
KEPT_SECONDS = 15.0
REASON_CHARS_MAX = 200


class NotAllowed(OSError):
    """An address that is not connected to."""


class Guarded(AbstractResolver):
    """Looks a name up, and answers only where every address of it may be connected to: what it
    answers is what is connected to, so there is no second look-up that could differ."""

    def __init__(self, resolver: AbstractResolver, *, internal: bool) -> None:
        self._resolver = resolver
        self._internal = internal

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._resolver.resolve(host, port, family)
        for each in found if not self._internal else ():
            if fault := address_fault(each["host"]):
                raise NotAllowed(f"{host} leads to {fault}")
        return found

    async def close(self) -> None:
        await self._resolver.close()


class Post:
    """Opened and closed in one loop. `internal`: every address may be connected to."""

    def __init__(
        self,
        timeout_seconds: float,
        *,
        internal: bool = False,
        resolver: AbstractResolver | None = None,
        unix: Callable[[], float] = time.time,
    ) -> None:
        self._internal = internal
        self._unix = unix
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                resolver=Guarded(resolver or aiohttp.DefaultResolver(), internal=internal),
                use_dns_cache=False,
                limit=0,
                keepalive_timeout=KEPT_SECONDS,
                socket_factory=self._socket,
            ),
            timeout=aiohttp.ClientTimeout(total=timeout_seconds),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            headers={"User-Agent": f"Holdfast/{holdfast.__version__} webhooks"},
        )

    async def close(self) -> None:
        await self._session.close()

    def _socket(self, info: aiohttp.AddrInfoType) -> socket.socket:
        """The last look, at the very address that is connected to, wherever it came from."""
        family, kind, proto, _, address = info
        if not self._internal and (fault := address_fault(str(address[0]))):
            raise NotAllowed(fault)
        return socket.socket(family, kind, proto)

    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> int | Failure:
        """The status with which the receiver took it, or why nobody did."""
        if fault := url_fault(url, internal=self._internal):
            return Failure(f"not sent: {fault}")
        target = URL(url, encoded=True)
        if not _same_host(target.raw_host or "", url):
            return Failure("not sent: the URL can be read in two ways")
        try:
            try:
                return await self._send(target, headers, body)
            except aiohttp.ServerDisconnectedError:
                # A connection that was kept, which the receiver had just closed: to send twice is
                # allowed.
                return await self._send(target, headers, body)
        except TimeoutError:
            return Failure("no answer in time")
        except (aiohttp.ClientError, OSError, ValueError) as trouble:
            return Failure(_said(trouble))

    async def _send(self, url: URL, headers: Mapping[str, str], body: bytes) -> int | Failure:
        async with self._session.post(
            url, data=body, headers=headers, allow_redirects=False
        ) as answer:
            # What it says is of no interest, but a connection can be kept when all of it was read.
            await answer.content.read(ANSWER_BYTES_MAX)
            if not answer.content.at_eof():
                answer.close()
            if 200 <= answer.status < 300:
                return answer.status
            if 300 <= answer.status < 400:
                reason = f"answered {answer.status}: redirects are not followed"
                return Failure(reason, answer.status)
            again = self._seconds(answer.headers.get("Retry-After"))
            wait = again if answer.status in BUSY else 0.0
            return Failure(f"answered {answer.status}", answer.status, wait)

    def _seconds(self, retry_after: str | None) -> float:
        """What Retry-After says, as a number of seconds or as a date."""
        text = (retry_after or "").strip()
        if text.isascii() and text.isdigit():
            return float(text[:9])
        try:
            return max(0.0, parsedate_to_datetime(text).timestamp() - self._unix())
        except (ValueError, OverflowError):
            return 0.0


def _same_host(host: str, url: str) -> bool:
    """Whether the guard looked at the very host that is called."""
    read = read_url(url)
    return read is not None and _plain(host) == _plain(read.host)


def _plain(host: str) -> str:
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host.lower()


def _said(trouble: Exception) -> str:
    """In one line, from what is at the bottom of it."""
    found: BaseException = trouble
    while (cause := found.__cause__ or getattr(found, "os_error", None)) is not None:
        found = cause
    if isinstance(found, NotAllowed):
        return f"not sent: {found}"
    text = " ".join(str(found).split()) or type(found).__name__
    return f"not delivered: {text}"[:REASON_CHARS_MAX]
