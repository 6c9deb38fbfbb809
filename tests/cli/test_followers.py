"""holdfast followers: how far each has come, and forgetting one that is no more."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from holdfast.brokers.webhooks.retries import KIND as RETRIES
from holdfast.brokers.webhooks.retries import Retry, retry_id
from holdfast.brokers.webhooks.subscriptions import Webhooks
from holdfast.cli import main
from holdfast.domain.views import Document, Move
from holdfast.engine import Holdfast
from holdfast.followers.shards import KIND, Shards
from holdfast.settings import Settings
from holdfast.stores import host_clock
from holdfast.stores.sqlite import SqliteStore
from holdfast.upkeep.prune import HOUR_MS, Pruner
from tests.conftest import Clock

T = TypeVar("T")


def with_shop(url: str, work: Callable[[Holdfast], Awaitable[T]]) -> T:
    async def done() -> T:
        async with Holdfast.open(url, upkeep=False) as shop:
            return await work(shop)

    return asyncio.run(done())


async def make_event(shop: Holdfast) -> None:
    """Of two facts."""
    pool = {"id": "floor", "capacity": 5, "tier": "any"}
    await shop.create_event({"id": "e1", "prices": {"any": 1}, "pools": [pool]})
    await shop.change_event("e1", name="again")


@asynccontextmanager
async def opened_long_ago(path: Path) -> AsyncIterator[tuple[Holdfast, Clock]]:
    clock = Clock(host_clock() - 1_000 * HOUR_MS)
    store = SqliteStore(str(path), clock, "NORMAL")
    async with Holdfast(store, Settings(store=store.url), upkeep=False, clock=clock) as shop:
        yield shop, clock


def make_shop(url: str, *, working: bool = False) -> None:
    async def make(shop: Holdfast) -> None:
        await make_event(shop)
        await shop.store.move("relay", [Move("e1", 0, 1, 1)])
        if working:
            await Shards(shop.store, "relay", "a").renew()

    with_shop(url, make)


def make_webhook(url: str) -> str:
    """Sent by one process, and behind by a fact."""

    async def make(shop: Holdfast) -> str:
        await make_event(shop)
        made = await Webhooks(shop.store).create("https://example.com/in", ["*"])
        assert made is not None
        await shop.change_event("e1", name="once more")
        await Shards(shop.store, "webhooks", "a").renew()
        return made.webhook.id

    return with_shop(url, make)


def listed(url: str, capsys) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main(["followers", "list", "--store", url, "--json"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def test_the_list_shows_how_far_behind_each_is(tmp_path, capsys):
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    make_shop(url, working=True)
    assert main(["followers", "list", "--store", url, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["follower"], found["events"], found["behind"]) == ("relay", 1, 1)
    assert (found["idle"], found["processes"]) == (0, 1)
    moved = datetime.fromisoformat(found["moved"])
    assert moved.utcoffset() == timedelta(0), "RFC 3339, in UTC"
    assert main(["followers", "list", "--store", url]) == 0
    head, row = capsys.readouterr().out.splitlines()
    assert head.split() == ["follower", "events", "behind", "idle", "processes", "last", "moved"]
    assert row.split() == ["relay", "1", "1", "0", "1", *f"{moved:%Y-%m-%d %H:%M:%S}".split()]


def test_one_that_has_done_nothing_yet_has_not_moved(tmp_path, capsys):
    url = f"sqlite:///{tmp_path / 'shop.db'}"

    async def start(shop: Holdfast) -> None:
        await Shards(shop.store, "relay", "a").renew()

    with_shop(url, start)
    (found,) = listed(url, capsys)
    assert (found["processes"], found["moved"]) == (1, None)
    assert main(["followers", "list", "--store", url]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["relay", "0", "0", "0", "1", "-"]


def test_where_nobody_follows_it_says_so(tmp_path, capsys):
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    with_shop(url, make_event)
    assert main(["followers", "list", "--store", url]) == 0
    assert capsys.readouterr().out == "Nobody follows the log.\n"


def test_one_that_is_no_more_is_forgotten(tmp_path, capsys):
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    make_shop(url)
    assert main(["followers", "forget", "relay", "--store", url]) == 0
    assert main(["followers", "forget", "relay", "--store", url]) == 1
    assert "no follower 'relay'" in capsys.readouterr().err


def test_one_that_is_at_work_is_not_forgotten(tmp_path, capsys):
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    make_shop(url, working=True)
    assert main(["followers", "forget", "relay", "--store", url]) == 1
    assert "is at work" in capsys.readouterr().err


def test_a_webhook_shows_the_processes_that_send_all_of_them(tmp_path, capsys):
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    webhook = make_webhook(url)
    (found,) = listed(url, capsys)
    assert (found["follower"], found["behind"]) == (f"webhook:{webhook}", 1)
    assert found["processes"] == 1


def test_a_webhook_that_is_subscribed_is_not_forgotten(tmp_path, capsys):
    """It would be sent the whole log."""
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    webhook = make_webhook(url)
    forget = ["followers", "forget", f"webhook:{webhook}", "--store", url]
    assert main(forget) == 1
    assert f"holdfast webhooks remove {webhook}" in capsys.readouterr().err
    (found,) = listed(url, capsys)
    assert found["behind"] == 1

    async def leave(shop: Holdfast) -> None:
        """What a process that was delivering when it was removed may have left."""
        assert await Webhooks(shop.store).remove(webhook)
        await shop.store.move(f"webhook:{webhook}", [Move("e1", 0, 3, 1)])

    with_shop(url, leave)
    assert main(forget) == 0
    assert listed(url, capsys) == []


def test_the_table_that_all_webhooks_share_is_not_forgotten(tmp_path, capsys):
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    make_webhook(url)
    assert main(["followers", "forget", "webhooks", "--store", url]) == 1
    assert "no follower 'webhooks'" in capsys.readouterr().err
    (found,) = listed(url, capsys)
    assert found["processes"] == 1


@pytest.mark.parametrize("cursor", [False, True])
def test_nothing_is_kept_for_one_that_was_forgotten(tmp_path, capsys, cursor):
    """Also where it had been at work a moment ago, and had done nothing."""
    path = tmp_path / "shop.db"
    url = f"sqlite:///{path}"

    async def make() -> None:
        async with opened_long_ago(path) as (shop, clock):
            await make_event(shop)
            await shop.change_event("e1", name="once more")
            clock.move_to(host_clock())
            shards = Shards(shop.store, "old-relay", "a")
            await shards.renew()
            await shards.leave()
            if cursor:
                await shop.store.move("old-relay", [Move("e1", 0, 1, 9)])

    async def prune(shop: Holdfast) -> int:
        return await Pruner(shop.store, 1.0, 72.0).prune()

    asyncio.run(make())
    assert with_shop(url, prune) == cursor, "the control: the rest is kept for it"
    assert [each["follower"] for each in listed(url, capsys)] == ["old-relay"]
    assert main(["followers", "forget", "old-relay", "--store", url]) == 0
    assert listed(url, capsys) == []

    async def tables(shop: Holdfast) -> list[Document]:
        return (await shop.store.documents(KIND))[0]

    assert with_shop(url, tables) == []
    assert with_shop(url, prune) == 2 - cursor


def test_one_is_idle_where_the_pruner_says_so_and_nowhere_else(tmp_path, capsys):
    """Its cursor has not moved for long: nothing came, but for one fact of a moment ago. Another
    waits to try a fact again."""
    path = tmp_path / "shop.db"

    async def make(facts_at_ms: int) -> list[tuple[str, str]]:
        async with opened_long_ago(path) as (shop, clock):
            store = shop.store
            await make_event(shop)
            made = await Webhooks(store).create("https://example.com/in", ["*"])
            assert made is not None
            await store.move("relay", [Move("e1", 0, 2, 1)])
            clock.move_to(facts_at_ms)
            await shop.change_event("e1", name="once more")
            retry = Retry(3, 1, 0, clock(), clock(), 1, "down")
            body, id = msgspec.json.encode(retry).decode(), retry_id(made.webhook.id, "e1")
            assert await store.put(Document(RETRIES, id, 1, body))
            pruner = Pruner(store, 1.0, 168.0, waiting=Webhooks(store).waiting)
            clock.move_to(host_clock())
            await pruner.prune()
            return [(each.follower, each.event) for each in pruner.idle]

    url = f"sqlite:///{path}"
    for ago_hours, idle in ((1, []), (200, [("relay", "e1")])):
        path.unlink(missing_ok=True)
        assert asyncio.run(make(host_clock() - ago_hours * HOUR_MS)) == idle
        found = {each["follower"]: each["idle"] for each in listed(url, capsys)}
        assert [name for name, count in found.items() if count] == [name for name, _ in idle]
        assert len(found) == 2
