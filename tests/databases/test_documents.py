"""Documents on a database, when processes race for one and connections or replies are lost."""

import asyncio

import pytest

from holdfast.domain.views import Document
from holdfast.errors import CommitUnknown
from tests.databases.mishaps import kill, restart
from tests.databases.shops import shop_at

pytestmark = pytest.mark.service

FIRST = Document("lease", "announcer", 1, '"ann"')
SECOND = Document("lease", "announcer", 2, '"bob"')


@pytest.mark.parametrize("version", [1, 2])
async def test_of_two_shops_that_race_for_a_document_one_has_it(url, version):
    async with shop_at(url) as one, shop_at(url) as two:
        for n in range(20):
            if version == 2:
                assert await one.store.put(Document("lease", f"l{n}", 1, "0"))
            rivals = [Document("lease", f"l{n}", version, name) for name in ("1", "2")]
            won = await asyncio.gather(one.store.put(rivals[0]), two.store.put(rivals[1]))
            assert sorted(won) == [False, True]
            there, _ = await two.store.documents("lease", f"l{n}")
            assert there == [rivals[won.index(True)]]


async def test_whoever_did_not_hear_of_his_commit_is_told_so_and_finds_it_done(
    database, url, monkeypatch
):
    async with shop_at(url) as shop:
        for document in (FIRST, SECOND):
            with monkeypatch.context() as patch:
                lost = database.lose_replies(patch, times=1)
                with pytest.raises(CommitUnknown):
                    await shop.store.put(document)
                assert lost["replies"] == 1
            assert (await shop.store.documents("lease"))[0] == [document]
        with monkeypatch.context() as patch:
            database.lose_replies(patch, times=1)
            with pytest.raises(CommitUnknown):
                await shop.store.drop("lease", "announcer", 2)
        assert (await shop.store.documents("lease"))[0] == []


async def test_connections_that_were_cut_meanwhile_are_opened_again(database, url, session):
    async with shop_at(url) as shop:
        assert await shop.store.put(FIRST)
        assert await database.cut(session) > 0
        assert await shop.store.put(SECOND)
        assert await database.cut(session) > 0
        assert await shop.store.drop("lease", "announcer", 2)


@pytest.mark.slow
async def test_what_was_put_is_there_after_a_crash(database, killable):
    """Also where batches are committed without waiting for the disk."""
    url = await database.created(killable)
    async with shop_at(url) as shop:
        assert await shop.store.put(FIRST)
        assert await shop.store.put(SECOND)
        kill(killable)
        await restart(killable)
    async with shop_at(url) as shop:
        assert (await shop.store.documents("lease"))[0] == [SECOND]
