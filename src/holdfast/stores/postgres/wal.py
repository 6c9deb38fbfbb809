"""The facts of the log as they are committed, from PostgreSQL's write-ahead log: without polling.

Logical decoding sends whole transactions, in the order of their commits, and only those that the
server has flushed ("Only transactions that have already safely been flushed to disk will be
decoded", says its manual; the sender reads up to the flushed position and no further). So nothing
is told from here before it is durable on this server, although batches commit without waiting for
the disk. The barrier that follows each of them (barrier.py) is what makes them come at once:
without it the server would flush, and send, up to three times wal_writer_delay later. For a
synchronous standby only the barrier waits, not the sender.

psycopg is used for its libpq only. It has no replication of its own, which is as well: psycopg2,
which has, confirms by itself what a keepalive tells whenever the last message began before what was
confirmed, and so also what was not, since transactions overlap.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Iterator
from struct import Struct
from time import time
from typing import NamedTuple

import msgspec
import psycopg
from psycopg.pq import ExecStatus

from holdfast.domain.facts import Entry
from holdfast.errors import NotOpen, SettingsError, StoreBusy, StoreError, StoreUnavailable
from holdfast.stores.postgres.errors import said
from holdfast.stores.postgres.pgoutput import Begin, Commit, Garbled, Insert, Relation, decode
from holdfast.stores.postgres.slot import CONNECT_SECONDS, Slot
from holdfast.stores.rows import read_data
from holdfast.tasks import end_task

FACTS_MAX = 1_000
BYTES_MAX = 4 * 1024 * 1024
MESSAGES_MAX = 4_000
"""Of one read, about: more would keep the loop from others for too long, and fill the memory."""
BEAT_SECONDS = 1.0
"""Between two reports to the server."""
SENDER_SECONDS = 20
"""After which the server lets go of a relay whose machine has vanished, for another to step in."""
SILENCE_SECONDS = 60.0
"""For so long a question may stay unanswered: a sender that works through gigabytes of other tables
says nothing either."""
SLOW_SECONDS = 60.0
"""For so long nobody may read. Then the connection is let go: a server that is to stop waits for
whoever does not take what it sends."""
LEAVING_SECONDS = 1.0
"""In which a slot may still be taken by a relay that has just gone."""
LOOK_SECONDS = 0.05

FROM_THE_SLOT = "0/0"
"""Where to begin is the server's to say. A position that we remember may be ahead of a server that
came back from an older state, which would then skip up to it."""
COLUMNS = ("event", "seq", "type", "at_ms", "data")

_data = Struct("!cQQq")  # where it begins and ends, time
_keepalive = Struct("!cQqB")  # how far the server is, time, whether it wants an answer
_report = Struct("!cQQQqB")  # received, confirmed, applied, time, whether we want an answer
DATA, KEEPALIVE = b"wk"
SINCE_2000 = 946_684_800

log = logging.getLogger("holdfast.postgres")


class Committed(NamedTuple):
    """Facts that were committed together. A commit of more than FACTS_MAX comes in parts, of which
    all but the last have the place where the commit begins: confirmed, it comes again."""

    entries: list[Entry]
    lsn: int


class Assembler:
    """Puts messages together to commits. Pure."""

    def __init__(self) -> None:
        self._columns: dict[int, list[int]] = {}
        """Of each table that is the log: where our columns are."""
        self._entries: list[Entry] = []
        self._bytes = 0
        self._commit_lsn: int | None = None
        self.passed = 0
        """Everything up to here was told, and belongs to no transaction that is being told."""

    def feed(self, payload: memoryview) -> Committed | None:
        """What the message completes. Raises Garbled."""
        match decode(payload):
            case Insert(relation, values):
                return self._take_row(relation, values, len(payload))
            case Begin(commit_lsn):
                self._commit_lsn = commit_lsn
            case Commit(_, end_lsn):
                self._commit_lsn = None
                self.reached(end_lsn)
                return self._complete(end_lsn)
            case Relation() as table:
                self._learn(table)
        return None

    def reached(self, lsn: int) -> None:
        """The server is as far as that."""
        if self._commit_lsn is None:
            self.passed = max(self.passed, lsn)

    def _learn(self, table: Relation) -> None:
        self._columns.pop(table.id, None)
        if (table.namespace, table.name) != ("holdfast", "log"):
            return
        if missing := set(COLUMNS) - set(table.columns):
            raise Garbled(f"holdfast.log has no column {', '.join(sorted(missing))}")
        self._columns[table.id] = [table.columns.index(each) for each in COLUMNS]

    def _take_row(
        self, relation: int, values: tuple[str | None, ...], length: int
    ) -> Committed | None:
        places = self._columns.get(relation)
        if places is None:
            return None  # another table of the publication
        event, seq, type, at_ms, data = (values[place] for place in places)
        if event is None or seq is None or type is None or at_ms is None or data is None:
            raise Garbled(f"a fact that is not whole: {event} {seq}")
        try:
            entry = Entry(event, int(seq), type, int(at_ms), read_data(data))
        except (ValueError, msgspec.DecodeError) as cause:
            raise Garbled(f"a fact that cannot be read, {event} {seq}: {cause}") from cause
        self._entries.append(entry)
        self._bytes += length
        if len(self._entries) < FACTS_MAX and self._bytes < BYTES_MAX:
            return None
        return self._complete(self._commit_lsn or 0)

    def _complete(self, lsn: int) -> Committed | None:
        if not self._entries:
            return None
        entries, self._entries, self._bytes = self._entries, [], 0
        return Committed(entries, lsn)


class Stream:
    """A connection on which the server sends; nothing of it blocks the loop."""

    def __init__(self, connection: psycopg.AsyncConnection) -> None:
        self._connection = connection
        self._libpq = connection.pgconn

    @classmethod
    async def start(cls, url: str, slot: Slot) -> "Stream":
        connection = await psycopg.AsyncConnection.connect(
            url,
            autocommit=True,
            replication="database",
            client_encoding="UTF8",
            connect_timeout=int(CONNECT_SECONDS),
            # A machine that vanished does not answer, and does not say so.
            keepalives_idle=5,
            keepalives_interval=5,
            keepalives_count=3,
            tcp_user_timeout=20_000,
        )
        try:
            await connection.execute(f"SET wal_sender_timeout = '{SENDER_SECONDS}s'".encode())
            await connection.execute(
                f"START_REPLICATION SLOT {slot.name} LOGICAL {FROM_THE_SLOT} "
                f"(proto_version '1', publication_names '{slot.publication}')".encode()
            )
        except BaseException:
            await connection.close()
            raise
        return cls(connection)

    def take(self) -> memoryview | None:
        """The next message that is here already."""
        size, message = self._libpq.get_copy_data(1)
        if size == 0:
            # Only now: libpq would put message upon message into a buffer that knows no limit.
            self._libpq.consume_input()
            size, message = self._libpq.get_copy_data(1)
        if size > 0:
            return message
        if size == 0:
            return None
        ended = self._libpq.get_result()
        if ended is not None and ended.status == ExecStatus.FATAL_ERROR:
            raise psycopg.errors.error_from_result(ended)
        raise psycopg.OperationalError("the server has ended the stream")

    async def readable(self, timeout_seconds: float) -> None:
        """Returns when there is something to take, or after the timeout."""
        loop = asyncio.get_running_loop()
        arrived = asyncio.Event()
        socket = self._libpq.socket
        loop.add_reader(socket, arrived.set)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_seconds):
                    await arrived.wait()
        finally:
            loop.remove_reader(socket)

    def report(self, received: int, confirmed: int, *, ask: bool) -> None:
        now = int((time() - SINCE_2000) * 1_000_000)
        self._libpq.put_copy_data(_report.pack(b"r", received, confirmed, 0, now, ask))
        self._libpq.flush()

    async def close(self) -> None:
        await self._connection.close()


class Wal:
    """The facts of holdfast.log from the write-ahead log, in the order of commits. May repeat what
    was not confirmed, after `open`; skips nothing that was committed after the slot was made."""

    def __init__(
        self,
        url: str,
        slot: str = "holdfast",
        publication: str = "holdfast_log",
        *,
        silence_seconds: float = SILENCE_SECONDS,
        slow_seconds: float = SLOW_SECONDS,
    ) -> None:
        self._slot = Slot(url, slot, publication)
        self.url = self._slot.url
        self._dsn = url
        self._silence_seconds = silence_seconds
        self._slow_seconds = slow_seconds
        self._stream: Stream | None = None
        self._beating: asyncio.Task[None] | None = None
        self._begin()

    def _begin(self) -> None:
        self._assembler = Assembler()
        self._ready: list[Committed] = []
        self._unconfirmed: deque[int] = deque()
        self._confirmed = 0
        self._told = 0
        self._asked: float | None = None
        self._reading = False
        self._last_read = 0.0

    async def open(self) -> bool:
        """Starts where the slot stands; whether it had to be made. What was committed before that
        does not come: it is on the log by now. What was read before and not confirmed comes again.

        Raises SettingsError when somebody has to set something first, StoreBusy while another relay
        reads from the slot, StoreUnavailable when the server cannot be reached, and StoreError when
        the slot was lost."""
        await self.close()
        made = await self._slot.prepare()
        patient_until = asyncio.get_running_loop().time() + LEAVING_SECONDS
        while True:
            try:
                with self._translated():
                    stream = await Stream.start(self._dsn, self._slot)
                break
            except StoreBusy:
                if asyncio.get_running_loop().time() > patient_until:
                    raise
                await asyncio.sleep(LOOK_SECONDS)
        self._begin()
        self._stream = stream
        self._last_read = asyncio.get_running_loop().time()
        self._beating = asyncio.create_task(self._beat(stream))
        return made

    async def close(self) -> None:
        """Reports what was confirmed, and lets go of the slot."""
        await end_task(self._beating)
        self._beating = None
        stream, self._stream = self._stream, None
        if stream is not None:
            with contextlib.suppress(psycopg.Error):
                self._report(stream, ask=False)
            await stream.close()

    async def drop(self) -> None:
        """Removes slot and publication, of which nothing is kept then. Raises StoreBusy while
        another relay reads."""
        await self.close()
        patient_until = asyncio.get_running_loop().time() + LEAVING_SECONDS
        while True:
            try:
                return await self._slot.drop()
            except StoreBusy:
                if asyncio.get_running_loop().time() > patient_until:
                    raise
            await asyncio.sleep(LOOK_SECONDS)

    async def retained_bytes(self) -> int:
        """How much write-ahead log the server keeps for us, 0 where there is no slot. Raises
        StoreError when it stopped to: then facts are missing, and the slot has to be made anew."""
        return await self._slot.retained_bytes()

    def confirm(self, lsn: int) -> None:
        """Everything that was read up to there is done: the server is told within a second, and
        `open` goes on after it. What has not been read since `open` is not confirmed."""
        while self._unconfirmed and self._unconfirmed[0] <= lsn:
            self._confirmed = self._unconfirmed.popleft()

    async def read(self, timeout_seconds: float) -> list[Committed]:
        """Everything that is here, up to about FACTS_MAX facts, or nothing after the timeout.
        Cancelled, it loses nothing. Raises StoreUnavailable when the connection is lost: `open` it
        again; StoreError when the log cannot be understood."""
        if self._stream is None:
            raise NotOpen("the stream of the write-ahead log is not open")
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_seconds
        self._reading = True
        try:
            with self._translated():
                await asyncio.sleep(0)  # others have their turn, also while there is much to read
                while True:
                    drained = self._gather(self._stream)
                    left = until - loop.time()
                    if self._ready or left <= 0:
                        break
                    self._check_silence(loop.time())
                    # What libpq has taken off the socket does not make it readable again.
                    await self._stream.readable(min(left, BEAT_SECONDS) if drained else 0)
        finally:
            self._reading = False
            self._last_read = loop.time()
        ready, self._ready = self._ready, []
        self._unconfirmed.extend(each.lsn for each in ready)
        return ready

    def _gather(self, stream: Stream) -> bool:
        """Takes what is here, within limits; whether that was all."""
        facts = size = 0
        for _ in range(MESSAGES_MAX):
            message = stream.take()
            if message is None:
                return True
            self._asked = None
            if message[0] == KEEPALIVE:
                _, reached, _, answer = _keepalive.unpack_from(message)
                self._assembler.reached(reached)
                if answer:
                    self._report(stream, ask=False)
            elif message[0] == DATA:
                size += len(message)
                committed = self._assembler.feed(message[_data.size :])
                if committed is not None:
                    facts += len(committed.entries)
                    self._ready.append(committed)
            if facts >= FACTS_MAX or size >= BYTES_MAX:
                break
        return False

    def _check_silence(self, now: float) -> None:
        if self._asked is not None and now - self._asked > self._silence_seconds:
            raise StoreUnavailable(
                f"{self.url}: the server has said nothing for {self._silence_seconds:g} s"
            )

    async def _beat(self, stream: Stream) -> None:
        """Reports, also while nobody reads: else the server would take us for dead."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            idle = 0.0 if self._reading else loop.time() - self._last_read
            if idle > self._slow_seconds:
                log.warning("nobody has read from the write-ahead log for %.0f s", idle)
                await stream.close()
                return
            ask = idle < BEAT_SECONDS
            if ask and self._asked is None:
                self._asked = loop.time()
            try:
                self._report(stream, ask=ask)
            except psycopg.Error:
                return  # whoever reads is told

    def _report(self, stream: Stream, *, ask: bool) -> None:
        """Everything was received; what is new among the confirmed. Where nothing waits to be
        confirmed, that is all that the server has gone through, so that it keeps nothing for us
        while other tables change.

        What was confirmed is told once: a server that is told of a place before the end of what it
        sent would not stop as long as we are there; one that is told of none looks at what was
        received."""
        if not self._unconfirmed and not self._ready:
            self._confirmed = max(self._confirmed, self._assembler.passed)
        news = self._confirmed if self._confirmed > self._told else 0
        stream.report(self._assembler.passed, news, ask=ask)
        self._told = self._confirmed

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """The driver's errors stop here."""
        try:
            yield
        except Garbled as cause:
            raise StoreError(f"{self.url}: the write-ahead log tells {cause}") from cause
        except psycopg.errors.ObjectInUse as cause:
            why = f"is in use by another relay ({said(cause)})"
            raise StoreBusy(f"{self.url}: the slot {self._slot.name} {why}") from cause
        except psycopg.errors.InsufficientPrivilege as cause:
            raise self._slot.lacking() from cause
        except psycopg.errors.UndefinedObject as cause:
            # Of the slot or the publication: one was dropped, and made again or not, without us.
            again = f"drop the slot {self._slot.name} and start again"
            raise StoreError(f"{self.url}: {said(cause)}: {again}") from cause
        except psycopg.errors.ObjectNotInPrerequisiteState as cause:
            raise self._slot.lost() from cause
        except psycopg.ProgrammingError as cause:
            raise SettingsError(f"{self.url}: {said(cause)}") from cause
        except (psycopg.Error, OSError) as cause:
            if self._stream is None and not self._slot.has_right:
                raise self._slot.lacking() from cause
            raise StoreUnavailable(f"{self.url}: the stream broke off: {said(cause)}") from cause
