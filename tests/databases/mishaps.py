"""What may happen to a server as a whole: killed, or frozen. PostgreSQL gives each of its processes
a group of its own, so a signal to the server's group reaches only the first of them."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from tests.servers import Server


def family(pid: int) -> list[int]:
    """The process and its children."""
    children = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            parent = stat.read_text().rpartition(")")[2].split()[1]
            if int(parent) == pid:
                children.append(int(stat.parent.name))
    return [pid, *children]


def send(server: Server, what: signal.Signals) -> None:
    assert server.process is not None
    for pid in family(server.process.pid):
        with suppress(ProcessLookupError):
            os.kill(pid, what)


def kill(server: Server) -> None:
    """kill -9 of every process of the server at one moment: none has time to tidy up."""
    assert server.process is not None
    send(server, signal.SIGSTOP)
    send(server, signal.SIGKILL)
    server.process.wait()
    server.process = None


async def restart(server: Server) -> None:
    await asyncio.to_thread(server.start)


@asynccontextmanager
async def frozen(server: Server) -> AsyncIterator[None]:
    """Nothing of the server moves meanwhile; its connections stay."""
    send(server, signal.SIGSTOP)
    try:
        yield
    finally:
        send(server, signal.SIGCONT)
