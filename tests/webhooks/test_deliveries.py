"""Facts arrive at real receivers: at least once, in order per event, whatever goes wrong."""

import asyncio
import json
import sys

import pytest
import standardwebhooks
from aiohttp import web

from holdfast.brokers.webhooks.line import SUBSCRIPTION_MAX
from holdfast.brokers.webhooks.retries import HOUR_MS, KIND, SCHEDULE_MS
from holdfast.brokers.webhooks.subscriptions import LastFailure, State
from holdfast.domain.cloudevents import message
from holdfast.errors import StoreUnavailable
from holdfast.followers import dead_letters, deliveries
from holdfast.followers.dead_letters import DeadLetters
from holdfast.followers.deliveries import NoFact, find_fact, redeliver
from holdfast.settings import Settings
from tests.webhooks.conftest import INTERNAL
from tests.webhooks.receiving import becomes, until, verify


async def test_a_fact_arrives_signed_as_it_is_on_the_log(world, receiver):
    await world.event()
    await world.subscribe()
    async with world.delivering():
        await world.facts("gala", 1)
        await until(lambda: receiver.got)
    (got,) = receiver.got
    (entry,) = await world.store.log("gala", 1, 10)
    assert got.body == message(entry).body
    assert got.headers["content-type"] == "application/cloudevents+json"
    assert got.headers["webhook-id"] == "gala.2" == got.fact["id"]
    assert verify(world.secret, got.headers, got.body) == json.loads(got.body)
    assert standardwebhooks.Webhook(world.secret).verify(got.body, got.headers) == got.fact


async def test_what_was_before_the_subscription_is_not_sent_and_new_events_are_from_their_first(
    world, receiver
):
    await world.event()
    await world.facts("gala", 5)
    await world.subscribe()
    async with world.delivering():
        await world.facts("gala", 2)
        await world.event("late")
        await until(lambda: len(receiver.got) == 3)
    assert receiver.facts("gala") == [7, 8]
    assert receiver.facts("late") == [1]


async def test_what_is_not_wanted_is_passed_over(world, receiver):
    await world.event()
    await world.event("other")
    id = await world.subscribe("event.changed", subjects=["gala"])
    async with world.delivering() as delivering:
        await world.facts("gala", 250)
        await world.facts("other", 1)
        await world.shop.change_event("gala", name="Gala")
        await world.shop.change_event("other", name="Other")
        await until(lambda: receiver.got)
        await world.facts("gala", 5)
        await becomes(lambda: caught_up(world, id))
        assert delivering.delivered == 1
        assert delivering.lags() == {id: 0}
    assert [got.fact["type"] for got in receiver.got] == ["event.changed"]
    assert await world.cursor(id, "other") == 0


async def caught_up(world, id: str, event: str = "gala"):
    return await world.cursor(id, event) == (await world.store.heads())[event]


async def test_many_events_go_out_at_once_but_of_each_one_fact_at_a_time(world, receiver):
    events = [await world.event(f"e{nth}") for nth in range(12)]
    await world.subscribe()
    now, most, together = set(), 0, set()

    async def slow(got):
        nonlocal most
        together.add(got.event in now)
        now.add(got.event)
        most = max(most, len(now))
        await asyncio.sleep(0.005)
        now.discard(got.event)
        return 200

    receiver.answer = slow
    async with world.delivering():
        await asyncio.gather(*(world.facts(event, 8) for event in events))
        await until(lambda: len(receiver.got) == 96)
    assert together == {False}
    assert 2 < most <= SUBSCRIPTION_MAX
    for event in events:
        assert receiver.facts(event) == [*range(2, 10)]


async def test_a_flaky_receiver_gets_every_fact_in_order(world, receiver):
    """Every third attempt fails, and sometimes it had taken the fact all the same."""
    events = [await world.event(f"e{nth}") for nth in range(3)]
    id = await world.subscribe()
    receiver.answer = lambda got: 500 if len(receiver.got) % 3 == 0 else 200
    async with world.delivering() as delivering:
        await asyncio.gather(*(world.facts(event, 10) for event in events))

        async def done():
            world.clock.advance(60_000)
            return all([await caught_up(world, id, event) for event in events])

        await becomes(done)
        assert delivering.delivered == 30
        assert delivering.failed == len(receiver.got) - 30 > 0
    for event in events:
        assert receiver.first(event) == [*range(2, 12)]
        assert receiver.facts(event) == sorted(receiver.facts(event))


async def came(receiver, event: str, count: int) -> None:
    await until(lambda: len(receiver.facts(event)) == count)


async def attempt(world, id: str, number: int) -> None:
    async def made():
        retry = await world.retry(id)
        return retry is not None and retry.attempts == number

    await becomes(made)


async def test_a_failing_fact_is_tried_by_the_schedule_while_others_get_through(world, receiver):
    """The tenth attempt is the last: then it is with the dead letters, and its event goes on."""
    await world.event()
    await world.event("other")
    id = await world.subscribe()
    receiver.answer = lambda got: 500 if (got.event, got.seq) == ("gala", 2) else 200
    async with world.delivering() as delivering:
        await world.facts("gala", 3)
        for number, wait_ms in enumerate(SCHEDULE_MS, 1):
            await attempt(world, id, number)
            retry = await world.retry(id)
            assert retry.due_ms == world.clock.now_ms + wait_ms
            # Just before it is due nothing happens, and another event goes on.
            world.clock.move_to(retry.due_ms - 60_000 if wait_ms > 60_000 else retry.due_ms - 4_000)
            await world.facts("other", 1)
            await came(receiver, "other", number)
            assert receiver.facts("gala") == [2] * number
            world.clock.move_to(retry.due_ms)
        await until(lambda: receiver.facts("gala") == [2] * 10 + [3, 4])
        await becomes(lambda: caught_up(world, id))
        assert (delivering.dead, delivering.disabled, delivering.failed) == (1, 0, 10)
    (letter,) = await DeadLetters(world.store).all()
    assert (letter.follower, letter.event, letter.seq) == (f"webhook:{id}", "gala", 2)
    assert letter.reason == "not delivered in 10 attempts; at last: answered 500"
    assert await world.retry(id) is None


async def test_a_restart_goes_on_with_the_same_schedule(world, receiver):
    await world.event()
    id = await world.subscribe()
    receiver.answer = lambda got: 500
    async with world.delivering():
        await world.facts("gala", 1)
        await attempt(world, id, 1)
        world.clock.advance(5_000)
        await attempt(world, id, 2)
    before = await world.retry(id)
    receiver.answer = lambda got: 200
    async with world.delivering():
        world.clock.move_to(before.due_ms - 60_000)
        await world.event("other")
        await until(lambda: receiver.facts("other") == [1])
        assert receiver.facts("gala") == [2, 2]
        world.clock.move_to(before.due_ms)
        await until(lambda: receiver.facts("gala") == [2, 2, 2])
        await becomes(lambda: caught_up(world, id))
        assert await world.retry(id) is None


async def test_whoever_fails_for_three_days_is_disabled_and_goes_on_where_it_stood(world, receiver):
    await world.event()
    id = await world.subscribe()
    receiver.answer = lambda got: 500
    async with world.delivering() as delivering:
        await world.facts("gala", 2)
        for number in range(1, len(SCHEDULE_MS) + 1):
            await attempt(world, id, number)
            assert (await world.webhooks.find(id)).state is State.ACTIVE
            world.clock.move_to((await world.retry(id)).due_ms)

        async def disabled():
            return (await world.webhooks.find(id)).state is State.DISABLED

        await becomes(disabled)
        assert delivering.disabled == 1
        webhook = await world.webhooks.find(id)
        assert webhook.reason == "nothing was delivered for three days; at last: answered 500"
        assert await DeadLetters(world.store).all() == []
        sent = len(receiver.got)
        await world.facts("gala", 1)
        receiver.answer = lambda got: 200
        await until(lambda: not delivering.lags())
        assert len(receiver.got) == sent

        await world.webhooks.enable(id)
        await until(lambda: receiver.facts()[sent:] == [2, 3, 4])
        await becomes(lambda: caught_up(world, id))
    assert (await world.webhooks.find(id)).failing_since_ms is None


async def test_enabling_one_that_works_tries_at_once_what_waits(world, receiver):
    await world.event()
    id = await world.subscribe()
    receiver.answer = lambda got: 500
    async with world.delivering():
        await world.facts("gala", 1)
        await attempt(world, id, 1)
        receiver.answer = lambda got: 200
        await world.webhooks.enable(id)
        await until(lambda: receiver.facts() == [2, 2])


async def test_enabling_one_that_refuses_a_fact_does_not_forget_the_refusals(world, receiver):
    await world.event()
    id = await world.subscribe()
    receiver.answer = lambda got: 400 if got.seq == 2 else 200
    async with world.delivering():
        await world.facts("gala", 2)
        for number in (1, 2, 3):
            await attempt(world, id, number)
            await world.webhooks.enable(id)
        await until(lambda: receiver.facts() == [2, 2, 2, 2, 3])
    (letter,) = await DeadLetters(world.store).all()
    assert letter.reason == "refused 4 times; at last: answered 400"


@pytest.mark.parametrize("last", [200, 422])
async def test_how_often_a_fact_was_tried_is_forgotten_when_its_cursor_has_moved(
    world, receiver, monkeypatch, last
):
    """Delivered or buried: dying in between repeats it, and does not count from one again."""
    await world.event()
    id = await world.subscribe()
    receiver.answer = lambda got: 422 if got.seq == 3 else 200
    drop, stood = world.store.drop, []

    async def dropping(kind, document, version):
        if kind == KIND:
            stood.append(await world.cursor(id))
        return await drop(kind, document, version)

    monkeypatch.setattr(world.store, "drop", dropping)
    async with world.delivering():
        await world.facts("gala", 3)
        for number in (1, 2, 3):
            await attempt(world, id, number)
            if number == 3:
                receiver.answer = lambda got: last if got.seq == 3 else 200
            world.clock.move_to((await world.retry(id)).due_ms)
        await becomes(lambda: caught_up(world, id))
    assert stood == [3]
    assert await world.retry(id) is None


async def test_what_failed_last_is_told_until_it_is_delivered(world, receiver):
    await world.event()
    id = await world.subscribe()
    receiver.answer = lambda got: 500

    async def told():
        webhook = await world.webhooks.find(id)
        return (await world.webhooks.last_failures([webhook])).get(id)

    async with world.delivering():
        assert await told() is None
        await world.facts("gala", 1)
        await attempt(world, id, 1)
        at_ms = world.clock.now_ms
        assert await told() == LastFailure("gala.2", "answered 500", at_ms, 1, at_ms + 5_000)
        world.clock.advance(5_000)
        receiver.answer = lambda got: 404
        await attempt(world, id, 2)
        at_ms += 5_000
        failure = LastFailure("gala.2", "answered 404", at_ms, 2, at_ms + SCHEDULE_MS[1])
        assert await told() == failure
        await world.webhooks.disable(id, "by a test")
        assert await told() == failure._replace(next_try_ms=None)
        receiver.answer = lambda got: 200
        await world.webhooks.enable(id)
        await becomes(lambda: caught_up(world, id))

        async def silent():
            return await told() is None

        await becomes(silent)


async def test_of_several_events_the_one_that_failed_last_is_told(world, receiver):
    for event in ("one", "two"):
        await world.event(event)
    id = await world.subscribe()
    receiver.answer = lambda got: 500
    async with world.delivering():
        for event in ("two", "one"):
            world.clock.advance(1_000)
            await world.facts(event, 1)
            await came(receiver, event, 1)

            async def waits(event=event):
                return await world.retry(id, event)

            await becomes(waits)
    failures = await world.webhooks.last_failures(await world.webhooks.all())
    assert failures[id].fact == "one.2"


async def test_a_fact_that_was_pruned_is_not_found_and_it_is_said_why(world):
    await world.event()
    await world.facts("gala", 3)
    assert await find_fact(world.store, "gala", 9) == NoFact("the log has no fact gala.9")
    for unknown in ("nope", "not an id"):
        detail = f"there is no event {unknown!r}"
        assert await find_fact(world.store, unknown, 1) == NoFact(detail, event_known=False)
    await world.store.prune("gala", 2, 10)
    pruned = "the log of gala begins with 3: what was before was pruned"
    assert await find_fact(world.store, "gala", 1) == NoFact(pruned)
    (entry,) = await world.store.log("gala", 2, 1)
    assert await find_fact(world.store, "gala", 3) == message(entry)


async def test_what_the_receiver_refuses_is_tried_four_times_and_the_rest_goes_on(world, receiver):
    await world.event()
    id = await world.subscribe()
    receiver.answer = lambda got: 422 if got.seq == 3 else 200
    async with world.delivering():
        await world.facts("gala", 3)
        for number in (1, 2, 3):
            await attempt(world, id, number)
            world.clock.move_to((await world.retry(id)).due_ms)
        await until(lambda: receiver.facts() == [2, 3, 3, 3, 3, 4])
    (letter,) = await DeadLetters(world.store).all()
    assert letter.reason == "refused 4 times; at last: answered 422"
    assert letter.id == f"webhook:{id}/gala.3"


async def test_gone_disables_at_once(world, receiver):
    await world.event()
    id = await world.subscribe()
    receiver.answer = lambda got: 410
    async with world.delivering() as delivering:
        await world.facts("gala", 1)
        await until(lambda: delivering.disabled)
    webhook = await world.webhooks.find(id)
    assert webhook.state is State.DISABLED
    assert "410 Gone" in webhook.reason
    assert await DeadLetters(world.store).all() == []


async def test_a_busy_receiver_says_how_long_to_wait(world, receiver):
    await world.event()
    id = await world.subscribe()
    receiver.answer = lambda got: web.Response(status=429, headers={"Retry-After": "1800"})
    async with world.delivering():
        await world.facts("gala", 1)
        await attempt(world, id, 1)
    assert (await world.retry(id)).due_ms == world.clock.now_ms + HOUR_MS // 2


async def test_a_subscription_that_fails_takes_no_more_than_one_slot(world, receiver):
    """So whoever does not answer keeps nobody else waiting."""
    events = [await world.event(f"e{nth}") for nth in range(12)]
    hanging, working = asyncio.Event(), []

    async def answer(got):
        if got.headers["x-path"] == "/dead":
            await hanging.wait()
            return 500
        working.append(got.seq)
        return 200

    receiver.answer = answer
    dead = await world.subscribe(url=receiver.url.replace("/hook", "/dead"))
    await world.webhooks.failing(dead)
    await world.subscribe()
    async with world.delivering() as delivering:
        await asyncio.gather(*(world.facts(event, 3) for event in events))
        await until(lambda: len(working) == 36)
        # The receiver has them before the cursors are moved.
        await until(lambda: sorted(delivering.lags().values()) == [0, 36])
        assert sum(got.headers["x-path"] == "/dead" for got in receiver.got) == 1
        hanging.set()


async def test_both_secrets_verify_while_both_live(world, receiver):
    await world.event()
    id = await world.subscribe()
    old = world.secret
    async with world.delivering():
        rotated = await world.webhooks.rotate(id, 3_600)
        await world.facts("gala", 1)
        await becomes(lambda: signed_by(world, receiver, 2))
        got = receiver.got[-1]
        for secret in (old, rotated.secret.value):
            assert verify(secret, got.headers, got.body) == got.fact
        world.clock.advance(HOUR_MS)
        await becomes(lambda: signed_by(world, receiver, 1))
        got = receiver.got[-1]
        assert verify(rotated.secret.value, got.headers, got.body) == got.fact
        with pytest.raises(Exception, match="no signature fits"):
            verify(old, got.headers, got.body)


async def signed_by(world, receiver, secrets: int) -> bool:
    """Whether the newest message has so many signatures; sends another where it has not."""
    await world.facts("gala", 1)
    seen = (await world.store.heads())["gala"]
    await until(lambda: receiver.got and receiver.got[-1].seq == seen)
    return len(receiver.got[-1].headers["webhook-signature"].split(" ")) == secrets


async def test_one_that_is_removed_gets_nothing_more_and_leaves_nothing(world, receiver):
    await world.event()
    id = await world.subscribe()
    receiver.answer = lambda got: 500
    async with world.delivering() as delivering:
        await world.facts("gala", 1)
        await attempt(world, id, 1)
        await world.webhooks.remove(id)
        await until(lambda: not delivering.lags())
        sent = len(receiver.got)
        world.clock.advance(5_000)
        await world.facts("gala", 3)
        other = await world.subscribe()
        receiver.answer = lambda got: 200
        await world.facts("gala", 1)
        await becomes(lambda: caught_up(world, other))
    assert receiver.facts()[sent:] == [6]
    cursors, _ = await world.store.cursors()
    assert {each.follower for each in cursors} == {f"webhook:{other}"}
    assert await world.retry(id) is None


async def test_a_fact_is_delivered_again_by_hand_whatever_the_state(world, receiver):
    await world.event()
    await world.facts("gala", 2)
    id = await world.subscribe()
    await world.webhooks.disable(id, "by a test")
    (entry,) = await world.store.log("gala", 1, 1)
    assert await redeliver(world.store, INTERNAL, id, message(entry)) is None
    assert receiver.facts() == [2]
    assert verify(world.secret, receiver.got[0].headers, receiver.got[0].body)
    receiver.answer = lambda got: 503
    assert await redeliver(world.store, INTERNAL, id, message(entry)) == "answered 503"
    missing = await redeliver(world.store, INTERNAL, "wh_nowhere", message(entry))
    assert missing == "there is no webhook 'wh_nowhere'"


async def test_internal_addresses_are_refused_at_each_delivery_by_default(world, receiver):
    await world.event()
    id = await world.subscribe()
    async with world.delivering(Settings(store="memory://")):
        await world.facts("gala", 1)
        await attempt(world, id, 1)
    reason = (await world.retry(id)).reason
    assert reason == (
        "not sent: 127.0.0.1 is an internal address, "
        "which is not called unless HOLDFAST_WEBHOOK_INTERNAL=true"
    )
    assert receiver.got == []


async def test_where_the_dead_letters_are_full_the_event_waits_and_nothing_is_lost(
    world, receiver, monkeypatch
):
    monkeypatch.setattr(dead_letters, "LETTERS_MAX", 0)
    await world.event()
    id = await world.subscribe()
    receiver.answer = lambda got: 422
    async with world.delivering():
        await world.facts("gala", 1)
        for number in (1, 2, 3):
            await attempt(world, id, number)
            world.clock.move_to((await world.retry(id)).due_ms)

        async def stalled():
            return "dead letters" in (await world.retry(id)).reason

        await becomes(stalled)
    assert await world.cursor(id) == 1


async def test_two_divide_the_events_and_nothing_is_sent_twice(world, receiver):
    events = [await world.event(f"e{nth}") for nth in range(20)]
    await world.subscribe()
    async with world.delivering() as one, world.delivering() as two:
        await until(lambda: len(one._shards.mine) == len(two._shards.mine) == 32)
        await asyncio.gather(*(world.facts(event, 5) for event in events))
        await until(lambda: len(receiver.got) >= 100)
        assert one.delivered > 0
        assert two.delivered > 0
    for event in events:
        assert receiver.facts(event) == [*range(2, 7)]


async def test_two_that_divide_nothing_send_everything_twice(world, receiver, monkeypatch):
    """The control: it is the shards that keep the two above apart."""
    events = [await world.event(f"e{nth}") for nth in range(5)]
    await world.subscribe()
    async with world.delivering():
        monkeypatch.setattr(deliveries, "FOLLOWER", "another")
        async with world.delivering():
            await until(lambda: receiver.answer and True)
            arrived = asyncio.Barrier(2)

            async def together(got):
                await arrived.wait()
                return 200

            receiver.answer = together
            await asyncio.gather(*(world.facts(event, 1) for event in events))
            await until(lambda: len(receiver.got) == 10)
    for event in events:
        assert receiver.facts(event) == [2, 2]


async def test_trouble_with_the_store_is_gone_when_it_is(world, receiver, monkeypatch):
    await world.event()
    id = await world.subscribe()
    move, down = world.store.move, True

    async def failing(follower, moves):
        if down:
            raise StoreUnavailable("it is down")
        return await move(follower, moves)

    async with world.delivering():
        monkeypatch.setattr(world.store, "move", failing)
        await world.facts("gala", 3)
        await until(lambda: len(receiver.facts()) > 3)
        down = False
        await becomes(lambda: caught_up(world, id))
    assert receiver.first("gala") == [2, 3, 4]


async def test_without_subscriptions_nothing_is_written(world):
    await world.event()
    async with world.delivering() as delivering:
        first = delivering._read_at
        await until(lambda: delivering._read_at > first)
        assert (await world.store.documents("shards"))[0] == []


async def test_without_aiohttp_it_is_said_what_to_install(world, monkeypatch):
    monkeypatch.setitem(sys.modules, "holdfast.brokers.webhooks.post", None)
    await world.event()
    id = await world.subscribe()
    (entry,) = await world.store.log("gala", 0, 1)
    why = await redeliver(world.store, INTERNAL, id, message(entry))
    assert why == "webhooks need aiohttp: pip install 'holdfast[webhooks]'"


async def test_it_can_be_stopped_at_any_moment(world, receiver):
    """Whatever it is at just then: it ends, and another goes on."""
    await world.event()
    id = await world.subscribe()
    for nth in range(30):
        async with asyncio.timeout(5):
            async with world.delivering() as delivering:
                await world.facts("gala", 1)
                for _ in range(nth * 5):
                    await asyncio.sleep(0)
                assert delivering.failed == 0
    async with world.delivering():
        await becomes(lambda: caught_up(world, id))
    assert receiver.first("gala") == [*range(2, 32)]
