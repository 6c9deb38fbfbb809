"""Between values of the domain and rows of SQL, the same for every SQL store.

Reading: a row becomes a value. Writing: what a batch changed becomes a list of `Write`s, in the
order in which everybody writes; a store runs each with its own dialect of the named query.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from holdfast.domain.audit import Corrections
from holdfast.domain.facts import Entry
from holdfast.domain.limits import RECORDS_KEPT_MS
from holdfast.domain.model import (
    NO_CHECKOUT,
    Checkout,
    Claim,
    Event,
    Hold,
    HoldState,
    Millis,
    Order,
    OrderState,
    Pool,
    Seat,
    SeatPlan,
    SeatState,
)
from holdfast.domain.outcomes import Outcome
from holdfast.domain.shelf import KeyUse, Record, Shelf
from holdfast.domain.views import (
    Census,
    Cursor,
    Document,
    Move,
    PoolView,
    SeatView,
    Statuses,
    Summary,
)

BETWEEN = "\x1f"
"""Between ids that SQL has put together: a control character, which is in no id."""

FORGET_FACTS = 256
"""As often as a log has grown by so many, what is older than it is kept is looked for. To look with
each batch took a tenth of PostgreSQL's time for a checkout, and on MySQL a round trip."""

# A row is a tuple of what the columns hold; the query says which.
Row = tuple[Any, ...]

read_config = msgspec.json.Decoder(Event).decode
read_data = msgspec.json.Decoder(dict[str, Any]).decode
_read_outcome = msgspec.json.Decoder(Outcome).decode
_read_seats = msgspec.json.Decoder(tuple[str, ...]).decode
_read_pools = msgspec.json.Decoder(dict[str, int]).decode
_read_checkout = msgspec.json.Decoder(Checkout).decode
_encode = msgspec.json.Encoder().encode

_HOLD_STATES = {state.value: state for state in HoldState}
_ORDER_STATES = {state.value: state for state in OrderState}
_SEAT_STATES = {state.value: state for state in SeatState}


def to_json(value: Any) -> str:  # any value of the domain
    # What most holds and orders have of pools need not be encoded.
    return _encode(value).decode() if value != {} else "{}"


def to_seat(row: Row) -> Seat:
    id, tier, channel, hold, until_ms, order, withdrawn = row
    return Seat(id, tier, channel, hold, until_ms, order, bool(withdrawn))


def to_pool(row: Row) -> Pool:
    return Pool(*row)


def to_claim(row: Row) -> Claim:
    return Claim(*row)


def to_hold(row: Row) -> Hold:
    id, event, buyer, state, seats, pools, *rest = row
    try:
        units = (_read_seats(seats), _read_pools(pools))
        return Hold(id, event, buyer, _HOLD_STATES[state], *units, *rest)
    except (ValueError, KeyError, TypeError) as cause:
        raise ValueError(f"hold {id}: {cause}") from cause


def to_order(row: Row) -> Order:
    id, event, buyer, state, seats, pools, *rest, checkout = row
    try:
        units = (_read_seats(seats), _read_pools(pools))
        # Two characters, or bytes, are {}: an order from before there was a checkout.
        way = NO_CHECKOUT if len(checkout) == 2 else _read_checkout(checkout)
        return Order(id, event, buyer, _ORDER_STATES[state], *units, *rest, way)  # type: ignore[call-arg]  # as to_plan
    except (ValueError, KeyError, TypeError) as cause:
        raise ValueError(f"order {id}: {cause}") from cause


def to_plan(row: Row) -> SeatPlan:
    accessible, companion, restricted_view, channel = row[8:]
    flags = (bool(accessible), bool(companion), bool(restricted_view))
    return SeatPlan(*row[:8], *flags, channel)  # type: ignore[call-arg]  # row has any length


def to_record(row: Row) -> Record:
    id, digest, outcome, at_ms = row
    return Record(id, digest, _read_outcome(outcome), at_ms)


def to_key_use(row: Row) -> KeyUse:
    return KeyUse(*row)


def to_plan_traits(row: Row) -> tuple[str, tuple[str, str | None]]:
    id, tier, channel = row
    return id, (tier, channel)


def to_head(row: Row) -> tuple[str, int]:
    event, seq = row
    return event, seq


def to_pair(row: Row) -> tuple[str, str]:
    left, right = row
    return left, right


def to_summary(row: Row) -> Summary:
    config, *numbers = row
    return Summary(read_config(config), *numbers)


def to_seat_view(row: Row) -> SeatView:
    id, section, name, number, tier, x, y, state, channel, *flags = row
    seat = (id, section, name, number, tier, x, y)
    return SeatView(*seat, _SEAT_STATES[state], channel, *map(bool, flags))


def to_pool_view(row: Row) -> PoolView:
    return PoolView(*row)


def to_statuses(standing: Row, now: Millis, ids: Row, pools: Iterable[Row]) -> Statuses:
    """Made of an event's configuration and last fact, and of its seats, held and sold, each as one
    text: a value for each of many thousands would keep the event loop waiting."""
    config, seq = standing
    held, sold = (text.split(BETWEEN) if text else [] for text in ids)
    return Statuses(read_config(config), seq, now, held, sold, [to_pool_view(row) for row in pools])


def to_document(row: Row) -> Document:
    return Document(*row)


def to_entry(row: Row) -> Entry:
    event, seq, type, at_ms, data = row
    return Entry(event, seq, type, at_ms, read_data(data))


def to_cursor(row: Row) -> Cursor:
    return Cursor(*row)


CENSUS = (
    *("census_seats", "census_pools", "census_claims", "census_holds", "census_orders"),
    *("census_sold", "census_deadlines", "census_plans"),
)
"""The queries whose rows make a census, besides counters and configuration."""


def to_census(
    counters: Row, config: Any, now: Millis, rows: Mapping[str, Iterable[Row]]
) -> Census:  # the configuration as the driver gives it, text or bytes
    version, seq, capacity, sold, revenue = counters
    return Census(
        event=read_config(config),
        now=now,
        version=version,
        seq=seq,
        capacity=capacity,
        sold=sold,
        revenue=revenue,
        seats=[to_seat(row) for row in rows["census_seats"]],
        pools=[to_pool(row) for row in rows["census_pools"]],
        claims=[to_claim(row) for row in rows["census_claims"]],
        holds=[to_hold(row) for row in rows["census_holds"]],
        orders=[to_order(row) for row in rows["census_orders"]],
        sold_seats=dict(to_pair(row) for row in rows["census_sold"]),
        deadlines=dict(to_head(row) for row in rows["census_deadlines"]),
        plans=dict(to_plan_traits(row) for row in rows["census_plans"]),
    )


class Write(NamedTuple):
    """A query, and the rows to run it with. Guarded: each row must change exactly one row, else
    somebody else was there first."""

    query: str
    rows: list[Row]
    guarded: bool = False


def changes(shelf: Shelf, now: Millis, last_position: int) -> Iterator[Write]:
    """Everything that a batch changed but its event's counter and the log, which come last."""
    yield from _event_changes(shelf)
    yield from _seat_changes(shelf, last_position)
    yield from _pool_changes(shelf)
    yield from _claim_changes(shelf)
    yield from _hold_changes(shelf)
    yield from _order_changes(shelf)
    if shelf.recorded:
        records = sorted(shelf.recorded, key=lambda record: record.id)
        event = shelf.event_id
        yield Write(
            "insert_record",
            [(event, r.id, r.digest, to_json(r.outcome), r.at_ms) for r in records],
        )
    if shelf.key_uses.was:
        yield from _key_changes(shelf)
    # Old ones never pile up, and nobody has to sweep: of those that add some, whoever moves the log
    # past a certain number forgets twice as many as it has moved since the last.
    if most := 2 * _passed(shelf):
        if shelf.recorded:
            yield Write("forget_records", [(shelf.event_id, now - RECORDS_KEPT_MS, most)])
        if shelf.key_uses.was:
            yield Write("forget_keys", [(now - RECORDS_KEPT_MS, most)])


def advance(shelf: Shelf) -> Row:
    """How the event's counter moves on, and under which version of the event it was decided."""
    event, was = shelf.event, shelf.event_was
    assert event is not None, "a batch changed an event that is not there"
    moved = (len(shelf.facts), event.version, shelf.capacity, shelf.sold, shelf.revenue)
    return (*moved, event.id, (was or event).version)


def log_rows(shelf: Shelf, last: int, now: Millis) -> list[Row]:
    """The facts, numbered so that the last of them has the number `last`."""
    numbers = range(last - len(shelf.facts) + 1, last + 1)
    return [
        (shelf.event_id, seq, fact.type, now, to_json(fact.data))
        for seq, fact in zip(numbers, shelf.facts, strict=True)
    ]


def mending(event: str, fixes: Corrections) -> Iterator[Write]:
    yield Write("clear_claims", [(event,)])
    yield Write("clear_sold", [(event,)])
    yield Write("mend_seat", [(s.hold, s.until_ms, s.order, event, s.id) for s in fixes.seats])
    yield Write("mend_pool", [(pool.held, pool.sold, event, pool.id) for pool in fixes.pools])
    claims = [(event, c.pool, c.hold, c.quantity, c.until_ms) for c in fixes.claims]
    yield Write("insert_claim", claims)
    yield Write("insert_sold", [(event, *sold) for sold in sorted(fixes.sold_seats.items())])
    deadlines = [(until, event, id) for id, until in fixes.deadlines]
    yield Write("mend_deadline", deadlines)
    config = (fixes.event.version, to_json(fixes.event), event, fixes.was_version)
    yield Write("update_event", [config], True)
    counts = (fixes.capacity, fixes.sold, fixes.revenue)
    yield Write("mend_counters", [(fixes.event.version, *counts, event)])


def putting(document: Document) -> tuple[str, Row]:
    """The query that writes a document if the version before is there, and what to run it with."""
    key = (document.kind, document.id)
    if document.version == 1:
        return "insert_document", (*key, document.version, document.body)
    return "update_document", (document.version, document.body, *key, document.version - 1)


def first_claims(claims: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The first claim of each key, in the order of keys in which everybody writes them: no two wait
    for each other in a ring."""
    return sorted(dict(reversed(claims)).items())


def first_moves(moves: Sequence[Move]) -> list[Move]:
    """The first move of each event, in the order of events in which everybody moves cursors."""
    first = {move.event: move for move in reversed(moves)}
    return [first[event] for event in sorted(first)]


def _event_changes(shelf: Shelf) -> Iterator[Write]:
    event, was = shelf.event, shelf.event_was
    if event is None or event is was:
        return
    if was is None:
        yield Write("insert_event", [(event.id, event.version, to_json(event))])
        yield Write("insert_counters", [(event.id, event.version)])
    else:
        yield Write("update_event", [(event.version, to_json(event), event.id, was.version)], True)


def _seat_changes(shelf: Shelf, last_position: int) -> Iterator[Write]:
    event = shelf.event_id
    if shelf.plans:
        yield Write(
            "insert_plan",
            [
                (event, *msgspec.structs.astuple(plan), position)
                for position, plan in enumerate(shelf.plans, last_position + 1)
            ],
        )
        seats = [(event, plan.id, plan.tier, plan.channel) for plan in shelf.plans]
        yield Write("insert_seat", seats)
    moved, unsold, sold = [], [], []
    for was, seat in shelf.seats.changes():
        assert was is not None, "seats come from plans"
        before = (event, seat.id, was.hold, was.until_ms, was.order)
        moved.append((seat.hold, seat.until_ms, seat.order, seat.withdrawn, *before))
        if was.order != seat.order:
            # Only an order that gave the seat back gives its row up: else the backstop would make
            # way for the very mistake it is there to stop.
            order = shelf.orders.get(was.order) if was.order is not None else None
            if order is not None and not (order.sold and seat.id in order.seats):
                unsold.append((event, seat.id, order.id))
            if seat.order is not None:
                sold.append((event, seat.id, seat.order))
    yield Write("update_seat", moved, True)
    yield Write("delete_sold", unsold, True)
    yield Write("insert_sold", sold)


def _pool_changes(shelf: Shelf) -> Iterator[Write]:
    event = shelf.event_id
    new, moved = [], []
    for was, pool in shelf.pools.changes():
        counts = (pool.capacity, pool.held, pool.sold)
        if was is None:
            new.append((event, pool.id, pool.tier, pool.channel, *counts))
        else:
            moved.append((*counts, event, pool.id, was.capacity, was.held, was.sold))
    yield Write("insert_pool", new)
    yield Write("update_pool", moved, True)


def _claim_changes(shelf: Shelf) -> Iterator[Write]:
    new, moved, gone = [], [], []
    for was, claim in shelf.claims.changes():
        key = (shelf.event_id, claim.pool, claim.hold)
        if was is None and claim.quantity:
            new.append((*key, claim.quantity, claim.until_ms))
        elif was is not None and not claim.quantity:
            gone.append(key)
        elif was is not None and was.until_ms != claim.until_ms:
            moved.append((claim.until_ms, *key, was.until_ms))
    yield Write("insert_claim", new)
    yield Write("update_claim", moved, True)
    yield Write("delete_claim", gone, True)


def _hold_changes(shelf: Shelf) -> Iterator[Write]:
    event = shelf.event_id
    new, moved = [], []
    for was, hold in shelf.holds.changes():
        until = hold.until_ms if hold.open else None
        deadlines = (hold.soft_ms, hold.hard_ms)
        if was is None:
            what = (event, hold.id, hold.buyer, hold.state.value, to_json(hold.seats))
            price = (to_json(hold.pools), hold.units, hold.amount, hold.currency, hold.placed_ms)
            rest = (hold.extensions, hold.version, hold.order, until)
            new.append((*what, *price, *deadlines, *rest))
        else:
            state = (hold.state.value, *deadlines, hold.extensions, hold.version, hold.order)
            moved.append((*state, until, event, hold.id, was.version))
    yield Write("insert_hold", new)
    yield Write("update_hold", moved, True)


def _order_changes(shelf: Shelf) -> Iterator[Write]:
    event = shelf.event_id
    new, moved, smaller = [], [], []
    for was, order in shelf.orders.changes():
        state = (order.state.value, order.payment)
        course = (order.version, order.due_ms, order.trouble, to_json(order.checkout))
        if was is not None and was.seats == order.seats and was.pools == order.pools:
            moved.append((*state, *course, event, order.id, was.version))
            continue
        units = (to_json(order.seats), to_json(order.pools), order.units, order.amount)
        if was is None:
            what = (event, order.id, order.buyer, state[0], *units, order.currency)
            new.append((*what, order.created_ms, order.hold, order.payment, *course))
        else:
            smaller.append((*state, *units, *course, event, order.id, was.version))
    yield Write("insert_order", new)
    yield Write("update_order", moved, True)
    yield Write("update_order_units", smaller, True)


def _passed(shelf: Shelf) -> int:
    """How many facts lie between the last of the round numbers that the batch's facts pass and the
    one before the first of them; 0: it passes none."""
    before = shelf.as_of or 0
    return ((before + len(shelf.facts)) // FORGET_FACTS - before // FORGET_FACTS) * FORGET_FACTS


def _key_changes(shelf: Shelf) -> Iterator[Write]:
    new, anew = [], []
    for was, use in shelf.key_uses.changes():
        if was is None:
            new.append((use.id, use.digest, use.at_ms))
        else:
            anew.append((use.digest, use.at_ms, use.id, was.digest, was.at_ms))
    yield Write("insert_key", new)
    yield Write("update_key", anew, True)
