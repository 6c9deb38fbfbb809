"""Facts that somebody would not take, each with its reason: they wait here for a person, and the
rest goes on.

A letter is a document. It has the fact itself, where that is small enough; it is on the log too,
for as long as the log keeps it.
"""

import msgspec

from holdfast.domain.cloudevents import Message, cloud_event
from holdfast.domain.model import Millis
from holdfast.domain.views import Document
from holdfast.errors import HoldfastError
from holdfast.ports import Store

KIND = "dead-letter"
LETTERS_MAX = 10_000
"""Of one follower."""
COUNTED_FOR = 200
BODY_BYTES_MAX = 60_000
REASON_CHARS_MAX = 500


class TooManyLetters(HoldfastError):
    """So many are waiting that something else must be wrong: whoever adds one stands still."""


class DeadLetter(msgspec.Struct, frozen=True):
    id: str
    """As people name it: follower/event.number"""
    follower: str
    event: str
    seq: int
    type: str
    reason: str
    at_ms: Millis
    fact: str = ""
    """The CloudEvent; empty where it was too large for a document."""


_read = msgspec.json.Decoder(DeadLetter).decode


class DeadLetters:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._room: dict[str, int] = {}
        """How many more each follower may add before all are counted again."""

    async def add(self, follower: str, message: Message, reason: str) -> None:
        """Returns when it is there durably. Again changes nothing."""
        id = f"{follower}/{message.id}"
        there, now = await self._store.documents(KIND, id)
        if there:
            return
        await self._make_room(follower)
        fact = message.body.decode() if len(message.body) <= BODY_BYTES_MAX else ""
        letter = DeadLetter(
            *(id, follower, message.event, message.seq, message.type),
            *(reason[:REASON_CHARS_MAX], now, fact),
        )
        await self._store.put(Document(KIND, id, 1, msgspec.json.encode(letter).decode()))

    async def _make_room(self, follower: str) -> None:
        """Counting means reading them all, so it is done once for many."""
        if self._room.get(follower, 0) <= 0:
            letters = [each for each in await self.all() if each.follower == follower]
            if len(letters) >= LETTERS_MAX:
                raise TooManyLetters(
                    f"{LETTERS_MAX:,} dead letters of {follower} are waiting: "
                    "holdfast dead-letters shows them"
                )
            self._room[follower] = min(COUNTED_FOR, LETTERS_MAX - len(letters))
        self._room[follower] -= 1

    async def all(self) -> list[DeadLetter]:
        documents, _ = await self._store.documents(KIND)
        letters = [_read(document.body) for document in documents]
        return sorted(letters, key=lambda letter: (letter.at_ms, letter.event, letter.seq))

    async def find(self, id: str) -> DeadLetter | None:
        documents, _ = await self._store.documents(KIND, id)
        return _read(documents[0].body) if documents else None

    async def message(self, letter: DeadLetter) -> Message | None:
        """The fact again, from the letter or from the log; None where neither has it any more."""
        id = letter.id.rpartition("/")[2]
        if letter.fact:
            return Message(letter.event, letter.seq, id, letter.type, letter.fact.encode())
        for entry in await self._store.log(letter.event, letter.seq - 1, 1):
            if entry.seq == letter.seq:
                body = msgspec.json.encode(cloud_event(entry))
                return Message(letter.event, letter.seq, id, letter.type, body)
        return None

    async def drop(self, letter: DeadLetter) -> bool:
        """Whether it was there."""
        documents, _ = await self._store.documents(KIND, letter.id)
        return bool(documents) and await self._store.drop(KIND, letter.id, documents[0].version)
