"""What may happen to a server as a whole: killed, or frozen."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.servers import Server


def kill(server: Server) -> None:
    server.kill()


async def restart(server: Server) -> None:
    await asyncio.to_thread(server.start)


@asynccontextmanager
async def frozen(server: Server) -> AsyncIterator[None]:
    """Nothing of the server moves meanwhile; its connections stay."""
    server.freeze()
    try:
        yield
    finally:
        server.thaw()
