"""What a command made is made once: the same id gives the first answer again, and nothing new."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast import Extended, Placed, Reason, Refused
from holdfast.api.holds import NOTHING
from holdfast.domain.commands import PlaceHold
from holdfast.domain.model import Ask
from holdfast.stores import rows
from tests.contract.helpers import (
    E1,
    IN_ORDER,
    SOFT_MS,
    description,
    held,
    log_types,
    nothing_changes,
    on_sale,
    reason,
    said,
    sold,
    summary,
)

DAY_MS = 24 * 3600 * 1000


def _place(**given):
    return lambda shop, **other: shop.place_hold(
        E1, **{"buyer": "ann", "seats": ["A-1-1"], "pools": {"floor": 2}} | given | other
    )


def _sell(**given):
    return lambda shop, **other: shop.sell(
        E1, **{"buyer": "ann", "seats": ["A-1-1"], "payment": "pay-1"} | given | other
    )


def _extend(shop, **other):
    return shop.extend_hold(**{"hold": "e1.h0", "buyer": "ann", "idempotency_key": "k"} | other)


def _confirm(**given):
    return lambda shop, **other: shop.confirm_hold(
        **{"hold": "e1.h0", "buyer": "ann", "payment": "pay-1"} | given | other
    )


def _create(shop, **other):
    key = other.pop("idempotency_key", "k")
    return shop.create_event(description(id="e2", **other), idempotency_key=key)


# Each command that can be repeated, and the id that makes it so.
REPEATABLE = {
    "place_by_id": (_place(id="h1"), "h1"),
    "place_by_key": (_place(idempotency_key="k"), "k"),
    "place_by_both": (_place(id="h1", idempotency_key="k"), "k"),
    "place_best": (_place(id="h1", seats=(), best=2), "h1"),
    "extend_by_key": (_extend, "k"),
    "confirm_by_order": (_confirm(order="o1"), "o1"),
    "confirm_by_key": (_confirm(idempotency_key="k"), "k"),
    "sell_by_order": (_sell(order="o1"), "o1"),
    "sell_by_key": (_sell(idempotency_key="k"), "k"),
    "create_by_key": (_create, "k"),
}

# The same id with something else in the ask.
OTHER_ASKS: dict[str, list[dict[str, Any]]] = {
    "place_by_id": [
        {"seats": ["A-1-2"]},
        {"seats": ["A-1-1", "A-1-2"]},
        {"pools": {"floor": 3}},
        {"pools": None},
        {"best": 1},
        {"buyer": "bob"},
        {"channels": ["sponsors"]},
        {"cap": 5},
    ],
    "place_by_key": [{"seats": ["A-1-2"]}, {"buyer": "bob"}, {"id": "h2"}],
    "place_by_both": [{"seats": ["A-1-2"]}, {"id": "h2"}],
    "place_best": [{"best": 3}, {"best": {"quantity": 2, "section": "A"}}],
    "extend_by_key": [
        {"seconds": 60},
        {"buyer": None},
        {"hold": "e1.h00"},
        {"version": 1},
    ],
    "confirm_by_order": [{"payment": "pay-2"}, {"buyer": None}, {"hold": "e1.h00"}],
    "confirm_by_key": [{"payment": "pay-2"}, {"order": "o2"}, {"hold": "e1.h00"}],
    "sell_by_order": [
        {"seats": ["A-1-2"]},
        {"payment": "pay-2"},
        {"buyer": "bob"},
        {"hold": "e1.gate"},
        {"cap": 5},
    ],
    "sell_by_key": [{"seats": ["A-1-2"]}, {"order": "o2"}],
    "create_by_key": [
        {"name": "Second night"},
        {"prices": {"gold": 1, "silver": 1, "floor": 1, "stand": 1}},
    ],
}


async def ready(shop) -> None:
    """An event with two holds of ann's to follow."""
    await on_sale(shop)
    await held(shop, "ann", id="h0", seats=["A-2-1"], pools={"floor": 1})
    await held(shop, "ann", id="h00", seats=["A-2-2"])


@pytest.mark.parametrize("command", REPEATABLE)
async def test_the_same_ask_again_gives_the_first_answer_and_changes_nothing(shop, clock, command):
    await ready(shop)
    ask, _ = REPEATABLE[command]
    first = await ask(shop)
    assert not isinstance(first, Refused)
    clock.advance(60_000)
    async with nothing_changes(shop):
        assert [await ask(shop) for _ in range(3)] == [first] * 3


@pytest.mark.parametrize("command", REPEATABLE)
async def test_copies_that_arrive_together_are_one(shop, command):
    await ready(shop)
    ask, _ = REPEATABLE[command]
    before = sum(each.seq for each in await shop.events())
    outcomes = await asyncio.gather(*[ask(shop) for _ in range(20)])
    assert not isinstance(outcomes[0], Refused)
    assert outcomes == [outcomes[0]] * 20
    assert sum(each.seq for each in await shop.events()) == before + 1


@pytest.mark.parametrize(
    ("command", "other"),
    [(command, other) for command, others in OTHER_ASKS.items() for other in others],
)
@pytest.mark.parametrize("together", [False, pytest.param(True, marks=IN_ORDER)])
async def test_the_same_id_with_another_ask_is_a_mismatch(shop, command, other, together):
    await ready(shop)
    ask, id = REPEATABLE[command]
    if together:
        _, outcome = await asyncio.gather(ask(shop), ask(shop, **other))
    else:
        await ask(shop)
        async with nothing_changes(shop):
            outcome = await ask(shop, **other)
    assert outcome.reason is Reason.IDEMPOTENCY_MISMATCH
    assert id in outcome.value


HOLD_CHANGES = {
    "extended": lambda shop, hold: shop.extend_hold(hold),
    "paying": lambda shop, hold: shop.pay_hold(hold),
    "released": lambda shop, hold: shop.release_hold(hold),
    "confirmed": lambda shop, hold: shop.confirm_hold(hold, payment="pay-9"),
    "paused": lambda shop, hold: shop.pause_event(E1),
    "closed": lambda shop, hold: shop.close_event(E1),
    "dearer": lambda shop, hold: shop.change_event(E1, prices={"gold": 1}),
}


@pytest.mark.parametrize("change", [*HOLD_CHANGES, "expired", "announced", "resold"])
@pytest.mark.parametrize("command", ["place_by_id", "place_by_key", "place_best", "extend_by_key"])
async def test_the_first_answer_stays_whatever_became_of_the_hold(shop, clock, command, change):
    await ready(shop)
    ask, _ = REPEATABLE[command]
    first = await ask(shop)
    if change in HOLD_CHANGES:
        await HOLD_CHANGES[change](shop, first.hold.id)
    else:
        clock.advance(2 * SOFT_MS)
    if change == "announced":
        await shop.expire(E1, 10)
    if change == "resold":
        await sold(shop, "bob", seats=list(first.hold.seats))
    async with nothing_changes(shop):
        assert await ask(shop) == first


@pytest.mark.parametrize(
    "command", ["confirm_by_order", "confirm_by_key", "sell_by_order", "sell_by_key"]
)
@pytest.mark.parametrize("change", ["cancelled", "resold", "closed"])
async def test_the_first_answer_stays_whatever_became_of_the_order(shop, command, change):
    await ready(shop)
    ask, _ = REPEATABLE[command]
    first = await ask(shop)
    if change in ("cancelled", "resold"):
        await shop.cancel_order(first.order.id)
    if change == "resold":
        await sold(shop, "bob", seats=list(first.order.seats))
    if change == "closed":
        await shop.close_event(E1)
    async with nothing_changes(shop):
        assert await ask(shop) == first


REFUSED_FIRST = {
    "place_by_id": ("A-1-1", Reason.TAKEN),
    "place_by_key": ("A-1-1", Reason.TAKEN),
    "sell_by_order": ("A-1-1", Reason.TAKEN),
    "sell_by_key": ("A-1-1", Reason.TAKEN),
}


@pytest.mark.parametrize("command", REFUSED_FIRST)
async def test_what_was_refused_made_nothing_and_is_decided_anew(shop, command):
    await on_sale(shop)
    rival = await held(shop, "bob", seats=["A-1-1"])
    ask, _ = REPEATABLE[command]
    async with nothing_changes(shop):
        assert await reason(ask(shop)) == Reason.TAKEN
        assert await reason(ask(shop)) == Reason.TAKEN
    await shop.release_hold(rival.id)
    assert not isinstance(await ask(shop), Refused)


@pytest.mark.parametrize("command", REFUSED_FIRST)
async def test_the_id_of_a_refused_ask_may_be_used_for_another_ask(shop, command):
    await on_sale(shop)
    await held(shop, "bob", seats=["A-1-1"])
    ask, _ = REPEATABLE[command]
    assert await reason(ask(shop)) == Reason.TAKEN
    assert not isinstance(await ask(shop, seats=["A-1-2"]), Refused)


@IN_ORDER
async def test_copies_of_which_the_first_is_refused_are_each_decided(shop):
    await on_sale(shop)
    rival = await held(shop, "bob", seats=["A-1-1"])
    ask, _ = REPEATABLE["place_by_id"]
    outcomes = await asyncio.gather(
        ask(shop), ask(shop), shop.release_hold(rival.id), ask(shop), ask(shop)
    )
    assert list(map(said, outcomes)) == ["no.taken", "no.taken", "released", "placed", "placed"]
    assert outcomes[3] == outcomes[4]


async def test_the_engine_says_which_answers_are_repeated(shop):
    await on_sale(shop)
    command = PlaceHold(
        id="c1", event=E1, hold="e1.h1", buyer="ann", ask=Ask(seats=("A-1-1",)), digest="d"
    )
    first, second = await shop.submit(command), await shop.submit(command)
    assert (first.replayed, second.replayed) == (False, True)
    assert isinstance(first.outcome, Placed)
    assert first.outcome == second.outcome


async def test_a_repeated_answer_tells_when_it_was_decided_first(shop, clock):
    await on_sale(shop)
    command = PlaceHold(
        id="c1", event=E1, hold="e1.h1", buyer="ann", ask=Ask(seats=("A-1-1",)), digest="d"
    )
    first, together = await asyncio.gather(shop.submit(command), shop.submit(command))
    decided_ms = clock()
    for answer in (first, together):
        assert (answer.decided_ms, answer.now_ms) == (decided_ms, decided_ms)
    for _ in range(2):
        clock.advance(60_000)
        again = await shop.submit(command)
        assert again.replayed
        assert (again.decided_ms, again.now_ms) == (decided_ms, clock())


@IN_ORDER
async def test_what_is_decided_anew_tells_the_time_of_that(shop, clock):
    await on_sale(shop)
    await held(shop, "bob", seats=["A-1-1"])
    command = PlaceHold(
        id="c1", event=E1, hold="e1.h1", buyer="ann", ask=Ask(seats=("A-1-1",)), digest="d"
    )
    for said_now in ("no.taken", "no.taken", "placed"):
        clock.advance(SOFT_MS // 2 - 1 if said_now == "no.taken" else 2)
        answer = await shop.submit(command)
        assert said(answer.outcome) == said_now
        assert (answer.decided_ms, answer.now_ms) == (clock(), clock())


@pytest.mark.parametrize("name", [{"id": "h1"}, {"key": "key:k"}])
async def test_a_deployments_cap_may_change_between_an_ask_and_its_repetition(shop, name):
    await on_sale(shop)
    ask = Ask(pools={"floor": 2})
    over = shop.clerk.place_hold(E1, "ann", ask, **name, default_cap=1)
    assert (await shop.submit(over)).outcome.reason is Reason.BUYER_CAP
    first, *others = [
        await shop.submit(shop.clerk.place_hold(E1, "ann", ask, **name, default_cap=cap))
        for cap in (5, 1, None)
    ]
    assert isinstance(first.outcome, Placed)
    assert [(each.outcome, each.replayed) for each in others] == [(first.outcome, True)] * 2


async def test_whether_an_ask_was_here_before_can_be_asked_without_making_anything(shop):
    await on_sale(shop)
    command = shop.clerk.place_hold(E1, "ann", Ask(pools={"floor": 2}), key="key:k")
    async with nothing_changes(shop):
        never = await shop.submit(replace(command, ask=NOTHING))
    assert (said(never.outcome), never.replayed) == ("no.unknown_unit", False)
    first = await shop.submit(command)
    async with nothing_changes(shop):
        again = await shop.submit(replace(command, ask=NOTHING))
    assert (again.outcome, again.replayed) == (first.outcome, True)


async def test_a_key_used_for_one_command_does_not_serve_for_another(shop):
    await ready(shop)
    await held(shop, "ann", idempotency_key="k", seats=["A-1-1"])
    async with nothing_changes(shop):
        for other in (_extend, _confirm(idempotency_key="k"), _sell(idempotency_key="k")):
            assert await reason(other(shop)) == Reason.IDEMPOTENCY_MISMATCH


async def test_keys_and_ids_of_two_events_know_nothing_of_each_other(shop):
    await on_sale(shop)
    await shop.create_event(description(id="e2"))
    for event in ("e1", "e2"):
        outcome = await shop.place_hold(
            event, buyer="ann", id="h1", idempotency_key="k", seats=["A-1-1"]
        )
        assert outcome.hold.id == f"{event}.h1"


async def test_an_extension_with_a_key_is_made_once_without_one_each_time(shop):
    await on_sale(shop, max_extensions=5)
    hold = await held(shop, "ann", id="h0", seats=["A-2-1"])
    for _ in range(3):
        assert isinstance(await _extend(shop), Extended)
    assert (await shop.hold(hold.id)).extensions == 1
    await shop.extend_hold(hold.id)
    await shop.extend_hold(hold.id)
    assert (await shop.hold(hold.id)).extensions == 3


UNNAMED = {
    "pay": lambda shop: shop.pay_hold("e1.h0"),
    "release": lambda shop: shop.release_hold("e1.h0"),
    "confirm": lambda shop: shop.confirm_hold("e1.h0"),
    "pause": lambda shop: shop.pause_event(E1),
}


@pytest.mark.parametrize("command", UNNAMED)
async def test_what_is_done_already_needs_no_id_to_be_done_once(shop, command):
    await ready(shop)
    first = await UNNAMED[command](shop)
    async with nothing_changes(shop):
        assert await UNNAMED[command](shop) == first
    assert await asyncio.gather(*[UNNAMED[command](shop) for _ in range(5)]) == [first] * 5


@pytest.fixture
def tidy(monkeypatch) -> None:
    """Old answers are looked for with every batch."""
    monkeypatch.setattr(rows, "FORGET_FACTS", 1)


@pytest.mark.usefixtures("tidy")
@pytest.mark.parametrize("command", REPEATABLE)
async def test_an_answer_is_kept_for_a_day(shop, clock, command):
    await ready(shop)
    ask, _ = REPEATABLE[command]
    first = await ask(shop)
    clock.advance(DAY_MS)
    # Something is recorded meanwhile: that is when old answers would be forgotten.
    await sold(shop, "zed", order="z1", seats=["A-2-5"])
    await shop.create_event(description(id="e3"))
    async with nothing_changes(shop):
        assert await ask(shop) == first


@pytest.mark.usefixtures("tidy")
@pytest.mark.parametrize("command", ["place_by_id", "confirm_by_order", "sell_by_order"])
async def test_an_id_that_was_used_makes_nothing_new_even_when_its_answer_is_forgotten(
    shop, clock, command
):
    await ready(shop)
    ask, _ = REPEATABLE[command]
    first = await ask(shop)
    for n in range(4):
        clock.advance(DAY_MS + 1)
        await sold(shop, "zed", order=f"z{n}", seats=[f"A-2-{n + 2}"])
    async with nothing_changes(shop):
        outcome = await ask(shop)
    assert outcome == first or isinstance(outcome, Refused)


async def test_asks_are_the_same_however_their_parts_are_given(shop):
    await on_sale(shop)
    ways = (
        {"seats": ["A-1-1", "A-1-2"], "best": 2, "channels": ["sponsors"]},
        {"seats": ("A-1-1", "A-1-2"), "best": {"quantity": 2}, "channels": ("sponsors",)},
        {"seats": iter(["A-1-1", "A-1-2"]), "best": [{"quantity": 2}], "channels": {"sponsors"}},
    )
    outcomes = [await shop.place_hold(E1, buyer="ann", id="h1", **way) for way in ways]
    assert isinstance(outcomes[0], Placed)
    assert outcomes == [outcomes[0]] * 3
    assert (await log_types(shop)).count("hold.placed") == 1
    assert (await summary(shop)).held == 4
