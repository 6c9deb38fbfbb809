"""The same API for programs without an event loop: Django views, scripts, notebooks.

    with Holdfast.open("sqlite:///shop.db") as shop:
        shop.place_hold("e1", buyer="u1", seats=["A-1-1"])

Each call runs on a loop in a thread of its own. It may be called from any number of threads at
once, and the calls of all of them share batches.
"""

from typing import Any, Self

from holdfast import engine
from holdfast.waiting import Blocking, waited


class Holdfast(Blocking[engine.Holdfast]):
    _name = "the shop"
    _opened_by = "with Holdfast.open(...)"

    @classmethod
    def open(cls, store: str | None = None, *, upkeep: bool = True, **settings: Any) -> Self:
        """A shop on the store at that address, opened by `with`."""
        return cls(engine.Holdfast.open(store, upkeep=upkeep, **settings))

    create_event = waited(engine.Holdfast.create_event)
    change_event = waited(engine.Holdfast.change_event)
    open_event = waited(engine.Holdfast.open_event)
    pause_event = waited(engine.Holdfast.pause_event)
    close_event = waited(engine.Holdfast.close_event)
    switch_gate = waited(engine.Holdfast.switch_gate)
    add_capacity = waited(engine.Holdfast.add_capacity)
    withdraw = waited(engine.Holdfast.withdraw)
    place_hold = waited(engine.Holdfast.place_hold)
    extend_hold = waited(engine.Holdfast.extend_hold)
    release_hold = waited(engine.Holdfast.release_hold)
    pay_hold = waited(engine.Holdfast.pay_hold)
    confirm_hold = waited(engine.Holdfast.confirm_hold)
    sell = waited(engine.Holdfast.sell)
    cancel_order = waited(engine.Holdfast.cancel_order)
    expire = waited(engine.Holdfast.expire)
    events = waited(engine.Holdfast.events)
    event = waited(engine.Holdfast.event)
    seats = waited(engine.Holdfast.seats)
    statuses = waited(engine.Holdfast.statuses)
    hold = waited(engine.Holdfast.hold)
    hold_now = waited(engine.Holdfast.hold_now)
    order = waited(engine.Holdfast.order)
    log = waited(engine.Holdfast.log)
