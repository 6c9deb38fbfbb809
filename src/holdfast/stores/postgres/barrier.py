"""Early lock release: a batch commits without waiting for the disk, so its locks are gone at once,
and is answered after the next barrier, a tiny commit that does wait. It makes everything before it
durable, so one flush serves all batches that came meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable


class Barrier:
    def __init__(self, flush: Callable[[], Awaitable[None]]) -> None:
        self._flush = flush
        self._waiting: list[asyncio.Future[None]] = []
        self._runner: asyncio.Task[None] | None = None

    async def wait(self) -> None:
        """Returns when everything committed before the call is on disk; raises what the flush
        raised, and then nobody knows."""
        loop = asyncio.get_running_loop()
        passed = loop.create_future()
        self._waiting.append(passed)
        if self._runner is None:
            self._runner = loop.create_task(self._run())
        await passed

    async def _run(self) -> None:
        while self._waiting:
            waiting, self._waiting = self._waiting, []
            try:
                await self._flush()
            except Exception as failure:
                _settle(waiting, failure)
            else:
                _settle(waiting, None)
        self._runner = None


def _settle(waiting: list["asyncio.Future[None]"], failure: Exception | None) -> None:
    for passed in waiting:
        if passed.done():
            continue
        if failure is None:
            passed.set_result(None)
        else:
            passed.set_exception(failure)
