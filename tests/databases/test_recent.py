"""PostgreSQL: what a process has just written it need not look at again, and never believes."""

import asyncio
from typing import Any

import pytest

from holdfast import Confirmed, Extended, Placed, Reason, Refused, Released
from holdfast.domain.commands import OpenOrder, SettleOrder
from holdfast.domain.model import Hold, Order
from holdfast.domain.outcomes import Opened, Outcome
from holdfast.stores.postgres import recent
from holdfast.stores.postgres.quick import Look
from holdfast.stores.postgres.reading import SQL
from tests.conftest import Clock, drift
from tests.databases.shops import E1, held, plan, shop_at

pytestmark = [pytest.mark.service, pytest.mark.usefixtures("postgres_only")]

LOOKS = [SQL[name] for name in ("peek_holds", "holds", "peek_orders", "orders")]
LEASE_MS = 60_000


@pytest.fixture
async def shop(url, clock):
    async with shop_at(url, clock) as shop:
        await shop.create_event(plan())
        await held(shop, "zoe", seats=["A-4-9"])  # what is done once is done
        yield shop


@pytest.fixture
async def other(url, clock):
    async with shop_at(url, clock) as other:
        yield other


async def opened(shop: Any, hold: Hold, **more: Any) -> Outcome:
    command: OpenOrder = shop.clerk.open_order(
        E1, hold.id, "sandbox:ok", driver="d", lease_ms=LEASE_MS, **more
    )
    outcome: Outcome = (await shop.submit(command)).outcome
    return outcome


async def settled(shop: Any, order: Order) -> Outcome:
    command = SettleOrder(
        id=shop.clerk.ids.new(),
        event=E1,
        order=order.id,
        hold=order.hold or "",
        fence=order.version,
        payment=f"sandbox:{order.id}",
        lease_ms=LEASE_MS,
    )
    outcome: Outcome = (await shop.submit(command)).outcome
    return outcome


async def test_an_order_of_what_was_just_held_here_looks_at_no_hold_and_no_order(shop, database):
    hold = await held(shop, "ann", seats=["A-1-1", "A-1-2"])
    with database.counted() as sent:
        opening = await opened(shop, hold)
        assert isinstance(opening, Opened)
        assert isinstance(await settled(shop, opening.order), Confirmed)
    assert not [query for query in sent if query in LOOKS]
    assert await drift(shop.store) == []


async def test_a_hold_that_was_given_back_elsewhere_is_not_paid_for(shop, other):
    hold = await held(shop, "ann", seats=["A-1-1"])
    assert isinstance(await other.release_hold(hold.id), Released)
    assert isinstance(await other.place_hold(E1, buyer="bob", seats=["A-1-1"]), Placed)
    assert await opened(shop, hold) == Refused(Reason.RELEASED, hold.id)
    assert await drift(shop.store) == []


async def test_a_hold_that_ran_out_and_was_taken_elsewhere_is_not_paid_for(shop, other, clock):
    hold = await held(shop, "ann", seats=["A-1-1"])
    opening = await opened(shop, hold)
    assert isinstance(opening, Opened)
    clock.move_to(opening.until_ms)
    assert isinstance(await other.place_hold(E1, buyer="bob", seats=["A-1-1"]), Placed)
    assert await settled(shop, opening.order) == Refused(Reason.LATE, opening.order.id)
    assert await drift(shop.store) == []


async def after_an_extension_elsewhere(shop: Any, other: Any, clock: Clock) -> Outcome:
    """Opens an order at a moment at which only the other process knows that the hold is alive, in a
    batch that has something to write."""
    hold = await held(shop, "ann", seats=["A-1-1"])
    assert isinstance(await other.extend_hold(hold.id), Extended)
    clock.move_to(hold.soft_ms + 1)
    _, outcome = await asyncio.gather(held(shop, "bob", seats=["A-2-2"]), opened(shop, hold))
    return outcome


async def test_nobody_is_refused_by_what_was_recalled(shop, other, clock):
    assert isinstance(await after_an_extension_elsewhere(shop, other, clock), Opened)
    assert await drift(shop.store) == []


async def test_believed_it_would_refuse_a_hold_that_is_alive(shop, other, clock, monkeypatch):
    """The control: what was recalled and is not written counts as if it had been looked at."""
    monkeypatch.setattr(Look, "sure", True)
    no = await after_an_extension_elsewhere(shop, other, clock)
    assert isinstance(no, Refused)
    assert no.reason is Reason.EXPIRED


async def test_another_buyer_learns_nothing_and_takes_nothing(shop):
    hold = await held(shop, "ann", seats=["A-1-1"])
    assert await opened(shop, hold, buyer="eve") == Refused(Reason.NOT_YOURS, hold.id)
    assert isinstance(await opened(shop, hold, buyer="ann"), Opened)


async def test_who_asks_for_a_seat_that_was_just_taken_here_is_refused_at_one_look(shop, database):
    await held(shop, "ann", seats=["A-1-1"])
    with database.counted() as sent:
        assert isinstance(await shop.place_hold(E1, buyer="bob", seats=["A-1-1"]), Refused)
    assert sent.count(SQL["look"]) == 1


async def test_an_order_is_opened_once_though_its_hold_is_recalled_as_paying(shop):
    hold = await held(shop, "ann", seats=["A-1-1"])
    first, second = await opened(shop, hold), await opened(shop, hold)
    assert isinstance(first, Opened)
    assert isinstance(second, Opened)
    assert isinstance(await settled(shop, first.order), Confirmed)
    assert not isinstance(await settled(shop, second.order), Confirmed)
    assert await drift(shop.store) == []


async def test_an_id_that_a_hold_has_is_known_though_its_own_seat_is_asked_for(shop):
    """Looked at, though nobody writes it: else its buyer would be refused by his own hold."""
    await held(shop, "ann", seats=["A-1-1"], id="mine")
    again = {"buyer": "ann", "id": "mine", "idempotency_key": "k2", "seats": ["A-1-1", "A-1-2"]}
    _, no = await asyncio.gather(held(shop, "bob", seats=["A-2-2"]), shop.place_hold(E1, **again))
    assert no == Refused(Reason.EXISTS, f"{E1}.mine")


async def test_a_repetition_beside_an_order_of_its_hold_hides_it_from_nobody(shop):
    ask: dict[str, Any] = {"buyer": "ann", "id": "mine", "seats": ["A-1-1"]}
    placed = await shop.place_hold(E1, **ask)
    repeated, opening, _ = await asyncio.gather(
        shop.place_hold(E1, **ask), opened(shop, placed.hold), held(shop, "bob", seats=["A-2-2"])
    )
    assert repeated == placed
    assert isinstance(opening, Opened)
    assert await drift(shop.store) == []


async def test_a_dead_hold_is_announced_though_its_placing_is_repeated_beside(shop, clock):
    ask: dict[str, Any] = {"buyer": "ann", "id": "mine", "seats": ["A-1-1"]}
    placed = await shop.place_hold(E1, **ask)
    clock.move_to(placed.hold.soft_ms)
    repeated, _ = await asyncio.gather(
        shop.place_hold(E1, **ask), held(shop, "bob", seats=["A-1-1"])
    )
    assert repeated == placed
    assert [entry.type for entry in await shop.log(E1)][-2:] == ["hold.expired", "hold.placed"]
    assert await drift(shop.store) == []


async def test_an_order_id_that_is_taken_is_said_to_be(shop):
    first = await held(shop, "ann", seats=["A-1-1"])
    assert isinstance(await opened(shop, first, order="mine"), Opened)
    gone = await held(shop, "ann", seats=["A-1-2"])
    assert isinstance(await shop.release_hold(gone.id), Released)
    _, no = await asyncio.gather(
        held(shop, "bob", seats=["A-2-2"]), opened(shop, gone, order="mine", key="k")
    )
    assert no == Refused(Reason.EXISTS, f"{E1}.mine")


async def test_what_is_kept_in_mind_has_a_limit_over_all_events(shop, monkeypatch):
    monkeypatch.setattr(recent, "ROWS_MAX", 6)
    for event in ("e2", "e3"):
        await shop.create_event(plan(id=event))
    holds = [await held(shop, f"u{n}", seats=[f"A-1-{n}"]) for n in range(1, 6)]
    for event in ("e2", "e3"):
        for n in range(1, 6):
            await shop.place_hold(event, buyer=f"u{n}", seats=[f"A-1-{n}"])
            assert len(shop.store._recent) <= 6
    assert isinstance(await opened(shop, holds[0]), Opened)
    assert await drift(shop.store) == []


async def test_what_has_ended_is_not_kept_in_mind(shop):
    before = len(shop.store._recent)
    hold = await held(shop, "ann", seats=["A-1-1"])
    opening = await opened(shop, hold)
    assert isinstance(opening, Opened)
    assert len(shop.store._recent) == before + 3
    assert isinstance(await settled(shop, opening.order), Confirmed)
    assert len(shop.store._recent) == before + 1  # the order: its money is still to be taken
