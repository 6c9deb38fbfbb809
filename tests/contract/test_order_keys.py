"""The key of an order counts in every event, from the order's own transaction on, for a day."""

import asyncio
import uuid

import pytest
from msgspec.structs import replace

from holdfast import Reason, Refused
from holdfast.domain.outcomes import Opened, OpenedBefore
from holdfast.stores import rows
from tests.contract.helpers import E1, SOFT_MS, description, nothing_changes, on_sale

pytestmark = pytest.mark.policies("authority")

DAY_MS = 24 * 3600 * 1000
E2 = "e2"


@pytest.fixture
def key() -> str:
    """Keys belong to no event: nobody else may have used it."""
    return f"key:{uuid.uuid4().hex}"


@pytest.fixture
async def shop(shop):
    await on_sale(shop)
    await shop.create_event(description(id=E2))
    return shop


async def hold(shop, event: str, seat: str = "A-1-1") -> str:
    placed = await shop.place_hold(event, buyer="ann", seats=[seat])
    return str(placed.hold.id)


def asks(shop, hold: str, key: str | None, method: str = "sandbox:ok"):
    used_for = f"{hold} {method}"
    event = hold.partition(".")[0]
    return shop.clerk.open_order(event, hold, method, key=key, used_for=used_for, lease_ms=60_000)


async def opened(shop, hold: str, key: str | None, method: str = "sandbox:ok"):
    return (await shop.submit(asks(shop, hold, key, method))).outcome


def is_mismatch(outcome: object) -> bool:
    return isinstance(outcome, Refused) and outcome.reason is Reason.IDEMPOTENCY_MISMATCH


async def test_a_key_of_one_event_is_refused_in_another_and_nothing_changes(shop, key):
    assert isinstance(await opened(shop, await hold(shop, E1), key), Opened)
    theirs = await hold(shop, E2)
    async with nothing_changes(shop, E2):
        assert is_mismatch(await opened(shop, theirs, key))
    assert isinstance(await opened(shop, theirs, f"{key}2"), Opened)


async def test_what_was_asked_first_is_told_again(shop, key):
    mine = await hold(shop, E1)
    first = await opened(shop, mine, key)
    again = await shop.submit(asks(shop, mine, key))
    assert again.replayed
    assert again.outcome == OpenedBefore(first.order.id, first.until_ms)


async def test_what_was_refused_leaves_the_key_free(shop, key, clock):
    over = await hold(shop, E1)
    clock.advance(SOFT_MS)
    assert not isinstance(await opened(shop, over, key), Opened)
    assert await shop.store.claim_keys([(f"{key}2", "d")]) == ["d"]
    assert isinstance(await opened(shop, await hold(shop, E2), key), Opened)


async def test_a_key_of_another_kind_of_call_is_refused(shop, key):
    await shop.store.claim_keys([(key, "of a call that names no event")])
    mine = await hold(shop, E1)
    async with nothing_changes(shop):
        assert is_mismatch(await opened(shop, mine, key))
    assert isinstance(await opened(shop, mine, f"{key}2"), Opened)
    assert await shop.store.claim_keys([(f"{key}2", "another")]) != ["another"]


async def test_after_a_day_a_key_may_be_used_anew(shop, key, clock):
    await opened(shop, await hold(shop, E1), key)
    clock.advance(DAY_MS + 1)
    assert isinstance(await opened(shop, await hold(shop, E2), key), Opened)
    third = await hold(shop, E1, "A-2-1")
    clock.advance(1)
    assert await shop.store.claim_keys([(key, "late")]) != ["late"], "its day began anew"
    assert is_mismatch(await opened(shop, third, key))


async def test_keys_of_orders_do_not_pile_up(shop, key, clock, monkeypatch):
    monkeypatch.setattr(rows, "FORGET_FACTS", 1)
    for n in range(4):
        await opened(shop, await hold(shop, E1, f"A-1-{n + 1}"), f"{key}{n}")
    clock.advance(DAY_MS + 1)
    for n in range(2):
        await opened(shop, await hold(shop, E2, f"A-1-{n + 1}"), f"{key}new{n}")
    # Each that was added has taken two with it: they may be claimed as if they had never been.
    claims = [(f"{key}{n}", "anew") for n in range(4)]
    assert await shop.store.claim_keys(claims) == ["anew"] * 4


async def test_orders_without_a_key_have_nothing_to_do_with_it(shop, key):
    assert isinstance(await opened(shop, await hold(shop, E1), None), Opened)
    assert isinstance(await opened(shop, await hold(shop, E2), None), Opened)


async def test_of_two_events_that_race_for_a_key_one_has_it(shop, key):
    asked = []
    for n in range(5):
        for event in (E1, E2) if n % 2 else (E2, E1):
            asked.append(asks(shop, await hold(shop, event, f"A-1-{n + 1}"), f"{key}{n}"))
    answers = [answer.outcome for answer in await asyncio.gather(*map(shop.submit, asked))]
    for n in range(5):
        pair = answers[2 * n : 2 * n + 2]
        assert sorted(map(is_mismatch, pair)) == [False, True], pair
    # And whoever has it, has it for good.
    again = [(await shop.submit(replace(each))).outcome for each in asked]
    assert list(map(is_mismatch, again)) == list(map(is_mismatch, answers))
