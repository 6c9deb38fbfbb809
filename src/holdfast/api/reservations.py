"""Idempotency keys of calls that make an event: such a key must be known before its event is."""

import msgspec

from holdfast.api.problems import Problem
from holdfast.domain.model import Millis
from holdfast.domain.views import Document
from holdfast.ports import Store

KIND = "idempotency"
KEPT_MS: Millis = 24 * 3600 * 1000


class Reserved(msgspec.Struct):
    digest: str
    at_ms: Millis


_read = msgspec.json.Decoder(Reserved).decode


async def reserve_key(store: Store, key: str, digest: str) -> None:
    """The same key with another body is refused, whichever event it would have made. What it made
    is recorded with the event itself; this only remembers what the key was first used for."""
    documents, now = await store.documents(KIND)
    for document in documents:
        reserved = _read(document.body)
        if now - reserved.at_ms > KEPT_MS:
            await store.drop(KIND, document.id, document.version)
        elif document.id == key:
            _check(reserved, digest)
            return
    mine = Reserved(digest, now)
    if await store.put(Document(KIND, key, 1, msgspec.json.encode(mine).decode())):
        return
    found, _ = await store.documents(KIND, key)
    if found:
        _check(_read(found[0].body), digest)


async def free_key(store: Store, key: str, digest: str) -> None:
    """What was refused made nothing: the key may be used for something else."""
    documents, _ = await store.documents(KIND, key)
    for document in documents:
        if _read(document.body).digest == digest:
            await store.drop(KIND, key, document.version)


def _check(reserved: Reserved, digest: str) -> None:
    if reserved.digest != digest:
        detail = "this Idempotency-Key was used for something else"
        raise Problem(422, "idempotency_mismatch", detail)
