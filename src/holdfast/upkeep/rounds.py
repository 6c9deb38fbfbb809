"""What the last reconciliations came to, kept at the authority: whoever is asked can tell, though
another process did it."""

import logging

import msgspec
from msgspec.structs import replace

from holdfast.domain.model import Millis
from holdfast.domain.views import Document
from holdfast.errors import HoldfastError
from holdfast.ports import Store

KIND = "reconciliation"
ID = "gate"
EVENTS_MAX = 100
NAMES_MAX = 20
"""Of holds and orders in one event. A gate that lost everything lacks thousands."""

log = logging.getLogger("holdfast.upkeep")


class Fixed(msgspec.Struct, frozen=True):
    """What was mended in one event's gate."""

    event: str
    missing: int = 0
    orphans: int = 0
    stock: bool = False
    counters: int = 0
    broken: bool = False
    names: list[str] = []
    """The first of the holds and orders that were missing or orphans."""

    @property
    def found(self) -> int:
        return self.missing + self.orphans + self.stock + self.counters + self.broken


class Round(msgspec.Struct, frozen=True):
    """One look at every event that has a gate."""

    at_ms: Millis
    took_ms: Millis
    events: int
    """How many were compared."""
    found: int
    """How many differences there were, in all of them."""
    mended: list[Fixed] = []
    """The first of the events in which something differed."""
    failed: dict[str, str] = {}
    """The first of the events that could not be compared, and why not."""


class Rounds(msgspec.Struct, frozen=True):
    last: Round
    mended: Round | None = None
    """The last that had something to mend: the next one, half a minute later, mostly has not."""

    def then(self, newer: Round) -> "Rounds":
        return Rounds(newer, newer if newer.found else self.mended)


_read = msgspec.json.Decoder(Rounds).decode


async def read(store: Store) -> Rounds | None:
    """None: there was none yet."""
    documents, _ = await store.documents(KIND, ID)
    return _read(documents[0].body) if documents else None


async def note(store: Store, came_to: Round, known: Rounds | None) -> Rounds:
    """Writes it down, with the authority's time, and says what is known now. Should that fail, it
    is added to what this process knew, and the others hear of a later one."""
    rounds = known or Rounds(came_to)
    try:
        documents, now = await store.documents(KIND, ID)
        came_to = replace(came_to, at_ms=now)
        version = documents[0].version + 1 if documents else 1
        rounds = (_read(documents[0].body) if documents else rounds).then(came_to)
        # Of two at the same moment one is written; they say the same.
        await store.put(Document(KIND, ID, version, msgspec.json.encode(rounds).decode()))
    except HoldfastError as trouble:
        log.info("what a reconciliation came to was not written down: %s", trouble)
        rounds = rounds.then(came_to)
    return rounds
