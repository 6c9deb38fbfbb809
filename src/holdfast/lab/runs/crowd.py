"""The crowd of one run, in a process of its own: `python -m holdfast.lab.runs.crowd`.

It reads one order, a JSON value in a line, and prints how it goes, one JSON value a line, the last
of which is what came of it. It gives up, and cleans up, when nothing more can come: whoever gave
the order has closed the pipe, or is no more.
"""

import asyncio
import contextlib
import shutil
import sys
import time
from collections.abc import Callable, Sequence

import msgspec

from holdfast.domain.commands import Command
from holdfast.engine import Holdfast
from holdfast.errors import HoldfastError
from holdfast.lab import stampede
from holdfast.lab.contest import buyers
from holdfast.lab.contest.claims import Claims
from holdfast.lab.contest.databases import FILE_CONNECTIONS
from holdfast.lab.contest.field import Counters, Sold, count
from holdfast.lab.contest.tables import Tables
from holdfast.lab.runs.trials import (
    HOLDFAST,
    HTTP_CONNECTIONS_MAX,
    POOL,
    WAITING_MAX,
    Crowded,
    Progress,
    Trial,
    histogram,
)
from holdfast.lab.strategies import STRATEGIES
from holdfast.lab.strategies.redis_lua import sales as redis_sales
from holdfast.settings import Settings
from holdfast.wiring import make_gate, make_store

TELL_SECONDS = 0.2
CONNECTIONS = 16
"""To a server, which is somebody's: a shop is selling there."""
NAIVE_FILE_CONNECTIONS = 32
"""To a file, where a look takes microseconds: so many look before one of them writes."""
ANSWER_SECONDS = 60.0
BREATH_ANSWERS = 50

Tell = Callable[[Progress], None]


class Order(msgspec.Struct, frozen=True):
    trial: Trial
    settings: Settings
    """The deployment's."""
    event: str = ""
    """Made for Holdfast; whoever made it closes it, and counts what was sold of it."""
    url: str = ""
    key: str = ""
    """Over HTTP: of the service, and to it."""
    database: str = ""
    """Of the other strategies: where their tables are made."""
    folder: str = ""
    """One for this run alone, which goes with it: also when whoever made it is no more."""
    left_over: bool = False
    """Whether tables that are there already are known to be left of a run that was killed."""


class Failure(msgspec.Struct, tag=True):
    """Instead of a result."""

    text: str
    ours: bool
    """Whether its text is meant for people."""
    unclean: bool = False
    """Whether its tables could not be dropped."""


Said = Progress | Crowded | Failure


class NotDropped(Exception):
    """Tables were left; because of what, if there was trouble besides."""

    def __init__(self, trouble: Exception | None) -> None:
        super().__init__()
        self.trouble = trouble or HoldfastError("the lab's tables could not be dropped")


async def perform(order: Order, tell: Tell) -> Crowded:
    if order.trial.strategy != HOLDFAST:
        return await contend(order, tell)
    if order.trial.over == "http":
        return await call(order, tell)
    settings = order.settings
    shop = Holdfast(make_store(settings), settings, gate=make_gate(settings), upkeep=False)
    async with shop:
        return await click(shop, order.event, order.trial, tell)


# Holdfast, through its engine


class Reached:
    """Batches and commands of one event that the store applied."""

    def __init__(self, event: str) -> None:
        self.batches = 0
        self.commands = 0
        self._event = event

    def batched(self, commands: Sequence[Command], seconds: float) -> None:
        mine = sum(command.event == self._event for command in commands)
        self.commands += mine
        self.batches += mine > 0


async def click(shop: Holdfast, event: str, trial: Trial, tell: Tell) -> Crowded:
    """The crowd in this process, at a shop that may be serving others meanwhile."""
    await shop.event(event)  # a shop that has been open for a moment knows its event
    reached, others = Reached(event), shop.batched

    def batched(commands: Sequence[Command], seconds: float) -> None:
        reached.batched(commands, seconds)
        if others is not None:
            others(commands, seconds)

    buy = stampede.buyer_of(shop, event, POOL if trial.stock else None)
    answers = 0

    async def breathe(buyer: str, seat: str) -> bool:
        """Refusals from memory wait for nothing: others of this process would never be served."""
        nonlocal answers
        answers += 1
        if answers % BREATH_ANSWERS == 0:
            await asyncio.sleep(0)
        return await buy(buyer, seat)

    waiting = min(WAITING_MAX, shop.settings.lane_max)
    shop.batched = batched
    try:
        tally = await _rush(breathe, trial, waiting, tell)
    finally:
        shop.batched = others
    return _crowded(tally, reached=reached.commands, batches=reached.batches)


async def call(order: Order, tell: Tell) -> Crowded:
    """The crowd over HTTP. What reached the authority only the service can tell."""
    # Here, because aiohttp is an extra.
    from holdfast.client.transport import Patience, Transport
    from holdfast.lab.remote import buyer_of

    trial = order.trial
    headers = {"Authorization": f"Bearer {order.key}", "Content-Type": "application/json"}
    once = Patience(attempts=1, attempt_seconds=ANSWER_SECONDS, total_seconds=ANSWER_SECONDS)
    connections = min(HTTP_CONNECTIONS_MAX, trial.buyers)
    async with Transport(order.url, headers, once, connections) as line:
        buy = buyer_of(line, order.event, POOL if trial.stock else None)
        return _crowded(await _rush(buy, trial, connections, tell))


async def _rush(buy: stampede.Buy, trial: Trial, waiting: int, tell: Tell) -> stampede.Tally:
    seats = [POOL] if trial.stock else trial.wanted()
    told = 0.0

    def on_progress(tally: stampede.Tally) -> None:
        nonlocal told
        if (now := time.monotonic()) - told >= TELL_SECONDS:
            told = now
            tell(_progress(tally))

    return await stampede.rush(buy, range(trial.buyers), seats, waiting, on_progress)


def _progress(tally: stampede.Tally) -> Progress:
    return Progress(tally.answered, tally.sold, tally.rejected, tally.failed, tally.elapsed_ms)


def _crowded(tally: stampede.Tally, reached: int = 0, batches: int | None = None) -> Crowded:
    return Crowded(
        _progress(tally),
        tally.percentile_ms(50),
        tally.percentile_ms(99),
        histogram(tally.latencies_us),
        reached,
        batches,
    )


# The other strategies


async def contend(order: Order, tell: Tell) -> Crowded:
    """On tables of the lab's own, which are gone afterwards."""
    kind = STRATEGIES[order.trial.strategy]
    alone = kind.stores == ("redis",)
    tables = None if alone else Tables(order.database)
    redis = Claims(order.settings.gate if kind.uses_redis else None, Counters())
    try:
        found, counters = await _contend(order, tell, tables, redis)
    except Exception as trouble:
        if tables is not None and tables.left:
            raise NotDropped(trouble) from trouble
        raise
    if tables is not None and tables.left:
        raise NotDropped(None)
    return _contended(counters, found, alone=alone)


async def _contend(
    order: Order, tell: Tell, tables: Tables | None, redis: Claims
) -> tuple[Sold, Counters]:
    kind = STRATEGIES[order.trial.strategy]
    scenario, counters = order.trial.scenario(), Counters()
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(redis.close)
        await redis.open(1)
        await redis.clear()
        stack.push_async_callback(redis.clear)
        if tables is not None:
            stack.push_async_callback(tables.close)
            await tables.open(again=order.left_over)
            await tables.fill(scenario, unit_rows=kind.unit_rows, index=kind.index)
        watching = asyncio.create_task(_watch(counters, tell))
        try:
            await buyers.rush(_buyers(order), counters, _at_once)
        finally:
            watching.cancel()
            await asyncio.wait([watching])
        rows = await (tables.sales() if tables is not None else redis_sales(redis))
        found = count(scenario, rows)
    return found, counters


def _buyers(order: Order) -> buyers.Order:
    trial, kind = order.trial, STRATEGIES[order.trial.strategy]
    connections = CONNECTIONS
    if order.database.startswith("sqlite:"):
        naive = trial.strategy == "naive"
        connections = NAIVE_FILE_CONNECTIONS if naive else FILE_CONNECTIONS
    return buyers.Order(
        strategy=trial.strategy,
        scenario=trial.scenario(),
        first=0,
        buyers=trial.buyers,
        waiting=WAITING_MAX,
        connections=connections,
        store=order.database,
        redis=order.settings.gate if kind.uses_redis else None,
    )


async def _at_once() -> None:
    """There is nobody else to wait for."""


async def _watch(counters: Counters, tell: Tell) -> None:
    while True:
        await asyncio.sleep(TELL_SECONDS)
        tell(_counted(counters, time.monotonic_ns() // 1000))


def _counted(counters: Counters, now_us: int) -> Progress:
    answered, errors = len(counters.latencies_us), sum(counters.errors.values())
    elapsed_ms = (now_us - counters.began_us) / 1000 if counters.began_us else 0.0
    refused = answered - counters.bought - errors
    return Progress(answered, counters.bought, refused, errors, round(elapsed_ms, 3))


def _contended(counters: Counters, found: Sold, *, alone: bool) -> Crowded:
    return Crowded(
        _counted(counters, counters.ended_us),
        counters.percentile_ms(50),
        counters.percentile_ms(99),
        histogram(counters.latencies_us),
        # Without a database Redis is what decides.
        counters.redis_calls if alone else counters.statements,
        redis_calls=counters.redis_calls,
        sold=found.sold,
        oversold=found.oversold,
    )


# The process


def _say(said: Said) -> None:
    print(msgspec.json.encode(said).decode(), flush=True)


async def serve() -> None:
    loop = asyncio.get_running_loop()
    heard = asyncio.StreamReader(limit=2**20)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(heard), sys.stdin)
    order = msgspec.json.decode(await heard.readline(), type=Order)
    work = asyncio.create_task(perform(order, _say))
    ended = asyncio.create_task(heard.read())
    await asyncio.wait([work, ended], return_when=asyncio.FIRST_COMPLETED)
    for task in (work, ended):
        task.cancel()
    await asyncio.wait([work, ended])
    if order.folder:
        shutil.rmtree(order.folder, ignore_errors=True)
    if work.cancelled():
        return
    trouble = work.exception()
    if trouble is None:
        _say(work.result())
    else:
        unclean = isinstance(trouble, NotDropped)
        if isinstance(trouble, NotDropped):
            trouble = trouble.trouble
        ours = isinstance(trouble, HoldfastError)
        text = str(trouble) if ours else f"{type(trouble).__name__}: {trouble}"
        _say(Failure(text, ours, unclean))


if __name__ == "__main__":
    # Here, because whoever only orders needs none.
    import uvloop

    uvloop.run(serve())
