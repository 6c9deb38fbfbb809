"""The same client for programs without an event loop: Django views, scripts, notebooks.

    with Client("http://127.0.0.1:8000", key="...") as client:
        placed = client.place_hold("opening-night", buyer="u-123", seats=["A-1-1"])

It may be called from any number of threads at once.
"""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import suppress
from typing import Any

from holdfast.client import client
from holdfast.client.streaming import Frame
from holdfast.errors import NotOpen
from holdfast.waiting import Blocking, waited


class Client(Blocking[client.Client]):
    _name = "the client"
    _opened_by = "with Client(...)"

    def __init__(
        self,
        url: str,
        key: str | None = None,
        **options: Any,  # those of the asynchronous client
    ) -> None:
        super().__init__(client.Client(url, key, **options))

    @property
    def buyer_token(self) -> str | None:
        return self._inner.buyer_token

    @buyer_token.setter
    def buyer_token(self, token: str | None) -> None:
        self._inner.buyer_token = token

    def stream(self, event: str, since: int | None = None) -> Generator[Frame, None, None]:
        frames = self._inner.stream(event, since)
        turn = asyncio.Lock()
        try:
            while True:
                yield self._wait(_next(frames, turn))
        finally:
            with suppress(NotOpen):  # closed already, and the stream with it
                self._wait(_close(frames, turn))

    stream.__doc__ = client.Client.stream.__doc__

    create_event = waited(client.Client.create_event)
    events = waited(client.Client.events)
    event = waited(client.Client.event)
    change_event = waited(client.Client.change_event)
    seats = waited(client.Client.seats)
    log = waited(client.Client.log)
    stats = waited(client.Client.stats)
    place_hold = waited(client.Client.place_hold)
    hold = waited(client.Client.hold)
    extend_hold = waited(client.Client.extend_hold)
    release_hold = waited(client.Client.release_hold)
    pay_hold = waited(client.Client.pay_hold)
    create_order = waited(client.Client.create_order)
    get_order = waited(client.Client.get_order)
    cancel_order = waited(client.Client.cancel_order)
    orders_needing_a_person = waited(client.Client.orders_needing_a_person)
    retry_order = waited(client.Client.retry_order)
    create_buyer = waited(client.Client.create_buyer)
    system = waited(client.Client.system)
    switch_gate = waited(client.Client.switch_gate)
    reconcile = waited(client.Client.reconcile)


async def _next(frames: AsyncGenerator[Frame, None], turn: asyncio.Lock) -> Frame:
    async with turn:
        return await anext(frames)


async def _close(frames: AsyncGenerator[Frame, None], turn: asyncio.Lock) -> None:
    # An interrupted wait for the next frame may still be on its way out.
    async with turn:
        await frames.aclose()
