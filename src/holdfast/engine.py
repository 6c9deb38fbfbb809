"""The public Python API: submit a command, get its outcome.

    async with Holdfast.open("sqlite:///shop.db") as shop:
        match await shop.place_hold("e1", buyer="u1", seats=["A-1-1"]):
            case Placed(hold): ...
            case Refused(reason): ...

Refusals are values. What is raised is trouble that nobody decided: `Invalid` for malformed input,
`Overloaded` when too much is waiting, `StoreError` when the authority cannot be reached.
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Self, TypeVar, cast

from holdfast.catalogue import Catalogues
from holdfast.clerk import Clerk
from holdfast.domain import limits
from holdfast.domain.asks import (
    BestAsk,
    read_ask,
    read_labels,
    read_units_back,
    read_withdrawal,
)
from holdfast.domain.commands import Command
from holdfast.domain.facts import Entry
from holdfast.domain.faults import Fault, Faults
from holdfast.domain.gating import Owned
from holdfast.domain.model import Ask, EventState, Hold, Millis, Order
from holdfast.domain.outcomes import (
    Answer,
    Cancelled,
    Changed,
    Confirmed,
    Created,
    Expired,
    Extended,
    Paying,
    Placed,
    Reason,
    Refused,
    Released,
)
from holdfast.domain.plan import read_capacity, read_changes, read_event
from holdfast.domain.views import SeatMap, Statuses, Summary
from holdfast.errors import Invalid, Pruned
from holdfast.front import Front
from holdfast.gates.keeper import Keeper
from holdfast.ids import event_of, is_event_id
from holdfast.lanes import Lanes
from holdfast.ports import Committed, Gate, Store
from holdfast.refusals import Refusals
from holdfast.settings import Settings, load_settings
from holdfast.stores import Clock, host_clock
from holdfast.upkeep.expire import Announcer
from holdfast.upkeep.lease import Lease
from holdfast.upkeep.reconcile import Reconciler
from holdfast.wiring import make_gate, make_store

T = TypeVar("T")


class Holdfast:
    """A shop on one authority. Open it with `Holdfast.open`, use it from one event loop."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        *,
        gate: Gate | None = None,
        upkeep: bool = True,
        clock: Clock = host_clock,
    ) -> None:
        self.store = store
        self.gate = gate
        self.settings = settings
        self._lanes = Lanes(
            self._apply,
            lambda command: self._front.known(command),
            one_lane=store.one_lane,
            batch_max=settings.batch_max,
            commands_max=settings.lane_max,
            stall_seconds=settings.stall_seconds,
        )
        self.batched: Callable[[Sequence[Command], float], None] | None = None
        """Told of each batch that the store has applied, and in how many seconds."""
        self._lanes.shut("the shop is not open: use it inside `async with Holdfast.open(...)`")
        self.clerk = Clerk()
        lease = Lease(store, "upkeep", self.clerk.ids.new())
        self._announcer = Announcer(self.expire, store.due, settings.expire_seconds, lease)
        self._upkeep = upkeep
        self._clock = clock
        self._catalogues = Catalogues(store, settings.policy)
        self.refusals: Refusals | None = None
        if settings.refusal_cache:
            self.refusals = Refusals(store.heads, store.log, clock)
        self.keeper: Keeper | None = None
        self.reconciler: Reconciler | None = None
        if gate is not None:
            keeper = self.keeper = Keeper(gate, settings.gate_timeout_ms / 1000)
            every, holder = settings.reconcile_seconds, self.clerk.ids.new()
            self.reconciler = Reconciler(
                store, gate, self._catalogues, every, holder, lambda: keeper.state == "up"
            )
            keeper.recovered = self.reconciler.want
            keeper.failed = self.reconciler.notice
            self.reconciler.probe = keeper.probe
        self._front = Front(self._lanes.submit, self.keeper, self.refusals, self._catalogues, clock)
        self._front.reconcile = self.reconciler

    @classmethod
    def open(cls, store: str | None = None, *, upkeep: bool = True, **settings: Any) -> Self:
        """A shop on the store at that address, opened by `async with`.

        Settings that are not given come from the environment and from holdfast.toml. With
        `upkeep=False` this process announces no expired holds; their units are free all the same.
        """
        chosen = load_settings({"store": store, **settings})
        return cls(make_store(chosen), chosen, gate=make_gate(chosen), upkeep=upkeep)

    async def __aenter__(self) -> Self:
        await self.store.open()
        if self.gate is not None:
            await self.gate.open()
        self._lanes.open()
        if self._upkeep:
            self._announcer.start()
        if self.refusals is not None:
            self.refusals.start()
        if self.reconciler is not None:
            self.reconciler.start(periodic=self._upkeep)
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Answers everything that was taken, then closes."""
        try:
            await self._announcer.stop()
            for follower in (self.refusals, self.reconciler):
                if follower is not None:
                    await follower.stop()
        finally:
            try:
                await self._lanes.close()
            finally:
                await self._close_gate()
                await self.store.close()

    async def _close_gate(self) -> None:
        """After it was told everything."""
        if self.keeper is not None:
            await self.keeper.settled()
            await self.keeper.gate.close()

    def submit(self, command: Command) -> Awaitable[Answer]:
        """Any command, as it is. The methods below are this, with the input checked."""
        self._lanes.check_open()
        return self._front.submit(command)

    def waiting(self) -> list[int]:
        """How many commands wait for a batch, lane by lane."""
        return self._lanes.waiting()

    async def _apply(self, commands: Sequence[Command], committed: Committed) -> list[Answer]:
        began, asked_ms = time.perf_counter(), self._clock()
        answers = await self.store.apply(commands, committed)
        self._front.learn(commands, answers, asked_ms)
        if self.batched is not None:
            self.batched(commands, time.perf_counter() - began)
        return answers

    # Events

    async def create_event(
        self, event: Mapping[str, Any], *, idempotency_key: str | None = None
    ) -> Created | Refused:
        """A new event, from a description as docs/events.md has it."""
        plan = _valid(read_event(event))
        return await self._ask(Created, self.clerk.create_event(plan, _key(idempotency_key)))

    async def change_event(self, event: str, /, **changes: Any) -> Changed | Refused:
        """Changes settings of an event by name: state, deadlines, caps, prices, ranking, ..."""
        checked = _valid(read_changes(changes))
        return await self._ask(Changed, self.clerk.change_event(event, checked))

    async def open_event(self, event: str) -> Changed | Refused:
        """Puts an event on sale."""
        return await self.change_event(event, state=EventState.ON_SALE)

    async def pause_event(self, event: str) -> Changed | Refused:
        """No new holds; those there are may be paid for."""
        return await self.change_event(event, state=EventState.PAUSED)

    async def close_event(self, event: str) -> Changed | Refused:
        """As paused, but meant for good: the sale is over."""
        return await self.change_event(event, state=EventState.CLOSED)

    async def switch_gate(self, *, on: bool) -> list[str]:
        """Puts the gate before every event, or passes it by, while selling; which were changed."""
        changed = []
        for summary in await self.store.summaries():
            if summary.event.gate is not on:
                outcome = await self.change_event(summary.event.id, gate=on)
                changed += [summary.event.id] if isinstance(outcome, Changed) else []
        return changed

    async def add_capacity(self, event: str, units: Mapping[str, Any]) -> Changed | Refused:
        """Adds `sections`, `seats` and `pools` (described as for a new event), brings withdrawn
        seats back, and adds to the capacity of pools that are there already."""
        summary = await self.event(event)
        if summary is None:
            return Refused(Reason.UNKNOWN_EVENT, str(event))
        seats, pools = _valid(read_capacity(units, summary.event.prices))
        return await self._ask(Changed, self.clerk.add_capacity(event, seats, pools))

    async def withdraw(
        self, event: str, *, seats: Iterable[str] = (), pools: Mapping[str, int] | None = None
    ) -> Changed | Refused:
        """Takes units off sale that are neither sold nor held."""
        with _checking() as faults:
            named, counted = read_withdrawal(faults, seats, pools)
        return await self._ask(Changed, self.clerk.withdraw(event, named, counted))

    # Holds

    async def place_hold(
        self,
        event: str,
        *,
        buyer: str,
        seats: Iterable[str] = (),
        best: BestAsk | None = None,
        pools: Mapping[str, int] | None = None,
        channels: Iterable[str] = (),
        id: str | None = None,
        idempotency_key: str | None = None,
        cap: int | None = None,
    ) -> Placed | Refused:
        """Holds all of it or nothing.

        `best` is a number of seats side by side, or a mapping (or several) with quantity, section,
        tier, together, accessible. With `id` (the caller's own, for this hold) or
        `idempotency_key` the call may be repeated: what it made is made once. `cap` limits the
        buyer where the event does not.
        """
        with _checking() as faults:
            ask = read_ask(faults, seats, best, pools, channels)
            buyer = faults.label("buyer", buyer, limits.BUYER_CHARS_MAX)
            local = None if id is None else faults.caller_id("id", id)
            _check_cap(faults, cap)
        repeatable = id is not None or idempotency_key is not None
        if not repeatable and (no := self.remembered(event, buyer, ask)):
            return no
        key = _key(idempotency_key)
        command = self.clerk.place_hold(event, buyer, ask, id=local, key=key, cap=cap)
        return await self._ask(Placed, command)

    def remembered(self, event: str, buyer: str, ask: Ask) -> Refused | None:
        """The refusal of a moment ago, if the same would be refused again; for asks under no id of
        the caller's own, which may be repetitions."""
        self._lanes.check_open()
        return self._front.remembered(event, buyer, ask) if isinstance(event, str) else None

    async def extend_hold(
        self,
        hold: str,
        *,
        buyer: str | None = None,
        seconds: int | None = None,
        version: int | None = None,
        idempotency_key: str | None = None,
    ) -> Extended | Refused:
        """Moves both deadlines, by `seconds` or by the event's own length of a hold at most."""
        with _checking() as faults:
            _check_fence(faults, buyer, version)
            if seconds is not None:
                faults.integer("seconds", seconds, 1, limits.HOLD_SECONDS_MAX)
        key = _key(idempotency_key)
        return await self._follow(
            Extended,
            hold,
            lambda event: self.clerk.extend_hold(
                event, hold, buyer=buyer, seconds=seconds, version=version, key=key
            ),
        )

    async def release_hold(
        self, hold: str, *, buyer: str | None = None, version: int | None = None
    ) -> Released | Refused:
        """Gives the units back. Doing so again changes nothing."""
        with _checking() as faults:
            _check_fence(faults, buyer, version)
        return await self._follow(
            Released,
            hold,
            lambda event: self.clerk.release_hold(event, hold, buyer, version),
        )

    async def pay_hold(
        self, hold: str, *, buyer: str | None = None, version: int | None = None
    ) -> Paying | Refused:
        """Payment begins: the units stay until the hard deadline."""
        with _checking() as faults:
            _check_fence(faults, buyer, version)
        return await self._follow(
            Paying,
            hold,
            lambda event: self.clerk.pay_hold(event, hold, buyer, version),
        )

    async def confirm_hold(
        self,
        hold: str,
        *,
        buyer: str | None = None,
        version: int | None = None,
        payment: str | None = None,
        order: str | None = None,
        idempotency_key: str | None = None,
    ) -> Confirmed | Refused:
        """Sells what the hold holds. Confirming again gives the same order."""
        with _checking() as faults:
            _check_fence(faults, buyer, version)
            _check_payment(faults, payment)
            local = None if order is None else faults.caller_id("order", order)
        key = _key(idempotency_key)
        return await self._follow(
            Confirmed,
            hold,
            lambda event: self.clerk.confirm_hold(
                event, hold, buyer=buyer, version=version, payment=payment, order=local, key=key
            ),
        )

    async def expire(self, event: str, limit: int) -> Expired | Refused:
        """Announces holds whose deadline has passed; upkeep does so by itself."""
        with _checking() as faults:
            faults.integer("limit", limit, 1, limits.EXPIRE_MAX)
        return await self._ask(Expired, self.clerk.expire_holds(event, limit))

    # Orders

    async def sell(
        self,
        event: str,
        *,
        buyer: str,
        seats: Iterable[str] = (),
        best: BestAsk | None = None,
        pools: Mapping[str, int] | None = None,
        channels: Iterable[str] = (),
        payment: str | None = None,
        order: str | None = None,
        hold: str | None = None,
        idempotency_key: str | None = None,
        cap: int | None = None,
    ) -> Confirmed | Refused:
        """Sells without a hold in the authority, all of it or nothing. `hold` may name one that
        lived elsewhere, in a gate."""
        with _checking() as faults:
            ask = read_ask(faults, seats, best, pools, channels)
            buyer = faults.label("buyer", buyer, limits.BUYER_CHARS_MAX)
            local = None if order is None else faults.caller_id("order", order)
            _check_cap(faults, cap)
            _check_payment(faults, payment)
            if hold is not None and event_of(hold) != event:
                faults.add("hold", "must be the id of a hold of this event", hold)
        repeatable = any(each is not None for each in (order, idempotency_key, payment, hold))
        if not repeatable and (no := self.remembered(event, buyer, ask)):
            return no
        key = _key(idempotency_key)
        named = {"payment": payment, "order": local, "hold": hold, "key": key}
        return await self._ask(Confirmed, self.clerk.sell(event, buyer, ask, cap=cap, **named))

    async def cancel_order(
        self,
        order: str,
        *,
        seats: Iterable[str] = (),
        pools: Mapping[str, int] | None = None,
        idempotency_key: str | None = None,
    ) -> Cancelled | Refused:
        """Takes a sale back, or only the named units of it; they are free again. Doing so again
        changes nothing; for part of a pool that needs a key."""
        event = event_of(order)
        if event is None:
            return Refused(Reason.UNKNOWN_ORDER, str(order))
        with _checking() as faults:
            named = read_units_back(faults, seats, pools)
        key = _key(idempotency_key)
        return await self._ask(Cancelled, self.clerk.cancel_order(event, order, *named, key))

    # Reading

    async def events(self) -> list[Summary]:
        return [await self._front.summary(each) for each in await self._opened().summaries()]

    async def event(self, event: str) -> Summary | None:
        found = await self._opened().summaries(event) if is_event_id(event) else []
        return await self._front.summary(found[0]) if found else None

    async def seats(self, event: str, *, channels: Iterable[str] = ()) -> SeatMap | None:
        """The seat map and the number of the last fact it contains. Units of channels that are
        not named look sold."""
        with _checking() as faults:
            named = read_labels(faults, "channels", channels, limits.ASK_CHANNELS_MAX)
        seat_map = await self._opened().seat_map(event) if is_event_id(event) else None
        if seat_map is None:
            return None
        return (await self._front.seat_map(event, seat_map)).seen_by({None, *named})

    async def statuses(self, event: str) -> tuple[Statuses, list[Owned]] | None:
        """Which seats are not simply available, and what is held as a courtesy besides: the seat
        map without what never changes about it."""
        statuses = await self._opened().statuses(event) if is_event_id(event) else None
        if statuses is None:
            return None
        return statuses, await self._front.overlay(statuses.event)

    async def hold(self, hold: str) -> Hold | None:
        """The hold as it stands now: one past its deadline is expired, announced or not."""
        found = await self.hold_now(hold)
        return found[0] if found else None

    async def hold_now(self, hold: str) -> tuple[Hold, Millis] | None:
        """The hold as it stands, and what time it is."""
        event = event_of(hold)
        found = await self._opened().hold(event, hold) if event else None
        if found is None:
            courtesy = await self._front.courtesy(event, hold) if event else None
            return (courtesy, self._clock()) if courtesy else None
        row, now = found
        return row.seen(now), now

    async def order(self, order: str) -> Order | None:
        event = event_of(order)
        return await self._opened().order(event, order) if event else None

    async def log(self, event: str, *, after: int = 0, limit: int = 100) -> list[Entry]:
        """The facts with numbers above `after`, in order, none missing. A limit outside of 1 to
        10,000 is taken as the nearest of the two. Raises Pruned where the first of them are no
        longer there."""
        with _checking() as faults:
            faults.integer("after", after, -(2**62), 2**62)
            faults.integer("limit", limit, -(2**62), 2**62)
        if not is_event_id(event):
            return []
        most = min(max(limit, 1), limits.LOG_PAGE_MAX)
        begin = max(after, 0)
        entries = await self._opened().log(event, begin, most)
        # The last fact of a log is never pruned, so it shows.
        if entries and entries[0].seq != begin + 1:
            raise Pruned(event, entries[0].seq)
        return entries

    def _opened(self) -> Store:
        self._lanes.check_open()
        return self.store

    async def _ask(self, kind: type[T], command: Command) -> T | Refused:
        """The outcome, which is of the command's own kind or a refusal."""
        if not is_event_id(command.event):
            return Refused(Reason.UNKNOWN_EVENT, str(command.event))
        self._lanes.check_open()
        outcome = (await self._front.submit(command)).outcome
        assert isinstance(outcome, (kind, Refused)), outcome
        return outcome

    async def _follow(
        self, kind: type[T], hold: str, make: Callable[[str], Command]
    ) -> T | Refused:
        event = event_of(hold)
        if event is None:
            return Refused(Reason.UNKNOWN_HOLD, str(hold))
        return await self._ask(kind, make(event))


class _checking:  # noqa: N801 - reads as what it does: with _checking() as faults
    """Raises every fault that was found inside, at once. A class: it is on the hottest path, where
    a generator's context manager would cost as much as the decision."""

    def __enter__(self) -> Faults:
        self._faults = Faults()
        return self._faults

    def __exit__(self, kind: object, *exc: object) -> None:
        if kind is None and self._faults.found:
            raise Invalid(self._faults.found)


def _valid(read: T | list[Fault]) -> T:
    if isinstance(read, list):
        raise Invalid(cast(list[Fault], read))
    return read


def _key(idempotency_key: str | None) -> str | None:
    if idempotency_key is None:
        return None
    with _checking() as faults:
        return f"key:{faults.caller_id('idempotency_key', idempotency_key)}"


def _check_fence(faults: Faults, buyer: object, version: object) -> None:
    if buyer is not None:
        faults.label("buyer", buyer, limits.BUYER_CHARS_MAX)
    if version is not None:
        faults.integer("version", version, 0, limits.VERSION_MAX)


def _check_cap(faults: Faults, cap: object) -> None:
    if cap is not None:
        faults.integer("cap", cap, 1, limits.BUYER_CAP_MAX)


def _check_payment(faults: Faults, payment: object) -> None:
    if payment is not None:
        faults.label("payment", payment, limits.PAYMENT_CHARS_MAX)
