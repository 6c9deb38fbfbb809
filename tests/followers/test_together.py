"""PostgreSQL, Redis and Kafka together, from a hold over HTTP to a projection that was fed from
Kafka alone: the whole way of a fact, through processes that share nothing but these three."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import pytest

from holdfast.domain.stats import Stats
from holdfast.engine import Holdfast
from holdfast.followers.projections import KIND, Saved
from tests.api.conftest import make_event
from tests.api.serving import HOLDFAST, Served, serving
from tests.brokers.reading import read_kafka
from tests.conftest import drift, needed
from tests.servers import Kafka, Postgres, Redis, own_server, running

pytestmark = [
    pytest.mark.service,
    pytest.mark.slow,
    pytest.mark.timeout(180),
    pytest.mark.xdist_group("brokers"),
]

SOLD = 6
CANCELLED = 2
RELEASED = 3


@contextmanager
def process(*command: str, folder: Path, **settings: str) -> Iterator[None]:
    """One of our commands, until the block is left."""
    environment = {f"HOLDFAST_{name.upper()}": value for name, value in settings.items()}
    with (folder / f"{command[0]}.log").open("wb") as said:
        started = subprocess.Popen(
            [*HOLDFAST, *command],
            env={**os.environ, **environment},
            cwd=folder,
            stdout=said,
            stderr=said,
        )
    try:
        yield
        assert started.poll() is None, (folder / f"{command[0]}.log").read_text()
    finally:
        started.send_signal(signal.SIGTERM)
        try:
            started.wait(20)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()


def buy(served: Served, event: str, seat: str) -> str:
    ask = {"buyer": f"u-{seat}", "seats": [seat]}
    hold = served.call("POST", f"/v1/events/{event}/holds", ask)
    assert hold.status_code == 201, hold.text
    body = {"hold": hold.json()["id"], "payment": {"method": "sandbox:ok"}}
    order = served.call(
        "POST", "/v1/orders", body, headers={"Idempotency-Key": f"k-{event}-{seat}"}
    )
    assert order.status_code == 201, order.text
    return str(order.json()["id"])


def trade(served: Served, event: str) -> None:
    """Sales, some of them cancelled, holds that are given back, and refusals."""
    orders = [buy(served, event, f"A-1-{nth}") for nth in range(1, SOLD + 1)]
    for order in orders[:CANCELLED]:
        assert served.call("POST", f"/v1/orders/{order}/cancel").status_code == 200
    for nth in range(1, RELEASED + 1):
        ask = {"buyer": "u", "seats": [f"A-2-{nth}"]}
        hold = served.call("POST", f"/v1/events/{event}/holds", ask).json()["id"]
        rival = served.call("POST", f"/v1/events/{event}/holds", {**ask, "buyer": "v"})
        assert rival.json()["reason"] == "taken"
        assert served.call("DELETE", f"/v1/holds/{hold}").status_code == 204


async def projected(url: str, event: str, seq: int) -> Stats:
    """The state that was saved, once it has come that far. Nobody but the consumer saves it."""
    async with Holdfast.open(url, upkeep=False) as shop:
        ends = time.monotonic() + 60
        while time.monotonic() < ends:
            documents, _ = await shop.store.documents(KIND, event)
            saved = msgspec.json.decode(documents[0].body, type=Saved) if documents else None
            if saved is not None and saved.stats.seq >= seq:
                assert await drift(shop.store) == []
                return saved.stats
            await asyncio.sleep(0.1)
        raise AssertionError("the projection did not arrive")


@pytest.mark.parametrize("policy", ["two-layer"])
def test_from_a_hold_over_http_to_a_projection_fed_from_kafka(policy, tmp_path):
    with ExitStack() as stack:
        postgres = needed(lambda: stack.enter_context(own_server(Postgres)))
        redis = needed(lambda: stack.enter_context(own_server(Redis)))
        kafka = needed(lambda: running(Kafka))
        topic = "together"
        shared = {"store": postgres.url, "broker_topic": topic}
        served = stack.enter_context(
            serving(
                postgres.url,
                *("--gate", redis.url, "--policy", policy, "--workers", "2", "--no-upkeep"),
                cwd=tmp_path,
            )
        )
        event = make_event(served)
        stack.enter_context(process("relay", "--broker", kafka.url, folder=tmp_path, **shared))
        stack.enter_context(
            process("projections", "follow", "--from", kafka.url, folder=tmp_path, **shared)
        )
        trade(served, event)
        seen = served.call("GET", f"/v1/events/{event}").json()
        log = served.call("GET", f"/v1/events/{event}/log?limit=1000").json()["facts"]
        assert log[-1]["sequence"] == seen["seq"]

        stats = asyncio.run(projected(postgres.url, event, seen["seq"]))
        assert stats.sold == seen["sold"] == SOLD - CANCELLED
        assert stats.revenue == seen["revenue"] > 0
        told = served.call("GET", f"/v1/events/{event}/stats").json()
        assert told["percent_sold"] == seen["percent_sold"]
        assert told["holds"] == {
            **dict.fromkeys(("held", "paying", "expired"), 0),
            "released": RELEASED,
            "confirmed": SOLD,
        }
        enough = lambda bodies: len(bodies) >= len(log)  # noqa: E731 - it is all there is to say
        facts = [msgspec.json.decode(each) for each in read_kafka(kafka.url, topic, enough)]
        by_id = {fact["id"]: fact for fact in facts if fact["subject"] == event}
        assert list(by_id.values()) == log
