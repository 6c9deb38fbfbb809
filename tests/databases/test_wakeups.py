"""Followers are woken by commits of other processes. Losing a wake-up loses nothing, but on
PostgreSQL it is the exception."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from holdfast import Placed
from holdfast.stores.postgres import wakeups
from tests.databases.shops import E1, audited, held, plan, selling, until

pytestmark = pytest.mark.service

TIMEOUT_SECONDS = 30.0
"""Of a follower that hears nothing; "long before" it is a third of it, on a busy machine."""

POSTGRES_ONLY = pytest.mark.parametrize("database", ["postgres"], indirect=True)


async def woken_by(follower, change, timeout_seconds: float = TIMEOUT_SECONDS) -> float:
    """How long the follower slept after the change was answered."""
    sleeping = asyncio.create_task(follower.store.wake(timeout_seconds))
    await asyncio.sleep(0)
    await change
    began = time.monotonic()
    await sleeping
    return time.monotonic() - began


async def test_a_commit_in_one_process_wakes_another_long_before_its_timeout(url):
    async with selling(url) as one, audited(url) as two:
        await two.store.wake(0.1)  # whatever came before is over
        assert await woken_by(two, held(one, best=1)) < TIMEOUT_SECONDS / 3
        assert (await two.store.heads())[E1] == 2


async def test_a_process_hears_of_its_own_commits_too(url):
    async with selling(url) as shop:
        await shop.store.wake(0.1)
        assert await woken_by(shop, held(shop, best=1)) < TIMEOUT_SECONDS / 3


async def test_without_a_commit_the_timeout_ends_the_wait(url):
    async with selling(url) as one, audited(url) as two:
        await held(one, seats=["A-1-1"])
        await two.store.wake(1.0)
        began = time.monotonic()
        refused = one.place_hold(E1, buyer="bob", seats=["A-1-1"])
        _, outcome = await asyncio.gather(two.store.wake(0.3), refused)
        assert not isinstance(outcome, Placed)
        assert time.monotonic() - began >= 0.29, "a refusal made nothing to look at"


@POSTGRES_ONLY
async def test_a_follower_whose_connection_was_cut_is_woken_again(database, url, session):
    """Also one that commits nothing itself, and so would not notice by speaking."""
    async with selling(url) as one, audited(url) as two:
        await two.store.wake(0.1)
        assert await database.cut(session) > 0

        async def woken() -> bool:
            await two.store.wake(0.05)
            return await woken_by(two, held(one, pools={"floor": 1}), 2.0) < 1.0

        await until(woken, "that it is woken again")


@asynccontextmanager
async def listening(url: str) -> AsyncIterator[tuple[asyncpg.Connection, list[str]]]:
    """A connection beside the shop's, and what it hears."""
    heard: list[str] = []
    listener = await asyncpg.connect(url)
    await listener.add_listener("holdfast", lambda *args: heard.append(args[-1]))
    try:
        yield listener, heard
    finally:
        await listener.close()


@POSTGRES_ONLY
async def test_many_commits_make_few_notifications(database, url):
    """While one notification is under way, any number of commits make one more."""
    async with listening(url) as (listener, heard), selling(url) as shop:
        await until(lambda: said_something(heard), "that the first commit is told")
        told = asyncio.Event()
        notifier = shop.store._wakeups  # type: ignore[attr-defined]
        notifier._db = Slow(notifier._db, told)
        heard.clear()
        for n in range(30):
            await held(shop, f"u{n}", best=1)
        told.set()
        await until(lambda: said_something(heard), "that the commits are told")
        await listener.fetch("SELECT pg_sleep(0.2)")
        assert 1 <= len(heard) <= 2


@POSTGRES_ONLY
@pytest.mark.parametrize("pause", [3600.0, 0.0], ids=["pausing", "without"])
async def test_commits_that_follow_closely_are_told_together(database, url, monkeypatch, pause):
    """The first at once, the others after the pause; the control tells each."""
    monkeypatch.setattr(wakeups, "PAUSE_SECONDS", pause)
    async with listening(url) as (listener, heard), selling(url) as shop:
        await until(lambda: said_something(heard), "that the first commit is told")
        for n in range(5):
            heard.clear()
            await held(shop, f"u{n}", best=1)
            if not pause:
                await until(lambda: said_something(heard), "that each commit is told")
        await listener.fetch("SELECT pg_sleep(0.2)")
        assert bool(heard) == (not pause)


class Slow:
    """A connection whose statements wait for an event first."""

    def __init__(self, db, event: asyncio.Event) -> None:
        self._db = db
        self._event = event

    async def execute(self, query: str) -> None:
        await self._event.wait()
        await self._db.execute(query)

    def __getattr__(self, name: str):
        return getattr(self._db, name)


async def said_something(heard: list[str]) -> bool:
    return bool(heard)


async def test_one_query_tells_how_far_all_events_are(database, url):
    async with audited(url) as shop:
        for n in range(20):
            await shop.create_event(plan(1, 2, id=f"e{n}"))
        with database.counted() as sent:
            heads = await shop.store.heads()
        assert heads == {f"e{n}": 1 for n in range(20)}
        asked = [query for query in sent if not query.startswith("NOTIFY")]  # of the last event
        assert len([query for query in asked if "counters" in query]) == 1
        assert len(asked) <= 4, "the query, and what a transaction around it takes"
