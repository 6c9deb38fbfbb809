"""Redis is emptied, killed, frozen, filled or replaced in the middle of a sale. It costs speed, for
a moment: nothing is sold twice, nothing that was answered is lost but a courtesy, nobody waits."""

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest
from redis import Redis as Client

from holdfast import Confirmed, Hold, Holdfast, Order, Placed, Reason, Refused, Released
from holdfast.domain.gating import Claim, Claimed, Done, Kind, Mark, Owned, held
from holdfast.domain.model import HoldState
from holdfast.gates.redis.gate import KEYS
from tests.contract.helpers import said
from tests.databases.mishaps import frozen, restart
from tests.databases.shops import E1, plan, until
from tests.gates.helpers import session
from tests.gates.shops import compared, database_url, gate_of, gated, rows
from tests.servers import Redis, own_server

pytestmark = [pytest.mark.service, pytest.mark.slow]

POLICIES = ("authority", "two-layer", "gate")
BUYERS = 6
"""Of each event."""
ANSWERS_BETWEEN = 90
"""So many answers, over all events, come before a mishap and after it."""
ROWS, WIDTH, STOCK = 20, 50, 20_000
GATE_TIMEOUT_MS = 100
GATE_SECONDS_MAX = 2.0
"""Of one request, spent waiting for the gate. It may cost 100 ms, once: after that it is passed by.
The rest is for a machine that has something else to do."""
PAUSE_MS = 2_000
LOST: dict[str, set[Reason]] = {
    "authority": set(),
    "two-layer": set(),
    "gate": {Reason.TAKEN, Reason.SOLD_OUT, Reason.INSUFFICIENT, Reason.UNKNOWN_HOLD},
}
"""Why somebody who was told that he holds something may yet be refused: under policy `gate` a hold
may be lost with the gate until payment begins."""


class Waits:
    """How long requests of a shop have waited for its gate, whatever the authority took."""

    def __init__(self, shop: Holdfast) -> None:
        self.slowest: tuple[float, str] = (0.0, "nothing")
        self._spent: ContextVar[float] = ContextVar("spent", default=0.0)
        keeper: Any = shop.keeper  # whose methods are replaced
        keeper.ask, keeper.snapshot = self._timed(keeper.ask), self._timed(keeper.snapshot)

    def _timed(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def timed(*args: Any, **more: Any) -> Any:
            began = time.monotonic()
            try:
                return await call(*args, **more)
            finally:
                spent = self._spent.get() + time.monotonic() - began
                self._spent.set(spent)
                self.slowest = max(self.slowest, (spent, str(args)))

        return timed


class Sale:
    """Buyers of one event, who come through either of two shops, and what they were told."""

    def __init__(self, shops: list[Holdfast], policy: str) -> None:
        self.shops = shops
        self.policy = policy
        self.event = f"e-{policy}"
        self.told: Counter[str] = Counter()
        self.holds: dict[str, Hold] = {}
        """Those that were answered, and neither bought nor given back."""
        self.orders: dict[str, Order] = {}
        self.released: set[str] = set()
        self.lost: Counter[Reason] = Counter()
        self.stopping = False

    async def open(self) -> None:
        policy = None if self.policy == "authority" else self.policy
        described = plan(ROWS, WIDTH, STOCK, id=self.event, policy=policy)
        await self.shops[0].create_event(described)

    async def buyer(self, number: int) -> None:
        chance = random.Random(f"{self.policy}-{number}")
        name = f"u{number}"
        for turn in range(1_000_000):
            if self.stopping:
                return
            ask = self.ask(chance)
            if turn % 3 == 0:
                ask["id"] = f"{name}-{turn}"
            shop, other = chance.sample(self.shops, 2)
            placed = await self.told_of(shop.place_hold(self.event, buyer=name, **ask))
            if not isinstance(placed, Placed):
                assert placed.reason in (Reason.TAKEN, Reason.NOT_TOGETHER), placed
                continue
            self.holds[placed.hold.id] = placed.hold
            # Most come back through the same process, some through another.
            await self.follow(chance.choice([shop, shop, other]), placed.hold, chance.random())

    def ask(self, chance: random.Random) -> dict[str, Any]:
        """Best seats, counted stock, any seat, or one of a few that many want."""
        match chance.randrange(4):
            case 0:
                return {"best": chance.randint(1, 2)}
            case 1:
                return {"pools": {"floor": chance.randint(1, 3)}}
            case 2:
                row, number = chance.randint(2, ROWS), chance.randint(1, WIDTH)
                return {"seats": [f"A-{row}-{number}"], "pools": {"floor": 1}}
        return {"seats": [f"A-1-{chance.randint(1, 10)}"]}

    async def follow(self, shop: Holdfast, hold: Hold, lot: float) -> None:
        outcome: Any
        # Of the hot seats most are given back, so that they stay wanted.
        hot = any(seat.startswith("A-1-") for seat in hold.seats)
        if lot < (0.1 if hot else 0.5):
            paid = shop.confirm_hold(hold.id, buyer=hold.buyer, payment=f"pay-{hold.id}")
            outcome = await self.told_of(paid)
        elif hot or lot < 0.7:
            outcome = await self.told_of(shop.release_hold(hold.id, buyer=hold.buyer))
        else:
            return
        del self.holds[hold.id]
        match outcome:
            case Confirmed(order):
                assert (order.seats, order.pools) == (hold.seats, hold.pools)
                self.orders[order.id] = order
            case Released():
                self.released.add(hold.id)
            case Refused(reason):
                assert reason in LOST[self.policy], (hold, outcome)
                self.lost[reason] += 1

    async def told_of(self, asked: Coroutine[Any, Any, Any]) -> Any:
        """In a task of its own, so that its waits are counted by themselves."""
        outcome = await asyncio.create_task(asked)
        self.told[said(outcome)] += 1
        return outcome

    async def nothing_is_missing(self) -> None:
        """By the authority's rows, which the auditor has looked through."""
        found = await rows(self.shops[0], self.event)
        assert found.oversold == []
        census = await self.shops[0].store.census(self.event)
        assert census is not None
        orders = {order.id: order for order in census.orders}
        for id, order in self.orders.items():
            assert orders[id] == order
        assert orders.keys() == self.orders.keys(), "somebody has bought and was not told"
        holds = {hold.id: hold for hold in census.holds}
        for id, told in self.holds.items():
            hold = holds.get(id)
            if hold is None and self.policy == "gate":
                continue  # a courtesy
            assert hold is not None, told
            assert (hold.state, hold.seats, hold.pools) == (HoldState.HELD, told.seats, told.pools)
        for id in self.released & holds.keys():
            assert holds[id].state is HoldState.RELEASED

    async def what_is_free_can_be_had(self) -> None:
        """Nobody is refused for ever what nobody has: claims that were left over have lapsed."""
        found = await rows(self.shops[0], self.event)
        hot = {f"A-1-{number}" for number in range(1, 11)}
        seats = sorted(hot - found.owners.keys())
        pools = {"floor": STOCK - found.counted["floor"]}

        async def placed() -> bool:
            ask = self.shops[1].place_hold(self.event, buyer="last", seats=seats, pools=pools)
            return isinstance(await ask, Placed)

        await until(placed, f"that {seats} and {pools} are had")


class Sales:
    """All policies at once."""

    def __init__(self, shops: list[Holdfast]) -> None:
        self.shops = shops
        self.each = [Sale(shops, policy) for policy in POLICIES]

    @property
    def answers(self) -> int:
        return sum(sale.told.total() for sale in self.each)

    @property
    def failures(self) -> int:
        return sum(shop.keeper.failures for shop in self.shops if shop.keeper)

    async def more_answers(self, more: int = ANSWERS_BETWEEN) -> None:
        """Of every event its share."""
        wanted = {sale: sale.told.total() + more // len(POLICIES) for sale in self.each}

        async def there() -> bool:
            return all(sale.told.total() >= count for sale, count in wanted.items())

        await until(there, f"{more} more answers")

    async def gates_are_down(self) -> bool:
        return all(shop.keeper and shop.keeper.state != "up" for shop in self.shops)

    async def gates_are_up(self) -> bool:
        return all(shop.keeper and shop.keeper.state == "up" for shop in self.shops)

    async def drift_is_gone(self) -> None:
        """After one reconciliation, now that nobody buys any more."""
        for shop in self.shops:
            assert shop.keeper is not None
            assert shop.reconciler is not None
            await shop.keeper.settled()
            await shop.reconciler.stop()
        reconciler = self.shops[0].reconciler
        assert reconciler is not None
        await reconciler.round()
        for sale in self.each:
            if sale.policy != "authority":
                differences = await compared(self.shops[1], sale.event)
                assert differences.lines == [], sale.policy


@contextlib.asynccontextmanager
async def sales(url: str, gate_url: str) -> AsyncIterator[Sales]:
    """Sales under way, before a mishap and after it. In the end everything is as it was told."""
    options: dict[str, Any] = {"gate_timeout_ms": GATE_TIMEOUT_MS}
    async with gated(url, gate_url, **options) as one, gated(url, gate_url, **options) as two:
        selling = Sales([one, two])
        waits = [Waits(one), Waits(two)]
        for sale in selling.each:
            await sale.open()
        async with asyncio.TaskGroup() as buyers:
            for sale in selling.each:
                for number in range(BUYERS):
                    buyers.create_task(sale.buyer(number))
            try:
                await selling.more_answers()
                yield selling
                await until(selling.gates_are_up, "that the gate is asked again")
                await selling.more_answers()
            finally:
                for sale in selling.each:
                    sale.stopping = True
        for sale in selling.each:
            await sale.nothing_is_missing()
        await selling.drift_is_gone()
        for sale in selling.each:
            if sale.policy != "gate":
                await sale.what_is_free_can_be_had()
        for each in waits:
            assert each.slowest < (GATE_SECONDS_MAX, "")


POSTGRES = pytest.mark.parametrize("url", ["postgres"], indirect=True)
DATABASE = pytest.mark.parametrize(
    "url", ["postgres", pytest.param("mysql", marks=pytest.mark.soak)], indirect=True
)


@pytest.fixture
async def url(request) -> AsyncIterator[str]:
    async with database_url(request.param) as url:
        yield url


async def drifted(selling: Sales) -> bool:
    """The control: the gate is not what it should be, so there is something to mend."""
    for sale in selling.each:
        if sale.policy != "authority" and (await compared(selling.shops[0], sale.event)).missing:
            return True
    return False


@DATABASE
async def test_flushall(url, killable):
    async with sales(url, killable.url) as selling, session(killable.url) as db:
        for _ in range(2):
            await db.flushall()
            assert await drifted(selling)
            await selling.more_answers()


@DATABASE
async def test_killed_and_started_again_empty(url, killable):
    async with sales(url, killable.url) as selling:
        killable.kill()
        await until(selling.gates_are_down, "that the gate is passed by")
        await selling.more_answers()
        await restart(killable)


@DATABASE
async def test_paused(url, killable):
    async with sales(url, killable.url) as selling, session(killable.url) as db:
        await db.client_pause(PAUSE_MS)
        await until(selling.gates_are_down, "that the gate is passed by")
        await selling.more_answers()


@DATABASE
@pytest.mark.parametrize("seconds", [3.0, pytest.param(10.0, marks=pytest.mark.soak)])
async def test_frozen(url, killable, seconds):
    async with sales(url, killable.url) as selling:
        thaws = time.monotonic() + seconds
        async with frozen(killable):
            await until(selling.gates_are_down, "that the gate is passed by")
            await selling.more_answers()
            # The length is what is asked for: there is nothing to await but its end.
            await asyncio.sleep(thaws - time.monotonic())


@DATABASE
async def test_full(url, killable):
    async with sales(url, killable.url) as selling, session(killable.url) as db:
        await db.config_set("maxmemory-policy", "noeviction")
        await db.config_set("maxmemory", "1mb")
        await until(selling.gates_are_down, "that the gate is passed by")
        await selling.more_answers()
        await db.config_set("maxmemory", "0")


@DATABASE
async def test_full_and_forgetting(url, killable):
    """Whole keys go, each as likely as another, again and again."""
    async with sales(url, killable.url) as selling, session(killable.url) as db:
        await db.config_set("maxmemory-policy", "allkeys-random")
        for _ in range(2):
            evicted = await evictions(db)
            used = (await db.info("memory"))["used_memory"]
            await db.config_set("maxmemory", used - 1)
            await until(partial(more_evictions, db, evicted), "that something is evicted")
            await selling.more_answers()
        await db.config_set("maxmemory", "0")


async def evictions(db: Any) -> int:
    return int((await db.info("stats"))["evicted_keys"])


async def more_evictions(db: Any, than: int) -> bool:
    return await evictions(db) > than


class Forwarder:
    """An address that leads to one server, then to another: as a proxy's or a name does that
    follows the master. Who was connected is cut off."""

    def __init__(self) -> None:
        self.port = 0
        self.target = 0
        self._lines: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @contextlib.asynccontextmanager
    async def leading_to(self, target: int) -> AsyncIterator["Forwarder"]:
        self.target = target
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            self.switch(0)

    def switch(self, target: int) -> None:
        self.target = target
        for line in self._lines:
            line.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            there, back = await asyncio.open_connection("127.0.0.1", self.target)
            self._lines |= {writer, back}
            await asyncio.gather(self._copy(reader, back), self._copy(there, writer))
        writer.close()
        self._lines.discard(writer)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        writer.close()


@DATABASE
async def test_a_lagging_replica_is_promoted(url, killable):
    """It has lost what came last: holds are missing, and some that were given back are there."""
    with Client(port=killable.port) as master:
        master.config_set("repl-diskless-sync-delay", 0)  # else it waits for more replicas
    with own_server(Redis, replicaof=f"127.0.0.1 {killable.port}") as replica:
        async with (
            session(replica.url) as db,
            Forwarder().leading_to(killable.port) as forwarder,
            sales(url, forwarder.url) as selling,
        ):
            await until(lambda: synced(db), "that the replica has it all")
            await db.replicaof("127.0.0.1", "1")  # from here on it hears nothing
            await selling.more_answers(2 * ANSWERS_BETWEEN)
            killable.kill()
            forwarder.switch(replica.port)
            await until(selling.gates_are_down, "that a replica is not asked")
            await selling.more_answers()
            await db.replicaof("NO", "ONE")
            assert await drifted(selling)
            await until(selling.gates_are_up, "that the gate is asked again")


async def synced(db: Any) -> bool:
    return bool((await db.info("replication")).get("master_link_status") == "up")


@contextlib.asynccontextmanager
async def one_shop(url: str, gate_url: str, policy: str) -> AsyncIterator[Holdfast]:
    options: dict[str, Any] = {"policy": policy, "gate_timeout_ms": GATE_TIMEOUT_MS}
    async with gated(url, gate_url, **options) as shop:
        await shop.create_event(plan(2, 10, 100))
        yield shop


ASKS: dict[str, dict[str, Any]] = {
    "named": {"seats": ["A-1-1"]},
    "stock": {"pools": {"floor": 1}},
    "best": {"best": 2},
    "own-id": {"id": "mine", "seats": ["A-1-2"]},
}
SILENT_SECONDS = 1.0
"""What a silent gate may cost one request: its timeout of 100 ms, and a lot for the machine."""


@POSTGRES
@pytest.mark.parametrize(
    ("policy", "ask"), [("two-layer", "named"), *(("gate", ask) for ask in ASKS)]
)
async def test_a_silent_gate_costs_a_request_its_timeout_and_no_more(url, killable, policy, ask):
    async with one_shop(url, killable.url, policy) as shop:
        # So that everything is open and known.
        await shop.place_hold(E1, buyer="ann", seats=["A-2-1"])
        async with frozen(killable):
            began = time.monotonic()
            placed = await shop.place_hold(E1, buyer="bob", **ASKS[ask])
            took = time.monotonic() - began
        assert isinstance(placed, Placed)
        assert shop.keeper is not None
        assert shop.keeper.failures
        assert took < SILENT_SECONDS


@POSTGRES
@pytest.mark.parametrize("policy", ["two-layer", "gate"])
async def test_best_seats_are_had_though_the_gate_believes_them_taken(url, redis_server, policy):
    """Released while the gate was passed by, they look held there until a reconciliation."""
    async with one_shop(url, redis_server.url, policy) as shop:
        first = await shop.place_hold(E1, buyer="ann", best=2)
        assert isinstance(first, Placed)
        await shop.release_hold(first.hold.id)
        [event] = await shop.events()
        [ghost] = await gate_of(shop).run(E1, event.event.version, [Mark(held(first.hold, 60_000))])
        assert ghost == Done(True)
        placed = await shop.place_hold(E1, buyer="bob", best=2)
        assert isinstance(placed, Placed)
        assert placed.hold.seats == first.hold.seats


@POSTGRES
@pytest.mark.parametrize("key", KEYS)
async def test_stock_is_given_back_whichever_key_was_evicted(url, redis_server, key):
    """A claim that nobody will ever follow up, and then one of the event's keys is gone. It lapses
    all the same, by its deadline or by a reconciliation."""
    async with (
        one_shop(url, redis_server.url, "two-layer") as shop,
        session(redis_server.url) as db,
    ):
        [event] = await shop.events()
        crashed = Owned(
            id=f"{E1}.x", buyer="gone", pools={"floor": 100}, kind=Kind.CLAIM, keep_ms=1
        )
        [claimed] = await gate_of(shop).run(E1, event.event.version, [Claim(crashed)])
        assert isinstance(claimed, Claimed)
        await db.delete(f"holdfast:{{{E1}}}:{key}")

        async def placed() -> bool:
            assert shop.reconciler is not None
            await shop.reconciler.round()
            outcome = await shop.place_hold(E1, buyer="bob", pools={"floor": 100})
            return isinstance(outcome, Placed)

        await until(placed, "that all of the stock is had")


async def test_a_gate_that_is_believed_sells_twice(killable):
    """The control: whoever takes a key in Redis for the sale itself sells all seats again once it
    has forgotten them."""
    owners: Counter[str] = Counter()
    async with session(killable.url) as db:

        async def buy(buyer: int) -> None:
            seat = f"A-1-{buyer % 10}"
            won = bool(await db.set(f"naive:{seat}", f"u{buyer}", nx=True))
            owners[seat] += won

        await asyncio.gather(*map(buy, range(50)))
        assert set(owners.values()) == {1}
        await db.flushall()
        await asyncio.gather(*map(buy, range(50, 100)))
    assert set(owners.values()) == {2}
