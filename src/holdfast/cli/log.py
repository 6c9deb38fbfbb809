"""holdfast log: the facts of an event, for people, and all of them as a file for auditors."""

import asyncio
import contextlib
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec
import typer

from holdfast.cli.shared import (
    REFUSED,
    Failed,
    JsonOption,
    StoreOption,
    complain,
    opened_shop,
    print_json,
    print_table,
    refused,
    say,
)
from holdfast.domain import limits
from holdfast.domain.cloudevents import cloud_event
from holdfast.domain.facts import Entry
from holdfast.domain.outcomes import Reason, Refused
from holdfast.engine import Holdfast
from holdfast.errors import Pruned

PAGE_FACTS = 1_000
PROGRESS_FACTS = 10_000
SHOWN = 100

app = typer.Typer(
    help="Show the facts of an event, and export the audit log.\n\n"
    "Example: holdfast log show opening-night",
    rich_markup_mode=None,
)

EventArgument = Annotated[str, typer.Argument(metavar="EVENT", help="The event's id.")]
AfterOption = Annotated[
    int | None,
    typer.Option(
        "--after",
        metavar="N",
        min=0,
        max=2**62,
        help="Only facts with numbers above this one, from the first that is still there.",
    ),
]

_encode = msgspec.json.Encoder().encode


@app.command()
def show(
    event: EventArgument,
    after: AfterOption = None,
    limit: Annotated[
        int,
        typer.Option(metavar="N", min=1, max=limits.LOG_PAGE_MAX, help="How many facts at most."),
    ] = SHOWN,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show facts of an event in their order, the oldest first.

    Example: holdfast log show opening-night --after 120 --limit 20
    """
    entries = asyncio.run(_page(store, event, after or 0, limit))
    if as_json:
        print_json([cloud_event(entry) for entry in entries])
        return
    if entries:
        print_table(("at", "number", "fact", "whose", "about"), [_row(each) for each in entries])
    else:
        say(f"no facts of {event} after {after or 0}")


@app.command()
def export(
    event: Annotated[
        str | None, typer.Argument(metavar="[EVENT]", help="The event's id, or --all.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Of all events, one after the other.")
    ] = False,
    after: AfterOption = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Where to; else to stdout.", dir_okay=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    store: StoreOption = None,
) -> None:
    """Write the audit log as JSON lines: a CloudEvent in each, in their order.

    A file is there when all of it is: it is written beside, and renamed. What is committed while
    the export runs may be missing at its end; `--after` gets it later.

    Example: holdfast log export opening-night --out opening-night.jsonl
    """
    if every == (event is not None):
        raise Failed("name an event, or say --all")
    if every and after is not None:
        raise Failed("--after goes with one event: numbers are an event's own")
    if out is not None and out.exists() and not force:
        raise Failed(f"{out} is there already: name another file, or say --force", REFUSED)
    with _target(out) as file:
        shown = sys.stderr.isatty() and (out is not None or not sys.stdout.isatty())
        asyncio.run(_export(store, event, after or 0, file, _Progress(shown)))


async def _page(store: str | None, event: str, after: int, limit: int) -> list[Entry]:
    async with opened_shop(store=store) as shop:
        return await shop.log(event, after=await _begin(shop, event, after), limit=limit)


async def _export(
    store: str | None, event: str | None, after: int, file: BinaryIO, progress: "_Progress"
) -> None:
    async with opened_shop(store=store) as shop:
        events = [event] if event is not None else sorted(await shop.store.heads())
        for each in events:
            async for page in _pages(shop, each, after):
                file.write(b"".join(_encode(cloud_event(entry)) + b"\n" for entry in page))
                progress.moved(each, len(page))
    file.flush()
    progress.done(len(events))


async def _pages(shop: Holdfast, event: str, after: int) -> AsyncIterator[list[Entry]]:
    """Up to what is the last fact now: a busy event would have no end."""
    seq = await _begin(shop, event, after)
    last = (await shop.store.heads()).get(event, 0)
    while seq < last:
        page = await shop.log(event, after=seq, limit=min(PAGE_FACTS, last - seq))
        if not page:
            return
        yield page
        seq = page[-1].seq


async def _begin(shop: Holdfast, event: str, after: int) -> int:
    """The number to go on after. Where facts above `after` were pruned, that is said: what is left
    is still worth having."""
    if await shop.event(event) is None:
        raise refused(Refused(Reason.UNKNOWN_EVENT, event))
    page = await shop.store.log(event, after, 1)
    if not page or page[0].seq == after + 1:
        return after
    complain(str(Pruned(event, page[0].seq)))
    return page[0].seq - 1


@contextlib.contextmanager
def _target(out: Path | None) -> Iterator[BinaryIO]:
    """Stdout, or a file that appears when it is complete."""
    if out is None:
        sys.stdout.flush()
        yield sys.stdout.buffer
        return
    try:
        handle, name = tempfile.mkstemp(prefix=f".{out.name}.", dir=out.parent)
    except OSError as cause:
        raise Failed(f"{out}: {cause.strerror}", REFUSED) from None
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        # As an ordinary file would have it; a temporary one is for its owner alone.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, out)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise


class _Progress:
    """On stderr, where that is a terminal: facts may take a while to be written."""

    def __init__(self, shown: bool) -> None:
        self._shown = shown
        self._facts = self._told = 0

    def moved(self, event: str, facts: int) -> None:
        self._facts += facts
        if self._shown and self._facts - self._told >= PROGRESS_FACTS:
            self._told = self._facts
            self._line(f"{self._facts:,} facts, {event}")

    def done(self, events: int) -> None:
        if self._shown:
            what = "event" if events == 1 else "events"
            self._line(f"{self._facts:,} facts of {events:,} {what}", "\n")

    def _line(self, text: str, end: str = "") -> None:
        print(f"\r\x1b[K{text}", end=end, file=sys.stderr, flush=True)


def _row(entry: Entry) -> tuple[str, ...]:
    data = entry.data
    units = [*map(str, data.get("seats", ()))]
    pools = data.get("pools", {})
    units += [f"{id} x {n}" for id, n in pools.items()] if isinstance(pools, dict) else []
    about = [*units, *map(str, data.get("changed", ())), str(data.get("order") or "")]
    return (
        f"{entry.at:%Y-%m-%d %H:%M:%S}",
        str(entry.seq),
        entry.type,
        str(data.get("buyer") or "-"),
        ", ".join(filter(None, about)) or "-",
    )
