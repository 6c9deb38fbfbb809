"""Orders over HTTP: buy what a hold holds, see it, take it back."""

import threading
import time
from itertools import count
from typing import Any

import pytest
import requests

from tests.api.conftest import make_event
from tests.api.serving import Served, serving

_numbers = count(1)


def place(served: Served, event: str, buyer: str = "u-1", **ask: Any) -> dict[str, Any]:
    body = {"buyer": buyer, **(ask or {"pools": {"floor": 1}})}
    answer = served.call("POST", f"/v1/events/{event}/holds", body)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def buy(served: Served, hold: str, method: str | None = "sandbox:ok", **options: Any) -> Any:
    """Under a key of its own."""
    body: dict[str, Any] = {"hold": hold}
    if method is not None:
        body["payment"] = {"method": method}
    headers = {"Idempotency-Key": f"order-{next(_numbers)}", **options.pop("headers", {})}
    return served.call("POST", "/v1/orders", body, headers=headers, **options)


def refusal(answer: requests.Response) -> tuple[int, str]:
    assert answer.headers["Content-Type"] == "application/problem+json"
    return answer.status_code, answer.json()["reason"]


def state(served: Served, hold: dict[str, Any]) -> str:
    return str(served.call("GET", f"/v1/holds/{hold['id']}").json()["state"])


def test_an_order_has_the_shape_of_the_contract(served, event):
    hold = place(served, event, seats=["A-1-1", "A-1-2"], pools={"floor": 2})
    answer = buy(served, hold["id"])
    assert answer.status_code == 201
    order = answer.json()
    expected = {
        "state": "confirmed",
        "event": event,
        "hold": hold["id"],
        "buyer": "u-1",
        "seats": ["A-1-1", "A-1-2"],
        "pools": {"floor": 2},
        "amount": 27_000,
        "currency": "EUR",
    }
    assert order.items() >= expected.items()
    assert order["id"].startswith(f"{event}.")
    assert order["created_at"].endswith("Z")
    assert order["payment"]["provider"] == "sandbox"
    assert order["payment"]["state"] == "captured"
    assert order["payment"]["id"]
    assert served.call("GET", f"/v1/orders/{order['id']}").json() == order
    sold = served.call("GET", f"/v1/holds/{hold['id']}").json()
    assert (sold["state"], sold["order"], sold["seconds_left"]) == ("confirmed", order["id"], 0)


def test_a_declined_payment_leaves_the_hold(served, event):
    hold = place(served, event, seats=["A-1-1"])
    assert refusal(buy(served, hold["id"], "sandbox:declined")) == (402, "declined")
    assert state(served, hold) == "paying"
    assert buy(served, hold["id"]).status_code == 201


def test_a_provider_that_is_down_leaves_the_hold(served, event):
    hold = place(served, event)
    answer = buy(served, hold["id"], "sandbox:error")
    assert refusal(answer) == (503, "payment_unavailable")
    assert int(answer.headers["Retry-After"]) > 0
    assert state(served, hold) == "paying"


def test_a_slow_payment_is_waited_for(served, event):
    began = time.monotonic()
    assert buy(served, place(served, event)["id"], "sandbox:slow:1").status_code == 201
    assert time.monotonic() >= began + 1


def test_a_hold_that_ran_out_is_not_sold(served):
    event = make_event(served, hold_seconds=1)
    hold = place(served, event, seats=["A-1-1"])
    over = time.monotonic() + 5
    while state(served, hold) == "held" and time.monotonic() < over:
        time.sleep(0.05)
    assert refusal(buy(served, hold["id"])) == (409, "hold_expired")
    assert served.call("GET", f"/v1/events/{event}").json()["sold"] == 0
    # Somebody else may have it at once.
    assert buy(served, place(served, event, "u-2", seats=["A-1-1"])["id"]).status_code == 201


def test_payment_that_began_in_time_may_end_within_the_grace(served):
    event = make_event(served, hold_seconds=1)
    hold = place(served, event)
    assert buy(served, hold["id"], "sandbox:slow:2").status_code == 201


def test_what_was_given_back_or_sold_is_not_sold(served, event):
    released = place(served, event)
    served.call("DELETE", f"/v1/holds/{released['id']}")
    assert refusal(buy(served, released["id"])) == (409, "released")
    sold = place(served, event)
    buy(served, sold["id"])
    assert refusal(buy(served, sold["id"])) == (409, "confirmed")
    assert served.call("GET", f"/v1/events/{event}").json()["sold"] == 1


def test_what_costs_nothing_needs_no_payment(served):
    event = make_event(served, prices={"gold": 0, "floor": 4500})
    order = buy(served, place(served, event, seats=["A-1-1"])["id"], None)
    assert order.status_code == 201
    assert (order.json()["amount"], order.json()["payment"]) == (0, None)
    costly = place(served, event)
    assert refusal(buy(served, costly["id"], None)) == (422, "payment_required")
    assert state(served, costly) == "held"


@pytest.mark.parametrize("method", ["card", "stripe:pm_1", "sandbox", "Sandbox:ok", " sandbox:ok"])
def test_an_unknown_way_to_pay_is_refused(served, event, method):
    hold = place(served, event)
    assert refusal(buy(served, hold["id"], method)) == (422, "payment_unknown")
    assert state(served, hold) == "held"


def test_the_sandbox_takes_nothing_where_it_was_not_asked_for(tmp_path):
    store = f"sqlite:///{tmp_path / 'shop.db'}"
    with serving(store, cwd=tmp_path, sqlite_synchronous="NORMAL", payments="none") as served:
        event = make_event(served, prices={"gold": 0, "floor": 4500})
        hold = place(served, event)
        assert refusal(buy(served, hold["id"])) == (422, "payment_unknown")
        assert state(served, hold) == "held"
        assert buy(served, place(served, event, seats=["A-1-1"])["id"], None).status_code == 201


def test_an_order_of_nothing_is_not_found(served, event):
    for hold in (f"{event}.nothing", "nowhere.nothing"):
        assert refusal(buy(served, hold)) == (404, "unknown_hold")
    for order in (f"{event}.nothing", "nowhere.nothing", "nothing"):
        for method, path in (("GET", ""), ("POST", "/cancel")):
            answer = served.call(method, f"/v1/orders/{order}{path}")
            assert refusal(answer) == (404, "unknown_order")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"hold": 1},
        {"hold": "no dot"},
        {"hold": None},
        {"hold": "e.x", "payment": "sandbox:ok"},
        {"hold": "e.x", "payment": {}},
        {"hold": "e.x", "payment": {"method": ""}},
        {"hold": "e.x", "payment": {"method": "x" * 201}},
        {"hold": "e.x", "colour": 1},
    ],
)
def test_a_malformed_order_is_refused(served, body):
    answer = served.call("POST", "/v1/orders", body, headers={"Idempotency-Key": "k"})
    assert refusal(answer) == (422, "invalid")
    assert answer.json()["faults"]


@pytest.mark.parametrize(
    ("path", "body", "faults"),
    [
        (
            "/v1/orders",
            {"hold": 5, "payment": {"method": 7, "colour": 1}, "nope": 1},
            {"hold", "payment.method", "payment.colour", "nope"},
        ),
        ("/v1/orders", {"payment": "sandbox:ok"}, {"hold", "payment"}),
        (
            "/v1/orders/e.x/cancel",
            {"seats": [1], "pools": {"a": "b"}, "z": 1},
            {"seats[0]", "pools[...]", "z"},
        ),
        ("/v1/holds/e.x/extend", {"seconds": "x", "z": 1}, {"seconds", "z"}),
        ("/v1/buyers", {"buyer": 5, "x": 1}, {"buyer", "x"}),
    ],
)
def test_every_fault_of_a_body_is_told(served, path, body, faults):
    answer = served.call("POST", path, body, headers={"Idempotency-Key": "faults"})
    assert refusal(answer) == (422, "invalid")
    assert {fault["path"] for fault in answer.json()["faults"]} == faults


def test_cancelling_gives_the_units_back_once(served, seller, event):
    hold = place(served, event, seats=["A-1-1"], pools={"floor": 2})
    order = buy(served, hold["id"]).json()
    for _ in range(2):
        cancelled = served.call("POST", f"/v1/orders/{order['id']}/cancel", key=seller)
        assert cancelled.status_code == 200
        assert cancelled.json()["state"] == "cancelled"
        assert cancelled.json()["payment"]["state"] == "refunded"
    seen = served.call("GET", f"/v1/events/{event}").json()
    assert [seen[name] for name in ("available", "sold", "revenue")] == [70, 0, 0]
    assert served.call("GET", f"/v1/orders/{order['id']}").json() == cancelled.json()
    again = place(served, event, "u-2", seats=["A-1-1"])
    assert buy(served, again["id"]).status_code == 201
    # Cancelling the first once more takes nothing from whoever bought it since.
    served.call("POST", f"/v1/orders/{order['id']}/cancel", key=seller)
    assert served.call("GET", f"/v1/events/{event}").json()["sold"] == 1


def test_a_key_that_was_used_for_one_order_makes_no_other(served):
    """Not of another event either, and no money moves before that is known."""
    first, second = (place(served, make_event(served))["id"] for _ in range(2))
    headers = {"Idempotency-Key": "the same"}
    made = buy(served, first, headers=headers)
    assert made.status_code == 201
    assert refusal(buy(served, second, headers=headers)) == (422, "idempotency_mismatch")
    assert served.call("GET", f"/v1/holds/{second}").json()["state"] != "confirmed"
    # The control: under a key of its own it is bought, by another payment.
    other = buy(served, second, headers={"Idempotency-Key": "another"})
    assert other.status_code == 201
    assert other.json()["payment"]["id"] != made.json()["payment"]["id"]
    assert buy(served, first, headers=headers).json() == made.json()


def test_a_decline_is_an_outcome_and_stays_under_its_key(served, event):
    hold = place(served, event)["id"]
    headers = {"Idempotency-Key": "declined once"}
    first = buy(served, hold, "sandbox:declined", headers=headers)
    assert refusal(first) == (402, "declined")
    again = buy(served, hold, "sandbox:declined", headers=headers)
    assert (again.status_code, again.content) == (402, first.content)
    assert again.headers["Idempotency-Replayed"] == "true"
    assert refusal(buy(served, hold, headers=headers)) == (422, "idempotency_mismatch")
    assert buy(served, hold).status_code == 201


def test_a_key_whose_order_was_refused_may_be_used_again(served, event):
    """What was refused before any payment made nothing."""
    gone = place(served, event)["id"]
    served.call("DELETE", f"/v1/holds/{gone}")
    headers = {"Idempotency-Key": "refused once"}
    assert refusal(buy(served, gone, headers=headers)) == (409, "released")
    assert buy(served, place(served, event)["id"], headers=headers).status_code == 201


def test_a_copy_of_an_order_that_still_runs_is_told_so(served, event):
    """And charges nothing: one payment, whoever asks how often."""
    hold = place(served, event)["id"]
    headers = {"Idempotency-Key": f"copies-{hold}"}
    first: list[Any] = []
    buying = threading.Thread(
        target=lambda: first.append(buy(served, hold, "sandbox:slow:2", headers=headers))
    )
    buying.start()
    while served.call("GET", f"/v1/holds/{hold}").json()["state"] != "paying":
        pass
    copy = buy(served, hold, "sandbox:slow:2", headers=headers)
    assert refusal(copy) == (409, "in_progress")
    assert copy.headers["Retry-After"] == "1"
    buying.join()
    assert first[0].status_code == 201
    again = buy(served, hold, "sandbox:slow:2", headers=headers)
    assert (again.status_code, again.json()) == (201, first[0].json())
    assert again.headers["Idempotency-Replayed"] == "true"


def test_where_nobody_knows_whether_it_was_charged_the_key_stays_what_it_is(served, event):
    hold = place(served, event)["id"]
    headers = {"Idempotency-Key": f"unknown-{hold}"}
    assert buy(served, hold, "sandbox:error", headers=headers).status_code == 503
    other = buy(served, hold, "sandbox:ok", headers=headers)
    assert refusal(other) == (422, "idempotency_mismatch")
    assert buy(served, hold, "sandbox:error", headers=headers).status_code == 503


def test_an_answer_that_was_lost_is_looked_up_and_nothing_is_charged_twice(served, event):
    hold = place(served, event)["id"]
    headers = {"Idempotency-Key": f"lost-{hold}"}
    order = buy(served, hold, "sandbox:timeout", headers=headers)
    assert order.status_code == 201
    assert order.json()["payment"]["state"] == "captured"
    assert buy(served, hold, "sandbox:timeout", headers=headers).content == order.content


def test_a_key_of_a_hold_buys_nothing(served, event):
    headers = {"Idempotency-Key": f"both-{event}"}
    ask = {"buyer": "u-1", "seats": ["A-1-1"]}
    hold = served.call("POST", f"/v1/events/{event}/holds", ask, headers=headers).json()["id"]
    assert refusal(buy(served, hold, headers=headers)) == (422, "idempotency_mismatch")
    assert served.call("GET", f"/v1/holds/{hold}").json()["state"] == "held"


@pytest.mark.parametrize("method", ["sandbox:okk", "sandbox:slow:x", "sandbox:", "card"])
def test_a_method_that_is_none_moves_nothing(served, event, method):
    hold = place(served, event)["id"]
    assert refusal(buy(served, hold, method)) == (422, "payment_unknown")
    assert served.call("GET", f"/v1/holds/{hold}").json()["state"] == "held"


def test_a_buyer_pays_for_and_sees_his_own_order(served, seller, public, event):
    token = served.call("POST", "/v1/buyers", {"buyer": "ann"}, key=seller).json()["token"]
    headers = {"Buyer-Token": token}
    body = {"pools": {"floor": 1}}
    path = f"/v1/events/{event}/holds"
    hold = served.call("POST", path, body, key=public, headers=headers).json()
    headers["Hold-Token"] = hold["token"]
    order = buy(served, hold["id"], key=public, headers=headers)
    assert order.status_code == 201
    path = f"/v1/orders/{order.json()['id']}"
    assert served.call("GET", path, key=public, headers=headers).json() == order.json()
    # The hold's token alone is enough; the buyer's alone is not.
    alone = {"Hold-Token": hold["token"]}
    assert served.call("GET", path, key=public, headers=alone).json() == order.json()
    alone = {"Buyer-Token": token}
    assert refusal(served.call("GET", path, key=public, headers=alone)) == (404, "unknown_order")


def test_a_paused_event_still_sells_what_is_held(served, event):
    hold = place(served, event)
    served.call("PATCH", f"/v1/events/{event}", {"state": "paused"})
    assert buy(served, hold["id"]).status_code == 201
