"""The sandbox as a service: its bank behind HTTP, in whatever weather is asked for."""

import asyncio
import html
import socket
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
from msgspec.structs import asdict, replace

from holdfast.checkout.payments.bank import Bank
from holdfast.checkout.payments.courier import Courier, Delivered
from holdfast.checkout.payments.sandbox import SandboxProvider
from holdfast.checkout.payments.sandbox_wire import REFUSED, Act, Problem, RefundAsk
from holdfast.checkout.payments.weather import Fate, Weather
from holdfast.domain.payments import Charge, PaymentState, Standing
from holdfast.errors import PaymentRefused, PaymentUnavailable

try:
    from aiohttp import web
except ImportError:
    raise ImportError(
        "the sandbox over HTTP needs aiohttp: pip install 'holdfast[client]'"
    ) from None

T = TypeVar("T")
Work = Callable[[], Awaitable[Standing]]

BODY_BYTES_MAX = 16_384
TEXT_CHARS_MAX = 200
AMOUNT_MAX = 2**53
IN_HAND_MAX = 10_000
"""Requests, most of them stalled; past that none is taken."""
STALL_SECONDS = 120.0
"""How long a line stays silent before it is cut: nobody waits that long, and nothing piles up."""
STOP_SECONDS = 0.5

PAGE = """<!doctype html>
<title>Sandbox payment</title>
<h1>Payment of {reference}</h1>
<p>It is {state}. No real money is moved here.</p>
<form method="post">
<button name="approve" value="true">Approve</button>
<button name="approve" value="false">Decline</button>
</form>
"""


class Malformed(Exception):
    """The request makes no sense; its text says why."""


class Teller:
    """Serves on a socket that listens, whose address is `url`, between `open` and `close`."""

    def __init__(self, url: str, weather: Weather, courier: Courier | None = None) -> None:
        self.bank = Bank(pages=url, on_change=self._tell)
        self._provider = SandboxProvider(self.bank)
        self._weather = weather
        self._courier = courier
        self._in_hand = 0

    async def open(self, listener: socket.socket) -> None:
        if self._courier is not None:
            await self._courier.open()
        app = web.Application(client_max_size=BODY_BYTES_MAX, middlewares=[self._answered])
        app.add_routes(
            [
                web.post("/payments/{reference}/{step:authorize|capture|void|refund}", self._step),
                web.get("/payments/{reference}", self._find),
                web.get("/payments/{reference}/act", self._page),
                web.post("/payments/{reference}/act", self._act),
                web.get("/counts", self._counts),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=STOP_SECONDS)
        await self._runner.setup()
        await web.SockSite(self._runner, listener).start()

    async def close(self) -> None:
        await self._runner.cleanup()
        if self._courier is not None:
            await self._courier.close()

    def _tell(self, standing: Standing) -> None:
        if self._courier is None or standing.reference is None:
            return
        self._courier.send(standing)
        if left := self.bank.seconds_left(standing.reference):
            loop = asyncio.get_running_loop()
            loop.call_later(left, self._tell_late, standing.reference)

    def _tell_late(self, reference: str) -> None:
        """sandbox:slow is authorized now, unless it was voided meanwhile. What came after that has
        its own message, maybe sent already."""
        standing = self.bank.find(reference)
        if standing and self._courier and standing.state is not PaymentState.VOIDED:
            self._courier.send(replace(standing, state=PaymentState.AUTHORIZED))

    @web.middleware
    async def _answered(
        self,
        request: web.Request,
        handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
    ) -> web.StreamResponse:
        """Every way in which a request can end, but for a line that is cut."""
        if self._in_hand >= IN_HAND_MAX:
            return _problem(503, "the sandbox has too many requests in hand")
        self._in_hand += 1
        try:
            return await handler(request)
        except PaymentRefused as no:
            return _problem(REFUSED, str(no))
        except PaymentUnavailable as trouble:
            return _problem(503, str(trouble))
        except Malformed as fault:
            return _problem(422, str(fault))
        except web.HTTPException as fault:
            return _problem(fault.status, fault.reason)
        finally:
            self._in_hand -= 1

    async def _step(self, request: web.Request) -> web.StreamResponse:
        fate = self._weather.draw()
        return await self._meet(request, fate, await self._read_step(request, fate))

    async def _read_step(self, request: web.Request, fate: Fate) -> Work:
        step = request.match_info["step"]
        if step == "refund":
            ask = await _read(request, RefundAsk)
            _check(ask.charge, request)
            _check_text("name", ask.name)
            return lambda: self._provider.refund(ask.charge, ask.amount, ask.name)
        charge = await _read(request, Charge)
        _check(charge, request)
        if step == "authorize":
            # Other methods are asked for by name, so chance has no say in them.
            if fate.declines and charge.method == "sandbox:ok":
                charge = replace(charge, method="sandbox:declined")
            return lambda: self._provider.authorize(charge)
        if step == "capture":
            return lambda: self._provider.capture(charge)
        return lambda: self._provider.void(charge)

    async def _find(self, request: web.Request) -> web.StreamResponse:
        async def found() -> Standing:
            standing = self.bank.find(request.match_info["reference"])
            if standing is None:
                raise web.HTTPNotFound
            return standing

        return await self._meet(request, self._weather.draw(), found)

    async def _meet(self, request: web.Request, fate: Fate, work: Work) -> web.StreamResponse:
        """Does the work, once the weather lets it through, and answers if the weather lets it."""
        await asyncio.sleep(fate.delay_seconds)
        if fate.fails:
            return _problem(500, "the sandbox failed, as --fail-percent asks")
        try:
            async with asyncio.timeout(STALL_SECONDS):
                standing = await work()
        except TimeoutError:
            return _cut(request)
        if fate.loses:
            if fate.stalls:
                await asyncio.sleep(STALL_SECONDS)
            return _cut(request)
        return _json(standing)

    async def _page(self, request: web.Request) -> web.StreamResponse:
        """Where a buyer is sent by sandbox:3ds."""
        standing = self.bank.find(request.match_info["reference"])
        if standing is None:
            raise web.HTTPNotFound
        return _drawn(standing)

    async def _act(self, request: web.Request) -> web.StreamResponse:
        """For the page's buttons, which get a page, and for programs, which get JSON."""
        reference = request.match_info["reference"]
        if (await request.read()).lstrip()[:1] == b"{":
            # Whatever it is said to be: curl says that everything is a form.
            act = await _read(request, Act)
            return _json(self.bank.act(reference, act.approve))
        said = (await request.post()).get("approve")
        if said not in ("true", "false"):
            raise Malformed("approve must be true or false")
        return _drawn(self.bank.act(reference, said == "true"))

    async def _counts(self, request: web.Request) -> web.StreamResponse:
        delivered = self._courier.delivered if self._courier else Delivered()
        return _json({**asdict(self.bank.tally), "webhooks": delivered})


async def _read(request: web.Request, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(await request.read(), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        raise Malformed(str(fault)) from None


def _check(charge: Charge, request: web.Request) -> None:
    """What is kept for long is short."""
    if charge.reference != request.match_info["reference"]:
        raise Malformed("the charge has another reference than the address")
    for name in ("reference", "currency", "method"):
        _check_text(name, getattr(charge, name))
    if not 0 <= charge.amount <= AMOUNT_MAX:
        raise Malformed(f"amount must be from 0 to {AMOUNT_MAX}")


def _check_text(name: str, text: str) -> None:
    if not 1 <= len(text) <= TEXT_CHARS_MAX:
        raise Malformed(f"{name} must have from 1 to {TEXT_CHARS_MAX} characters")


def _cut(request: web.Request) -> web.Response:
    """Nothing of this response arrives: the line is gone."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


def _drawn(standing: Standing) -> web.Response:
    page = PAGE.format(reference=html.escape(standing.reference or ""), state=standing.state)
    return web.Response(text=page, content_type="text/html")


def _problem(status: int, detail: str) -> web.Response:
    return _json(Problem(detail), status)


def _json(value: object, status: int = 200) -> web.Response:
    body = msgspec.json.encode(value)
    return web.Response(body=body, status=status, content_type="application/json")
