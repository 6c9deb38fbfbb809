"""A short run of the whole lab: every strategy on every store sells exactly the stock, but the
naive one, which is the control: it shows that the crowd is one that can make a shop oversell."""

import contextlib
from collections.abc import Sequence
from typing import Any

import pytest

from holdfast.errors import SettingsError
from holdfast.lab.contest.claims import PREFIX, Claims
from holdfast.lab.contest.compare import Comparison, Plan, Result, at_fault, report
from holdfast.lab.contest.databases import PostgresLine, SqliteLine
from holdfast.lab.contest.field import SCENARIOS, Counters
from holdfast.lab.contest.tables import EXISTING, Tables
from holdfast.lab.strategies import STRATEGIES
from tests.conftest import needed_server
from tests.servers import MariaDB, Postgres, Redis

BUYERS = 96
CONNECTIONS = 16
STORES = ("postgresql", "mariadb", "sqlite")
CONTENDED = [each.name for each in SCENARIOS.values() if each.contended]
EVERY_STORE = [
    pytest.param(
        store,
        marks=(pytest.mark.slow, pytest.mark.service, pytest.mark.xdist_group(f"lab-{store}")),
    )
    for store in STORES
]
servers = pytest.mark.parametrize("lab", EVERY_STORE[:2], indirect=True)
everywhere = pytest.mark.parametrize("lab", EVERY_STORE, indirect=True)


class Lab:
    """One comparison that is over, on servers that are still there."""

    def __init__(self, store: str, redis: str) -> None:
        plan = Plan(
            stores=(store,),
            redis=redis,
            scenarios=tuple(each.scaled(BUYERS) for each in SCENARIOS.values()),
            strategies=tuple(STRATEGIES),
            processes=(1, 2),
            connections=CONNECTIONS,
        )
        self.store = store
        self.redis = redis
        self.heard: list[int] = []
        self.comparison = Comparison(plan, lambda now: self.heard.append(now.done))

    def runs(self, strategy: str, scenarios: Sequence[str] = tuple(SCENARIOS)) -> list[Result]:
        found = [
            each
            for each in self.comparison.results
            if each.strategy == strategy and each.scenario in scenarios
        ]
        assert found
        return found


@pytest.fixture(scope="session")
async def labs(tmp_path_factory):
    """One for each store, made when it is first asked for: tests of several stores take turns."""
    made: dict[str, Lab] = {}
    with contextlib.ExitStack() as stack:

        async def get(store: str) -> Lab:
            if store not in made:
                made[store] = Lab(_address(store, stack, tmp_path_factory), redis())
                await made[store].comparison.run()
            return made[store]

        def redis() -> str:
            return stack.enter_context(needed_server(Redis)).url

        yield get


def _address(store: str, stack: contextlib.ExitStack, folders: pytest.TempPathFactory) -> str:
    # A test has no power to lose.
    if store == "postgresql":
        return stack.enter_context(needed_server(Postgres, fsync="off")).url
    if store == "mariadb":
        settings = {"innodb_flush_log_at_trx_commit": "0"}
        return stack.enter_context(needed_server(MariaDB, **settings)).url
    return f"sqlite:///{folders.mktemp('lab') / 'lab.db'}"


@pytest.fixture
async def lab(request, labs):
    return await labs(request.param)


@everywhere
def test_every_strategy_but_the_naive_one_sells_exactly_the_stock(lab):
    assert [(str(each), each.faults) for each in at_fault(lab.comparison.results)] == []
    assert lab.comparison.troubles == {}
    ran = {each.strategy for each in lab.comparison.results}
    left = {each.strategy for each in lab.comparison.left_out if ":" not in each.why.split(" ")[0]}
    assert ran | left == set(STRATEGIES)


@everywhere
def test_pairs_are_sold_together_or_not_at_all(lab):
    for each in lab.comparison.results:
        if each.scenario == "pairs" and each.strategy != "naive":
            assert (each.oversold, each.torn, each.sold % 2) == (0, 0, 0)
            assert 0 < each.sold <= each.stock


@everywhere
def test_the_naive_one_oversells_wherever_buyers_meet(lab):
    """Its first buyers all look before one of them writes: at least two have what is there once."""
    # A file has so few connections that the first of its pairs may be neighbours.
    sure = [name for name in CONTENDED if name != "pairs" or "sqlite" not in lab.store]
    for each in lab.runs("naive", sure):
        assert each.oversold > 0
        assert each.sold > each.stock or each.scenario == "pairs"
        assert each.faults


@everywhere
def test_the_optimistic_one_tries_again_and_again_where_buyers_meet(lab):
    for each in lab.runs("optimistic", ["pool"]):
        assert each.retries > 0
        assert each.attempts == each.buyers + each.retries
        assert each.gave_up == 0
    calm = sum(each.retries for each in lab.runs("optimistic", ["spread"]))
    assert calm < sum(each.retries for each in lab.runs("optimistic", ["pool"]))


@servers
def test_those_who_lock_the_row_wait_for_it_in_a_queue(lab):
    """Seen at the server; whoever skips what is locked does not wait."""
    waited = max(each.lock_queue for each in lab.runs("pessimistic", ["last-seat", "pool"]))
    assert waited > CONNECTIONS // 2
    skipped = max(each.lock_queue for each in lab.runs("skip-locked", ["last-seat", "pool"]))
    assert skipped < waited


@everywhere
def test_group_commit_needs_fewer_statements_than_there_are_buyers(lab):
    for each in lab.runs("group-commit", ["last-seat", "small-stock", "pool"]):
        # SQLite's are calls of a function in this process, not journeys.
        if each.store != "sqlite":
            assert 0 < each.statements < each.buyers
    for each in lab.runs("pessimistic", ["pool"]):
        assert each.statements > each.buyers * 3


@servers
def test_who_is_filtered_by_redis_never_reaches_the_database(lab):
    for strategy in ("redis-nx", "two-layer"):
        for each in lab.runs(strategy, ["last-seat"]):
            assert each.statements < 10
            assert each.redis_calls >= each.buyers


@everywhere
def test_the_report_has_what_was_promised_of_it(lab):
    made: dict[str, Any] = report(lab.comparison, quick=True)
    assert list(made) == [
        *("machine", "versions", "date", "quick", "scenarios", "results"),
        *("published", "curves", "left_out"),
    ]
    assert set(made["machine"]) == {"cpus", "model", "memory_gb", "python", "system"}
    assert {"Redis", "holdfast"} < set(made["versions"])
    assert {
        *("scenario", "strategy", "store", "durable", "processes", "buyers", "stock", "sold"),
        *("oversold", "attempts", "retries", "gave_up", "statements", "elapsed_ms"),
        *("per_second", "p50_ms", "p99_ms", "max_ms"),
    } <= set(made["results"][0])
    for each in made["results"]:
        assert each["buyers"] == BUYERS
        assert 0 < each["p50_ms"] <= each["p99_ms"] <= each["max_ms"] <= each["elapsed_ms"] * 1.1
    memory = {each["strategy"] for each in made["results"] if not each["durable"]}
    assert memory == {"redis-lua"}
    assert lab.heard[-1] == len(made["results"])


@everywhere
async def test_it_leaves_nothing_behind(lab):
    tables = Tables(lab.store)
    line = await tables.dialect.open(lab.store)
    assert await line.rows(EXISTING[tables.dialect.name]) == []
    await line.close()
    redis = Claims(lab.redis, Counters())
    await redis.open(1)
    assert await redis.call("KEYS", f"{PREFIX}*") == []
    await redis.close()


@pytest.mark.parametrize("lab", EVERY_STORE[:1], indirect=True)
async def test_a_schema_of_somebody_else_is_not_touched(lab):
    line = await PostgresLine.open(lab.store)
    await line.run("CREATE SCHEMA holdfast_lab")
    await line.run("CREATE TABLE holdfast_lab.mine (id integer)")
    with pytest.raises(SettingsError, match="holdfast_lab already"):
        await Tables(lab.store).open()
    assert await line.rows("SELECT * FROM holdfast_lab.mine") == []
    await line.run("DROP SCHEMA holdfast_lab CASCADE")
    await line.close()


async def test_tables_of_somebody_else_are_not_touched(tmp_path):
    url = f"sqlite:///{tmp_path / 'lab.db'}"
    line = await SqliteLine.open(url)
    await line.run("CREATE TABLE lab_pools (id TEXT)")
    with pytest.raises(SettingsError, match="lab_pools already"):
        await Tables(url).open()
    assert await line.rows("SELECT * FROM lab_pools") == []
    await line.close()
