"""The authority on a SQLite file.

All SQLite work happens on threads of its own, so that the event loop never waits for a disk: one
thread writes batches, one reads views, one copies the write-ahead log back into the file.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

import apsw

from holdfast.domain import audit
from holdfast.domain.batch import Fetch, What, run
from holdfast.domain.commands import Command
from holdfast.domain.facts import Entry
from holdfast.domain.limits import RECORDS_KEPT_MS
from holdfast.domain.model import Event, Hold, Millis, Order
from holdfast.domain.outcomes import Answer
from holdfast.domain.shelf import Shelf, Totals
from holdfast.domain.views import Census, Cursor, Document, Move, SeatMap, Statuses, Summary
from holdfast.errors import CommitUnknown, StoreBusy, StoreError, StoreUnavailable
from holdfast.ports import Committed, nothing
from holdfast.stores import Clock, drive, host_clock
from holdfast.stores.houses import Houses, Unbuilt, build
from holdfast.stores.rows import (
    CENSUS,
    Row,
    first_claims,
    first_moves,
    putting,
    to_census,
    to_cursor,
    to_document,
    to_entry,
    to_head,
    to_hold,
    to_key_use,
    to_order,
    to_pool_view,
    to_seat_view,
    to_statuses,
    to_summary,
)
from holdfast.stores.sqlite import schema
from holdfast.stores.sqlite.reading import SQL, Reader, read_event
from holdfast.stores.sqlite.turn import Turn
from holdfast.stores.sqlite.writing import Writer

T = TypeVar("T")

log = logging.getLogger("holdfast.sqlite")

BUSY_MS = 5_000
"""Patience with writers that do not queue as we do, such as another program."""
WAKE_FIRST_SECONDS = 0.005
WAKE_LAST_SECONDS = 0.1
COPY_BUSY_MS = 100
COPY_AGAIN_SECONDS = 1.0
WAL_PAGES_MAX = 4_000
"""About 16 MB; then it is copied back into the file, off the lane."""


class Moved(NamedTuple):
    """An event whose log a batch moved on."""

    event: str
    before: int
    after: int


class SqliteStore:
    one_lane = True

    def __init__(self, path: str, clock: Clock = host_clock, synchronous: str = "FULL") -> None:
        self.url = f"sqlite:///{path}"
        # Resolved: by whatever name processes come to the file, they queue at the same place.
        self._path = Path(path).resolve()
        self._clock = clock
        self._synchronous = synchronous
        self._write_thread = ThreadPoolExecutor(1, "holdfast-write")
        self._read_thread = ThreadPoolExecutor(1, "holdfast-read")
        self._copy_thread = ThreadPoolExecutor(1, "holdfast-checkpoint")
        self._copying = False
        self._copy_after = 0.0
        self._configs: dict[str, Event] = {}

    async def open(self) -> None:
        with translated(self.url):
            await _on(self._write_thread, self._open)

    def _open(self) -> None:
        _check_file(self._path, self.url)
        self._turn, self._copier_turn = Turn(self._path), Turn(self._path)
        with self._turn.taken():
            self._db = self._connect()
            self._migrated = schema.migrate(self._db)
        self._reader = self._connect()
        self._copier = self._connect()
        self._copier.set_busy_timeout(COPY_BUSY_MS)
        self._houses = Houses()
        self._db.set_wal_hook(self._after_commit)

    def _connect(self) -> apsw.Connection:
        db = apsw.Connection(str(self._path))
        db.set_busy_timeout(BUSY_MS)
        db.pragma("journal_mode", "wal")
        db.pragma("synchronous", self._synchronous)
        db.pragma("wal_autocheckpoint", 0)
        db.pragma("cache_size", -32_000)
        return db

    async def close(self) -> None:
        for thread in (self._write_thread, self._copy_thread, self._read_thread):
            await asyncio.to_thread(thread.shutdown)
        if hasattr(self, "_copier"):
            for db in (self._copier, self._reader, self._db):
                db.close()
            self._turn.close()
            self._copier_turn.close()

    async def migrate(self) -> list[str]:
        """Opening migrates; this opens, says what that did, and closes again."""
        await self.open()
        await self.close()
        return self._migrated

    async def apply(
        self, commands: Sequence[Command], committed: Committed = nothing
    ) -> list[Answer]:
        with translated(self.url):
            return await _on(self._write_thread, lambda: self._settle(commands))

    def _settle(self, commands: Sequence[Command]) -> list[Answer]:
        while True:
            try:
                answers = self._apply(commands)
                self._houses.trim()
                return answers
            except Unbuilt as missing:
                # Nobody waits for this one: the turn has been given back.
                rows = self._db.execute(SQL["house"], (missing.event.id,))
                self._houses.keep(missing.event, build(missing.event, rows))

    def _apply(self, commands: Sequence[Command]) -> list[Answer]:
        by_event: dict[str, list[int]] = {}
        for index, command in enumerate(commands):
            by_event.setdefault(command.event, []).append(index)
        answers: list[Answer | None] = [None] * len(commands)
        changed: list[Moved] = []
        with self._turn.taken(), self._transaction(by_event) as commit:
            now = self._clock()
            for event, indexes in by_event.items():
                decided = self._decide(event, [commands[i] for i in indexes], now, changed)
                for index, answer in zip(indexes, decided, strict=True):
                    answers[index] = answer
            if changed:
                commit()
        for moved in changed:
            self._houses.committed(*moved)
        return [answer for answer in answers if answer is not None]

    @contextmanager
    def _transaction(self, events: dict[str, list[int]]) -> Iterator[Callable[[], None]]:
        """Committed if asked, else rolled back: the commit of nothing would still cost a flush."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
        except apsw.BusyError as cause:
            # Waited for already, and not by queueing as we do: no part of the batch would fare
            # better.
            text = f"{self.url} is locked by another program: close it there"
            raise StoreUnavailable(text) from cause
        try:
            yield self._commit
        except BaseException:
            for event in events:
                self._houses.forget(event)
                self._configs.pop(event, None)
            raise
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    def _commit(self) -> None:
        try:
            self._db.execute("COMMIT")
        except (apsw.BusyError, apsw.FullError):
            raise  # surely not committed
        except apsw.Error as cause:
            raise CommitUnknown(f"{self.url} did not finish a commit: {cause}") from cause

    def _decide(
        self, event: str, commands: Sequence[Command], now: Millis, changed: list[Moved]
    ) -> list[Answer]:
        config, seq, totals = self._config(event)
        shelf = Shelf(event, config, self._houses.peek(event), totals)
        shelf.as_of = seq
        reader = Reader(self._db, event, now)

        def fetch(want: Fetch) -> Sequence[object]:
            if want.what is What.HOUSE:
                return [reader.house(self._houses.current(config, seq))] if config else []
            return reader.fetch(want)

        answers = drive(run(shelf, commands), fetch)
        if shelf.changed:
            after = Writer(self._db).write(shelf, now)
            if shelf.event is not None:
                self._configs[event] = shelf.event
            changed.append(Moved(event, seq, after))
        return answers

    def _config(self, event: str) -> tuple[Event | None, int, Totals]:
        row = self._db.execute(SQL["counters"], (event,)).fetchone()
        if row is None:
            return None, 0, Totals()
        version, seq, *totals = row
        config = self._configs.get(event)
        if config is None or config.version != version:
            config = self._configs[event] = read_event(self._db, event)
        return config, seq, Totals(*totals)

    def _after_commit(self, db: apsw.Connection, name: str, pages: int) -> int:
        if pages >= WAL_PAGES_MAX and not self._copying and time.monotonic() > self._copy_after:
            self._copying = True
            self._copy_thread.submit(self._copy_back)
        return apsw.SQLITE_OK

    def _copy_back(self) -> None:
        """Copies most pages while others write, then the rest in a turn of its own, and makes the
        next writer begin the log anew instead of growing it: for that, those who read from the log
        are waited for a moment, and if they go on reading, it is tried again later."""
        try:
            self._copier.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            with self._copier_turn.taken():
                self._copier.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)
        except apsw.Error as cause:
            log.debug("the write-ahead log is in use: %s", cause)
            self._copy_after = time.monotonic() + COPY_AGAIN_SECONDS
        finally:
            self._copying = False

    async def summaries(self, event: str | None = None) -> list[Summary]:
        return await self._read(lambda db: self._summaries(db, event))

    def _summaries(self, db: apsw.Connection, event: str | None) -> list[Summary]:
        rows = db.execute(SQL["summaries"], (self._clock(), event))
        return [to_summary(row) for row in rows]

    async def seat_map(self, event: str) -> SeatMap | None:
        return await self._read(lambda db: self._seat_map(db, event))

    def _seat_map(self, db: apsw.Connection, event: str) -> SeatMap | None:
        counters = db.execute(SQL["counters"], (event,)).fetchone()
        if counters is None:
            return None
        at = (event, self._clock())
        seats = [to_seat_view(row) for row in db.execute(SQL["map_seats"], at)]
        pools = [to_pool_view(row) for row in db.execute(SQL["map_pools"], at)]
        return SeatMap(counters[1], seats, pools)

    async def statuses(self, event: str) -> Statuses | None:
        return await self._read(lambda db: self._statuses(db, event))

    def _statuses(self, db: apsw.Connection, event: str) -> Statuses | None:
        standing = db.execute(SQL["standing"], (event,)).fetchone()
        if standing is None:
            return None
        at = (event, now := self._clock())
        ids = db.execute(SQL["statuses"], at).get
        return to_statuses(standing, now, ids, db.execute(SQL["map_pools"], at))

    async def hold(self, event: str, id: str) -> tuple[Hold, Millis] | None:
        def read(db: apsw.Connection) -> tuple[Hold, Millis] | None:
            row = db.execute(SQL["holds"], (event, id)).fetchone()
            return (to_hold(row), self._clock()) if row else None

        return await self._read(read)

    async def order(self, event: str, id: str) -> Order | None:
        def read(db: apsw.Connection) -> Order | None:
            row = db.execute(SQL["orders"], (event, id)).fetchone()
            return to_order(row) if row else None

        return await self._read(read)

    async def due_orders(self, limit: int) -> list[Order]:
        return await self._read(lambda db: self._orders(db, "due_orders", self._clock(), limit))

    async def troubled_orders(self, limit: int) -> list[Order]:
        return await self._read(lambda db: self._orders(db, "troubled_orders", limit))

    def _orders(self, db: apsw.Connection, query: str, *args: int) -> list[Order]:
        return [to_order(row) for row in db.execute(SQL[query], args)]

    async def log(self, event: str, after: int, limit: int) -> list[Entry]:
        return await self.tails({event: after}, limit)

    async def tails(self, after: Mapping[str, int], limit: int) -> list[Entry]:
        asked = [(event, seq, limit) for event, seq in after.items()]
        return await self._read(
            lambda db: [to_entry(row) for row in db.executemany(SQL["log"], asked)]
        )

    async def prune(self, event: str, through: int, limit: int) -> int:
        return await self._changes("prune", (event, through, limit))

    async def due(self) -> list[str]:
        def read(db: apsw.Connection) -> list[str]:
            return [event for (event,) in db.execute(SQL["due_events"], (self._clock(),))]

        return await self._read(read)

    async def heads(self) -> dict[str, int]:
        return await self._read(lambda db: dict(to_head(row) for row in db.execute(SQL["heads"])))

    async def wake(self, timeout_seconds: float) -> None:
        """SQLite tells nobody; it has a number that changes when another connection commits."""
        ends = asyncio.get_running_loop().time() + timeout_seconds
        pause = WAKE_FIRST_SECONDS
        before = await _on(self._read_thread, self._data_version)
        while (left := ends - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(min(pause, left))
            pause = min(2 * pause, WAKE_LAST_SECONDS)
            if await _on(self._read_thread, self._data_version) != before:
                return

    def _data_version(self) -> int:
        return int(self._reader.pragma("data_version"))

    async def census(self, event: str) -> Census | None:
        return await self._read(lambda db: self._census(db, event))

    def _census(self, db: apsw.Connection, event: str) -> Census | None:
        counters = db.execute(SQL["census_counters"], (event,)).fetchone()
        config = db.execute(SQL["config"], (event,)).get
        if counters is None or config is None:
            return None
        now = self._clock()
        rows = {query: list(db.execute(SQL[query], (event,))) for query in CENSUS}
        return to_census(counters, config, now, rows)

    async def strays(self) -> list[str]:
        return await self._read(lambda db: [event for (event,) in db.execute(SQL["strays"])])

    async def mend(self, event: str) -> list[str]:
        with translated(self.url):
            return await _on(self._write_thread, lambda: self._mend(event))

    def _mend(self, event: str) -> list[str]:
        with self._turn.taken(), self._transaction({event: []}) as commit:
            census = self._census(self._db, event)
            if census is None:
                return []
            fixes = audit.corrections(census)
            if fixes.changes:
                Writer(self._db).mend(event, fixes)
                commit()
        return fixes.changes

    async def documents(self, kind: str, id: str | None = None) -> tuple[list[Document], Millis]:
        def read(db: apsw.Connection) -> tuple[list[Document], Millis]:
            rows = db.execute(SQL["documents"], (kind, id))
            return [to_document(row) for row in rows], self._clock()

        return await self._read(read)

    async def put(self, document: Document) -> bool:
        return await self._change(*putting(document))

    async def drop(self, kind: str, id: str, version: int) -> bool:
        return await self._change("delete_document", (kind, id, version))

    async def cursors(self, follower: str | None = None) -> tuple[list[Cursor], Millis]:
        def read(db: apsw.Connection) -> tuple[list[Cursor], Millis]:
            rows = db.execute(SQL["cursors"], (follower,))
            return [to_cursor(row) for row in rows], self._clock()

        return await self._read(read)

    async def move(self, follower: str, moves: Sequence[Move]) -> set[str]:
        if not moves:
            return set()
        with translated(self.url):
            return await _on(self._write_thread, lambda: self._move(follower, first_moves(moves)))

    def _move(self, follower: str, moves: Sequence[Move]) -> set[str]:
        moved = set()
        with self._turn.taken(), self._transaction({}) as commit:
            now = self._clock()
            for move in moves:
                query = "move_cursor" if move.was else "begin_cursor"
                args = (follower, move.event, move.was, move.seq, move.fence, now)
                self._db.execute(SQL[query], args)
                if self._db.changes():
                    moved.add(move.event)
            if moved:
                commit()
        return moved

    async def forget(self, follower: str) -> None:
        await self._changes("forget_cursors", (follower,))

    async def claim_keys(self, claims: Sequence[tuple[str, str]]) -> list[str]:
        with translated(self.url):
            return await _on(self._write_thread, lambda: self._claim_keys(claims))

    def _claim_keys(self, claims: Sequence[tuple[str, str]]) -> list[str]:
        first = first_claims(claims)
        with self._turn.taken(), self._transaction({}) as commit:
            now = self._clock()
            old = now - RECORDS_KEPT_MS
            before = self._db.total_changes()
            self._db.executemany(SQL["claim_key"], [(*claim, now, old) for claim in first])
            rows = self._db.executemany(SQL["key_use"], [(key,) for key, _ in first])
            counts = {use.id: use.digest for use in map(to_key_use, rows)}
            if self._db.total_changes() > before:
                self._db.execute(SQL["forget_keys"], (old, 2 * len(first)))
                commit()
        return [counts[key] for key, _ in claims]

    async def free_keys(self, claims: Sequence[tuple[str, str]]) -> None:
        def free() -> None:
            with self._turn.taken(), self._transaction({}) as commit:
                self._db.executemany(SQL["free_key"], claims)
                commit()

        with translated(self.url):
            await _on(self._write_thread, free)

    async def _change(self, query: str, args: Row) -> bool:
        """One guarded statement in a transaction of its own; whether it changed a row."""
        return await self._changes(query, args) == 1

    async def _changes(self, query: str, args: Row) -> int:
        """As above; how many rows it changed."""

        def change() -> int:
            with self._turn.taken(), self._transaction({}) as commit:
                self._db.execute(SQL[query], args)
                if changed := self._db.changes():
                    commit()
            return changed

        with translated(self.url):
            return await _on(self._write_thread, change)

    async def _read(self, read: Callable[[apsw.Connection], T]) -> T:
        """Reads in one snapshot, beside the writer: WAL readers and writers never wait."""

        def snapshot() -> T:
            self._reader.execute("BEGIN")
            try:
                return read(self._reader)
            except (ValueError, KeyError, TypeError) as cause:
                raise StoreError(f"{self.url} has a row that cannot be read: {cause}") from cause
            finally:
                self._reader.execute("COMMIT")

        with translated(self.url):
            return await _on(self._read_thread, snapshot)


def _check_file(path: Path, url: str) -> None:
    """Before anything is made or changed: what is there must be ours, or nothing. Only SQLite may
    open the file: closing it otherwise would drop the locks that SQLite has on it in this process.
    """
    if not path.exists():
        return
    if not path.is_file():
        raise StoreUnavailable(f"{url} is not a file")
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    # Another process may be making the file, or be the last to leave it: both lock it a moment.
    db.set_busy_timeout(BUSY_MS)
    try:
        schema.check_ours(db, url)
    finally:
        db.close()


async def _on(thread: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(thread, work)


@contextmanager
def translated(url: str) -> Iterator[None]:
    """Driver errors stop here."""
    try:
        yield
    except (apsw.BusyError, apsw.LockedError) as cause:
        raise StoreBusy(f"{url} is locked by another program") from cause
    except apsw.ConstraintError as cause:
        raise StoreError(f"the schema of {url} refused a batch: {cause}") from cause
    except apsw.FullError as cause:
        raise StoreUnavailable(f"{url}: the disk is full: make room and try again") from cause
    except apsw.CorruptError as cause:
        raise StoreUnavailable(f"{url} is damaged ({cause}): restore a backup") from cause
    except apsw.NotADBError as cause:
        raise StoreUnavailable(f"{url} is not a SQLite database") from cause
    except apsw.Error as cause:
        raise StoreUnavailable(f"{url}: {cause}") from cause
    except OSError as cause:
        where = f": {cause.filename}" if cause.filename else ""
        raise StoreUnavailable(f"{url}: {cause.strerror}{where}") from cause
