"""The control for figures over HTTP: Falcon handlers that do nothing, on the same server.

python -m holdfast.lab.bench.empty LISTENER
"""

import asyncio
import signal
import socket
import sys

import uvloop

from holdfast.api.server import Server
from holdfast.lab.bench.nothing import app


async def serve(listener: socket.socket) -> None:
    server = Server(app, listener, 10.0)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, server.stop)
    await server.serve()


if __name__ == "__main__":
    listener = socket.socket(fileno=int(sys.argv[1]))
    listener.setblocking(False)
    uvloop.run(serve(listener))
