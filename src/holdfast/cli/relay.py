"""holdfast relay: facts from the log to a broker, in a process of its own."""

import asyncio
import contextlib
import signal
import sys
from typing import Annotated

import typer

from holdfast.cli.shared import Failed, StoreOption, opened_store, read_settings, say
from holdfast.errors import BrokerDown
from holdfast.settings import Settings
from holdfast.wiring import make_broker, make_store, make_wal

BrokerOption = Annotated[
    str | None,
    typer.Option(
        "--broker",
        metavar="URL",
        help="Where facts go: kafka://host:port, nats://host:port. Else HOLDFAST_BROKER.",
    ),
]
TopicOption = Annotated[
    str | None,
    typer.Option("--topic", metavar="NAME", help="Kafka's topic, NATS' subject. Else holdfast."),
]
NameOption = Annotated[
    str | None,
    typer.Option(
        "--name",
        metavar="NAME",
        help="Whose cursors are used: a relay under a new name publishes everything from the "
        "beginning. Else relay.",
    ),
]


def relay(
    store: StoreOption = None,
    broker: BrokerOption = None,
    topic: TopicOption = None,
    name: NameOption = None,
    source: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="log|wal",
            help="wal: from PostgreSQL's write-ahead log, without polling.",
        ),
    ] = "log",
    drop_slot: Annotated[
        bool,
        typer.Option(
            "--drop-slot", help="Remove what --from wal made in the database, and do nothing else."
        ),
    ] = False,
) -> int:
    """Publish facts to a broker: at least once, in order per event.

    Run as many as you like: they divide the events among themselves, and take over from one that
    ends. `holdfast serve` and `holdfast worker` do this too where a broker is set.

    Example: holdfast relay --store postgresql://shop@db/shop --broker kafka://kafka:9092
    """
    given = {"store": store, "broker": broker, "broker_topic": topic, "relay_name": name}
    settings = read_settings(given)
    if source not in ("log", "wal"):
        raise Failed(f"--from must be log or wal, not {source!r}")
    if settings.store == "memory://":
        raise Failed("a relay needs a store that others have too, not memory://")
    if drop_slot:
        asyncio.run(_drop_slot(settings))
        return 0
    if settings.broker in ("none", "memory://"):
        raise Failed("a relay needs a broker: --broker kafka://host:port or nats://host:port")
    # What is set wrongly is said before anything is opened.
    make_store(settings)
    make_broker(settings)
    if source == "wal":
        make_wal(settings)
    asyncio.run(_relay(settings, wal=source == "wal"))
    return 0


async def _relay(settings: Settings, *, wal: bool) -> None:
    from holdfast.api.logs import set_up_logs
    from holdfast.followers.relay import make_relay

    set_up_logs(settings)
    stopping = asyncio.Event()
    for signaled in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signaled, stopping.set)
    await _try_broker(settings)
    async with opened_store(settings) as store:
        relay = make_relay(store, settings, make_wal(settings) if wal else None)
        assert relay is not None  # a broker was asked for above
        relay.start()
        try:
            say(f"Relaying {store.url} to {relay.broker}" + (" from its WAL" if wal else ""))
            sys.stdout.flush()
            await stopping.wait()
        finally:
            await relay.stop()
    dead = f"; dead letters: {relay.refused:,}" if relay.refused else ""
    say(f"Stopped; facts published: {relay.published:,}{dead}")


async def _try_broker(settings: Settings) -> None:
    """What is set wrongly is said now; one that is away is waited for."""
    broker = make_broker(settings)
    assert broker is not None
    try:
        await broker.open()
    except BrokerDown:
        pass  # it is waited for, and that is said
    finally:
        with contextlib.suppress(BrokerDown):
            await broker.close()


async def _drop_slot(settings: Settings) -> None:
    wal = make_wal(settings)
    await wal.drop()
    say(f"{make_store(settings).url}: the slot and the publication are gone")
