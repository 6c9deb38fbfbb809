"""holdfast projections: how a sale has gone, as folded from its log; anew, or all the while."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.shared import (
    REFUSED,
    Failed,
    JsonOption,
    StoreOption,
    money,
    opened_store,
    print_json,
    print_pairs,
    print_table,
    read_settings,
    refused,
    say,
)
from holdfast.domain.outcomes import Reason, Refused
from holdfast.domain.stats import Stats
from holdfast.ports import Store
from holdfast.settings import Settings
from holdfast.stores import host_clock
from holdfast.wiring import kafka_options, make_broker

if TYPE_CHECKING:
    from holdfast.followers.projections import Rebuilt

app = typer.Typer(
    help="Show how a sale has gone, fold its log anew, or follow logs or Kafka all the while.\n\n"
    "Example: holdfast projections show opening-night",
    rich_markup_mode=None,
)

EventArgument = Annotated[str, typer.Argument(metavar="EVENT", help="The event's id.")]


@app.command()
def show(event: EventArgument, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Show how the sale of an event has gone.

    Example: holdfast projections show opening-night --json
    """
    asyncio.run(_show(read_settings({"store": store}), event, as_json))


@app.command()
def rebuild(
    event: Annotated[
        str | None, typer.Argument(metavar="[EVENT]", help="Of this event only; else of all.")
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Fold the log again from the beginning, and replace what was kept.

    What comes of it is the same, unless what was kept was wrong. Sales go on meanwhile. One that
    cannot be folded, for its facts are gone, is said on stderr, and the exit code is 1.

    Example: holdfast projections rebuild --store postgresql://shop@db/shop
    """
    rebuilt = asyncio.run(_rebuild(read_settings({"store": store}), event))
    if as_json:
        print_json(rebuilt.facts)
    elif rebuilt.facts:
        print_table(("event", "facts"), list(rebuilt.facts.items()))
    elif not rebuilt.failed:
        say("no events")
    for each, trouble in rebuilt.failed.items():
        print(f"holdfast: {each} was not rebuilt: {trouble}", file=sys.stderr)
    return REFUSED if rebuilt.failed else 0


@app.command()
def follow(
    source: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="log|kafka://host:port",
            help="Where facts are read: from the log, or from the topic that a relay publishes to.",
        ),
    ] = "log",
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="NAME", help="Kafka's topic. Else holdfast.")
    ] = None,
    store: StoreOption = None,
) -> None:
    """Keep projections up to date until stopped. `serve` and `worker` do this too, from the log.

    Run as many as you like: from the log one of them works, from Kafka they divide the partitions.

    Example: holdfast projections follow --from kafka://kafka:9092
    """
    if source != "log" and not source.startswith("kafka://"):
        raise Failed(f"--from must be log or kafka://host:port, not {source!r}")
    broker = "none" if source == "log" else source
    settings = read_settings({"store": store, "broker": broker, "broker_topic": topic})
    make_broker(settings)  # what is wrong with its address, or missing, is said now
    if settings.store == "memory://":
        raise Failed("projections need a store that others have too, not memory://")
    asyncio.run(_follow(settings, source))


async def _show(settings: Settings, event: str, as_json: bool) -> None:
    from holdfast.followers.projections import Projections

    async with opened_store(settings) as store:
        stats = await Projections(store).current(event)
    if stats is None:
        raise refused(Refused(Reason.UNKNOWN_EVENT, event))
    if as_json:
        from holdfast.api.stats import shown

        print_json(shown(stats, host_clock()))
        return
    say(stats.event, "bold")
    print_pairs(_pairs(stats))
    if stats.tiers:
        say()
        rows = [
            (tier or "(not told)", each.units, money(each.revenue, stats.currency))
            for tier, each in stats.by_tier().items()
        ]
        print_table(("tier", "units", "revenue"), rows)


def _pairs(stats: Stats) -> list[tuple[str, str]]:
    holds, now = stats.holds, host_clock()
    sold = f"{stats.sold:,} of {stats.capacity or 0:,} units, {stats.percent_sold:.2f} %"
    states = ("held", "paying", "confirmed", "released", "expired")
    speed = " / ".join(f"{stats.velocity(now, minutes):,}" for minutes in (1, 5, 60))
    returns = stats.returns
    return [
        ("facts", f"{stats.seq:,}"),
        ("sold", sold),
        ("revenue", money(stats.revenue, stats.currency)),
        ("holds", ", ".join(f"{getattr(holds, state):,} {state}" for state in states)),
        ("conversion", f"{100 * stats.conversion:.2f} %"),
        ("abandonment", f"{100 * stats.abandonment:.2f} %"),
        ("last 1 / 5 / 60 minutes", f"{speed} units"),
        ("came back", f"{returns.cancelled_units:,} units"),
        ("given back", money(returns.refunded_amount, stats.currency)),
    ]


async def _rebuild(settings: Settings, event: str | None) -> "Rebuilt":
    from holdfast.followers.projections import Projections

    async with opened_store(settings) as store:
        rebuilt = await Projections(store).rebuild(event)
    if event is not None and not rebuilt.facts and not rebuilt.failed:
        raise refused(Refused(Reason.UNKNOWN_EVENT, event))
    return rebuilt


async def _follow(settings: Settings, source: str) -> None:
    from holdfast.api.logs import set_up_logs

    set_up_logs(settings)
    stopping = asyncio.Event()
    for signaled in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signaled, stopping.set)
    async with opened_store(settings) as store:
        following = _from_log(store) if source == "log" else _from_kafka(store, settings)
        async with following as work:
            say(f"Projecting {store.url} from {source}")
            sys.stdout.flush()
            stopped = asyncio.create_task(stopping.wait())
            await asyncio.wait({stopped, work}, return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            if work.done():
                work.result()
    say("Stopped")


@asynccontextmanager
async def _from_log(store: Store) -> "AsyncIterator[asyncio.Task[None]]":
    from holdfast.followers.projections import Projections

    projections = Projections(store)
    try:
        yield projections.start()
    finally:
        await projections.stop()


@asynccontextmanager
async def _from_kafka(store: Store, settings: Settings) -> "AsyncIterator[asyncio.Task[None]]":
    from holdfast.followers.consumer import KafkaFollower
    from holdfast.followers.projections import Projections
    from holdfast.tasks import end_task

    options = kafka_options(settings)
    topic = settings.broker_topic
    follower = KafkaFollower(Projections(store), settings.broker, topic, options)
    work = asyncio.create_task(follower.run())
    try:
        yield work
    finally:
        with contextlib.suppress(Exception):  # what it ended with is said elsewhere
            await end_task(work)
        await follower.close()
