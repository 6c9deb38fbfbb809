"""Rows as this process wrote them a moment ago: whoever pays for a hold mostly asks where he placed
it, and what was just written need not be looked at again.

None of it is believed. Others may have written since, so a row that was recalled counts only if
the batch writes it, guarded by what it was recalled as: then whoever was faster is found out. What
would have been decided on such a row without writing it, a refusal for one, is decided again on a
look.
"""

from holdfast.domain.model import Hold, HoldState, Order, Seat
from holdfast.domain.shelf import Shelf

ROWS_MAX = 50_000
IDS_MAX = 200_000
"""Of all events."""


class Written:
    """Of one event: open holds, their seats, and orders that somebody is at. Of seats that are gone
    and of commands that are on record the ids are enough: nobody presumes that they are free."""

    __slots__ = ("commands", "gone", "holds", "orders", "seats")

    def __init__(self) -> None:
        self.holds: dict[str, Hold] = {}
        self.orders: dict[str, Order] = {}
        self.seats: dict[str, Seat] = {}
        self.gone: set[str] = set()
        self.commands: set[str] = set()

    @property
    def rows(self) -> int:
        return len(self.holds) + len(self.orders) + len(self.seats)

    @property
    def ids(self) -> int:
        return len(self.gone) + len(self.commands)

    def learn(self, shelf: Shelf) -> None:
        now = shelf.holds.now
        for id in shelf.holds.was:
            hold = now[id]
            if hold.state is HoldState.HELD or hold.state is HoldState.PAYING:
                self.holds[id] = hold
            else:
                self.holds.pop(id, None)
        if shelf.orders.was:
            self._learn_orders(shelf)
        seats, gone = self.seats, self.gone
        for id in shelf.seats.was:
            seat = shelf.seats.now[id]
            if seat.order is None and seat.hold is not None:
                seats[id] = seat
                continue
            seats.pop(id, None)
            if seat.order is not None or seat.withdrawn:
                gone.add(id)
            else:
                gone.discard(id)
        if shelf.recorded:
            self.commands.update([record.id for record in shelf.recorded])

    def _learn_orders(self, shelf: Shelf) -> None:
        for id in shelf.orders.was:
            order = shelf.orders.now[id]
            if order.due_ms is not None:
                self.orders[id] = order
            else:
                self.orders.pop(id, None)

    def forget_rows(self) -> None:
        for rows in (self.holds, self.orders, self.seats):
            rows.clear()


class Recent:
    def __init__(self) -> None:
        self._events: dict[str, Written] = {}
        self._rows = 0
        self._ids = 0

    def __len__(self) -> int:
        return self._rows

    def of(self, event: str) -> Written:
        return self._events.get(event) or Written()

    def learn(self, event: str, shelf: Shelf) -> None:
        """What a batch has committed."""
        written = self._events.setdefault(event, Written())
        rows, ids = written.rows, written.ids
        written.learn(shelf)
        self._rows += written.rows - rows
        self._ids += written.ids - ids
        if not (written.rows or written.ids):
            del self._events[event]
        if self._rows > ROWS_MAX or self._ids > IDS_MAX:
            self.forget_all()

    def used(self, event: str, key: str) -> None:
        """The key was used for something else, elsewhere: whoever comes with it again is looked at,
        and takes nobody else's batch down."""
        written = self._events.setdefault(event, Written())
        if key not in written.commands:
            written.commands.add(key)
            self._ids += 1

    def forget(self, event: str) -> None:
        """A row of it is not as it was recalled. What is gone or done stays so, mostly."""
        if written := self._events.get(event):
            self._rows -= written.rows
            written.forget_rows()

    def forget_all(self) -> None:
        self._events.clear()
        self._rows = self._ids = 0
