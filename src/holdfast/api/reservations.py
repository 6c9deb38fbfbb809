"""Idempotency keys of calls that are about no event that is there: a new event, a buyer, a
subscription of webhooks.

What a key made is recorded with what it made, if that is an event. But records are kept event by
event; that the same key came with another body, about another one, is only known here. The key of
an order is written with the order, beside these.
Claims that come together, or while others are being written, are written together: a crowd costs a
few round trips, not one each.
"""

import asyncio
import secrets

from holdfast.api.problems import Problem
from holdfast.errors import Overloaded
from holdfast.ports import Store
from holdfast.tasks import gather_crowd

TOGETHER_MAX = 500
WAITING_MAX = 20_000

Claim = tuple[str, str]


class Reservations:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: list[tuple[Claim, asyncio.Future[str]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def claim(self, key: str, digest: str) -> None:
        """Remembers what the key is used for; the same key for something else is refused."""
        if await self._claimed(key, digest) != digest:
            raise _used()

    async def first(self, key: str, digest: str) -> bool:
        """As `claim`, for calls that leave no other record: whether nobody has used it before."""
        mark = f"{digest}:{secrets.token_hex(8)}"
        counts = await self._claimed(key, mark)
        if counts.partition(":")[0] != digest:
            raise _used()
        return counts == mark

    async def _claimed(self, key: str, digest: str) -> str:
        """What counts: what the first said."""
        if len(self._waiting) >= WAITING_MAX:
            raise Overloaded(1.0)
        counts: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting.append(((key, digest), counts))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        return await counts

    async def free(self, key: str, digest: str) -> None:
        """Nothing was made: the key may be used for something else."""
        await self._store.free_keys([(key, digest)])

    async def _write(self) -> None:
        try:
            while self._waiting:
                await gather_crowd(self._waiting, TOGETHER_MAX)
                batch = self._waiting[:TOGETHER_MAX]
                del self._waiting[:TOGETHER_MAX]
                await self._write_together(batch)
        finally:
            self._writing = None

    async def _write_together(self, batch: list[tuple[Claim, "asyncio.Future[str]"]]) -> None:
        try:
            digests = await self._store.claim_keys([claim for claim, _ in batch])
        except Exception as trouble:
            # Each of them hears of it; the next ones are another try.
            for _, counts in batch:
                if not counts.done():
                    counts.set_exception(trouble)
            return
        for (_, counts), digest in zip(batch, digests, strict=True):
            if not counts.done():
                counts.set_result(digest)


def _used() -> Problem:
    detail = "this Idempotency-Key was used for something else"
    return Problem(422, "idempotency_mismatch", detail)
