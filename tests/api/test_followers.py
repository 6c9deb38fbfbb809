"""`holdfast serve` with a broker: facts of what is done over HTTP arrive, whoever dies, and how far
they have come can be watched."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec
import pytest
import requests

from holdfast.followers.shards import KIND, SHARDS, Table, shard_of
from holdfast.settings import Settings
from holdfast.wiring import make_store
from tests.api.conftest import make_event
from tests.api.serving import Served, serving
from tests.api.test_metrics import Scrape, scrape
from tests.brokers.reading import read_nats
from tests.conftest import needed, needed_server
from tests.servers import Nats, running

pytestmark = [pytest.mark.service, pytest.mark.slow, pytest.mark.xdist_group("brokers")]

EVENTS = 12
WAIT_SECONDS_MAX = 30.0

T = TypeVar("T")


def until(true: Callable[[], T]) -> T:
    ends = time.monotonic() + WAIT_SECONDS_MAX
    while not (found := true()) and time.monotonic() < ends:
        time.sleep(0.05)
    assert found, "it did not happen in time"
    return found


def hold(served: Served, events: Sequence[str], seat: str) -> None:
    """One fact more of each of them. Who was talking to a worker that was killed asks again."""

    def placed(event: str) -> bool:
        ask, key = {"buyer": "u", "seats": [seat]}, {"Idempotency-Key": f"{event}-{seat}"}
        try:
            answer = served.call("POST", f"/v1/events/{event}/holds", ask, headers=key)
        except requests.ConnectionError:
            return False
        return answer.status_code == 201

    for event in events:
        until(partial(placed, event))


def numbers(server: Nats, topic: str, facts: int) -> dict[str, list[int]]:
    """Of each event those that the stream has, in its order, when there are so many."""
    bodies = asyncio.run(read_nats(server.url, f"{topic}.facts.*", lambda got: len(got) >= facts))
    found: dict[str, list[int]] = {}
    for told in map(msgspec.json.decode, bodies):
        found.setdefault(told["subject"], []).append(told["sequence"])
    return found


def shares(url: str) -> dict[str, int]:
    """Of each member the shards that it has."""

    async def table() -> dict[str, int]:
        store = make_store(Settings(store=url))
        await store.open()
        try:
            documents, _ = await store.documents(KIND, "relay")
        finally:
            await store.close()
        read = msgspec.json.decode(documents[0].body, type=Table) if documents else Table({}, [])
        owners = [each.owner for each in read.shards]
        return {member: owners.count(member) for member in read.members}

    return asyncio.run(table())


def workers_of(served: Served) -> list[int]:
    children = f"/proc/{served.process.pid}/task/{served.process.pid}/children"
    with open(children) as listed:
        return [int(pid) for pid in listed.read().split()]


def system(served: Served) -> dict[str, Any]:
    found: dict[str, Any] = served.call("GET", "/v1/system").json()
    return found


def scraped(served: Served, as_it_should: Callable[[Scrape], bool]) -> Scrape:
    def seen() -> Scrape | None:
        found = scrape(served)
        return found if as_it_should(found) else None

    found = until(seen)
    assert found is not None
    return found


def test_facts_arrive_and_a_killed_worker_is_replaced_by_the_others(tmp_path):
    server = needed(lambda: running(Nats))
    store, topic = f"sqlite:///{tmp_path / 'shop.db'}", "serving"
    more = {"broker_topic": topic, "relay_lease_seconds": 1, "sqlite_synchronous": "NORMAL"}
    options = ("--workers", "2", "--broker", server.url)
    with serving(store, *options, cwd=tmp_path, **more) as served:
        events = [make_event(served) for _ in range(EVENTS)]
        assert len({shard_of(event) for event in events}) > SHARDS // EVENTS
        hold(served, events, "A-1-1")
        assert numbers(server, topic, 2 * EVENTS) == {event: [1, 2] for event in events}

        members = until(lambda: halves(shares(store)))
        seen = scraped(served, lambda seen: done(seen, 2 * EVENTS))
        assert seen.value("holdfast_relay_up") == 1
        assert seen.value("holdfast_relay_refused_total") == 0
        until(lambda: scrape(served).value("holdfast_relay_shards") == SHARDS)
        told = system(served)
        assert (told["broker"], told["lags"]["relay"]) == (server.url, 0)

        victim = workers_of(served)[0]
        os.kill(victim, signal.SIGKILL)
        hold(served, events, "A-1-2")
        assert numbers(server, topic, 3 * EVENTS) == {event: [1, 2, 3] for event in events}
        # The one that was killed is a member no more, and who came in its place has a half.
        heirs = until(lambda: halves(shares(store), but=members))
        assert len(members & heirs) == 1


def halves(found: dict[str, int], but: set[str] | None = None) -> set[str]:
    """The two that have one half each, if it is so."""
    whole = sorted(found.values()) == [SHARDS // 2, SHARDS // 2]
    return set(found) if whole and set(found) != but else set()


def done(seen: Scrape, facts: int) -> bool:
    """All were published, and none is left."""
    return (
        seen.value("holdfast_relay_published_total") >= facts
        and seen.value("holdfast_log_lag_facts", follower="relay") == 0
        and seen.value("holdfast_relay_lag_seconds") == 0
    )


def test_while_the_broker_is_away_sales_go_on_and_what_waits_is_shown(tmp_path):
    topic = "away"
    with needed_server(Nats) as server:
        server.stop()
        store = f"sqlite:///{tmp_path / 'shop.db'}"
        with serving(store, "--broker", server.url, cwd=tmp_path, broker_topic=topic) as served:
            event = make_event(served)
            hold(served, [event], "A-1-1")
            seen = scraped(served, lambda seen: waiting(seen, 2))
            assert seen.value("holdfast_relay_published_total") == 0
            server.start()
            scraped(served, lambda seen: done(seen, 2) and seen.value("holdfast_relay_up") == 1)

            server.kill()
            hold(served, [event], "A-1-2")
            scraped(served, lambda seen: waiting(seen, 1))
            assert system(served)["lags"]["relay"] == 1
            server.start()
            scraped(served, lambda seen: done(seen, 3) and seen.value("holdfast_relay_up") == 1)
            assert numbers(server, topic, 3) == {event: [1, 2, 3]}


def waiting(seen: Scrape, facts: int) -> bool:
    return (
        seen.value("holdfast_relay_up") == 0
        and seen.value("holdfast_log_lag_facts", follower="relay") == facts
        and seen.value("holdfast_relay_lag_seconds") > 0
    )


def test_a_wrong_broker_is_one_line_before_anything_starts(tmp_path):
    with (
        pytest.raises(AssertionError, match="unknown broker 'rabbit://host:1'"),
        serving("memory://", "--broker", "rabbit://host:1", cwd=tmp_path),
    ):
        pass
    with (
        pytest.raises(AssertionError, match="cannot share the broker memory://"),
        serving("sqlite:///s.db", "--workers", "2", "--broker", "memory://", cwd=tmp_path),
    ):
        pass
    assert list(tmp_path.iterdir()) == []
