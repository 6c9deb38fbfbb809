"""The stream of the write-ahead log: every fact in order of commits, whatever stops meanwhile."""

import asyncio
import statistics
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from holdfast import Placed
from holdfast.domain.facts import Entry
from holdfast.errors import NotOpen, SettingsError, StoreBusy, StoreError, StoreUnavailable
from holdfast.stores.postgres import wal as module
from holdfast.stores.postgres.wal import Committed, Wal
from tests import services
from tests.databases.conftest import found
from tests.databases.kinds import DATABASES, Session
from tests.databases.shops import E1, helpers, plan, selling, shop_at, until
from tests.servers import MissingServer, Postgres, own_server

pytestmark = pytest.mark.service

POSTGRES = DATABASES["postgres"]
SLOT = "holdfast"
READ_SECONDS = 20.0
"""What is read comes at once; this only ends a test in which it never will."""


def logical(**settings: str):
    """A server that decodes; the machine may lack one, but not in CI."""
    try:
        # It has no power to lose: what was written survives the death of its processes.
        return own_server(Postgres, wal_level="logical", fsync="off", **settings)
    except MissingServer as missing:
        if services.strict():
            raise
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def server():
    with logical() as server:
        yield server


@pytest.fixture(autouse=True)
def quick_reports(monkeypatch):
    monkeypatch.setattr(module, "BEAT_SECONDS", 0.1)


@pytest.fixture
async def url(server):
    """The address of a database with a schema; its slots are gone afterwards."""
    async with POSTGRES.empty(server) as url:
        async with shop_at(url):
            pass
        yield url
        async with POSTGRES.sessions(url) as (admin,):
            await admin.execute(
                "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots"
                " WHERE active_pid IS NOT NULL"
            )
            drop = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
            await until(lambda: done(admin, drop), "that the slots are free")


@pytest.fixture
async def session(url):
    async with POSTGRES.sessions(url) as (session,):
        yield session


@asynccontextmanager
async def streaming(url: str, **options) -> AsyncIterator[Wal]:
    wal = Wal(url, **options)
    await wal.open()
    try:
        yield wal
    finally:
        await wal.close()


async def done(session: Session, sql: str) -> bool:
    try:
        await session.execute(sql)
    except Exception:
        return False
    return True


async def value(session: Session, sql: str):
    [(found,)] = await session.rows(sql)
    return found


async def write(session: Session, *seqs: int, event: str = "e1", data: str = "{}") -> None:
    """Facts, in one transaction."""
    rows = ", ".join(f"('{event}', {seq}, 'hold.placed', 5, '{data}')" for seq in seqs)
    await session.execute(f"INSERT INTO holdfast.log VALUES {rows}")


async def facts(wal: Wal, count: int) -> list[Committed]:
    """So many facts, or a few more."""
    came: list[Committed] = []
    last = time.monotonic() + READ_SECONDS
    while len(entries(came)) < count:
        assert time.monotonic() < last, f"only {len(entries(came))} of {count} facts came"
        came += await wal.read(1.0)
    return came


async def read_for_ever(wal: Wal) -> None:
    while True:
        await wal.read(READ_SECONDS)


def entries(came: list[Committed]) -> list[Entry]:
    return [entry for each in came for entry in each.entries]


def seqs(came: list[Committed]) -> list[int]:
    return [entry.seq for entry in entries(came)]


async def confirmed(session: Session) -> int:
    """How far the server believes us to be."""
    return int(
        await value(
            session,
            "SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots"
            f" WHERE slot_name = '{SLOT}'",
        )
    )


async def reports(session: Session, count: int) -> None:
    """Returns when the server has heard from us so many times more."""
    heard = "SELECT max(reply_time) FROM pg_stat_replication"
    for _ in range(count):
        before = await value(session, heard)

        async def again(before=before) -> bool:
            return bool(await value(session, heard) != before)

        await until(again, "a report")


async def test_facts_of_many_events_and_processes_arrive_in_order_and_none_is_missing(url):
    events = [f"other-{number}" for number in range(4)]
    came: list[Committed] = []
    async with streaming(url) as wal, selling(url) as shop:
        for event in events:
            await shop.create_event(plan(id=event))

        async def buyer(event: str, number: int) -> None:
            for turn in range(10):
                buyer = f"{number}-{turn}"
                placed = await shop.place_hold(event, buyer=buyer, pools={"floor": 1})
                assert isinstance(placed, Placed)
                await shop.release_hold(placed.hold.id)

        async def read() -> None:
            while True:
                came.extend(await wal.read(1.0))
                if came:
                    wal.confirm(came[-1].lsn)

        reading = asyncio.create_task(read())
        async with helpers("churn", [(1.0, url, name) for name in ("one", "two")]) as others:
            for other in others:
                other.go()
            await asyncio.gather(*(buyer(event, n) for event in events for n in range(4)))
            await asyncio.gather(*(other.last_line() for other in others))
        heads = await shop.store.heads()

        async def complete() -> bool:
            return len(entries(came)) >= sum(heads.values())

        await until(complete, "that all facts came")
        reading.cancel()
        arrived = defaultdict(list)
        for entry in entries(came):
            arrived[entry.event].append(entry)
        assert set(arrived) == set(heads) == {E1, *events}
        assert heads[E1] > 20, "the processes have written"
        for event, head in heads.items():
            assert [entry.seq for entry in arrived[event]] == list(range(1, head + 1))
            assert arrived[event] == await shop.store.log(event, 0, head)


async def test_what_is_rolled_back_or_refused_never_arrives(url, session):
    async with streaming(url) as wal, shop_at(url) as shop:
        await shop.create_event(plan())
        await session.execute("BEGIN")
        await write(session, 1, event="x")
        await session.execute("ROLLBACK")
        await shop.place_hold(E1, buyer="ann", seats=["A-1-1"])
        await shop.place_hold(E1, buyer="bob", seats=["A-1-1"])
        await write(session, 2, event="x")
        assert [(each.event, each.seq) for each in entries(await facts(wal, 3))] == [
            (E1, 1),
            (E1, 2),
            ("x", 2),
        ]
        assert await wal.read(0.1) == []


async def test_facts_come_in_the_order_of_commits_not_of_their_writing(url, session):
    async with streaming(url) as wal, POSTGRES.sessions(url) as (early,):
        await early.execute("BEGIN")
        await write(early, 1, 2, event="early")
        await write(session, 1, event="late")
        await early.execute("COMMIT")
        first, second = await facts(wal, 3)
        assert {each.event for each in first.entries} == {"late"}
        assert {each.event for each in second.entries} == {"early"}
        assert first.lsn < second.lsn


@pytest.mark.parametrize("ending", ["closed", "cut"])
async def test_after_a_restart_the_first_fact_not_confirmed_comes_next(url, session, ending):
    async with streaming(url) as wal:
        for seq in (1, 2, 3):
            await write(session, seq)
        came = await facts(wal, 3)
        wal.confirm(came[1].lsn)
        if ending == "closed":
            await wal.close()
        else:
            await reports(session, 2)
            await session.execute(
                "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots"
            )
            with pytest.raises(StoreUnavailable):
                await wal.read(READ_SECONDS)
        await write(session, 4)
        assert await wal.open() is False, "the slot was there"
        assert seqs(await facts(wal, 2)) == [3, 4]


async def test_what_was_never_confirmed_comes_again_however_often(url, session):
    async with streaming(url) as wal:
        await write(session, 1)
        for _ in range(3):
            assert seqs(await facts(wal, 1)) == [1]
            await wal.open()


async def test_nothing_is_confirmed_before_what_came_earlier_and_was_not(url, session):
    """Also where transactions overlap: one that began long ago and ends last."""
    async with streaming(url) as wal, POSTGRES.sessions(url) as (early,):
        await early.execute("BEGIN")
        await write(early, 1, event="early")
        await write(session, 1)
        [done_] = await facts(wal, 1)
        wal.confirm(done_.lsn)
        await write(session, 2)
        [waiting] = await facts(wal, 1)
        await early.execute("COMMIT")
        [last] = await facts(wal, 1)
        reading = asyncio.create_task(wal.read(READ_SECONDS))
        await reports(session, 3)
        assert done_.lsn <= await confirmed(session) < waiting.lsn < last.lsn
        reading.cancel()
        await wal.open()
        assert [each.event for each in entries(await facts(wal, 2))] == ["e1", "early"]


async def test_a_confirmation_reaches_no_further_than_what_was_read(url, session):
    """One from before the stream was opened again may be anything: a server that was restored from
    an older state has other positions."""
    async with streaming(url) as wal:
        await write(session, 1)
        await facts(wal, 1)
        await wal.open()
        wal.confirm(2**60)
        assert seqs(await facts(wal, 1)) == [1]


async def test_a_read_that_is_cancelled_loses_nothing(url, session):
    came: list[Committed] = []
    cancelled = 0
    async with streaming(url) as wal:
        for seq in range(1, 31):
            reading = asyncio.create_task(wal.read(READ_SECONDS))
            await write(session, seq)
            for _ in range(seq % 3):
                await asyncio.sleep(0)
            reading.cancel()
            try:
                came += await reading
            except asyncio.CancelledError:
                cancelled += 1
        await write(session, 31)
        came += await facts(wal, 31 - len(entries(came)))
        assert seqs(came) == list(range(1, 32))
        assert cancelled > 0


async def test_a_slot_moves_on_while_only_other_tables_change(url, session):
    await session.execute("CREATE TABLE other (id integer)")
    async with streaming(url) as wal:
        reading = asyncio.create_task(wal.read(READ_SECONDS))
        await session.execute("INSERT INTO other SELECT generate_series(1, 10000)")
        written = int(await value(session, "SELECT pg_current_wal_lsn() - '0/0'"))

        async def caught_up() -> bool:
            return await confirmed(session) >= written

        await until(caught_up, "that the slot moves on")
        # The control: a fact that waits to be confirmed keeps it where it is.
        await write(session, 1)
        [waiting] = await reading
        reading = asyncio.create_task(wal.read(READ_SECONDS))
        await session.execute("INSERT INTO other SELECT generate_series(1, 10000)")
        await reports(session, 3)
        assert await confirmed(session) < waiting.lsn
        assert await wal.retained_bytes() > 0
        wal.confirm(waiting.lsn)
        written = int(await value(session, "SELECT pg_current_wal_lsn() - '0/0'"))
        await until(caught_up, "that the slot moves on again")
        reading.cancel()


async def test_a_second_relay_stands_by_until_the_first_has_gone(url, session):
    async with streaming(url) as first:
        second = Wal(url)
        pid = await value(session, "SELECT active_pid FROM pg_replication_slots")
        with pytest.raises(StoreBusy, match=f"holdfast is in use by another relay .*{pid}"):
            await second.open()
        with pytest.raises(StoreBusy):
            await second.drop()
        await write(session, 1)
        assert seqs(await facts(first, 1)) == [1]
    assert await second.open() is False
    assert seqs(await facts(second, 1)) == [1], "it was not confirmed"
    await second.close()


async def test_a_relay_that_nobody_reads_from_is_kept_alive_for_a_while(url, session, monkeypatch):
    """Longer than the server's own patience with a client that says nothing, which is the control:
    with no reports it ends the connection."""
    monkeypatch.setattr(module, "SENDER_SECONDS", 1)
    age = "SELECT extract(epoch FROM clock_timestamp() - backend_start) FROM pg_stat_replication"

    async def three_seconds() -> bool:
        return bool(await value(session, age) > 3)

    async with streaming(url) as wal:
        # More than the buffers of both sides take.
        large = "x" * 1_000_000
        for seq in range(1, 21):
            await write(session, seq, data=f'{{"large": "{large}"}}')
        await until(three_seconds)
        assert seqs(await facts(wal, 20)) == list(range(1, 21))
        assert wal._beating is not None
        wal._beating.cancel()
        free = "SELECT count(*) = 1 FROM pg_replication_slots WHERE NOT active"
        await until(lambda: value(session, free), "that the server ends the connection")


async def test_a_relay_that_reads_no_more_lets_go_of_the_slot(url, session):
    async with streaming(url, slow_seconds=0.1) as wal:
        free = "SELECT count(*) = 1 FROM pg_replication_slots WHERE NOT active"
        await until(lambda: value(session, free), "that the slot is free")
        with pytest.raises(StoreUnavailable):
            await wal.read(1.0)
        await wal.open()
        await write(session, 1)
        assert seqs(await facts(wal, 1)) == [1]


async def test_large_facts_and_every_kind_of_text_arrive_as_they_are_on_the_log(url, session):
    kinds = "ä ß ñ, 漢字, 🎫, \\u0000-less, \\\\ \\\" \\n \\t, '' \u2028 \u0301"
    large = "🎫" * 262_144  # 1 MiB
    async with streaming(url) as wal, shop_at(url) as shop:
        await write(session, 1, event="Fête-漢", data=f'{{"text": "{kinds}"}}')
        await write(session, 2, event="Fête-漢", data=f'{{"text": "{large}"}}')
        came = entries(await facts(wal, 2))
        assert came == await shop.store.log("Fête-漢", 0, 10)
        assert came[1].data == {"text": large}


async def test_a_transaction_of_many_facts_comes_in_parts_and_again_whole(url, session):
    many = module.FACTS_MAX * 3 + 1
    async with streaming(url) as wal:
        await write(session, *range(1, many + 1))
        parts = await facts(wal, many)
        assert len(parts) == 4
        assert seqs(parts) == list(range(1, many + 1))
        wal.confirm(parts[2].lsn)
        await wal.open()
        again = await facts(wal, many)
        assert seqs(again) == list(range(1, many + 1))
        wal.confirm(again[-1].lsn)
        await wal.open()
        await write(session, 1, event="next")
        assert seqs(await facts(wal, 1)) == [1]


async def test_only_what_is_flushed_is_told():
    """A batch commits without waiting for the disk; the barrier makes it durable, and come."""
    with logical(wal_writer_delay="10000ms") as server:
        async with (
            shop_at(server.url),
            streaming(server.url) as wal,
            POSTGRES.sessions(server.url, 2) as (hasty, barrier),
        ):
            flush = "SELECT pg_logical_emit_message(true, 'holdfast', '')"
            await hasty.execute("SET synchronous_commit = off")
            await write(hasty, 1)  # the server writes out what was idle for long, once
            await barrier.execute(flush)
            await facts(wal, 1)
            waits = "SELECT pg_current_wal_insert_lsn() > pg_current_wal_flush_lsn()"
            for seq in range(2, 50):
                await write(hasty, seq)
                if await value(hasty, waits):
                    break
            else:
                pytest.skip("the server flushed every time")
            came = seqs(await wal.read(0.3))
            assert seq not in came
            await barrier.execute(flush)
            assert seqs(await facts(wal, 1))[-1] == seq


async def test_a_fact_arrives_as_soon_as_the_shop_has_answered(url):
    """The median of fifty, with room for a busy machine; where nobody flushes it is 200 ms."""
    lags = []
    async with streaming(url) as wal, selling(url) as shop:
        wal.confirm((await facts(wal, 1))[-1].lsn)

        async def read() -> float:
            wal.confirm((await facts(wal, 1))[-1].lsn)
            return time.perf_counter()

        for number in range(50):
            reading = asyncio.create_task(read())
            await shop.place_hold(E1, buyer=f"b{number}", pools={"floor": 1})
            answered = time.perf_counter()
            lags.append(await reading - answered)
    print(f"median lag after the answer: {statistics.median(lags) * 1000:.2f} ms")
    assert statistics.median(lags) < 0.05


async def test_a_killed_server_that_comes_back_goes_on_and_skips_nothing():
    with logical() as server:
        async with shop_at(server.url):
            pass
        async with POSTGRES.sessions(server.url) as (session,):
            wal = Wal(server.url)
            assert await wal.open() is True
            for seq in range(1, 6):
                await write(session, seq)
            came = await facts(wal, 5)
            wal.confirm(came[2].lsn)
            await reports(session, 2)
        server.kill()
        with pytest.raises(StoreUnavailable):
            await read_for_ever(wal)
        with pytest.raises(StoreUnavailable):
            await wal.open()
        with pytest.raises(NotOpen):
            await wal.read(0)
        server.start()
        async with POSTGRES.sessions(server.url) as (session,):
            await write(session, 6)
            assert await wal.open() is False
            # What was confirmed may come again: the server does not write that down each time.
            came = await facts(wal, 3)
            while seqs(came)[-1] < 6:
                came += await facts(wal, 1)
            assert seqs(came) == list(range(seqs(came)[0], 7))
            assert seqs(came)[0] <= 4
        await wal.close()


async def test_a_server_that_says_nothing_is_taken_for_lost():
    with logical() as server:
        async with shop_at(server.url):
            pass
        async with streaming(server.url, silence_seconds=0.5) as wal:
            assert await wal.read(0.01) == []
            server.freeze()
            try:
                with pytest.raises(StoreUnavailable, match=r"said nothing for 0\.5 s"):
                    await wal.read(READ_SECONDS)
            finally:
                server.thaw()


async def test_a_server_can_be_stopped_while_facts_wait_to_be_confirmed():
    """A server waits, when it is to stop, for those who say that they have not got everything."""
    with logical() as server:
        async with shop_at(server.url):
            pass
        async with streaming(server.url) as wal:
            async with POSTGRES.sessions(server.url) as (session,):
                for seq in (1, 2):
                    await write(session, seq)
                came = await facts(wal, 2)
                wal.confirm(came[0].lsn)
            reading = asyncio.create_task(wal.read(READ_SECONDS * 2))
            began = time.monotonic()
            await asyncio.to_thread(server.stop)
            assert time.monotonic() - began < 10
            with pytest.raises(StoreUnavailable):
                await reading


async def test_a_slot_that_was_lost_says_so_until_it_is_dropped():
    with logical(max_slot_wal_keep_size="1MB", min_wal_size="32MB") as server:
        async with shop_at(server.url):
            pass
        async with POSTGRES.sessions(server.url) as (session,):
            wal = Wal(server.url)
            await wal.open()
            await wal.close()
            for seq in range(1, 5):
                await write(session, seq)
                await session.execute("SELECT pg_switch_wal()")
            await session.execute("CHECKPOINT")
            for lost in (wal.retained_bytes, wal.open):
                with pytest.raises(StoreError, match="drop it and start again"):
                    await lost()
            await wal.drop()
            assert await wal.open() is True
            await write(session, 5)
            assert seqs(await facts(wal, 1)) == [5]
            await wal.close()


async def test_drop_leaves_nothing_behind(url, session):
    async with streaming(url) as wal:
        left = "SELECT (SELECT count(*) FROM pg_replication_slots) + "
        left += "(SELECT count(*) FROM pg_publication)"
        assert await value(session, left) == 2
        await wal.drop()
        assert await value(session, left) == 0
        assert await wal.retained_bytes() == 0
        await wal.drop()
        assert await wal.open() is True


async def test_a_server_that_keeps_too_little_is_refused_with_what_to_set():
    async with POSTGRES.empty(found(POSTGRES).shared()) as url:
        with pytest.raises(SettingsError, match="set wal_level = logical and restart"):
            await Wal(url).open()


async def test_a_user_without_rights_is_told_which(server, url, session):
    async with POSTGRES.login(server, url) as clerk:
        name = clerk.split("//")[1].split(":")[0]
        for sql in POSTGRES.grants(url, clerk):
            await session.execute(sql)
        with pytest.raises(SettingsError, match="CREATE PUBLICATION holdfast_log FOR TABLE"):
            await Wal(clerk).open()
        await session.execute("CREATE PUBLICATION holdfast_log FOR TABLE holdfast.log")
        with pytest.raises(SettingsError, match=f"ALTER ROLE {name} REPLICATION") as told:
            await Wal(clerk).open()
        assert "right-word" not in str(told.value)
        await session.execute("SELECT pg_create_logical_replication_slot('holdfast', 'pgoutput')")
        with pytest.raises(SettingsError, match=f"ALTER ROLE {name} REPLICATION"):
            await Wal(clerk).open()
        await session.execute(f"ALTER ROLE {name} REPLICATION")
        async with streaming(clerk) as wal:
            await write(session, 1)
            assert seqs(await facts(wal, 1)) == [1]


async def test_slots_and_publications_of_others_are_left_alone(url, session):
    await session.execute("CREATE PUBLICATION holdfast_log WITH (publish = 'delete')")
    with pytest.raises(SettingsError, match="the publication holdfast_log does not tell"):
        await Wal(url).open()
    await session.execute("SELECT pg_create_physical_replication_slot('theirs')")
    with pytest.raises(SettingsError, match="the slot theirs is another's"):
        await Wal(url, slot="theirs", publication="mine").open()


async def test_two_shops_on_one_server_need_slots_of_two_names(server, url):
    async with streaming(url), POSTGRES.empty(server) as other:
        async with shop_at(other):
            pass
        with pytest.raises(SettingsError, match="the slot holdfast is another's"):
            await Wal(other).open()
        wal = Wal(other, slot="holdfast_2")
        assert await wal.open() is True
        await wal.drop()


async def test_a_publication_that_goes_missing_says_what_to_do(url, session):
    async with streaming(url) as wal:
        await session.execute("DROP PUBLICATION holdfast_log")
        await write(session, 1)
        with pytest.raises(StoreError, match="drop the slot holdfast and start again"):
            await wal.read(READ_SECONDS)


@pytest.mark.parametrize("name", ["", "Upper", "two words", 'a"b', "x" * 64, "1st"])
def test_names_that_the_server_would_not_take_are_refused_at_once(name):
    with pytest.raises(SettingsError):
        Wal("postgresql://localhost/shop", slot=name)
    with pytest.raises(SettingsError):
        Wal("postgresql://localhost/shop", publication=name)


@pytest.mark.parametrize(
    "address",
    ["postgresql://ann:se/cret@localhost/shop", "postgresql://ann:secret@localhost:1/x?nonsense=1"],
)
async def test_no_password_is_shown_of_an_address_that_does_not_work(address):
    with pytest.raises((SettingsError, StoreUnavailable)) as told:
        await Wal(address).open()
    assert "cret" not in str(told.value)


async def test_a_standby_or_an_empty_database_is_no_source(server):
    async with POSTGRES.empty(server) as url:
        with pytest.raises(StoreUnavailable, match="run holdfast migrate"):
            await Wal(url).open()
