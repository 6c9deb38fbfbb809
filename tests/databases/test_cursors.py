"""Cursors and pruning on a database: when processes race, replies are lost, or the server dies."""

import asyncio
from typing import Any

import pytest

from holdfast.domain.views import Move
from holdfast.errors import CommitUnknown
from holdfast.stores.postgres.barrier import Evidence
from holdfast.upkeep.pruned import note_pruned
from tests.databases.mishaps import kill, restart
from tests.databases.shops import E1, held, plan, selling, shop_at

pytestmark = pytest.mark.service

EVENTS = [f"e{n}" for n in range(20)]


def steps(was: int, fence: int = 1, events: list[str] = EVENTS) -> list[Move]:
    return [Move(event, was, was + 1, fence) for event in events]


async def test_of_two_shops_that_race_for_steps_one_takes_each(url):
    async with shop_at(url) as one, shop_at(url) as two:
        for was in range(10):
            done = await asyncio.gather(
                one.store.move("mails", steps(was)),
                two.store.move("mails", steps(was, events=EVENTS[::-1])),
                two.store.move("mails", steps(was, events=EVENTS[5:15])),
            )
            assert sorted(event for each in done for event in each) == sorted(EVENTS)
        cursors, _ = await two.store.cursors("mails")
        assert {each.event: each.seq for each in cursors} == dict.fromkeys(EVENTS, 10)


async def test_whoever_was_replaced_moves_nothing_however_late_he_comes(url):
    async with shop_at(url) as old, shop_at(url) as new:
        await old.store.move("mails", steps(0, fence=1))
        assert len(await new.store.move("mails", [Move(e, 1, 1, 2) for e in EVENTS])) == 20
        assert await old.store.move("mails", steps(1, fence=1)) == set()
        assert len(await new.store.move("mails", steps(1, fence=2))) == 20


async def test_whoever_did_not_hear_of_his_commit_is_told_so_and_finds_it_done(
    database, url, monkeypatch
):
    async with shop_at(url) as shop:
        for was in (0, 1):
            with monkeypatch.context() as patch:
                database.lose_replies(patch, times=1)
                with pytest.raises(CommitUnknown):
                    await shop.store.move("mails", steps(was))
            assert {each.seq for each in (await shop.store.cursors())[0]} == {was + 1}
            assert await shop.store.move("mails", steps(was)) == set()


async def test_connections_that_were_cut_meanwhile_are_opened_again(database, url, session):
    async with shop_at(url) as shop:
        assert len(await shop.store.move("mails", steps(0))) == 20
        assert await database.cut(session) > 0
        assert len(await shop.store.move("mails", steps(1))) == 20
        assert await database.cut(session) > 0
        await shop.store.forget("mails")
        assert (await shop.store.cursors())[0] == []


@pytest.mark.slow
async def test_what_was_moved_is_there_after_a_crash(database, killable):
    """Also where batches are committed without waiting for the disk."""
    url = await database.created(killable)
    async with shop_at(url) as shop:
        for was in range(3):
            assert len(await shop.store.move("mails", steps(was))) == 20
        kill(killable)
        await restart(killable)
    async with shop_at(url) as shop:
        assert {each.seq for each in (await shop.store.cursors())[0]} == {3}


async def test_facts_that_are_pruned_while_their_readers_wait_for_the_disk_are_still_told(
    url, postgres_only, monkeypatch
):
    """Whether they are durable is asked of the log, where they are no longer."""
    async with selling(url) as shop, shop_at(url) as other:
        for n in range(5):
            await held(shop, buyer=f"b{n}", best=1)
        store: Any = shop.store
        flush = store._flush
        await note_pruned(store, E1, 5)

        async def late(evidence: list[Evidence]) -> Any:
            await other.store.prune(E1, 5, 100)
            return await flush(evidence)

        with monkeypatch.context() as patch:
            patch.setattr(store._barrier, "_flush", late)
            assert [entry.seq for entry in await shop.store.log(E1, 0, 3)] == [1, 2, 3]
            assert [entry.seq for entry in await shop.store.tails({E1: 0}, 9)] == [6]
        forgotten = Evidence(E1, 6, 0, "{}")
        with pytest.raises(CommitUnknown):
            await store._durable(forgotten)
        with pytest.raises(CommitUnknown):
            await store._durable(Evidence(E1, 7, 0, "{}"))


async def test_tails_are_told_when_all_of_them_are_durable(url, postgres_only, monkeypatch):
    """Of each event the last fact is looked for, by one flush."""
    async with shop_at(url) as shop:
        for event in ("a", "b", "c"):
            await shop.create_event(plan(id=event))
        store: Any = shop.store
        flush = store._flush
        asked: list[list[str]] = []

        async def counted(evidence: list[Evidence]) -> Any:
            asked.append(sorted(each.event for each in evidence))
            return await flush(evidence)

        monkeypatch.setattr(store._barrier, "_flush", counted)
        assert len(await shop.store.tails(dict.fromkeys("abc", 0), 9)) == 3
        assert asked == [["a", "b", "c"]]
