"""Every view is read from the authority in one snapshot, and says of which fact it is."""

import asyncio

import pytest

from holdfast import Holdfast, HoldState
from holdfast.domain.model import SeatState
from holdfast.domain.views import PoolView, SeatView, Statuses
from tests.contract.helpers import (
    CAPACITY,
    E1,
    FLOOR,
    GOLD,
    ON_THE_LOG,
    SEATS,
    SOFT_MS,
    STOCK,
    description,
    held,
    numbers,
    on_sale,
    pools_left,
    seat_states,
    sold,
    summary,
)


async def test_the_summary_follows_every_step_of_a_sale(shop, clock):
    await on_sale(shop)
    steps = [await numbers(shop)]

    async def then(step):
        outcome = await step
        steps.append(await numbers(shop))
        return outcome

    placed = await then(
        shop.place_hold(E1, buyer="ann", seats=["A-1-1", "A-1-2"], pools={"floor": 3})
    )
    await then(shop.pay_hold(placed.hold.id))
    confirmed = await then(shop.confirm_hold(placed.hold.id))
    await then(shop.sell(E1, buyer="bob", pools={"floor": 2}))
    await then(shop.place_hold(E1, buyer="cid", seats=["A-2-1"]))
    await then(shop.cancel_order(confirmed.order.id))
    clock.advance(SOFT_MS)
    steps.append(await numbers(shop))
    await then(shop.expire(E1, 10))
    await then(shop.withdraw(E1, seats=["A-2-1"], pools={"floor": 4}))
    c = CAPACITY
    assert steps == [
        (c, c, 0, 0),
        (c, c - 5, 5, 0),
        (c, c - 5, 5, 0),
        (c, c - 5, 0, 5),
        (c, c - 7, 0, 7),
        (c, c - 8, 1, 7),
        (c, c - 3, 1, 2),
        (c, c - 2, 0, 2),
        (c, c - 2, 0, 2),
        (c - 5, c - 7, 0, 2),
    ]


@pytest.mark.parametrize(
    ("bought", "percent"), [(0, 0.0), (1, 6.67), (5, 33.33), (10, 66.67), (15, 100.0)]
)
async def test_the_summary_says_how_much_is_sold_and_earned(shop, bought, percent):
    await on_sale(shop, sections=[], pools=[{"id": "floor", "capacity": 15, "tier": "floor"}])
    if bought:
        await sold(shop, pools={"floor": bought})
    found = await summary(shop)
    assert (found.percent_sold, found.revenue) == (percent, bought * FLOOR)
    assert found.available == 15 - bought


async def test_an_event_withdrawn_to_nothing_is_zero_percent_sold(shop):
    await on_sale(shop, sections=[], pools=[{"id": "floor", "capacity": 1, "tier": "floor"}])
    await shop.withdraw(E1, pools={"floor": 1})
    assert (await summary(shop)).percent_sold == 0.0
    assert await numbers(shop) == (0, 0, 0, 0)


async def test_all_events_are_listed_by_id(shop):
    assert await shop.events() == []
    for event in ("e2", "e10", "E1", "a"):
        await shop.create_event(description(id=event))
    found = await shop.events()
    assert [each.event.id for each in found] == ["E1", "a", "e10", "e2"]
    assert found[1] == await shop.event("a")


@ON_THE_LOG
async def test_the_map_shows_every_seat_where_it_is_and_how_it_stands(shop):
    await on_sale(
        shop,
        sections=[{"id": "A", "tier": "gold", "rows": 2, "seats_per_row": 2}],
        seats=[
            {
                "id": "BOX",
                "section": "B",
                "row": "b",
                "number": 7,
                "tier": "silver",
                "x": 1.5,
                "y": -2,
                "accessible": True,
                "restricted_view": True,
            }
        ],
        pools=[{"id": "floor", "capacity": 10, "tier": "floor"}],
    )
    await held(shop, seats=["A-1-2"], pools={"floor": 3})
    await sold(shop, seats=["A-2-1"], pools={"floor": 4})
    seat_map = await shop.seats(E1)
    assert seat_map.seq == 3
    assert seat_map.seats == [
        SeatView("A-1-1", "A", "1", 1, "gold", 1.0, 1.0, SeatState.AVAILABLE),
        SeatView("A-1-2", "A", "1", 2, "gold", 2.0, 1.0, SeatState.HELD),
        SeatView("A-2-1", "A", "2", 1, "gold", 1.0, 2.0, SeatState.SOLD),
        SeatView("A-2-2", "A", "2", 2, "gold", 2.0, 2.0, SeatState.AVAILABLE),
        SeatView(
            *("BOX", "B", "b", 7, "silver", 1.5, -2.0, SeatState.AVAILABLE),
            accessible=True,
            restricted_view=True,
        ),
    ]
    assert seat_map.pools == [PoolView("floor", 10, 3, "floor")]


async def same_as_the_map(shop: Holdfast) -> Statuses:
    """The statuses, which must tell what the map does."""
    seat_map = await shop.store.seat_map(E1)
    statuses = await shop.store.statuses(E1)
    assert seat_map is not None
    assert statuses is not None
    by_state = {
        state: sorted(seat.id for seat in seat_map.seats if seat.state is state)
        for state in SeatState
    }
    assert sorted(statuses.held) == by_state[SeatState.HELD]
    assert sorted(statuses.sold) == by_state[SeatState.SOLD]
    assert (statuses.seq, statuses.pools) == (seat_map.seq, seat_map.pools)
    assert statuses.event == (await summary(shop)).event
    return statuses


@ON_THE_LOG
async def test_the_statuses_tell_what_the_map_tells(shop, clock):
    await on_sale(shop)
    nothing = await same_as_the_map(shop)
    assert (nothing.held, nothing.sold, nothing.now_ms) == ([], [], clock())
    await held(shop, "ann", seats=["A-1-1", "A-1-2"], pools={"floor": 4})
    clock.advance(SOFT_MS - 1)
    at_the_end = await same_as_the_map(shop)
    assert sorted(at_the_end.held) == ["A-1-1", "A-1-2"]
    clock.advance(1)
    assert (await same_as_the_map(shop)).held == [], "expired, though nobody has said so"
    await held(shop, "bob", seats=["A-1-2", "A-1-3"], pools={"floor": 1})
    await sold(shop, "cid", seats=["A-2-1", "A-2-2"], pools={"floor": 3})
    lost = await sold(shop, "dan", seats=["B-1-1"])
    await shop.cancel_order(lost.id)
    await shop.withdraw(E1, seats=["A-1-5", "A-2-5"], pools={"floor": 1})
    await held(shop, "eve", seats=["S-1-1"], pools={"stand": 2}, channels=["sponsors"])
    mixed = await same_as_the_map(shop)
    assert sorted(mixed.held) == ["A-1-2", "A-1-3", "S-1-1"]
    assert sorted(mixed.sold) == ["A-2-1", "A-2-2"]
    assert [(pool.id, pool.available) for pool in mixed.pools] == [("floor", 5), ("stand", 3)]
    assert mixed.event.layout == nothing.event.layout + 1
    assert mixed.now_ms == clock()
    await shop.expire(E1, 10)
    await same_as_the_map(shop)


async def test_the_statuses_are_right_whatever_the_ids_of_seats_are(shop):
    ids = ["a,b", "it's", '"', "\\", "á", "😀", "{x}", "%s", "a b"]
    seats = [{"id": id, "section": "A", "number": n, "tier": "gold"} for n, id in enumerate(ids, 1)]
    await on_sale(shop, sections=[], seats=seats)
    await sold(shop, seats=ids)
    assert sorted((await same_as_the_map(shop)).sold) == sorted(ids)


@pytest.mark.slow
@ON_THE_LOG
async def test_the_statuses_of_a_large_house_lack_no_seat(shop):
    await on_sale(shop, sections=[{"id": "A", "tier": "gold", "rows": 40, "seats_per_row": 100}])
    for row in range(1, 31):
        ids = [f"A-{row}-{number}" for number in range(1, 101)]
        for start in range(0, 100, 20):
            take = held if row % 2 else sold
            await take(shop, f"u{row}-{start}", seats=ids[start : start + 20])
    statuses = await same_as_the_map(shop)
    assert (len(statuses.held), len(statuses.sold)) == (1_500, 1_500)


async def test_pools_are_listed_in_the_same_order_on_every_store(shop):
    pools = [{"id": id, "capacity": 1, "tier": "floor"} for id in ("m", "z", "a", "B")]
    await on_sale(shop, pools=pools)
    await shop.add_capacity(E1, {"pools": [{"id": "c", "capacity": 1, "tier": "floor"}]})
    assert list(await pools_left(shop)) == ["B", "a", "c", "m", "z"]


async def test_added_seats_stand_behind_those_that_were_there(shop):
    await on_sale(shop)
    extra = {"id": "AA", "section": "A", "number": 1, "tier": "gold"}
    await shop.add_capacity(E1, {"seats": [extra]})
    await shop.withdraw(E1, seats=["A-1-1"])
    ids = list(await seat_states(shop))
    assert ids[0] == "A-1-2"
    assert ids[-1] == "AA"
    assert len(ids) == SEATS


@ON_THE_LOG
async def test_the_map_and_the_numbers_agree_at_any_time(shop, clock):
    await on_sale(shop)
    named = {"channels": ["sponsors"]}

    async def agree() -> None:
        found = await summary(shop)
        seats = list((await seat_states(shop, **named)).values())
        left = sum((await pools_left(shop, **named)).values())
        assert found.available == seats.count("available") + left
        assert found.held == seats.count("held") + sum(
            claim.quantity
            for claim in (await shop.store.census(E1)).claims
            if claim.until_ms > clock()
        )

    await agree()
    first = await held(shop, "ann", seats=["A-1-1"], pools={"floor": 4})
    await agree()
    await shop.pay_hold(first.id)
    await held(shop, "bob", best=3, pools={"stand": 5}, **named)
    await agree()
    clock.advance(SOFT_MS)
    await agree()
    await sold(shop, "cid", best=2, pools={"floor": 6})
    await agree()
    await shop.expire(E1, 10)
    await agree()


async def test_a_hold_and_an_order_are_read_by_their_ids(shop, clock):
    await on_sale(shop)
    hold = await held(shop, id="h1", seats=["A-1-1"])
    assert await shop.hold("e1.h1") == hold
    clock.advance(SOFT_MS)
    assert (await shop.hold("e1.h1")).state is HoldState.EXPIRED
    order = await sold(shop, order="o1", seats=["A-1-1"])
    assert await shop.order("e1.o1") == order
    assert order.created_at.timestamp() * 1000 == clock()


@pytest.mark.parametrize("id", ["e1.x", "e2.h1", "nope.h1", "h1", "", ".", "e1.", ".h1", "e1.H1"])
async def test_what_does_not_exist_is_none(shop, id):
    await on_sale(shop)
    await held(shop, id="h1", seats=["A-1-1"])
    await sold(shop, order="h1", seats=["A-1-2"])
    assert await shop.hold(id) is None
    assert await shop.order(id) is None


@pytest.mark.parametrize("event", ["nope", "E1", "", "e1 ", "e1.x", "%", "'; DROP TABLE events;--"])
async def test_an_event_that_does_not_exist_has_no_views(shop, event):
    await on_sale(shop)
    assert await shop.event(event) is None
    assert await shop.seats(event) is None
    assert await shop.store.statuses(event) is None
    assert await shop.log(event) == []
    assert await shop.store.census(event) is None


async def test_a_view_never_shows_half_a_basket(shop):
    await on_sale(shop)
    rows = [[f"A-{row}-{number}" for number in range(1, 6)] for row in (1, 2)]

    async def look() -> None:
        seat_map = await shop.seats(E1)
        states = {seat.id: seat.state for seat in seat_map.seats}
        for row in rows:
            assert len({states[seat] for seat in row}) == 1

    async def churn(buyer: str, row: list[str]) -> None:
        for _ in range(10):
            hold = await held(shop, buyer, seats=row, pools={"floor": 5})
            await shop.release_hold(hold.id)

    await asyncio.gather(churn("ann", rows[0]), churn("bob", rows[1]), *[look() for _ in range(40)])
    assert await numbers(shop) == (CAPACITY, CAPACITY, 0, 0)


@ON_THE_LOG
async def test_the_census_lists_every_row(shop, clock):
    await on_sale(shop)
    await held(shop, id="h1", seats=["A-1-1"], pools={"floor": 2})
    await sold(shop, order="o1", seats=["A-1-2"])
    census = await shop.store.census(E1)
    assert (len(census.seats), sum(pool.capacity for pool in census.pools)) == (SEATS, STOCK)
    assert [hold.id for hold in census.holds] == ["e1.h1"]
    assert [order.id for order in census.orders] == ["e1.o1"]
    assert [(claim.pool, claim.quantity) for claim in census.claims] == [("floor", 2)]
    assert census.sold_seats == {"A-1-2": "e1.o1"}
    assert (census.seq, census.capacity, census.sold, census.revenue) == (3, CAPACITY, 1, GOLD)
    assert census.now == clock()
