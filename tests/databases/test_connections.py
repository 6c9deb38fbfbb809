"""Connections: how many there may be, how long one may keep its locks, and what is said when all of
them are gone."""

import asyncio
import logging
import subprocess
import sys
import time
from collections import Counter
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from holdfast.errors import StoreBusy, StoreUnavailable
from tests.contract.helpers import said
from tests.databases.mishaps import kill, restart
from tests.databases.shops import E1, ROOT, held, plan, selling, shop_at, somebody_waits
from tests.servers import free_port

pytestmark = pytest.mark.service

SOON_SECONDS = 15
"""It takes one; a connection that says nothing at all is given up after 30."""
EVENTS = [f"e{n}" for n in range(8)]


async def test_a_process_that_stops_in_a_batch_loses_its_locks_soon(database, url, watcher):
    """After `statement_timeout_ms`, and not when the connection as such is given up. When it goes
    on, it finds that it was too late."""
    patient: dict[str, Any] = {"lock_timeout_ms": 30_000, "statement_timeout_ms": 30_000}
    async with (
        selling(url, **patient) as shop,
        shop_at(url, statement_timeout_ms=1_000) as stopped,
    ):
        at_commit, go_on = asyncio.Event(), asyncio.Event()
        commit = stopped.store._commit  # type: ignore[attr-defined]

        async def stop(db: Any) -> None:
            at_commit.set()
            await go_on.wait()
            await commit(db)

        stopped.store._commit = stop  # type: ignore[attr-defined]
        late = asyncio.create_task(stopped.sell(E1, buyer="bob", seats=["A-1-1"]))
        try:
            await at_commit.wait()
            began = time.monotonic()
            asked = asyncio.create_task(held(shop, seats=["A-1-1"]))
            await somebody_waits(database, watcher)
            await asked
            assert time.monotonic() - began < SOON_SECONDS
        finally:
            go_on.set()
        assert said(await late) == "no.taken"


@asynccontextmanager
async def limited(database: Any, url: str, session: Any, most: int) -> Any:
    """The address of the database for a user who may have so many connections."""
    async with shop_at(url):
        pass
    async with database.login(database.shared(), url) as login:
        for grant in database.grants(url, login):
            await session.execute(grant)
        name = urlsplit(login).username
        if database.name == "postgres":
            await session.execute(f"ALTER ROLE {name} CONNECTION LIMIT {most}")
        else:
            await session.execute(f"ALTER USER {name}@'127.0.0.1' WITH MAX_USER_CONNECTIONS {most}")
        yield login


@pytest.mark.parametrize("most", [1, 3])
async def test_where_the_server_admits_fewer_than_pool_max_buyers_wait_for_one(
    database, url, session, most
):
    async with limited(database, url, session, most) as login, shop_at(login) as shop:
        for event in EVENTS:
            await shop.create_event(plan(id=event))
        asks = [
            shop.place_hold(event, buyer=f"u{n}", best=1, pools={"floor": 1})
            for n in range(5)
            for event in EVENTS
        ]
        reads = asyncio.gather(*(shop.seats(event) for event in EVENTS))
        assert Counter(map(said, await asyncio.gather(*asks))) == {"placed": 5 * len(EVENTS)}
        assert None not in await reads


async def test_where_it_admits_none_that_is_said_in_time(database, url, session):
    async with (
        limited(database, url, session, 1) as login,
        shop_at(login, connect_timeout_seconds=1.5) as shop,
    ):
        await shop.create_event(plan())
        with pytest.raises(StoreUnavailable, match="admits no more connections"):
            async with shop_at(login):
                pass
        async with shop.store._transaction():  # type: ignore[attr-defined]
            with pytest.raises(StoreBusy, match="admits no more connections"):
                await shop.event(E1)
        assert await shop.event(E1) is not None


async def test_of_several_hosts_the_first_that_serves_is_taken(url, database, postgres_only):
    port = urlsplit(url).port
    several = url.replace(f"127.0.0.1:{port}", f"127.0.0.1:{free_port()},127.0.0.1:{port}")
    async with selling(f"{several}?target_session_attrs=read-write") as shop:
        await held(shop, best=1)


WATCHER = """
import asyncio, sys
from holdfast import Holdfast
from holdfast.errors import StoreError

async def main():
    async with Holdfast.open(sys.argv[1], connect_timeout_seconds=1.0) as shop:
        await shop.event("e1")
        print("open", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        for _ in range(3):
            try:
                await shop.place_hold("e1", buyer="ann", best=1)
            except StoreError:
                print("away", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        print(type(await shop.place_hold("e1", buyer="ann", best=1)).__name__, flush=True)

asyncio.run(main())
"""


@pytest.mark.slow
async def test_a_server_that_dies_leaves_no_traceback_on_stderr(database, killable):
    url = await database.created(killable)
    async with selling(url):
        pass
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", WATCHER, url),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        assert await process.stdout.readline() == b"open\n"
        kill(killable)
        process.stdin.write(b"\n")
        assert [await process.stdout.readline() for _ in range(3)] == [b"away\n"] * 3
        await restart(killable)
        process.stdin.write(b"\n")
        assert await process.stdout.readline() == b"Placed\n"
    finally:
        _, stderr = await process.communicate()
    assert b"Traceback" not in stderr, stderr.decode()
    assert b"asyncpg" not in stderr


async def test_connections_that_are_cut_are_no_traceback_in_the_log(url, database, session, caplog):
    async with selling(url) as shop:
        with caplog.at_level(logging.DEBUG):
            assert await database.cut(session) > 0
            await held(shop, best=1)
    assert [record for record in caplog.records if record.exc_info] == []


async def test_who_stops_looking_at_any_moment_leaves_no_transaction_behind(
    url, postgres_only, caplog
):
    """A process that stops while it reads: the driver would find the transaction, and complain."""
    async with selling(url) as shop:
        for turns in range(60):
            looking = asyncio.create_task(shop.store.heads())
            for _ in range(turns):
                await asyncio.sleep(0)
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
        assert await shop.store.heads() == {E1: 1}
    assert not [record.message for record in caplog.records if record.levelno >= logging.ERROR]
