"""Holds over HTTP, on a real server."""

import time
from typing import Any

import pytest
import requests

from tests.api.conftest import make_event
from tests.api.serving import Served


def ask(served: Served, event: str, buyer: str = "u-1", **wanted: Any) -> requests.Response:
    return served.call("POST", f"/v1/events/{event}/holds", {"buyer": buyer, **wanted})


def held(served: Served, event: str, **wanted: Any) -> str:
    answer = ask(served, event, **(wanted or {"pools": {"floor": 1}}))
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def refusal(answer: requests.Response) -> tuple[int, str]:
    assert answer.headers["Content-Type"] == "application/problem+json"
    return answer.status_code, answer.json()["reason"]


def test_a_hold_has_the_shape_of_the_contract(served, event):
    answer = served.call(
        "POST",
        f"/v1/events/{event}/holds",
        {"buyer": "u-1", "seats": ["A-1-1"], "pools": {"floor": 2}},
    )
    assert answer.status_code == 201
    hold = answer.json()
    assert (
        hold.items()
        >= {
            "event": event,
            "buyer": "u-1",
            "state": "held",
            "seats": ["A-1-1"],
            "pools": {"floor": 2},
            "amount": 18_000,
            "currency": "EUR",
            "seconds_left": 480,
            "version": 1,
        }.items()
    )
    assert hold["id"].startswith(f"{event}.")
    assert hold["token"]


def test_a_taken_seat_is_refused_with_its_name(served, event):
    path = f"/v1/events/{event}/holds"
    served.call("POST", path, {"buyer": "u-1", "seats": ["A-1-1"]})
    for _ in range(3):
        answer = served.call("POST", path, {"buyer": "u-2", "seats": ["A-1-1"]})
        assert answer.status_code == 409
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert answer.json()["reason"] == "taken"
        assert answer.json()["seats"] == ["A-1-1"]


# What is refused


def test_the_best_seats_are_chosen_and_named(served, event):
    best = [{"quantity": 2, "section": "A", "tier": "gold", "together": True}]
    hold = ask(served, event, best=best, pools={"floor": 1}).json()
    assert len(hold["seats"]) == 2
    assert (hold["pools"], hold["amount"]) == ({"floor": 1}, 22_500)


def test_a_basket_is_all_or_nothing(served, event):
    held(served, event, seats=["A-1-2"])
    no = ask(served, event, "u-2", seats=["A-1-1", "A-1-2"], pools={"floor": 1})
    assert (*refusal(no), no.json()["seats"]) == (409, "taken", ["A-1-2"])
    seen = served.call("GET", f"/v1/events/{event}").json()
    assert (seen["held"], seen["available"]) == (1, 69)


def test_every_refusal_has_its_word(served):
    event = make_event(served, max_per_buyer=20, pools=[{"id": "floor", "capacity": 3}])
    no = ask(served, event, pools={"floor": 4})
    assert (*refusal(no), no.json()["available"]) == (409, "insufficient", 3)
    no = ask(served, event, best=[{"quantity": 11, "together": True}])
    assert (*refusal(no), no.json()["available"]) == (409, "not_together", 20)
    no = ask(served, event, best=[{"quantity": 20}], pools={"floor": 1})
    assert (*refusal(no), no.json()["cap"]) == (409, "buyer_cap", 20)
    held(served, event, best=[{"quantity": 10}, {"quantity": 10}])
    no = ask(served, event, "u-2", best=[{"quantity": 1}])
    assert refusal(no) == (409, "sold_out")
    for wanted in ({"seats": ["Z-1"]}, {"pools": {"bar": 1}}):
        assert refusal(ask(served, event, "u-2", **wanted)) == (422, "unknown_unit")
    served.call("PATCH", f"/v1/events/{event}", {"state": "paused"})
    assert refusal(ask(served, event, "u-2", pools={"floor": 1})) == (409, "not_on_sale")


def test_his_own_hold_is_given_back_to_who_asks_again(served, event):
    first = ask(served, event, seats=["A-1-1"]).json()
    again = ask(served, event, seats=["A-1-1"]).json()
    assert (again["id"], again["token"]) == (first["id"], first["token"])
    assert refusal(ask(served, event, "u-2", seats=["A-1-1"])) == (409, "taken")


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ({}, ["buyer", "seats"]),
        ({"buyer": "u"}, ["seats"]),
        ({"buyer": "", "seats": [1, "", "A-1-1"]}, ["buyer", "seats[0]", "seats[1]"]),
        ({"buyer": "u", "seats": ["A-1-1", "A-1-1"]}, ["seats[1]"]),
        ({"buyer": " u", "seats": "A-1-1"}, ["buyer", "seats"]),
        ({"buyer": "u", "pools": {"floor": 0, "bar": "x"}}, ["pools.floor", "pools.bar"]),
        ({"buyer": "u", "best": [{"quantity": 0}, {}]}, ["best[0].quantity", "best[1].quantity"]),
        ({"buyer": "u", "best": [{"quantity": 600}] * 2}, ["best"]),
        ({"buyer": "u", "id": "a b", "pools": {"floor": 1}}, ["id"]),
        ({"buyer": "u", "id": "abc\n", "pools": {"floor": 1}}, ["id"]),
        ({"buyer": "u", "seat": ["A-1-1"], "pools": {"floor": 1}}, ["seat"]),
        ({"buyer": "u", "channels": [1], "pools": {"floor": 1}}, ["channels[0]"]),
    ],
)
def test_a_malformed_ask_is_refused_with_the_path_of_each_fault(served, event, body, paths):
    answer = served.call("POST", f"/v1/events/{event}/holds", body)
    assert refusal(answer) == (422, "invalid")
    assert {fault["path"] for fault in answer.json()["faults"]} == set(paths)


def test_a_callers_own_id_names_the_hold(served, event):
    first = ask(served, event, id="basket-7", pools={"floor": 1})
    assert first.json()["id"] == f"{event}.basket-7"
    again = ask(served, event, id="basket-7", pools={"floor": 1})
    assert (again.content, again.headers["Idempotency-Replayed"]) == (first.content, "true")
    other = ask(served, event, id="basket-7", pools={"floor": 2})
    assert refusal(other) == (422, "idempotency_mismatch")
    assert other.json()["detail"] == f"the id '{event}.basket-7' was used for something else"


def test_a_channels_units_are_only_for_who_names_it(served):
    section = {"id": "A", "tier": "gold", "rows": 1, "seats_per_row": 2, "channel": "presale"}
    event = make_event(served, sections=[section])
    assert refusal(ask(served, event, seats=["A-1-1"])) == (409, "taken")
    assert refusal(ask(served, event, best=[{"quantity": 1}])) == (409, "sold_out")
    assert ask(served, event, seats=["A-1-1"], channels=["presale"]).status_code == 201


# What becomes of a hold


def test_a_hold_is_seen_without_its_token(served, event):
    placed = ask(served, event, seats=["A-1-1"]).json()
    seen = served.call("GET", f"/v1/holds/{placed['id']}").json()
    assert "token" not in seen
    assert placed["seconds_left"] - seen["seconds_left"] in (0, 1)
    for hold in (placed, seen):
        del hold["seconds_left"]
    del placed["token"]
    assert seen == placed


def test_a_hold_is_extended_as_often_as_the_event_allows(served, event):
    hold = held(served, event)
    longer = served.call("POST", f"/v1/holds/{hold}/extend", {"seconds": 60})
    assert longer.status_code == 200
    assert longer.json()["seconds_left"] in (538, 539, 540)
    assert longer.json()["version"] == 2
    no = served.call("POST", f"/v1/holds/{hold}/extend")
    assert (*refusal(no), no.json()["cap"]) == (409, "extension_limit", 1)


@pytest.mark.parametrize("body", [None, {}, {"seconds": None}, {"seconds": 86_400}])
def test_an_extension_is_as_long_as_a_hold_at_most(served, event, body):
    longer = served.call("POST", f"/v1/holds/{held(served, event)}/extend", body)
    assert longer.json()["seconds_left"] in (958, 959, 960)


@pytest.mark.parametrize("seconds", [0, -1, 86_401, 1.5, "60", True])
def test_an_extension_that_is_none_is_refused(served, event, seconds):
    path = f"/v1/holds/{held(served, event)}/extend"
    no = served.call("POST", path, {"seconds": seconds})
    assert refusal(no) == (422, "invalid")
    assert no.json()["faults"][0]["path"] == "seconds"


def test_a_hold_is_given_back_and_again_changes_nothing(served, event):
    hold = held(served, event, seats=["A-1-1"])
    for _ in range(3):
        answer = served.call("DELETE", f"/v1/holds/{hold}")
        assert (answer.status_code, answer.content) == (204, b"")
    assert served.call("GET", f"/v1/holds/{hold}").json()["state"] == "released"
    for verb in ("extend", "pay"):
        assert refusal(served.call("POST", f"/v1/holds/{hold}/{verb}")) == (409, "released")
    assert ask(served, event, "u-2", seats=["A-1-1"]).status_code == 201
    # Once more: it is somebody else's now, and stays so.
    assert served.call("DELETE", f"/v1/holds/{hold}").status_code == 204
    assert refusal(ask(served, event, "u-3", seats=["A-1-1"])) == (409, "taken")


def test_what_was_sold_is_not_given_back(served, event):
    hold = held(served, event)
    body = {"hold": hold, "payment": {"method": "sandbox:ok"}}
    served.call("POST", "/v1/orders", body, headers={"Idempotency-Key": hold})
    for method, path in (("DELETE", ""), ("POST", "/extend"), ("POST", "/pay")):
        assert refusal(served.call(method, f"/v1/holds/{hold}{path}")) == (409, "confirmed")


def test_payment_begins_once(served, event):
    hold = held(served, event)
    paying = served.call("POST", f"/v1/holds/{hold}/pay")
    assert paying.status_code == 200
    assert (paying.json()["state"], paying.json()["version"]) == ("paying", 2)
    again = served.call("POST", f"/v1/holds/{hold}/pay").json()
    assert (again["state"], again["version"]) == ("paying", 2)


def test_a_hold_runs_out_by_itself(served):
    event = make_event(served, hold_seconds=1, grace_seconds=60)
    left, paying = held(served, event, seats=["A-1-1"]), held(served, event, seats=["A-1-2"])
    soft = served.call("POST", f"/v1/holds/{paying}/pay").json()["expires_at"]
    over = time.monotonic() + 5
    while (seen := served.call("GET", f"/v1/holds/{left}").json())["state"] == "held":
        assert time.monotonic() < over
        time.sleep(0.05)
    assert (seen["state"], seen["seconds_left"]) == ("expired", 0)
    for verb in ("extend", "pay"):
        assert refusal(served.call("POST", f"/v1/holds/{left}/{verb}")) == (409, "expired")
    assert served.call("DELETE", f"/v1/holds/{left}").status_code == 204
    # Payment that had begun keeps its seat until the hard deadline. Shown is the soft one.
    seen = served.call("GET", f"/v1/holds/{paying}").json()
    assert (seen["state"], seen["expires_at"], seen["seconds_left"]) == ("paying", soft, 0)
    assert refusal(ask(served, event, "u-2", seats=["A-1-2"])) == (409, "taken")
    assert ask(served, event, "u-2", seats=["A-1-1"]).status_code == 201


def test_a_hold_that_is_not_there(served, event):
    for hold in (f"{event}.nothing", "nowhere.nothing", "nothing", "a.b.c"):
        for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/extend"), ("POST", "/pay")):
            answer = served.call(method, f"/v1/holds/{hold}{path}")
            assert refusal(answer)[0] == 404, (hold, path)
