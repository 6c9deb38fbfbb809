"""Counted stock is never oversold, and what dead holds had of it comes back when it runs short."""

import asyncio

import pytest

from holdfast import Expired, HoldState, Placed, Reason, Refused
from tests.contract.helpers import (
    E1,
    FLOOR,
    IN_ORDER,
    ON_THE_LOG,
    SOFT_MS,
    held,
    log,
    log_types,
    nothing_changes,
    on_sale,
    pools_left,
    reason,
    said,
    sold,
    summary,
)


async def pool_row(shop, id: str = "floor"):
    """The pool as it is written, lapsed claims included."""
    census = await shop.store.census(E1)
    return next(pool for pool in census.pools if pool.id == id)


async def claims(shop) -> dict[str, int]:
    census = await shop.store.census(E1)
    return {claim.hold: claim.quantity for claim in census.claims}


@pytest.mark.parametrize("way", ["hold", "sell"])
@pytest.mark.parametrize(
    ("quantity", "refusal"),
    [
        (1, None),
        (10, None),
        (11, Refused(Reason.INSUFFICIENT, pools=("floor",), available=10)),
        (1_000_000, Refused(Reason.INSUFFICIENT, pools=("floor",), available=10)),
    ],
)
async def test_a_pool_gives_what_it_has_and_no_more(shop, way, quantity, refusal):
    await on_sale(shop)
    ask = shop.place_hold if way == "hold" else shop.sell
    outcome = await ask(E1, buyer="ann", pools={"floor": quantity})
    if refusal is None:
        assert said(outcome) == ("placed" if way == "hold" else "confirmed")
        assert (await pools_left(shop))["floor"] == 10 - quantity
    else:
        assert outcome == refusal


@pytest.mark.parametrize("way", ["hold", "sell"])
async def test_an_empty_pool_is_sold_out(shop, way):
    await on_sale(shop)
    await held(shop, pools={"floor": 4})
    await sold(shop, pools={"floor": 6})
    ask = shop.place_hold if way == "hold" else shop.sell
    async with nothing_changes(shop):
        outcome = await ask(E1, buyer="bob", pools={"floor": 1})
    assert outcome == Refused(Reason.SOLD_OUT, pools=("floor",), available=0)


@pytest.mark.parametrize("quantity", [1, 3, 7])
async def test_a_crowd_gets_exactly_what_there_is(shop, quantity):
    await on_sale(shop)
    outcomes = await asyncio.gather(
        *[shop.place_hold(E1, buyer=f"u{n}", pools={"floor": quantity}) for n in range(50)]
    )
    placed = sum(isinstance(outcome, Placed) for outcome in outcomes)
    assert placed == 10 // quantity
    assert (await pools_left(shop))["floor"] == 10 % quantity
    assert (await summary(shop)).held == placed * quantity


async def test_smaller_asks_behind_a_greedy_one_are_still_met(shop):
    await on_sale(shop)
    outcomes = await asyncio.gather(
        shop.place_hold(E1, buyer="u1", pools={"floor": 8}),
        shop.place_hold(E1, buyer="u2", pools={"floor": 8}),
        shop.place_hold(E1, buyer="u3", pools={"floor": 2}),
    )
    assert list(map(said, outcomes)) == ["placed", "no.insufficient", "placed"]
    assert outcomes[1].available == 2


async def test_stock_costs_its_tiers_price_each(shop):
    await on_sale(shop)
    assert (await held(shop, pools={"floor": 3})).amount == 3 * FLOOR


@ON_THE_LOG
async def test_lapsed_claims_are_left_alone_while_there_is_enough(shop, clock):
    await on_sale(shop)
    hold = await held(shop, "ann", pools={"floor": 4})
    clock.advance(SOFT_MS)
    await held(shop, "bob", pools={"floor": 6})
    assert (await claims(shop))[hold.id] == 4
    assert (await pool_row(shop)).held == 10
    assert (await pools_left(shop))["floor"] == 4
    assert (await summary(shop)).held == 6
    assert await log_types(shop, after=2) == ["hold.placed"]


@ON_THE_LOG
@pytest.mark.parametrize("way", ["hold", "sell", "withdraw"])
async def test_lapsed_claims_come_back_when_stock_is_short_and_are_announced_first(
    shop, clock, way
):
    await on_sale(shop)
    hold = await held(shop, "ann", pools={"floor": 10})
    clock.advance(SOFT_MS)
    if way == "hold":
        await held(shop, "bob", pools={"floor": 1})
    elif way == "sell":
        await sold(shop, "bob", pools={"floor": 1})
    else:
        await shop.withdraw(E1, pools={"floor": 1})
    facts = await log(shop, after=2)
    assert facts[0].type == "hold.expired"
    assert facts[0].data["hold"] == hold.id
    assert len(facts) == 2
    assert hold.id not in await claims(shop)
    assert (await shop.hold(hold.id)).state is HoldState.EXPIRED
    assert (await pools_left(shop))["floor"] == 9


@ON_THE_LOG
@pytest.mark.parametrize(("quantity", "reclaimed"), [(1, 1), (2, 1), (3, 2), (4, 2), (10, 5)])
async def test_only_as_many_lapsed_claims_as_needed_come_back_the_oldest_first(
    shop, clock, quantity, reclaimed
):
    await on_sale(shop)
    holds = []
    for _ in range(5):
        holds.append((await held(shop, "ann", pools={"floor": 2})).id)
        clock.advance(1)
    clock.advance(SOFT_MS)
    await held(shop, "bob", id="b", pools={"floor": quantity})
    expired = [fact.data["hold"] for fact in await log(shop) if fact.type == "hold.expired"]
    assert expired == holds[:reclaimed]
    assert await claims(shop) == dict.fromkeys(holds[reclaimed:], 2) | {"e1.b": quantity}
    assert (await pools_left(shop))["floor"] == 10 - quantity


async def test_live_claims_never_come_back_however_short_the_stock(shop, clock):
    await on_sale(shop)
    dead = await held(shop, "ann", pools={"floor": 4})
    clock.advance(1)
    alive = await held(shop, "bob", pools={"floor": 6})
    clock.advance(SOFT_MS - 1)
    async with nothing_changes(shop):
        outcome = await shop.place_hold(E1, buyer="cid", pools={"floor": 5})
    assert outcome == Refused(Reason.INSUFFICIENT, pools=("floor",), available=4)
    await held(shop, "cid", pools={"floor": 4})
    assert (await shop.hold(dead.id)).state is HoldState.EXPIRED
    assert (await shop.hold(alive.id)).state is HoldState.HELD


async def test_a_refused_ask_gives_no_claims_back(shop, clock):
    await on_sale(shop)
    await held(shop, "ann", pools={"floor": 4})
    clock.advance(SOFT_MS)
    async with nothing_changes(shop):
        assert await reason(shop.place_hold(E1, buyer="bob", pools={"floor": 11})) == (
            Reason.INSUFFICIENT
        )


async def test_an_announced_hold_has_given_its_claims_back(shop, clock):
    await on_sale(shop)
    await held(shop, "ann", id="a", pools={"floor": 4})
    await held(shop, "bob", id="b", pools={"floor": 5})
    clock.advance(SOFT_MS)
    assert await shop.expire(E1, 10) == Expired(2)
    assert await claims(shop) == {}
    assert (await pool_row(shop)).held == 0


@ON_THE_LOG
async def test_a_dead_hold_announced_for_its_seat_leaves_its_claim_to_be_had(shop, clock):
    await on_sale(shop)
    hold = await held(shop, "ann", seats=["A-1-1"], pools={"floor": 10})
    clock.advance(SOFT_MS)
    await held(shop, "bob", seats=["A-1-1"])
    assert (await pools_left(shop))["floor"] == 10
    await held(shop, "cid", pools={"floor": 10})
    assert (await log_types(shop)).count("hold.expired") == 1
    assert hold.id not in await claims(shop)


@ON_THE_LOG
async def test_a_dead_hold_announced_for_one_pool_leaves_its_claim_on_another_to_be_had(
    shop, clock
):
    await on_sale(
        shop,
        pools=[
            {"id": "floor", "capacity": 3, "tier": "floor"},
            {"id": "stand", "capacity": 2, "tier": "stand"},
        ],
    )
    await held(shop, "ann", pools={"floor": 3, "stand": 2})
    clock.advance(SOFT_MS)
    await held(shop, "bob", pools={"floor": 3})
    assert await pools_left(shop) == {"floor": 0, "stand": 2}
    await held(shop, "cid", pools={"stand": 2})
    assert await pools_left(shop) == {"floor": 0, "stand": 0}
    assert (await log_types(shop)).count("hold.expired") == 1


@ON_THE_LOG
async def test_a_reclaimed_hold_frees_its_seats_too(shop, clock):
    await on_sale(shop)
    await held(shop, "ann", seats=["A-1-1"], pools={"floor": 10})
    clock.advance(SOFT_MS)
    await held(shop, "bob", pools={"floor": 10})
    await held(shop, "cid", seats=["A-1-1"])
    assert (await log_types(shop)).count("hold.expired") == 1


@ON_THE_LOG
async def test_a_reclaim_and_a_sweep_in_one_batch_give_back_once(shop, clock):
    await on_sale(shop)
    for n in range(5):
        await held(shop, f"u{n}", pools={"floor": 2})
    clock.advance(SOFT_MS)
    outcomes = await asyncio.gather(
        shop.place_hold(E1, buyer="zed", seats=["A-1-1"]),
        shop.place_hold(E1, buyer="ann", pools={"floor": 3}),
        shop.expire(E1, 10),
        shop.place_hold(E1, buyer="bob", pools={"floor": 7}),
        shop.place_hold(E1, buyer="cid", pools={"floor": 1}),
    )
    assert list(map(said, outcomes)) == ["placed", "placed", "expired", "placed", "no.sold_out"]
    assert (await log_types(shop)).count("hold.expired") == 5
    assert (await pool_row(shop)).held == 10


@IN_ORDER
async def test_stock_released_in_a_batch_is_there_for_the_next_in_it(shop):
    await on_sale(shop)
    hold = await held(shop, pools={"floor": 10})
    outcomes = await asyncio.gather(
        shop.place_hold(E1, buyer="u1", pools={"floor": 1}),
        shop.release_hold(hold.id),
        shop.place_hold(E1, buyer="u2", pools={"floor": 10}),
    )
    assert list(map(said, outcomes)) == ["no.sold_out", "released", "placed"]


@pytest.mark.parametrize("paying", [False, True])
async def test_extending_and_paying_keep_the_claim_past_the_old_deadline(shop, clock, paying):
    await on_sale(shop)
    hold = await held(shop, "ann", pools={"floor": 10})
    await (shop.pay_hold(hold.id) if paying else shop.extend_hold(hold.id))
    clock.advance(SOFT_MS)
    async with nothing_changes(shop):
        assert await reason(shop.place_hold(E1, buyer="bob", pools={"floor": 1})) == Reason.SOLD_OUT
    assert (await shop.confirm_hold(hold.id)).order.pools == {"floor": 10}
    assert await pools_left(shop) == {"floor": 0, "stand": 0}
    assert (await pool_row(shop)).held == 0


async def test_pools_and_seats_of_the_same_name_are_two_things(shop):
    await on_sale(
        shop, seats=[{"id": "floor", "section": "F", "row": "1", "number": 1, "tier": "gold"}]
    )
    await held(shop, "ann", seats=["floor"])
    await held(shop, "bob", pools={"floor": 10})
    assert (await summary(shop)).held == 11
