"""A hold is dead at its deadline, to the millisecond, and its units are free without a sweeper."""

import asyncio
from typing import Any

import pytest

from holdfast import Expired, Hold, Holdfast, HoldState, Reason, Refused
from holdfast.errors import StoreBusy, StoreUnavailable
from holdfast.upkeep.expire import EXPIRE_BATCH_MAX, Announcer
from tests.contract.helpers import (
    CAPACITY,
    E1,
    GRACE_MS,
    HARD_MS,
    ON_THE_LOG,
    SOFT_MS,
    description,
    held,
    log,
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

BASKET: dict[str, Any] = {"seats": ["A-1-1", "A-1-2"], "pools": {"floor": 10}}
LIMITS = {"max_extensions": 3, "max_per_buyer": 12}

# What was done with a hold right after it was placed, and how long it then lives.
LIVES = {
    "held": ([], SOFT_MS),
    "paying": (["pay"], HARD_MS),
    "extended": (["extend"], 2 * SOFT_MS),
    "extended_a_second": (["extend_a_second"], SOFT_MS + 1_000),
    "paying_then_extended": (["pay", "extend"], 2 * SOFT_MS + GRACE_MS),
    "extended_then_paying": (["extend", "pay"], 2 * SOFT_MS + GRACE_MS),
}
TICKS = {"one_tick_before": -1, "at_the_deadline": 0, "one_tick_after": 1}

FOLLOW = {
    "extend": lambda shop, hold: shop.extend_hold(hold.id),
    "extend_a_second": lambda shop, hold: shop.extend_hold(hold.id, seconds=1),
    "pay": lambda shop, hold: shop.pay_hold(hold.id),
    "confirm": lambda shop, hold: shop.confirm_hold(hold.id),
    "release": lambda shop, hold: shop.release_hold(hold.id),
}

RIVALS = {
    "place_seat": lambda shop: shop.place_hold(E1, buyer="bob", seats=["A-1-2"]),
    "place_best": lambda shop: shop.place_hold(E1, buyer="bob", best=[{"quantity": 5}] * 2),
    "place_stock": lambda shop: shop.place_hold(E1, buyer="bob", pools={"floor": 1}),
    "sell_seat": lambda shop: shop.sell(E1, buyer="bob", seats=["A-1-2"]),
    "sell_best": lambda shop: shop.sell(E1, buyer="bob", best=[{"quantity": 5}] * 2),
    "sell_stock": lambda shop: shop.sell(E1, buyer="bob", pools={"floor": 1}),
    "withdraw_seat": lambda shop: shop.withdraw(E1, seats=["A-1-2"]),
    "withdraw_stock": lambda shop: shop.withdraw(E1, pools={"floor": 1}),
    "cap": lambda shop: shop.place_hold(E1, buyer="ann", seats=["A-2-1"]),
}
REFUSED_WHILE_ALIVE = {
    "place_seat": "no.taken",
    "place_best": "no.not_together",
    "place_stock": "no.sold_out",
    "sell_seat": "no.taken",
    "sell_best": "no.not_together",
    "sell_stock": "no.sold_out",
    "withdraw_seat": "no.taken",
    "withdraw_stock": "no.insufficient",
    "cap": "no.buyer_cap",
}


async def at_the_edge(shop, clock, life: str, tick: str) -> Hold:
    """Ann's hold, a millisecond before its deadline, at it, or a millisecond after."""
    await on_sale(shop, **LIMITS)
    hold = await held(shop, "ann", **BASKET)
    done, lives_ms = LIVES[life]
    for each in done:
        clock.advance(10)
        assert not isinstance(await FOLLOW[each](shop, hold), Refused)
    clock.move_to(hold.placed_ms + lives_ms + TICKS[tick])
    return hold


@pytest.mark.parametrize("tick", TICKS)
@pytest.mark.parametrize("life", LIVES)
@pytest.mark.parametrize("command", FOLLOW)
async def test_the_owner_can_act_until_the_deadline_and_not_at_it(shop, clock, life, tick, command):
    hold = await at_the_edge(shop, clock, life, tick)
    if TICKS[tick] < 0:
        assert not isinstance(await FOLLOW[command](shop, hold), Refused)
        return
    async with nothing_changes(shop):
        outcome = await FOLLOW[command](shop, hold)
    if command == "release":
        assert said(outcome) == "released"
    else:
        assert outcome == Refused(Reason.EXPIRED, hold.id)


@pytest.mark.parametrize("tick", TICKS)
@pytest.mark.parametrize("life", LIVES)
@pytest.mark.parametrize("rival", RIVALS)
async def test_others_can_have_the_units_at_the_deadline_and_not_before(
    shop, clock, life, tick, rival
):
    await at_the_edge(shop, clock, life, tick)
    if TICKS[tick] < 0:
        async with nothing_changes(shop):
            assert said(await RIVALS[rival](shop)) == REFUSED_WHILE_ALIVE[rival]
    else:
        assert not isinstance(await RIVALS[rival](shop), Refused)


@ON_THE_LOG
@pytest.mark.parametrize("tick", TICKS)
@pytest.mark.parametrize("life", LIVES)
async def test_every_view_shows_the_deadline_at_the_same_millisecond(shop, clock, life, tick):
    hold = await at_the_edge(shop, clock, life, tick)
    alive = TICKS[tick] < 0
    assert ((await shop.hold(hold.id)).state is HoldState.EXPIRED) != alive
    assert (await summary(shop)).held == (12 if alive else 0)
    assert (await seat_states(shop))["A-1-1"] == ("held" if alive else "available")
    assert (await pools_left(shop))["floor"] == (0 if alive else 10)
    assert await shop.store.due() == ([] if alive else [E1])


@ON_THE_LOG
@pytest.mark.parametrize("tick", TICKS)
@pytest.mark.parametrize("life", LIVES)
async def test_the_sweep_announces_at_the_deadline_and_not_before(shop, clock, life, tick):
    hold = await at_the_edge(shop, clock, life, tick)
    seq = (await summary(shop)).seq
    if TICKS[tick] < 0:
        async with nothing_changes(shop):
            assert await shop.expire(E1, 10) == Expired(0)
        return
    assert await shop.expire(E1, 10) == Expired(1)
    (fact,) = await log(shop, after=seq)
    assert (fact.type, fact.data["hold"]) == ("hold.expired", hold.id)
    assert await shop.store.due() == []
    async with nothing_changes(shop):
        assert await shop.expire(E1, 10) == Expired(0)


@pytest.mark.parametrize("begun_ms", [0, 1, SOFT_MS - 1])
@pytest.mark.parametrize("tick", TICKS)
async def test_payment_begun_before_the_soft_deadline_keeps_the_units_past_it(
    shop, clock, begun_ms, tick
):
    await on_sale(shop)
    hold = await held(shop, "ann", **BASKET)
    clock.advance(begun_ms)
    await shop.pay_hold(hold.id)
    clock.move_to(hold.soft_ms + max(TICKS[tick], begun_ms - SOFT_MS))
    assert await reason(shop.place_hold(E1, buyer="bob", seats=["A-1-1"])) == Reason.TAKEN
    assert await reason(shop.place_hold(E1, buyer="bob", pools={"floor": 1})) == Reason.SOLD_OUT
    assert said(await shop.confirm_hold(hold.id)) == "confirmed"


async def test_without_grace_a_paying_hold_dies_at_the_soft_deadline(shop, clock):
    await on_sale(shop, grace_seconds=0)
    hold = await held(shop, "ann", **BASKET)
    await shop.pay_hold(hold.id)
    clock.advance(SOFT_MS)
    assert await shop.confirm_hold(hold.id) == Refused(Reason.EXPIRED, hold.id)
    assert (await held(shop, "bob", **BASKET)).buyer == "bob"


@ON_THE_LOG
@pytest.mark.parametrize("rival", [each for each in RIVALS if each != "cap"])
async def test_whoever_takes_a_dead_holds_unit_announces_its_end_first(shop, clock, rival):
    hold = await at_the_edge(shop, clock, "held", "at_the_deadline")
    seq = (await summary(shop)).seq
    await RIVALS[rival](shop)
    first, second = await log(shop, after=seq)
    assert (first.type, first.data["hold"]) == ("hold.expired", hold.id)
    assert first.data["seats"] == list(BASKET["seats"])
    assert first.data["pools"] == BASKET["pools"]
    assert first.data["version"] == 2
    assert second.type != "hold.expired"
    assert (await shop.hold(hold.id)).state is HoldState.EXPIRED
    assert await shop.store.due() == []


@ON_THE_LOG
async def test_a_dead_holds_other_units_free_themselves(shop, clock):
    await on_sale(shop)
    await held(shop, "ann", seats=["A-1-1", "A-1-2", "A-1-3"], pools={"floor": 10})
    clock.advance(SOFT_MS)
    await held(shop, "bob", seats=["A-1-2"])
    assert await numbers(shop) == (CAPACITY, CAPACITY - 1, 1, 0)
    states = await seat_states(shop)
    assert [states[f"A-1-{n}"] for n in (1, 2, 3)] == ["available", "held", "available"]
    assert (await pools_left(shop))["floor"] == 10
    await held(shop, "cid", seats=["A-1-1"])
    await sold(shop, "dee", seats=["A-1-3"])
    await held(shop, "eve", pools={"floor": 10})
    assert await log_types(shop, after=2) == [
        "hold.expired",
        "hold.placed",
        "hold.placed",
        "order.confirmed",
        "hold.placed",
    ]


@ON_THE_LOG
async def test_one_ask_may_bury_many_dead_holds_each_announced_once(shop, clock):
    await on_sale(shop)
    holds = [
        (await held(shop, f"u{n}", seats=[f"A-1-{n}", f"A-2-{n}"], pools={"floor": 2})).id
        for n in range(1, 6)
    ]
    clock.advance(SOFT_MS)
    await held(shop, "bob", seats=["A-1-1", "A-2-1", "A-1-2"], best=1, pools={"floor": 9})
    facts = await log(shop, after=6)
    assert [fact.type for fact in facts] == ["hold.expired"] * 5 + ["hold.placed"]
    assert sorted(fact.data["hold"] for fact in facts[:-1]) == sorted(holds)


@ON_THE_LOG
async def test_a_dead_hold_is_announced_once_by_whoever_comes_first(shop, clock):
    await on_sale(shop)
    await held(shop, "ann", **BASKET)
    clock.advance(SOFT_MS)
    outcomes = await asyncio.gather(
        shop.place_hold(E1, buyer="u1", seats=["A-1-1"]),
        shop.place_hold(E1, buyer="u2", seats=["A-1-2"]),
        shop.expire(E1, 10),
        shop.place_hold(E1, buyer="u3", pools={"floor": 10}),
        shop.expire(E1, 10),
    )
    assert list(map(said, outcomes)) == ["placed", "placed", "expired", "placed", "expired"]
    assert (await log_types(shop)).count("hold.expired") == 1


async def test_a_refused_ask_announces_nothing(shop, clock):
    await on_sale(shop)
    await held(shop, "ann", seats=["A-1-1"])
    clock.advance(1)
    await held(shop, "bob", seats=["A-1-2"])
    clock.advance(SOFT_MS - 1)
    async with nothing_changes(shop):
        assert await shop.place_hold(E1, buyer="cid", seats=["A-1-1", "A-1-2"]) == Refused(
            Reason.TAKEN, seats=("A-1-2",)
        )


@ON_THE_LOG
async def test_his_own_dead_hold_is_not_given_back_but_replaced(shop, clock):
    await on_sale(shop)
    first = await held(shop, "ann", **BASKET)
    clock.advance(SOFT_MS)
    second = await held(shop, "ann", **BASKET)
    assert second.id != first.id
    assert await log_types(shop, after=2) == ["hold.expired", "hold.placed"]


async def test_the_dead_cannot_release_what_the_next_owner_has(shop, clock):
    await on_sale(shop)
    first = await held(shop, "ann", **BASKET)
    clock.advance(SOFT_MS)
    second = await held(shop, "bob", **BASKET)
    async with nothing_changes(shop):
        for follow in FOLLOW.values():
            await follow(shop, first)
    assert await shop.hold(second.id) == second


@ON_THE_LOG
async def test_the_sweep_goes_by_age_and_by_its_limit(shop, clock):
    await on_sale(shop)
    holds = []
    for n in range(1, 6):
        holds.append((await held(shop, f"u{n}", seats=[f"A-1-{n}"])).id)
        clock.advance(1)
    clock.advance(SOFT_MS)
    assert await shop.expire(E1, 2) == Expired(2)
    assert await shop.expire(E1, 2) == Expired(2)
    assert await shop.expire(E1, 2) == Expired(1)
    expired = [fact.data["hold"] for fact in await log(shop) if fact.type == "hold.expired"]
    assert expired == holds


async def test_the_sweep_changes_nothing_but_the_announcement(shop, clock):
    await on_sale(shop)
    await held(shop, "ann", **BASKET)
    clock.advance(SOFT_MS)
    before = await shop.seats(E1)
    numbers_before = await numbers(shop)
    await shop.expire(E1, 10)
    after = await shop.seats(E1)
    assert (after.seats, after.pools) == (before.seats, before.pools)
    assert await numbers(shop) == numbers_before


async def test_a_hold_that_is_extended_in_the_same_batch_as_a_sweep_is_not_announced(shop, clock):
    await on_sale(shop)
    hold = await held(shop, "ann", **BASKET)
    clock.advance(SOFT_MS - 1)
    extended, swept = await asyncio.gather(shop.extend_hold(hold.id), shop.expire(E1, 10))
    assert (said(extended), swept) == ("extended", Expired(0))


@ON_THE_LOG
@pytest.mark.parametrize("count", [0, 1, EXPIRE_BATCH_MAX, EXPIRE_BATCH_MAX + 1])
async def test_the_announcer_says_all_that_is_due_in_every_event(shop, clock, count):
    stock = [{"id": "floor", "capacity": 1_000, "tier": "floor"}]
    for event in ("e1", "e2"):
        await shop.create_event(description(id=event, pools=stock))
        await asyncio.gather(
            *[shop.place_hold(event, buyer=f"u{n}", pools={"floor": 1}) for n in range(count)]
        )
    clock.advance(SOFT_MS)
    announcer = Announcer(shop.expire, shop.store.due, 1.0)
    assert await announcer.announce() == 2 * count
    assert await announcer.announce() == 0
    for event in ("e1", "e2"):
        types = [entry.type for entry in await log(shop, event)]
        assert types.count("hold.expired") == count


@ON_THE_LOG
async def test_the_announcer_goes_on_by_itself_also_after_trouble(shop: Holdfast, clock):
    await on_sale(shop)
    await held(shop, "ann", **BASKET)
    clock.advance(SOFT_MS)
    troubles = [StoreUnavailable("away"), StoreBusy("locked")]
    announced = asyncio.Event()

    async def due() -> list[str]:
        if troubles:
            raise troubles.pop()
        return await shop.store.due()

    async def expire(event: str, limit: int) -> Expired | Refused:
        outcome = await shop.expire(event, limit)
        announced.set()
        return outcome

    announcer = Announcer(expire, due, 0.001)
    announcer.start()
    await asyncio.wait_for(announced.wait(), timeout=30)
    await announcer.stop()
    assert await log_types(shop, after=2) == ["hold.expired"]
