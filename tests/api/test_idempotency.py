"""The same Idempotency-Key: what was made is made once, and is answered as the first time."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import pytest
import requests

from tests.api.conftest import make_event
from tests.api.serving import ADMIN, Served, serving

pytestmark = pytest.mark.slow

_numbers = count(1)


def new_key() -> str:
    return f"key-{next(_numbers)}"


def post(
    served: Served, path: str, body: Any, under: str | None, **options: Any
) -> requests.Response:
    """Under an Idempotency-Key, or none."""
    headers = dict(options.pop("headers", {}))
    if under is not None:
        headers["Idempotency-Key"] = under
    return served.call("POST", path, body, headers=headers, **options)


def floor(served: Served, event: str, buyer: str = "u-1", units: int = 1) -> dict[str, Any]:
    answer = post(
        served, f"/v1/events/{event}/holds", {"buyer": buyer, "pools": {"floor": units}}, None
    )
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def paid(hold: str, method: str = "sandbox:ok") -> dict[str, Any]:
    return {"hold": hold, "payment": {"method": method}}


def new_event(**changes: Any) -> dict[str, Any]:
    return {
        "id": f"idem-{next(_numbers)}",
        "prices": {"floor": 4500},
        "pools": [{"id": "floor", "capacity": 5}],
        **changes,
    }


def requests_that_make(served: Served, event: str) -> dict[str, tuple[str, Any]]:
    """One of every POST that makes something: path and body."""
    return {
        "hold": (f"/v1/events/{event}/holds", {"buyer": "u-1", "seats": ["A-1-1", "A-1-2"]}),
        "best": (f"/v1/events/{event}/holds", {"buyer": "u-2", "best": [{"quantity": 2}]}),
        "extension": (f"/v1/holds/{floor(served, event)['id']}/extend", {"seconds": 60}),
        "order": ("/v1/orders", paid(floor(served, event)["id"])),
        "event": ("/v1/events", new_event()),
    }


MAKERS = ["hold", "best", "extension", "order", "event"]


def assert_replayed(again: requests.Response, first: requests.Response) -> None:
    assert first.status_code in (200, 201, 402), first.text
    assert "Idempotency-Replayed" not in first.headers
    assert again.headers["Idempotency-Replayed"] == "true"
    assert (again.status_code, again.content) == (first.status_code, first.content)


@pytest.mark.parametrize("name", MAKERS)
def test_the_same_again_is_the_first_answer_again(served, event, name):
    path, body = requests_that_make(served, event)[name]
    key = new_key()
    first = post(served, path, body, key)
    for _ in range(2):
        assert_replayed(post(served, path, body, key), first)


def test_without_a_key_each_is_another(served, event):
    """The control: it is the key that makes the difference."""
    made = {floor(served, event)["id"] for _ in range(3)}
    assert len(made) == 3


def test_the_same_body_written_differently_is_the_same(served, event):
    path, key = f"/v1/events/{event}/holds", new_key()
    first = post(served, path, {"buyer": "u-1", "pools": {"floor": 1}}, key)
    other = b' {"pools" : {"floor":1},\n "buyer":"u\\u002d1"} '
    again = served.call("POST", path, data=other, headers={"Idempotency-Key": key})
    assert_replayed(again, first)


def test_a_replay_shows_the_hold_as_it_was(served):
    """Whatever became of it: it is the first answer, not the latest state."""
    event = make_event(served)
    path, body = f"/v1/events/{event}/holds", {"buyer": "u-1", "pools": {"floor": 1}}
    key, extend, order = new_key(), new_key(), new_key()
    first = post(served, path, body, key)
    id = first.json()["id"]
    longer = post(served, f"/v1/holds/{id}/extend", {}, extend)
    sold = post(served, "/v1/orders", paid(id), order)
    began = time.monotonic()
    while served.call("GET", f"/v1/holds/{id}").json()["state"] != "confirmed":
        assert time.monotonic() < began + 5
    served.call("POST", f"/v1/orders/{sold.json()['id']}/cancel")
    assert_replayed(post(served, path, body, key), first)
    assert_replayed(post(served, f"/v1/holds/{id}/extend", {}, extend), longer)
    assert_replayed(post(served, "/v1/orders", paid(id), order), sold)


def test_a_replay_after_a_while_and_a_restart_is_the_same_to_the_byte(tmp_path):
    store = f"sqlite:///{tmp_path / 'shop.db'}"
    settings = {"cwd": tmp_path, "sqlite_synchronous": "NORMAL"}
    firsts = {}
    with serving(store, **settings) as served:
        event = make_event(served)
        asked = requests_that_make(served, event)
        for name, (path, body) in asked.items():
            firsts[name] = post(served, path, body, f"restart {name}")
        left = firsts["hold"].json()["seconds_left"]
        # Until the clock shows less: a fresh answer would differ now.
        path = f"/v1/holds/{firsts['hold'].json()['id']}"
        began = time.monotonic()
        while served.call("GET", path).json()["seconds_left"] == left:
            assert time.monotonic() < began + 5
            time.sleep(0.05)
        for name, (path, body) in asked.items():
            assert_replayed(post(served, path, body, f"restart {name}"), firsts[name])
    with serving(store, **settings) as served:
        for name, (path, body) in asked.items():
            assert_replayed(post(served, path, body, f"restart {name}"), firsts[name])


def assert_mismatch(answer: requests.Response) -> None:
    assert (answer.status_code, answer.json()["reason"]) == (422, "idempotency_mismatch")
    assert answer.json()["detail"] == "this Idempotency-Key was used for something else"


def test_another_body_under_the_same_key_is_refused(served, event):
    path, key = f"/v1/events/{event}/holds", new_key()
    body = {"buyer": "u-1", "pools": {"floor": 1}}
    post(served, path, body, key)
    for other in (
        {"buyer": "u-2", "pools": {"floor": 1}},
        {"buyer": "u-1", "pools": {"floor": 2}},
        {"buyer": "u-1", "seats": ["A-1-1"]},
        {**body, "id": "mine"},
        {**body, "channels": ["presale"]},
    ):
        assert_mismatch(post(served, path, other, key))
    hold = floor(served, event)["id"]
    key = new_key()
    post(served, f"/v1/holds/{hold}/extend", {"seconds": 60}, key)
    assert_mismatch(post(served, f"/v1/holds/{hold}/extend", {"seconds": 61}, key))
    assert_mismatch(post(served, f"/v1/holds/{hold}/extend", {}, key))
    assert_mismatch(post(served, f"/v1/holds/{floor(served, event)['id']}/extend", {}, key))


def test_another_order_under_the_same_key_is_refused_and_sells_nothing(served, event):
    one, two = floor(served, event)["id"], floor(served, event)["id"]
    key = new_key()
    post(served, "/v1/orders", paid(one), key)
    assert_mismatch(post(served, "/v1/orders", paid(two), key))
    assert_mismatch(post(served, "/v1/orders", paid(one, "sandbox:slow:0"), key))
    assert served.call("GET", f"/v1/events/{event}").json()["sold"] == 1
    # Nor is a key of another kind of call good for it.
    key = new_key()
    post(served, f"/v1/events/{event}/holds", {"buyer": "u", "pools": {"floor": 1}}, key)
    assert_mismatch(post(served, "/v1/orders", paid(two), key))


def test_an_order_in_another_event_under_the_same_key_is_refused_and_sells_nothing(served, event):
    elsewhere = new_event()
    post(served, "/v1/events", elsewhere, None)
    mine, other = floor(served, event)["id"], floor(served, elsewhere["id"])["id"]
    key = new_key()
    assert post(served, "/v1/orders", paid(mine), key).status_code == 201
    assert_mismatch(post(served, "/v1/orders", paid(other), key))
    assert served.call("GET", f"/v1/events/{elsewhere['id']}").json()["sold"] == 0
    # What was refused for another reason has used no key.
    gone = floor(served, event)["id"]
    served.call("DELETE", f"/v1/holds/{gone}")
    key = new_key()
    assert post(served, "/v1/orders", paid(gone), key).status_code == 409
    assert post(served, "/v1/orders", paid(other), key).status_code == 201


def test_another_event_under_the_same_key_is_refused_and_not_made(served):
    key, body = new_key(), new_event()
    first = post(served, "/v1/events", body, key)
    assert_mismatch(post(served, "/v1/events", {**body, "prices": {"floor": 1}}, key))
    other = new_event()
    assert_mismatch(post(served, "/v1/events", other, key))
    assert served.call("GET", f"/v1/events/{other['id']}").status_code == 404
    assert_replayed(post(served, "/v1/events", body, key), first)


def test_an_event_that_was_refused_leaves_its_key_free(served):
    there = new_event()
    post(served, "/v1/events", there, None)
    key = new_key()
    for _ in range(2):
        no = post(served, "/v1/events", there, key)
        assert (no.status_code, no.json()["reason"]) == (409, "exists")
    assert post(served, "/v1/events", new_event(), key).status_code == 201


def test_keys_of_different_api_keys_do_not_meet(served, seller, event):
    other = served.key("seller")
    path, body, key = f"/v1/events/{event}/holds", {"buyer": "u", "pools": {"floor": 1}}, new_key()
    answers = [post(served, path, body, key, key=each) for each in (ADMIN, seller, other)]
    assert [answer.status_code for answer in answers] == [201, 201, 201]
    assert len({answer.json()["id"] for answer in answers}) == 3


def test_keys_of_different_buyers_do_not_meet(served, seller, public, event):
    path, body, key = f"/v1/events/{event}/holds", {"pools": {"floor": 1}}, new_key()
    made = {}
    for buyer in ("ann", "bob"):
        token = served.call("POST", "/v1/buyers", {"buyer": buyer}, key=seller).json()["token"]
        headers = {"Buyer-Token": token}
        made[buyer] = post(served, path, body, key, key=public, headers=headers)
        assert made[buyer].json()["buyer"] == buyer
        # With another public key he is still the same buyer.
        again = post(served, path, body, key, key=served.key("public"), headers=headers)
        assert_replayed(again, made[buyer])
    assert made["ann"].json()["id"] != made["bob"].json()["id"]


def test_keys_of_callers_who_only_have_a_hold_token_do_not_meet(served, public, event):
    """Without a Buyer-Token a caller is whoever holds that hold, not one of all the nameless."""
    key = new_key()
    for _ in range(2):
        hold = floor(served, event)
        headers = {"Hold-Token": hold["token"]}
        extended = post(
            served, f"/v1/holds/{hold['id']}/extend", {}, key, key=public, headers=headers
        )
        assert extended.status_code == 200
        order = f"{key}-order"
        sold = post(served, "/v1/orders", paid(hold["id"]), order, key=public, headers=headers)
        assert sold.status_code == 201
        again = post(served, "/v1/orders", paid(hold["id"]), order, key=public, headers=headers)
        assert_replayed(again, sold)


def test_a_refusal_is_decided_anew(served, event):
    path, key = f"/v1/events/{event}/holds", new_key()
    rival = post(served, path, {"buyer": "u-1", "seats": ["A-1-1"]}, None).json()["id"]
    body = {"buyer": "u-2", "seats": ["A-1-1"]}
    for _ in range(2):
        no = post(served, path, body, key)
        assert (no.status_code, no.json()["reason"]) == (409, "taken")
        assert "Idempotency-Replayed" not in no.headers
    served.call("DELETE", f"/v1/holds/{rival}")
    yes = post(served, path, body, key)
    assert yes.status_code == 201
    assert_replayed(post(served, path, body, key), yes)


def test_a_declined_order_is_what_its_key_stands_for(served, event):
    hold, key = floor(served, event)["id"], new_key()
    first = post(served, "/v1/orders", paid(hold, "sandbox:declined"), key)
    assert (first.status_code, first.json()["reason"]) == (402, "declined")
    assert_replayed(post(served, "/v1/orders", paid(hold, "sandbox:declined"), key), first)
    other = post(served, "/v1/orders", paid(hold), key)
    assert (other.status_code, other.json()["reason"]) == (422, "idempotency_mismatch")
    assert post(served, "/v1/orders", paid(hold), new_key()).status_code == 201


def test_an_order_needs_a_key(served, event):
    hold = floor(served, event)["id"]
    answer = post(served, "/v1/orders", paid(hold), None)
    assert (answer.status_code, answer.json()["reason"]) == (400, "idempotency_key_required")
    assert served.call("GET", f"/v1/holds/{hold}").json()["state"] == "held"


def test_a_new_buyer_is_made_once_for_each_key(served, seller):
    key = new_key()
    first = post(served, "/v1/buyers", None, key, key=seller)
    assert first.status_code == 201
    assert "Idempotency-Replayed" not in first.headers
    for body in (None, {}, {"buyer": None}):
        again = post(served, "/v1/buyers", body, key, key=seller)
        assert (again.status_code, again.json()) == (201, first.json())
        assert again.headers["Idempotency-Replayed"] == "true"
    others = [
        post(served, "/v1/buyers", None, new_key(), key=seller),
        post(served, "/v1/buyers", None, key),
        post(served, "/v1/buyers", None, None, key=seller),
        post(served, "/v1/buyers", None, None, key=seller),
    ]
    assert len({answer.json()["buyer"] for answer in (first, *others)}) == 5
    another = post(served, "/v1/buyers", {"buyer": "ann"}, key, key=seller)
    assert (another.status_code, another.json()["reason"]) == (422, "idempotency_mismatch")


def test_a_named_buyer_under_a_key_is_that_buyer(served, seller):
    key, ann = new_key(), {"buyer": "ann"}
    first, again = (post(served, "/v1/buyers", ann, key, key=seller) for _ in range(2))
    assert first.json() == again.json()
    assert [each.headers.get("Idempotency-Replayed") for each in (first, again)] == [None, "true"]
    another = post(served, "/v1/buyers", {"buyer": "bob"}, key, key=seller)
    assert (another.status_code, another.json()["reason"]) == (422, "idempotency_mismatch")
    assert post(served, "/v1/orders", paid("e.h"), key, key=seller).status_code == 422


def test_a_nameless_callers_key_gives_nobody_another_ones_buyer(served, public):
    key = new_key()
    one, two = (post(served, "/v1/buyers", None, key, key=public) for _ in range(2))
    assert one.json()["buyer"] != two.json()["buyer"]
    made = [
        post(served, "/v1/buyers", None, key, key=public, headers={"Buyer-Token": token})
        for token in (one.json()["token"], one.json()["token"], two.json()["token"])
    ]
    assert made[0].json() == made[1].json()
    assert made[0].json() != made[2].json()


@pytest.mark.parametrize("key", ["", "x" * 256, "schlüssel"])
def test_a_key_that_cannot_be_one_is_refused(served, event, key):
    headers = {"Idempotency-Key": key.encode().decode("latin-1")}
    for path, body in (
        (f"/v1/events/{event}/holds", {"buyer": "u-1", "pools": {"floor": 1}}),
        ("/v1/orders", paid(floor(served, event)["id"])),
        ("/v1/events", new_event()),
        ("/v1/buyers", {}),
    ):
        answer = served.call("POST", path, body, headers=headers)
        assert (answer.status_code, answer.json()["reason"]) == (422, "invalid")
        assert answer.json()["faults"][0]["path"] == "Idempotency-Key"


PAIRS = 50


def test_two_copies_at_once_make_one_hold(tmp_path):
    """To two processes, which share nothing but the store. Without a key the same stampede makes
    two of each: so both copies really arrive."""
    store = f"sqlite:///{tmp_path / 'shop.db'}"
    options = {"cwd": tmp_path, "sqlite_synchronous": "NORMAL"}
    with serving(store, "--workers", "2", **options) as served:
        pools = [{"id": "floor", "capacity": 100_000}]
        event, control = make_event(served, pools=pools), make_event(served, pools=pools)
        answers = at_once(served, event, keyed=True)
        for one, two in answers:
            assert (one.status_code, two.status_code) == (201, 201), (one.text, two.text)
            assert one.content == two.content
            replayed = [answer.headers.get("Idempotency-Replayed") for answer in (one, two)]
            assert sorted(map(str, replayed)) == ["None", "true"]
        assert served.call("GET", f"/v1/events/{event}").json()["held"] == PAIRS
        at_once(served, control, keyed=False)
        assert served.call("GET", f"/v1/events/{control}").json()["held"] == 2 * PAIRS


def at_once(
    served: Served, event: str, *, keyed: bool
) -> list[tuple[requests.Response, requests.Response]]:
    url = f"{served.url}/v1/events/{event}/holds"
    start = threading.Barrier(2)

    def copies() -> list[requests.Response]:
        answers = []
        for nth in range(PAIRS):
            headers = {"Authorization": f"Bearer {ADMIN}"}
            if keyed:
                headers["Idempotency-Key"] = f"pair {nth}"
            body: dict[str, Any] = {"buyer": f"u-{nth}", "pools": {"floor": 1}}
            start.wait(10)
            # A connection of its own, so that either process may get it.
            answers.append(requests.post(url, json=body, headers=headers, timeout=10))
        return answers

    with ThreadPoolExecutor(2) as threads:
        one, two = [threads.submit(copies) for _ in range(2)]
        return list(zip(one.result(), two.result(), strict=True))
