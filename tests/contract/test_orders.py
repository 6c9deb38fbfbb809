"""An order has its units for good, until they are given back: each is sold at most once."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from holdfast import (
    Cancelled,
    Confirmed,
    HoldState,
    Invalid,
    Order,
    OrderState,
    Placed,
    Reason,
    Refused,
)
from holdfast.domain.model import Checkout, TierShare
from tests.contract.helpers import (
    CAPACITY,
    E1,
    FLOOR,
    GOLD,
    HARD_MS,
    IN_ORDER,
    SOFT_MS,
    cells,
    held,
    log_types,
    nothing_changes,
    numbers,
    on_sale,
    pools_left,
    reason,
    said,
    seat_states,
    sold,
    summary,
)

BASKET: dict[str, Any] = {"seats": ["A-1-1", "A-1-2"], "pools": {"floor": 2}}
BASKET_AMOUNT = 2 * GOLD + 2 * FLOOR
BASKET_TIERS = {"gold": TierShare(2, 2 * GOLD), "floor": TierShare(2, 2 * FLOOR)}


async def order_in_state(shop, state: str) -> str:
    order = await sold(shop, order="o1", payment="pay-1", **BASKET)
    if state in ("cancelled", "unknown"):
        await shop.cancel_order(order.id)
    return "e1.nobody" if state == "unknown" else order.id


COMMANDS = {
    "cancel": lambda shop, order: shop.cancel_order(order),
    "place": lambda shop, order: shop.place_hold(E1, buyer="bob", **BASKET),
    "sell": lambda shop, order: shop.sell(E1, buyer="bob", **BASKET),
    "same_id": lambda shop, order: shop.sell(
        E1, buyer="bob", order=order.removeprefix("e1."), idempotency_key="k", seats=["A-2-1"]
    ),
    "same_payment": lambda shop, order: shop.sell(
        E1, buyer="bob", payment="pay-1", seats=["A-2-1"]
    ),
    "withdraw": lambda shop, order: shop.withdraw(E1, seats=["A-1-1"]),
}

TABLE = """
              confirmed        cancelled        unknown
cancel        cancelled        =cancelled       no.unknown_order
place         no.taken         placed           placed
sell          no.taken         confirmed        confirmed
same_id       no.exists        no.exists        confirmed
same_payment  no.payment_used  no.payment_used  no.payment_used
withdraw      no.taken         changed          changed
"""


@pytest.mark.parametrize(("command", "state", "expected"), cells(TABLE))
async def test_what_becomes_of_a_command_depends_on_the_state_of_the_order(
    shop, setup, command, state, expected
):
    await on_sale(shop)
    order = await order_in_state(shop, state)
    seq = (await summary(shop)).seq
    if expected.startswith(("no.", "=")):
        async with nothing_changes(shop):
            outcome = await COMMANDS[command](shop, order)
    else:
        outcome = await COMMANDS[command](shop, order)
        assert (await summary(shop)).seq > seq or setup.policy == "gate"
    assert said(outcome) == expected.removeprefix("=")


async def test_a_confirmed_hold_is_an_order_of_the_same_units_for_the_same_amount(shop, clock):
    await on_sale(shop)
    hold = await held(shop, "ann", **BASKET)
    clock.advance(5)
    outcome = await shop.confirm_hold(hold.id, order="o1", payment="pay-1")
    after = await shop.hold(hold.id)
    assert outcome == Confirmed(
        Order(
            id="e1.o1",
            event=E1,
            buyer="ann",
            state=OrderState.CONFIRMED,
            seats=hold.seats,
            pools=hold.pools,
            amount=BASKET_AMOUNT,
            currency="EUR",
            created_ms=clock(),
            hold=hold.id,
            payment="pay-1",
            # Under policy `gate` the authority has had the hold only since it was confirmed.
            checkout=Checkout(priced_ms=after.placed_ms, tiers=BASKET_TIERS),
        )
    )
    assert await shop.order("e1.o1") == outcome.order
    assert (after.state, after.order) == (HoldState.CONFIRMED, "e1.o1")


async def test_a_direct_sale_makes_the_same_order_without_a_hold(shop, clock):
    await on_sale(shop)
    outcome = await shop.sell(E1, buyer="ann", order="o1", payment="pay-1", **BASKET)
    assert outcome == Confirmed(
        Order(
            id="e1.o1",
            event=E1,
            buyer="ann",
            state=OrderState.CONFIRMED,
            seats=("A-1-1", "A-1-2"),
            pools={"floor": 2},
            amount=BASKET_AMOUNT,
            currency="EUR",
            created_ms=clock(),
            payment="pay-1",
            checkout=Checkout(tiers=BASKET_TIERS),
        )
    )
    assert await shop.order("e1.o1") == outcome.order


@pytest.mark.parametrize("way", ["confirm", "sell"])
async def test_what_is_sold_leaves_the_stock_and_counts_as_revenue(shop, way):
    await on_sale(shop)
    if way == "confirm":
        await shop.confirm_hold((await held(shop, **BASKET)).id)
    else:
        await sold(shop, **BASKET)
    assert await numbers(shop) == (CAPACITY, CAPACITY - 4, 0, 4)
    assert (await summary(shop)).revenue == BASKET_AMOUNT
    states = await seat_states(shop)
    assert (states["A-1-1"], states["A-1-2"], states["A-1-3"]) == ("sold", "sold", "available")
    assert (await pools_left(shop))["floor"] == 8


@pytest.mark.parametrize("way", ["confirm", "sell"])
async def test_a_cancelled_order_gives_everything_back(shop, way):
    await on_sale(shop)
    if way == "confirm":
        order = (await shop.confirm_hold((await held(shop, **BASKET)).id)).order
    else:
        order = await sold(shop, **BASKET)
    outcome = await shop.cancel_order(order.id)
    assert isinstance(outcome, Cancelled)
    assert outcome.order.state is OrderState.CANCELLED
    assert await shop.order(order.id) == outcome.order
    assert await numbers(shop) == (CAPACITY, CAPACITY, 0, 0)
    assert (await summary(shop)).revenue == 0
    assert set((await seat_states(shop, channels=["sponsors"])).values()) == {"available"}
    assert (await pools_left(shop))["floor"] == 10
    assert isinstance(await shop.sell(E1, buyer="bob", **BASKET), Confirmed)


async def test_copies_of_a_cancellation_give_the_units_back_once(shop):
    await on_sale(shop)
    first = await sold(shop, pools={"floor": 4})
    await sold(shop, "bob", pools={"floor": 5})
    outcomes = await asyncio.gather(*[shop.cancel_order(first.id) for _ in range(5)])
    assert len({outcome.order.state for outcome in outcomes}) == 1
    assert (await pools_left(shop))["floor"] == 5
    assert (await log_types(shop)).count("order.cancelled") == 1


async def test_a_seat_is_sold_to_one_of_a_thousand(shop):
    await on_sale(shop)
    outcomes = await asyncio.gather(
        *[shop.sell(E1, buyer=f"u{n}", seats=["A-1-1"]) for n in range(1000)]
    )
    assert sum(isinstance(outcome, Confirmed) for outcome in outcomes) == 1
    assert (await summary(shop)).sold == 1


@pytest.mark.parametrize("paying", [False, True])
@pytest.mark.parametrize("rival", ["hold", "order"])
async def test_a_late_confirm_never_takes_a_resold_seat(shop, clock, paying, rival):
    await on_sale(shop)
    hold = await held(shop, "ann", seats=["A-1-1", "A-1-2"])
    if paying:
        await shop.pay_hold(hold.id)
    clock.advance(HARD_MS if paying else SOFT_MS)
    if rival == "hold":
        await held(shop, "bob", id="b", seats=["A-1-1"])
    else:
        await sold(shop, "bob", order="b", seats=["A-1-1"])
    async with nothing_changes(shop):
        assert await shop.confirm_hold(hold.id) == Refused(Reason.EXPIRED, hold.id)
    states = await seat_states(shop)
    assert states["A-1-1"] == ("held" if rival == "hold" else "sold")
    assert states["A-1-2"] == "available"


async def test_confirming_again_gives_the_same_order_whatever_order_id_is_named(shop):
    await on_sale(shop)
    hold = await held(shop)
    first = await shop.confirm_hold(hold.id, order="o1", payment="pay-1")
    async with nothing_changes(shop):
        assert await shop.confirm_hold(hold.id, payment="pay-1") == first
        assert await shop.confirm_hold(hold.id, order="o2", payment="pay-1") == first


@pytest.mark.parametrize(("paid", "again"), [("pay-1", "pay-2"), ("pay-1", None), (None, "pay-1")])
async def test_other_money_for_a_hold_that_is_sold_is_refused(shop, paid, again):
    await on_sale(shop)
    hold = await held(shop)
    await shop.confirm_hold(hold.id, payment=paid)
    async with nothing_changes(shop):
        outcome = await shop.confirm_hold(hold.id, payment=again)
    assert outcome == Refused(Reason.CONFIRMED, hold.id)


@pytest.mark.parametrize("first", ["confirm", "sell"])
@pytest.mark.parametrize("second", ["confirm", "sell"])
@pytest.mark.parametrize("together", [False, pytest.param(True, marks=IN_ORDER)])
async def test_one_payment_pays_for_one_order(shop, first, second, together):
    await on_sale(shop)
    ways = []
    for buyer, way, seat in (("ann", first, "A-1-1"), ("bob", second, "A-2-1")):
        if way == "confirm":
            hold = await held(shop, buyer, seats=[seat])
            ways.append(shop.confirm_hold(hold.id, payment="pay-1"))
        else:
            ways.append(shop.sell(E1, buyer=buyer, seats=[seat], payment="pay-1"))
    outcomes = await asyncio.gather(*ways) if together else [await way for way in ways]
    assert isinstance(outcomes[0], Confirmed)
    assert outcomes[1] == Refused(Reason.PAYMENT_USED, "pay-1")
    assert (await summary(shop)).sold == 1


@pytest.mark.parametrize("first", ["confirm", "sell"])
@pytest.mark.parametrize("second", ["confirm", "sell"])
@pytest.mark.parametrize("together", [False, pytest.param(True, marks=IN_ORDER)])
async def test_one_order_id_names_one_order(shop, first, second, together):
    await on_sale(shop)
    ways = []
    for buyer, way, seat in (("ann", first, "A-1-1"), ("bob", second, "A-2-1")):
        key = f"key-{buyer}"
        if way == "confirm":
            hold = await held(shop, buyer, seats=[seat])
            ways.append(shop.confirm_hold(hold.id, order="o1", idempotency_key=key))
        else:
            ways.append(shop.sell(E1, buyer=buyer, seats=[seat], order="o1", idempotency_key=key))
    outcomes = await asyncio.gather(*ways) if together else [await way for way in ways]
    assert isinstance(outcomes[0], Confirmed)
    assert outcomes[1] == Refused(Reason.EXISTS, "e1.o1")
    assert (await shop.order("e1.o1")).buyer == "ann"


async def test_orders_without_a_payment_do_not_clash(shop):
    await on_sale(shop)
    for seat in ("A-1-1", "A-1-2", "A-1-3"):
        assert (await sold(shop, seats=[seat])).payment is None


async def test_the_amount_is_the_price_when_the_hold_was_placed(shop):
    await on_sale(shop)
    hold = await held(shop, seats=["A-1-1"])
    await shop.change_event(E1, prices={"gold": 1})
    assert (await shop.confirm_hold(hold.id)).order.amount == GOLD
    assert (await sold(shop, seats=["A-1-2"])).amount == 1
    assert (await summary(shop)).revenue == GOLD + 1


async def test_a_cancelled_seat_can_be_sold_again_and_again(shop):
    await on_sale(shop)
    for buyer in ("ann", "bob", "cid"):
        order = await sold(shop, buyer, seats=["A-1-1"])
        await shop.cancel_order(order.id)
    assert (await sold(shop, "dee", seats=["A-1-1"])).buyer == "dee"
    assert (await summary(shop)).revenue == GOLD


@IN_ORDER
async def test_what_is_sold_cancelled_and_sold_within_one_batch_ends_with_the_last(shop):
    await on_sale(shop)
    outcomes = await asyncio.gather(
        shop.place_hold(E1, buyer="zed", seats=["A-2-1"]),
        shop.sell(E1, buyer="ann", order="o1", seats=["A-1-1"], pools={"floor": 10}),
        shop.place_hold(E1, buyer="bob", seats=["A-1-1"]),
        shop.cancel_order("e1.o1"),
        shop.place_hold(E1, buyer="bob", id="h1", seats=["A-1-1"], pools={"floor": 10}),
        shop.confirm_hold("e1.h1", order="o2"),
        shop.cancel_order("e1.o2"),
        shop.sell(E1, buyer="cid", order="o3", seats=["A-1-1"]),
    )
    assert [said(outcome) for outcome in outcomes] == [
        "placed",
        "confirmed",
        "no.taken",
        "cancelled",
        "placed",
        "confirmed",
        "cancelled",
        "confirmed",
    ]
    assert await numbers(shop) == (CAPACITY, CAPACITY - 2, 1, 1)


async def test_an_order_of_a_closed_event_can_be_cancelled(shop):
    await on_sale(shop)
    order = await sold(shop)
    await shop.close_event(E1)
    assert isinstance(await shop.cancel_order(order.id), Cancelled)


async def test_a_sale_may_name_a_hold_that_lived_only_in_a_gate(shop):
    await on_sale(shop)
    order = await sold(shop, seats=["A-1-1"], hold="e1.gate-hold")
    assert order.hold == "e1.gate-hold"
    assert await shop.hold("e1.gate-hold") is None


@pytest.mark.parametrize("state", ["held", "released", "confirmed"])
async def test_a_sale_cannot_name_a_hold_of_the_authority_as_its_own(shop, state):
    await on_sale(shop)
    hold = await held(shop, "ann", seats=["A-1-1"])
    if state == "released":
        await shop.release_hold(hold.id)
    if state == "confirmed":
        await shop.confirm_hold(hold.id)
    async with nothing_changes(shop):
        outcome = await shop.sell(E1, buyer="bob", seats=["A-2-1"], hold=hold.id)
    assert isinstance(outcome, Refused)


async def test_a_hold_whose_order_was_cancelled_cannot_be_confirmed_again(shop):
    await on_sale(shop)
    hold = await held(shop)
    order = (await shop.confirm_hold(hold.id)).order
    await shop.cancel_order(order.id)
    async with nothing_changes(shop):
        assert await reason(shop.confirm_hold(hold.id)) == Reason.CONFIRMED
    assert isinstance(await shop.place_hold(E1, buyer="bob", **BASKET), Placed)


PRICE = 999_999_999_999
MANY = 999_999


async def test_money_is_exact_to_the_last_cent_where_it_is_most(shop):
    await on_sale(
        shop,
        prices={"floor": PRICE},
        sections=[],
        pools=[{"id": "floor", "capacity": 9 * MANY, "tier": "floor"}],
    )
    amounts = [(await sold(shop, pools={"floor": MANY})).amount for _ in range(9)]
    assert amounts == [MANY * PRICE] * 9
    assert (await summary(shop)).revenue == 9 * MANY * PRICE


@pytest.mark.parametrize("pools", [1, 12])
async def test_money_past_what_a_store_can_count_is_a_typed_no_and_never_a_wrong_sum(shop, pools):
    """One order of twelve pools is past 64 bits by itself; twelve orders of one pool together."""
    revenue = 0
    with suppress(Invalid):
        await on_sale(
            shop,
            prices={"floor": PRICE},
            sections=[],
            pools=[
                {"id": f"p{n}", "capacity": 1_000_000_000, "tier": "floor"} for n in range(pools)
            ],
        )
        for _ in range(12 // pools):
            outcome = await shop.sell(E1, buyer="ann", pools={f"p{n}": MANY for n in range(pools)})
            if isinstance(outcome, Confirmed):
                revenue += outcome.order.amount
    assert [each.revenue for each in await shop.events()] in ([], [revenue])


async def test_money_stays_exact_when_prices_fall_and_capacity_grows(shop):
    """Each price by itself is within the limit; what was earned at the first stays earned."""
    pool = {"id": "floor", "tier": "floor"}
    await on_sale(
        shop, prices={"floor": 10**12}, sections=[], pools=[pool | {"capacity": 9_223_372}]
    )
    revenue = 0
    for quantity in (*[1_000_000] * 9, 223_372):
        revenue += (await sold(shop, pools={"floor": quantity})).amount
    with suppress(Invalid):
        await shop.change_event(E1, prices={"floor": 10**9 + 1})
        await shop.add_capacity(E1, {"pools": [pool | {"capacity": 1_000_000}]})
        outcome = await shop.sell(E1, buyer="ann", pools={"floor": 1_000_000})
        revenue += outcome.order.amount if isinstance(outcome, Confirmed) else 0
    assert (await summary(shop)).revenue == revenue
