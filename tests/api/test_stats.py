"""GET /v1/events/{event}/stats: fresh after every call, the same in the client, without buyers."""

from contextlib import closing
from typing import Any

import apsw
import pytest

from holdfast.client import Client
from tests.api.conftest import make_event
from tests.api.serving import serving

HOLDS = ("held", "paying", "confirmed", "released", "expired")


def stats(served, event: str, **options: Any) -> dict[str, Any]:
    answer = served.call("GET", f"/v1/events/{event}/stats", **options)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def hold(served, event: str, **ask: Any) -> str:
    made = served.call("POST", f"/v1/events/{event}/holds", {"buyer": "ann-the-buyer"} | ask)
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


def buy(served, held: str) -> dict[str, Any]:
    body = {"hold": held, "payment": {"method": "sandbox:ok"}}
    made = served.call("POST", "/v1/orders", body, headers={"Idempotency-Key": held})
    assert made.status_code == 201, made.text
    order: dict[str, Any] = made.json()
    return order


def test_a_new_event_has_sold_nothing(served, event):
    assert stats(served, event) == {
        "event": event,
        "seq": 1,
        "capacity": 70,
        "sold": 0,
        "percent_sold": 0.0,
        "revenue": 0,
        "currency": "EUR",
        "revenue_by_tier": {},
        "revenue_by_hour": [],
        "revenue_earlier": {},
        "holds": dict.fromkeys(HOLDS, 0),
        "conversion": 0.0,
        "abandonment": 0.0,
        "velocity": {"last_minute": 0, "last_5_minutes": 0, "last_hour": 0},
        "recent": [],
        "cancellations": {"count": 0, "units": 0, "amount": 0},
        "refunds": {"count": 0, "amount": 0},
    }


def test_every_call_shows_at_once(served, event):
    first = hold(served, event, seats=["A-1-1", "A-1-2"], pools={"floor": 2})
    hold(served, event, pools={"floor": 1})
    given_back = hold(served, event, seats=["A-2-1"])
    assert stats(served, event)["holds"] == dict.fromkeys(HOLDS, 0) | {"held": 3}
    served.call("DELETE", f"/v1/holds/{given_back}")
    order = buy(served, first)
    found = stats(served, event)
    assert found["holds"] == dict.fromkeys(HOLDS, 0) | {"held": 1, "confirmed": 1, "released": 1}
    assert (found["sold"], found["revenue"], found["percent_sold"]) == (4, 27_000, 5.71)
    tiers = {
        "floor": {"units": 2, "revenue": 9000},
        "gold": {"units": 2, "revenue": 18_000},
    }
    assert found["revenue_by_tier"] == tiers
    assert [hour["tiers"] for hour in found["revenue_by_hour"]] == [tiers]
    assert (found["conversion"], found["abandonment"]) == (0.3333, 0.3333)
    assert found["velocity"] == {"last_minute": 4, "last_5_minutes": 4, "last_hour": 4}
    (booking,) = found["recent"]
    assert booking | {"time": ""} == {
        "time": "",
        "units": 4,
        "seats": ["A-1-1", "A-1-2"],
        "pools": {"floor": 2},
        "amount": 27_000,
    }
    summary = served.call("GET", f"/v1/events/{event}").json()
    assert {name: summary[name] for name in ("sold", "revenue", "capacity", "percent_sold")} == {
        name: found[name] for name in ("sold", "revenue", "capacity", "percent_sold")
    }
    part = served.call("POST", f"/v1/orders/{order['id']}/cancel", {"seats": ["A-1-1"]})
    assert part.status_code == 200, part.text
    found = stats(served, event)
    assert (found["sold"], found["revenue"]) == (3, 18_000)
    assert found["revenue_by_tier"]["gold"] == {"units": 1, "revenue": 9000}
    assert found["cancellations"] == {"count": 1, "units": 1, "amount": 9000}


def test_it_says_neither_who_bought_nor_under_which_id(served, event, public):
    made = hold(served, event, seats=["A-1-1"])
    buy(served, made)
    text = served.call("GET", f"/v1/events/{event}/stats", key=public).text
    assert "A-1-1" in text
    assert "ann-the-buyer" not in text
    assert made not in text


def test_a_public_key_may_come_in_the_address(served, event, public):
    answer = served.call("GET", f"/v1/events/{event}/stats?key={public}", key=None)
    assert (answer.status_code, answer.json()["event"]) == (200, event)


@pytest.mark.parametrize("event", ["nobody", "no.such", "%00", "x" * 65, "%C3%A9"])
def test_there_are_none_of_an_unknown_event(served, event):
    answer = served.call("GET", f"/v1/events/{event}/stats")
    assert (answer.status_code, answer.json()["reason"]) == (404, "unknown_event")


def test_where_facts_are_gone_that_nobody_counted_it_says_where_the_log_begins(tmp_path):
    """Such as after the beginning of a log was lost, and nobody kept a projection."""
    path = tmp_path / "shop.db"
    with serving(f"sqlite:///{path}", cwd=tmp_path, projections="none") as served:
        event = make_event(served)
        hold(served, event, pools={"floor": 1})
        with closing(apsw.Connection(str(path))) as db:
            db.execute("DELETE FROM log WHERE seq = 1")
        gone = served.call("GET", f"/v1/events/{event}/stats")
        assert (gone.status_code, gone.json()["reason"], gone.json()["first"]) == (410, "pruned", 2)


async def test_the_client_reads_them(served, event):
    hold(served, event, pools={"floor": 3})
    buy(served, hold(served, event, seats=["A-1-1"]))
    async with Client(served.url, served.environment["HOLDFAST_ADMIN_KEY"]) as client:
        found = await client.stats(event)
        assert found is not None
        assert (found.sold, found.revenue_by_tier["gold"].revenue) == (1, 9000)
        assert (found.holds["held"], found.holds["confirmed"]) == (1, 1)
        assert found.recent[0].seats == ("A-1-1",)
        assert await client.stats("nobody") is None
