"""An event decides what its buyers may do; changing it changes nothing that was promised."""

import asyncio

import pytest

from holdfast import Changed, Created, Event, EventState, Ranking, Reason, Refused
from tests.contract.helpers import (
    CAPACITY,
    E1,
    FLOOR,
    GOLD,
    IN_ORDER,
    ON_THE_LOG,
    SEATS,
    SOFT_MS,
    cells,
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

POOL = {"id": "garden", "capacity": 5, "tier": "floor"}
NEW_ROW = {"sections": [{"id": "C", "tier": "gold", "rows": 1, "seats_per_row": 3}]}

COMMANDS = {
    "place": lambda shop, e: shop.place_hold(e, buyer="bob", seats=["A-2-2"]),
    "place_best": lambda shop, e: shop.place_hold(e, buyer="bob", best=2),
    "place_stock": lambda shop, e: shop.place_hold(e, buyer="bob", pools={"floor": 1}),
    "own_again": lambda shop, e: shop.place_hold(e, buyer="ann", seats=["A-1-1"]),
    "sell": lambda shop, e: shop.sell(e, buyer="bob", seats=["A-2-2"]),
    "extend": lambda shop, e: shop.extend_hold(f"{e}.h1"),
    "pay": lambda shop, e: shop.pay_hold(f"{e}.h1"),
    "release": lambda shop, e: shop.release_hold(f"{e}.h1"),
    "confirm": lambda shop, e: shop.confirm_hold(f"{e}.h1"),
    "cancel": lambda shop, e: shop.cancel_order(f"{e}.o1"),
    "expire": lambda shop, e: shop.expire(e, 10),
    "add": lambda shop, e: shop.add_capacity(e, NEW_ROW),
    "withdraw": lambda shop, e: shop.withdraw(e, seats=["A-2-2"], pools={"floor": 1}),
    "open": lambda shop, e: shop.open_event(e),
    "pause": lambda shop, e: shop.pause_event(e),
    "close": lambda shop, e: shop.close_event(e),
    "rename": lambda shop, e: shop.change_event(e, name="Second night"),
    "create": lambda shop, e: shop.create_event(description(id=e)),
}

TABLE = """
             on_sale    paused          closed          unknown
place        placed     no.not_on_sale  no.not_on_sale  no.unknown_event
place_best   placed     no.not_on_sale  no.not_on_sale  no.unknown_event
place_stock  placed     no.not_on_sale  no.not_on_sale  no.unknown_event
own_again    =placed    =placed         =placed         no.unknown_event
sell         confirmed  no.not_on_sale  no.not_on_sale  no.unknown_event
extend       extended   extended        extended        no.unknown_event
pay          paying     paying          paying          no.unknown_event
release      released   released        released        no.unknown_event
confirm      confirmed  confirmed       confirmed       no.unknown_event
cancel       cancelled  cancelled       cancelled       no.unknown_event
expire       expired    expired         expired         no.unknown_event
add          changed    changed         changed         no.unknown_event
withdraw     changed    changed         changed         no.unknown_event
open         =changed   changed         changed         no.unknown_event
pause        changed    =changed        changed         no.unknown_event
close        changed    changed         =changed        no.unknown_event
rename       changed    changed         changed         no.unknown_event
create       no.exists  no.exists       no.exists       created
"""


@pytest.mark.parametrize(("command", "state", "expected"), cells(TABLE))
async def test_what_becomes_of_a_command_depends_on_the_state_of_the_event(
    shop, setup, clock, command, state, expected
):
    await on_sale(shop)
    await held(shop, "cid", id="dead", seats=["A-2-1"])
    clock.advance(SOFT_MS)
    await held(shop, "ann", id="h1", seats=["A-1-1"])
    await sold(shop, "ann", order="o1", seats=["A-1-2"])
    if state in ("paused", "closed"):
        await shop.change_event(E1, state=state)
    event = "nope" if state == "unknown" else E1
    seqs = [each.seq for each in await shop.events()]
    if expected.startswith(("no.", "=")):
        async with nothing_changes(shop):
            outcome = await COMMANDS[command](shop, event)
    else:
        outcome = await COMMANDS[command](shop, event)
        moved = [each.seq for each in await shop.events()] > seqs
        assert moved or setup.policy == "gate"
    assert said(outcome) == expected.removeprefix("=")
    if expected == "no.not_on_sale":
        assert outcome.value == state
    if expected in ("no.unknown_event", "no.exists"):
        assert outcome.value == event


async def test_a_new_event_is_on_sale_with_everything_available(shop):
    outcome = await shop.create_event(
        {
            "id": "min",
            "prices": {"gold": 100},
            "sections": [{"id": "A", "tier": "gold", "rows": 1, "seats_per_row": 2}],
        }
    )
    assert outcome == Created(
        Event(
            id="min",
            name="min",
            currency="EUR",
            state=EventState.ON_SALE,
            hold_seconds=480,
            grace_seconds=300,
            max_extensions=1,
            max_per_buyer=None,
            prices={"gold": 100},
        )
    )
    found = await shop.event("min")
    assert found.event == outcome.event
    assert (found.capacity, found.available, found.held, found.sold) == (2, 2, 0, 0)
    assert (found.seq, found.revenue, found.percent_sold) == (1, 0, 0.0)


@pytest.mark.parametrize("state", ["on_sale", "paused", "closed"])
async def test_a_new_event_may_start_in_any_state(shop, state):
    await on_sale(shop, state=state)
    placed = await shop.place_hold(E1, buyer="ann", seats=["A-1-1"])
    assert said(placed) == ("placed" if state == "on_sale" else "no.not_on_sale")


async def test_an_event_is_created_once_whoever_is_first(shop):
    outcomes = await asyncio.gather(
        *[shop.create_event(description(name=f"Night {n}")) for n in range(5)]
    )
    assert [said(outcome) for outcome in outcomes] == ["created"] + ["no.exists"] * 4
    assert (await summary(shop)).event.name == "Night 0"
    assert await log_types(shop) == ["event.created"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("name", "Second night"),
        ("state", "paused"),
        ("hold_seconds", 60),
        ("grace_seconds", 0),
        ("max_extensions", 5),
        ("max_per_buyer", 3),
        ("ranking", "centre"),
        ("flash_sale", True),
        ("policy", "gate"),
        ("waiting_room", True),
    ],
)
async def test_a_setting_can_be_changed_and_the_change_is_announced(shop, name, value):
    await on_sale(shop)
    outcome = await shop.change_event(E1, **{name: value})
    assert isinstance(outcome, Changed)
    assert getattr(outcome.event, name) == value
    assert outcome.event.version == 2
    assert (await summary(shop)).event == outcome.event
    fact = (await log(shop))[-1]
    assert (fact.type, fact.data["changed"], fact.data["version"]) == ("event.changed", [name], 2)
    async with nothing_changes(shop):
        assert await shop.change_event(E1, **{name: value}) == outcome


async def test_a_cap_can_be_lifted_again(shop):
    await on_sale(shop, max_per_buyer=1)
    assert (await shop.change_event(E1, max_per_buyer=None)).event.max_per_buyer is None
    await held(shop, pools={"floor": 10})


async def test_a_change_of_price_counts_for_new_holds_and_leaves_other_tiers(shop):
    await on_sale(shop)
    before = await held(shop, seats=["A-1-1"])
    changed = await shop.change_event(E1, prices={"gold": 1})
    assert changed.event.prices["gold"] == 1
    assert changed.event.prices["floor"] == FLOOR
    assert (await held(shop, seats=["A-1-2"])).amount == 1
    assert (await shop.hold(before.id)).amount == GOLD


@IN_ORDER
async def test_commands_around_a_pause_are_decided_in_order_of_arrival(shop):
    await on_sale(shop)
    outcomes = await asyncio.gather(
        shop.place_hold(E1, buyer="u1", seats=["A-1-1"]),
        shop.place_hold(E1, buyer="u2", seats=["A-1-2"]),
        shop.pause_event(E1),
        shop.place_hold(E1, buyer="u3", seats=["A-1-3"]),
        shop.open_event(E1),
        shop.place_hold(E1, buyer="u4", seats=["A-1-4"]),
    )
    assert [said(outcome) for outcome in outcomes] == [
        "placed",
        "placed",
        "changed",
        "no.not_on_sale",
        "changed",
        "placed",
    ]


async def test_added_seats_and_stock_are_on_sale_at_once(shop):
    await on_sale(shop)
    outcome = await shop.add_capacity(
        E1,
        {
            **NEW_ROW,
            "seats": [{"id": "BOX-1", "section": "BOX", "number": 1, "tier": "gold"}],
            "pools": [
                {"id": "floor", "capacity": 5, "tier": "floor"},
                {"id": "garden", "capacity": 7, "tier": "floor"},
            ],
        },
    )
    assert isinstance(outcome, Changed)
    assert (await numbers(shop))[:2] == (CAPACITY + 16, CAPACITY + 16)
    assert (await pools_left(shop))["floor"] == 15
    await held(shop, seats=["C-1-1", "BOX-1"], pools={"floor": 15, "garden": 7})
    fact = (await log(shop))[1]
    assert fact.type == "event.changed"
    assert fact.data["seats_added"] == ["C-1-1", "C-1-2", "C-1-3", "BOX-1"]
    assert fact.data["pools"] == {"floor": 5, "garden": 7}


@pytest.mark.parametrize("state", ["available", "held", "sold"])
async def test_a_seat_that_is_there_cannot_be_added(shop, state):
    await on_sale(shop)
    if state == "held":
        await held(shop, seats=["A-1-1"])
    if state == "sold":
        await sold(shop, seats=["A-1-1"])
    async with nothing_changes(shop):
        outcome = await shop.add_capacity(
            E1,
            {
                "seats": [
                    {"id": id, "section": "A", "number": 1, "tier": "gold"}
                    for id in ("NEW", "A-1-1")
                ],
                "pools": [{"id": "floor", "capacity": 5, "tier": "floor"}],
            },
        )
    assert outcome == Refused(Reason.EXISTS, "A-1-1", seats=("A-1-1",))


@pytest.mark.parametrize(("more", "fits"), [(999_999_990, True), (999_999_991, False)])
async def test_a_pool_grows_to_its_limit_and_not_past_it(shop, more, fits):
    await on_sale(shop)
    units = {"pools": [{"id": "floor", "capacity": more, "tier": "floor"}]}
    if fits:
        assert isinstance(await shop.add_capacity(E1, units), Changed)
        assert (await pools_left(shop))["floor"] == 1_000_000_000
    else:
        async with nothing_changes(shop):
            outcome = await shop.add_capacity(E1, units)
        assert isinstance(outcome, Refused)
        assert outcome.pools == ("floor",)


@pytest.mark.parametrize("way", ["dearer", "more"])
async def test_an_event_cannot_come_to_be_worth_more_than_can_be_counted(shop, way):
    """Past 64 bits a store's sums would go wrong. One step below the limit is well."""
    pools = [{"id": f"p{n}", "capacity": 1_000_000_000, "tier": "floor"} for n in range(9)]
    await on_sale(shop, sections=[], pools=pools, prices={"floor": 10**9})
    async with nothing_changes(shop):
        if way == "dearer":
            outcome = await shop.change_event(E1, prices={"floor": 2 * 10**9})
        else:
            outcome = await shop.add_capacity(E1, {"pools": [pools[0] | {"id": "p9"}]})
    assert isinstance(outcome, Refused)
    if way == "dearer":
        outcome = await shop.change_event(E1, prices={"floor": 10**9 + 10**7})
    else:
        outcome = await shop.add_capacity(E1, {"pools": [POOL | {"capacity": 10**8}]})
    assert isinstance(outcome, Changed)


async def test_withdrawn_units_are_gone_from_sale_and_from_the_map(shop):
    await on_sale(shop)
    outcome = await shop.withdraw(E1, seats=["A-1-1", "A-1-2"], pools={"floor": 4})
    assert isinstance(outcome, Changed)
    assert await numbers(shop) == (CAPACITY - 6, CAPACITY - 6, 0, 0)
    assert len(await seat_states(shop)) == SEATS - 2
    assert (await pools_left(shop))["floor"] == 6
    for ask, why in (
        ({"seats": ["A-1-1"]}, Reason.TAKEN),
        ({"pools": {"floor": 7}}, Reason.INSUFFICIENT),
        ({"best": {"quantity": 9, "section": "A", "together": False}}, Reason.INSUFFICIENT),
    ):
        assert await reason(shop.place_hold(E1, buyer="ann", **ask)) == why
    fact = (await log(shop))[1]
    assert fact.data["seats_withdrawn"] == ["A-1-1", "A-1-2"]
    assert fact.data["pools"] == {"floor": -4}


async def test_withdrawn_seats_can_be_brought_back(shop):
    await on_sale(shop)
    await shop.withdraw(E1, seats=["A-1-1"])
    assert await reason(shop.place_hold(E1, buyer="ann", seats=["A-1-1"])) == Reason.TAKEN
    back = {"seats": [{"id": "A-1-1", "section": "A", "row": "1", "number": 1, "tier": "gold"}]}
    assert isinstance(await shop.add_capacity(E1, back), Changed)
    assert (await numbers(shop))[0] == CAPACITY
    assert (await held(shop, seats=["A-1-1"])).amount == GOLD


@pytest.mark.parametrize(
    ("units", "refusal"),
    [
        ({"seats": ["A-2-1", "A-1-1"]}, Refused(Reason.TAKEN, seats=("A-1-1",))),
        ({"seats": ["A-2-1", "A-1-2"]}, Refused(Reason.TAKEN, seats=("A-1-2",))),
        ({"seats": ["A-2-1", "X-1"]}, Refused(Reason.UNKNOWN_UNIT, seats=("X-1",))),
        ({"seats": ["A-2-1", "A-2-5"]}, Refused(Reason.UNKNOWN_UNIT, seats=("A-2-5",))),
        ({"pools": {"floor": 6}}, Refused(Reason.INSUFFICIENT, pools=("floor",), available=5)),
        ({"pools": {"x": 1}}, Refused(Reason.UNKNOWN_UNIT, pools=("x",))),
        (
            {"seats": ["A-2-1"], "pools": {"floor": 6}},
            Refused(Reason.INSUFFICIENT, pools=("floor",), available=5),
        ),
    ],
)
async def test_only_units_that_are_free_can_be_withdrawn_all_or_nothing(shop, units, refusal):
    await on_sale(shop)
    await held(shop, seats=["A-1-1"], pools={"floor": 2})
    await sold(shop, seats=["A-1-2"], pools={"floor": 3})
    await shop.withdraw(E1, seats=["A-2-5"])
    async with nothing_changes(shop):
        assert await shop.withdraw(E1, **units) == refusal


@ON_THE_LOG
async def test_withdrawing_what_a_dead_hold_had_announces_its_end_first(shop, clock):
    await on_sale(shop)
    hold = await held(shop, seats=["A-1-1", "A-1-2"], pools={"floor": 10})
    clock.advance(SOFT_MS)
    assert isinstance(await shop.withdraw(E1, seats=["A-1-1"], pools={"floor": 10}), Changed)
    facts = await log(shop, after=2)
    assert [fact.type for fact in facts] == ["hold.expired", "event.changed"]
    assert facts[0].data["hold"] == hold.id
    assert await numbers(shop) == (CAPACITY - 11, CAPACITY - 11, 0, 0)


async def test_a_pool_can_be_withdrawn_to_the_last_unit_and_filled_again(shop):
    await on_sale(shop)
    await shop.withdraw(E1, pools={"floor": 10})
    assert await shop.place_hold(E1, buyer="ann", pools={"floor": 1}) == Refused(
        Reason.SOLD_OUT, pools=("floor",), available=0
    )
    await shop.add_capacity(E1, {"pools": [{"id": "floor", "capacity": 1, "tier": "floor"}]})
    await held(shop, pools={"floor": 1})


async def test_a_change_of_ranking_counts_for_the_next_choice(shop):
    far = {"id": "far", "section": "F", "number": 1, "tier": "gold", "rank": 1, "y": 99}
    await on_sale(shop, seats=[far])
    assert (await held(shop, best=1)).seats == ("A-1-3",)
    await shop.change_event(E1, ranking=Ranking.RANK)
    assert (await held(shop, best=1)).seats == ("far",)


@IN_ORDER
async def test_units_added_and_withdrawn_among_holds_leave_the_books_right(shop):
    await on_sale(shop)
    before = await asyncio.gather(
        shop.place_hold(E1, buyer="u1", best=2),
        shop.withdraw(E1, seats=["A-2-1"], pools={"floor": 9}),
        shop.place_hold(E1, buyer="u2", seats=["A-2-1"]),
        shop.place_hold(E1, buyer="u2", pools={"floor": 2}),
    )
    await shop.add_capacity(E1, NEW_ROW)
    after = await asyncio.gather(
        shop.place_hold(E1, buyer="u3", seats=["C-1-1"], pools={"floor": 1}),
        shop.place_hold(E1, buyer="u4", best={"quantity": 2, "section": "C"}),
    )
    assert list(map(said, before)) == ["placed", "changed", "no.taken", "no.insufficient"]
    assert list(map(said, after)) == ["placed", "placed"]
    assert after[-1].hold.seats == ("C-1-2", "C-1-3")
    assert await numbers(shop) == (CAPACITY - 7, CAPACITY - 7 - 6, 6, 0)
