"""What tests do beside the pages: events to visit, and other people who hold and buy seats."""

from itertools import count
from typing import Any

from tests.api.serving import Served

_numbers = count(1)


def make_event(served: Served, **changes: Any) -> str:
    """A small house: seats A-1-1 to A-3-8 at 90.00, B-1-1 to B-2-8 at 60.00, 50 on the floor."""
    id = f"show-{next(_numbers)}"
    body = {
        "id": id,
        "name": f"Show {id}",
        "currency": "EUR",
        "prices": {"gold": 9000, "silver": 6000, "floor": 4500},
        "sections": [
            {"id": "A", "tier": "gold", "rows": 3, "seats_per_row": 8},
            {"id": "B", "tier": "silver", "rows": 2, "seats_per_row": 8, "y": 5},
        ],
        "pools": [{"id": "floor", "capacity": 50, "tier": "floor"}],
        **changes,
    }
    made = served.call("POST", "/v1/events", body)
    assert made.status_code == 201, made.text
    return id


def hold(served: Served, event: str, *seats: str) -> str:
    made = served.call("POST", f"/v1/events/{event}/holds", {"buyer": "u-1", "seats": seats})
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


def buy(served: Served, event: str, *seats: str) -> None:
    kept = hold(served, event, *seats)
    body = {"hold": kept, "payment": {"method": "sandbox:ok"}}
    made = served.call("POST", "/v1/orders", body, headers={"Idempotency-Key": kept})
    assert made.status_code == 201, made.text


def release(served: Served, hold: str) -> None:
    assert served.call("DELETE", f"/v1/holds/{hold}").status_code == 204


def log(served: Served, event: str, after: int) -> list[int]:
    told = served.call("GET", f"/v1/events/{event}/log?after={after}").json()
    return [int(fact["sequence"]) for fact in told["facts"]]


def states(served: Served, event: str) -> dict[str, str]:
    told = served.call("GET", f"/v1/events/{event}/seats").json()
    return {seat["id"]: seat["state"] for seat in told["seats"]}


def seq(served: Served, event: str) -> str:
    return str(served.call("GET", f"/v1/events/{event}").json()["seq"])


def held(served: Served, event: str) -> set[str]:
    return {seat for seat, state in states(served, event).items() if state == "held"}
