"""A batch of plain holds and checkouts without a transaction around it: look, decide, write.

Nothing is locked beforehand. The write is one statement, all of it or nothing, guarded by each row
as it was looked at and by the event's version; if anybody was faster it fails as a whole, and the
batch is run again with locks. Most batches of a crowd meet nobody: people meet in this process.

The time is that of the look. A seat that was free then is free now unless its row has changed; a
hold that was alive then is still its buyer's if its row is the same, though its deadline may have
passed while the write waited.

What this process has written itself is not even looked at: see `recent`. Nor is, where a crowd
buys, what is most probably so: see `presumed`. Then the write is all there is.
"""

from collections.abc import Sequence
from typing import Any

from holdfast.domain.batch import Fetch, What
from holdfast.domain.commands import (
    Command,
    OpenOrder,
    PlaceHold,
    RecordCaptures,
    SettleOrder,
    StepOrder,
)
from holdfast.domain.model import Event, Hold, HoldState, Millis, Order, Seat
from holdfast.domain.shelf import KeyUse, Record, Shelf
from holdfast.stores import Clock
from holdfast.stores.postgres.arrays import literal
from holdfast.stores.postgres.errors import Connection
from holdfast.stores.postgres.presumed import Neighbours
from holdfast.stores.postgres.reading import SQL
from holdfast.stores.postgres.recent import Written
from holdfast.stores.rows import to_hold, to_key_use, to_order, to_record, to_seat

STEPS = (StepOrder, RecordCaptures)


class NotQuick(Exception):
    """It has to be done with locks."""


def fits(config: Event | None, commands: Sequence[Command]) -> bool:
    """Whether all of it can be guarded row by row: holds on named seats without a cap, and orders
    that are opened, sold in time, or gone on with."""
    if config is None:
        return False
    announces = False
    for command in commands:
        if type(command) is PlaceHold:
            announces = True
            if command.cap is not None or config.max_per_buyer is not None:
                return False
            if command.ask.best or command.ask.pools or command.waited:
                return False
        elif type(command) is SettleOrder:
            announces = True
            if command.late:
                return False
        elif type(command) is OpenOrder:
            announces = True
        elif type(command) not in STEPS:
            return False
    # The barrier looks for a fact: without one, what is written has to wait for the disk itself.
    return announces


class Look:
    """Answers what such a batch asks for, and locks nothing."""

    def __init__(
        self,
        db: Connection,
        event: Event,
        shelf: Shelf,
        commands: Sequence[Command],
        started: object,
        written: Written | None,
        presumed: tuple[Neighbours, Millis] | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Without what was `written` here before, nothing is taken for granted. What may be
        `presumed` is what seats are like, and the time."""
        self._db = db
        self._event = event
        self._shelf = shelf
        self._started = started
        self._clock = clock
        holding = [command for command in commands if type(command) is PlaceHold]
        opening = [command for command in commands if type(command) is OpenOrder]
        settling = (command.hold for command in commands if type(command) is SettleOrder)
        self._opened = {command.hold for command in opening}
        self._followed = self._opened.union(settling)
        self._repeatable = sorted(command.id for command in commands if command.digest)
        self._keys = {command.id for command in opening if command.used_for}
        self._records: list[Record] = []
        # That ids of our own are free, the inserts find out.
        new_holds = {command.hold for command in holding if not command.digest}
        new_orders = {command.order for command in opening if not command.digest}
        # An order under a key has an id of ours, too, unless its caller chose both.
        chosen = {command.order for command in opening if command.digest}
        assumed = chosen if written is not None else set()
        self._written = written = written or Written()
        self._neighbours: Neighbours | None = None
        self._asked: set[str] = set()
        named = {command.hold for command in holding if command.digest}
        # What was done here is on record, and whoever repeats it wants to hear of that.
        new = written.commands.isdisjoint(self._repeatable) and written.holds.keys().isdisjoint(
            named
        )
        if presumed is not None and new and named.isdisjoint(self._followed):
            self._neighbours, self._presumed_now = presumed
            self._asked.update(*[command.ask.seats for command in holding])
        else:
            named = set()
        self.presumed = bool(named)
        """Whether anything was taken for granted that nobody here has looked at or written."""
        self._holds: dict[str, Hold | None] = dict.fromkeys(new_holds | named)
        self._new_orders = new_orders | assumed
        self._unseen: tuple[set[str], set[str], set[str]] = (set(), named, assumed)
        """Ids of seats, holds and orders that were recalled, presumed or taken for granted."""
        self.looked = False
        """Whether the server was asked about seats, and the time."""
        self.seen: Sequence[Seat] = ()
        self.now: Millis = 0

    @property
    def sure(self) -> bool:
        """Whether every row that was not looked at is about to be written, and so guarded."""
        seats, holds, orders = self._unseen
        shelf = self._shelf
        return (
            shelf.seats.was.keys() >= seats
            and shelf.holds.was.keys() >= holds
            and shelf.orders.was.keys() >= orders
            and (self.looked or shelf.key_uses.was.keys() >= self._keys)
        )

    async def fetch(self, want: Fetch) -> Sequence[Any]:
        match want.what:
            case What.SEATS:
                return await self._fetch_seats(want.keys)
            case What.PEEK_HOLDS | What.HOLDS:
                return await self._fetch_holds(want.keys)
            case What.ORDERS:
                return await self._fetch_orders(want.keys)
            case What.KEY_USES:
                # That nobody has used them, the inserts find out.
                return [] if not self.looked else await self._fetch_key_uses(want.keys)
            case What.RECORDS if want.keys == self._repeatable and self.now:
                return self._records
            case What.NOW if self.now:
                return [self.now]
        raise NotQuick

    async def _fetch_seats(self, ids: Sequence[str]) -> list[Seat]:
        recalled: list[Seat] = []
        if self._followed:
            # Of what others hold, and somebody asks for, nothing will be written.
            known = self._written.seats
            near = filter(None, map(known.get, ids))
            recalled = [seat for seat in near if seat.hold in self._followed]
            unseen = self._unseen[0]
            unseen.update([seat.id for seat in recalled])
            ids = [id for id in ids if id not in unseen]
        if (neighbours := self._neighbours) is not None:
            presumed = self._presume(neighbours, ids)
            self._unseen[0].update([seat.id for seat in presumed])
            self.presumed = self.presumed or bool(presumed)
            if len(presumed) == len(ids):
                self.presumed = True  # the time at least
                self.now = self._presumed_now
                self._shelf.as_of = neighbours.seq
                return recalled + presumed
            recalled += presumed
            ids = [id for id in ids if id not in self._unseen[0]]
        self.looked = True
        rows = await self._rows("look", ids, self._repeatable)
        *found, counter = rows or [("", "", None, None, 0)]
        version, started, _, seq, now, *_ = counter
        if (version, started) != (str(self._event.version), self._started):
            raise NotQuick  # the event has changed, or the server has
        self._shelf.as_of = int(seq)
        self.now = self._clock() if self._clock else now
        if self._repeatable:
            told = [row for row in found if row[-1] is None]
            self._records = [to_record((id, *said, at)) for id, *said, _, at, _, _ in told]
            found = [row for row in found if row[-1] is not None]
        self.seen = [to_seat(row) for row in found]
        return [*recalled, *self.seen]

    def _presume(self, neighbours: Neighbours, ids: Sequence[str]) -> list[Seat]:
        """Those of the seats that are asked for, and that are free for all that is known here."""
        held, gone = self._written.seats, self._written.gone
        unknown = [id for id in ids if id in self._asked and id not in held and id not in gone]
        return [seat for id in unknown if (seat := neighbours.seat(id)) is not None]

    async def _fetch_holds(self, ids: Sequence[str]) -> list[Hold]:
        """Each is looked at once: what is decided is decided on that."""
        known = self._holds
        if new := [id for id in ids if id not in known]:
            known.update(dict.fromkeys(new))
            followed = self._followed.intersection(new)
            recalled = [hold for id in followed if (hold := self._written.holds.get(id))]
            self._unseen[1].update([hold.id for hold in recalled])
            known.update((hold.id, hold) for hold in recalled)
            if unknown := [id for id in new if known[id] is None]:
                found = [to_hold(row) for row in await self._rows("peek_holds", unknown)]
                known.update((hold.id, hold) for hold in found)
            for hold in filter(None, map(known.get, new)):
                if hold.state is HoldState.PAYING and hold.id in self._opened:
                    raise NotQuick  # opened once more it is not written, and so not guarded
        return [hold for id in ids if (hold := known[id]) is not None]

    async def _fetch_orders(self, ids: Sequence[str]) -> list[Order]:
        known = self._written.orders
        recalled = [order for id in ids if (order := known.get(id))]
        self._unseen[2].update([order.id for order in recalled])
        unknown = [id for id in ids if id not in known and id not in self._new_orders]
        found = await self._rows("peek_orders", unknown) if unknown else []
        return [*recalled, *map(to_order, found)]

    async def _fetch_key_uses(self, keys: Sequence[str]) -> list[KeyUse]:
        rows = await self._db.fetch(SQL["key_uses"], literal(keys))
        return [to_key_use(row) for row in rows]

    async def _rows(self, query: str, *keys: Sequence[str]) -> list[Any]:
        return list(await self._db.fetch(SQL[query], self._event.id, *map(literal, keys)))
