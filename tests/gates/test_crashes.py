"""A process is killed between two steps of a hold: what it left behind in the gate heals by its
deadline or by a reconciliation, whichever comes first, and the authority was right all along.

    python -m tests.gates.test_crashes POINT POLICY URL GATE

is the process. It says `here HOLD` when it has come to that point, and goes no further.
"""

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast import Confirmed, Holdfast, Placed, Reason, Refused
from holdfast.domain.commands import Command, ConfirmHold, PlaceHold
from holdfast.domain.gating import Kind, Owned
from holdfast.domain.model import FOREVER_MS, HoldState
from holdfast.domain.outcomes import Answer
from holdfast.front import CLAIM_MS
from holdfast.ports import Committed, nothing
from tests.databases.shops import ROOT, plan, until
from tests.gates.helpers import owners
from tests.gates.shops import compared, database_url, gate_of, gated, rows

pytestmark = [pytest.mark.service, pytest.mark.slow]

E1 = "e1"
BUYER = "ann"
ASK: dict[str, Any] = {"seats": ["A-1-1"], "pools": {"floor": 100}}
"""A seat, and all of the stock."""
HEALED_SECONDS = CLAIM_MS / 1000 + 5
"""A claim's deadline, and a lot for the machine."""
LEFT_MS = 500
"""A claim that has that long to live is there when it is asked about."""
SHORT: dict[str, Any] = {"hold_seconds": 2, "grace_seconds": 1}
"""For those who wait for a hold's deadline; long enough to confirm it first."""

CRASHES: dict[str, tuple[type[Command], bool]] = {
    "claimed": (PlaceHold, False),
    "written": (PlaceHold, True),
    "confirming": (ConfirmHold, False),
    "confirmed": (ConfirmHold, True),
}
"""At which command of the authority's, and whether after its commit. Under policy `gate` a hold is
placed in the authority when payment begins, and no sooner."""


async def crash(point: str, policy: str, url: str, gate: str) -> None:
    """The process to be killed: a buyer holds, and buys."""
    kind, after = CRASHES[point]
    async with gated(url, gate, policy=policy) as shop:
        apply = shop.store.apply

        async def stopping(
            commands: Sequence[Command], committed: Committed = nothing
        ) -> list[Answer]:
            here = [command for command in commands if isinstance(command, kind)]
            answers = [] if here and not after else await apply(commands, committed)
            if not here:
                return answers
            assert isinstance(here[0], PlaceHold | ConfirmHold)
            print(f"here {here[0].hold}", flush=True)
            await asyncio.Event().wait()
            return answers

        shop._lanes._apply = stopping
        own: dict[str, Any] = {"id": "mine"} if policy == "two-layer" else {}
        placed = await shop.place_hold(E1, buyer=BUYER, **ASK, **own)
        assert isinstance(placed, Placed), placed
        await shop.confirm_hold(placed.hold.id, buyer=BUYER, order="mine")


@asynccontextmanager
async def crashed(
    point: str, policy: str, url: str, gate: str, **changes: Any
) -> AsyncIterator[tuple[Holdfast, str]]:
    """A shop in another process, which is left when the one that crashed is gone; and the hold."""
    async with gated(url, gate, policy=policy) as shop:
        await shop.create_event(plan(id=E1, **changes))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.gates.test_crashes", point, policy, url, gate),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            assert process.stdout is not None
            line = (await process.stdout.readline()).decode().split()
        finally:
            process.kill()
            _, stderr = await process.communicate()
        assert line[:1] == ["here"], stderr.decode()
        assert process.returncode == -signal.SIGKILL
        yield shop, line[1]
        found = await rows(shop, E1)
        assert found.oversold == []
        await reconciled(shop)


async def reconciled(shop: Holdfast) -> None:
    assert shop.reconciler is not None
    await shop.reconciler.round()
    assert (await compared(shop, E1)).lines == []


async def kept(shop: Holdfast, hold: str) -> Owned | None:
    """What the gate has of it."""
    return owners(await gate_of(shop).snapshot(E1)).get(hold)


async def refused(shop: Holdfast) -> bool:
    outcome = await shop.place_hold(E1, buyer="bob", **ASK)
    assert isinstance(outcome, Placed | Refused)
    if isinstance(outcome, Refused):
        assert outcome.reason in (Reason.TAKEN, Reason.SOLD_OUT)
    return isinstance(outcome, Refused)


async def buys(shop: Holdfast) -> bool:
    """Under policy `gate` he may get a courtesy; what counts is what he can pay for."""
    outcome: Any = await shop.place_hold(E1, buyer="bob", **ASK)
    if isinstance(outcome, Placed):
        outcome = await shop.confirm_hold(outcome.hold.id, buyer="bob")
    if isinstance(outcome, Refused):
        assert outcome.reason in (Reason.TAKEN, Reason.SOLD_OUT)
    return isinstance(outcome, Confirmed)


@pytest.fixture(params=["postgres", pytest.param("mysql", marks=pytest.mark.soak)])
async def url(request) -> AsyncIterator[str]:
    async with database_url(request.param) as url:
        yield url


async def test_between_claim_and_write_others_wait_for_three_seconds(url, redis_server):
    async with crashed("claimed", "two-layer", url, redis_server.url) as (shop, hold):
        began = time.monotonic()
        left = await kept(shop, hold)
        if left is not None and left.keep_ms > LEFT_MS:
            assert left.kind is Kind.CLAIM
            assert left.keep_ms <= CLAIM_MS
            assert await refused(shop)
        assert await shop.hold(hold) is None, "the authority knows nothing of it"

        async def placed() -> bool:
            return not await refused(shop)

        await until(placed, "that the seat and the stock are free again")
        assert time.monotonic() - began < HEALED_SECONDS
        assert (await rows(shop, E1)).held == 101


async def test_between_claim_and_write_the_buyer_himself_need_not_wait(url, redis_server):
    async with crashed("claimed", "two-layer", url, redis_server.url) as (shop, hold):
        again = await shop.place_hold(E1, buyer=BUYER, id="mine", **ASK)
        assert isinstance(again, Placed)
        assert again.hold.id == hold
        assert await refused(shop)
        assert (await rows(shop, E1)).held == 101


@pytest.mark.parametrize("healing", ["deadline", "reconciliation"])
async def test_between_write_and_answer_the_hold_is_there(url, redis_server, healing):
    async with crashed("written", "two-layer", url, redis_server.url) as (shop, hold):
        if healing == "deadline":
            await until(lambda: lapsed(shop, hold), "that the claim has lapsed")
        else:
            await reconciled(shop)
            mirrored = await kept(shop, hold)
            assert mirrored is not None
            assert mirrored.kind is Kind.HELD
            assert mirrored.keep_ms > CLAIM_MS
        assert await refused(shop)
        again = await shop.place_hold(E1, buyer=BUYER, id="mine", **ASK)
        assert isinstance(again, Placed), "a repetition gets the first answer"
        assert again.hold.id == hold
        assert (await rows(shop, E1)).held == 101


async def lapsed(shop: Holdfast, hold: str) -> bool:
    return await kept(shop, hold) is None


@pytest.mark.parametrize(
    ("policy", "healing"),
    [
        ("two-layer", "deadline"),
        ("two-layer", "reconciliation"),
        pytest.param("gate", "deadline", marks=pytest.mark.soak),
        ("gate", "reconciliation"),
    ],
)
async def test_between_confirm_and_cleanup_it_is_sold(url, redis_server, policy, healing):
    changes = SHORT if healing == "deadline" else {}
    async with crashed("confirmed", policy, url, redis_server.url, **changes) as (shop, hold):
        if healing == "deadline":
            # The gate takes it for a hold, and that is over: now the authority says no.
            await until(lambda: lapsed(shop, hold), "that the hold has lapsed in the gate")
            assert not await buys(shop)
        else:
            await reconciled(shop)
            mirrored = await kept(shop, hold)
            assert mirrored is not None
            assert (mirrored.kind, mirrored.keep_ms) == (Kind.HELD, FOREVER_MS)
            assert await refused(shop)
        again = await shop.confirm_hold(hold, buyer=BUYER, order="mine")
        assert isinstance(again, Confirmed), "a repetition gets the first answer"
        assert again.order.id == f"{E1}.mine"
        found = await rows(shop, E1)
        assert (found.held, found.sold) == (0, 101)


async def test_payment_that_did_not_begin_leaves_a_courtesy_that_can_be_paid(url, redis_server):
    async with crashed("claimed", "gate", url, redis_server.url) as (shop, hold):
        courtesy = await shop.hold(hold)
        assert courtesy is not None
        assert courtesy.state is HoldState.HELD
        assert (await rows(shop, E1)).held == 0, "the authority knows nothing of it"
        assert await refused(shop)
        await bought(shop, hold)


@pytest.mark.parametrize("healing", ["repetition", "reconciliation"])
@pytest.mark.parametrize("point", ["written", "confirming"])
async def test_payment_that_began_is_the_authoritys(url, redis_server, point, healing):
    async with crashed(point, "gate", url, redis_server.url) as (shop, hold):
        paying = await shop.hold(hold)
        assert paying is not None
        assert paying.state is HoldState.PAYING
        if healing == "reconciliation":
            await reconciled(shop)
            mirrored = await kept(shop, hold)
            assert mirrored is not None
            assert mirrored.kind is Kind.HELD
        assert await refused(shop)
        await bought(shop, hold)


@pytest.mark.parametrize("point", ["written", pytest.param("confirming", marks=pytest.mark.soak)])
async def test_payment_that_nobody_ends_is_over_at_the_hard_deadline(url, redis_server, point):
    async with crashed(point, "gate", url, redis_server.url, **SHORT) as (shop, hold):
        await until(lambda: buys(shop), "that the seat and the stock are free again")
        expired = await shop.hold(hold)
        assert expired is not None
        assert expired.state is HoldState.EXPIRED


async def bought(shop: Holdfast, hold: str) -> None:
    confirmed = await shop.confirm_hold(hold, buyer=BUYER, order="mine")
    assert isinstance(confirmed, Confirmed), confirmed
    assert await refused(shop)
    found = await rows(shop, E1)
    assert (found.held, found.sold) == (0, 101)


if __name__ == "__main__":
    asyncio.run(crash(*sys.argv[1:5]))
