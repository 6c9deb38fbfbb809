"""Writes what a batch changed, inside its transaction: each query once, with a column an array."""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

from holdfast.domain.audit import Corrections
from holdfast.domain.model import Millis, Seat
from holdfast.domain.shelf import Shelf
from holdfast.errors import StoreBusy
from holdfast.stores import rows
from holdfast.stores.postgres.arrays import columns
from holdfast.stores.postgres.errors import Connection
from holdfast.stores.postgres.presumed import CLOCK_OFF_MS_MAX
from holdfast.stores.postgres.reading import SQL
from holdfast.stores.rows import Write

ROWS_MAX = 10_000
"""In one statement: only a new event has more, and no statement may outlast its timeout."""


TOGETHER = frozenset(
    {
        *("update_seat", "insert_sold", "update_pool", "insert_claim", "update_claim"),
        *("delete_claim", "insert_hold", "update_hold", "insert_order", "update_order"),
        *("update_order_units", "insert_record", "forget_records", "insert_key", "forget_keys"),
    }
)
"""What may be written in one statement. Its parts do not see what the others write, so none of them
may build on another: an event that is made and moved on, a seat that is unsold and sold again."""
UNCOUNTED = ("forget_records", "forget_keys")
HOLDING = ("update_seat", "insert_hold")
CHECKOUT = (
    *("update_seat", "insert_sold", "insert_hold", "update_hold", "insert_order", "update_order"),
    *("insert_record", "insert_key"),
)
"""In the order in which everybody writes. Holds and checkouts come in every mixture; a statement
for each would be read and planned anew for every connection, so what a batch does not write is
written with no rows (measured: 11 us less of the server's time for a checkout)."""
FORGETTING = (*CHECKOUT, *UNCOUNTED)
PLACEHOLDER = re.compile(r"\$(\d+)")
JOINED = re.compile(r"string_to_array\(\$(\d+)::text")
ADVANCE_ARGS = 10


ALL_OR_NOTHING = """CASE WHEN EXISTS (SELECT FROM counter) THEN (SELECT seq FROM counter)
            ELSE 1 / (SELECT count(*) FROM counter) END"""
"""A division by zero undoes the statement."""


SERVER_MS = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
IN_TIME = f" AND abs($8 - {SERVER_MS}) <= {CLOCK_OFF_MS_MAX}"
"""The time that the facts are given is the server's own, or nearly."""


def _padded(writes: Sequence[Write]) -> Sequence[Write]:
    """The same, as one of the few statements that nearly all batches are."""
    given = {write.query: write for write in writes}
    if tuple(given) == HOLDING:
        return writes
    for queries in (CHECKOUT, FORGETTING):
        if given.keys() <= set(queries):
            return [given.get(query) or Write(query, []) for query in queries]
    return writes


def _changes(shelf: Shelf, now: Millis, last: int) -> list[Write]:
    """What has to be written. The guard of a seat is here all that it was."""
    writes = [write for write in rows.changes(shelf, now, last) if write.rows]
    return [
        write._replace(rows=list(map(_with_traits, write.rows, _were(shelf))))
        if write.query == "update_seat"
        else write
        for write in writes
    ]


def _were(shelf: Shelf) -> Iterable[Seat]:
    return (was for was, _ in shelf.seats.changes() if was is not None)


def _with_traits(row: rows.Row, was: Seat) -> rows.Row:
    return (*row, was.tier, was.channel, was.withdrawn)


def _may_go_together(writes: Sequence[Write]) -> bool:
    return all(write.query in TOGETHER and len(write.rows) <= ROWS_MAX for write in writes)


def _shifted(query: str, by: int) -> str:
    """The query with its arguments so many places further on."""
    return PLACEHOLDER.sub(lambda found: f"${int(found[1]) + by}", query)


def _moved(shelf: Shelf, now: Millis) -> tuple[Any, ...]:
    """The arguments of `advance`: how the counter moves on, and the facts."""
    facts = columns([(fact.type, rows.to_json(fact.data)) for fact in shelf.facts], (1,))
    return (*rows.advance(shelf), now, *(facts or ["{}", ""]))


@cache
def _joined(query: str) -> frozenset[int]:
    """Which of its columns are JSON."""
    return frozenset(int(found) - 1 for found in JOINED.findall(SQL[query]))


@cache
def _no_rows(query: str) -> list[str]:
    """An empty array for each of its arguments."""
    many = max(int(found) for found in PLACEHOLDER.findall(SQL[query]))
    return ["" if nth in _joined(query) else "{}" for nth in range(many)]


def _columns(query: str, of: Sequence[rows.Row]) -> list[str]:
    return columns(of, _joined(query)) if of else _no_rows(query)


@cache
def _together(
    queries: tuple[str, ...],
    lengths: tuple[int, ...],
    *,
    alone: bool,
    timed: bool = False,
    flushed: bool = False,
) -> str:
    """One statement of these, which have so many arguments each, and then how many rows each has
    to write. `alone`: no transaction is around it. `timed`: only if the time is right. `flushed`:
    its commit waits for the disk."""
    parts, expected = [], []
    used = ADVANCE_ARGS
    for query, length in zip(queries, lengths, strict=True):
        parts.append(f"{query} AS ({_shifted(SQL[query], used)} RETURNING 1)")
        used += length
    for query in queries:
        if query not in UNCOUNTED:
            used += 1
            expected.append(f"(SELECT count(*) FROM {query}) = ${used}")
    if flushed:
        parts.append(f"flush AS MATERIALIZED ({SQL['flush']})")
    result = "(SELECT seq FROM counter)"
    if alone:
        told = "(SELECT told FROM flush)" if flushed else "false"
        result = f"{ALL_OR_NOTHING}, {told}, {SERVER_MS}"
    return SQL["together"].format(
        writes=",\n".join(parts),
        as_expected=(" AND ".join(expected) or "true") + (IN_TIME if timed else ""),
        result=result,
    )


class Done(NamedTuple):
    """A batch that was written by itself."""

    last: int
    """The number of its last fact."""
    durable: bool
    """Whether its commit has waited for the disk."""
    server_ms: Millis
    """What the server's clock said."""


class Writer:
    def __init__(self, db: Connection) -> None:
        self._db = db

    async def write_alone(
        self, shelf: Shelf, now: Millis, *, timed: bool = False, flushed: bool = False
    ) -> Done | None:
        """Writes everything in one statement that is a transaction of its own. None: that cannot
        be done. Raises DivisionByZeroError, and has written nothing, where a row was not as it was
        looked at, or, with `timed`, it is not that time. `flushed`: its commit waits for the disk,
        unless it would have to wait for more than that."""
        writes = _changes(shelf, now, 0)
        if not writes or not _may_go_together(writes):
            return None
        moved = _moved(shelf, now)
        row = await self._write_together(writes, moved, alone=True, timed=timed, flushed=flushed)
        return Done(*row)

    async def write(self, shelf: Shelf, now: Millis) -> int:
        """Writes everything; returns the number of the last fact."""
        last = 0
        if shelf.plans:
            last = await self._db.fetchval(SQL["last_position"], shelf.event_id)
        writes = _changes(shelf, now, last)
        moved = _moved(shelf, now)
        if writes and _may_go_together(writes):
            (seq,) = await self._write_together(writes, moved, alone=False)
        else:
            await self._run(writes)
            seq = await self._db.fetchval(SQL["advance"], *moved)
        if seq is None:
            raise StoreBusy("the event, or a guarded row, was changed meanwhile")
        return int(seq)

    async def _write_together(
        self, writes: Sequence[Write], moved: Sequence[Any], **kind: bool
    ) -> rows.Row:
        """`kind` is told by `_together`."""
        writes = _padded(writes)
        parts = [_columns(write.query, write.rows) for write in writes]
        counts = [len(write.rows) for write in writes if write.query not in UNCOUNTED]
        queries = tuple([write.query for write in writes])
        statement = _together(queries, tuple(map(len, parts)), **kind)
        args = chain.from_iterable(parts)
        row: rows.Row = await self._db.fetchrow(statement, *moved, *args, *counts)
        return row

    async def mend(self, event: str, fixes: Corrections) -> None:
        await self._run(rows.mending(event, fixes))

    async def _run(self, writes: Iterable[Write]) -> None:
        for query, bindings, guarded in writes:
            for start in range(0, len(bindings), ROWS_MAX):
                part = bindings[start : start + ROWS_MAX]
                tag = await self._db.execute(SQL[query], *_columns(query, part))
                if guarded and int(tag.rpartition(" ")[2]) != len(part):
                    raise StoreBusy(f"{query}: a guarded row had changed meanwhile")
