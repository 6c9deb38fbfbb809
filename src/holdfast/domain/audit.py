"""What must be true of an event's rows and log, recomputed from scratch.

Holds and orders are the truth; seats, claims, pools and counters follow from them. `audit` lists
where the rows differ from what follows, `corrections` says what they should be, and `LogAudit`
replays the log and compares what it tells with the holds and orders that are there.
"""

from collections import Counter
from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from holdfast.domain import facts
from holdfast.domain.facts import Entry
from holdfast.domain.model import (
    FOREVER_MS,
    Claim,
    Event,
    Hold,
    HoldState,
    Millis,
    Order,
    OrderState,
    Pool,
    Seat,
    instant,
)
from holdfast.domain.views import Census


class Drift(msgspec.Struct, frozen=True):
    """A difference: where, what follows from holds and orders, and what was found."""

    event: str
    where: str
    expected: str
    found: str
    mendable: bool = True
    doubtful: bool = False
    """The truth itself is in doubt: holds, orders or the log do not tell the same."""

    def __str__(self) -> str:
        return f"{self.event}: {self.where}: expected {self.expected}, found {self.found}"


class Corrections(msgspec.Struct, frozen=True):
    """What follows from holds and orders. Seats and pools: only those that differ. The event gets
    a new layout, so that every process builds its house of free seats anew."""

    event: Event
    was_version: int
    seats: list[Seat]
    pools: list[Pool]
    claims: list[Claim]
    sold_seats: dict[str, str]
    deadlines: list[tuple[str, Millis | None]]
    """Of the holds whose row says otherwise."""
    capacity: int
    sold: int
    revenue: int
    changes: list[str]


def audit(census: Census) -> list[Drift]:
    return [
        *_oversold(census),
        *_unknown_units(census),
        *_misplaced_seats(census),
        *_differences(census),
    ]


def corrections(census: Census) -> Corrections:
    derived = _Derived(census)
    differ = _differences(census)
    event = census.event
    return Corrections(
        event=replace(event, version=event.version + 1, layout=event.layout + 1),
        was_version=event.version,
        seats=[seat for seat, was in derived.seats(census.seats) if seat != was],
        pools=[pool for pool, was in derived.pools(census.pools) if pool != was],
        claims=derived.claims,
        sold_seats={seat: order.id for seat, order in derived.sold_to.items()},
        deadlines=[(id, right) for id, right, _ in derived.deadlines(census)],
        capacity=derived.capacity,
        sold=derived.sold,
        revenue=derived.revenue,
        changes=[str(drift) for drift in differ],
    )


class _Derived:
    """Seats, claims, pools and counters as they follow from the holds and orders of a census."""

    def __init__(self, census: Census) -> None:
        known = {seat.id for seat in census.seats}
        orders = [order for order in census.orders if order.sold]
        open_holds = [hold for hold in census.holds if hold.open]
        # Of two orders with one seat the first keeps it; the audit reports the other as oversold.
        self.sold_to: dict[str, Order] = {}
        for order in sorted(orders, key=lambda order: (order.created_ms, order.id)):
            for seat in order.seats:
                if seat in known:
                    self.sold_to.setdefault(seat, order)
        self.held_by = {seat: hold for hold in open_holds for seat in hold.seats}
        self.now = census.now
        # A claim that outlived its hold is lapsed, and waits until its pool runs short.
        over = {hold.id for hold in census.holds if not hold.open}
        self.claims = [
            Claim(pool, hold.id, quantity, hold.until_ms)
            for hold in open_holds
            for pool, quantity in hold.pools.items()
        ] + [claim for claim in census.claims if claim.hold in over and claim.until_ms <= self.now]
        self.claims.sort(key=lambda claim: (claim.pool, claim.hold))
        self._claimed: Counter[str] = Counter()
        for claim in self.claims:
            self._claimed[claim.pool] += claim.quantity
        self._bought: Counter[str] = Counter()
        for order in orders:
            self._bought.update(order.pools)
        self.capacity = sum(not seat.withdrawn for seat in census.seats) + sum(
            pool.capacity for pool in census.pools
        )
        sold = sum(order.units for order in orders)
        self.sold = sold if sold <= self.capacity else census.sold
        self.revenue = sum(order.amount for order in orders)

    def seats(self, seats: Iterable[Seat]) -> Iterable[tuple[Seat, Seat]]:
        """Each seat as it should be and as it is."""
        for seat in seats:
            if order := self.sold_to.get(seat.id):
                right = replace(seat, hold=None, until_ms=FOREVER_MS, order=order.id)
            elif hold := self.held_by.get(seat.id):
                right = replace(seat, hold=hold.id, until_ms=hold.until_ms, order=None)
            elif seat.order is None and seat.until_ms <= self.now:
                right = seat  # free by its deadline; whose it was does not matter
            else:
                right = replace(seat, hold=None, until_ms=0, order=None)
            yield right, seat

    def deadlines(self, census: Census) -> Iterable[tuple[str, Millis | None, Millis | None]]:
        """Holds whose row says another deadline than follows: which, what follows, what it says."""
        for hold in census.holds:
            right = hold.until_ms if hold.open else None
            if (said := census.deadlines.get(hold.id)) != right:
                yield hold.id, right, said

    def pool(self, pool: Pool) -> Pool:
        return replace(pool, held=self._claimed[pool.id], sold=self._bought[pool.id])

    def pools(self, pools: Iterable[Pool]) -> Iterable[tuple[Pool, Pool]]:
        for pool in pools:
            right = self.pool(pool)
            # Oversold, which no row may say: left as it is, and reported for a person to decide.
            yield (right if right.free >= 0 else pool), pool


def _differences(census: Census) -> list[Drift]:
    derived = _Derived(census)
    event = census.event.id
    found = [
        Drift(event, f"seat {was.id}", _owner(right), _owner(was))
        for right, was in derived.seats(census.seats)
        if right != was
    ]
    found += [
        Drift(
            event,
            f"pool {was.id}",
            f"held {right.held}, sold {right.sold}",
            f"held {was.held}, sold {was.sold}",
        )
        for right, was in derived.pools(census.pools)
        if right != was
    ]
    found += _claim_drift(event, derived.claims, census.claims)
    found += [
        Drift(event, f"deadline of hold {id}", _when(right), _when(said))
        for id, right, said in derived.deadlines(census)
    ]
    backstop = {seat: order.id for seat, order in derived.sold_to.items()}
    for seat in sorted(backstop.keys() | census.sold_seats.keys()):
        right_order, order = backstop.get(seat), census.sold_seats.get(seat)
        if right_order != order:
            found.append(
                Drift(event, f"sold seat {seat}", right_order or "nobody", order or "nobody")
            )
    if census.event.version != census.version:
        versions = (str(census.event.version), str(census.version))
        found.append(Drift(event, "version of the counter", *versions))
    for name in ("capacity", "sold", "revenue"):
        right_number, number = getattr(derived, name), getattr(census, name)
        if right_number != number:
            found.append(Drift(event, name, str(right_number), str(number)))
    return found


def _claim_drift(event: str, right: list[Claim], found: list[Claim]) -> list[Drift]:
    rights = {claim.id: claim for claim in right}
    founds = {claim.id: claim for claim in found}
    return [
        Drift(
            event,
            f"claim on {key.replace(chr(10), ' of ')}",
            _share(rights.get(key)),
            _share(founds.get(key)),
        )
        for key in sorted(rights.keys() | founds.keys())
        if rights.get(key) != founds.get(key)
    ]


def _misplaced_seats(census: Census) -> list[Drift]:
    """Seats that are not what their plan says, and withdrawn seats that somebody has."""
    event = census.event.id
    seats = {seat.id: (seat.tier, seat.channel) for seat in census.seats}
    found = [
        Drift(event, f"plan of seat {id}", str(seats.get(id)), str(census.plans.get(id)), False)
        for id in sorted(seats.keys() | census.plans.keys())
        if seats.get(id) != census.plans.get(id)
    ]
    owned = {seat for order in census.orders if order.sold for seat in order.seats}
    owned |= {seat for hold in census.holds if hold.live(census.now) for seat in hold.seats}
    return found + [
        Drift(event, f"seat {seat.id}", "on sale, for somebody has it", "withdrawn", False)
        for seat in census.seats
        if seat.withdrawn and seat.id in owned
    ]


def _when(at_ms: Millis | None) -> str:
    return "none" if at_ms is None else instant(at_ms).isoformat(timespec="milliseconds")


def _share(claim: Claim | None) -> str:
    return f"{claim.quantity} until {_when(claim.until_ms)}" if claim else "nothing"


def _owner(seat: Seat) -> str:
    if seat.order is not None:
        held = f", held by {seat.hold}" if seat.hold is not None else ""
        return f"sold to {seat.order}{held}"
    if seat.hold is None and seat.until_ms == 0:
        return "free"
    return f"held by {seat.hold or 'nobody'} until {_when(seat.until_ms)}"


def _oversold(census: Census) -> list[Drift]:
    """Two owners of one unit. No program may choose which of two buyers loses his seat."""
    event = census.event.id
    owners: dict[str, list[str]] = {}
    claimants = [o for o in census.orders if o.sold] + [h for h in census.holds if h.open]
    for owner in claimants:
        for seat in owner.seats:
            owners.setdefault(seat, []).append(owner.id)
    found = [
        Drift(event, f"seat {seat}", "one owner", ", ".join(ids), mendable=False)
        for seat, ids in sorted(owners.items())
        if len(ids) > 1
    ]
    derived = _Derived(census)
    for pool in census.pools:
        right = derived.pool(pool)
        if right.free < 0:
            taken = f"{right.held} held and {right.sold} sold"
            most = f"at most {pool.capacity} units taken"
            found.append(Drift(event, f"pool {pool.id}", most, taken, mendable=False))
    return found


def _unknown_units(census: Census) -> list[Drift]:
    """Holds and orders of seats or pools that the event does not have."""
    known = {seat.id for seat in census.seats} | {pool.id for pool in census.pools}
    owners: list[Hold | Order] = [hold for hold in census.holds if hold.open]
    owners += [order for order in census.orders if order.sold]
    return [
        Drift(census.event.id, owner.id, "units that exist", unit, mendable=False)
        for owner in owners
        for unit in (*owner.seats, *owner.pools)
        if unit not in known
    ]


HOLD_STATES = {
    facts.HOLD_PLACED: HoldState.HELD,
    facts.HOLD_PAYING: HoldState.PAYING,
    facts.HOLD_RELEASED: HoldState.RELEASED,
    facts.HOLD_EXPIRED: HoldState.EXPIRED,
    facts.ORDER_CONFIRMED: HoldState.CONFIRMED,
}


UNTOLD = (
    *(OrderState.PENDING, OrderState.AUTHORIZED, OrderState.DECLINED),
    *(OrderState.VOIDED, OrderState.REFUNDED),
)


def _never_sold(order: Order) -> bool:
    """It never had anything: the log need not know of it."""
    called_off = order.checkout.method and order.checkout.settlement is None
    return order.state in UNTOLD or bool(order.state is OrderState.CANCELLED and called_off)


class Units(msgspec.Struct, frozen=True):
    buyer: str
    seats: tuple[str, ...]
    pools: dict[str, int]
    amount: int


class Told(msgspec.Struct, frozen=True):
    """A hold or an order as the log tells it. None: that was told by facts that were pruned."""

    state: str | None
    units: Units | None


class LogAudit:
    """Replays a log page by page: numbers without a gap, no unit with two owners at a time, and
    in the end the same holds and orders as the rows have. Where the oldest facts were pruned, it
    compares what the rest can tell: of units and orders that it has not met, anything may be true.
    """

    def __init__(self, event: str, pruned: int = 0) -> None:
        self.event = event
        self.pruned = self.seq = pruned
        self.holds: dict[str, Told] = {}
        self.orders: dict[str, Told] = {}
        self.owner: dict[str, str | None] = {}
        self.placed: set[str] = set()
        self.found: list[Drift] = []

    def read(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            if entry.seq != self.seq + 1:
                self._add("log", f"number {self.seq + 1}", f"number {entry.seq}")
            self.seq = entry.seq
            if entry.type.startswith(("hold.", "order.")):
                self._units(entry)

    def begins_after(self, pruned: int) -> None:
        """Facts up to that number were pruned, and no more: others at the beginning were lost."""
        if self.pruned > pruned:
            self._add("log", f"number {pruned + 1}", f"number {self.pruned + 1}")

    def _units(self, entry: Entry) -> None:
        data = entry.data
        hold: str | None = data.get("hold")
        order: str = data.get("order", "")
        told = Units(
            buyer=data.get("buyer", ""),
            seats=tuple(data.get("seats", ())),
            pools=data.get("pools", {}),
            amount=data.get("amount", 0),
        )
        if hold is not None and (state := HOLD_STATES.get(entry.type)):
            self.holds[hold] = Told(state, self._held(entry, hold, told))
        if entry.type == facts.ORDER_CONFIRMED:
            self.orders[order] = Told(OrderState.CONFIRMED, told)
            self._move(entry, told.seats, (None, hold), order)
        elif entry.type == facts.ORDER_CANCELLED:
            self._cancelled(entry, order, told)
        elif entry.type == facts.HOLD_PLACED:
            self.placed.add(str(hold))
            self._move(entry, told.seats, (None,), hold)
        elif entry.type in (facts.HOLD_RELEASED, facts.HOLD_EXPIRED):
            self._move(entry, told.seats, (hold,), None)

    def _held(self, entry: Entry, hold: str, told: Units) -> Units | None:
        if entry.data.get("settlement") is None:
            return told
        # A late payer may get other seats than he held.
        known = self.holds.get(hold)
        return known.units if known else None

    def _cancelled(self, entry: Entry, order: str, told: Units) -> None:
        """All of an order came back, or part of it."""
        self._move(entry, told.seats, (order,), None)
        known = self.orders.get(order)
        if known is None and self.pruned:
            self.orders[order] = Told(None, None)  # who knows how much of it there was
            return
        if known is not None:
            if (was := known.units) is None:
                return
            seats = tuple(id for id in was.seats if id not in told.seats)
            pools = {id: n - told.pools.get(id, 0) for id, n in was.pools.items()}
            pools = {id: n for id, n in pools.items() if n}
            if seats or pools:
                left = Units(was.buyer, seats, pools, was.amount - told.amount)
                self.orders[order] = Told(known.state, left)
                return
        self.orders[order] = Told(OrderState.CANCELLED, told)

    def _move(
        self, entry: Entry, seats: Iterable[str], before: tuple[str | None, ...], to: str | None
    ) -> None:
        for seat in seats:
            met = seat in self.owner or not self.pruned
            if met and (owner := self.owner.get(seat)) not in before:
                expected = " or ".join(str(each or "nobody") for each in before)
                self._add(f"log {entry.seq}, seat {seat}", expected, str(owner or "nobody"))
            self.owner[seat] = to

    def finish(self, census: Census) -> list[Drift]:
        if self.seq != census.seq:
            self._add("log", f"{census.seq} facts", f"{self.seq}")
        for kind, rows, told in (
            ("hold", census.holds, self.holds),
            ("order", census.orders, self.orders),
        ):
            for row in rows:
                if isinstance(row, Order) and _never_sold(row):
                    continue
                self._compare(f"{kind} {row.id or '(without an id)'}", told.pop(row.id, None), row)
            for id, left in told.items():
                # A hold that lived only in a gate is known from its order alone.
                if kind == "order" or id in self.placed:
                    self._add(
                        f"{kind} {id}", f"{left.state or OrderState.CANCELLED} by the log", "no row"
                    )
        return self.found

    def _compare(self, where: str, told: Told | None, row: Hold | Order) -> None:
        if told is None:
            if not self.pruned:
                self._add(where, "a fact on the log", "none")
            return
        state: str = row.state
        if state == OrderState.CAPTURED:
            state = OrderState.CONFIRMED  # money that was taken changes nothing about units
        compared = [("state", told.state, state)] if told.state is not None else []
        if told.units is not None:
            units = Units(row.buyer, row.seats, row.pools, row.amount)
            compared += [
                (name, getattr(told.units, name), getattr(units, name))
                for name in Units.__struct_fields__
            ]
        for name, said, is_now in compared:
            if said != is_now:
                self._add(f"{name} of {where}", f"{said} by the log", str(is_now))

    def _add(self, where: str, expected: str, found: str) -> None:
        doubt = Drift(self.event, where, expected, found, mendable=False, doubtful=True)
        self.found.append(doubt)
