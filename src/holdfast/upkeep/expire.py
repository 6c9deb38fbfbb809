"""The announcer: says that holds have expired. Their units were free at the deadline already."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from holdfast.domain.outcomes import Expired, Refused
from holdfast.errors import HoldfastError
from holdfast.tasks import end_task
from holdfast.upkeep.lease import Lease

EXPIRE_BATCH_MAX = 200
"""So many at a time: buyers in the same lane wait no longer than for a batch."""

log = logging.getLogger("holdfast.upkeep")


class Announcer:
    def __init__(
        self,
        expire: Callable[[str, int], Awaitable[Expired | Refused]],
        due: Callable[[], Awaitable[list[str]]],
        every_seconds: float,
        lease: Lease | None = None,
    ) -> None:
        self._expire = expire
        self._due = due
        self._every_seconds = every_seconds
        self._lease = lease
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            await end_task(self._task)
            if self._lease is not None:
                with contextlib.suppress(HoldfastError):
                    await self._lease.give_back()

    async def announce(self) -> int:
        """Announces all that is due now; returns how many holds that were."""
        count = 0
        for event in await self._due():
            try:
                count += await self._announce(event)
            except Exception:
                # One event's trouble is its own: the others are announced.
                log.exception("expired holds of %s were not announced", event)
        return count

    async def _announce(self, event: str) -> int:
        count = 0
        while True:
            outcome = await self._expire(event, EXPIRE_BATCH_MAX)
            announced = outcome.count if isinstance(outcome, Expired) else 0
            count += announced
            if announced < EXPIRE_BATCH_MAX:
                return count

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._every_seconds)
            try:
                # One process of all on this store: the others would only find nothing left to do.
                if self._lease is None or await self._lease.hold():
                    await self.announce()
            except Exception as trouble:  # whatever it is, the next round may go better
                log.warning("expired holds were not announced: %s", trouble)
