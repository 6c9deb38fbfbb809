"""holdfast followers: who reads the log, and how far each has come."""

import asyncio
from datetime import datetime
from typing import Annotated

import msgspec
import typer

from holdfast.brokers.webhooks.subscriptions import FOLLOWER as WEBHOOK
from holdfast.brokers.webhooks.subscriptions import Webhooks
from holdfast.cli.shared import (
    REFUSED,
    Failed,
    JsonOption,
    StoreOption,
    opened_store,
    print_json,
    print_table,
    read_settings,
    say,
)
from holdfast.domain.model import instant
from holdfast.domain.views import Document
from holdfast.followers.deliveries import FOLLOWER as WEBHOOKS
from holdfast.followers.shards import KIND, read_table
from holdfast.ports import Store
from holdfast.settings import Settings
from holdfast.upkeep.prune import HOUR_MS, is_idle

app = typer.Typer(
    help="Who reads the log and how far each has come: list, forget.", no_args_is_help=True
)


class Standing(msgspec.Struct):
    """A follower, over all events."""

    follower: str
    events: int = 0
    behind: int = 0
    """Facts that it is not done with."""
    idle: int = 0
    """Events whose facts are no longer kept for it."""
    processes: int = 0
    """Those that work for it now."""
    moved: datetime | None = None
    """When it last did something; None where it never has."""


@app.command("list")
def list_followers(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Show relays and webhooks by the names of their cursors, and how far behind each is.

    One that is idle has not moved for longer than cursor_idle_hours although facts wait for it:
    they may be pruned before it has read them.

    Example: holdfast followers list --store postgresql://shop@db/shop
    """
    found = asyncio.run(_standings(read_settings({"store": store})))
    if as_json:
        print_json(found)
    elif found:
        columns = ("follower", "events", "behind", "idle", "processes", "last moved")
        print_table(columns, [_row(each) for each in found])
    else:
        say("Nobody follows the log.")


@app.command("forget")
def forget_follower(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As `list` shows it.")],
    store: StoreOption = None,
) -> int:
    """Remove the cursors of a follower that is no more, so that no fact is kept for it.

    A relay that is started under that name again publishes everything from the beginning. A
    webhook's subscription is removed instead: holdfast webhooks remove.

    Example: holdfast followers forget old-relay
    """
    return asyncio.run(_forget(read_settings({"store": store}), name))


def _row(each: Standing) -> tuple[str | int, ...]:
    moved = f"{each.moved:%Y-%m-%d %H:%M:%S}" if each.moved else "-"
    return (each.follower, each.events, each.behind, each.idle, each.processes, moved)


async def _standings(settings: Settings) -> list[Standing]:
    async with opened_store(settings) as store:
        return await _stand(store, round(settings.cursor_idle_hours * HOUR_MS))


async def _stand(store: Store, idle_ms: int) -> list[Standing]:
    waiting = await Webhooks(store).waiting()
    processes = await _processes(store)
    cursors, now = await store.cursors()
    heads = await store.heads()
    # Also those that have done nothing yet: all facts are kept for them.
    names = {cursor.follower for cursor in cursors} | (processes.keys() - {WEBHOOKS})
    standings = {
        name: Standing(name, processes=processes.get(_table_of(name), 0)) for name in sorted(names)
    }
    for cursor in cursors:
        each = standings[cursor.follower]
        head = heads.get(cursor.event, 0)
        each.events += 1
        each.behind += max(0, head - cursor.seq)
        at_work = (cursor.follower, cursor.event) in waiting
        each.idle += not at_work and await is_idle(store, cursor, head, now, idle_ms)
        moved = instant(cursor.moved_ms)
        each.moved = max(each.moved or moved, moved)
    return list(standings.values())


def _table_of(follower: str) -> str:
    """The processes that send webhooks share one table."""
    return WEBHOOKS if follower.startswith(WEBHOOK) else follower


async def _processes(store: Store) -> dict[str, int]:
    """Processes at work, by table."""
    documents, now = await store.documents(KIND)
    return {each.id: _at_work(each, now) for each in documents}


def _at_work(table: Document, now: int) -> int:
    return sum(until > now for until in read_table(table.body).members.values())


async def _forget(settings: Settings, name: str) -> int:
    async with opened_store(settings) as store:
        tables, now = await store.documents(KIND, name)
        if name == WEBHOOKS or not (tables or (await store.cursors(name))[0]):
            raise Failed(
                f"no follower {name!r}; `holdfast followers list` shows those there are", REFUSED
            )
        webhook = name.removeprefix(WEBHOOK)
        if webhook != name and await Webhooks(store).find(webhook):
            # It would be sent everything from the beginning.
            raise Failed(f"{name} is subscribed: `holdfast webhooks remove {webhook}`", REFUSED)
        for table in tables:
            # First of all: who comes back meanwhile writes it, and nothing was taken from him.
            if _at_work(table, now) or not await store.drop(KIND, name, table.version):
                raise Failed(f"{name} is at work: stop its processes first", REFUSED)
        await store.forget(name)
    say(f"{name} is forgotten")
    return 0
