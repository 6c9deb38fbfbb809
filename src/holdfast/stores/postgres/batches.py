"""Batches on PostgreSQL: READ COMMITTED, the lock order of `domain.batch`, the database's clock,
and no lock that outlives a batch. Quickly where nobody is met (`quick.py`), else with locks."""

import asyncio
from collections.abc import Sequence
from typing import Any

import asyncpg

from holdfast.domain.batch import Fetch, What, run
from holdfast.domain.commands import Command
from holdfast.domain.model import Event, Millis
from holdfast.domain.outcomes import Answer, Reason, Refused
from holdfast.domain.shelf import Shelf, Totals
from holdfast.errors import CommitUnknown, StoreBusy, StoreError
from holdfast.ports import Committed, nothing
from holdfast.settings import Settings
from holdfast.stores import Clock, drive_async
from holdfast.stores.houses import Houses, Unbuilt, build
from holdfast.stores.postgres.arrays import columns
from holdfast.stores.postgres.barrier import Barrier, Evidence
from holdfast.stores.postgres.connections import FLUSH, Connections, drop
from holdfast.stores.postgres.errors import LOST, Connection, said, translated
from holdfast.stores.postgres.presumed import Neighbours, Presumptions
from holdfast.stores.postgres.quick import Look, NotQuick, fits
from holdfast.stores.postgres.reading import SQL, Reader
from holdfast.stores.postgres.recent import Recent
from holdfast.stores.postgres.writing import Writer
from holdfast.stores.rows import read_config, to_json

GUARDED = (asyncpg.DivisionByZeroError, asyncpg.IntegrityConstraintViolationError)
"""What a write fails with where something is not as it was taken to be."""
DOUBTFUL_MAX = 100_000
BUILD_SECONDS = 60.0
"""For reading the plan of a house of a million seats."""


class Batches(Connections):
    def __init__(self, url: str, settings: Settings, clock: Clock | None = None) -> None:
        super().__init__(url, settings)
        self._clock = clock
        self._houses = Houses()
        self._configs: dict[str, Event] = {}
        self._recent = Recent()
        self._presumptions = Presumptions()
        self._server_started: object = None
        self._barrier = Barrier(self._flush)
        self._doubtful: set[str] = set()
        """Commands that may have been done, until they are run again: that is looked up."""

    def _renewed(self) -> None:
        self._configs.clear()

    async def apply(
        self, commands: Sequence[Command], committed: Committed = nothing
    ) -> list[Answer]:
        try:
            with translated(self.url):
                done = await self._quickly(commands[0].event, commands)
                while done is None:
                    try:
                        async with self._transaction() as db:
                            done = await self._apply(db, commands[0].event, commands)
                            self._learn_keys(commands, done[0])
                    except Unbuilt as missing:
                        await self._build(missing.event)
            answers, evidence = done
            self._houses.trim()
            committed()
            if not all(_harmless(answer) for answer in answers):
                await self._durable(evidence)
        except CommitUnknown:
            if len(self._doubtful) > DOUBTFUL_MAX:
                self._doubtful.clear()  # of commands that nobody has run again
            self._doubtful.update(command.id for command in commands)
            raise
        if self._doubtful:
            self._doubtful.difference_update([command.id for command in commands])
        return answers

    def _learn_keys(self, commands: Sequence[Command], answers: Sequence[Answer]) -> None:
        """Of those that turned out to be used: whoever comes with one again is looked at first."""
        for command, answer in zip(commands, answers, strict=True):
            no = answer.outcome
            if isinstance(no, Refused) and no.reason is Reason.IDEMPOTENCY_MISMATCH:
                self._recent.used(command.event, command.id)

    def _may_be_quick(self, event: str) -> bool:
        """Not where a house is kept: it would have to be told, and untold if that fails."""
        if self.pooled or not self._settings.early_release:
            return False
        return self._houses.peek(event) is None

    async def _quickly(
        self, event: str, commands: Sequence[Command], *, trusting: bool = True
    ) -> tuple[list[Answer], Evidence | None] | None:
        """Looks, decides, and writes under guard, without a lock; None if it has to be done with
        locks. `trusting`: what was written here a moment ago, and what is most probably so, is
        not looked at first."""
        config = self._configs.get(event)
        if not self._may_be_quick(event) or not fits(config, commands):
            return None
        if self._doubtful and any(command.id in self._doubtful for command in commands):
            return None
        assert config is not None
        shelf = Shelf(event, config)
        async with self._acquired() as db:
            if self._configs.get(event) is not config:
                return None  # a new connection: the server may have forgotten it
            # Of one moment: the server that is looked at is the one that was written to.
            written = self._recent.of(event) if trusting else None
            presumed = self._presumed(config) if trusting else None
            look = Look(
                db, config, shelf, commands, self._server_started, written, presumed, self._clock
            )
            try:
                answers = await drive_async(run(shelf, commands), look.fetch)
                if look.sure:
                    return await self._written_alone(db, look, shelf, answers)
            except LOST as cause:
                drop(db)
                await self._distrust()
                raise CommitUnknown(f"{self.url} did not answer a batch: {said(cause)}") from cause
            except NotQuick:
                return None
            except (StoreBusy, asyncpg.PostgresError) as cause:
                # Whatever it is, it is found again, and dealt with, under locks; perhaps it was
                # because of a row that is no longer as it was recalled.
                self._recent.forget(event)
                if not (look.presumed and isinstance(cause, GUARDED)):
                    return None
                self._presumptions.failed(event)
            except asyncio.CancelledError:
                drop(db)
                raise
        done = await self._quickly(event, commands, trusting=False)
        if done is not None:
            self._learn_keys(commands, done[0])
        return done

    async def _written_alone(
        self, db: Connection, look: Look, shelf: Shelf, answers: list[Answer]
    ) -> tuple[list[Answer], Evidence | None] | None:
        """As `_quickly`, of a batch that was decided."""
        if not shelf.changed:
            return (answers, None) if all(map(_harmless, answers)) else None
        if not shelf.facts:
            return None
        timed = not look.looked and self._clock is None
        flushed = self._barrier.quick
        done = await Writer(db).write_alone(shelf, look.now, timed=timed, flushed=flushed)
        if done is None:
            return None
        event = shelf.event_id
        self._recent.learn(event, shelf)
        self._presumptions.told(done.server_ms)
        self._presumptions.learn(event, look.seen, done.last)
        self._wakeups.notify()
        if done.durable:
            return answers, None
        return answers, Evidence(event, done.last, look.now, to_json(shelf.facts[-1].data))

    def _presumed(self, config: Event) -> tuple[Neighbours, Millis] | None:
        """What seats of the event are like, and what time it is, if both may be presumed."""
        neighbours = self._presumptions.of(config.id)
        now = self._clock() if self._clock else self._presumptions.now()
        if neighbours is None or now is None:
            return None
        # What is held at the new prices is not held before they came.
        changed_ms = config.earlier_prices[-1][0] if config.earlier_prices else 0
        return neighbours, max(now, changed_ms)

    async def _build(self, event: Event) -> None:
        async with self._transaction() as db:
            await db.execute("SET LOCAL statement_timeout = 0")
            rows = await db.fetch(SQL["house"], event.id, timeout=BUILD_SECONDS)
            await db.execute("ROLLBACK")
        self._houses.keep(event, await asyncio.to_thread(build, event, rows))

    async def _durable(self, *evidence: Evidence | None) -> None:
        """Returns when all that was seen or done so far is on disk. What was seen, others may have
        committed a moment ago: the evidence is the last fact, whoever wrote it."""
        seen = [each for each in evidence if each is not None]
        if not self._settings.early_release or not seen:
            return
        try:
            await self._barrier.wait(*seen)
        except BaseException:
            # What was committed may be lost, and with it what houses and configurations know.
            self._houses.forget_all()
            self._configs.clear()
            self._recent.forget_all()
            self._presumptions.forget_all()
            raise

    async def _last_fact(self, db: Connection, event: str) -> Evidence | None:
        """All that was read so far was committed before it, or with it."""
        row = await db.fetchrow(SQL["last_fact"], event)
        return Evidence(event, *row) if row else None

    async def _apply(
        self, db: Connection, event: str, commands: Sequence[Command]
    ) -> tuple[list[Answer], Evidence | None]:
        """Decides, writes and commits; returns what shows that none of it was lost."""
        config, seq, totals = await self._config(db, event)
        reader = Reader(db, event)
        shelf = Shelf(event, config, self._houses.peek(event), totals, hinted=True)
        shelf.as_of = seq
        now: Millis = 0

        async def fetch(want: Fetch) -> Sequence[Any]:
            nonlocal now
            if want.what is What.HOUSE:
                # As of now, not of before the locks were waited for.
                head = await db.fetchval(SQL["head"], event)
                return [await reader.house(self._houses.current(config, head))] if config else []
            if want.what is What.NOW:
                now = self._clock() if self._clock else (await reader.fetch(want))[0]
                self._presumptions.told(now)
                return [now]
            if want.what is What.DUE and self._clock:
                want = Fetch(want.what, want.keys, self._clock())
            return await reader.fetch(want)

        try:
            answers = await drive_async(run(shelf, commands), fetch)
            shelf.unskip()
            if not shelf.changed:
                told = not all(_harmless(answer) for answer in answers)
                seen = await self._last_fact(db, event) if told else None
                # Nothing to commit: the commit of nothing would still cost a flush.
                await db.execute("ROLLBACK")
                return answers, seen
            last = await Writer(db).write(shelf, now)
            if not shelf.facts:
                # A step of a checkout: it writes no fact that a barrier could look for.
                await db.execute(FLUSH)
            await self._commit(db)
        except BaseException:
            self._houses.forget(event)
            self._configs.pop(event, None)
            self._recent.forget(event)
            raise
        if shelf.event is not None:
            self._configs[event] = shelf.event
        self._houses.committed(event, last - len(shelf.facts), last)
        if self._may_be_quick(event):
            self._recent.learn(event, shelf)
        if not shelf.facts:
            return answers, None
        self._wakeups.notify()
        return answers, Evidence(event, last, now, to_json(shelf.facts[-1].data))

    async def _flush(self, evidence: Sequence[Evidence]) -> set[Evidence]:
        """The barrier: a commit of its own connection that waits for the disk."""
        try:
            async with self._barrier_connection() as db:
                # One statement, which is a transaction of its own: its reply comes after its flush.
                asked = columns(evidence) if evidence else ["{}", "{}", "{}", "{}"]
                rows = await db.fetch(SQL["barrier"], *asked)
                found = {Evidence(*row[:-1]) for row in rows if row[0] is not None}
                self._presumptions.told(rows[0][-1])
        except (*LOST, asyncpg.PostgresError, StoreError) as cause:
            if self._barrier_db is not None:
                self._barrier_db.terminate()
            await self._distrust()
            raise CommitUnknown(f"{self.url} did not answer a barrier: {said(cause)}") from cause
        return found

    async def _config(self, db: Connection, event: str) -> tuple[Event | None, int, Totals]:
        """As it stands, how far the log is, and what the event has."""
        row = await db.fetchrow(SQL["counters"], event)
        if row is None:
            return None, 0, Totals()
        version, seq, *totals, started = row
        if started != self._server_started:
            # Another server, or one that crashed: it may have forgotten what was seen of it.
            self._houses.forget_all()
            self._configs.clear()
            self._recent.forget_all()
            self._presumptions.forget_all()
            self._server_started = started
        config = self._configs.get(event)
        if config is None or config.version != version:
            config = self._configs[event] = read_config(await db.fetchval(SQL["config"], event))
        return config, seq, Totals(*totals)


HARMLESS = (
    *(Reason.TAKEN, Reason.SOLD_OUT, Reason.INSUFFICIENT, Reason.NOT_TOGETHER),
    *(Reason.BUYER_CAP, Reason.NOT_ON_SALE, Reason.UNKNOWN_EVENT, Reason.UNKNOWN_UNIT),
)
"""Refusals that say nothing which a crash could make untrue to somebody's loss."""


def _harmless(answer: Answer) -> bool:
    return isinstance(answer.outcome, Refused) and answer.outcome.reason in HARMLESS
