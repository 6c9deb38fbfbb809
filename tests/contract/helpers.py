"""What the tests of the contract share: an event, short ways to ask, and ways to compare."""

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from holdfast import Confirmed, Hold, Holdfast, Order, Placed, Reason, Refused
from holdfast.domain.facts import Entry
from holdfast.domain.views import Summary

E1 = "e1"

IN_ORDER = pytest.mark.policies("authority")
"""Commands that arrive at one moment are decided in order of arrival: with a gate before the lane,
each has to pass that first. So do baskets, whose first fault it may be to be taken."""
ON_THE_LOG = pytest.mark.policies("authority", "two-layer")
"""About holds that the authority has, their facts and their announced end. Under policy `gate` a
hold is none of that until payment begins; tests/gates/test_courtesy.py is about those."""
SOFT_MS = 480_000
GRACE_MS = 300_000
HARD_MS = SOFT_MS + GRACE_MS

GOLD, SILVER, FLOOR, STAND = 9_000, 6_000, 4_500, 2_000
SEATS = 14
STOCK = 15
CAPACITY = SEATS + STOCK


def description(**changes: Any) -> dict[str, Any]:
    """Two rows of five, four seats behind them of which two are for sponsors, and two pools."""
    return {
        "id": E1,
        "name": "Opening night",
        "currency": "EUR",
        "hold_seconds": 480,
        "grace_seconds": 300,
        "max_extensions": 1,
        "prices": {"gold": GOLD, "silver": SILVER, "floor": FLOOR, "stand": STAND},
        "sections": [
            {"id": "A", "tier": "gold", "rows": 2, "seats_per_row": 5},
            {"id": "B", "tier": "silver", "rows": 1, "seats_per_row": 2},
            {"id": "S", "tier": "silver", "rows": 1, "seats_per_row": 2, "channel": "sponsors"},
        ],
        "pools": [
            {"id": "floor", "capacity": 10, "tier": "floor"},
            {"id": "stand", "capacity": 5, "tier": "stand", "channel": "sponsors"},
        ],
    } | changes


async def on_sale(shop: Holdfast, **changes: Any) -> None:
    """The event of these tests, with another setting here or there."""
    await shop.create_event(description(**changes))


async def held(shop: Holdfast, buyer: str = "ann", **ask: Any) -> Hold:
    """A hold that must succeed; of the first two seats and two of the floor unless said."""
    if not ask.keys() & {"seats", "best", "pools"}:
        ask |= {"seats": ["A-1-1", "A-1-2"], "pools": {"floor": 2}}
    outcome = await shop.place_hold(E1, buyer=buyer, **ask)
    assert isinstance(outcome, Placed), outcome
    return outcome.hold


async def sold(shop: Holdfast, buyer: str = "ann", **ask: Any) -> Order:
    """A direct sale that must succeed."""
    if not ask.keys() & {"seats", "best", "pools"}:
        ask |= {"seats": ["A-1-1", "A-1-2"], "pools": {"floor": 2}}
    outcome = await shop.sell(E1, buyer=buyer, **ask)
    assert isinstance(outcome, Confirmed), outcome
    return outcome.order


async def reason(asked: Awaitable[Any]) -> Reason:
    """Why it was refused."""
    outcome = await asked
    assert isinstance(outcome, Refused), outcome
    return outcome.reason


async def summary(shop: Holdfast, event: str = E1) -> Summary:
    found = await shop.event(event)
    assert found is not None
    return found


async def numbers(shop: Holdfast) -> tuple[int, int, int, int]:
    """Capacity, available, held, sold."""
    now = await summary(shop)
    return now.capacity, now.available, now.held, now.sold


async def seat_states(shop: Holdfast, **kwargs: Any) -> dict[str, str]:
    seat_map = await shop.seats(E1, **kwargs)
    assert seat_map is not None
    return {seat.id: seat.state.value for seat in seat_map.seats}


async def pools_left(shop: Holdfast, **kwargs: Any) -> dict[str, int]:
    seat_map = await shop.seats(E1, **kwargs)
    assert seat_map is not None
    return {pool.id: pool.available for pool in seat_map.pools}


async def log(shop: Holdfast, event: str = E1, after: int = 0) -> list[Entry]:
    return await shop.log(event, after=after, limit=10_000)


async def log_types(shop: Holdfast, after: int = 0) -> list[str]:
    return [entry.type for entry in await log(shop, after=after)]


async def everything(shop: Holdfast) -> bytes:
    """Every row and every fact of every event."""
    return b"\n".join(
        [
            msgspec.json.encode(part)
            for each in await shop.events()
            for part in (
                await shop.store.census(each.event.id),
                await shop.store.log(each.event.id, 0, 1_000_000),
            )
        ]
    )


@asynccontextmanager
async def nothing_changes(shop: Holdfast, why: object = "") -> AsyncIterator[None]:
    """What is done inside leaves rows and log as they were, byte by byte."""
    before = await everything(shop)
    yield
    assert await everything(shop) == before, why


def cells(table: str) -> list[tuple[str, str, str]]:
    """A table of outcomes as (row, column, expected), for parametrize.

    `no.x` is a refusal with reason x, `=x` the answer x with nothing changed, and else the answer
    came with a change.
    """
    head, *lines = [line.split() for line in table.strip().splitlines()]
    return [
        (command, state, expected)
        for command, *row in lines
        for state, expected in zip(head, row, strict=True)
    ]


def said(outcome: Any) -> str:
    """An outcome in the words of the tables."""
    if isinstance(outcome, Refused):
        return f"no.{outcome.reason}"
    return str(outcome.__struct_config__.tag)
