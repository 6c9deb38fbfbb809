"""Decisions about events: create, open, pause, close, change, add and withdraw capacity."""

from collections.abc import Mapping

from msgspec.structs import replace

from holdfast.domain import facts, limits
from holdfast.domain.commands import AddCapacity, ChangeEvent, CreateEvent, Withdraw
from holdfast.domain.model import Event, Millis, Pool, Seat
from holdfast.domain.outcomes import Changed, Created, Reason, Refused
from holdfast.domain.picking import Basket, bury, reclaim
from holdfast.domain.shelf import Decision, Row, Shelf


def create(shelf: Shelf, command: CreateEvent) -> Decision:
    if shelf.event is not None:
        return Decision(Refused(Reason.EXISTS, command.event))
    plan = command.plan
    return Decision(
        Created(plan.event),
        [plan.event, *plan.seats, *plan.pools],
        [facts.of_event(facts.EVENT_CREATED, plan.event, plan.capacity)],
        capacity=plan.capacity,
    )


def change(shelf: Shelf, event: Event, command: ChangeEvent, now: Millis) -> Decision:
    changes = dict(command.changes)
    if isinstance(prices := changes.get("prices"), dict):
        # Units keep their tier, so a tier never loses its price.
        changes["prices"] = {**event.prices, **prices}
        if no := _too_much(shelf, 0, prices):
            return Decision(no)
        if changes["prices"] != event.prices:
            earlier = (*event.earlier_prices, (now, event.prices))
            event = replace(event, earlier_prices=earlier[-limits.EARLIER_PRICES_MAX :])
    different = tuple(name for name, value in changes.items() if getattr(event, name) != value)
    if not different:
        return Decision(Changed(event))
    changed = replace(
        event,
        **changes,
        version=event.version + 1,
        layout=event.layout + ("ranking" in different),
    )
    fact = facts.of_event(facts.EVENT_CHANGED, changed, _capacity(shelf), changed=different)
    return Decision(Changed(changed), [changed], [fact])


def add_capacity(shelf: Shelf, event: Event, command: AddCapacity, now: Millis) -> Decision:
    there = [shelf.seats.get(plan.id) for plan in command.seats]
    if clash := [seat.id for seat in there if seat is not None and not seat.withdrawn]:
        return Decision(Refused(Reason.EXISTS, value=", ".join(clash[:10]), seats=tuple(clash)))
    pools = [_enlarged(shelf.pools.get(pool.id), pool) for pool in command.pools]
    for no in (_unpriced(event, command, pools), _too_many(shelf, event, command, pools)):
        if no:
            return Decision(no)
    # From here the units must come.
    seats: list[Row] = [
        plan if seat is None else Seat(seat.id, seat.tier, seat.channel)
        for plan, seat in zip(command.seats, there, strict=True)
    ]
    changed = _relaid(event)
    fact = facts.of_event(
        facts.EVENT_CHANGED,
        changed,
        _capacity(shelf) + _added(command),
        changed=("capacity",),
        seats_added=tuple(plan.id for plan in command.seats),
        pools={pool.id: pool.capacity for pool in command.pools},
    )
    rows = [changed, *seats, *pools]
    return Decision(Changed(changed), rows, [fact], capacity=_added(command))


def _enlarged(was: Pool | None, more: Pool) -> Pool:
    """A pool that is there keeps its tier and channel; a new one's tier is its id by default."""
    if was is None:
        return more if more.tier else replace(more, tier=more.id)
    return replace(was, capacity=was.capacity + more.capacity)


def _unpriced(event: Event, command: AddCapacity, pools: list[Pool]) -> Refused | None:
    tiers = {plan.tier for plan in command.seats} | {pool.tier for pool in pools}
    unpriced = sorted(tiers - event.prices.keys())
    return Refused(Reason.UNKNOWN_UNIT, value=f"tier {unpriced[0]}") if unpriced else None


def _too_many(
    shelf: Shelf, event: Event, command: AddCapacity, pools: list[Pool]
) -> Refused | None:
    for pool in pools:
        if pool.capacity > limits.POOL_CAPACITY_MAX:
            return Refused(Reason.TOO_MUCH, str(pool.capacity), pools=(pool.id,))
    return _too_much(shelf, _added(command), event.prices)


def _added(command: AddCapacity) -> int:
    return len(command.seats) + sum(pool.capacity for pool in command.pools)


def withdraw(shelf: Shelf, event: Event, command: Withdraw, now: Millis) -> Decision:
    basket = Basket()
    rows: list[Row] = []
    clash: list[str] = []
    for id in command.seats:
        seat = shelf.seats.get(id)
        if seat is None or seat.withdrawn:
            return Decision(Refused(Reason.UNKNOWN_UNIT, seats=(id,)))
        if not seat.free(now) or id in command.apart.seats:
            clash.append(id)
        elif seat.hold is not None:
            bury(shelf, seat.hold, basket)
        rows.append(Seat(id, seat.tier, seat.channel, withdrawn=True))
    if clash:
        return Decision(Refused(Reason.TAKEN, seats=tuple(clash)))
    for id, quantity in command.pools.items():
        pool = shelf.pools.get(id)
        if pool is None:
            return Decision(Refused(Reason.UNKNOWN_UNIT, pools=(id,)))
        apart = command.apart.pools.get(id, 0)
        pool = reclaim(shelf, pool, quantity + apart, now, basket)
        if pool.free < quantity + apart:
            free = max(0, pool.free - apart)
            return Decision(Refused(Reason.INSUFFICIENT, pools=(id,), available=free))
        rows.append(replace(pool, capacity=pool.capacity - quantity))
    changed = _relaid(event)
    gone = len(command.seats) + sum(command.pools.values())
    fact = facts.of_event(
        facts.EVENT_CHANGED,
        changed,
        _capacity(shelf) - gone,
        changed=("capacity",),
        seats_withdrawn=command.seats,
        pools={id: -quantity for id, quantity in command.pools.items()},
    )
    return Decision(
        Changed(changed), [changed, *basket.rows, *rows], [*basket.facts, fact], capacity=-gone
    )


def _capacity(shelf: Shelf) -> int:
    """All units there are now, those of commands before this one in the batch included."""
    return shelf.totals.capacity + shelf.capacity


def _too_much(shelf: Shelf, added: int, prices: Mapping[str, int]) -> Refused | None:
    """What was earned stays earned; what is there may all be sold at the highest price."""
    units = shelf.totals.capacity + added
    worth = shelf.totals.revenue + units * max(prices.values(), default=0)
    return Refused(Reason.TOO_MUCH, str(worth)) if worth > limits.EVENT_WORTH_MAX else None


def _relaid(event: Event) -> Event:
    return replace(event, version=event.version + 1, layout=event.layout + 1)
