"""One process that serves: an event loop, a shop, and the HTTP server on a socket that the
supervisor has opened.

    python -m holdfast.api.worker LISTENER READY PARENT

The three are file descriptors: the socket, where to write that it serves, and one that ends when
the supervisor does. Settings come as environment variables.

The socket is the supervisor's: if each worker bound one for itself, a second `serve` on the same
port would go unnoticed, and what waits at a killed worker's own door would be lost.
"""

import asyncio
import gc
import logging
import os
import select
import signal
import socket
import sys

import msgspec
import uvloop

from holdfast.api.app import App
from holdfast.api.logs import set_up_logs
from holdfast.api.server import Server
from holdfast.api.service import Service
from holdfast.api.supervisor import url_of
from holdfast.api.tallies import Tallies
from holdfast.engine import Holdfast
from holdfast.errors import HoldfastError
from holdfast.settings import Settings, load_settings

READY = b"r"
LOOK_SECONDS = 0.05
UNREAD_SECONDS = 2.0
"""How long a worker that stops waits for those who do not read what they were answered."""

log = logging.getLogger("holdfast.worker")


async def serve(
    listener: socket.socket, ready: int, parent: int, settings: Settings, upkeep: bool
) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stopping.set)

    def orphaned() -> None:
        """Without its supervisor a worker would serve for ever, and nobody would know."""
        loop.remove_reader(parent)
        stopping.set()

    loop.add_reader(parent, orphaned)
    shop = Holdfast.open(upkeep=upkeep, **msgspec.structs.asdict(settings))
    async with Service(shop, upkeep=upkeep) as service:
        service.laboratory.url = url_of(listener)
        server = Server(App(service), listener, settings.header_seconds)
        serving = asyncio.create_task(server.serve())
        # Should it end by itself, this process makes way for another.
        serving.add_done_callback(lambda _: stopping.set())
        await asyncio.sleep(0)  # it begins; who came before waits at the socket
        _calm()
        os.write(ready, READY)
        os.close(ready)
        await stopping.wait()
        ends = loop.time() + max(settings.stop_seconds - 1, 0.8 * settings.stop_seconds)
        await service.drain()
        # From here nothing new is accepted, and what was accepted is answered.
        server.stop()
        await _finish(service, serving, ends)
        if serving.done():
            serving.result()
    if select.select([parent], [], [], 0)[0] and (tallies := Tallies.of_worker(os.environ)):
        tallies.remove()  # the supervisor has died, and cannot


async def _finish(service: Service, serving: "asyncio.Task[None]", ends: float) -> None:
    """Waits until everything is answered, and a little for those who do not read their answers."""
    loop = asyncio.get_running_loop()
    busy = loop.time()
    while not serving.done() and (now := loop.time()) < ends:
        if service.in_hand:
            busy = now
        elif now - busy > UNREAD_SECONDS:
            break
        await asyncio.wait([serving], timeout=LOOK_SECONDS)
    if service.in_hand:
        log.warning("%d calls were not answered in time", service.in_hand)


def _calm() -> None:
    """Looking for cycles every few hundred objects, through all there are, costs as much as the
    decisions do, and finds next to none: what is made for a request ends with it."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def main() -> int:
    descriptor, ready, parent = map(int, sys.argv[1:4])
    listener = socket.socket(fileno=descriptor)
    listener.setblocking(False)
    try:
        settings = load_settings()
        set_up_logs(settings)
        uvloop.run(serve(listener, ready, parent, settings, upkeep="--no-upkeep" not in sys.argv))
    except HoldfastError as trouble:
        log.critical("%s", trouble)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
