"""The control for figures over HTTP: a Falcon handler that does nothing, on the same server.

python -m holdfast.lab.bench.empty LISTENER
"""

import asyncio
import signal
import socket
import sys

import falcon.asgi
import uvloop

from holdfast.api.worker import SharedSocketServer
from holdfast.settings import Settings


class Nothing:
    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        resp.data = b"{}"


async def serve(listener: socket.socket) -> None:
    app: falcon.asgi.App = falcon.asgi.App()  # type: ignore[type-arg]  # Falcon's own
    app.add_route("/nothing", Nothing())
    server = SharedSocketServer(app, listener, Settings())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, server.stop)
    await server.serve()


if __name__ == "__main__":
    listener = socket.socket(fileno=int(sys.argv[1]))
    listener.setblocking(False)
    uvloop.run(serve(listener))
