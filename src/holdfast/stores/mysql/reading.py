"""Answers what a batch asks for, inside its transaction."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from holdfast.domain.batch import Fetch, What
from holdfast.domain.model import Claim, Millis
from holdfast.domain.seating import House
from holdfast.domain.shelf import Tally
from holdfast.stores.houses import Reading
from holdfast.stores.mysql.connections import Connection, Full, Pool
from holdfast.stores.rows import (
    Row,
    to_claim,
    to_hold,
    to_json,
    to_key_use,
    to_order,
    to_pair,
    to_pool,
    to_record,
    to_seat,
)
from holdfast.stores.sql import load_queries

SQL = load_queries(__package__)

KEYS_MAX = 900
"""MariaDB makes a joined temporary table of a list of 1,000."""
POOLS_MAX = 100

BY_KEYS: dict[What, tuple[str, Callable[[Row], Any]]] = {
    What.SEATS: ("seats", to_seat),
    What.POOLS: ("pools", to_pool),
    What.HOLDS: ("holds", to_hold),
    What.PEEK_HOLDS: ("peek_holds", to_hold),
    What.ORDERS: ("orders", to_order),
    What.PEEK_ORDERS: ("peek_orders", to_order),
    What.RECORDS: ("records", to_record),
}


async def by_keys(
    db: Connection, query: str, event: str, keys: Sequence[str], share: str = ""
) -> list[Row]:
    found: list[Row] = []
    sql = SQL[query].replace("{share}", share)
    for part in parts(keys, KEYS_MAX):
        marks = ", ".join(["%s"] * len(part))
        found += await db.rows(sql.replace("{keys}", marks), (event, *part))
    return found


def parts(items: Sequence[Any], most: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), most):
        yield items[start : start + most]


class Reader:
    """Reads on the batch's connection. `scouts` has one that is never in a transaction, to find out
    which seats nobody has locked.

    InnoDB keeps what was locked after a savepoint, so a batch cannot look at seats and let go of
    them. And MariaDB's SKIP LOCKED queues for a locked row before it passes it over: a deadlock
    detector that comes by in that instant sees the batch waiting, and kills somebody for it
    (measured: 4 times in 120 s of mixed baskets from 4 processes). A scout has nothing that others
    wait for: its locks last for one statement.
    """

    def __init__(self, db: Connection, event: str, scouts: Pool) -> None:
        self._db = db
        self._event = event
        self._scouts = scouts
        self.new_buyers: set[str] = set()
        """Asked for, and not there to be locked."""

    async def fetch(self, want: Fetch) -> Sequence[Any]:
        keys = want.keys
        if found := BY_KEYS.get(want.what):
            query, to_value = found
            return [to_value(row) for row in await self._by_keys(query, keys)]
        match want.what:
            case What.CLAIMS:
                rows = await self._db.rows(SQL["claims"], (to_json(keys), self._event))
                return [to_claim(row) for row in rows]
            case What.PAYMENTS:
                rows = await self._db.rows(SQL["payments"], (to_json(keys), self._event))
                return [to_pair(row) for row in rows]
            case What.KEY_USES:
                rows = await self._db.rows(SQL["key_uses"], (to_json(keys),))
                return [to_key_use(row) for row in rows]
            case What.LAPSED:
                return await self._lapsed(keys, want.now)
            case What.DUE:
                rows = await self._db.rows(SQL["due"], (self._event, want.now, keys[0]))
                return [to_hold(row) for row in rows]
            case What.BUYERS:
                known = {row[0] for row in await self._by_keys("buyers", keys)}
                self.new_buyers = set(keys) - known
                return []
            case What.TALLIES:
                return await self._tallies(keys)
            case What.CHOSEN:
                unlocked = await self._lockable("unlocked_seats", keys)
                return [to_seat(row) for row in await self._by_keys("chosen", unlocked)]
            case What.DEAD_HOLDS:
                unlocked = await self._lockable("unlocked_holds", keys)
                return [to_hold(row) for row in await self._by_keys("dead_holds", unlocked)]
            case What.PROBE:
                try:
                    return await self._unlocked("unlocked_seats", keys)
                except Full:  # nobody can tell, so the seats that were locked are waited for
                    return []
            case _:
                raise AssertionError(want)

    async def seq(self) -> int:
        """The number of the event's last fact."""
        row = await self._db.one(SQL["counters"], (self._event,))
        return int(row[1]) if row else 0

    async def house(self, reading: Reading) -> House:
        try:
            query, args = next(reading)
            while True:
                query, args = reading.send(await self._rows(query, args))
        except StopIteration as done:
            house: House = done.value
            return house

    async def _rows(self, query: str, args: Row) -> list[Row]:
        if query == "seats_now":
            return await by_keys(self._db, query, *args)
        return await self._db.stream(SQL[query], args)

    async def _by_keys(self, query: str, keys: Sequence[str]) -> list[Row]:
        return await by_keys(self._db, query, self._event, keys)

    async def _lockable(self, query: str, keys: Sequence[str]) -> Sequence[str]:
        """Where SKIP LOCKED has to be kept away from locked rows, those that have none. What others
        lock between the two is still passed over."""
        if not self._db.mariadb:
            return keys
        try:
            return await self._unlocked(query, keys)
        except Full:  # without a scout the worst is a deadlock, and the batch is run again
            return keys

    async def _unlocked(self, query: str, keys: Sequence[str]) -> list[str]:
        share = "LOCK IN SHARE MODE" if self._db.mariadb else "FOR SHARE"
        async with self._scouts.connection() as scout:
            rows = await by_keys(scout, query, self._event, keys, share)
            return [row[0] for row in rows]

    async def _lapsed(self, short: Sequence[tuple[str, int]], now: Millis) -> list[Claim]:
        claims: list[Claim] = []
        for part in parts(short, POOLS_MAX):
            sql = "\nUNION ALL\n".join([SQL["lapsed"]] * len(part))
            args = [each for pool, units in part for each in (self._event, pool, now, units)]
            claims += [to_claim(row) for row in await self._db.rows(sql, args)]
        return claims

    async def _tallies(self, buyers: Sequence[str]) -> list[tuple[str, Tally]]:
        tallies = {buyer: Tally(0, {}) for buyer in buyers}
        named = to_json(buyers)
        rows = await self._db.rows(SQL["tallies"], (named, self._event, named, self._event))
        for buyer, hold, until_ms, units in rows:
            if hold is None:
                tallies[buyer].sold = units
            else:
                tallies[buyer].holds[hold] = (until_ms, units)
        return list(tallies.items())


async def server_clock(db: Connection) -> Millis:
    row = await db.one(SQL["now"])
    assert row is not None
    now: Millis = row[0]
    return now
