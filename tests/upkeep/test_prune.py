"""The pruner: what is older than the retention goes, and nothing that a live follower needs."""

import logging
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from holdfast import Holdfast
from holdfast.brokers.memory import MemoryBroker
from holdfast.brokers.webhooks.retries import JITTER, SCHEDULE_MS, Retry, retry_id
from holdfast.brokers.webhooks.retries import KIND as RETRIES
from holdfast.domain.views import Document, Move
from holdfast.errors import StoreUnavailable
from holdfast.followers.crew import Crew
from holdfast.followers.relay import Relay
from holdfast.followers.shards import KIND, Shards, Table, empty
from holdfast.settings import Settings
from holdfast.upkeep import prune
from holdfast.upkeep.lease import LEASE_MS, Lease
from holdfast.upkeep.prune import DAY_MS, HOUR_MS, Follower, Idle, Pruner
from holdfast.upkeep.pruned import pruned_through
from tests.contract.helpers import E1, description, on_sale
from tests.databases.shops import until

pytestmark = pytest.mark.policies("authority")

RETENTION_DAYS = 7.0
IDLE_HOURS = 72.0
IDLE_MS = 72 * HOUR_MS


@pytest.fixture
async def shop(shop, clock):
    """Ten facts, a day between each and the next; the last is of now, and the third seven days
    old."""
    await on_sale(shop)
    for n in range(9):
        clock.advance(DAY_MS)
        await shop.place_hold(E1, buyer=f"b{n}", pools={"floor": 1})
    assert await left(shop) == [*range(1, 11)]
    return shop


def pruner(shop: Holdfast, days: float = RETENTION_DAYS, **more: Any) -> Pruner:
    return Pruner(shop.store, days, IDLE_HOURS, **more)


def shop_with(shop: Holdfast, **settings: Any) -> Any:
    """All of it that a crew looks at."""
    return SimpleNamespace(store=shop.store, settings=Settings(store=shop.store.url, **settings))


async def left(shop: Holdfast, event: str = E1) -> list[int]:
    return [entry.seq for entry in await shop.store.log(event, 0, 1_000)]


async def moved(shop: Holdfast, follower: str, was: int, seq: int, event: str = E1) -> None:
    assert await shop.store.move(follower, [Move(event, was, seq, 1)]) == {event}


async def seen(shop: Holdfast, follower: str, at_ms: int) -> None:
    """A member of the follower says that it is there."""
    documents, _ = await shop.store.documents(KIND, follower)
    version = documents[0].version if documents else 0
    table = Table({}, empty().shards, at_ms)
    body = msgspec.json.encode(table).decode()
    assert await shop.store.put(Document(KIND, follower, version + 1, body))


async def test_facts_older_than_the_retention_go_where_nobody_follows(shop):
    assert await pruner(shop).prune() == 2
    assert await left(shop) == [*range(3, 11)], "a fact of just seven days is kept"
    assert await pruner(shop).prune() == 0


async def test_without_a_retention_everything_is_kept(shop):
    kept = pruner(shop, days=0.0)
    assert await kept.prune() == 0
    kept.start()
    assert kept._task is None
    await kept.stop()
    assert len(await left(shop)) == 10


async def test_the_last_fact_stays_however_old_it_is(shop, clock):
    clock.advance(1_000 * DAY_MS)
    assert await pruner(shop).prune() == 9
    assert await left(shop) == [10]
    assert await pruner(shop).prune() == 0


@pytest.mark.parametrize("days", [0.5, 1.0, 1.5, 4.5, 8.5, 9.0, 100.0])
async def test_the_age_decides_to_the_day(shop, days):
    await pruner(shop, days=days).prune()
    assert await left(shop) == [n for n in range(1, 11) if 10 - n <= days]


async def test_it_goes_in_bites(shop, monkeypatch):
    monkeypatch.setattr(prune, "BITE_FACTS_MAX", 2)
    bites = []
    bite = shop.store.prune

    async def counted(event: str, through: int, limit: int) -> Any:
        bites.append(limit)
        return await bite(event, through, limit)

    monkeypatch.setattr(shop.store, "prune", counted)
    assert await pruner(shop, days=4.5).prune() == 5
    assert bites == [2, 2, 2]
    assert await left(shop) == [*range(6, 11)]


async def test_facts_above_a_live_cursor_are_kept_however_old(shop, clock):
    await moved(shop, "relay", 0, 1)
    assert await pruner(shop).prune() == 1
    assert await left(shop) == [*range(2, 11)]
    await moved(shop, "relay", 1, 9)
    assert await pruner(shop).prune() == 1
    assert await left(shop) == [*range(3, 11)]


async def test_the_slowest_of_all_decides(shop):
    for follower, seq in (("relay", 10), ("webhook:1", 1), ("webhook:2", 8)):
        await moved(shop, follower, 0, seq)
    assert await pruner(shop).prune() == 1


async def test_a_follower_at_work_needs_all_of_an_event_that_it_has_no_cursor_of(shop, clock):
    await shop.create_event(description(id="e2"))
    await moved(shop, "relay", 0, 1, "e2")
    await seen(shop, "relay", clock())
    assert await pruner(shop).prune() == 0
    await moved(shop, "relay", 0, 10)
    assert await pruner(shop).prune() == 2


async def test_a_member_that_renews_its_share_is_at_work(shop, clock):
    await Shards(shop.store, "relay", "m1").renew()
    assert await pruner(shop).prune() == 0
    clock.advance(IDLE_MS + 1)
    assert await pruner(shop).prune() == 6


async def test_nothing_that_a_relay_has_not_published_is_pruned(shop, clock):
    """Everything but the last of it is old, and the relay is in the middle of it."""
    clock.advance(1_000 * DAY_MS)
    shards, broker = Shards(shop.store, "relay", "m1"), MemoryBroker()
    relay = Relay(shop.store, broker, shards, batch_max=3)
    await shards.renew()
    pruned = 0
    while await relay.round():
        pruned += await pruner(shop).prune()
        assert pruned == min(len(broker.messages), 9)
    assert [message.seq for message in broker.messages] == [*range(1, 11)]
    assert await left(shop) == [10]


async def test_a_relay_that_comes_back_after_too_long_goes_on_with_what_is_left(
    shop, clock, caplog
):
    relay = Relay(shop.store, broker := MemoryBroker(), shards := Shards(shop.store, "relay", "m"))
    await shards.renew()
    clock.advance(IDLE_MS + 1)
    assert await pruner(shop).prune() == 6
    await shards.renew()
    while await relay.round():
        pass
    assert [message.seq for message in broker.messages] == [7, 8, 9, 10]
    assert "facts 1 to 6 were pruned before they were published" in caplog.text


async def test_one_that_was_not_at_work_for_too_long_needs_no_event_that_it_never_began(
    shop, clock
):
    await seen(shop, "relay", clock() - IDLE_MS)
    assert await pruner(shop).prune() == 0
    clock.advance(1)
    assert await pruner(shop).prune() == 3


async def test_one_that_is_at_work_and_never_begins_an_event_blocks_no_longer(shop, clock, caplog):
    """Such as a relay whose broker never comes: it renews its share, and does nothing else."""
    watched = pruner(shop)
    await seen(shop, "relay", clock())
    assert await watched.prune() == 0
    clock.advance(IDLE_MS + 1)
    await seen(shop, "relay", clock())
    assert await watched.prune() == 6
    assert watched.idle == [Idle("relay", E1, 0)]


async def test_a_cursor_that_stands_still_for_too_long_stops_blocking_and_that_is_said_once(
    shop, clock, caplog
):
    watched = pruner(shop)
    await moved(shop, "relay", 0, 1)
    clock.advance(IDLE_MS)
    assert await watched.prune() == 1
    assert watched.idle == []
    clock.advance(1)
    with caplog.at_level(logging.WARNING, "holdfast.upkeep"):
        assert await watched.prune() == 5
        assert await watched.prune() == 0
    assert watched.idle == [Idle("relay", E1, 1)]
    [said] = [each.message for each in caplog.records if each.levelno >= logging.WARNING]
    assert said.startswith("relay has not moved from fact 1 of e1 for too long")


async def test_one_that_lost_facts_stays_idle_until_it_moves(shop, clock, caplog):
    """Though the oldest of those that are left may be younger than that."""
    watched = pruner(shop, days=1.0)
    await moved(shop, "relay", 0, 1)
    clock.advance(IDLE_MS + 1)
    await watched.prune()
    assert await left(shop) == [10]
    await shop.place_hold(E1, buyer="last", pools={"floor": 1})
    await watched.prune()
    assert watched.idle == [Idle("relay", E1, 1)]
    await moved(shop, "relay", 1, 11)
    await watched.prune()
    assert watched.idle == []


async def test_one_that_comes_back_to_life_is_told_of_again_when_it_dies(shop, clock, caplog):
    watched = pruner(shop, days=36_500.0)
    with caplog.at_level(logging.WARNING, "holdfast.upkeep"):
        for seq in (1, 2):
            await moved(shop, "relay", seq - 1, seq)
            await watched.prune()
            assert watched.idle == []
            clock.advance(IDLE_MS + 1)
            await watched.prune()
            assert watched.idle == [Idle("relay", E1, seq)]
    assert len(caplog.messages) == 2


async def test_a_cursor_at_the_head_is_not_idle_however_long_nothing_came(shop, clock, caplog):
    watched = pruner(shop)
    await moved(shop, "relay", 0, 10)
    clock.advance(100 * DAY_MS)
    with caplog.at_level(logging.WARNING, "holdfast.upkeep"):
        assert await watched.prune() == 9
        # Nor when something has just come that it has not seen yet.
        await shop.place_hold(E1, buyer="late", pools={"floor": 1})
        assert await watched.prune() == 1
    assert watched.idle == []
    assert caplog.messages == []
    assert await left(shop) == [11]


async def test_followers_that_share_one_table_need_what_they_follow(shop, clock):
    """Such as webhooks: some want a few events only, and would never have cursors of the rest."""
    await shop.create_event(description(id="e2"))
    crew: list[Follower] = []

    async def webhooks() -> list[Follower]:
        return crew

    shared = pruner(shop, crews={"webhooks": webhooks})
    await seen(shop, "webhooks", clock())
    crew[:] = [Follower("webhook:1", lambda event: True)]
    assert await shared.prune() == 0
    crew[:] = [Follower("webhook:1", lambda event: event == "e2")]
    assert await shared.prune() == 2
    assert await pruner(shop, days=6.5).prune() == 0, "the control: as one follower of that name"


async def test_what_is_made_of_facts_is_settled_before_they_go(shop):
    settled = []

    async def settle(event: str, through: int) -> None:
        settled.append((event, through, await left(shop)))

    assert await pruner(shop, settle=settle).prune() == 2
    assert settled == [(E1, 2, [*range(1, 11)])]
    assert await pruned_through(shop.store, E1) == 2


async def test_it_is_noted_before_facts_go_how_far_they_do(shop, monkeypatch):
    noted: list[int] = []
    bite = shop.store.prune

    async def looked(event: str, through: int, limit: int) -> Any:
        noted.append(await pruned_through(shop.store, event))
        return await bite(event, through, limit)

    monkeypatch.setattr(shop.store, "prune", looked)
    await pruner(shop).prune()
    await pruner(shop, days=4.5).prune()
    assert noted == [2, 5]


async def test_one_that_waits_to_try_again_is_at_work_however_long(shop, clock):
    """With the control: without that it is idle."""
    pairs: set[tuple[str, str]] = {("webhook:1", E1)}

    async def waiting() -> set[tuple[str, str]]:
        return pairs

    watched = pruner(shop, waiting=waiting)
    await moved(shop, "webhook:1", 0, 1)
    await moved(shop, "webhook:2", 0, 10)
    clock.advance(IDLE_MS + 1)
    assert await watched.prune() == 1
    assert watched.idle == []
    pairs.clear()
    assert await watched.prune() == 5
    assert watched.idle == [Idle("webhook:1", E1, 1)]


async def test_one_that_waits_and_has_no_cursor_yet_needs_all(shop, clock):
    pairs: set[tuple[str, str]] = {("webhook:1", E1)}

    async def waiting() -> set[tuple[str, str]]:
        return pairs

    async def webhooks() -> list[Follower]:
        return [Follower("webhook:1", lambda event: True)]

    watched = pruner(shop, crews={"webhooks": webhooks}, waiting=waiting)
    for _ in range(2):
        await seen(shop, "webhooks", clock())
        assert await watched.prune() == 0
        clock.advance(IDLE_MS + 1)
    pairs.clear()
    await seen(shop, "webhooks", clock())
    assert await watched.prune() > 0


async def test_what_waits_for_a_webhook_is_kept_until_its_last_attempt(shop, clock):
    """Under the settings that are the default, through the crew as it is wired."""
    crew = Crew(shop_with(shop, retention_days=1.0))
    webhooks = crew.deliveries.webhooks
    made = await webhooks.create("https://example.com/in", ["*"])
    assert made is not None
    await shop.pause_event(E1)
    await shop.open_event(E1)
    last_ms = sum(round(wait * (1 + JITTER)) for wait in SCHEDULE_MS)
    assert last_ms > 72 * HOUR_MS
    retry = Retry(11, 1, 0, clock(), clock() + last_ms, 1, "down")
    body, id = msgspec.json.encode(retry).decode(), retry_id(made.webhook.id, E1)
    assert await shop.store.put(Document(RETRIES, id, 1, body))
    for _ in range(3):
        clock.advance(last_ms)
        await crew.pruner.prune()
        assert await left(shop) == [11, 12]
    assert crew.pruner.idle == []
    assert await shop.store.drop(RETRIES, id, 1)
    await crew.pruner.prune()
    assert await left(shop) == [12], "the control: it waits no longer"


async def test_a_disabled_webhook_has_its_events_kept_for_as_long_as_an_idle_follower(shop, clock):
    """Also those that were made after it was disabled; so whoever enables it in time loses none."""
    crew = Crew(shop_with(shop, retention_days=1.0, cursor_idle_hours=IDLE_HOURS))
    webhooks = crew.deliveries.webhooks
    made = await webhooks.create("https://example.com/in", ["*"])
    assert made is not None
    await webhooks.disable(made.webhook.id, "a test")
    await shop.create_event(description(id="late"))
    await shop.pause_event("late")
    for hours, kept in ((0, [1, 2]), (IDLE_HOURS, [1, 2]), (1, [2])):
        clock.advance(round(hours * HOUR_MS))
        await seen(shop, "webhooks", clock())
        await crew.pruner.prune()
        assert await left(shop, "late") == kept
    await shop.open_event("late")
    assert await webhooks.remove(made.webhook.id)
    await crew.pruner.prune()
    assert crew.pruner.idle == []


@pytest.mark.parametrize("failure", [StoreUnavailable("away"), ValueError("a bug")])
async def test_where_that_fails_nothing_goes_of_that_event(shop, clock, failure, caplog):
    await shop.create_event(description(id="e2"))
    await shop.pause_event("e2")
    clock.advance(30 * DAY_MS)

    async def settle(event: str, through: int) -> None:
        if event == E1:
            raise failure

    assert await pruner(shop, settle=settle).prune() == 1
    assert len(await left(shop)) == 10
    assert await left(shop, "e2") == [2]
    assert "facts of e1 were not pruned" in caplog.text


async def test_of_several_pruners_one_prunes(shop):
    leases = [Lease(shop.store, "prune", holder) for holder in ("a", "b")]
    assert await leases[0].hold()
    assert await pruner(shop, lease=leases[1]).prune() == 0
    assert await pruner(shop, lease=leases[0]).prune() == 2


async def test_who_has_lost_the_lease_tells_of_no_idle_cursors(shop, clock):
    """Another does: else their sum would count each twice, and for ever."""
    mine, other = (pruner(shop, lease=Lease(shop.store, "prune", name)) for name in ("a", "b"))
    await moved(shop, "relay", 0, 1)
    clock.advance(IDLE_MS + 1)
    await mine.round()
    assert mine.idle == [Idle("relay", E1, 1)]
    clock.advance(LEASE_MS)
    for each in (other, mine):
        await each.round()
    assert (mine.idle, other.idle) == ([], [Idle("relay", E1, 1)])


async def test_one_whose_lease_is_taken_meanwhile_stops_after_a_bite(shop, clock, monkeypatch):
    monkeypatch.setattr(prune, "BITE_FACTS_MAX", 2)
    mine, other = (Lease(shop.store, "prune", holder) for holder in ("a", "b"))
    bite = shop.store.prune

    async def slow(event: str, through: int, limit: int) -> Any:
        clock.advance(LEASE_MS)
        assert await other.hold()
        return await bite(event, through, limit)

    monkeypatch.setattr(shop.store, "prune", slow)
    assert await pruner(shop, lease=mine, days=4.5).prune() == 2


async def until_pruned(running: Pruner, facts: int) -> None:
    async def done() -> bool:
        return running.pruned == facts

    await until(done)


async def test_it_prunes_by_itself_soon_after_it_was_started_and_goes_on(shop, clock):
    running = pruner(shop, lease=Lease(shop.store, "prune", "a"), every_seconds=0.01)
    running.start()
    try:
        await until_pruned(running, 2)
        clock.advance(DAY_MS)
        await until_pruned(running, 3)
    finally:
        await running.stop()
    assert await Lease(shop.store, "prune", "b").hold(), "it was given back"


async def test_it_goes_on_after_trouble_with_the_store(shop, monkeypatch, caplog):
    heads = shop.store.heads
    failed: list[int] = []

    async def failing() -> Any:
        if not failed:
            failed.append(1)
            raise StoreUnavailable("away for a moment")
        return await heads()

    monkeypatch.setattr(shop.store, "heads", failing)
    running = pruner(shop, every_seconds=0.01)
    running.start()
    try:
        await until_pruned(running, 2)
    finally:
        await running.stop()
    assert "facts were not pruned: away for a moment" in caplog.text


async def test_many_events_are_looked_at_in_a_few_reads(shop, clock, monkeypatch):
    monkeypatch.setattr(prune, "EVENTS_MAX", 10)
    names = [f"n{n}" for n in range(25)]
    for name in names:
        await shop.create_event(description(id=name))
    reads: list[int] = []
    tails = shop.store.tails

    async def counted(after: dict[str, int], limit: int) -> Any:
        reads.append(len(after))
        return await tails(after, limit)

    monkeypatch.setattr(shop.store, "tails", counted)
    assert await pruner(shop).prune() == 2
    assert [events for events in reads if events > 1] == [], "one fact is none to prune"
    for name in names:
        await shop.pause_event(name)
    clock.advance(DAY_MS)
    assert await pruner(shop).prune() == 1
    assert sorted(events for events in reads if events > 1) == [6, 10, 10]
