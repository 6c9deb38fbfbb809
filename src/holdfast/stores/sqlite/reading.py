"""Answers what a batch asks for, inside its transaction."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import apsw

from holdfast.domain.batch import Fetch, What
from holdfast.domain.model import Event, Millis
from holdfast.domain.seating import House
from holdfast.domain.shelf import Tally
from holdfast.stores.houses import Reading
from holdfast.stores.rows import (
    Row,
    read_config,
    to_claim,
    to_hold,
    to_key_use,
    to_order,
    to_pair,
    to_pool,
    to_record,
    to_seat,
)
from holdfast.stores.sql import load_queries

SQL = load_queries(__package__)


def read_event(db: apsw.Connection, event: str) -> Event:
    return read_config(db.execute(SQL["config"], (event,)).get)


BY_KEY: dict[What, tuple[str, Callable[[Row], Any]]] = {
    What.SEATS: ("seats", to_seat),
    What.CHOSEN: ("seats", to_seat),
    What.POOLS: ("pools", to_pool),
    What.HOLDS: ("holds", to_hold),
    What.PEEK_HOLDS: ("holds", to_hold),
    What.DEAD_HOLDS: ("holds", to_hold),
    What.ORDERS: ("orders", to_order),
    What.PEEK_ORDERS: ("orders", to_order),
    What.RECORDS: ("records", to_record),
    What.PAYMENTS: ("payments", to_pair),
}


class Reader:
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
            case What.KEY_USES:
                return self._each("key_use", ((key,) for key in keys), to_key_use)
            case What.CLAIMS:
                return self._each("claims", ((self._event, *key) for key in keys), to_claim)
            case What.LAPSED:
                asked = ((self._event, pool, self._now, short) for pool, short in keys)
                return self._each("lapsed", asked, to_claim)
            case What.DUE:
                return self._each("due", [(self._event, self._now, keys[0])], to_hold)
            case What.PROBE:
                return keys
            case What.TALLIES:
                return [(buyer, self._tally(buyer)) for buyer in keys]
            case _:
                # SQLite has no rows to lock one by one, buyers included.
                return []

    def house(self, reading: Reading) -> House:
        try:
            query, args = next(reading)
            while True:
                query, args = reading.send(self._rows(query, args))
        except StopIteration as done:
            house: House = done.value
            return house

    def _rows(self, query: str, args: Row) -> list[Row]:
        if query == "seats_now":
            event, ids = args
            return list(self._db.executemany(SQL["seats"], ((event, id) for id in ids)))
        return self._db.execute(SQL[query], args).fetchall()

    def _each(
        self, query: str, bindings: Iterable[Row], to_value: Callable[[Row], Any]
    ) -> list[Any]:
        return [to_value(row) for row in self._db.executemany(SQL[query], bindings)]

    def _tally(self, buyer: str) -> Tally:
        key = (self._event, buyer)
        sold: int = self._db.execute(SQL["sold_to_buyer"], key).get
        holds = self._db.execute(SQL["open_by_buyer"], key)
        return Tally(sold, {id: (until_ms, units) for id, until_ms, units in holds})
