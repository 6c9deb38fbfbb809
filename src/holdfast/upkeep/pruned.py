"""How far each log was pruned. It is noted before facts go, so that a log that lost its beginning
in any other way is told from one that was pruned."""

import msgspec

from holdfast.domain.views import Document
from holdfast.errors import StoreBusy
from holdfast.ports import Store

KIND = "pruned"
TRIES_MAX = 10


class Noted(msgspec.Struct):
    through: int


_read = msgspec.json.Decoder(Noted).decode


async def note_pruned(store: Store, event: str, through: int) -> None:
    """Returns when it is noted that facts up to that number may be missing."""
    for _ in range(TRIES_MAX):
        noted, version = await _noted(store, event)
        if noted >= through:
            return
        body = msgspec.json.encode(Noted(through)).decode()
        if await store.put(Document(KIND, event, version + 1, body)):
            return
    raise StoreBusy(f"others note all the while how far {event} was pruned")


async def pruned_through(store: Store, event: str) -> int:
    """Up to which number facts may be missing; 0: the log was never pruned."""
    return (await _noted(store, event))[0]


async def _noted(store: Store, event: str) -> tuple[int, int]:
    documents, _ = await store.documents(KIND, event)
    return (_read(documents[0].body).through, documents[0].version) if documents else (0, 0)
