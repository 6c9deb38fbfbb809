"""What a process knows of an event without asking the authority each time: its settings, a second
old at most, and for courtesies what each unit costs and whom it is for."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec

from holdfast.domain.commands import PlaceHold
from holdfast.domain.model import Event, EventState, Hold, Millis
from holdfast.ports import Store

T = TypeVar("T")

AGE_SECONDS = 1.0
EVENTS_MAX = 10_000
CATALOGUES_MAX = 50


class Catalogue(msgspec.Struct):
    """Tier and channel of every unit that is there to be sold."""

    event: Event
    seats: dict[str, tuple[str, str | None]]
    pools: dict[str, tuple[str, str | None]]

    def price(self, command: PlaceHold) -> int | None:
        """What the ask costs; None if there is anything about it that the authority should say."""
        ask = command.ask
        if self.event.state is not EventState.ON_SALE:
            return None
        units = [(self.seats.get(id), 1) for id in ask.seats]
        units += [(self.pools.get(id), quantity) for id, quantity in ask.pools.items()]
        amount = 0
        for unit, quantity in units:
            if unit is None or (unit[1] is not None and unit[1] not in ask.channels):
                return None
            amount += self.event.prices[unit[0]] * quantity
        return amount


class Catalogues:
    def __init__(self, store: Store, policy: str) -> None:
        self._store = store
        self._policy = policy
        self._events: dict[str, tuple[float, Event | None]] = {}
        self._loading: dict[tuple[str, int], asyncio.Task[Any]] = {}  # an event, or a catalogue
        self._catalogues: dict[str, Catalogue] = {}

    def policy(self, event: Event | None) -> str:
        """The event's own, else the deployment's."""
        return (event.policy if event is not None else None) or self._policy

    def gated(self, event: Event | None) -> str:
        """The policy, if the gate stands before the event; else the authority's."""
        return self.policy(event) if event is not None and event.gate else "authority"

    async def event(self, id: str) -> Event | None:
        known = self._events.get(id)
        if known is not None and time.monotonic() - known[0] < AGE_SECONDS:
            return known[1]
        return await self._once((id, 0), lambda: self._load(id))

    async def _once(self, key: tuple[str, int], load: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """One look for all who want to know."""
        loading = self._loading.get(key)
        if loading is None:
            loading = self._loading[key] = asyncio.create_task(load())
            loading.add_done_callback(lambda task: self._loaded(key, task))
        found: T = await asyncio.shield(loading)
        return found

    def _loaded(self, key: tuple[str, int], task: "asyncio.Task[Any]") -> None:  # as above
        if self._loading.get(key) is task:
            del self._loading[key]

    async def hold(self, event: str, id: str) -> tuple[Hold, Millis] | None:
        """The authority's word about a hold, and its time."""
        return await self._store.hold(event, id)

    async def _load(self, id: str) -> Event | None:
        looked = time.monotonic()
        found = await self._store.summaries(id)
        event = found[0].event if found else None
        if len(self._events) >= EVENTS_MAX:
            self._events.clear()
        if self._loading.get((id, 0)) is asyncio.current_task():
            self._events[id] = (looked, event)  # else it was changed meanwhile
        return event

    async def all(self) -> list[Event]:
        return [summary.event for summary in await self._store.summaries()]

    async def catalogue(self, event: Event) -> Catalogue | None:
        known = self._catalogues.get(event.id)
        if known is None or known.event.version < event.version:
            known = await self._once((event.id, event.version), lambda: self._take(event.id))
        return known

    async def _take(self, id: str) -> Catalogue | None:
        census = await self._store.census(id)
        if census is None:
            return None
        if len(self._catalogues) >= CATALOGUES_MAX:
            self._catalogues.pop(next(iter(self._catalogues)))
        known = self._catalogues[census.event.id] = Catalogue(
            census.event,
            {seat.id: (seat.tier, seat.channel) for seat in census.seats if not seat.withdrawn},
            {pool.id: (pool.tier, pool.channel) for pool in census.pools},
        )
        return known

    def forget(self, id: str) -> None:
        self._events.pop(id, None)
        self._loading.pop((id, 0), None)
