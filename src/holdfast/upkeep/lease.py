"""Who does what is to be done once, of all the processes on one store.

A lease is a document with a holder and an end, by the authority's clock, replaced under its
version: of two who reach for it at once one gets it. Its version is the fence: it grows with every
holder.
"""

import msgspec

from holdfast.domain.model import Millis
from holdfast.domain.views import Document
from holdfast.ports import Store

KIND = "lease"
LEASE_MS: Millis = 5_000


class Held(msgspec.Struct):
    holder: str
    until_ms: Millis


_read = msgspec.json.Decoder(Held).decode


class Lease:
    def __init__(self, store: Store, name: str, holder: str, lease_ms: Millis = LEASE_MS) -> None:
        self._store = store
        self._name = name
        self._holder = holder
        self._lease_ms = lease_ms
        self.fence = 0
        """Of the last time it was had; 0: never."""

    async def hold(self) -> bool:
        """Whether it is ours: taken if it is free, lengthened when half of it is over."""
        documents, now = await self._store.documents(KIND, self._name)
        if not documents:
            return await self._take(0, now)
        held = _read(documents[0].body)
        if held.holder == self._holder and held.until_ms - now > self._lease_ms // 2:
            return True
        if held.holder == self._holder or held.until_ms <= now:
            return await self._take(documents[0].version, now)
        return False

    async def _take(self, version: int, now: Millis) -> bool:
        held = Held(self._holder, now + self._lease_ms)
        if await self._put(version + 1, held):
            self.fence = version + 1
            return True
        return False

    async def give_back(self) -> None:
        """So that the next need not wait for its end."""
        documents, _ = await self._store.documents(KIND, self._name)
        if documents and _read(documents[0].body).holder == self._holder:
            await self._put(documents[0].version + 1, Held(self._holder, 0))

    async def _put(self, version: int, held: Held) -> bool:
        body = msgspec.json.encode(held).decode()
        return await self._store.put(Document(KIND, self._name, version, body))
