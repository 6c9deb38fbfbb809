"""Every strategy on every store in every scenario, one after the other, and what came of it."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime

import msgspec

import holdfast
from holdfast.domain.outcomes import Refused
from holdfast.engine import Holdfast
from holdfast.errors import HoldfastError
from holdfast.ids import Ids
from holdfast.lab.contest.buyers import Order
from holdfast.lab.contest.claims import Claims
from holdfast.lab.contest.crew import Crew, shares
from holdfast.lab.contest.databases import CONNECTIONS, FILE_CONNECTIONS, driver_trouble
from holdfast.lab.contest.field import Counters, Scenario, Sold, Strategy, count, merged
from holdfast.lab.contest.tables import Tables
from holdfast.lab.machine import machine
from holdfast.lab.strategies import STRATEGIES
from holdfast.lab.strategies.group_commit import open_shop, plan
from holdfast.lab.strategies.naive import Naive
from holdfast.lab.strategies.redis_lua import sales as redis_sales

REDIS = "redis"
WAITING_MAX = 1_000
"""Buyers of all processes who wait for an answer at a time, as a service has so many requests in
hand; the next one clicks as one is answered."""
CONNECTIONS_MIN = 2
"""Of a process: with one, its buyers would never meet."""
CHANCE = ("pairs",)
"""Where it depends on who comes first how much can be sold at all."""
PUBLISHED = (
    ("pessimistic", 200),
    ("optimistic", 500),
    ("atomic", 2_000),
    ("redis-lua", 50_000),
)
SOURCE = "a published comparison of ways to keep stock in flash sales; machine and client unsaid"
PRODUCTS = {"postgresql": "PostgreSQL", "mariadb": "MariaDB", "mysql": "MySQL", "sqlite": "SQLite"}


class Result(msgspec.Struct, frozen=True):
    """One run. `sold` and `oversold` are counted from the rows, afterwards."""

    scenario: str
    strategy: str
    store: str
    durable: bool
    processes: int
    buyers: int
    stock: int
    sold: int
    oversold: int
    attempts: int
    retries: int
    gave_up: int
    statements: int
    elapsed_ms: float
    per_second: float
    """Buyers answered in a second."""
    p50_ms: float
    p99_ms: float
    max_ms: float
    redis_calls: int
    bought: int
    """Units that buyers were told they have."""
    torn: int
    """Buyers who got a part of what they wanted."""
    errors: int
    """Buyers who got no answer."""
    lock_queue: int | None
    """The most transactions that the server showed waiting for a lock at one moment."""

    @property
    def oversells(self) -> bool:
        return bool(self.oversold or self.torn)

    @property
    def faults(self) -> list[str]:
        """What is wrong with it; empty when exactly what can be sold was sold."""
        found = []
        if self.oversold:
            found.append(f"oversold by {self.oversold:,}")
        if self.torn:
            found.append(f"{self.torn:,} buyers got a part of what they wanted")
        if self.sold < self.stock and self.scenario not in CHANCE:
            gave_up = f", {self.gave_up:,} buyers gave up" if self.gave_up else ""
            found.append(f"sold {self.sold:,} of {self.stock:,}{gave_up}")
        if self.bought != self.sold:
            found.append(f"buyers were told of {self.bought:,} units, the rows have {self.sold:,}")
        if self.errors:
            found.append(f"{self.errors:,} buyers got an error instead of an answer")
        return found

    def __str__(self) -> str:
        return f"{self.strategy} on {self.store}, {self.scenario}, {self.processes} processes"


class LeftOut(msgspec.Struct, frozen=True):
    strategy: str
    store: str
    why: str


class Plan(msgspec.Struct, frozen=True):
    """What to compare."""

    stores: tuple[str, ...]
    """Addresses of databases."""
    redis: str | None
    scenarios: tuple[Scenario, ...]
    strategies: tuple[str, ...]
    processes: tuple[int, ...]
    connections: int = CONNECTIONS
    """To each server, of all processes together."""
    no_redis: str = "no Redis was given, and none is installed"


class Progress(msgspec.Struct, frozen=True):
    done: int
    total: int
    doing: str
    last: Result | None = None


OnProgress = Callable[[Progress], None]


class Comparison:
    """One comparison from beginning to end."""

    def __init__(self, plan: Plan, on_progress: OnProgress) -> None:
        self.plan = plan
        self.results: list[Result] = []
        self.left_out: list[LeftOut] = []
        self.versions: dict[str, str] = {}
        self.troubles: dict[str, int] = {}
        """What buyers got instead of an answer, and how many."""
        self._on_progress = on_progress
        self._done = 0
        self._total = 0

    async def run(self) -> None:
        """Raises HoldfastError when a store cannot be used; leaves nothing of its own behind but
        the closed events that Holdfast sold from."""
        plan = self.plan
        async with AsyncExitStack() as stack:
            yards = [Tables(url) for url in plan.stores]
            redis = Claims(plan.redis, Counters())
            stack.push_async_callback(redis.close)
            await redis.open(1)
            await self._learn_redis(redis)
            for yard in yards:
                await self._look(yard)
            crew = await stack.enter_async_context(Crew(max(plan.processes)))
            jobs = {yard.url: list(self._jobs(yard.name, yard.dialect.name)) for yard in yards}
            alone = list(self._jobs(REDIS, REDIS)) if plan.redis else []
            self._total = sum(map(len, jobs.values())) + len(alone)
            for yard in yards:
                async with AsyncExitStack() as using:
                    using.push_async_callback(yard.close)
                    await yard.open()
                    await Bout(self, crew, redis, yard).run(jobs[yard.url])
            await Bout(self, crew, redis, None).run(alone)
            await redis.clear()

    async def _look(self, yard: Tables) -> None:
        """Whether each can be used, before the first is."""
        try:
            await yard.open()
        finally:
            await yard.close()
        self.versions[PRODUCTS[yard.name]] = yard.version

    async def _learn_redis(self, redis: Claims) -> None:
        if self.plan.redis:
            info = await redis.call("INFO", "server")
            self.versions["Redis"] = str(info.get("redis_version", ""))

    def _jobs(self, store: str, dialect: str) -> Iterator["Job"]:
        for name in self.plan.strategies:
            kind = STRATEGIES[name]
            if (dialect == REDIS) != (kind.stores == (REDIS,)):
                continue
            if why := self._why_not(kind, dialect):
                self.left_out.append(LeftOut(name, store, why))
                continue
            for scenario in self.plan.scenarios:
                if unfit := kind.why_not.get(scenario.name):
                    self.left_out.append(LeftOut(name, store, f"{scenario.name}: {unfit}"))
                    continue
                for processes in self.plan.processes:
                    yield Job(kind, scenario, processes)

    def _why_not(self, kind: type[Strategy], dialect: str) -> str:
        if dialect not in kind.stores:
            return kind.why_not.get(dialect, "it does not run there")
        return self.plan.no_redis if kind.uses_redis and not self.plan.redis else ""

    def begun(self, job: "Job", store: str) -> None:
        self._tell(f"{job.scenario.name}: {job.kind.name} on {store}, {job.processes} processes")

    def ended(self, result: Result) -> None:
        self.results.append(result)
        self._done += 1
        self._tell(str(result), result)

    def _tell(self, doing: str, last: Result | None = None) -> None:
        self._on_progress(Progress(self._done, self._total, doing, last))


class Job(msgspec.Struct, frozen=True):
    kind: type[Strategy]
    scenario: Scenario
    processes: int


class Bout:
    """The runs on one store."""

    def __init__(
        self, comparison: Comparison, crew: Crew, redis: Claims, tables: Tables | None
    ) -> None:
        self._comparison = comparison
        self._plan = comparison.plan
        self._crew = crew
        self._redis = redis
        self._tables = tables
        self._name = tables.name if tables else REDIS
        self._shop: Holdfast | None = None

    async def run(self, jobs: Sequence[Job]) -> None:
        async with AsyncExitStack() as stack:
            if self._tables and any(job.kind.name == "group-commit" for job in jobs):
                shop = open_shop(self._tables.url)
                self._shop = await stack.enter_async_context(shop)
            for job in jobs:
                self._comparison.begun(job, self._name)
                try:
                    self._comparison.ended(await self._measure(job))
                except Exception as trouble:
                    if not driver_trouble(trouble):
                        raise
                    raise HoldfastError(f"the lab lost {self._name}: {trouble}") from trouble

    async def _measure(self, job: Job) -> Result:
        await self._redis.clear()
        event = ""
        if job.kind.name == "group-commit":
            event = await self._make_event(job.scenario)
        elif self._tables:
            kind = job.kind
            await self._tables.fill(job.scenario, unit_rows=kind.unit_rows, index=kind.index)
        counters, queue = await self._rush(job, event)
        for text, times in counters.errors.items():
            troubles = self._comparison.troubles
            troubles[text] = troubles.get(text, 0) + times
        return self._result(job, counters, await self._count(job, event), queue)

    async def _rush(self, job: Job, event: str) -> tuple[Counters, int | None]:
        """The run itself, and how long the queue for a lock was in it."""
        if not self._tables:
            return merged(await self._crew.run(self._orders(job, event))), None
        over = asyncio.Event()
        watch = asyncio.create_task(self._tables.watch_queue(over))
        try:
            counters = merged(await self._crew.run(self._orders(job, event)))
        finally:
            over.set()
            await asyncio.wait([watch])
        return counters, watch.result()

    def _orders(self, job: Job, event: str) -> list[Order]:
        parts = shares(job.scenario.buyers, min(job.processes, job.scenario.buyers))
        file = self._tables is not None and self._tables.dialect.name == "sqlite"
        connections = FILE_CONNECTIONS if file else self._plan.connections
        return [
            Order(
                strategy=job.kind.name,
                scenario=job.scenario,
                first=part.start,
                buyers=len(part),
                waiting=max(WAITING_MAX // len(parts), 1),
                connections=max(connections // len(parts), CONNECTIONS_MIN),
                store=self._tables.url if self._tables else "",
                redis=self._plan.redis if job.kind.uses_redis else None,
                event=event,
            )
            for part in parts
        ]

    async def _make_event(self, scenario: Scenario) -> str:
        assert self._shop is not None
        event = f"lab-{Ids().new()}"
        created = await self._shop.create_event(plan(event, scenario))
        if isinstance(created, Refused):
            raise HoldfastError(created.detail)
        return event

    async def _count(self, job: Job, event: str) -> Sold:
        if event:
            return await self._count_orders(job.scenario, event)
        rows = await (self._tables.sales() if self._tables else redis_sales(self._redis))
        return count(job.scenario, rows)

    async def _count_orders(self, scenario: Scenario, event: str) -> Sold:
        """Order by order, as the authority has them."""
        assert self._shop is not None
        await self._shop.close_event(event)
        census = await self._shop.store.census(event)
        rows = []
        for order in census.orders if census else ():
            if order.sold:
                rows += [(seat, 1, order.buyer) for seat in order.seats]
                rows += [(pool, quantity, order.buyer) for pool, quantity in order.pools.items()]
        return count(scenario, rows)

    def _result(self, job: Job, counters: Counters, sold: Sold, queue: int | None) -> Result:
        elapsed_ms = max(counters.ended_us - counters.began_us, 1) / 1000
        buyers = len(counters.latencies_us)
        return Result(
            scenario=job.scenario.name,
            strategy=job.kind.name,
            store=self._name,
            durable=job.kind.durable,
            processes=job.processes,
            buyers=buyers,
            stock=job.scenario.stock(),
            sold=sold.sold,
            oversold=sold.oversold,
            attempts=counters.attempts,
            retries=counters.retries,
            gave_up=counters.gave_up,
            statements=counters.statements,
            elapsed_ms=round(elapsed_ms, 1),
            per_second=round(buyers / elapsed_ms * 1000, 1),
            p50_ms=counters.percentile_ms(50),
            p99_ms=counters.percentile_ms(99),
            max_ms=counters.percentile_ms(100),
            redis_calls=counters.redis_calls,
            bought=counters.bought,
            torn=sold.torn,
            errors=sum(counters.errors.values()),
            lock_queue=queue,
        )


def report(comparison: Comparison, *, quick: bool) -> dict[str, object]:
    """As `holdfast lab --json` prints it."""
    scenarios = [
        {
            "name": each.name,
            "title": each.title,
            "buyers": each.buyers,
            "units": each.units,
            "quantity": each.quantity,
            "contended": each.contended,
        }
        for each in comparison.plan.scenarios
    ]
    return {
        "machine": machine(),
        "versions": {**comparison.versions, "holdfast": holdfast.__version__},
        "date": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "quick": quick,
        "scenarios": scenarios,
        "results": msgspec.to_builtins(comparison.results),
        "published": [
            {"strategy": strategy, "per_second": rate, "source": SOURCE}
            for strategy, rate in PUBLISHED
        ],
        "curves": {},
        "left_out": msgspec.to_builtins(comparison.left_out),
    }


def at_fault(results: Sequence[Result]) -> list[Result]:
    """All that is not as it must be; that the naive one oversells is as it must be."""
    return [each for each in results if each.faults and each.strategy != Naive.name]
