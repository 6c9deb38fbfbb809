"""Crowds before a real Redis Cluster of three masters. One of them is lost: its events go on
without the gate, the others with it, and nothing is sold twice."""

import asyncio
import gc
from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast import Confirmed, Holdfast, Placed
from holdfast.domain.gating import Find
from holdfast.lab.stampede import Tally, count, house, stampede
from tests.databases.mishaps import restart
from tests.databases.shops import until
from tests.gates import test_cluster
from tests.gates.shops import compared, database_url, gated, rows
from tests.gates.test_cluster import EVENTS, master_of, url_of

pytestmark = [
    pytest.mark.service,
    pytest.mark.soak,
    # The driver forgets nodes whose connections are still open, and leaves those to the collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

masters = test_cluster.masters

SEATS = 50
BUYERS = 1_000
"""Of each event."""
WAITING = 100
TIMEOUT_MS = 1_000
"""Crowds of twelve events share one event loop."""
LOST = 1


@pytest.fixture
async def url() -> AsyncIterator[str]:
    async with database_url() as url:
        yield url
    gc.collect()  # here, where it may warn


def shop_before(url: str, gate: str, policy: str) -> Holdfast:
    """Without the cache: everybody asks the gate, or the authority."""
    limits: dict[str, Any] = {"gate_timeout_ms": TIMEOUT_MS, "lane_max": WAITING}
    return gated(url, gate, policy=policy, refusal_cache=False, **limits)


async def sold_once(shop: Holdfast, event: str, tally: Tally) -> None:
    assert tally.errors == {}, event
    assert (tally.sold, tally.rejected) == (SEATS, BUYERS - SEATS), event
    found = await rows(shop, event)
    assert (found.held, found.sold, found.oversold) == (0, SEATS, []), event


async def mended(shop: Holdfast, events: list[str]) -> None:
    assert shop.keeper is not None
    assert shop.reconciler is not None
    await shop.keeper.settled()
    await shop.reconciler.round()
    for event in events:
        assert (await compared(shop, event)).lines == [], event


POLICIES = pytest.mark.parametrize("policy", ["two-layer", "gate"])


@POLICIES
async def test_crowds_on_events_of_every_master(url, masters, policy):
    async with shop_before(url, url_of(masters[0]), policy) as shop:
        for event in EVENTS:
            await shop.create_event(house(event, SEATS))
        tallies = await asyncio.gather(
            *(stampede(shop, event, range(BUYERS), SEATS) for event in EVENTS)
        )
        for event, tally in zip(EVENTS, tallies, strict=True):
            await sold_once(shop, event, tally)
        assert shop.keeper is not None
        assert shop.keeper.failures == 0
        await mended(shop, EVENTS)


@POLICIES
async def test_a_master_is_killed_in_the_middle(url, masters, policy):
    theirs = [event for event in EVENTS if master_of(event) == LOST]
    assert theirs
    async with shop_before(url, url_of(masters[0]), policy) as shop:
        for event in EVENTS:
            await shop.create_event(house(event, SEATS))
        reached = asyncio.Event()

        def progress(tally: Tally) -> None:
            reached.set()

        async def lose() -> int:
            await reached.wait()
            masters[LOST].kill()
            return sum([(await count(shop.store, event, SEATS)).sold for event in theirs])

        losing = asyncio.create_task(lose())
        tallies = await asyncio.gather(
            *(stampede(shop, event, range(BUYERS), SEATS, progress) for event in EVENTS)
        )
        sold_before = await losing
        assert sold_before < SEATS * len(theirs), "it was over before"
        for event, tally in zip(EVENTS, tallies, strict=True):
            await sold_once(shop, event, tally)
        assert shop.keeper is not None
        assert shop.keeper.failures
        await restart(masters[LOST])
        await until(lambda: answer(shop, theirs), "that the gate stands before all events again")
        await mended(shop, EVENTS)


@POLICIES
async def test_events_of_a_lost_master_go_on_without_the_gate(url, masters, policy):
    """And those of the others with it."""
    theirs = [event for event in EVENTS if master_of(event) == LOST]
    others = [event for event in EVENTS if master_of(event) != LOST]
    async with shop_before(url, url_of(masters[0]), policy) as shop:
        for event in EVENTS:
            await shop.create_event(house(event, SEATS))
        masters[LOST].kill()
        for event in theirs:
            await bought(shop, event, "S-1")
        assert shop.keeper is not None
        for event in others:

            async def with_the_gate(event: str = event) -> bool:
                return await answer(shop, [event])

            await until(with_the_gate, f"that the gate stands before {event}")
            await bought(shop, event, "S-1")


async def bought(shop: Holdfast, event: str, seat: str) -> None:
    placed = await shop.place_hold(event, buyer="ann", seats=[seat])
    assert isinstance(placed, Placed), placed
    confirmed = await shop.confirm_hold(placed.hold.id, buyer="ann")
    assert isinstance(confirmed, Confirmed), confirmed
    assert (await rows(shop, event)).owners[seat] == 1


async def answer(shop: Holdfast, events: list[str]) -> bool:
    """Whether the keeper lets asks about these through, and the gate answers them."""
    assert shop.keeper is not None
    return all([await shop.keeper.ask(event, 1, Find("nobody")) is not None for event in events])
