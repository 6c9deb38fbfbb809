"""Webhooks over HTTP: made, seen, rotated, enabled, delivered again and removed by admins."""

import asyncio
import re
import threading
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from tests.api.conftest import make_event
from tests.api.serving import Served, serving
from tests.webhooks.receiving import Receiver, verify

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("tests.webhooks.test_api")]

PUBLIC_URL = "https://shop.invalid/hook"
_keys = count(1)


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("webhooks")
    store = f"sqlite:///{folder / 'shop.db'}"
    settings: dict[str, Any] = {"sqlite_synchronous": "NORMAL", "webhook_internal": "true"}
    with serving(store, cwd=folder, **settings) as it:
        yield it


@pytest.fixture(scope="module")
def guarded(tmp_path_factory) -> Iterator[Served]:
    """As it is by default."""
    folder = tmp_path_factory.mktemp("guarded")
    with serving("memory://", cwd=folder) as it:
        yield it


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """In a loop of its own: these tests block theirs."""
    made = Receiver()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(made.start(), loop).result(10)
    yield made
    asyncio.run_coroutine_threadsafe(made.stop(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture
def webhook(served) -> Iterator[dict[str, Any]]:
    made = make(served)
    yield made
    served.call("DELETE", f"/v1/webhooks/{made['id']}")


def make(served: Served, url: str = PUBLIC_URL, **more: Any) -> dict[str, Any]:
    answer = served.call("POST", "/v1/webhooks", {"url": url, "events": ["*"], **more})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def reason(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["reason"]


def key() -> dict[str, str]:
    return {"Idempotency-Key": f"key-{next(_keys)}"}


def test_a_subscription_is_made_and_its_secret_is_shown_once(served, webhook):
    assert re.fullmatch(r"wh_[0-9A-Za-z]{20,40}", webhook["id"])
    assert re.fullmatch(r"whsec_[A-Za-z0-9+/]{32,}={0,2}", webhook["secret"])
    assert webhook["state"] == "active"
    one = served.call("GET", f"/v1/webhooks/{webhook['id']}")
    every = served.call("GET", "/v1/webhooks")
    expected = {name: value for name, value in webhook.items() if name != "secret"}
    assert one.json() == expected
    assert expected in every.json()["webhooks"]
    for answer in (one, every):
        assert "whsec" not in answer.text


def test_facts_arrive_while_the_service_runs(served, receiver):
    event = make_event(served)
    made = make(served, receiver.url, events=["hold.placed"], subjects=[event])
    path = f"/v1/events/{event}/holds"
    hold = served.call("POST", path, {"buyer": "ann", "pools": {"floor": 1}}).json()
    asyncio.run(receiver.until(lambda: receiver.got))
    got = receiver.got[0]
    fact = verify(made["secret"], got.headers, got.body)
    assert (fact["type"], fact["data"]["hold"]) == ("hold.placed", hold["id"])
    page = served.call("GET", f"/v1/events/{event}/log?after={fact['sequence'] - 1}").json()
    assert page["facts"][0] == fact
    served.call("DELETE", f"/v1/webhooks/{made['id']}")


def test_the_same_key_makes_one_and_gets_the_first_answer_again(served):
    headers, body = key(), {"url": PUBLIC_URL, "events": ["order.*"]}
    first = served.call("POST", "/v1/webhooks", body, headers=headers)
    served.call("POST", f"/v1/webhooks/{first.json()['id']}/rotate", {"keep_seconds": 0})
    again = served.call("POST", "/v1/webhooks", body, headers=headers)
    assert again.status_code == 201
    assert again.content == first.content
    assert "Idempotency-Replayed" not in first.headers
    assert again.headers["Idempotency-Replayed"] == "true"
    other = served.call("POST", "/v1/webhooks", {**body, "events": ["*"]}, headers=headers)
    assert reason(other) == (422, "idempotency_mismatch")
    assert served.call("DELETE", f"/v1/webhooks/{first.json()['id']}").status_code == 204


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ({}, ["url", "events"]),
        ({"url": 1, "events": "order.*"}, ["url", "events"]),
        ({"url": PUBLIC_URL, "events": []}, ["events"]),
        ({"url": PUBLIC_URL, "events": ["order.sold"]}, ["events[0]"]),
        ({"url": "ftp://shop.example", "events": ["nothing"]}, ["url", "events[0]"]),
        ({"url": "http://user:pw@shop.example/", "events": ["*"]}, ["url"]),
        ({"url": PUBLIC_URL, "events": ["*"], "subjects": ["a.b"]}, ["subjects[0]"]),
        ({"url": PUBLIC_URL, "events": ["*"], "secret": "mine"}, ["secret"]),
    ],
)
def test_what_is_wrong_is_told_with_its_path(served, body, paths):
    answer = served.call("POST", "/v1/webhooks", body)
    assert reason(answer) == (422, "invalid")
    assert [fault["path"] for fault in answer.json()["faults"]] == paths


@pytest.mark.parametrize(
    "url",
    [
        *("http://127.0.0.1:8000/", "http://localhost/", "http://[::1]/", "http://10.0.0.1/"),
        *("http://169.254.169.254/latest/", "http://[::ffff:127.0.0.1]/", "http://2130706433/"),
        *("http://0x7f.0.0.1/", "http://metadata.google.internal/", "http://[fe80::1]/"),
    ],
)
def test_what_is_plainly_internal_is_refused_by_default(guarded, url):
    answer = guarded.call("POST", "/v1/webhooks", {"url": url, "events": ["*"]})
    assert reason(answer) == (422, "invalid")
    assert [fault["path"] for fault in answer.json()["faults"]] == ["url"]


def test_who_wants_an_internal_address_is_told_what_to_set(guarded):
    body = {"url": "http://127.0.0.1:9000/", "events": ["*"]}
    assert (
        "unless HOLDFAST_WEBHOOK_INTERNAL=true" in guarded.call("POST", "/v1/webhooks", body).text
    )


def test_a_name_that_leads_inside_is_refused_when_it_is_called(guarded):
    """localhost by another name: what it stands for is only known when it is looked up."""
    event = make_event(guarded)
    made = make(guarded, "http://localhost.localdomain:1/", events=["*"])
    path = f"/v1/webhooks/{made['id']}/redeliver"
    answer = guarded.call("POST", path, {"event": event, "sequence": 1})
    assert answer.json()["delivered"] is False
    assert answer.json()["status"] is None
    assert answer.json()["reason"].startswith("not ")


def test_removing_is_done_once_and_may_be_repeated(served):
    by_path, by_query = make(served)["id"], make(served)["id"]
    for _ in range(2):
        assert served.call("DELETE", f"/v1/webhooks/{by_path}").status_code == 204
        assert served.call("DELETE", f"/v1/webhooks?id={by_query}").status_code == 204
    listed = [each["id"] for each in served.call("GET", "/v1/webhooks").json()["webhooks"]]
    assert {by_path, by_query} & set(listed) == set()
    assert reason(served.call("DELETE", "/v1/webhooks?id=wh_nowhere")) == (404, "unknown_webhook")
    assert reason(served.call("DELETE", "/v1/webhooks")) == (422, "invalid")
    assert reason(served.call("DELETE", "/v1/webhooks?id=%ff&id=x")) == (422, "invalid")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "", None),
        ("DELETE", "", None),
        ("POST", "/rotate", None),
        ("POST", "/enable", None),
    ],
)
def test_one_that_was_never_there_is_not_found(served, method, path, body):
    answer = served.call(method, f"/v1/webhooks/wh_nowhere{path}", body)
    assert reason(answer) == (404, "unknown_webhook")


def test_a_rotation_shows_the_new_secret_and_is_done_once_for_a_key(served, webhook):
    path, headers = f"/v1/webhooks/{webhook['id']}/rotate", key()
    first = served.call("POST", path, {"keep_seconds": 60}, headers=headers)
    again = served.call("POST", path, {"keep_seconds": 60}, headers=headers)
    assert first.status_code == again.status_code == 200
    assert first.content == again.content
    assert again.headers["Idempotency-Replayed"] == "true"
    assert first.json()["secret"] != webhook["secret"]
    third = served.call("POST", path)
    assert third.json()["secret"] not in (first.json()["secret"], webhook["secret"])
    other = served.call("POST", path, {"keep_seconds": 61}, headers=headers)
    assert reason(other) == (422, "idempotency_mismatch")
    assert reason(served.call("POST", path, {"keep_seconds": -1})) == (422, "invalid")


def test_a_rotation_of_one_that_is_not_there_leaves_its_key_free(served, webhook):
    headers = key()
    wrong = served.call("POST", "/v1/webhooks/wh_nowhere/rotate", headers=headers)
    assert reason(wrong) == (404, "unknown_webhook")
    right = served.call("POST", f"/v1/webhooks/{webhook['id']}/rotate", headers=headers)
    assert right.status_code == 200


def test_a_rotation_for_which_there_is_no_room_is_refused_and_leaves_its_key_free(served, webhook):
    path, headers = f"/v1/webhooks/{webhook['id']}/rotate", key()
    for _ in range(9):
        assert served.call("POST", path).status_code == 200
    full = served.call("POST", path, headers=headers)
    assert reason(full) == (429, "rate_limited")
    assert "10 secrets sign already" in full.json()["detail"]
    assert 86_000 < int(full.headers["Retry-After"]) <= 86_401
    at_once = served.call("POST", path, {"keep_seconds": 0}, headers=headers)
    assert at_once.status_code == 200


def test_one_that_says_gone_is_shown_as_disabled_and_goes_on_when_enabled(served, receiver):
    receiver.answer = lambda got: 410
    event = make_event(served)
    made = make(served, receiver.url, subjects=[event])
    served.call("PATCH", f"/v1/events/{event}", {"name": "Gala"})
    path = f"/v1/webhooks/{made['id']}"

    def disabled() -> bool:
        return bool(served.call("GET", path).json()["state"] == "disabled")

    asyncio.run(receiver.until(disabled))
    assert "410 Gone" in served.call("GET", path).json()["reason"]
    receiver.answer = lambda got: 204
    enabled = served.call("POST", f"{path}/enable").json()
    assert (enabled["state"], enabled["reason"]) == ("active", None)
    asyncio.run(receiver.until(lambda: receiver.facts() == [2, 2]))
    served.call("DELETE", path)


def test_what_failed_last_is_shown(served, receiver):
    receiver.answer = lambda got: 500
    event = make_event(served)
    made = make(served, receiver.url, subjects=[event])
    assert made["last_failure"] is None
    served.call("PATCH", f"/v1/events/{event}", {"name": "Gala"})
    path = f"/v1/webhooks/{made['id']}"
    asyncio.run(receiver.until(lambda: served.call("GET", path).json()["last_failure"]))
    shown = served.call("GET", path).json()
    failure = shown["last_failure"]
    assert (failure["fact"], failure["reason"]) == (f"{event}.2", "answered 500")
    assert shown["failing_since"] <= failure["at"] < failure["next_try_at"]
    assert failure["attempts"] >= 1
    every = served.call("GET", "/v1/webhooks").json()["webhooks"]
    assert [each["last_failure"]["fact"] for each in every if each["id"] == made["id"]] == [
        failure["fact"]
    ]
    served.call("DELETE", path)


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ({}, ["event", "sequence"]),
        ({"event": "a.b", "sequence": "1"}, ["event", "sequence"]),
        ({"event": "gala", "sequence": 0}, ["sequence"]),
        ({"event": "gala", "sequence": 1, "now": True}, ["now"]),
    ],
)
def test_what_is_wrong_with_a_redelivery_is_told_with_its_path(served, webhook, body, paths):
    answer = served.call("POST", f"/v1/webhooks/{webhook['id']}/redeliver", body)
    assert reason(answer) == (422, "invalid")
    assert [fault["path"] for fault in answer.json()["faults"]] == paths


def test_a_fact_is_delivered_again_by_hand(served, receiver):
    event = make_event(served)
    made = make(served, receiver.url, events=["order.refunded"])
    path = f"/v1/webhooks/{made['id']}/redeliver"
    answer = served.call("POST", path, {"event": event, "sequence": 1})
    assert (answer.status_code, answer.json()) == (200, {"delivered": True, "status": 204})
    assert receiver.facts(event) == [1]
    assert verify(made["secret"], receiver.got[0].headers, receiver.got[0].body)
    receiver.answer = lambda got: 500
    failed = served.call("POST", path, {"event": event, "sequence": 1}).json()
    assert failed == {"delivered": False, "status": 500, "reason": "answered 500"}
    for asked, word in (
        ({"event": event, "sequence": 999}, "unknown_fact"),
        ({"event": "nowhere", "sequence": 1}, "unknown_event"),
    ):
        assert reason(served.call("POST", path, asked)) == (404, word)
    assert reason(served.call("POST", path, {"event": event, "sequence": 0})) == (422, "invalid")
    served.call("DELETE", f"/v1/webhooks/{made['id']}")
