"""Bad input gets a typed answer that names the place and the value, and changes nothing."""

import asyncio
import math
from types import MappingProxyType
from typing import Any

import pytest

from holdfast import Best, Invalid, Placed, Reason, Refused
from holdfast.domain.commands import PlaceHold
from holdfast.domain.model import Ask
from tests.contract.helpers import E1, description, held, nothing_changes, on_sale, said

# What is malformed is refused before any gate is asked: the policies make no difference.
pytestmark = pytest.mark.policies("authority")

NUL, LONE, SQL = "A\x00B", "A\ud800", "x'); DROP TABLE holds;--"
SEAT: dict[str, Any] = {"seats": ["A-1-1"]}


async def faulty(shop, path: str, shown: str, asked) -> None:
    """The call must fail with a fault at that path that shows that value, changing nothing."""
    async with nothing_changes(shop):
        with pytest.raises(Invalid) as caught:
            await asked
    found = [(fault.path, fault.value) for fault in caught.value.faults]
    assert path in [where for where, _ in found], found
    assert any(where == path and shown in value for where, value in found), found
    assert path in str(caught.value)


def ids(case) -> str | None:
    return case if isinstance(case, str) and case.isidentifier() else None


# name, what is asked for, where the fault is, what it shows
ASKS = [
    ("nothing", {}, "seats", ""),
    ("nothing_thrice", {"seats": [], "best": None, "pools": {}}, "seats", ""),
    ("no_seats", {"seats": None}, "seats", ""),
    ("a_text_for_seats", {"seats": "A-1-1"}, "seats", "'A-1-1'"),
    ("a_number_for_seats", {"seats": 5}, "seats", "5"),
    ("bytes_for_seats", {"seats": b"A"}, "seats[0]", "65"),
    ("a_seat_twice", {"seats": ["A-1-1", "A-1-2", "A-1-1"]}, "seats[2]", "'A-1-1'"),
    ("a_seat_twice_amid_others", {**SEAT, "seats": ["A-1-1"] * 2}, "seats[1]", "'A-1-1'"),
    ("a_number_for_a_seat", {"seats": [7]}, "seats[0]", "7"),
    ("none_for_a_seat", {"seats": ["A-1-1", None]}, "seats[1]", ""),
    ("a_list_for_a_seat", {"seats": [["A-1-1"]]}, "seats[0]", "['A-1-1']"),
    ("an_empty_seat", {"seats": [""]}, "seats[0]", "''"),
    ("a_blank_around_a_seat", {"seats": [" A-1-1"]}, "seats[0]", "' A-1-1'"),
    ("a_line_break_in_a_seat", {"seats": ["A-1-1\n"]}, "seats[0]", r"A-1-1\n"),
    ("nul_in_a_seat", {"seats": [NUL]}, "seats[0]", r"A\x00B"),
    ("half_a_pair_in_a_seat", {"seats": [LONE]}, "seats[0]", r"\ud800"),
    ("a_seat_too_long", {"seats": ["A" * 65]}, "seats[0]", "AAAA"),
    ("too_many_seats", {"seats": [f"A-{n}" for n in range(10_001)]}, "seats", "10001"),
    ("zero_stock", {"pools": {"floor": 0}}, "pools.floor", "0"),
    ("negative_stock", {"pools": {"floor": -1}}, "pools.floor", "-1"),
    ("true_stock", {"pools": {"floor": True}}, "pools.floor", "True"),
    ("float_stock", {"pools": {"floor": 1.0}}, "pools.floor", "1.0"),
    ("not_a_number_of_stock", {"pools": {"floor": math.nan}}, "pools.floor", "nan"),
    ("text_stock", {"pools": {"floor": "2"}}, "pools.floor", "'2'"),
    ("none_stock", {"pools": {"floor": None}}, "pools.floor", ""),
    ("endless_stock", {"pools": {"floor": 1_000_001}}, "pools.floor", "1000001"),
    ("a_list_for_pools", {"pools": ["floor"]}, "pools", "['floor']"),
    ("a_text_for_pools", {"pools": "floor"}, "pools", "'floor'"),
    ("a_number_for_a_pool", {"pools": {5: 1}}, "pools", "5"),
    ("an_empty_pool", {"pools": {"": 1}}, "pools", "''"),
    ("nul_in_a_pool", {"pools": {NUL: 1}}, "pools", r"A\x00B"),
    ("half_a_pair_in_a_pool", {"pools": {LONE: 1}}, "pools", r"\ud800"),
    ("too_many_pools", {"pools": {f"p{n}": 1 for n in range(101)}}, "pools", "101"),
    ("best_of_none", {"best": 0}, "best[0].quantity", "0"),
    ("best_of_less", {"best": -2}, "best[0].quantity", "-2"),
    ("best_of_true", {"best": True}, "best[0].quantity", "True"),
    ("best_of_half", {"best": {"quantity": 1.5}}, "best[0].quantity", "1.5"),
    ("best_of_text", {"best": {"quantity": "2"}}, "best[0].quantity", "'2'"),
    ("best_of_too_many", {"best": 1_001}, "best[0].quantity", "1001"),
    ("best_without_quantity", {"best": {"section": "A"}}, "best[0].quantity", ""),
    ("a_float_for_best", {"best": 1.5}, "best[0].quantity", "1.5"),
    ("a_text_for_best", {"best": "2"}, "best[0].quantity", "'2'"),
    ("a_number_in_best", {"best": [{"quantity": 1}, 2]}, "best[1]", "2"),
    ("a_misspelt_best", {"best": {"quantity": 1, "sektion": "A"}}, "best[0].sektion", ""),
    ("a_number_for_a_section", {"best": {"quantity": 1, "section": 5}}, "best[0].section", "5"),
    ("nul_in_a_tier", {"best": {"quantity": 1, "tier": NUL}}, "best[0].tier", r"\x00"),
    ("a_text_for_together", {"best": {"quantity": 1, "together": "no"}}, "best[0].together", "no"),
    ("one_for_accessible", {"best": {"quantity": 1, "accessible": 1}}, "best[0].accessible", "1"),
    ("too_many_bests", {"best": [{"quantity": 1}] * 101}, "best", "101"),
    ("a_best_of_none", {"best": [Best(quantity=0)]}, "best[0].quantity", "0"),
    ("a_best_of_true", {"best": [Best(quantity=True)]}, "best[0].quantity", "True"),
    ("a_best_of_text", {"best": [Best(quantity="2")]}, "best[0].quantity", "'2'"),  # type: ignore[arg-type]
    ("a_best_of_too_many", {"best": [Best(quantity=1_001)]}, "best[0].quantity", "1001"),
    ("a_best_of_a_list", {"best": [Best(1, section=["A"])]}, "best[0].section", "['A']"),  # type: ignore[arg-type]
    ("a_text_for_channels", {**SEAT, "channels": "sponsors"}, "channels", "'sponsors'"),
    ("a_number_for_channels", {**SEAT, "channels": 5}, "channels", "5"),
    ("a_number_for_a_channel", {**SEAT, "channels": [5]}, "channels[0]", "5"),
    ("too_many_channels", {**SEAT, "channels": [f"c{n}" for n in range(101)]}, "channels", "101"),
    ("no_buyer", {**SEAT, "buyer": None}, "buyer", ""),
    ("an_empty_buyer", {**SEAT, "buyer": ""}, "buyer", "''"),
    ("a_number_for_a_buyer", {**SEAT, "buyer": 5}, "buyer", "5"),
    ("a_blank_buyer", {**SEAT, "buyer": " "}, "buyer", "' '"),
    ("nul_in_a_buyer", {**SEAT, "buyer": NUL}, "buyer", r"\x00"),
    ("half_a_pair_in_a_buyer", {**SEAT, "buyer": LONE}, "buyer", r"\ud800"),
    ("a_buyer_too_long", {**SEAT, "buyer": "a" * 129}, "buyer", "aaaa"),
    ("a_text_for_cap", {**SEAT, "cap": "x"}, "cap", "'x'"),
    ("true_for_cap", {**SEAT, "cap": True}, "cap", "True"),
    ("a_float_for_cap", {**SEAT, "cap": 1.5}, "cap", "1.5"),
    ("a_negative_cap", {**SEAT, "cap": -1}, "cap", "-1"),
]


@pytest.mark.parametrize(("name", "ask", "path", "shown"), ASKS, ids=ids)
async def test_a_malformed_ask_is_invalid(shop, name, ask, path, shown):
    await on_sale(shop)
    for call in (shop.place_hold, shop.sell):
        await faulty(shop, path, shown, call(E1, **{"buyer": "ann"} | ask))


BAD_IDS = ["", " ", "a b", "a/b", "é", "a" * 65, NUL, LONE, SQL, "-a", ".a", "a\n", 5, b"a"]
NAMED = {
    "hold_id": ("id", lambda shop, id: shop.place_hold(E1, buyer="ann", id=id, **SEAT)),
    "hold_key": (
        "idempotency_key",
        lambda shop, id: shop.place_hold(E1, buyer="ann", idempotency_key=id, **SEAT),
    ),
    "extend_key": (
        "idempotency_key",
        lambda shop, id: shop.extend_hold("e1.h1", idempotency_key=id),
    ),
    "confirm_order": ("order", lambda shop, id: shop.confirm_hold("e1.h1", order=id)),
    "confirm_key": (
        "idempotency_key",
        lambda shop, id: shop.confirm_hold("e1.h1", idempotency_key=id),
    ),
    "sell_order": ("order", lambda shop, id: shop.sell(E1, buyer="ann", order=id, **SEAT)),
    "sell_key": (
        "idempotency_key",
        lambda shop, id: shop.sell(E1, buyer="ann", idempotency_key=id, **SEAT),
    ),
    "create_key": (
        "idempotency_key",
        lambda shop, id: shop.create_event(description(id="e2"), idempotency_key=id),
    ),
}


@pytest.mark.parametrize("what", NAMED)
async def test_an_id_of_the_callers_with_odd_characters_is_invalid(shop, what):
    await on_sale(shop)
    await held(shop, id="h1", seats=["A-2-1"])
    path, ask = NAMED[what]
    for id in BAD_IDS:
        await faulty(shop, path, repr(id)[:60], ask(shop, id))


@pytest.mark.parametrize("id", ["a", "A", "0", "a" * 64, "a-b_c.d:e", "e1.h1", "confirm:e1.o1"])
async def test_every_id_of_permitted_characters_may_be_used(shop, id):
    await on_sale(shop)
    outcome = await shop.place_hold(E1, buyer="ann", id=id, idempotency_key=id, **SEAT)
    assert outcome.hold.id == f"e1.{id}"
    assert await shop.hold(f"e1.{id}") == outcome.hold
    assert said(await shop.confirm_hold(f"e1.{id}", order=id)) == "confirmed"
    assert (await shop.order(f"e1.{id}")).hold == f"e1.{id}"


ODD_HOLDS = [
    "",
    "h1",
    ".",
    "e1.",
    ".h1",
    "e1.nobody",
    "e1.H1",
    "e1.%",
    "e1.h1 ",
    f"e1.{NUL}",
    f"e1.{LONE}",
    f"e1.{SQL}",
    f"{LONE}.h1",
    "e1." + "h" * 500,
    5,
    None,
    b"e1.h1",
    ["e1.h1"],
]
FOLLOW = {
    "extend": lambda shop, id: shop.extend_hold(id),
    "extend_by_key": lambda shop, id: shop.extend_hold(id, idempotency_key="k"),
    "pay": lambda shop, id: shop.pay_hold(id),
    "release": lambda shop, id: shop.release_hold(id),
    "confirm": lambda shop, id: shop.confirm_hold(id),
    "confirm_by_order": lambda shop, id: shop.confirm_hold(id, order="o1"),
    "cancel": lambda shop, id: shop.cancel_order(id),
}


@pytest.mark.parametrize("id", ODD_HOLDS, ids=lambda id: ascii(id)[:20])
async def test_a_hold_or_order_that_cannot_be_is_unknown(shop, id):
    await on_sale(shop)
    await held(shop, id="h1", **SEAT)
    async with nothing_changes(shop):
        for command, follow in FOLLOW.items():
            outcome = await follow(shop, id)
            unknown = Reason.UNKNOWN_ORDER if command == "cancel" else Reason.UNKNOWN_HOLD
            assert outcome == Refused(unknown, str(id)), command
            assert repr(str(id)) in outcome.detail
        assert await shop.hold(id) is None
        assert await shop.order(id) is None


ODD_EVENTS = ["", " ", "a.b", "a b", "é", "e" * 65, NUL, LONE, SQL, "%", "-e1", 5, None, b"e1"]
OF_EVENTS = {
    "place": lambda shop, event: shop.place_hold(event, buyer="ann", **SEAT),
    "place_by_id": lambda shop, event: shop.place_hold(event, buyer="ann", id="h1", **SEAT),
    "sell": lambda shop, event: shop.sell(event, buyer="ann", **SEAT),
    "sell_by_order": lambda shop, event: shop.sell(event, buyer="ann", order="o1", **SEAT),
    "expire": lambda shop, event: shop.expire(event, 10),
    "open": lambda shop, event: shop.open_event(event),
    "change": lambda shop, event: shop.change_event(event, name="x"),
    "withdraw": lambda shop, event: shop.withdraw(event, **SEAT),
    "add": lambda shop, event: shop.add_capacity(
        event, {"pools": [{"id": "floor", "capacity": 1, "tier": "floor"}]}
    ),
}


@pytest.mark.parametrize("event", ODD_EVENTS, ids=lambda event: ascii(event)[:20])
async def test_an_event_that_cannot_be_is_unknown(shop, event):
    await on_sale(shop)
    async with nothing_changes(shop):
        for command, ask in OF_EVENTS.items():
            assert await ask(shop, event) == Refused(Reason.UNKNOWN_EVENT, str(event)), command
        assert await shop.event(event) is None
        assert await shop.seats(event) is None
        assert await shop.log(event) == []


@pytest.mark.parametrize("unit", [SQL, "%", "_", "A-1-1' OR '1'='1", '"', "\\", "NULL", "0"])
async def test_units_that_look_like_sql_are_just_unknown(shop, unit):
    await on_sale(shop)
    async with nothing_changes(shop):
        assert await shop.place_hold(E1, buyer="ann", seats=[unit]) == Refused(
            Reason.UNKNOWN_UNIT, seats=(unit,)
        )
        assert await shop.place_hold(E1, buyer="ann", pools={unit: 1}) == Refused(
            Reason.UNKNOWN_UNIT, pools=(unit,)
        )
        assert await shop.withdraw(E1, seats=[unit]) == Refused(Reason.UNKNOWN_UNIT, seats=(unit,))


@pytest.mark.parametrize("name", [SQL, "%", "'", '"', "\\", "Zoë 日本 🎟", "NULL", "0", "a" * 64])
async def test_every_printable_name_is_kept_as_it_is(shop, name):
    seat = {"id": name, "section": name, "row": name, "number": 1, "tier": name, "channel": name}
    await on_sale(
        shop,
        prices={name: 7},
        sections=[],
        seats=[seat],
        pools=[{"id": name, "capacity": 1, "tier": name, "channel": name}],
    )
    hold = await held(shop, name, seats=[name], pools={name: 1}, channels=[name])
    assert (hold.seats, hold.pools, hold.buyer, hold.amount) == ((name,), {name: 1}, name, 14)
    order = (await shop.confirm_hold(hold.id, payment=name)).order
    assert await shop.order(order.id) == order
    assert (order.payment, order.seats) == (name, (name,))


@pytest.mark.parametrize("payment", ["", " ", NUL, LONE, "p" * 201, 5, b"p", ["p"]], ids=ascii)
async def test_a_malformed_payment_is_invalid(shop, payment):
    await on_sale(shop)
    await held(shop, id="h1", seats=["A-2-1"])
    for asked in (
        shop.confirm_hold("e1.h1", payment=payment),
        shop.sell(E1, buyer="ann", payment=payment, **SEAT),
    ):
        await faulty(shop, "payment", repr(payment)[:60], asked)


@pytest.mark.parametrize(
    "hold", ["", NUL, LONE, 5, b"h", ["h"], "e" * 500], ids=lambda h: ascii(h)[:20]
)
async def test_a_malformed_hold_of_a_sale_is_invalid(shop, hold):
    await on_sale(shop)
    await faulty(shop, "hold", repr(hold)[:60], shop.sell(E1, buyer="ann", hold=hold, **SEAT))


@pytest.mark.parametrize("seconds", [0, -1, True, 1.5, "60", 86_401, math.inf])
async def test_a_malformed_length_of_an_extension_is_invalid(shop, seconds):
    await on_sale(shop)
    hold = await held(shop)
    await faulty(shop, "seconds", repr(seconds), shop.extend_hold(hold.id, seconds=seconds))


FOLLOW_BY = {
    "extend": lambda shop, **by: shop.extend_hold("e1.h1", **by),
    "extend_by_key": lambda shop, **by: shop.extend_hold("e1.h1", idempotency_key="k", **by),
    "pay": lambda shop, **by: shop.pay_hold("e1.h1", **by),
    "release": lambda shop, **by: shop.release_hold("e1.h1", **by),
    "confirm": lambda shop, **by: shop.confirm_hold("e1.h1", **by),
    "confirm_by_order": lambda shop, **by: shop.confirm_hold("e1.h1", order="o1", **by),
}


@pytest.mark.parametrize(
    ("path", "value"),
    [("buyer", buyer) for buyer in ("", 5, b"ann", NUL, LONE, ["ann"], SQL)]
    + [("version", version) for version in ("1", "x", -1, 1.5, [1], LONE)],
    ids=ascii,
)
async def test_nobody_acts_on_a_hold_as_an_odd_buyer_or_on_an_odd_version(shop, path, value):
    await on_sale(shop)
    await held(shop, "ann", id="h1")
    refused = "no.not_yours" if path == "buyer" else "no.stale"
    async with nothing_changes(shop):
        for command, follow in FOLLOW_BY.items():
            try:
                no = said(await follow(shop, **{path: value}))
            except Invalid as invalid:
                no = invalid.faults[0].path
            assert no in (refused, path), command


@pytest.mark.parametrize("limit", ["x", None, 1.5, True, -1])
async def test_a_malformed_limit_of_a_sweep_is_invalid(shop, limit):
    await on_sale(shop)
    shown = "" if limit is None else repr(limit)
    await faulty(shop, "limit", shown, shop.expire(E1, limit))


@pytest.mark.parametrize(
    ("path", "page"),
    [("after", {"after": "x"}), ("limit", {"limit": "x"}), ("after", {"after": 1.5})],
)
async def test_a_malformed_page_of_the_log_is_invalid(shop, path, page):
    await on_sale(shop)
    await faulty(shop, path, repr(page[path]), shop.log(E1, **page))


async def test_one_text_is_not_a_list_of_channels_for_the_map_either(shop):
    await on_sale(shop)
    await faulty(shop, "channels", "'sponsors'", shop.seats(E1, channels="sponsors"))


SECTION = {"id": "A", "tier": "gold", "rows": 1, "seats_per_row": 1}
SEAT_PLAN = {"id": "S", "section": "A", "row": "1", "number": 1, "tier": "gold"}
POOL = {"id": "floor", "capacity": 1, "tier": "floor"}

EVENTS = [
    *[
        (f"id_{n}", {"id": id}, "id", "" if id is None else repr(id)[:60])
        for n, id in enumerate(
            ["", "a.b", "a b", "é", "e" * 65, NUL, LONE, SQL, "-e", "e\n", 5, None, b"e", ["e"]]
        )
    ],
    ("an_empty_name", {"name": ""}, "name", "''"),
    ("nul_in_a_name", {"name": NUL}, "name", r"\x00"),
    ("half_a_pair_in_a_name", {"name": LONE}, "name", r"\ud800"),
    ("a_name_too_long", {"name": "n" * 201}, "name", "nnn"),
    ("a_number_for_a_name", {"name": 5}, "name", "5"),
    ("a_small_currency", {"currency": "eur"}, "currency", "'eur'"),
    ("a_long_currency", {"currency": "EURO"}, "currency", "'EURO'"),
    ("a_number_for_a_currency", {"currency": 5}, "currency", "5"),
    ("an_unknown_state", {"state": "open"}, "state", "'open'"),
    ("a_list_for_a_state", {"state": ["on_sale"]}, "state", "['on_sale']"),
    *[
        (f"hold_seconds_{n}", {"hold_seconds": value}, "hold_seconds", repr(value))
        for n, value in enumerate([0, -1, 1.5, True, "480", 86_401])
    ],
    *[
        (f"grace_seconds_{n}", {"grace_seconds": value}, "grace_seconds", repr(value))
        for n, value in enumerate([-1, 1.5, True, "300", 86_401])
    ],
    ("negative_extensions", {"max_extensions": -1}, "max_extensions", "-1"),
    ("a_cap_of_none", {"max_per_buyer": 0}, "max_per_buyer", "0"),
    ("a_cap_of_true", {"max_per_buyer": True}, "max_per_buyer", "True"),
    ("a_list_for_prices", {"prices": [1]}, "prices", "[1]"),
    ("a_negative_price", {"prices": {"gold": -1}}, "prices.gold", "-1"),
    ("a_price_with_cents", {"prices": {"gold": 1.5}}, "prices.gold", "1.5"),
    ("a_true_price", {"prices": {"gold": True}}, "prices.gold", "True"),
    ("an_endless_price", {"prices": {"gold": 10**12 + 1}}, "prices.gold", "1000000000001"),
    ("a_number_for_a_tier", {"prices": {5: 1}}, "prices", "5"),
    ("nul_in_a_tier", {"prices": {NUL: 1}}, "prices", r"\x00"),
    ("an_unknown_ranking", {"ranking": "best"}, "ranking", "'best'"),
    ("one_for_a_flag", {"flash_sale": 1}, "flash_sale", "1"),
    ("an_unknown_policy", {"policy": "none"}, "policy", "'none'"),
    ("no_units", {"sections": [], "pools": []}, "sections", ""),
    ("a_misspelt_field", {"seat": []}, "seat", ""),
    ("a_text_for_sections", {"sections": "A"}, "sections", "'A'"),
    ("a_mapping_for_seats", {"seats": {"id": "A"}}, "seats", "{'id': 'A'}"),
    ("a_text_for_a_section", {"sections": ["A"]}, "sections[0]", "'A'"),
    ("no_rows", {"sections": [SECTION | {"rows": 0}]}, "sections[0].rows", "0"),
    ("no_width", {"sections": [SECTION | {"seats_per_row": 0}]}, "sections[0].seats_per_row", "0"),
    ("an_unpriced_section", {"sections": [SECTION | {"tier": "x"}]}, "sections[0].tier", "'x'"),
    ("a_section_twice", {"sections": [SECTION, SECTION]}, "sections[1].id", "'A-1-1'"),
    (
        "a_section_too_large",
        {"sections": [SECTION | {"rows": 10_000, "seats_per_row": 10_000}]},
        "sections[0]",
        "100000000",
    ),
    ("an_aisle_outside", {"sections": [SECTION | {"aisles": [2]}]}, "sections[0].aisles[0]", "2"),
    ("a_seat_without_number", {"seats": [{"id": "S", "tier": "gold"}]}, "seats[0].number", ""),
    ("a_seat_twice", {"seats": [SEAT_PLAN, SEAT_PLAN]}, "seats[1].id", "'S'"),
    ("a_seat_of_a_section", {"seats": [SEAT_PLAN | {"id": "A-1-1"}]}, "seats[0].id", "'A-1-1'"),
    ("nul_in_a_seat", {"seats": [SEAT_PLAN | {"id": NUL}]}, "seats[0].id", r"\x00"),
    ("half_a_pair_in_a_seat", {"seats": [SEAT_PLAN | {"id": LONE}]}, "seats[0].id", r"\ud800"),
    ("a_seat_nowhere", {"seats": [SEAT_PLAN | {"x": math.nan}]}, "seats[0].x", "nan"),
    ("a_seat_too_far", {"seats": [SEAT_PLAN | {"y": math.inf}]}, "seats[0].y", "inf"),
    ("a_text_for_a_rank", {"seats": [SEAT_PLAN | {"rank": "1"}]}, "seats[0].rank", "'1'"),
    ("a_misspelt_trait", {"seats": [SEAT_PLAN | {"acessible": True}]}, "seats[0].acessible", ""),
    *[
        (f"capacity_{n}", {"pools": [POOL | {"capacity": value}]}, "pools[0].capacity", repr(value))
        for n, value in enumerate([0, -1, 1.5, True, "5", 1_000_000_001])
    ],
    ("a_pool_twice", {"pools": [POOL, POOL]}, "pools[1].id", "'floor'"),
    ("an_unpriced_pool", {"pools": [POOL | {"tier": "x"}]}, "pools[0].tier", "'x'"),
    ("too_many_pools", {"pools": [POOL] * 1_001}, "pools", "1001"),
]


@pytest.mark.parametrize(("name", "change", "path", "shown"), EVENTS, ids=ids)
async def test_a_malformed_event_is_invalid(shop, name, change, path, shown):
    await faulty(shop, path, shown, shop.create_event(description(**change)))
    assert await shop.events() == []


@pytest.mark.parametrize("event", [5, None, [], "e1", b"e1", [description()]])
async def test_what_is_no_description_is_invalid(shop, event):
    with pytest.raises(Invalid):
        await shop.create_event(event)
    assert await shop.events() == []


async def test_any_mapping_is_a_description(shop):
    frozen = MappingProxyType(description(prices=MappingProxyType(description()["prices"])))
    assert said(await shop.create_event(frozen, idempotency_key="k")) == "created"
    assert said(await shop.create_event(dict(frozen), idempotency_key="k")) == "created"


async def test_every_fault_is_listed_at_once(shop):
    bad = description(
        name="", hold_seconds=0, sections=[SECTION | {"rows": 0}], pools=[POOL | {"capacity": -1}]
    )
    with pytest.raises(Invalid) as caught:
        await shop.create_event(bad)
    assert [fault.path for fault in caught.value.faults] == [
        "name",
        "hold_seconds",
        "sections[0].rows",
        "pools[0].capacity",
    ]


async def test_no_more_faults_are_listed_than_anybody_reads(shop):
    with pytest.raises(Invalid) as caught:
        await shop.create_event(description(seats=[{"id": ""}] * 1_000))
    assert len(caught.value.faults) == 100


CHANGES = [
    ("nothing", {}, "", ""),
    ("a_misspelt_field", {"nmae": "x"}, "nmae", ""),
    ("the_id", {"id": "e2"}, "id", ""),
    ("the_currency", {"currency": "USD"}, "currency", ""),
    ("the_units", {"pools": [POOL]}, "pools", ""),
    ("an_unknown_state", {"state": "open"}, "state", "'open'"),
    ("no_name", {"name": None}, "name", ""),
    ("half_a_pair_in_a_name", {"name": LONE}, "name", r"\ud800"),
    ("a_true_length", {"hold_seconds": True}, "hold_seconds", "True"),
    ("no_length", {"hold_seconds": None}, "hold_seconds", ""),
    ("a_negative_price", {"prices": {"gold": -1}}, "prices.gold", "-1"),
    ("one_good_one_bad", {"name": "Good", "max_per_buyer": 0}, "max_per_buyer", "0"),
]


@pytest.mark.parametrize(("name", "changes", "path", "shown"), CHANGES, ids=ids)
async def test_a_malformed_change_is_invalid(shop, name, changes, path, shown):
    await on_sale(shop)
    await faulty(shop, path, shown, shop.change_event(E1, **changes))


CAPACITIES = [
    ("nothing", {}, "", ""),
    ("no_mapping", ["floor"], "", "['floor']"),
    ("a_misspelt_field", {"seat": []}, "seat", ""),
    ("an_unpriced_pool", {"pools": [POOL | {"tier": "x"}]}, "pools[0].tier", "'x'"),
    ("zero_more", {"pools": [POOL | {"capacity": 0}]}, "pools[0].capacity", "0"),
    ("less", {"pools": [POOL | {"capacity": -1}]}, "pools[0].capacity", "-1"),
    ("a_seat_twice", {"seats": [SEAT_PLAN] * 2}, "seats[1].id", "'S'"),
]


@pytest.mark.parametrize(("name", "units", "path", "shown"), CAPACITIES, ids=ids)
async def test_malformed_capacity_is_invalid(shop, name, units, path, shown):
    await on_sale(shop)
    await faulty(shop, path, shown, shop.add_capacity(E1, units))


WITHDRAWALS = [
    ("nothing", {}, "seats", ""),
    ("a_text_for_seats", {"seats": "A-1-1"}, "seats", "'A-1-1'"),
    ("a_number_for_seats", {"seats": 5}, "seats", "5"),
    ("a_seat_twice", {"seats": ["A-1-1"] * 2}, "seats[1]", "'A-1-1'"),
    ("nul_in_a_seat", {"seats": [NUL]}, "seats[0]", r"\x00"),
    ("zero_stock", {"pools": {"floor": 0}}, "pools.floor", "0"),
    ("negative_stock", {"pools": {"floor": -1}}, "pools.floor", "-1"),
    ("true_stock", {"pools": {"floor": True}}, "pools.floor", "True"),
    ("float_stock", {"pools": {"floor": 1.0}}, "pools.floor", "1.0"),
    ("a_list_for_pools", {"pools": ["floor"]}, "pools", "['floor']"),
]


@pytest.mark.parametrize(("name", "units", "path", "shown"), WITHDRAWALS, ids=ids)
async def test_a_malformed_withdrawal_is_invalid(shop, name, units, path, shown):
    await on_sale(shop)
    await faulty(shop, path, shown, shop.withdraw(E1, **units))


async def test_one_bad_command_does_not_hurt_the_others_that_came_with_it(shop):
    await on_sale(shop)
    outcomes = await asyncio.gather(
        shop.place_hold(E1, buyer="u1", seats=["A-1-1"]),
        shop.place_hold(E1, buyer="u2", seats=["A-1-2"], cap="x"),
        shop.release_hold(f"e1.{LONE}"),
        shop.place_hold(E1, buyer="u3", seats=["A-1-3"]),
        shop.sell(E1, buyer="u4", seats=["A-1-4"], hold=LONE),
        shop.place_hold(E1, buyer="u5", seats=["A-1-5"]),
        return_exceptions=True,
    )
    assert all(isinstance(outcome, Placed) for outcome in (outcomes[0], outcomes[3], outcomes[5]))
    assert not isinstance(outcomes[1], Placed)


async def test_a_batch_that_fails_inside_the_store_leaves_nothing_half_done(shop):
    await on_sale(shop)
    command = PlaceHold(
        id="c1", event=E1, hold="e1.h1", buyer=LONE, ask=Ask(seats=("A-1-1",), pools={"floor": 2})
    )
    async with nothing_changes(shop):
        with pytest.raises(Exception):  # noqa: B017, PT011 - not what failed, but what stays
            await shop.submit(command)
    assert (await held(shop, **SEAT)).seats == ("A-1-1",)
