"""Policies are changed while buyers hold seats: nobody loses a hold, nothing is sold twice."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast import Changed, Confirmed, Hold, Holdfast, Paying, Placed, Reason, Refused
from holdfast.domain.commands import ChangeEvent
from holdfast.domain.gating import Kind
from holdfast.domain.model import HoldState
from holdfast.errors import Invalid, SettingsError
from holdfast.settings import Settings, load_settings
from holdfast.wiring import make_gate
from tests.conftest import drift, make_sqlite
from tests.contract.helpers import (
    CAPACITY,
    E1,
    SOFT_MS,
    description,
    held,
    log_types,
    numbers,
    on_sale,
    reason,
    sold,
)
from tests.gated import Desk, Post, differences, down, kept, no_pause, no_waiting, opened

__all__ = ["no_pause", "no_waiting"]

pytestmark = pytest.mark.usefixtures("no_pause", "no_waiting")

SEATS = {"ann": "A-1-1", "bob": "A-1-2", "cid": "A-1-3", "dee": "A-1-4"}
POLICIES = ("authority", "two-layer", "gate")
OFF: dict[str, Any] = {"gate": False}
ON: dict[str, Any] = {"gate": True}

CHANGES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    *(({"policy": a}, {"policy": b}) for a, b in itertools.permutations(POLICIES, 2)),
    *(({"policy": policy, **ON}, OFF) for policy in ("two-layer", "gate")),
    *(({"policy": policy, **OFF}, ON) for policy in ("two-layer", "gate")),
    ({"policy": "gate"}, {"policy": "two-layer", **OFF}),
    ({"policy": "gate", **OFF}, {"policy": "two-layer", **ON}),
]


def named(change: Any) -> str:
    return "+".join(f"{name}={value}" for name, value in change.items())


@pytest.fixture
def desk(clock) -> Desk:
    return Desk(clock)


@pytest.fixture
def gate(clock) -> Post:
    return Post(clock)


@pytest.fixture
async def shop(desk, gate, clock) -> AsyncIterator[Holdfast]:
    async with opened(desk, gate, clock, "authority") as shop:
        await on_sale(shop)
        yield shop


@pytest.fixture
async def other(shop, desk, gate, clock) -> AsyncIterator[Holdfast]:
    """A second process, which hears of changes a second later."""
    async with opened(Desk(clock, desk), gate, clock, "authority") as other:
        yield other


async def change(shop: Holdfast, **changes: Any) -> None:
    assert isinstance(await shop.change_event(E1, **changes), Changed)


def effective(*changes: dict[str, Any]) -> str:
    """The policy that holds after all of these."""
    all_of_them: dict[str, Any] = {}
    for each in changes:
        all_of_them |= each
    return all_of_them.get("policy", "authority") if all_of_them.get("gate", True) else "authority"


async def crowd(shop: Holdfast) -> dict[str, Hold]:
    """Holds of every kind: one young, one extended, one being paid for, and a choice."""
    holds = {
        buyer: await held(shop, buyer, seats=[seat], pools={"floor": 1})
        for buyer, seat in SEATS.items()
    }
    await shop.extend_hold(holds["bob"].id)
    await shop.pay_hold(holds["cid"].id)
    holds["eve"] = await held(shop, "eve", best={"quantity": 2, "section": "B"})
    await sold(shop, "zoe", seats=["A-2-1"], pools={"floor": 1})
    seen = {buyer: await shop.hold(hold.id) for buyer, hold in holds.items()}
    return {buyer: hold for buyer, hold in seen.items() if hold is not None}


@pytest.mark.parametrize(("before", "after"), CHANGES, ids=named)
async def test_nobody_loses_a_hold_when_the_policy_changes(shop, gate, clock, before, after):
    await change(shop, **before)
    holds = await crowd(shop)
    assert holds.keys() == {*SEATS, "eve"}
    clock.advance(1_000)
    held_before = (await numbers(shop))[2:]
    await change(shop, **after)
    assert (await numbers(shop))[2:] == held_before
    now = effective(before, after)
    if now == "authority":
        assert await gate.events() == []
    else:
        assert await differences(shop) == []
    for buyer, hold in holds.items():
        found = await shop.hold(hold.id)
        assert found is not None
        same = ("buyer", "seats", "pools", "amount", "extensions", "version", "state", "until_ms")
        assert [getattr(found, name) for name in same] == [getattr(hold, name) for name in same]
        rival = shop.place_hold(E1, buyer="rival", seats=[*hold.seats])
        assert await reason(rival) is Reason.TAKEN, buyer
    assert await reason(shop.place_hold(E1, buyer="rival", pools={"floor": 6})) is (
        Reason.INSUFFICIENT
    )
    for hold in holds.values():
        assert isinstance(await shop.confirm_hold(hold.id, version=hold.version), Confirmed)
    assert await numbers(shop) == (CAPACITY, CAPACITY - 12, 0, 12)


@pytest.mark.parametrize(("before", "after"), CHANGES, ids=named)
async def test_nothing_is_sold_twice_when_the_policy_changes_in_a_stampede(
    shop, clock, before, after
):
    await change(shop, **before)
    asks = [
        shop.place_hold(E1, buyer=f"b{n}", seats=[f"A-1-{n % 3 + 1}"], pools={"floor": 3})
        for n in range(60)
    ]
    first, switch, last = asks[:30], shop.change_event(E1, **after), asks[30:]
    outcomes = await asyncio.gather(*first, switch, *last)
    placed = [outcome.hold for outcome in outcomes if isinstance(outcome, Placed)]
    assert len(placed) == 3
    confirmed = [await shop.confirm_hold(hold.id) for hold in placed]
    assert all(isinstance(outcome, Confirmed) for outcome in confirmed), confirmed
    assert await numbers(shop) == (CAPACITY, CAPACITY - 12, 0, 12)


async def test_a_hold_goes_through_all_policies(shop, gate, clock):
    """authority -> two-layer -> gate -> authority, gate -> two-layer, off and on."""
    hold = await held(shop, "ann", seats=["A-1-1"])
    courtesies = []
    steps: list[dict[str, Any]] = [
        {"policy": "two-layer"},
        {"policy": "gate"},
        {"policy": "authority"},
        {"policy": "gate"},
        {"policy": "two-layer"},
        {"policy": "gate"},
        OFF,
        ON,
        {"policy": "authority"},
    ]
    for number, step in enumerate(steps, 1):
        await change(shop, **step)
        clock.advance(1_000)
        found = await shop.hold(hold.id)
        assert (found.soft_ms, found.state) == (hold.soft_ms, HoldState.HELD), step
        assert await reason(shop.place_hold(E1, buyer="rival", seats=["A-1-1"])) is Reason.TAKEN
        courtesies.append(await held(shop, f"b{number}", pools={"floor": 1}))
    await shop.keeper.settled()
    assert await gate.events() == []
    assert (await numbers(shop))[2] == 1 + len(steps)
    for each in (hold, *courtesies):
        assert isinstance(await shop.confirm_hold(each.id), Confirmed)


async def test_the_gate_is_switched_for_every_event_at_once(shop, gate):
    await change(shop, policy="gate")
    await shop.create_event(description(id="e2", policy="two-layer"))
    await shop.create_event(description(id="e3", policy="two-layer", gate=False))
    hold = await held(shop, "ann", seats=["A-1-1"])
    assert await shop.switch_gate(on=False) == [E1, "e2"]
    assert await gate.events() == []
    assert (await shop.store.hold(E1, hold.id))[0].soft_ms == hold.soft_ms
    assert await shop.switch_gate(on=False) == []
    assert await shop.switch_gate(on=True) == [E1, "e2", "e3"]
    assert await gate.events() == [E1, "e2", "e3"]
    assert isinstance(await shop.confirm_hold(hold.id), Confirmed)


async def test_leaving_gate_writes_its_holds_to_the_authority_and_the_log(shop, clock):
    await change(shop, policy="gate")
    hold = await held(shop, "ann", seats=["A-1-1"])
    clock.advance(60_000)
    assert await log_types(shop) == ["event.created", "event.changed"]
    await change(shop, policy="authority")
    assert (await log_types(shop))[2:] == ["hold.placed", "event.changed"]
    row, _ = await shop.store.hold(E1, hold.id)
    assert (row.soft_ms, row.version, row.amount) == (hold.soft_ms, 1, hold.amount)
    assert isinstance(await shop.pay_hold(hold.id, version=1), Paying)


async def test_leaving_gate_the_dead_are_left_behind(shop, gate, clock):
    await change(shop, policy="gate")
    hold = await held(shop, "ann", seats=["A-1-1"])
    clock.advance(SOFT_MS)
    await change(shop, policy="authority")
    assert await shop.store.hold(E1, hold.id) is None
    await held(shop, "bob", seats=["A-1-1"])


async def test_leaving_gate_a_courtesy_whose_units_were_sold_is_refused_cleanly(
    shop, desk, gate, clock
):
    await change(shop, policy="gate")
    hold = await held(shop, "ann", seats=["A-1-1"])
    async with opened(Desk(clock, desk), None, clock, "authority") as behind:
        order = await sold(behind, "bob", seats=["A-1-1"])
    await change(shop, policy="two-layer")
    assert await shop.store.hold(E1, hold.id) is None
    assert isinstance(await shop.pay_hold(hold.id), Refused)
    assert (await kept(shop)).keys() == {order.id}


async def test_nobody_loses_a_hold_when_the_policy_of_a_paused_event_changes(shop):
    await change(shop, policy="gate")
    hold = await held(shop, "ann", seats=["A-1-1"])
    await shop.pause_event(E1)
    await change(shop, policy="authority")
    await shop.open_event(E1)
    assert (await shop.hold(hold.id)).state is HoldState.HELD
    assert isinstance(await shop.pay_hold(hold.id), Paying)


async def test_entering_gate_what_the_authority_has_is_claimed_first(shop, desk):
    hold = await held(shop, "ann", seats=["A-1-1"], pools={"floor": 9})
    order = await sold(shop, "bob", seats=["A-1-2"])
    await change(shop, policy="gate")
    desk.asked.clear()
    for seat in ("A-1-1", "A-1-2"):
        assert await reason(shop.place_hold(E1, buyer="cid", seats=[seat])) is Reason.TAKEN
    assert await reason(shop.place_hold(E1, buyer="cid", pools={"floor": 2})) is Reason.INSUFFICIENT
    assert desk.asked == []
    assert (await kept(shop)).keys() == {hold.id, order.id}


async def test_entering_gate_the_gate_knows_everything_before_anybody_hears_of_it(shop, desk):
    hold = await held(shop, "ann", seats=["A-1-1"])
    known: list[str] = []

    async def after() -> None:
        known.extend(await kept(shop))

    desk.after = after
    await change(shop, policy="gate")
    assert known == [hold.id], "when the change was committed, and not yet answered"


async def test_leaving_gate_nobody_gets_a_courtesy_after_they_were_copied(shop, other, desk):
    """Between the copying and the change itself, from a process that knows of neither."""
    await change(shop, policy="gate")
    await held(other, "ann", seats=["A-1-1"])
    late = []

    async def before() -> None:
        if isinstance(desk.asked[-1], ChangeEvent):
            late.append(await held(other, "bob", seats=["A-1-2"]))

    desk.before = before
    await change(shop, policy="authority")
    assert (await shop.store.hold(E1, late[0].id))[0] == late[0]


async def test_a_policy_that_changes_while_the_gate_is_down_costs_speed_only(shop, gate):
    await change(shop, policy="gate")
    hold = await held(shop, "ann", seats=["A-1-1"])
    with down(gate):
        await change(shop, policy="authority")
        assert isinstance(await shop.pay_hold(hold.id), Paying)
        await change(shop, policy="two-layer")
        assert await reason(shop.place_hold(E1, buyer="bob", seats=["A-1-1"])) is Reason.TAKEN
    assert isinstance(await shop.confirm_hold(hold.id), Confirmed)


# Another process


async def test_a_process_that_knows_the_old_policy_gets_no_courtesy(shop, other):
    await change(shop, policy="gate")
    young = await held(other, "ann", seats=["A-1-1"])
    assert (await kept(other))[young.id].kind is Kind.COURTESY
    await change(shop, policy="two-layer")
    hold = await held(other, "bob", seats=["A-1-2"])
    assert (await kept(other))[hold.id].kind is Kind.HELD
    assert (await shop.store.hold(E1, hold.id))[0] == hold


@pytest.mark.parametrize("after", [{"policy": "authority"}, OFF], ids=named)
async def test_a_process_that_knows_the_old_policy_gets_no_courtesy_from_a_cleared_gate(
    shop, other, after
):
    await change(shop, policy="gate")
    await held(other, "ann", seats=["A-1-1"])
    await change(shop, **after)
    for seat in ("A-1-2", "A-1-3"):
        hold = await held(other, "bob", seats=[seat])
        assert (await shop.store.hold(E1, hold.id))[0] == hold
    assert await reason(other.place_hold(E1, buyer="cid", seats=["A-1-1"])) is Reason.TAKEN


LEFT: list[dict[str, Any]] = [{"policy": "two-layer"}, {"policy": "authority"}, OFF]
ELSEWHERE = [
    pytest.param(after, step, id=f"{named(after)}-{step}")
    for after in LEFT
    for step in ("pay", "confirm", "extend", "release")
]


@pytest.mark.parametrize(("after", "step"), ELSEWHERE)
async def test_a_hold_placed_elsewhere_is_not_lost_when_gate_is_left(shop, other, after, step):
    await change(shop, policy="gate")
    hold = await held(other, "ann", seats=["A-1-1"])
    await change(shop, **after)
    assert (await other.hold(hold.id)).state is HoldState.HELD
    outcome = await getattr(other, f"{step}_hold")(hold.id)
    assert not isinstance(outcome, Refused), outcome


async def test_policies_change_over_a_file(tmp_path, gate, clock):
    here, there = make_sqlite(tmp_path, clock), make_sqlite(tmp_path, clock)
    async with (
        opened(here, gate, clock, "gate") as first,
        opened(there, gate, clock, "gate") as second,
    ):
        await on_sale(first)
        hold = await held(first, "ann", seats=["A-1-1"])
        assert await first.store.hold(E1, hold.id) is None
        await change(first, policy="two-layer")
        moved = await second.hold(hold.id)
        assert moved is not None
        assert moved.soft_ms == hold.soft_ms
        assert await reason(second.place_hold(E1, buyer="bob", seats=["A-1-1"])) is Reason.TAKEN
        later = await held(second, "bob", seats=["A-1-2"])
        assert (await kept(first))[later.id].kind is Kind.HELD
        await change(first, policy=None)
        assert isinstance(await first.confirm_hold(hold.id), Confirmed)
        assert await drift(here) == []


# Settings


@pytest.mark.parametrize("policy", ["two-layer", "gate"])
def test_a_policy_without_a_gate_is_refused_in_one_line(policy):
    with pytest.raises(SettingsError) as refused:
        load_settings({"policy": policy}, {})
    text = str(refused.value)
    assert "\n" not in text
    assert policy in text
    assert "gate" in text


def test_an_unknown_policy_is_refused_with_those_there_are():
    with pytest.raises(SettingsError, match=r"authority, two-layer or gate, not 'redis'"):
        load_settings({"policy": "redis", "gate": "memory://"}, {})


@pytest.mark.parametrize("url", ["memcached://x", "memory", "", "redis", "http://a:b@c"])
def test_an_unknown_gate_is_refused_with_those_there_are(url):
    with pytest.raises(SettingsError, match=r"use none, memory:// or redis://") as refused:
        make_gate(Settings(gate=url))
    assert "\n" not in str(refused.value)


def test_a_gates_password_is_not_shown():
    with pytest.raises(SettingsError) as refused:
        make_gate(Settings(gate="memcached://ann:secret@host"))
    assert "secret" not in str(refused.value)


async def test_an_event_has_no_unknown_policy(shop):
    with pytest.raises(Invalid):
        await shop.change_event(E1, policy="redis")


async def test_an_events_own_policy_is_above_the_deployments(desk, gate, clock):
    async with opened(desk, gate, clock, "gate") as shop:
        await on_sale(shop, policy="authority")
        hold = await held(shop, "ann", seats=["A-1-1"])
        assert (await desk.hold(E1, hold.id)) is not None
        await change(shop, policy=None)
        courtesy = await held(shop, "bob", seats=["A-1-2"])
        assert await desk.hold(E1, courtesy.id) is None


@pytest.mark.parametrize("policy", ["two-layer", "gate"])
async def test_an_events_policy_without_a_gate_is_authority(desk, clock, policy):
    async with opened(desk, None, clock, "authority") as shop:
        await on_sale(shop, policy=policy)
        hold = await held(shop, "ann", seats=["A-1-1"])
        assert (await desk.hold(E1, hold.id)) is not None
        assert isinstance(await shop.confirm_hold(hold.id), Confirmed)
