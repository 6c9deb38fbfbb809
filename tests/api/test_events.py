"""Events over HTTP: create, see, change, the seat map and the log."""

import asyncio
import gzip
import threading
import time
from itertools import count
from typing import Any

import msgspec
import pytest
import requests

from holdfast.api import events
from holdfast.api.callers import Caller
from holdfast.api.calls import BIG_BODY_BYTES, Call
from holdfast.api.keys import Key, Role
from holdfast.api.service import Service
from holdfast.domain.plan import read_capacity
from holdfast.engine import Holdfast
from holdfast.settings import Settings
from holdfast.stores.memory import MemoryStore
from tests.api.conftest import make_event
from tests.api.serving import ADMIN

_numbers = count(1)


def described(**changes: Any) -> dict[str, Any]:
    return {
        "id": f"play-{next(_numbers)}",
        "name": "Opening night",
        "prices": {"gold": 9000, "floor": 4500},
        "sections": [{"id": "A", "tier": "gold", "rows": 2, "seats_per_row": 3}],
        "seats": [{"id": "BOX-1", "section": "BOX", "row": "1", "number": 1, "tier": "gold"}],
        "pools": [{"id": "floor", "capacity": 5}],
        **changes,
    }


def refusal(answer: requests.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["reason"]


def faults(answer: requests.Response) -> list[str]:
    assert refusal(answer) == (422, "invalid")
    return [fault["path"] for fault in answer.json()["faults"]]


# Create and see


def test_a_new_event_is_on_sale_and_complete(served):
    body = described(max_per_buyer=8)
    made = served.call("POST", "/v1/events", body)
    assert made.status_code == 201
    event = made.json()
    expected = {
        "id": body["id"],
        "name": "Opening night",
        "currency": "EUR",
        "state": "on_sale",
        "capacity": 12,
        "available": 12,
        "held": 0,
        "sold": 0,
        "percent_sold": 0,
        "revenue": 0,
        "seq": 1,
        "version": 1,
        "hold_seconds": 480,
        "grace_seconds": 300,
        "max_extensions": 1,
        "max_per_buyer": 8,
        "prices": {"gold": 9000, "floor": 4500},
    }
    assert event.items() >= expected.items()
    assert served.call("GET", f"/v1/events/{body['id']}").json() == event
    assert event in served.call("GET", "/v1/events").json()["events"]


def test_an_event_that_is_there_is_not_made_again(served):
    body = described()
    served.call("POST", "/v1/events", body)
    assert refusal(served.call("POST", "/v1/events", body)) == (409, "exists")


def test_every_fault_of_an_event_is_listed(served):
    body = described(
        id="no good",
        currency="euro",
        state="open",
        hold_seconds=0,
        grace_seconds=-1,
        max_extensions="x",
        max_per_buyer=0,
        prices={"gold": -1},
        sections=[{"id": "A", "tier": "silver", "rows": 0, "seats_per_row": 1}],
        seats=[{"id": "", "number": 1, "tier": "gold"}],
        pools=[{"id": "floor", "capacity": 0}],
        colour="red",
    )
    found = faults(served.call("POST", "/v1/events", body))
    assert {
        *("id", "currency", "state", "hold_seconds", "grace_seconds", "max_extensions"),
        *("max_per_buyer", "prices.gold", "sections[0].rows", "sections[0].tier"),
        *("seats[0].id", "pools[0].capacity", "pools[0].tier", "colour"),
    } <= set(found)


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"prices": {"gold": 1}}, "pools[0].tier"),
        ({"seats": [{"id": "A-1-1", "number": 1, "tier": "gold"}]}, "seats[0].id"),
        ({"pools": [{"id": "p", "capacity": 1, "tier": "gold"}] * 2}, "pools[1].id"),
        ({"sections": [], "seats": [], "pools": []}, "sections"),
        (
            {"prices": {"gold": 10**12, "floor": 1}, "pools": [{"id": "floor", "capacity": 10**9}]},
            "prices",
        ),
    ],
)
def test_what_no_type_can_say_is_checked_too(served, changes, path):
    assert faults(served.call("POST", "/v1/events", described(**changes))) == [path]


def test_an_event_that_is_not_there(served):
    ask = {"buyer": "u", "best": [{"quantity": 1}]}
    calls: list[tuple[str, str, Any]] = [
        ("GET", "", None),
        ("GET", "/seats", None),
        ("GET", "/log", None),
        ("PATCH", "", {"state": "paused"}),
        ("POST", "/holds", ask),
    ]
    for method, path, body in calls:
        answer = served.call(method, f"/v1/events/nowhere{path}", body)
        assert refusal(answer) == (404, "unknown_event")


def test_an_event_may_be_larger_than_other_bodies(served):
    seats = [
        {"id": f"S-{nth}", "number": nth, "tier": "gold", "section": "S" * 60}
        for nth in range(4_000)
    ]
    body = described(seats=seats)
    made = served.call("POST", "/v1/events", body)
    assert made.status_code == 201
    assert made.json()["capacity"] == 4_011
    assert len(made.request.body or b"") > 256 * 1024


# Change


def change(served: Any, event: str, **changes: Any) -> requests.Response:
    answer: requests.Response = served.call("PATCH", f"/v1/events/{event}", changes)
    return answer


def test_an_event_is_paused_closed_and_opened(served, event):
    path, ask = f"/v1/events/{event}/holds", {"buyer": "u-1", "pools": {"floor": 1}}
    for state in ("paused", "closed"):
        assert change(served, event, state=state).json()["state"] == state
        assert refusal(served.call("POST", path, ask)) == (409, "not_on_sale")
    assert change(served, event, state="on_sale").json()["state"] == "on_sale"
    assert served.call("POST", path, ask).status_code == 201


@pytest.mark.parametrize(
    "changes",
    [
        {"hold_seconds": 60, "grace_seconds": 0},
        {"max_extensions": 0},
        {"max_per_buyer": 2},
        {"max_per_buyer": None},
        {"flash_sale": True},
        {"policy": "authority"},
        {"policy": None},
        {"waiting_room": True},
        {"gate": False},
        {"name": "Second night"},
        {"ranking": "centre"},
    ],
    ids=lambda changes: " ".join(changes),
)
def test_a_setting_changes_and_stays(served, event, changes):
    answer = change(served, event, **changes)
    assert answer.status_code == 200
    assert answer.json().items() >= changes.items()
    assert served.call("GET", f"/v1/events/{event}").json() == answer.json()


def test_deadlines_and_caps_count_from_then_on(served, event):
    path = f"/v1/events/{event}/holds"
    change(served, event, hold_seconds=60, max_per_buyer=2)
    hold = served.call("POST", path, {"buyer": "u-1", "pools": {"floor": 2}})
    assert hold.json()["seconds_left"] in (59, 60)
    no = served.call("POST", path, {"buyer": "u-1", "pools": {"floor": 1}})
    assert (*refusal(no), no.json()["cap"]) == (409, "buyer_cap", 2)


def test_a_price_changes_for_holds_to_come(served, event):
    path, ask = f"/v1/events/{event}/holds", {"buyer": "u-1", "pools": {"floor": 1}}
    before = served.call("POST", path, ask).json()
    assert change(served, event, prices={"floor": 1}).json()["prices"] == {"gold": 9000, "floor": 1}
    assert served.call("POST", path, ask).json()["amount"] == 1
    assert served.call("GET", f"/v1/holds/{before['id']}").json()["amount"] == 4500


def test_more_units_come_and_some_go(served, event):
    added = change(
        served,
        event,
        sections=[{"id": "B", "tier": "gold", "rows": 1, "seats_per_row": 2}],
        seats=[{"id": "BOX-1", "number": 1, "tier": "gold"}],
        pools=[{"id": "floor", "capacity": 10}, {"id": "bar", "capacity": 3, "tier": "floor"}],
    )
    assert added.json()["capacity"] == 70 + 2 + 1 + 10 + 3
    withdrawn = change(served, event, withdraw={"seats": ["B-1-1"], "pools": {"floor": 5}})
    assert withdrawn.json()["capacity"] == 86 - 6
    ask = {"buyer": "u-1", "seats": ["B-1-1"]}
    no = served.call("POST", f"/v1/events/{event}/holds", ask)
    assert (no.status_code, no.json()["reason"]) in ((409, "taken"), (422, "unknown_unit"))
    seats = served.call("GET", f"/v1/events/{event}/seats").json()
    assert {pool["id"]: pool["capacity"] for pool in seats["pools"]} == {"bar": 3, "floor": 55}


def test_a_new_tier_and_its_units_come_together(served, event):
    """The new prices join those there are: an old tier keeps its own."""
    answer = change(
        served,
        event,
        prices={"silver": 100},
        seats=[
            {"id": "S-1", "number": 1, "tier": "silver"},
            {"id": "G-1", "number": 2, "tier": "gold"},
        ],
    )
    assert answer.status_code == 200
    assert answer.json()["prices"] == {"gold": 9000, "floor": 4500, "silver": 100}
    assert answer.json()["capacity"] == 72


def test_what_is_held_or_sold_is_not_withdrawn(served, event):
    path = f"/v1/events/{event}/holds"
    served.call("POST", path, {"buyer": "u-1", "seats": ["A-1-1"], "pools": {"floor": 50}})
    no = change(served, event, withdraw={"seats": ["A-1-1", "A-1-2"]})
    assert (*refusal(no), no.json()["seats"]) == (409, "taken", ["A-1-1"])
    no = change(served, event, withdraw={"pools": {"floor": 1}})
    assert (*refusal(no), no.json()["available"]) == (409, "insufficient", 0)
    no = change(served, event, withdraw={"seats": ["Z-1"]})
    assert refusal(no) == (422, "unknown_unit")
    no = change(served, event, seats=[{"id": "A-1-1", "number": 1, "tier": "gold"}])
    assert refusal(no) == (409, "exists")


@pytest.mark.parametrize(
    ("withdraw", "reason"),
    [
        ({"seats": ["A-1-1"]}, (409, "taken")),
        ({"pools": {"floor": 50}}, (409, "insufficient")),
        ({"seats": ["Z-1"]}, (422, "unknown_unit")),
    ],
)
def test_units_that_cannot_be_withdrawn_leave_all_else_as_it_was(served, event, withdraw, reason):
    ask = {"buyer": "u-1", "seats": ["A-1-1"], "pools": {"floor": 1}}
    served.call("POST", f"/v1/events/{event}/holds", ask)
    before = served.call("GET", f"/v1/events/{event}").json()
    more = [{"id": "BOX-1", "number": 1, "tier": "gold"}]
    no = change(served, event, name="Second night", state="paused", seats=more, withdraw=withdraw)
    assert refusal(no) == reason
    assert served.call("GET", f"/v1/events/{event}").json() == before


def test_units_go_settings_change_and_units_come_in_one_call(served, event):
    answer = change(
        served,
        event,
        prices={"silver": 100},
        seats=[{"id": "S-1", "number": 1, "tier": "silver"}],
        withdraw={"seats": ["A-1-1", "A-1-2"]},
    )
    assert answer.status_code == 200
    assert (answer.json()["capacity"], answer.json()["prices"]["silver"]) == (69, 100)
    facts = served.call("GET", f"/v1/events/{event}/log").json()["facts"][1:]
    told = [fact["data"].keys() & {"seats_withdrawn", "seats_added"} for fact in facts]
    assert told == [{"seats_withdrawn"}, set(), {"seats_added"}]


async def test_a_large_change_is_read_beside_the_loop(monkeypatch):
    """Others are served meanwhile."""
    readers = set()

    def read(units: Any, prices: Any) -> Any:
        readers.add(threading.current_thread())
        return read_capacity(units, prices)

    monkeypatch.setattr(events, "read_capacity", read)
    body = {
        "seats": [
            {"id": f"N-{nth}", "number": nth, "tier": "gold", "section": "N" * 60}
            for nth in range(4_000)
        ]
    }
    shop = Holdfast(MemoryStore(), Settings(store="memory://"), upkeep=False)
    async with Service(shop) as service:
        await shop.create_event(described(id="big"))
        call = Call(Caller(Key("k1", Role.ADMIN, "")), {"event": "big"}, {}, b"", "", "r1")
        call.body = msgspec.json.encode(body)
        assert len(call.body) > BIG_BODY_BYTES
        assert (await events.change(service, call)).status == 200
    assert readers
    assert threading.current_thread() not in readers


@pytest.mark.parametrize(
    ("changes", "paths"),
    [
        ({}, [""]),
        ({"state": "open", "hold_seconds": 0, "colour": 1}, ["colour", "hold_seconds", "state"]),
        ({"id": "other"}, ["id"]),
        ({"currency": "USD"}, ["currency"]),
        ({"state": None, "withdraw": {"seats": [1]}}, ["state", "withdraw.seats[0]"]),
        ({"withdraw": {}}, ["withdraw.seats"]),
        ({"withdraw": None}, ["withdraw"]),
        ({"withdraw": {"seats": ["A-1-1", "A-1-1"]}}, ["withdraw.seats[1]"]),
        ({"withdraw": {"pools": {"floor": 0}, "x": 1}}, ["withdraw.pools.floor", "withdraw.x"]),
        ({"sections": []}, [""]),
        ({"pools": [{"id": "bar", "capacity": 1, "tier": "iron"}]}, ["pools[0].tier"]),
        ({"seats": [{"id": "S-1"}], "flash_sale": 1}, ["flash_sale", "seats[0].number"]),
    ],
)
def test_every_fault_of_a_change_is_listed_and_nothing_changes(served, event, changes, paths):
    before = served.call("GET", f"/v1/events/{event}").json()
    found = faults(change(served, event, **changes))
    assert set(paths) <= set(found)
    assert served.call("GET", f"/v1/events/{event}").json() == before


def test_counts_follow_sales(served, event):
    path = f"/v1/events/{event}/holds"
    hold = served.call("POST", path, {"buyer": "u-1", "seats": ["A-1-1"], "pools": {"floor": 6}})
    seen = served.call("GET", f"/v1/events/{event}").json()
    assert [seen[name] for name in ("available", "held", "sold")] == [63, 7, 0]
    order = {"hold": hold.json()["id"], "payment": {"method": "sandbox:ok"}}
    served.call("POST", "/v1/orders", order, headers={"Idempotency-Key": event})
    seen = served.call("GET", f"/v1/events/{event}").json()
    assert [seen[name] for name in ("available", "held", "sold")] == [63, 0, 7]
    assert (seen["percent_sold"], seen["revenue"]) == (10, 9000 + 6 * 4500)


# The seat map


def test_a_seat_map_has_every_unit_and_its_state(served):
    event = make_event(served)
    path = f"/v1/events/{event}/holds"
    hold = served.call("POST", path, {"buyer": "u-1", "seats": ["A-1-1"], "pools": {"floor": 2}})
    served.call("POST", path, {"buyer": "u-2", "seats": ["A-1-2"], "pools": {"floor": 1}})
    order = {"hold": hold.json()["id"], "payment": {"method": "sandbox:ok"}}
    served.call("POST", "/v1/orders", order, headers={"Idempotency-Key": event})
    seat_map = served.call("GET", f"/v1/events/{event}/seats").json()
    assert seat_map["seq"] == served.call("GET", f"/v1/events/{event}").json()["seq"]
    assert len(seat_map["seats"]) == 20
    first = seat_map["seats"][0]
    known = {"id": "A-1-1", "section": "A", "row": "1", "number": 1, "tier": "gold"}
    assert first == {**known, "x": first["x"], "y": first["y"], "state": "sold"}
    states = {seat["id"]: seat["state"] for seat in seat_map["seats"]}
    assert (states["A-1-2"], states["A-1-3"]) == ("held", "available")
    floor = {"id": "floor", "capacity": 50, "available": 47, "tier": "floor"}
    assert seat_map["pools"] == [floor]


def test_a_seat_map_that_has_not_changed_is_not_sent_again(served, event):
    path = f"/v1/events/{event}/seats"
    first = served.call("GET", path)
    etag = first.headers["ETag"]
    for asked in (etag, f'"other", {etag}', "*"):
        same = served.call("GET", path, headers={"If-None-Match": asked})
        assert (same.status_code, same.content, same.headers["ETag"]) == (304, b"", etag)
    assert served.call("GET", path, headers={"If-None-Match": '"other"'}).status_code == 200
    ask = {"buyer": "u-1", "seats": ["A-1-1"]}
    served.call("POST", f"/v1/events/{event}/holds", ask)
    newer = served.call("GET", path, headers={"If-None-Match": etag})
    assert newer.status_code == 200
    assert newer.headers["ETag"] != etag


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        ("gzip", "gzip"),
        ("br, gzip;q=0.5", "gzip"),
        ("GZIP", "gzip"),
        ("gzip;q=0", None),
        ("gzip; q=0.000, br", None),
        ("identity", None),
        ("x-gzipped", None),
    ],
)
def test_a_seat_map_is_compressed_for_who_wants_it(served, event, accepted, encoding):
    headers = {"Authorization": f"Bearer {ADMIN}", "Accept-Encoding": accepted}
    url = f"{served.url}/v1/events/{event}/seats"
    with requests.get(url, headers=headers, stream=True, timeout=5) as answer:
        assert answer.headers.get("Content-Encoding") == encoding
        assert "Accept-Encoding" in answer.headers["Vary"]
        raw = answer.raw.read()
    plain = gzip.decompress(raw) if encoding else raw
    assert plain == served.call("GET", f"/v1/events/{event}/seats").content


def test_a_hold_that_was_answered_is_on_the_next_map(served, event):
    for nth in range(1, 11):
        ask = {"buyer": "u-1", "seats": [f"A-1-{nth}"]}
        assert served.call("POST", f"/v1/events/{event}/holds", ask).status_code == 201
        seats = served.call("GET", f"/v1/events/{event}/seats").json()["seats"]
        assert [seat["state"] for seat in seats[:10]] == ["held"] * nth + ["available"] * (10 - nth)


# The log


def test_the_log_is_read_page_by_page_from_1_without_a_gap(served, event):
    for nth in range(7):
        served.call(
            "POST", f"/v1/events/{event}/holds", {"buyer": f"u-{nth}", "pools": {"floor": 1}}
        )
    facts: list[dict[str, Any]] = []
    after = 0
    while page := served.call("GET", f"/v1/events/{event}/log?after={after}&limit=3").json():
        assert len(page["facts"]) <= 3
        if not page["facts"]:
            assert page["next"] == after
            break
        facts += page["facts"]
        after = page["next"]
    assert [fact["sequence"] for fact in facts] == list(range(1, 9))
    assert [fact["type"] for fact in facts] == ["event.created"] + ["hold.placed"] * 7
    assert len({fact["id"] for fact in facts}) == 8
    assert all(fact["subject"] == event and fact["specversion"] == "1.0" for fact in facts)
    placed = facts[1]["data"]
    assert placed.keys() >= {"hold", "buyer", "seats", "pools", "amount"}
    assert served.call("GET", f"/v1/events/{event}/log").json()["facts"] == facts
    assert served.call("GET", f"/v1/events/{event}/log?after=99").json() == {
        "facts": [],
        "next": 99,
    }


def test_a_page_of_no_facts_cannot_be_asked_for(served, event):
    refused = served.call("GET", f"/v1/events/{event}/log?limit=0")
    assert refusal(refused) == (422, "invalid")
    assert refused.json()["faults"] == [
        {"path": "limit", "problem": "must be a whole number from 1 (got '0')"}
    ]
    assert len(served.call("GET", f"/v1/events/{event}/log?limit=1").json()["facts"]) == 1


def test_what_was_pruned_is_gone_and_where_the_log_begins_is_told(served, event):
    for number in range(1, 5):
        body = {"buyer": "ann", "seats": [f"A-1-{number}"]}
        assert served.call("POST", f"/v1/events/{event}/holds", body).status_code == 201

    async def prune() -> int:
        async with Holdfast.open(served.environment["HOLDFAST_STORE"], upkeep=False) as shop:
            return await shop.store.prune(event, 3, 100)

    assert asyncio.run(prune()) == 3
    path = f"/v1/events/{event}/log"
    for after in (0, 2):
        gone = served.call("GET", f"{path}?after={after}")
        assert refusal(gone) == (410, "pruned")
        assert gone.json()["first"] == 4
        assert gone.json()["detail"] == (
            f"the log of {event} begins with 4: what was before was pruned"
        )
    page = served.call("GET", f"{path}?after=3").json()
    assert [fact["sequence"] for fact in page["facts"]] == [4, 5]
    assert page["next"] == 5
    assert served.call("GET", f"{path}?after=5").json() == {"facts": [], "next": 5}


def test_the_log_tells_the_whole_story_of_a_sale(served):
    event = make_event(served, hold_seconds=2)
    path = f"/v1/events/{event}/holds"

    def hold() -> str:
        made = served.call("POST", path, {"buyer": "u-1", "pools": {"floor": 1}})
        return str(made.json()["id"])

    sold, released, _expired = hold(), hold(), hold()
    served.call("POST", f"/v1/holds/{sold}/extend")
    served.call("POST", f"/v1/holds/{sold}/pay")
    served.call("DELETE", f"/v1/holds/{released}")
    body = {"hold": sold, "payment": {"method": "sandbox:ok"}}
    order = served.call("POST", "/v1/orders", body, headers={"Idempotency-Key": sold}).json()["id"]
    served.call("POST", f"/v1/orders/{order}/cancel")
    change(served, event, state="closed")
    expected = [
        *("event.created", "hold.placed", "hold.placed", "hold.placed", "hold.extended"),
        *("hold.paying", "hold.released", "order.confirmed", "order.cancelled"),
        *("order.refunded", "event.changed", "hold.expired"),
    ]
    over = time.monotonic() + 10
    while True:
        facts = served.call("GET", f"/v1/events/{event}/log").json()["facts"]
        if len(facts) >= len(expected) or time.monotonic() > over:
            break
        time.sleep(0.05)
    assert [fact["type"] for fact in facts] == expected
    confirmed = facts[7]["data"]
    assert (confirmed["order"], confirmed["hold"]) == (order, sold)
