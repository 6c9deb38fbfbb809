"""The seat map as it is sent: what the authority has at that moment, drawn once for many."""

import asyncio
import gzip
import json
from typing import Any

from msgspec import to_builtins

from holdfast.api.charts import Charts
from holdfast.domain.outcomes import Placed

HOUSE: dict[str, Any] = {
    "id": "e1",
    "hold_seconds": 60,
    "grace_seconds": 0,
    "prices": {"gold": 9000, "floor": 4500},
    "sections": [
        {"id": "A", "tier": "gold", "rows": 2, "seats_per_row": 10},
        {"id": "B", "tier": "gold", "rows": 1, "seats_per_row": 4, "channel": "presale"},
        {"id": "C", "tier": "gold", "rows": 1, "seats_per_row": 2, "accessible": True},
        {"id": "D", "tier": "gold", "rows": 1, "seats_per_row": 1, "companion": True},
        {"id": "E", "tier": "gold", "rows": 1, "seats_per_row": 1, "restricted_view": True},
    ],
    "pools": [
        {"id": "floor", "capacity": 50},
        {"id": "terrace", "capacity": 5, "tier": "floor", "channel": "presale"},
    ],
}


async def drawn(charts: Charts, event: str = "e1") -> Any:
    chart = await charts.chart(event)
    assert chart is not None
    body = json.loads(chart.body)
    assert json.loads(gzip.decompress(await chart.compressed())) == body
    assert body["seq"] == chart.seq
    return body


async def etag(charts: Charts) -> str:
    chart = await charts.chart("e1")
    assert chart is not None
    return chart.etag


async def plain(shop: Any, event: str = "e1") -> Any:
    """The same by the engine's own way, which knows nothing of charts."""
    seat_map = to_builtins(await shop.seats(event))
    for unit in (*seat_map["seats"], *seat_map["pools"]):
        del unit["channel"]
    for seat in seat_map["seats"]:
        for flag in ("accessible", "companion", "restricted_view"):
            if not seat[flag]:
                del seat[flag]
    return seat_map


async def test_a_seat_says_what_is_special_about_it_and_nothing_else(shop):
    await shop.create_event(HOUSE)
    chart = await drawn(Charts(shop))
    usual = {"id", "section", "row", "number", "tier", "x", "y", "state"}
    special = {seat["id"]: seat.keys() - usual for seat in chart["seats"]}
    assert {id: names for id, names in special.items() if names} == {
        "C-1-1": {"accessible"},
        "C-1-2": {"accessible"},
        "D-1-1": {"companion"},
        "E-1-1": {"restricted_view"},
    }
    assert all(seat[name] is True for seat in chart["seats"] for name in special[seat["id"]])
    assert {pool["id"]: pool["tier"] for pool in chart["pools"]} == {
        "floor": "floor",
        "terrace": "floor",
    }


async def test_a_chart_is_the_seat_map(shop, clock):
    charts = Charts(shop)
    await shop.create_event(HOUSE)
    assert await drawn(charts) == await plain(shop)
    sold = await shop.place_hold("e1", buyer="u1", seats=["A-1-1"], pools={"floor": 3})
    await shop.confirm_hold(sold.hold.id)
    await shop.place_hold("e1", buyer="u2", seats=["A-1-2", "A-1-3"], pools={"floor": 2})
    await shop.place_hold("e1", buyer="u3", seats=["B-1-1"], channels=["presale"])
    await shop.withdraw("e1", seats=["A-2-10"])
    told = await drawn(charts)
    assert told == await plain(shop)
    states = {seat["id"]: seat["state"] for seat in told["seats"]}
    assert states["A-1-1"] == "sold"
    assert states["A-1-2"] == "held"
    assert states["B-1-1"] == states["B-1-4"] == "sold"
    assert "A-2-10" not in states


async def test_it_changes_when_a_deadline_passes_though_nobody_says_so(shop, clock):
    charts = Charts(shop)
    await shop.create_event(HOUSE)
    await shop.place_hold("e1", buyer="u1", seats=["A-1-1"])
    before = await etag(charts)
    clock.advance(61_000)
    assert await etag(charts) != before
    assert await drawn(charts) == await plain(shop)


async def test_what_has_not_changed_is_not_drawn_again(shop, clock):
    charts = Charts(shop)
    await shop.create_event(HOUSE)
    first = await charts.chart("e1")
    assert await charts.chart("e1") is first
    await shop.place_hold("e1", buyer="u1", seats=["A-1-1"])
    assert first is not None
    assert await etag(charts) != first.etag


async def test_a_hold_that_was_answered_is_on_every_chart_asked_for_later(shop):
    """Many read all the time, and share their reads; none is older than its ask."""
    charts = Charts(shop)
    await shop.create_event(HOUSE)
    stop = asyncio.Event()

    async def reload() -> None:
        while not stop.is_set():
            await charts.chart("e1")

    readers = [asyncio.create_task(reload()) for _ in range(20)]
    for nth in range(1, 11):
        placed = await shop.place_hold("e1", buyer=f"u{nth}", seats=[f"A-1-{nth}"])
        assert isinstance(placed, Placed)
        states = {seat["id"]: seat["state"] for seat in (await drawn(charts))["seats"]}
        assert states[f"A-1-{nth}"] == "held"
    stop.set()
    await asyncio.gather(*readers)


async def test_an_event_that_is_not_there_has_none_and_leaves_nothing_behind(shop):
    charts = Charts(shop)
    for nth in range(100):
        assert await charts.chart(f"nobody-{nth}") is None
    assert charts._reads == {}
