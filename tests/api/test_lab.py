"""The lab over HTTP: a crowd in the deployment's own store, what came of it, and who may ask."""

import signal
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from holdfast.lab.contest.databases import PostgresLine
from holdfast.lab.contest.tables import EXISTING
from tests.api.serving import Served, serving
from tests.conftest import needed_server
from tests.servers import Postgres, Redis

PATIENCE_SECONDS = 60.0
LOOK_SECONDS = 0.05


def begin(served: Served, **asked: Any) -> dict[str, Any]:
    answer = served.call("POST", "/v1/lab/runs", {"buyers": 200, "seats": 3, **asked})
    assert answer.status_code == 202, answer.text
    begun: dict[str, Any] = answer.json()
    assert begun["state"] == "running"
    return begun


def ended(served: Served, id: str) -> dict[str, Any]:
    over = time.monotonic() + PATIENCE_SECONDS
    while True:
        run: dict[str, Any] = served.call("GET", f"/v1/lab/runs/{id}").json()
        if run["state"] != "running":
            return run
        assert time.monotonic() < over, run
        time.sleep(LOOK_SECONDS)  # as a page looks


def result(served: Served, **asked: Any) -> dict[str, Any]:
    run = ended(served, begin(served, **asked)["id"])
    assert run["state"] == "done", run["error"]
    found: dict[str, Any] = run["result"]
    assert sum(bucket["count"] for bucket in found["histogram"]) == found["buyers"]
    assert found["p50_ms"] <= found["p99_ms"] <= found["histogram"][-1]["le_ms"]
    assert found["elapsed_ms"] > 0
    assert found["rate"] > 0
    return found


def counted(found: dict[str, Any]) -> tuple[int, ...]:
    return tuple(found[name] for name in ("sold", "rejected", "errors", "oversold"))


@pytest.mark.parametrize("stock", [False, True])
def test_a_crowd_at_holdfast_gets_exactly_what_there_is(served, stock):
    found = result(served, buyers=2_000, seats=5, stock=stock)
    assert counted(found) == (5, 1_995, 0, 0)
    assert found["batches"] < found["reached_authority"] <= 2_005
    assert (found["store"], found["gate"], found["policy"]) == ("sqlite", "none", "authority")


@pytest.mark.slow
def test_over_http_the_crowd_comes_through_the_front_door(served):
    found = result(served, buyers=500, seats=1, over="http")
    assert counted(found) == (1, 499, 0, 0)
    assert 0 < found["batches"] <= found["reached_authority"]
    # The key it came with is gone, and the event is closed.
    events = served.call("GET", "/v1/events").json()["events"]
    states = {event["state"] for event in events if event["id"].startswith("lab-")}
    assert states == {"closed"}


@pytest.mark.slow
def test_the_naive_strategy_oversells_before_everybodys_eyes(served):
    """The control: the very crowd that Holdfast sells one seat to, once."""
    found = result(served, strategy="naive", buyers=1_000, seats=1)
    assert found["oversold"] >= 15
    assert found["sold"] == found["oversold"] + 1
    assert found["sold"] + found["rejected"] == 1_000
    assert found["batches"] is None
    assert found["reached_authority"] >= 1_000


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["pessimistic", "optimistic", "atomic"])
def test_the_others_that_are_right_sell_what_there_is(served, strategy):
    assert counted(result(served, strategy=strategy)) == (3, 197, 0, 0)


@pytest.mark.slow
def test_one_run_at_a_time_and_all_are_listed(served):
    run = begin(served, strategy="pessimistic", buyers=3_000, seats=1)
    busy = served.call("POST", "/v1/lab/runs", {"buyers": 1, "seats": 1})
    assert (busy.status_code, busy.json()["reason"]) == (409, "busy")
    ended(served, run["id"])
    listed = served.call("GET", "/v1/lab/runs").json()
    assert listed["runs"][0]["id"] == run["id"]
    assert listed["runs"][0]["result"]["sold"] == 1
    by_id = {each["id"]: each for each in listed["strategies"]}
    assert by_id["holdfast"]["available"]
    assert "row locks" in by_id["skip-locked"]["why_not"]
    assert [each["id"] for each in listed["over"]] == ["engine", "http"]


def test_the_same_key_gets_the_same_run(served):
    body, key = {"buyers": 5, "seats": 1}, {"Idempotency-Key": "a-run-of-mine"}
    first = served.call("POST", "/v1/lab/runs", body, headers=key)
    assert first.status_code == 202
    ended(served, first.json()["id"])
    again = served.call("POST", "/v1/lab/runs", body, headers=key)
    assert (again.status_code, again.headers["Idempotency-Replayed"]) == (202, "true")
    assert again.json() == first.json()
    other = served.call("POST", "/v1/lab/runs", {"buyers": 6, "seats": 1}, headers=key)
    assert (other.status_code, other.json()["reason"]) == (422, "idempotency_mismatch")


def test_what_is_wrong_is_told_at_once_and_what_cannot_be_too(served):
    body = {"buyers": 0, "seats": 1_001, "strategy": "hope", "gate": 1, "over": "post", "more": 1}
    wrong = served.call("POST", "/v1/lab/runs", body)
    assert wrong.status_code == 422
    faults = {fault["path"] for fault in wrong.json()["faults"]}
    assert faults == {"buyers", "seats", "strategy", "gate", "over", "more"}
    impossible: list[tuple[dict[str, Any], str]] = [
        ({"strategy": "skip-locked"}, "lab_unavailable"),
        ({"strategy": "redis-lua"}, "lab_unavailable"),
        ({"strategy": "naive", "over": "http"}, "lab_unavailable"),
        ({"policy": "two-layer"}, "no_gate"),
        ({"gate": True}, "no_gate"),
    ]
    for asked, reason in impossible:
        answer = served.call("POST", "/v1/lab/runs", {"buyers": 1, "seats": 1, **asked})
        assert (answer.status_code, answer.json()["reason"]) == (409, reason), asked
    unknown = served.call("GET", "/v1/lab/runs/01KA5X3V6C8D7E2F4A0B1C9D5E")
    assert (unknown.status_code, unknown.json()["reason"]) == (404, "unknown_run")


@pytest.mark.slow
def test_the_lab_is_for_admins_unless_it_is_open_and_may_be_off(served, public, seller, tmp_path):
    for key in (public, seller):
        answer = served.call("GET", "/v1/lab/runs", key=key)
        assert (answer.status_code, answer.json()["reason"]) == (403, "forbidden")
    with serving("memory://", cwd=tmp_path, lab="open") as opened:
        # In memory nobody else gets at the store: the crowd is in the worker itself.
        assert counted(result(opened, buyers=3_000, seats=2)) == (2, 2_998, 0, 0)
        assert result(opened, strategy="naive", buyers=100, seats=1)["oversold"] > 0
    with serving(f"sqlite:///{tmp_path / 'off.db'}", cwd=tmp_path, lab="off") as closed:
        for method, path in [("GET", ""), ("POST", ""), ("GET", "/01KA5X3V6C8D7E2F4A0B1C9D5E")]:
            body = {"buyers": 1, "seats": 1} if method == "POST" else None
            answer = closed.call(method, f"/v1/lab/runs{path}", body)
            assert (answer.status_code, answer.json()["reason"]) == (404, "lab_off")


@pytest.mark.slow
def test_a_run_ends_with_the_service_and_the_next_may_begin(tmp_path):
    store = f"sqlite:///{tmp_path / 'shop.db'}"
    with serving(store, cwd=tmp_path) as served:
        run = begin(served, strategy="pessimistic", buyers=20_000, seats=1)
        while not served.call("GET", f"/v1/lab/runs/{run['id']}").json()["progress"]["answered"]:
            time.sleep(LOOK_SECONDS)
        served.process.send_signal(signal.SIGTERM)
        served.process.wait(20)
    with serving(store, cwd=tmp_path, workers=2, lab="open") as served:
        stopped = served.call("GET", f"/v1/lab/runs/{run['id']}").json()
        assert stopped["state"] == "failed"
        assert "stopped" in stopped["error"]
        # Two workers answer for one lab, and a public key will do.
        public = served.key("public")
        body = {"buyers": 300, "seats": 1, "over": "http"}
        begun = served.call("POST", "/v1/lab/runs", body, key=public)
        assert begun.status_code == 202, begun.text
        again = ended(served, begun.json()["id"])
        assert again["state"] == "done", again
        assert counted(again["result"]) == (1, 299, 0, 0)
        assert again["result"]["reached_authority"] > 0


@pytest.mark.slow
@pytest.mark.service
async def test_on_servers_every_strategy_is_there_and_nothing_of_it_stays(tmp_path: Path):
    with ExitStack() as stack:
        store = stack.enter_context(needed_server(Postgres)).url
        gate = stack.enter_context(needed_server(Redis)).url
        settings = {"gate": gate, "policy": "two-layer", "gate_timeout_ms": 2_000}
        served = stack.enter_context(serving(store, cwd=tmp_path, **settings))
        found = result(served, buyers=1_000, seats=2)
        assert counted(found) == (2, 998, 0, 0)
        assert (found["gate"], found["policy"]) == ("redis", "two-layer")
        without = result(served, buyers=1_000, seats=2, gate=False)
        assert counted(without) == (2, 998, 0, 0)
        assert (without["gate"], without["policy"]) == ("none", "authority")
        assert counted(result(served, policy="gate", stock=True)) == (3, 197, 0, 0)
        assert result(served, strategy="naive", seats=1)["oversold"] >= 10
        for strategy in ("skip-locked", "redis-nx", "two-layer", "redis-lua"):
            assert counted(result(served, strategy=strategy)) == (3, 197, 0, 0), strategy
        line = await PostgresLine.open(store)
        assert await line.rows(EXISTING["postgresql"]) == []
        await line.close()
