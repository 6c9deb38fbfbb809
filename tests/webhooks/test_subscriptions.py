"""Subscriptions as documents: made, rotated, disabled, enabled, removed, also by many at once."""

import asyncio

import pytest

from holdfast.brokers.webhooks import subscriptions
from holdfast.brokers.webhooks.subscriptions import (
    FILTERS,
    SECRETS_KEPT_MAX,
    SECRETS_MAX,
    SPELL_GAP_MS,
    TYPES,
    WEBHOOKS_MAX,
    Crowded,
    Rotated,
    State,
    Webhooks,
    faults_of,
)
from holdfast.domain.views import Document
from holdfast.errors import CommitUnknown
from tests.conftest import make_memory, make_sqlite

URL = "https://shop.example/hook"
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@pytest.fixture(params=[make_memory, make_sqlite], ids=["memory", "sqlite"])
async def store(request, tmp_path, clock):
    store = request.param(tmp_path, clock)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def webhooks(store) -> Webhooks:
    return Webhooks(store)


async def make(webhooks: Webhooks, *events: str, **more) -> str:
    made = await webhooks.create(URL, events or ("*",), **more)
    assert made is not None
    return made.webhook.id


def test_every_type_of_fact_can_be_named_and_so_can_groups():
    assert {"order.confirmed", "hold.placed", "event.changed"} <= set(TYPES)
    assert set(FILTERS) == {"*", "order.*", "hold.*", "event.*", *TYPES}
    assert faults_of(URL, FILTERS) == []


@pytest.mark.parametrize(
    ("events", "subjects", "paths"),
    [
        (["order.confirmd"], None, ["events[0]"]),
        (
            ["*", "order", "order.*", "", "*.confirmed"],
            None,
            ["events[1]", "events[3]", "events[4]"],
        ),
        ([], None, ["events"]),
        (["*"] * 51, None, ["events"]),
        (["*"], [], ["subjects"]),
        (["*"], ["gala", "ga.la", ""], ["subjects[1]", "subjects[2]"]),
        (["*"], ["gala"] * 501, ["subjects"]),
    ],
)
def test_what_is_wrong_with_a_subscription_is_listed_with_its_place(events, subjects, paths):
    assert [fault.path for fault in faults_of(URL, events, subjects)] == paths
    found = faults_of("http://10.0.0.1/", events, subjects)
    assert [fault.path for fault in found] == ["url", *paths]


async def test_a_subscription_wants_types_groups_or_all(webhooks):
    id = await make(webhooks, "order.*", "hold.expired")
    webhook = await webhooks.find(id)
    wanted = {each for each in TYPES if webhook.wants(each)}
    assert wanted == {each for each in TYPES if each.startswith("order.")} | {"hold.expired"}
    everything = await webhooks.find(await make(webhooks))
    assert all(everything.wants(each) for each in TYPES)


async def test_the_same_key_makes_one_and_shows_the_same_secret(webhooks, clock):
    first = await webhooks.create(URL, ["*"], key="k")
    clock.advance(HOUR_MS)
    await webhooks.disable(first.webhook.id, "why")
    await webhooks.rotate(first.webhook.id, 0)
    again = await webhooks.create(URL, ["*"], key="k")
    assert again.replayed
    assert again.secret == first.secret
    assert (again.webhook.state, again.webhook.reason) == (State.ACTIVE, None)
    assert again.webhook.created_ms == first.webhook.created_ms
    assert len(await webhooks.all()) == 1


async def test_after_a_day_the_same_key_makes_another(webhooks, clock):
    first = await webhooks.create(URL, ["*"], key="k")
    clock.advance(DAY_MS + 1)
    second = await webhooks.create(URL, ["*"], key="k")
    again = await webhooks.create(URL, ["*"], key="k")
    assert (second.replayed, again.replayed) == (False, True)
    assert again.webhook.id == second.webhook.id != first.webhook.id
    rotated = await webhooks.rotate(first.webhook.id, key="r")
    clock.advance(DAY_MS + 1)
    later = await webhooks.rotate(first.webhook.id, key="r")
    assert not later.replayed
    assert later.secret.value != rotated.secret.value


@pytest.mark.parametrize("id", ["", "wh_", "wh_\0", "wh_\ud800", "wh_" + "a" * 300, "key", "%"])
async def test_what_cannot_be_an_id_is_nobodys(webhooks, id):
    assert await webhooks.find(id) is None
    assert not await webhooks.remove(id)
    assert await webhooks.rotate(id) is None


async def test_many_with_the_same_key_at_once_make_one(webhooks):
    made = await asyncio.gather(*(webhooks.create(URL, ["*"], key="k") for _ in range(10)))
    assert len({each.secret for each in made}) == 1
    assert len(await webhooks.all()) == 1


async def test_there_may_be_a_hundred_also_when_many_come_at_once(webhooks, monkeypatch):
    monkeypatch.setattr(subscriptions, "WEBHOOKS_MAX", 5)
    assert WEBHOOKS_MAX == 100
    made = await asyncio.gather(*(webhooks.create(URL, ["*"]) for _ in range(12)))
    there = sum(each is not None for each in made)
    assert len(await webhooks.all()) == there <= 5
    while await webhooks.create(URL, ["*"]) is not None:
        there += 1
    assert len(await webhooks.all()) == there == 5


async def test_one_that_was_removed_is_gone_and_may_be_removed_again_for_a_day(webhooks, clock):
    id = await make(webhooks)
    assert not await webhooks.remove("wh_nowhere")
    assert await webhooks.remove(id)
    assert await webhooks.remove(id)
    assert await webhooks.find(id) is None
    assert await webhooks.all() == []
    assert await webhooks.enable(id) is None
    assert await webhooks.rotate(id) is None
    clock.advance(DAY_MS + 1)
    await make(webhooks)
    assert not await webhooks.remove(id)


async def test_both_secrets_sign_for_a_day_after_a_rotation(webhooks, clock):
    made = await webhooks.create(URL, ["*"])
    rotated = await webhooks.rotate(made.webhook.id)
    now = clock.now_ms
    assert rotated.previous_until_ms == now + DAY_MS
    assert rotated.webhook.signers(now) == [rotated.secret.value, made.secret]
    assert rotated.webhook.signers(now + DAY_MS - 1) == [rotated.secret.value, made.secret]
    assert rotated.webhook.signers(now + DAY_MS) == [rotated.secret.value]


async def test_a_rotation_never_lengthens_the_life_of_an_older_secret(webhooks, clock):
    made = await webhooks.create(URL, ["*"])
    first = await webhooks.rotate(made.webhook.id, 60)
    second = await webhooks.rotate(made.webhook.id, 3_600)
    assert second.webhook.signers(clock.now_ms + 61_000) == [
        second.secret.value,
        first.secret.value,
    ]
    for _ in range(2 * SECRETS_MAX):
        last = await webhooks.rotate(made.webhook.id, 0)
    assert last.webhook.signers(clock.now_ms) == [last.secret.value]


async def test_a_rotation_that_would_end_a_secret_early_is_refused(webhooks, clock):
    made = await webhooks.create(URL, ["*"], key="k")
    id, began = made.webhook.id, clock.now_ms
    secrets = [made.secret]
    for nth in range(SECRETS_MAX - 1):
        clock.advance(1_000)
        rotated = await webhooks.rotate(id, key=f"r{nth}")
        assert isinstance(rotated, Rotated)
        secrets.insert(0, rotated.secret.value)
    assert rotated.webhook.signers(clock.now_ms) == secrets
    full = await webhooks.rotate(id, 60, key="full")
    assert isinstance(full, Crowded)
    # The first ends a day after the first rotation.
    assert clock.now_ms + full.wait_ms == began + 1_000 + DAY_MS
    assert "10 secrets sign already" in full.detail
    # Nothing has changed, and what was answered before is answered again.
    assert (await webhooks.find(id)).signers(clock.now_ms) == secrets
    assert (await webhooks.create(URL, ["*"], key="k")).secret == made.secret
    assert (await webhooks.rotate(id, key="r0")).secret.value == secrets[-2]
    clock.advance(full.wait_ms)
    assert isinstance(await webhooks.rotate(id, key="full"), Rotated)


async def test_a_rotation_that_ends_all_others_at_once_is_not_refused_for_their_number(
    webhooks, clock
):
    """A secret that somebody stole has to be replaced now."""
    made = await webhooks.create(URL, ["*"], key="k")
    id = made.webhook.id
    for _ in range(SECRETS_MAX - 1):
        await webhooks.rotate(id)
    assert isinstance(await webhooks.rotate(id), Crowded)
    rotated = await webhooks.rotate(id, 0)
    assert rotated.webhook.signers(clock.now_ms) == [rotated.secret.value]
    assert (await webhooks.create(URL, ["*"], key="k")).secret == made.secret
    # They are remembered, and that has an end as well.
    for _ in range(SECRETS_KEPT_MAX - SECRETS_MAX - 1):
        last = await webhooks.rotate(id, 0)
    assert len(last.webhook.secrets) == SECRETS_KEPT_MAX
    full = await webhooks.rotate(id, 0)
    assert isinstance(full, Crowded)
    assert (await webhooks.create(URL, ["*"], key="k")).secret == made.secret
    clock.advance(full.wait_ms)
    assert isinstance(await webhooks.rotate(id, 0), Rotated)


async def test_a_rotation_under_the_same_key_is_done_once(webhooks):
    id = await make(webhooks)
    first = await webhooks.rotate(id, key="k")
    again = await webhooks.rotate(id, key="k")
    other = await webhooks.rotate(id, key="l")
    assert (first.replayed, again.replayed, other.replayed) == (False, True, False)
    assert again.secret.value == first.secret.value != other.secret.value
    assert again.previous_until_ms == first.previous_until_ms


async def test_a_spell_of_failures_ends_with_a_delivery_or_with_two_quiet_days(webhooks, clock):
    id = await make(webhooks)
    began = clock.now_ms
    for _ in range(3):
        assert (await webhooks.failing(id)).failing_since_ms == began
        clock.advance(DAY_MS)
    clock.advance(SPELL_GAP_MS)
    assert (await webhooks.failing(id)).failing_since_ms == clock.now_ms
    assert (await webhooks.working(id)).failing_since_ms is None
    clock.advance(1)
    assert (await webhooks.failing(id)).failing_since_ms == clock.now_ms


async def test_a_disabled_one_says_why_until_it_is_enabled(webhooks):
    id = await make(webhooks)
    disabled = await webhooks.disable(id, "gone " * 200)
    assert disabled.state is State.DISABLED
    assert disabled.reason.startswith("gone gone")
    assert len(disabled.reason) <= 300
    assert (await webhooks.disable(id, "another reason")).reason == disabled.reason
    enabled = await webhooks.enable(id)
    assert (enabled.state, enabled.reason, enabled.turn) == (State.ACTIVE, None, 2)


async def test_changes_that_come_at_once_all_count(webhooks):
    id = await make(webhooks)
    await asyncio.gather(*(webhooks.enable(id) for _ in range(8)), webhooks.rotate(id))
    webhook = await webhooks.find(id)
    assert webhook.turn == 9
    assert len(webhook.secrets) == 2


async def test_a_lost_reply_of_the_store_makes_nothing_twice(store, webhooks, monkeypatch):
    put = store.put
    lost = []

    async def losing(document: Document):
        done = await put(document)
        if document.version not in lost:
            lost.append(document.version)
            raise CommitUnknown("the reply was lost")
        return done

    monkeypatch.setattr(store, "put", losing)
    id = await make(webhooks)
    rotated = await webhooks.rotate(id)
    webhook = await webhooks.find(id)
    assert lost == [1, 2]
    assert [each.value for each in webhook.secrets][:1] == [rotated.secret.value]
    assert len(webhook.secrets) == 2
