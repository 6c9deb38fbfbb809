"""Rows as this process wrote them a moment ago: whoever pays for a hold mostly asks where he placed
it, and what was just written need not be looked at again.

None of it is believed. Others may have written since, so a row that was recalled counts only if
the batch writes it, guarded by what it was recalled as: then whoever was faster is found out. What
would have been decided on such a row without writing it, a refusal for one, is decided again on a
look.
"""

from typing import TypeVar

from holdfast.domain.model import Hold, Order, Seat
from holdfast.domain.shelf import Keyed, Rows, Shelf

ROWS_MAX = 50_000
"""Of all events."""

R = TypeVar("R", bound=Keyed)


class Written:
    """Of one event: open holds, their seats, and orders that somebody is at."""

    __slots__ = ("holds", "orders", "seats")

    def __init__(self) -> None:
        self.holds: dict[str, Hold] = {}
        self.orders: dict[str, Order] = {}
        self.seats: dict[str, Seat] = {}

    def __len__(self) -> int:
        return len(self.holds) + len(self.orders) + len(self.seats)

    def learn(self, shelf: Shelf) -> None:
        for hold in _changed(shelf.holds, self.holds):
            if hold.open:
                self.holds[hold.id] = hold
        for order in _changed(shelf.orders, self.orders):
            if order.due_ms is not None:
                self.orders[order.id] = order
        for seat in _changed(shelf.seats, self.seats):
            if seat.hold is not None and seat.order is None:
                self.seats[seat.id] = seat


def _changed(rows: Rows[R], known: dict[str, R]) -> list[R]:
    """The rows that a batch has written; what was known of them is forgotten."""
    for id in rows.was:
        known.pop(id, None)
    return [rows.now[id] for id in rows.was]


class Recent:
    def __init__(self) -> None:
        self._events: dict[str, Written] = {}
        self._rows = 0

    def __len__(self) -> int:
        return self._rows

    def of(self, event: str) -> Written:
        return self._events.get(event) or Written()

    def learn(self, event: str, shelf: Shelf) -> None:
        """What a batch has committed."""
        written = self._events.setdefault(event, Written())
        before = len(written)
        written.learn(shelf)
        self._rows += len(written) - before
        if not written:
            del self._events[event]
        if self._rows > ROWS_MAX:
            self.forget_all()

    def forget(self, event: str) -> None:
        self._rows -= len(self._events.pop(event, ()))

    def forget_all(self) -> None:
        self._events.clear()
        self._rows = 0
