"""Lost answers, cut connections and full services: tried again under the same key, done once."""

import socket
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import aiohttp
import pytest

from holdfast.client import (
    Changed,
    Client,
    Confirmed,
    Created,
    Extended,
    Placed,
    RateLimited,
    Refused,
    Released,
    Unavailable,
    Unexpected,
)
from holdfast.client.transport import BACKOFF_SECONDS_MAX, Patience, read_retry_after
from tests.api.conftest import make_event
from tests.api.serving import ADMIN
from tests.client.conftest import connect
from tests.client.faults import (
    Proxy,
    cut,
    done_but_cut,
    done_but_says,
    done_but_silent,
    proxy,
    says,
)

pytestmark = pytest.mark.slow

QUICK = {"backoff_seconds": 0.001}


@pytest.fixture
async def line(served) -> AsyncIterator[Proxy]:
    async with proxy(served.url) as line:
        yield line


@pytest.fixture
async def client(line) -> AsyncIterator[Client]:
    async with connect(line.url, ADMIN, **QUICK) as client:
        yield client


def holds_of(served, event: str) -> int:
    facts = served.call("GET", f"/v1/events/{event}/log").json()["facts"]
    return sum(fact["type"] == "hold.placed" for fact in facts)


@pytest.mark.parametrize("fault", [done_but_cut, done_but_says(502), done_but_says(503)])
async def test_a_lost_answer_is_asked_for_again_and_one_hold_is_made(
    served, line, client, event, fault
):
    line.faults = [fault]
    placed = await client.place_hold(event, buyer="ann", best=1)
    assert isinstance(placed, Placed)
    assert placed.replayed
    assert holds_of(served, event) == 1
    assert len(line.keys) == 2
    assert len(set(line.keys)) == 1
    assert line.keys[0]


async def test_without_a_key_two_holds_would_be_made(served, line, event):
    """The control: what a client does that simply sends it again."""
    line.faults = [done_but_cut]
    path = f"{line.url}/v1/events/{event}/holds"
    headers = {"Authorization": f"Bearer {ADMIN}"}
    async with aiohttp.ClientSession(headers=headers) as session:
        ask = {"buyer": "ann", "best": [{"quantity": 1}]}
        with pytest.raises(aiohttp.ClientError):
            await session.post(path, json=ask)
        async with session.post(path, json=ask) as answer:
            assert answer.status == 201
    assert holds_of(served, event) == 2


async def test_an_answer_that_never_comes_is_given_up_and_asked_for_again(served, line, event):
    line.faults = [done_but_silent]
    async with connect(line.url, ADMIN, attempt_seconds=1.0, **QUICK) as client:
        placed = await client.place_hold(event, buyer="ann", best=1)
    assert placed.replayed
    assert holds_of(served, event) == 1


async def test_a_connection_cut_before_the_work_is_made_again(served, line, client, event):
    line.faults = [cut, cut]
    placed = await client.place_hold(event, buyer="ann", best=1)
    assert not placed.replayed
    assert holds_of(served, event) == 1


async def test_an_order_whose_answer_was_lost_is_paid_once(served, line, client, event):
    hold = (await client.place_hold(event, buyer="ann", best=1)).hold
    line.faults = [done_but_cut]
    bought = await client.create_order(hold.id, method="sandbox:ok")
    assert isinstance(bought, Confirmed)
    assert bought.replayed
    assert (await client.event(event)).revenue == 9000


async def test_what_was_given_back_and_not_heard_of_is_given_back_once(line, client, event):
    hold = (await client.place_hold(event, buyer="ann", pools={"floor": 5})).hold
    order = (await client.create_order(hold.id, method="sandbox:ok")).order
    line.faults = [done_but_cut]
    left = (await client.cancel_order(order.id, pools={"floor": 2})).order
    assert (left.pools, line.keys[-1]) == ({"floor": 3}, line.keys[-2])
    assert (await client.event(event)).sold == 3


async def test_a_hold_is_extended_once(line, client, event):
    hold = (await client.place_hold(event, buyer="ann", best=1)).hold
    line.faults = [done_but_cut]
    extended = await client.extend_hold(hold.id, 60)
    assert isinstance(extended, Extended)
    assert extended.hold.version == 2
    assert (await client.hold(hold.id)).version == 2


async def test_an_event_is_created_once_and_that_is_no_refusal(line, client):
    line.faults = [done_but_cut]
    plan = {"id": "twice", "prices": {"a": 1}, "pools": [{"id": "a", "capacity": 1}]}
    created = await client.create_event(plan)
    assert isinstance(created, Created)
    assert created.replayed


async def test_what_may_be_repeated_is_repeated(line, client, event):
    hold = (await client.place_hold(event, buyer="ann", best=1)).hold
    line.faults = [done_but_cut]
    assert isinstance(await client.release_hold(hold.id), Released)
    line.faults = [done_but_cut]
    assert isinstance(await client.change_event(event, state="paused"), Changed)
    line.faults = [says(503, "overloaded")]
    assert (await client.event(event)).state == "paused"


@pytest.mark.parametrize("fault", [done_but_cut, done_but_says(503)])
async def test_capacity_is_not_added_twice(served, line, client, event, fault):
    """There is no key for a change; sent again, it would add again."""
    line.faults = [fault]
    with pytest.raises(Unavailable):
        await client.change_event(event, pools=[{"id": "floor", "capacity": 10}])
    assert (await client.event(event)).capacity == 80
    # What was certainly not done is sent again all the same.
    line.faults = [says(429, "rate_limited", Retry_After="0")]
    more = await client.change_event(event, pools=[{"id": "floor", "capacity": 10}])
    assert more.event.capacity == 90


async def test_not_now_is_heeded_and_then_it_works(line, client, event):
    line.faults = [says(503, "overloaded", Retry_After="0"), says(504)]
    assert isinstance(await client.place_hold(event, buyer="ann", best=1), Placed)
    assert len(set(line.keys)) == 1


async def test_retry_after_is_waited_for(line, client, event):
    line.faults = [says(503, "overloaded", Retry_After="1")]
    began = time.monotonic()
    await client.place_hold(event, buyer="ann", best=1)
    assert time.monotonic() - began >= 1


async def test_still_in_progress_is_asked_for_until_it_is_done(line, client, event):
    """More often than there are attempts: the service works on it."""
    line.faults = [says(409, "in_progress")] * 5
    assert isinstance(await client.place_hold(event, buyer="ann", best=1), Placed)
    assert len(set(line.keys)) == 1
    assert len(line.keys) == 6


async def test_a_refusal_is_not_asked_for_again(line, client, event):
    await client.place_hold(event, buyer="ann", seats=["A-1-1"])
    line.keys.clear()
    assert isinstance(await client.place_hold(event, buyer="bob", seats=["A-1-1"]), Refused)
    assert len(line.keys) == 1


async def test_too_many_requests_are_spread_while_there_is_time(line, event):
    line.faults = [says(429, "rate_limited", Retry_After="0")] * 5
    async with connect(line.url, ADMIN, **QUICK) as client:
        assert isinstance(await client.place_hold(event, buyer="ann", best=1), Placed)
    line.faults = [says(429, "address_units", Retry_After="60")]
    async with connect(line.url, ADMIN, total_seconds=5, **QUICK) as client:
        with pytest.raises(RateLimited) as caught:
            await client.place_hold(event, buyer="ann", best=1)
    assert (caught.value.retry_after, caught.value.reason) == (60.0, "address_units")


async def test_patience_ends_with_the_attempts_and_tells_the_key(line, client, event):
    line.faults = [says(503, "store_unavailable")] * 9
    with pytest.raises(Unavailable, match=r"store_unavailable \(tried 3 times\)") as caught:
        await client.place_hold(event, buyer="ann", best=1)
    assert len(line.keys) == 3
    assert (caught.value.status, caught.value.reason) == (503, "store_unavailable")
    line.faults = []
    key = caught.value.idempotency_key
    assert key == line.keys[0]
    assert isinstance(
        await client.place_hold(event, buyer="ann", best=1, idempotency_key=key), Placed
    )


async def test_patience_ends_with_the_time(line, event):
    line.faults = [done_but_silent] * 9
    began = time.monotonic()
    async with connect(
        line.url, ADMIN, attempts=9, attempt_seconds=0.4, total_seconds=1, **QUICK
    ) as client:
        with pytest.raises(Unavailable, match="no answer from"):
            await client.place_hold(event, buyer="ann", best=1)
    assert time.monotonic() - began < 5


async def test_one_attempt_is_one(line, event):
    async with connect(line.url, ADMIN, attempts=1) as client:
        for fault in (cut, says(503), says(429), says(409, "in_progress")):
            line.faults = [fault]
            with pytest.raises((Unavailable, RateLimited)):
                await client.place_hold(event, buyer="ann", best=1)
    assert len(line.keys) == 4


async def test_nobody_there_is_one_line():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    async with connect(url, ADMIN, **QUICK) as client:
        with pytest.raises(Unavailable) as caught:
            await client.events()
    assert str(caught.value) == f"{url} cannot be reached: Connection refused (tried 3 times)"


async def test_a_redirect_is_not_followed_with_the_key(line, client):
    line.faults = [says(307, Location="http://127.0.0.1:1/elsewhere")]
    with pytest.raises(Unexpected, match="status 307"):
        await client.events()
    assert len(line.keys) == 1


async def test_no_more_connections_than_allowed(served):
    event = make_event(served)
    async with connect(served.url, ADMIN, connections=2) as client:
        connector = client._transport._session.connector
        assert connector.limit == 2
        assert await client.event(event)


def test_pauses_grow_with_chance_and_heed_what_was_asked():
    patience = Patience(backoff_seconds=0.1)
    for tried, longest in ((1, 0.1), (2, 0.2), (3, 0.4), (50, BACKOFF_SECONDS_MAX)):
        pauses = {patience.pause(tried, None) for _ in range(50)}
        assert longest / 2 <= min(pauses) < max(pauses) <= longest
    assert patience.pause(1, 7.0) == 7.0


def test_retry_after_is_seconds_or_a_date():
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    assert read_retry_after("12") == 12.0
    assert 50 < (read_retry_after(soon) or 0) <= 60
    assert read_retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0
    assert read_retry_after("soon") is None
    assert read_retry_after(None) is None
