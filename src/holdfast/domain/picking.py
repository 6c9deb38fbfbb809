"""From an ask to the units that will meet it: all of them, or a refusal."""

from collections.abc import Sequence

from msgspec.structs import replace

from holdfast.domain import facts
from holdfast.domain.commands import PlaceHold, Sell
from holdfast.domain.facts import Fact
from holdfast.domain.model import (
    Apart,
    Ask,
    Best,
    Claim,
    Event,
    EventState,
    Hold,
    HoldState,
    Millis,
    Pool,
    Seat,
)
from holdfast.domain.outcomes import Reason, Refused
from holdfast.domain.seating import Shortage
from holdfast.domain.shelf import Row, Shelf


class Unloaded(Exception):
    """These seats were chosen but are not on the shelf yet: load them and decide again."""

    def __init__(self, seats: Sequence[str], best: Best) -> None:
        self.seats = seats
        self.best = best


class Basket:
    """Units that are free now, and the dead holds that have to be announced to take them."""

    __slots__ = ("amount", "dead", "facts", "pools", "seats", "spent")

    def __init__(self) -> None:
        self.seats: list[Seat] = []
        self.pools: list[tuple[Pool, int]] = []
        self.amount = 0
        self.dead: dict[str, Hold] = {}
        self.facts: list[Fact] = []
        self.spent: list[Claim] = []

    @property
    def rows(self) -> list[Row]:
        """Holds that are over and claims that were given back."""
        return [*self.dead.values(), *self.spent]


def pick(shelf: Shelf, event: Event, ask: Ask, now: Millis, apart: Apart) -> Basket | Refused:
    basket = Basket()
    no = (
        _pick_named(shelf, ask, now, basket, apart)
        or (ask.best and _pick_best(shelf, ask, now, basket, apart))
        or (ask.pools and _pick_pools(shelf, ask, now, basket, apart))
    )
    if no:
        return no
    for seat in basket.seats:
        basket.amount += event.prices[seat.tier]
    for pool, quantity in basket.pools:
        basket.amount += event.prices[pool.tier] * quantity
    return basket


def _pick_named(
    shelf: Shelf, ask: Ask, now: Millis, basket: Basket, apart: Apart
) -> Refused | None:
    seats = shelf.seats.now
    picked = basket.seats
    clash: list[str] = []
    for id in ask.seats:
        seat = seats.get(id)
        if seat is None:
            unknown = tuple(each for each in ask.seats if each not in seats)
            return Refused(Reason.UNKNOWN_UNIT, seats=unknown)
        # To an ask that may not have them, the seats of a channel look sold.
        closed = seat.channel is not None and seat.channel not in ask.channels
        if closed or not seat.free(now) or id in apart.seats:
            clash.append(id)
        else:
            picked.append(seat)
            if seat.hold is not None:
                bury(shelf, seat.hold, basket)
    return Refused(Reason.TAKEN, seats=tuple(clash)) if clash else None


def _pick_best(shelf: Shelf, ask: Ask, now: Millis, basket: Basket, apart: Apart) -> Refused | None:
    for best in ask.best:
        if shelf.house is None:
            return _shortage(best, 0)
        without = [*(seat.id for seat in basket.seats), *apart.seats]
        chosen = shelf.house.choose(best, ask.channels, now, without)
        if isinstance(chosen, Shortage):
            return _shortage(best, chosen.available)
        # The house only proposes: a seat counts by its row.
        loaded = shelf.seats.now
        if unsure := [id for id in chosen if id not in loaded or not loaded[id].free(now)]:
            raise Unloaded(unsure, best)
        for id in chosen:
            seat = shelf.seats.now[id]
            basket.seats.append(seat)
            if seat.hold is not None:
                bury(shelf, seat.hold, basket)
    return None


def _shortage(best: Best, available: int) -> Refused:
    if available == 0:
        return Refused(Reason.SOLD_OUT, available=0)
    if available < best.quantity:
        return Refused(Reason.INSUFFICIENT, available=available)
    return Refused(Reason.NOT_TOGETHER, available=available)


def _pick_pools(
    shelf: Shelf, ask: Ask, now: Millis, basket: Basket, apart: Apart
) -> Refused | None:
    for id, quantity in ask.pools.items():
        pool = shelf.pools.get(id)
        if pool is None:
            unknown = tuple(each for each in ask.pools if each not in shelf.pools.now)
            return Refused(Reason.UNKNOWN_UNIT, pools=unknown)
        if pool.channel is not None and pool.channel not in ask.channels:
            return Refused(Reason.SOLD_OUT, pools=(id,), available=0)
        needed = quantity + apart.pools.get(id, 0)
        if pool.free < needed:
            pool = reclaim(shelf, pool, needed, now, basket)
        if pool.free < needed:
            free = max(0, pool.free - apart.pools.get(id, 0))
            reason = Reason.INSUFFICIENT if free else Reason.SOLD_OUT
            return Refused(reason, pools=(id,), available=free)
        basket.pools.append((pool, quantity))
    return None


def reclaim(shelf: Shelf, pool: Pool, quantity: int, now: Millis, basket: Basket) -> Pool:
    """Gives lapsed claims back to the pool until it can meet the quantity."""
    for lapsed in shelf.lapsed.get(pool.id, ()):
        if pool.free >= quantity:
            break
        claim = shelf.claims.now[lapsed.id]
        if claim.quantity and claim.until_ms <= now:
            pool = replace(pool, held=pool.held - claim.quantity)
            basket.spent.append(replace(claim, quantity=0))
            bury(shelf, claim.hold, basket)
    return pool


def bury(shelf: Shelf, hold_id: str, basket: Basket) -> None:
    """Announces a dead hold, once. Its other units free themselves by their own deadline."""
    hold = shelf.holds.get(hold_id)
    if hold is not None and hold.open and hold_id not in basket.dead:
        dead = replace(hold, state=HoldState.EXPIRED, version=hold.version + 1)
        basket.dead[hold_id] = dead
        basket.facts.append(facts.of_hold(facts.HOLD_EXPIRED, dead, hold.state))


def over_cap(shelf: Shelf, event: Event, command: PlaceHold | Sell, now: Millis) -> Refused | None:
    """The cap counts live holds and sales together."""
    limit = event.max_per_buyer if event.max_per_buyer is not None else command.cap
    if limit is None:
        return None
    tally = shelf.tallies.get(command.buyer)
    units = command.ask.units + command.apart.units
    if units + (tally.units(now) if tally else 0) <= limit:
        return None
    return Refused(Reason.BUYER_CAP, cap=limit)


def not_on_sale(event: Event) -> Refused | None:
    if event.state is EventState.ON_SALE:
        return None
    return Refused(Reason.NOT_ON_SALE, value=event.state.value)
