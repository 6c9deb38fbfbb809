"""A proxy before the real service that mistreats requests on purpose."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import web

Fault = Callable[[web.Request, Callable[[], Awaitable[web.Response]]], Awaitable[Any]]
"""What happens to a request instead of passing it on, which the second argument does."""


class Proxy:
    """Passes requests on, each after the next fault of `faults`, if there is one."""

    def __init__(self) -> None:
        self.url = ""
        self.faults: list[Fault] = []
        self.seen: list[tuple[str, str, str | None]] = []
        """Method, path and Idempotency-Key of every request that came."""

    @property
    def keys(self) -> list[str | None]:
        return [key for _, _, key in self.seen]


@asynccontextmanager
async def proxy(target: str) -> AsyncIterator[Proxy]:
    here = Proxy()
    released = asyncio.Event()
    async with aiohttp.ClientSession() as session:

        async def handle(request: web.Request) -> web.StreamResponse:
            key = request.headers.get("Idempotency-Key")
            here.seen.append((request.method, request.path, key))
            body = await request.read()

            async def pass_on() -> web.Response:
                headers = {
                    name: value
                    for name, value in request.headers.items()
                    if name.lower() not in ("host", "content-length", "accept-encoding")
                }
                async with session.request(
                    request.method, target + request.path_qs, headers=headers, data=body
                ) as answer:
                    kept = {
                        name: value
                        for name, value in answer.headers.items()
                        if name.lower()
                        in ("content-type", "retry-after", "idempotency-replayed", "etag")
                    }
                    return web.Response(
                        status=answer.status, headers=kept, body=await answer.read()
                    )

            request["released"] = released
            if here.faults:
                made = await here.faults.pop(0)(request, pass_on)
                return made if made is not None else web.Response(status=500)
            return await pass_on()

        server = web.Server(handle)
        runner = web.ServerRunner(server)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        here.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield here
        finally:
            released.set()
            await runner.cleanup()


async def done_but_cut(request: web.Request, pass_on: Callable[[], Awaitable[Any]]) -> None:
    """The service did its work; its answer never arrives."""
    await pass_on()
    assert request.transport is not None
    request.transport.abort()


async def cut(request: web.Request, pass_on: Callable[[], Awaitable[Any]]) -> None:
    """The connection is lost before the service hears of it."""
    assert request.transport is not None
    request.transport.abort()


async def done_but_silent(request: web.Request, pass_on: Callable[[], Awaitable[Any]]) -> None:
    """The service did its work, and the answer is stuck on its way until the test is over."""
    await pass_on()
    await request["released"].wait()


def says(status: int, reason: str = "", **headers: str) -> Fault:
    async def answer(request: web.Request, pass_on: Callable[[], Awaitable[Any]]) -> web.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.json_response({"reason": reason, "detail": reason}, status=status, headers=named)

    return answer


def done_but_says(status: int) -> Fault:
    async def answer(request: web.Request, pass_on: Callable[[], Awaitable[Any]]) -> web.Response:
        await pass_on()
        return web.Response(status=status, text="<html>gateway</html>")

    return answer
