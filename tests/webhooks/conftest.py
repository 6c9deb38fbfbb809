"""A shop in memory whose clock the test moves, a receiver, and what delivers between them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from holdfast import Holdfast, Placed
from holdfast.brokers.webhooks.retries import KIND, Retry
from holdfast.brokers.webhooks.subscriptions import Webhooks
from holdfast.followers.deliveries import Deliveries
from holdfast.settings import Settings
from holdfast.stores.memory import MemoryStore
from tests.webhooks.receiving import Receiver

INTERNAL = Settings(store="memory://", webhook_internal=True)


class World:
    def __init__(self, shop: Holdfast, receiver: Receiver, clock: Any) -> None:
        self.shop = shop
        self.store = shop.store
        self.receiver = receiver
        self.clock = clock
        self.webhooks = Webhooks(shop.store)
        self.secret = ""

    async def event(self, id: str = "gala") -> str:
        await self.shop.create_event(
            {"id": id, "prices": {"floor": 100}, "pools": [{"id": "floor", "capacity": 10_000}]}
        )
        return id

    async def subscribe(self, *events: str, url: str = "", **more: Any) -> str:
        made = await self.webhooks.create(url or self.receiver.url, events or ("*",), **more)
        assert made is not None
        self.secret = made.secret
        return made.webhook.id

    async def facts(self, event: str, count: int) -> None:
        """So many `hold.placed`, one by one."""
        for _ in range(count):
            placed = await self.shop.place_hold(event, buyer="ann", pools={"floor": 1})
            assert isinstance(placed, Placed)

    async def retry(self, webhook: str, event: str = "gala") -> Retry | None:
        documents, _ = await self.store.documents(KIND, f"{webhook}/{event}")
        return msgspec.json.decode(documents[0].body, type=Retry) if documents else None

    async def cursor(self, webhook: str, event: str = "gala") -> int:
        cursors, _ = await self.store.cursors(f"webhook:{webhook}")
        return next((each.seq for each in cursors if each.event == event), 0)

    @asynccontextmanager
    async def delivering(self, settings: Settings = INTERNAL, **more: Any) -> AsyncIterator[Any]:
        deliveries = Deliveries(
            self.store, settings, read_seconds=0.02, **{"chance": lambda: 0.0, **more}
        )
        deliveries.start()
        try:
            yield deliveries
        finally:
            await deliveries.stop()


@pytest.fixture
async def receiver():
    made = Receiver()
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def world(receiver, clock):
    store = MemoryStore(clock)
    async with Holdfast(store, INTERNAL, upkeep=False, clock=clock) as shop:
        yield World(shop, receiver, clock)
