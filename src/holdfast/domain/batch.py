"""One batch of one event: what to load, in which order, and every command decided.

It does no I/O. It is a generator that yields what it needs (`Fetch`) and is sent the rows, so that
a store that blocks, a store that awaits and a store of dicts all run the same code, and the order
in which rows are locked is written down here and nowhere else:

    buyers, seats, pools, holds, orders: each by full key in byte order;
    then the seats chosen as best available; then keys and ids of commands; then the clock.

The clock comes after the last wait, so that no decision is made with a time that passed while
waiting. What a hold or an order has never changes, so it may be read before anything is locked.
"""

from collections.abc import Collection, Generator, Iterable, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from holdfast.domain.commands import (
    AddCapacity,
    CancelOrder,
    Command,
    ConfirmHold,
    ExpireHolds,
    ExtendHold,
    OpenOrder,
    PayHold,
    PlaceHold,
    RecordCaptures,
    ReleaseHold,
    Sell,
    SettleOrder,
    StepOrder,
    Withdraw,
)
from holdfast.domain.decide import decide
from holdfast.domain.limits import RECORDS_KEPT_MS
from holdfast.domain.model import FOREVER_MS, Apart, Best, Claim, Hold, Millis, Order
from holdfast.domain.outcomes import Answer, Holder, Outcome, Reason, Refused
from holdfast.domain.picking import Unloaded
from holdfast.domain.seating import House
from holdfast.domain.shelf import Decision, KeyUse, Record, Shelf, free_from


class What(StrEnum):
    """What a batch may ask its store for, and what it is sent in return."""

    DUE = "due"  # [limit] -> holds whose deadline has passed, oldest first
    PEEK_HOLDS = "peek_holds"  # ids -> holds, not locked
    PEEK_ORDERS = "peek_orders"  # ids -> orders, not locked
    BUYERS = "buyers"  # buyers -> nothing; they are locked
    SEATS = "seats"  # ids -> seats, locked
    POOLS = "pools"  # ids -> pools, locked
    HOLDS = "holds"  # ids -> holds, locked
    DEAD_HOLDS = "dead_holds"  # ids -> holds, locked; those that others have locked are left out
    ORDERS = "orders"  # ids -> orders, locked
    HOUSE = "house"  # nothing -> [the house], or none without seats
    CHOSEN = "chosen"  # ids -> seats, locked; those that others have locked are left out
    PROBE = "probe"  # ids -> those that nobody has locked; none is locked afterwards
    RECORDS = "records"  # ids of commands -> records
    KEY_USES = "key_uses"  # keys -> what they were used for, in any event
    PAYMENTS = "payments"  # payments -> (payment, order) pairs
    NOW = "now"  # nothing -> [milliseconds]
    CLAIMS = "claims"  # (pool, hold) pairs -> claims
    LAPSED = "lapsed"  # (pool, units short) pairs -> enough of its lapsed claims, oldest first
    TALLIES = "tallies"  # buyers -> (buyer, Tally) pairs


class Moved(Exception):
    """What was read before the locks is no longer so: the batch has to be run again."""


class Fetch(msgspec.Struct, frozen=True, gc=False):
    what: What
    keys: Sequence[Any] = ()
    now: Millis = 0


# What is sent depends on what was asked for: `What` says which rows.
Batch = Generator[Fetch, Sequence[Any], list[Answer]]
Loading = Generator[Fetch, Sequence[Any], Millis]


def run(shelf: Shelf, commands: Sequence[Command]) -> Batch:
    """Loads what the commands name, then decides them in order of arrival."""
    now = yield from _load(shelf, commands)
    if shelf.hinted and shelf.house is not None:
        yield from _foresee(shelf, shelf.house, commands, now)
    answers = []
    for command in commands:
        answer = _replay(shelf, command, now) if shelf.records else None
        if answer is None and shelf.key_uses.now:
            answer = _misused(shelf, command, now)
        if answer is None:
            try:
                decision = decide(shelf, command, now)
            except Unloaded as missing:
                decision = yield from _load_and_decide(shelf, command, now, missing)
            answer = _taken(shelf, command, decision, now)
        answers.append(answer)
    return answers


def _replay(shelf: Shelf, command: Command, now: Millis) -> Answer | None:
    """The first answer, if the command has been here before."""
    record = shelf.records.get(command.id)
    if record is None:
        return None
    if record.digest != command.digest:
        return Answer(Refused(Reason.IDEMPOTENCY_MISMATCH, command.id))
    return Answer(record.outcome, replayed=True, now_ms=now, decided_ms=record.at_ms)


def _misused(shelf: Shelf, command: Command, now: Millis) -> Answer | None:
    """A refusal, if the command's key was used for something else."""
    if not isinstance(command, OpenOrder) or not command.used_for:
        return None
    use = shelf.key_uses.get(command.id)
    if use is None or use.digest == command.used_for or not _counts(use, now):
        return None
    return Answer(Refused(Reason.IDEMPOTENCY_MISMATCH, command.id))


def _counts(use: KeyUse, now: Millis) -> bool:
    return use.at_ms >= now - RECORDS_KEPT_MS


def _load_and_decide(
    shelf: Shelf, command: Command, now: Millis, missing: Unloaded
) -> Generator[Fetch, Sequence[Any], Decision]:
    rounds = 0
    while True:
        rounds += 1
        if rounds > 1 and shelf.skipped:
            yield from _probe(shelf, command, missing.best, now, PROBED_FIRST**rounds)
        yield from _load_chosen(shelf, missing.seats, now)
        try:
            return decide(shelf, command, now)
        except Unloaded as more:
            missing = more


def _taken(shelf: Shelf, command: Command, decision: Decision, now: Millis) -> Answer:
    """The answer, and what was decided put on the shelf."""
    # Without a house nothing was chosen from what others may have locked.
    if shelf.house and shelf.unsure and _may_be_met(shelf, command, decision.outcome, now):
        return Answer(decision.outcome, waiting_for=tuple(sorted(shelf.unsure)[:WAITED_MAX]))
    if decision.rows:
        shelf.take(decision)
        if command.digest or not isinstance(command, MAKERS):
            outcome = decision.recorded or decision.outcome
            shelf.record(Record(command.id, command.digest, outcome, now))
        if isinstance(command, OpenOrder) and command.used_for:
            _use_key(shelf, command, now)
    outcome = decision.outcome
    if not isinstance(outcome, Refused):
        return Answer(outcome, now_ms=now, decided_ms=now)
    return Answer(
        outcome,
        now_ms=now,
        decided_ms=now,
        holders=_holders(shelf, outcome),
        sold_out=_sold_out(shelf, outcome),
        as_of=shelf.as_of,
    )


def _use_key(shelf: Shelf, command: OpenOrder, now: Millis) -> None:
    use = shelf.key_uses.get(command.id)
    if use is None or not _counts(use, now):
        shelf.key_uses.put(KeyUse(command.id, command.used_for, now))


def _holders(shelf: Shelf, outcome: Refused) -> tuple[Holder, ...]:
    if outcome.reason is not Reason.TAKEN:
        return ()
    found = []
    for id in outcome.seats:
        seat = shelf.seats.now[id]
        hold = shelf.holds.get(seat.hold) if seat.hold is not None else None
        if hold is not None or seat.order is not None:
            found.append(Holder(id, hold.buyer if hold else None, seat.until_ms))
    return tuple(found)


def _sold_out(shelf: Shelf, outcome: Refused) -> str | None:
    """A channel's pool looks sold out to others, and one that is held is only short for a while."""
    if outcome.reason is not Reason.SOLD_OUT or not outcome.pools:
        return None
    pool = shelf.pools.now[outcome.pools[0]]
    return pool.id if pool.sold >= pool.capacity else None


MAKERS = (PlaceHold, ConfirmHold, Sell, OpenOrder, SettleOrder, StepOrder, RecordCaptures)
"""They make a row under an id of their own, or leave their id on the row that they change. If that
id is ours, nobody else can send it again, and the row is record enough for our own retry after a
lost reply."""


PROBED_FIRST = 8
WAITED_MAX = 500


def _may_be_met(shelf: Shelf, command: Command, outcome: Outcome, now: Millis) -> bool:
    """Whether an ask was refused only because others have locked seats: with those seats it could
    be met, so nobody knows yet."""
    short = isinstance(outcome, Refused) and outcome.reason in SHORTAGES and not outcome.pools
    if not short or shelf.house is None or not isinstance(command, PlaceHold | Sell):
        return False
    if shelf.surprises:
        return True
    with shelf.all_offered() as house:
        ask = command.ask
        without = (*ask.seats, *command.apart.seats)
        chosen = [house.choose(best, ask.channels, now, without) for best in ask.best]
    return bool(chosen) and all(isinstance(seats, list) for seats in chosen)


SHORTAGES = (Reason.SOLD_OUT, Reason.INSUFFICIENT, Reason.NOT_TOGETHER)


def _foresee(
    shelf: Shelf, house: House, commands: Sequence[Command], now: Millis
) -> Generator[Fetch, Sequence[Any], None]:
    """Chooses for each ask what it will probably get, and loads it all at once: one round trip
    for the batch instead of one for each ask. Deciding chooses again, from what was loaded."""
    marked: dict[str, Millis] = {}
    for command in commands:
        if not isinstance(command, PlaceHold | Sell):
            continue
        for best in command.ask.best:
            without = (*command.ask.seats, *command.apart.seats)
            chosen = house.choose(best, command.ask.channels, now, without)
            for id in chosen if isinstance(chosen, list) else ():
                marked[id] = house.until(id)
                house.set(id, FOREVER_MS)
    for id, until_ms in marked.items():
        house.set(id, until_ms)
    if unloaded := [id for id in marked if id not in shelf.seats.now]:
        yield from _load_chosen(shelf, unloaded, now)


def _probe(
    shelf: Shelf, command: Command, best: Best, now: Millis, most: int
) -> Generator[Fetch, Sequence[Any], None]:
    """Others have locked what was chosen, and probably its neighbours: finds out about more and
    more of the seats at once, so that half a locked house costs a few rounds, not hundreds."""
    if shelf.house is None or not isinstance(command, PlaceHold | Sell):
        return
    near = shelf.house.candidates(best, command.ask.channels, now, most)
    if unknown := sorted(id for id in near if id not in shelf.seats.now):
        unlocked = set((yield Fetch(What.PROBE, unknown)))
        for id in unknown:
            if id not in unlocked:
                shelf.skip(id)


def _load_chosen(
    shelf: Shelf, ids: Sequence[str], now: Millis
) -> Generator[Fetch, Sequence[Any], None]:
    # What this batch has changed is newer on the shelf than in the store.
    wanted = sorted(id for id in ids if id not in shelf.seats.was)
    seats = (yield Fetch(What.CHOSEN, wanted)) if wanted else []
    shelf.seats.load(seats)
    yield from _load_dead_holds(shelf, (seat.hold for seat in seats if seat.hold is not None))
    had = {seat.id for seat in seats if seat.hold is None or seat.hold in shelf.holds.now}
    for id in wanted:
        if id not in had:
            shelf.skip(id)
    if shelf.house is not None:
        for id in ids:
            if seat := shelf.seats.get(id):
                shelf.house.set(id, free_from(seat))
                if shelf.hinted and id not in shelf.seats.was and not seat.free(now):
                    # The hint was older than the row. What was taken since may have made other
                    # seats free, so a shortage is not to be believed.
                    shelf.surprises.add(id)


def _load_dead_holds(shelf: Shelf, ids: Iterable[str]) -> Generator[Fetch, Sequence[Any], None]:
    """Holds found late, after all that may be waited for: whoever else is at one keeps it."""
    if missing := sorted({id for id in ids if id not in shelf.holds.now}):
        shelf.holds.load((yield Fetch(What.DEAD_HOLDS, missing)))


def _load_holds(shelf: Shelf, ids: Iterable[str]) -> Generator[Fetch, Sequence[Any], None]:
    if missing := sorted({id for id in ids if id not in shelf.holds.now}):
        shelf.holds.load((yield Fetch(What.HOLDS, missing)))


class Needs:
    """The keys that a batch names."""

    def __init__(self, commands: Sequence[Command]) -> None:
        self.ids = [c.id for c in commands if c.digest or not isinstance(c, MAKERS)]
        self.keys: set[str] = set()
        self.seats: set[str] = set()
        self.holds: set[str] = set()
        self.new_holds: set[str] = set()
        self.orders: set[str] = set()
        self.new_orders: set[str] = set()
        self.payments: set[str] = set()
        self.buyers: set[str] = set()
        self.capped = False
        self.demand: dict[str, int] = {}
        self.best = False
        self.due = 0
        for command in commands:
            self._add(command)

    def _add(self, command: Command) -> None:
        match command:
            case PlaceHold():
                self._add_ask(command)
                self.new_holds.add(command.hold)
            case ConfirmHold():
                self.holds.add(command.hold)
                self._add_order(command)
            case ExtendHold() | ReleaseHold() | PayHold():
                self.holds.add(command.hold)
            case OpenOrder():
                self.holds.add(command.hold)
                self.new_orders.add(command.order)
                if command.used_for:
                    self.keys.add(command.id)
            case SettleOrder():
                self._add_settling(command)
            case StepOrder():
                self.new_orders.add(command.order)
            case RecordCaptures():
                self.new_orders.update([id for id, _ in command.orders])
            case Sell():
                self._add_ask(command)
                self._add_order(command)
                if command.hold is not None:
                    self.new_holds.add(command.hold)
            case CancelOrder():
                self.orders.add(command.order)
            case ExpireHolds():
                self.due = max(self.due, command.limit)
            case AddCapacity():
                self.seats.update(plan.id for plan in command.seats)
                self.add_pools({pool.id: 0 for pool in command.pools})
            case Withdraw():
                self.seats.update(command.seats)
                self._add_quantities(command.pools, command.apart)

    def _add_ask(self, command: PlaceHold | Sell) -> None:
        ask = command.ask
        self.seats.update(ask.seats)
        self.seats.update(command.waited)
        self.best = self.best or bool(ask.best)
        self.buyers.add(command.buyer)
        self.capped = self.capped or command.cap is not None
        if ask.pools:
            self._add_quantities(ask.pools, command.apart)

    def _add_settling(self, command: SettleOrder) -> None:
        self.holds.add(command.hold)
        self.new_orders.add(command.order)
        if command.late:
            self.buyers.add(command.buyer)
            self.best = self.best or command.other_seats
            self._add_quantities(command.pools, command.apart)

    def _add_quantities(self, pools: dict[str, int], apart: Apart) -> None:
        self.add_pools({id: units + apart.pools.get(id, 0) for id, units in pools.items()})

    def _add_order(self, command: ConfirmHold | Sell) -> None:
        self.new_orders.add(command.order)
        if command.payment is not None:
            self.payments.add(command.payment)

    def add_pools(self, pools: dict[str, int]) -> None:
        for pool, quantity in pools.items():
            self.demand[pool] = self.demand.get(pool, 0) + quantity

    def add_units(self, owners: Iterable[Hold | Order]) -> None:
        """The units of holds and orders that commands follow: to be locked, not to be had."""
        for owner in owners:
            self.seats.update(owner.seats)
            self.add_pools(dict.fromkeys(owner.pools, 0))


def _load(shelf: Shelf, commands: Sequence[Command]) -> Loading:
    needs = Needs(commands)
    followed = yield from _peek(shelf, needs)
    capped = needs.capped or (shelf.event is not None and shelf.event.max_per_buyer is not None)
    buyers = sorted(needs.buyers) if capped else []
    if buyers:
        yield Fetch(What.BUYERS, buyers)
    if needs.seats:
        shelf.seats.load((yield Fetch(What.SEATS, sorted(needs.seats))))
    if needs.demand:
        shelf.pools.load((yield Fetch(What.POOLS, sorted(needs.demand))))
    holders = {seat.hold for seat in shelf.seats.now.values() if seat.hold is not None}
    holders |= yield from _peek_lapsed(shelf, needs.demand)
    yield from _load_holds(shelf, needs.holds | needs.new_holds | holders)
    # A rival may have sold a hold since it was peeked at: then its order is wanted as well.
    needs.orders |= {
        hold.order for id in followed if (hold := shelf.holds.get(id)) and hold.order is not None
    }
    if orders := needs.orders | needs.new_orders:
        shelf.orders.load((yield Fetch(What.ORDERS, sorted(orders))))
    _check_units(shelf, followed, needs.orders)
    if needs.best:
        shelf.house = next(iter((yield Fetch(What.HOUSE))), None)
        _tell_house(shelf)
    if needs.keys:
        shelf.key_uses.load((yield Fetch(What.KEY_USES, sorted(needs.keys))))
    if needs.ids:
        records = yield Fetch(What.RECORDS, sorted(needs.ids))
        shelf.records = {record.id: record for record in records}
    if needs.payments:
        shelf.payments = dict((yield Fetch(What.PAYMENTS, sorted(needs.payments))))
    now: Millis = (yield Fetch(What.NOW))[0]
    yield from _load_claims(shelf, needs.demand, followed, now)
    if buyers:
        shelf.tallies = dict((yield Fetch(What.TALLIES, buyers)))
    return now


def _check_units(shelf: Shelf, holds: Iterable[str], orders: Iterable[str]) -> None:
    """What is followed must have come with its units. One that was made between the look and the
    lock has not: nobody knew which units to lock."""
    found = [*map(shelf.holds.get, holds), *map(shelf.orders.get, orders)]
    for owner in found:
        if owner is None:
            continue
        known = shelf.seats.now.keys() >= set(owner.seats)
        if not known or not shelf.pools.now.keys() >= owner.pools.keys():
            raise Moved(f"{owner.id} was made meanwhile")


def _tell_house(shelf: Shelf) -> None:
    """What was loaded is newer than what a hint knows."""
    if shelf.hinted and shelf.house is not None:
        for seat in shelf.seats.now.values():
            shelf.house.set(seat.id, free_from(seat))


def _peek(shelf: Shelf, needs: Needs) -> Generator[Fetch, Sequence[Any], Collection[str]]:
    """Finds the units of the holds and orders that commands follow; returns those holds."""
    if needs.due:
        due = yield Fetch(What.DUE, [needs.due])
        shelf.due = [hold.id for hold in due]
        needs.holds.update(shelf.due)
        needs.add_units(due)
    if needs.holds:
        holds = yield Fetch(What.PEEK_HOLDS, sorted(needs.holds))
        needs.add_units(holds)
        needs.orders.update(hold.order for hold in holds if hold.order is not None)
    if needs.orders:
        needs.add_units((yield Fetch(What.PEEK_ORDERS, sorted(needs.orders))))
    return needs.holds


def _short(shelf: Shelf, demand: dict[str, int]) -> list[tuple[str, int]]:
    """The pools that have less than is asked of them, and how many units less."""
    return sorted(
        (pool.id, demand[pool.id] - pool.free)
        for pool in shelf.pools.now.values()
        if demand[pool.id] > pool.free
    )


def _peek_lapsed(shelf: Shelf, demand: dict[str, int]) -> Generator[Fetch, Sequence[Any], set[str]]:
    """The dead holds whose stock will be wanted, while there is still time to wait for them."""
    if not (short := _short(shelf, demand)):
        return set()
    now: Millis = (yield Fetch(What.NOW))[0]
    return {claim.hold for claim in (yield Fetch(What.LAPSED, short, now))}


def _load_claims(
    shelf: Shelf, demand: dict[str, int], followed: Collection[str], now: Millis
) -> Generator[Fetch, Sequence[Any], None]:
    holds = [hold for id in followed if (hold := shelf.holds.get(id))]
    if shares := sorted((pool, hold.id) for hold in holds for pool in hold.pools):
        shelf.claims.load((yield Fetch(What.CLAIMS, shares)))
    if not (short := _short(shelf, demand)):
        return
    # Each lapsed claim gives back at least one unit: as many claims as units are short suffice.
    lapsed: Sequence[Claim] = yield Fetch(What.LAPSED, short, now)
    yield from _load_dead_holds(shelf, (claim.hold for claim in lapsed))
    for claim in lapsed:
        if claim.hold not in shelf.holds.now:
            raise Moved(f"{claim.hold} is being ended by somebody else")
        shelf.lapsed.setdefault(claim.pool, []).append(claim)
    shelf.claims.load(claim for claim in lapsed if claim.id not in shelf.claims.now)
