"""A receiver of webhooks: a real server that knows the signature from the specification alone."""

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from aiohttp import web

TOLERANCE_SECONDS = 300
WAIT_SECONDS_MAX = 20.0


class Forged(Exception):
    """Not from whom it says it is."""


def verify(secret: str, headers: dict[str, str], body: bytes, now: float | None = None) -> Any:
    """The algorithm of the Standard Webhooks specification, written down independently of ours: the
    fact, if it is authentic."""
    id, at, signatures = (
        headers.get(f"webhook-{name}") for name in ("id", "timestamp", "signature")
    )
    if not id or not at or not signatures:
        raise Forged("a header is missing")
    if abs((time.time() if now is None else now) - int(at)) > TOLERANCE_SECONDS:
        raise Forged("too old, or too new")
    key = base64.b64decode(secret.split("_", 1)[1])
    signed = b".".join([id.encode(), at.encode(), body])
    expected = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    for each in signatures.split(" "):
        version, _, value = each.partition(",")
        if version == "v1" and hmac.compare_digest(value, expected):
            return json.loads(body)
    raise Forged("no signature fits")


class Got(NamedTuple):
    headers: dict[str, str]
    body: bytes

    @property
    def fact(self) -> Any:
        return json.loads(self.body)

    @property
    def event(self) -> str:
        return str(self.fact["subject"])

    @property
    def seq(self) -> int:
        return int(self.fact["sequence"])


Answering = Callable[[Got], Awaitable[web.Response | int] | web.Response | int]


class Receiver:
    """Keeps everything it gets; what it answers is up to the test."""

    def __init__(self) -> None:
        self.got: list[Got] = []
        self.answer: Answering = lambda got: 204
        self.url = ""
        self.port = 0
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{any:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{self.port}/hook"

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        headers["x-path"] = request.path
        got = Got(headers, await request.read())
        self.got.append(got)
        answer = self.answer(got)
        if isinstance(answer, Awaitable):
            answer = await answer
        return answer if isinstance(answer, web.Response) else web.Response(status=answer)

    def facts(self, event: str | None = None) -> list[int]:
        """The numbers that came, in order of arrival."""
        return [got.seq for got in self.got if event is None or got.event == event]

    def first(self, event: str) -> list[int]:
        """The same without repeats: what a consumer works on."""
        return list(dict.fromkeys(self.facts(event)))

    async def until(self, true: Callable[[], object]) -> None:
        await until(true)


async def until(true: Callable[[], object]) -> None:
    """Returns when it is true, and fails where it never is."""
    ends = time.monotonic() + WAIT_SECONDS_MAX
    while not true():
        assert time.monotonic() < ends, "it never came to be"
        await asyncio.sleep(0.01)


async def becomes(true: Callable[[], Awaitable[object]]) -> None:
    ends = time.monotonic() + WAIT_SECONDS_MAX
    while not await true():
        assert time.monotonic() < ends, "it never came to be"
        await asyncio.sleep(0.01)
