"""Idempotency keys of calls that do not say which event they are about: a new event, an order.

What a key made is recorded with the event, in the transaction that made it. But records are kept
event by event; that the same key came with another body, about another event, is only known here.
"""

import asyncio
import logging

import msgspec

from holdfast.api.problems import Problem
from holdfast.domain.model import Millis
from holdfast.domain.views import Document
from holdfast.errors import HoldfastError
from holdfast.ports import Store
from holdfast.tasks import end_task
from holdfast.upkeep.lease import Lease

KIND = "idempotency"
KEPT_MS: Millis = 24 * 3600 * 1000
FORGET_MS: Millis = 3600 * 1000

log = logging.getLogger("holdfast.reservations")


class Reserved(msgspec.Struct):
    digest: str
    at_ms: Millis
    until_ms: Millis = 0
    """While somebody is at it: a copy that comes meanwhile is told so."""
    made: bool = False
    """It is done; what it made tells the answer."""


_read = msgspec.json.Decoder(Reserved).decode


class Reservations:
    def __init__(self, store: Store, holder: str) -> None:
        self._store = store
        # As long as the pause: once in it, whichever process comes first.
        self._lease = Lease(store, "forget idempotency keys", holder, FORGET_MS)
        self._task: asyncio.Task[None] | None = None

    async def begin(self, key: str, digest: str, running_ms: Millis = 0) -> None:
        """Remembers what the key is used for; the same key for something else is refused, and so
        is a copy of what is still running, for as long as it may run."""
        found, now = await self._store.documents(KIND, key)
        version = 0
        if found:
            version = found[0].version
            reserved = _read(found[0].body)
            if now - reserved.at_ms <= KEPT_MS:
                _check(reserved, digest, now)
                if reserved.made or not running_ms:
                    return
        mine = Reserved(digest, now, now + running_ms)
        if not await self._put(key, version + 1, mine):
            # A copy of the call was a moment faster.
            found, now = await self._store.documents(KIND, key)
            if found:
                _check(_read(found[0].body), digest, now)

    async def end(self, key: str, digest: str, *, made: bool | None) -> None:
        """It runs no longer. What was refused made nothing: the key may be used for something else.
        Where nobody knows (None), or it was made, only the same may come again."""
        found, _ = await self._store.documents(KIND, key)
        if not found or (reserved := _read(found[0].body)).digest != digest:
            return
        if made is False:
            await self._store.drop(KIND, key, found[0].version)
        elif reserved.until_ms:
            reserved.until_ms, reserved.made = 0, bool(made)
            await self._put(key, found[0].version + 1, reserved)

    async def _put(self, key: str, version: int, reserved: Reserved) -> bool:
        body = msgspec.json.encode(reserved).decode()
        return await self._store.put(Document(KIND, key, version, body))

    async def forget(self) -> int:
        """Those that are older than a day; how many."""
        found, now = await self._store.documents(KIND)
        old = [each for each in found if now - _read(each.body).at_ms > KEPT_MS]
        for document in old:
            await self._store.drop(KIND, document.id, document.version)
        return len(old)

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        await end_task(self._task)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(FORGET_MS / 1000)
            try:
                if await self._lease.hold():
                    await self.forget()
            except HoldfastError as trouble:
                log.warning("old idempotency keys were not forgotten: %s", trouble)
            except Exception:
                log.exception("old idempotency keys were not forgotten")


def _check(reserved: Reserved, digest: str, now: Millis) -> None:
    if reserved.digest != digest:
        detail = "this Idempotency-Key was used for something else"
        raise Problem(422, "idempotency_mismatch", detail)
    if reserved.until_ms > now:
        detail = "the first of these calls is still running"
        raise Problem(409, "in_progress", detail, headers={"Retry-After": "1"})
