"""A batch of plain holds in two round trips: look, and write what was decided.

Nothing is locked beforehand. The write is one statement, all of it or nothing, guarded by each seat
as it was looked at and by the event's version; if anybody was faster it fails as a whole, and the
batch is run again with locks. Most batches of a crowd meet nobody: people meet in this process.

The time is that of the look. That is safe for placing alone: a seat that was free then is free now
unless its row has changed, and a deadline is earlier by as long as the write had to wait.
"""

from collections.abc import Sequence
from typing import Any

from holdfast.domain.batch import Fetch, What
from holdfast.domain.commands import Command, PlaceHold
from holdfast.domain.model import Event, Millis
from holdfast.stores import Clock
from holdfast.stores.postgres.arrays import literal
from holdfast.stores.postgres.errors import Connection
from holdfast.stores.postgres.reading import SQL
from holdfast.stores.rows import to_hold, to_seat


class NotQuick(Exception):
    """It has to be done with locks."""


def fits(config: Event | None, commands: Sequence[Command]) -> bool:
    """Whether the batch only places holds on named seats, under ids of our own, without a cap."""
    if config is None or config.max_per_buyer is not None:
        return False
    for command in commands:
        if type(command) is not PlaceHold or command.digest or command.cap is not None:
            return False
        if command.ask.best or command.ask.pools or command.waited:
            return False
    return True


class Look:
    """Answers what such a batch asks for, and locks nothing."""

    def __init__(
        self,
        db: Connection,
        event: Event,
        new_holds: set[str],
        started: object,
        clock: Clock | None = None,
    ) -> None:
        self._db = db
        self._event = event
        self._new_holds = new_holds
        self._started = started
        self._clock = clock
        self.now: Millis = 0

    async def fetch(self, want: Fetch) -> Sequence[Any]:
        if want.what is What.SEATS:
            return await self._seats(want.keys)
        if want.what is What.HOLDS:
            return await self._holders([id for id in want.keys if id not in self._new_holds])
        if want.what is What.NOW and self.now:
            return [self.now]
        raise NotQuick

    async def _seats(self, ids: Sequence[str]) -> list[Any]:
        rows = await self._db.fetch(SQL["look"], self._event.id, literal(ids))
        *seats, counter = rows or [("", "", None, None, 0)]
        version, started, _, _, now, *_ = counter
        if (version, started) != (str(self._event.version), self._started):
            raise NotQuick  # the event has changed, or the server has
        self.now = self._clock() if self._clock else now
        return [to_seat(row) for row in seats]

    async def _holders(self, ids: list[str]) -> list[Any]:
        """Whoever is named on a seat. That a new hold's own id is free, the insert finds out."""
        if not ids:
            return []
        rows = await self._db.fetch(SQL["peek_holds"], self._event.id, literal(ids))
        return [to_hold(row) for row in rows]
