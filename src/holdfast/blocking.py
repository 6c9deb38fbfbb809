"""The same API for programs without an event loop: Django views, scripts, notebooks.

    with Holdfast.open("sqlite:///shop.db") as shop:
        shop.place_hold("e1", buyer="u1", seats=["A-1-1"])

Each call runs on a loop in a thread of its own. It may be called from any number of threads at
once, and the calls of all of them share batches.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from holdfast import engine
from holdfast.errors import NotOpen

P = ParamSpec("P")
R = TypeVar("R")

Async = Callable[Concatenate[engine.Holdfast, P], Coroutine[Any, Any, R]]


def _blocking(method: Async[P, R]) -> Callable[Concatenate["Holdfast", P], R]:
    """The method as it is, waited for."""

    def call(self: "Holdfast", /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._wait(method(self._shop, *args, **kwargs))

    call.__name__ = method.__name__
    call.__doc__ = method.__doc__
    return call


class Holdfast:
    def __init__(self, shop: engine.Holdfast) -> None:
        self._shop = shop
        self._loop: asyncio.AbstractEventLoop | None = None

    @classmethod
    def open(cls, store: str | None = None, *, upkeep: bool = True, **settings: Any) -> Self:
        """A shop on the store at that address, opened by `with`."""
        return cls(engine.Holdfast.open(store, upkeep=upkeep, **settings))

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="holdfast", daemon=True)
        self._thread.start()
        try:
            self._wait(self._shop.__aenter__())
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        """Answers everything that was taken, then closes."""
        try:
            self._wait(self._shop.__aexit__(*exc))
        finally:
            self._stop()

    def _wait(self, work: Coroutine[Any, Any, R]) -> R:
        if self._loop is None:
            work.close()
            raise NotOpen("the shop is not open: use it inside `with Holdfast.open(...)`")
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result()
        except CancelledError:
            raise NotOpen("the shop was closed before the answer came") from None

    def _stop(self) -> None:
        loop, self._loop = self._loop, None
        assert loop is not None
        asyncio.run_coroutine_threadsafe(_cancel_others(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join()
        loop.close()

    create_event = _blocking(engine.Holdfast.create_event)
    change_event = _blocking(engine.Holdfast.change_event)
    open_event = _blocking(engine.Holdfast.open_event)
    pause_event = _blocking(engine.Holdfast.pause_event)
    close_event = _blocking(engine.Holdfast.close_event)
    switch_gate = _blocking(engine.Holdfast.switch_gate)
    add_capacity = _blocking(engine.Holdfast.add_capacity)
    withdraw = _blocking(engine.Holdfast.withdraw)
    place_hold = _blocking(engine.Holdfast.place_hold)
    extend_hold = _blocking(engine.Holdfast.extend_hold)
    release_hold = _blocking(engine.Holdfast.release_hold)
    pay_hold = _blocking(engine.Holdfast.pay_hold)
    confirm_hold = _blocking(engine.Holdfast.confirm_hold)
    sell = _blocking(engine.Holdfast.sell)
    cancel_order = _blocking(engine.Holdfast.cancel_order)
    expire = _blocking(engine.Holdfast.expire)
    events = _blocking(engine.Holdfast.events)
    event = _blocking(engine.Holdfast.event)
    seats = _blocking(engine.Holdfast.seats)
    statuses = _blocking(engine.Holdfast.statuses)
    hold = _blocking(engine.Holdfast.hold)
    hold_now = _blocking(engine.Holdfast.hold_now)
    order = _blocking(engine.Holdfast.order)
    log = _blocking(engine.Holdfast.log)


async def _cancel_others() -> None:
    """Whoever still waits for this loop would wait for ever once it has stopped."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
