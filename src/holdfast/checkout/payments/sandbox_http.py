"""The sandbox as a service elsewhere, asked over HTTP as a real provider is. Never for production.

Needs aiohttp: pip install 'holdfast[client]'.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from urllib.parse import quote

import msgspec

from holdfast.checkout.payments.sandbox import REMEMBERS_SECONDS
from holdfast.checkout.payments.sandbox_methods import NAME, fault_of
from holdfast.checkout.payments.sandbox_webhook import read_signed
from holdfast.checkout.payments.sandbox_wire import REFUSED, UNKNOWN, Problem, RefundAsk
from holdfast.domain.payments import Charge, Standing
from holdfast.errors import NotOpen, PaymentRefused, PaymentUnavailable

try:
    import aiohttp
    from yarl import URL
except ImportError:
    raise ImportError(
        "the sandbox over HTTP needs aiohttp: pip install 'holdfast[client]'"
    ) from None

TIMEOUT_SECONDS = 10.0
CONNECTIONS_MAX = 1_000


class Missing(PaymentUnavailable):
    """The sandbox itself says that there is no such thing; any other 404 says nothing."""


class HttpSandboxProvider:
    """The port `Provider` over HTTP to `holdfast sandbox`. Each call is one request; whether to
    ask again is up to the caller."""

    name = NAME

    def __init__(
        self,
        url: str,
        webhook_secret: str = "",
        timeout_seconds: float = TIMEOUT_SECONDS,
        *,
        remembers_seconds: float = REMEMBERS_SECONDS,
        unix: Callable[[], float] = time.time,
    ) -> None:
        self.remembers_seconds = remembers_seconds
        self._url = url.rstrip("/")
        self._secret = webhook_secret
        self._timeout_seconds = timeout_seconds
        self._unix = unix
        self._session: aiohttp.ClientSession | None = None

    def fault(self, method: str) -> str | None:
        return fault_of(method)

    async def open(self) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=CONNECTIONS_MAX),
            timeout=aiohttp.ClientTimeout(total=None),
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def authorize(self, charge: Charge) -> Standing:
        return await self._step(charge, "authorize", charge)

    async def find(self, charge: Charge) -> Standing | None:
        try:
            return self._standing(*await self._ask("GET", self._path(charge), None))
        except Missing:
            return None

    async def capture(self, charge: Charge) -> Standing:
        return await self._step(charge, "capture", charge)

    async def void(self, charge: Charge) -> Standing:
        return await self._step(charge, "void", charge)

    async def refund(self, charge: Charge, amount: int, name: str) -> Standing:
        return await self._step(charge, "refund", RefundAsk(charge, amount, name))

    def read_webhook(self, headers: Mapping[str, str], body: bytes) -> str | None:
        return read_signed(self._secret, headers, body, self._unix()).reference

    async def _step(self, charge: Charge, step: str, ask: Charge | RefundAsk) -> Standing:
        path = f"{self._path(charge)}/{step}"
        return self._standing(*await self._ask("POST", path, msgspec.json.encode(ask)))

    def _path(self, charge: Charge) -> str:
        return f"/payments/{quote(charge.reference, safe='')}"

    async def _ask(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        if self._session is None:
            raise NotOpen("the provider of payments is not open")
        try:
            async with (
                asyncio.timeout(self._timeout_seconds),
                self._session.request(
                    method,
                    URL(self._url + path, encoded=True),
                    data=body,
                    headers={"Content-Type": "application/json"},
                    allow_redirects=False,
                ) as answer,
            ):
                return answer.status, await answer.read()
        except TimeoutError:
            raise PaymentUnavailable(f"{self._url} did not answer in time") from None
        except (aiohttp.ClientError, OSError) as cause:
            raise PaymentUnavailable(f"{self._url} did not answer: {cause}") from cause

    def _standing(self, status: int, body: bytes) -> Standing:
        try:
            if status == 200:
                return msgspec.json.decode(body, type=Standing)
            detail = msgspec.json.decode(body, type=Problem).detail
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise PaymentUnavailable(f"{self._url} answered {status}, which says nothing") from None
        if status == REFUSED:
            raise PaymentRefused(detail)
        if status == UNKNOWN:
            raise Missing(detail)
        # All that is not a clear no leaves open what was done.
        raise PaymentUnavailable(f"{self._url} answered {status}: {detail}")
