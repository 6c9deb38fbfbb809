"""A crowd before a real Redis and a real PostgreSQL: what there is is sold once, and hardly anybody
who is refused costs the database anything."""

import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast import Changed, Confirmed, Holdfast, Paying, Placed, Reason, Refused, Released
from holdfast.domain.gating import Snapshot
from holdfast.lab.stampede import house
from tests.contract.helpers import said
from tests.gates.shops import compared, database_url, gate_of, gated, rows, transactions

pytestmark = [pytest.mark.service, pytest.mark.slow]

E1 = "rush"
BUYERS = 10_000
CONTROL_BUYERS = 1_000
"""Each of them costs a transaction, so fewer show it as well."""
SHARE_MAX = 0.01
"""Of the refusals may have touched the database: the issue's figure."""
ONE_EACH: dict[str, Any] = {"batch_max": 1}
"""Each command is a transaction of its own, so the database's count of transactions is one of
commands: a batch of 500 refusals would else look like one."""
PATIENT_MS = 10_000
"""A crowd of 10,000 keeps the event loop busy for longer than the 100 ms that a gate has else, and
these tests are about a gate that is well."""
WAITING = 200
"""Buyers at a time, where something happens in the middle: so that most come after it."""
POLICIES = ("authority", "two-layer", "gate")


@pytest.fixture
async def url(request) -> AsyncIterator[str]:
    async with database_url(getattr(request, "param", "postgres")) as url:
        yield url


async def crowd(shop: Holdfast, buyers: int, **ask: Any) -> tuple[list[Placed], Counter[str]]:
    """Everybody at one moment; what they hold, and what they were told."""
    asks = (shop.place_hold(E1, buyer=f"u{n}", **ask) for n in range(buyers))
    outcomes = await asyncio.gather(*asks)
    placed = [outcome for outcome in outcomes if isinstance(outcome, Placed)]
    return placed, Counter(map(said, outcomes))


async def confirm(shop: Holdfast, placed: list[Placed]) -> None:
    for each in placed:
        outcome = await shop.confirm_hold(each.hold.id, buyer=each.hold.buyer)
        assert isinstance(outcome, Confirmed), outcome


async def test_refusals_hardly_touch_the_database(url, redis_server, record_property):
    options: dict[str, Any] = {"policy": "two-layer", "gate_timeout_ms": PATIENT_MS, **ONE_EACH}
    async with gated(url, redis_server.url, upkeep=True, **options) as shop:
        await shop.create_event(house(E1, 1))
    before = await transactions(url)
    async with gated(url, redis_server.url, upkeep=True, **options) as shop:
        _, told = await crowd(shop, BUYERS, seats=["S-1"])
        assert told == {"placed": 1, "no.taken": BUYERS - 1}
        assert shop.keeper is not None
        assert shop.keeper.passed_by == 0
    # Upkeep, the cache and the winner are in it too, and the opening of the shop.
    share = (await transactions(url) - before) / (BUYERS - 1)
    record_property("share", share)
    print(f"refusals that touched PostgreSQL: {share:.2%} at most")
    assert share < SHARE_MAX
    async with gated(url) as shop:
        found = await rows(shop, E1)
        assert (found.held, found.sold) == (1, 0)


async def test_without_gate_and_cache_every_refusal_touches_the_database(url):
    """The control: else the count would show nothing."""
    options: dict[str, Any] = {"refusal_cache": False, **ONE_EACH}
    async with gated(url, **options) as shop:
        await shop.create_event(house(E1, 1))
    before = await transactions(url)
    async with gated(url, **options) as shop:
        _, told = await crowd(shop, CONTROL_BUYERS, seats=["S-1"])
        assert told == {"placed": 1, "no.taken": CONTROL_BUYERS - 1}
    touched = await transactions(url) - before
    print(f"refusals that touched PostgreSQL: {touched / (CONTROL_BUYERS - 1):.2%} (control)")
    assert touched >= CONTROL_BUYERS


async def test_four_processes_sell_it_once_and_hardly_touch_the_database(url, redis_server):
    async with gated(url) as shop:
        await shop.store.migrate()
    before = await transactions(url)
    report = await stampede_of_processes(
        url,
        GATE=redis_server.url,
        POLICY="two-layer",
        GATE_TIMEOUT_MS=str(PATIENT_MS),
        BATCH_MAX="1",
    )
    share = (await transactions(url) - before) / (BUYERS - 1)
    print(f"refusals that touched PostgreSQL: {share:.2%} at most (four processes)")
    assert (report["sold"], report["rejected"], report["oversold"]) == (1, BUYERS - 1, 0)
    # The opening of five shops is in it, with all that they look up on their own.
    assert share < 2 * SHARE_MAX


async def stampede_of_processes(url: str, **settings: str) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast.cli", "stampede", "--json"),
        *("--buyers", str(BUYERS), "--seats", "1", "--processes", "4", "--store", url),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **{f"HOLDFAST_{name}": value for name, value in settings.items()}},
    )
    stdout, stderr = await process.communicate()
    assert process.returncode == 0, stderr.decode()
    report: dict[str, Any] = json.loads(stdout)
    return report


class Rush:
    """A crowd of which so many wait at a time: what they were told, and when it is in the middle.
    Who gets a seat buys it."""

    def __init__(self, shop: Holdfast, seats: int, buyers: int) -> None:
        self.told: Counter[str] = Counter()
        self.confirms: Counter[str] = Counter()
        self.middle = asyncio.Event()
        self._shop = shop
        self._seats = seats
        self._numbers = iter(range(buyers))

    async def run(self) -> None:
        await asyncio.gather(*(self._buyers() for _ in range(WAITING)))

    async def _buyers(self) -> None:
        for number in self._numbers:
            buyer, seat = f"u{number}", f"S-{number % self._seats + 1}"
            placed = await self._shop.place_hold(E1, buyer=buyer, seats=[seat])
            self.told[said(placed)] += 1
            if isinstance(placed, Placed):
                confirmed = await self._shop.confirm_hold(placed.hold.id, buyer=buyer)
                self.confirms[said(confirmed)] += 1
            if self.told.total() >= WAITING:
                self.middle.set()


@pytest.mark.parametrize("seats", [1, 500])
@pytest.mark.parametrize("policy", ["two-layer", "gate"])
async def test_the_gate_is_switched_off_in_the_middle(url, redis_server, policy, seats):
    """Without the cache, so that whoever comes after it has to ask the authority. Nothing is lost
    with a gate that is well: whoever was told that he holds a seat can buy it."""
    buyers = BUYERS // 2
    options: dict[str, Any] = {"policy": policy, "refusal_cache": False}
    async with gated(url, redis_server.url, gate_timeout_ms=PATIENT_MS, **options) as shop:
        await shop.create_event(house(E1, seats))
        rush = Rush(shop, seats, buyers)

        async def switch_off() -> int:
            await rush.middle.wait()
            placed = rush.told["placed"]
            assert isinstance(await shop.change_event(E1, gate=False), Changed)
            return placed

        _, before = await asyncio.gather(rush.run(), switch_off())
        assert seats == 1 or before < seats, "it was over before"
        assert rush.told == {"placed": seats, "no.taken": buyers - seats}
        assert rush.confirms == {"confirmed": seats}
        found = await rows(shop, E1)
        assert (found.held, found.sold, found.oversold) == (0, seats, [])


@pytest.mark.parametrize("seats", [1, 500])
@pytest.mark.parametrize("policy", ["two-layer", "gate"])
async def test_the_gate_is_killed_in_the_middle(url, killable, policy, seats):
    buyers = BUYERS // 2
    async with gated(url, killable.url, policy=policy, refusal_cache=False) as shop:
        await shop.create_event(house(E1, seats))
        rush = Rush(shop, seats, buyers)

        async def kill() -> int:
            await rush.middle.wait()
            killable.kill()
            return rush.told["placed"]

        _, before = await asyncio.gather(rush.run(), kill())
        assert seats == 1 or before < seats, "it was over before"
        assert shop.keeper is not None
        assert shop.keeper.failures
        assert rush.told.keys() <= {"placed", "no.taken"}
        assert rush.confirms["confirmed"] == seats
        # A courtesy is lost with the gate: then another may have got the seat, and its holder is
        # told so before he pays.
        assert rush.confirms.keys() <= {"confirmed"} | ({"no.taken"} if policy == "gate" else set())
        found = await rows(shop, E1)
        assert (found.held, found.sold, found.oversold) == (0, seats, [])


async def test_policy_gate_holds_it_once_and_sells_it_once(url, redis_server):
    options: dict[str, Any] = {"policy": "gate", "gate_timeout_ms": PATIENT_MS}
    async with gated(url, redis_server.url, **options) as shop:
        await shop.create_event(house(E1, 1))
        placed, told = await crowd(shop, BUYERS, seats=["S-1"])
        assert told == {"placed": 1, "no.taken": BUYERS - 1}
        found = await rows(shop, E1)
        assert (found.held, found.sold) == (0, 0), "until payment begins it lives in the gate"
        await confirm(shop, placed)
        found = await rows(shop, E1)
        assert (found.held, found.sold, found.oversold) == (0, 1, [])


async def test_whoever_holds_a_courtesy_buys_it_though_the_gate_is_switched_off(url, redis_server):
    """Those who pay meet the move of all courtesies to the authority."""
    seats = 100
    options: dict[str, Any] = {"policy": "gate", "gate_timeout_ms": PATIENT_MS}
    async with gated(url, redis_server.url, **options) as shop:
        await shop.create_event(house(E1, seats))
        asks = (shop.place_hold(E1, buyer=f"u{n}", seats=[f"S-{n + 1}"]) for n in range(seats))
        placed = [each for each in await asyncio.gather(*asks) if isinstance(each, Placed)]
        assert len(placed) == seats
        buys = [shop.confirm_hold(each.hold.id, buyer=each.hold.buyer) for each in placed]
        changed, *bought = await asyncio.gather(shop.change_event(E1, gate=False), *buys)
        assert isinstance(changed, Changed)
        assert Counter(map(said, bought)) == {"confirmed": seats}
        found = await rows(shop, E1)
        assert (found.held, found.sold, found.oversold) == (0, seats, [])


async def test_a_crowd_looks_at_the_courtesies_of_an_event_together(url, redis_server, monkeypatch):
    """Asks under an id of the caller's have to know them all: a snapshot each would be more than
    Redis has connections for, and look as if it were down."""
    asks, looks = 500, 0
    options: dict[str, Any] = {"policy": "gate", "gate_timeout_ms": PATIENT_MS}
    async with gated(url, redis_server.url, **options) as shop:
        await shop.create_event(house(E1, asks))
        gate = gate_of(shop)
        look = gate.snapshot

        async def counted(event: str) -> Snapshot:
            nonlocal looks
            looks += 1
            return await look(event)

        monkeypatch.setattr(gate, "snapshot", counted)
        outcomes = await asyncio.gather(
            *(
                shop.place_hold(E1, buyer=f"u{n}", id=f"h{n}", seats=[f"S-{n + 1}"])
                for n in range(asks)
            )
        )
        assert Counter(map(said, outcomes)) == {"placed": asks}
        assert shop.keeper is not None
        assert shop.keeper.failures == 0
        # One is good for 200 ms, and this may take a few seconds on a busy machine.
        assert looks < asks / 10


@pytest.mark.parametrize("policy", ["two-layer", "gate"])
async def test_a_sale_without_mishap_leaves_nothing_to_mend(url, redis_server, policy):
    options: dict[str, Any] = {"policy": policy, "gate_timeout_ms": PATIENT_MS}
    async with gated(url, redis_server.url, **options) as shop:
        await shop.create_event(house(E1, 60))
        named = (shop.place_hold(E1, buyer=f"u{n}", seats=[f"S-{n + 1}"]) for n in range(50))
        outcomes = await asyncio.gather(*named)
        best = (shop.place_hold(E1, buyer=f"b{n}", best=1) for n in range(10))
        outcomes += await asyncio.gather(*best)
        placed = [each for each in outcomes if isinstance(each, Placed)]
        assert len(placed) == 60
        await confirm(shop, placed[::2])
        for each in placed[1::4]:
            assert isinstance(await shop.release_hold(each.hold.id), Released)
        for each in placed[3::8]:
            assert isinstance(await shop.pay_hold(each.hold.id), Paying)
        assert shop.keeper is not None
        await shop.keeper.settled()
        assert (await compared(shop, E1)).lines == []


@pytest.mark.parametrize(
    ("url", "policy"),
    [*(("postgres", policy) for policy in POLICIES), ("mysql", "two-layer")],
    indirect=["url"],
)
async def test_counted_stock_is_sold_to_the_last_and_no_further(url, redis_server, policy):
    stock, buyers = 100, 3_000
    options: dict[str, Any] = {"policy": policy, "gate_timeout_ms": PATIENT_MS}
    async with gated(url, redis_server.url, **options) as shop:
        pools = [{"id": "floor", "capacity": stock}]
        await shop.create_event({"id": E1, "prices": {"floor": 50}, "pools": pools})
        placed, told = await crowd(shop, buyers, pools={"floor": 1})
        assert told == {"placed": stock, "no.sold_out": buyers - stock}
        await confirm(shop, placed)
        found = await rows(shop, E1)
        assert (found.held, found.sold) == (0, stock)
        refused = await shop.place_hold(E1, buyer="late", pools={"floor": 1})
        assert isinstance(refused, Refused)
        assert refused.reason is Reason.SOLD_OUT
