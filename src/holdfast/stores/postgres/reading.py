"""Answers what a batch asks for, inside its transaction."""

from collections.abc import Callable, Sequence
from typing import Any

from holdfast.domain.batch import Fetch, What
from holdfast.domain.model import Millis
from holdfast.domain.seating import House
from holdfast.domain.shelf import Tally
from holdfast.stores.houses import Reading
from holdfast.stores.postgres.arrays import literal
from holdfast.stores.postgres.errors import Connection
from holdfast.stores.rows import (
    Row,
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

BY_KEYS: dict[What, tuple[str, Callable[[Row], Any]]] = {
    What.SEATS: ("seats", to_seat),
    What.CHOSEN: ("chosen", to_seat),
    What.POOLS: ("pools", to_pool),
    What.PEEK_HOLDS: ("peek_holds", to_hold),
    What.DEAD_HOLDS: ("dead_holds", to_hold),
    What.PEEK_ORDERS: ("peek_orders", to_order),
    What.PAYMENTS: ("payments", to_pair),
}


TIMED: dict[What, tuple[str, Callable[[Row], Any]]] = {
    What.HOLDS: ("holds", to_hold),
    What.ORDERS: ("orders", to_order),
    What.RECORDS: ("records", to_record),
}
"""After their rows these tell the time, in a row of its own."""


class Reader:
    def __init__(self, db: Connection, event: str) -> None:
        self._db = db
        self._event = event
        self._now: Millis | None = None
        """What time it was after the last statement; None where that did not tell."""

    async def fetch(self, want: Fetch) -> Sequence[Any]:
        keys = want.keys
        told, self._now = self._now, None
        if want.what is What.NOW and told is not None:
            return [told]
        if found := TIMED.get(want.what):
            query, to_value = found
            *rows, clock = await self._rows(query, keys)
            self._now = clock[-1]
            return [to_value(row[:-1]) for row in rows]
        if found := BY_KEYS.get(want.what):
            query, to_value = found
            return [to_value(row) for row in await self._rows(query, keys)]
        match want.what:
            case What.NOW:
                return [await self._db.fetchval(SQL["now"])]
            case What.CLAIMS:
                pools, holds = zip(*keys, strict=True)
                return [to_claim(row) for row in await self._rows("claims", pools, holds)]
            case What.LAPSED:
                pools, units = zip(*keys, strict=True)
                rows = await self._rows("lapsed", pools, units, want.now)
                return [to_claim(row) for row in rows]
            case What.DUE:
                return [to_hold(row) for row in await self._rows("due", keys[0], want.now or None)]
            case What.KEY_USES:
                rows = await self._db.fetch(SQL["key_uses"], literal(keys))
                return [to_key_use(row) for row in rows]
            case What.BUYERS:
                await self._db.execute(SQL["add_buyers"], self._event, literal(keys))
                return await self._rows("lock_buyers", keys)
            case What.TALLIES:
                return await self._tallies(keys)
            case What.PROBE:
                return await self._probe(keys)
            case _:
                raise AssertionError(want)

    async def house(self, reading: Reading) -> House:
        try:
            query, args = next(reading)
            while True:
                query, args = reading.send(await self._db.fetch(SQL[query], *_sendable(args)))
        except StopIteration as done:
            house: House = done.value
            return house

    async def _rows(self, query: str, *args: Any) -> list[Any]:
        return list(await self._db.fetch(SQL[query], self._event, *_sendable(args)))

    async def _tallies(self, buyers: Sequence[str]) -> list[tuple[str, Tally]]:
        tallies = {buyer: Tally(0, {}) for buyer in buyers}
        for buyer, hold, until_ms, units in await self._rows("tallies", buyers):
            if hold is None:
                tallies[buyer].sold = units
            else:
                tallies[buyer].holds[hold] = (until_ms, units)
        return list(tallies.items())

    async def _probe(self, seats: Sequence[str]) -> list[str]:
        """Locks what nobody else has locked, and lets go of it again: rolling back to a savepoint
        frees the locks taken since."""
        await self._db.execute("SAVEPOINT probe")
        rows = await self._rows("chosen", seats)
        await self._db.execute("ROLLBACK TO SAVEPOINT probe; RELEASE SAVEPOINT probe")
        return [row[0] for row in rows]


def _sendable(args: Sequence[Any]) -> list[Any]:  # arguments of a query
    return [literal(arg) if isinstance(arg, list | tuple) else arg for arg in args]
