"""Rows of SQLite as values of the domain."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import apsw
import msgspec

from holdfast.domain.batch import Fetch, What
from holdfast.domain.model import (
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
)
from holdfast.domain.outcomes import Outcome
from holdfast.domain.shelf import Record, Tally
from holdfast.stores.sql import load_queries

SQL = load_queries(__package__)

read_config = msgspec.json.Decoder(Event).decode
read_outcome = msgspec.json.Decoder(Outcome).decode
read_seats = msgspec.json.Decoder(tuple[str, ...]).decode
read_pools = msgspec.json.Decoder(dict[str, int]).decode

# A row is a tuple of what SQLite has in its columns; the query says which.
Row = tuple[Any, ...]


def read_event(db: apsw.Connection, event: str) -> Event:
    return read_config(db.execute(SQL["config"], (event,)).get)


def to_seat(row: Row) -> Seat:
    id, tier, channel, hold, until_ms, order, withdrawn = row
    return Seat(id, tier, channel, hold, until_ms, order, withdrawn == 1)


def to_pool(row: Row) -> Pool:
    return Pool(*row)


def to_claim(row: Row) -> Claim:
    return Claim(*row)


def to_hold(row: Row) -> Hold:
    id, event, buyer, state, seats, pools, *rest = row
    return Hold(id, event, buyer, HoldState(state), read_seats(seats), read_pools(pools), *rest)


def to_order(row: Row) -> Order:
    id, event, buyer, state, seats, pools, *rest = row
    return Order(id, event, buyer, OrderState(state), read_seats(seats), read_pools(pools), *rest)


def to_plan(row: Row) -> SeatPlan:
    accessible, companion, restricted_view, channel = row[8:]
    flags = (accessible == 1, companion == 1, restricted_view == 1)
    return SeatPlan(*row[:8], *flags, channel)  # type: ignore[call-arg]  # row has any length


def to_pair(row: Row) -> tuple[str, str]:
    left, right = row
    return left, right


def to_record(row: Row) -> Record:
    id, digest, outcome = row
    return Record(id, digest, read_outcome(outcome))


BY_KEY: dict[What, tuple[str, Callable[[Row], Any]]] = {
    What.SEATS: ("seats", to_seat),
    What.CHOSEN: ("seats", to_seat),
    What.POOLS: ("pools", to_pool),
    What.HOLDS: ("holds", to_hold),
    What.PEEK_HOLDS: ("holds", to_hold),
    What.ORDERS: ("orders", to_order),
    What.PEEK_ORDERS: ("orders", to_order),
    What.RECORDS: ("records", to_record),
    What.PAYMENTS: ("payments", to_pair),
}


class Reader:
    """Answers what a batch of one event asks for, inside the batch's transaction."""

    def __init__(self, db: apsw.Connection, event: str, now: Millis) -> None:
        self._db = db
        self._event = event
        self._now = now

    def fetch(self, want: Fetch) -> Sequence[Any]:
        keys = want.keys
        if found := BY_KEY.get(want.what):
            query, to_value = found
            return self._each(query, ((self._event, key) for key in keys), to_value)
        match want.what:
            case What.NOW:
                return [self._now]
            case What.CLAIMS:
                return self._claims(keys)
            case What.LAPSED:
                asked = ((self._event, pool, self._now, short) for pool, short in keys)
                return self._each("lapsed", asked, to_claim)
            case What.DUE:
                return self._each("due", [(self._event, self._now, keys[0])], to_hold)
            case What.TALLIES:
                return [(buyer, self._tally(buyer)) for buyer in keys]
            case _:
                # SQLite has no rows to lock one by one, buyers included.
                return []

    def seats(self, ids: Iterable[str]) -> list[Seat]:
        return self._each("seats", ((self._event, id) for id in ids), to_seat)

    def _each(
        self, query: str, bindings: Iterable[Row], to_value: Callable[[Row], Any]
    ) -> list[Any]:
        return [to_value(row) for row in self._db.executemany(SQL[query], bindings)]

    def _claims(self, holds: Sequence[str]) -> list[Claim]:
        held = self._each("holds", ((self._event, id) for id in holds), to_hold)
        shares = ((self._event, pool, hold.id) for hold in held for pool in hold.pools)
        return self._each("claims", shares, to_claim)

    def _tally(self, buyer: str) -> Tally:
        key = (self._event, buyer)
        sold: int = self._db.execute(SQL["sold_to_buyer"], key).get
        holds = self._db.execute(SQL["open_by_buyer"], key)
        return Tally(sold, {id: (until_ms, units) for id, until_ms, units in holds})
