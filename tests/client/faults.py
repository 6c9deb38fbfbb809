"""A proxy before the real service that mistreats requests on purpose."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web

DROPPED = ("host", "content-length", "accept-encoding")
KEPT = ("Content-Type", "Retry-After", "Idempotency-Replayed")


class Proxy:
    """Passes requests on; the next one first meets the next of `faults`, if there is one."""

    def __init__(self, session: aiohttp.ClientSession, target: str) -> None:
        self.url = ""
        self.faults: list[Fault] = []
        self.keys: list[str | None] = []
        """The Idempotency-Key of every request that came."""
        self.over = asyncio.Event()
        """The test is."""
        self._session = session
        self._target = target

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.keys.append(request.headers.get("Idempotency-Key"))
        visit = Visit(self, request, await request.read())
        if self.faults:
            return await self.faults.pop(0)(visit) or web.Response(status=500)
        return await visit.pass_on()

    async def ask(self, request: web.BaseRequest, body: bytes) -> web.Response:
        headers = {
            name: text for name, text in request.headers.items() if name.lower() not in DROPPED
        }
        url = self._target + request.path_qs
        async with self._session.request(request.method, url, headers=headers, data=body) as answer:
            kept = {name: answer.headers[name] for name in KEPT if name in answer.headers}
            return web.Response(status=answer.status, headers=kept, body=await answer.read())


class Visit:
    """One request on its way."""

    def __init__(self, proxy: Proxy, request: web.BaseRequest, body: bytes) -> None:
        self.proxy = proxy
        self._request = request
        self._body = body

    async def pass_on(self) -> web.Response:
        return await self.proxy.ask(self._request, self._body)

    def cut(self) -> None:
        assert self._request.transport is not None
        self._request.transport.abort()


Fault = Callable[[Visit], Awaitable[web.Response | None]]


@asynccontextmanager
async def proxy(target: str) -> AsyncIterator[Proxy]:
    async with aiohttp.ClientSession() as session:
        here = Proxy(session, target)
        async with listening(here.handle) as here.url:
            try:
                yield here
            finally:
                here.over.set()


@asynccontextmanager
async def listening(
    handle: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
) -> AsyncIterator[str]:
    """Where a server listens that answers with this."""
    runner = web.ServerRunner(web.Server(handle), shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def done_but_cut(visit: Visit) -> None:
    """The service did its work; its answer never arrives."""
    await visit.pass_on()
    visit.cut()


async def cut(visit: Visit) -> None:
    """The connection is lost before the service hears of it."""
    visit.cut()


async def done_but_silent(visit: Visit) -> None:
    """The service did its work, and the answer is stuck on its way until the test is over."""
    await visit.pass_on()
    await visit.proxy.over.wait()


def says(status: int, reason: str = "", **headers: str) -> Fault:
    async def answer(visit: Visit) -> web.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.json_response({"reason": reason, "detail": reason}, status=status, headers=named)

    return answer


def done_but_says(status: int) -> Fault:
    async def answer(visit: Visit) -> web.Response:
        await visit.pass_on()
        return web.Response(status=status, text="<html>gateway</html>")

    return answer
