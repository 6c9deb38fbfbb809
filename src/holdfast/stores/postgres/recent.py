"""Rows as this process wrote them a moment ago: whoever pays for a hold mostly asks where he placed
it, and what was just written need not be looked at again.

None of it is believed. Others may have written since, so a row that was recalled counts only if
the batch writes it, guarded by what it was recalled as: then whoever was faster is found out. What
would have been decided on such a row without writing it, a refusal for one, is decided again on a
look.
"""

from holdfast.domain.model import Hold, Order, Seat
from holdfast.domain.shelf import Shelf

ROWS_MAX = 50_000
EVENTS_MAX = 100


class Written:
    """Of one event: open holds, their seats, and orders that somebody is at."""

    __slots__ = ("holds", "orders", "seats")

    def __init__(self) -> None:
        self.holds: dict[str, Hold] = {}
        self.orders: dict[str, Order] = {}
        self.seats: dict[str, Seat] = {}

    def learn(self, shelf: Shelf) -> None:
        """What a batch has committed."""
        if len(self.holds) + len(self.orders) + len(self.seats) > ROWS_MAX:
            self.holds, self.orders, self.seats = {}, {}, {}
        for id in shelf.holds.was:
            hold = shelf.holds.now[id]
            if hold.open:
                self.holds[id] = hold
            else:
                self.holds.pop(id, None)
        for id in shelf.orders.was:
            order = shelf.orders.now[id]
            if order.due_ms is not None:
                self.orders[id] = order
            else:
                self.orders.pop(id, None)
        for id in shelf.seats.was:
            seat = shelf.seats.now[id]
            if seat.hold is not None and seat.order is None:
                self.seats[id] = seat
            else:
                self.seats.pop(id, None)


class Recent:
    def __init__(self) -> None:
        self._events: dict[str, Written] = {}

    def of(self, event: str) -> Written:
        found = self._events.get(event)
        if found is None:
            if len(self._events) >= EVENTS_MAX:
                self._events.clear()
            found = self._events[event] = Written()
        return found

    def forget(self, event: str) -> None:
        self._events.pop(event, None)

    def forget_all(self) -> None:
        self._events.clear()
