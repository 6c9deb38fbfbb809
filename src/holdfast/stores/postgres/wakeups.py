"""Wake-ups for followers: NOTIFY after a commit, coalesced, on a connection of its own.

Inside the batch it would take a lock of the whole cluster through the commit. Losing a wake-up
loses nothing: a follower that hears none looks by itself after its timeout. The first commit after
a while is told at once; those that follow closely are told together, for a notification costs as
much as a statement of a batch, and a batch has three.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

import asyncpg

from holdfast.stores.postgres.errors import LOST, Connection, said
from holdfast.tasks import end_task

CHANNEL = "holdfast"
RECONNECT_SECONDS = 1.0
PAUSE_SECONDS = 0.02
"""After a notification; what is committed meanwhile is told by the next."""

log = logging.getLogger("holdfast.postgres")


class Wakeups:
    def __init__(self, connect: Callable[[], Awaitable[Connection]]) -> None:
        self._connect = connect
        self._db: Connection | None = None
        self._pending = asyncio.Event()
        self._heard = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._told = ""

    def start(self, *, listening: bool) -> None:
        """Through a pooler nobody can listen, so nobody is notified either."""
        if listening:
            self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        await end_task(self._task)
        if self._db is not None:
            self._db.terminate()

    def notify(self) -> None:
        """Something was committed. Any number of calls while one is under way make one more."""
        self._pending.set()

    async def wait(self, timeout_seconds: float) -> None:
        """Returns when something was committed somewhere, or after the timeout."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await self._heard.wait()
        self._heard.clear()

    async def _run(self) -> None:
        while True:
            try:
                await self._serve()
            except (*LOST, asyncpg.PostgresError) as trouble:
                if said(trouble) != self._told:
                    self._told = said(trouble)
                    log.warning("wake-ups are interrupted: %s", self._told)
                await asyncio.sleep(RECONNECT_SECONDS)

    async def _serve(self) -> None:
        self._db = await self._connect()
        self._told = ""
        try:
            await self._db.add_listener(CHANNEL, lambda *_: self._heard.set())
            # A connection that is cut says so: the next NOTIFY fails, and a new one is made.
            self._db.add_termination_listener(lambda *_: self._pending.set())
            while True:
                await self._pending.wait()
                self._pending.clear()
                await self._db.execute(f"NOTIFY {CHANNEL}")
                await asyncio.sleep(PAUSE_SECONDS)
        finally:
            self._db.terminate()
