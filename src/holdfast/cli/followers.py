"""holdfast followers: who reads the log, and how far each has come."""

import asyncio
from typing import Annotated

import msgspec
import typer

from holdfast.cli.shared import (
    REFUSED,
    Failed,
    JsonOption,
    StoreOption,
    print_json,
    print_table,
    say,
)
from holdfast.domain.model import instant
from holdfast.followers.shards import KIND, read_table
from holdfast.ports import Store
from holdfast.settings import Settings, load_settings
from holdfast.wiring import make_store

HOUR_MS = 3600 * 1000

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
    members: int = 0
    """Processes that work for it now."""
    moved: str = ""


@app.command("list")
def list_followers(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Show relays and webhooks by the names of their cursors, and how far behind each is.

    One that is idle has not moved for longer than cursor_idle_hours although facts wait for it:
    they may be pruned before it has read them.

    Example: holdfast followers list --store postgresql://shop@db/shop
    """
    found = asyncio.run(_standings(load_settings({"store": store})))
    if as_json:
        print_json(found)
    elif found:
        columns = ("follower", "events", "behind", "idle", "processes", "last moved")
        print_table(
            columns,
            [
                (each.follower, each.events, each.behind, each.idle, each.members, each.moved)
                for each in found
            ],
        )
    else:
        say("Nobody follows the log.")


@app.command("forget")
def forget_follower(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As `list` shows it.")],
    store: StoreOption = None,
) -> int:
    """Remove the cursors of a follower that is no more, so that no fact is kept for it.

    A relay that is started under that name again publishes everything from the beginning.

    Example: holdfast followers forget old-relay
    """
    return asyncio.run(_forget(load_settings({"store": store}), name))


async def _standings(settings: Settings) -> list[Standing]:
    store = make_store(settings)
    await store.open()
    try:
        cursors, now = await store.cursors()
        heads = await store.heads()
        members = await _members(store)
    finally:
        await store.close()
    before = now - round(settings.cursor_idle_hours * HOUR_MS)
    standings: dict[str, Standing] = {}
    for cursor in cursors:
        each = standings.setdefault(
            cursor.follower, Standing(cursor.follower, members=members.get(cursor.follower, 0))
        )
        behind = max(0, heads.get(cursor.event, 0) - cursor.seq)
        each.events += 1
        each.behind += behind
        each.idle += bool(behind) and cursor.moved_ms < before
        each.moved = max(each.moved, f"{instant(cursor.moved_ms):%Y-%m-%d %H:%M:%S}")
    return list(standings.values())


async def _members(store: Store) -> dict[str, int]:
    """Processes at work, by follower. Those that send webhooks share one table."""
    documents, now = await store.documents(KIND)
    return {
        each.id: sum(until > now for until in read_table(each.body).members.values())
        for each in documents
    }


async def _forget(settings: Settings, name: str) -> int:
    store = make_store(settings)
    await store.open()
    try:
        if not (await store.cursors(name))[0]:
            raise Failed(
                f"no follower {name!r}; `holdfast followers list` shows those there are", REFUSED
            )
        if (await _members(store)).get(name):
            raise Failed(f"{name} is at work: stop its processes first", REFUSED)
        await store.forget(name)
    finally:
        await store.close()
    say(f"{name} is forgotten")
    return 0
