"""Holds over HTTP, on a real server."""


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
