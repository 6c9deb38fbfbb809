"""Delivers the webhooks of a store until it is ended: `python -m tests.webhooks.deliverer URL`."""

import asyncio
import signal
import sys

from holdfast.followers.deliveries import Deliveries
from holdfast.settings import Settings
from holdfast.wiring import make_store

LEASE_MS = 1_000


async def deliver(url: str) -> None:
    settings = Settings(store=url, webhook_internal=True)
    store = make_store(settings)
    await store.open()
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    deliveries = Deliveries(store, settings, lease_ms=LEASE_MS, read_seconds=0.1)
    deliveries.start()
    await stopping.wait()
    await deliveries.stop()
    await store.close()


if __name__ == "__main__":
    asyncio.run(deliver(sys.argv[1]))
