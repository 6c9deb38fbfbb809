"""Every row of the settlement table in docs/late-payment.md, as it is written there."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast import Confirmed, Hold, Placed
from holdfast.api import orders as api
from holdfast.api import wire
from holdfast.api.problems import Problem
from holdfast.checkout.saga import Step
from holdfast.checkout.till import Purchase
from holdfast.domain.model import Millis
from holdfast.domain.payments import Charge, Standing
from tests.checkout.desk import Desk
from tests.contract.helpers import E1, description

PAGE = Path(__file__).parents[2] / "docs" / "late-payment.md"
HELD: dict[str, dict[str, Any]] = {
    "gold": {"seats": ["A-1-1", "A-1-2"]},
    "silver": {"seats": ["B-1-1", "B-1-2"]},
    "floor": {"pools": {"floor": 2}},
}
GOLD = [f"A-{row}-{number}" for row in (1, 2) for number in range(1, 6)]
APART = ["A-1-1", "A-1-2", "A-1-3", "A-1-5", "A-2-1", "A-2-3", "A-2-5"]
"""Sold, they leave no two gold seats side by side."""

Row = dict[str, str]


def table() -> list[Row]:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line[:2] == "| "]
    start = next(nth for nth, line in enumerate(lines) if line.startswith("| case "))
    head, _, *rows = [
        [cell.strip().strip("`") for cell in line.strip().strip("|").split("|")]
        for line in lines[start:]
    ]
    return [dict(zip(head, row, strict=True)) for row in rows]


def moment(hold: Hold, word: str) -> Millis:
    """start, soft-1, soft, hard, hard+1..."""
    if word == "start":
        return hold.placed_ms + 1000
    deadline = hold.soft_ms if word.startswith("soft") else hold.hard_ms
    return deadline + int(word[4:] or 0)


async def opened(desk: Desk, row: Row, hold: Hold) -> None:
    """What happens while the payment is on its way."""
    match row["meanwhile"]:
        case "released":
            await desk.shop.release_hold(hold.id)
        case "bought":
            assert isinstance(await desk.shop.confirm_hold(hold.id), Confirmed)
        case "paused" | "closed" as state:
            await desk.shop.change_event(E1, state=state)


async def settling(desk: Desk, row: Row, hold: Hold) -> None:
    """What has happened by the time at which the sale is decided."""
    desk.clock.move_to(moment(hold, row["settled"]))
    shop, first = desk.shop, list(hold.seats)[:1]
    rival: dict[str, Callable[[], Awaitable[Any]]] = {
        "rival_held": lambda: shop.place_hold(E1, buyer="bob", seats=first),
        "rival_sold": lambda: shop.sell(E1, buyer="bob", seats=first),
        "rival_all": lambda: shop.sell(
            E1, buyer="bob", **({"seats": GOLD} if first else {"pools": {"floor": 10}})
        ),
        "rival_apart": lambda: shop.sell(E1, buyer="bob", seats=APART),
        "capped": lambda: shop.place_hold(E1, buyer="ann", seats=["A-2-1"]),
    }
    if did := rival.get(row["meanwhile"]):
        assert isinstance(await did(), Placed | Confirmed)


async def answer(bought: Purchase) -> str:
    """In the words of HTTP."""

    async def nothing(*args: Any) -> None: ...

    counts = SimpleNamespace(outcome=lambda outcome: None)
    limits = SimpleNamespace(free=nothing, keep=nothing)
    service: Any = SimpleNamespace(metrics=counts, limits=limits)
    call: Any = SimpleNamespace(caller=SimpleNamespace(public=False), address="")
    if bought.refused is not None:
        return f"409 {api.HOLD_GONE.get(bought.refused.reason, bought.refused.reason)}"
    try:
        return str((await api._answered(service, call, bought)).status)
    except Problem as problem:
        return f"{problem.status} {problem.reason}"


def taken_at_once(desk: Desk) -> None:
    """A provider that takes the money with its authorization."""
    provider: Any = desk.till.provider
    authorize = provider.authorize

    async def authorize_and_take(charge: Charge) -> Standing:
        await authorize(charge)
        standing: Standing = await provider.capture(charge)
        return standing

    provider.authorize = authorize_and_take


async def seen(desk: Desk, row: Row, hold: Hold, bought: Purchase) -> Row:
    await asyncio.gather(*desk.till._tasks.values())
    found = {"answer": await answer(bought)}
    order = await desk.shop.order(bought.order.id) if bought.order else None
    if order is None:
        found |= dict.fromkeys(("order", "payment", "settlement", "reason"), "-")
    else:
        shown = wire.order(order)
        assert shown.payment is not None
        found["order"], found["payment"] = shown.state.value, shown.payment.state.value
        found["settlement"] = str(order.checkout.settlement)
        found["reason"] = order.checkout.reason or "-"
    mine = (order.id if order else None, hold.id)
    facts = [
        entry.type
        for entry in await desk.shop.log(E1)
        if not entry.type.startswith("event.")
        and entry.data.get("order", entry.data["hold"]) in mine
        and entry.type != "hold.placed"
    ]
    return found | {"facts": " ".join(facts) or "-"}


@pytest.mark.parametrize("row", table(), ids=lambda row: row["case"])
async def test_what_the_page_says_is_what_happens(quick_desk, row):
    await as_the_page_says(quick_desk, row)


@pytest.mark.parametrize("row", table()[::5], ids=lambda row: row["case"])
async def test_and_on_every_store(desk, row):
    await as_the_page_says(desk, row)


async def as_the_page_says(desk: Desk, row: Row) -> None:
    changes: dict[str, Any] = {"late_payment": row["policy"]}
    if row["meanwhile"] == "capped":
        changes["max_per_buyer"] = 2
    await desk.shop.create_event(description(**changes))
    placed = await desk.shop.place_hold(E1, buyer="ann", **HELD[row["held"]])
    assert isinstance(placed, Placed)
    hold = placed.hold
    desk.clock.advance(10)
    if row["pay"] == "begun":
        await desk.shop.pay_hold(hold.id)
    if row["money"] == "taken":
        taken_at_once(desk)
    desk.meanwhile = {
        Step.AUTHORIZE: lambda desk: opened(desk, row, hold),
        Step.SETTLE: lambda desk: settling(desk, row, hold),
    }
    desk.clock.move_to(moment(hold, row["opened"]))
    others = row["others"] == "yes"
    bought = await desk.till.buy(hold.id, "sandbox:ok", other_seats=others, key="key:k")
    found = await seen(desk, row, hold, bought)
    assert found == {name: row[name] for name in found}
    await desk.books_balance()


def test_the_page_has_every_deadline_with_and_without_a_rival():
    rows = table()
    for word in ("soft-1", "soft", "soft+1"):
        assert {row["pay"] for row in rows if word in (row["opened"], row["settled"])} == {
            *("begun", "not")
        }
    for word in ("hard-1", "hard", "hard+1"):
        rivals = {row["meanwhile"] for row in rows if row["settled"] == word}
        assert "nothing" in rivals
        assert "rival_sold" in rivals or word == "hard-1"
