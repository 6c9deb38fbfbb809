"""holdfast events: what is on sale, and how it stands."""

import asyncio
import codecs
import sys
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from holdfast.cli.house import print_house
from holdfast.cli.shared import (
    REFUSED,
    EventArgument,
    Failed,
    JsonOption,
    StoreOption,
    money,
    opened_shop,
    print_json,
    print_pairs,
    print_table,
    refused,
    say,
)
from holdfast.domain.model import SeatState
from holdfast.domain.outcomes import Changed, Created, Reason, Refused
from holdfast.domain.views import SeatMap, Summary
from holdfast.engine import Holdfast
from holdfast.errors import Invalid

EVENT_FILE_BYTES_MAX = 32 * 1024 * 1024
"""As much as the HTTP API takes for an event."""

app = typer.Typer(
    help="List, create, show, draw, open, pause and close events.\n\nExample: holdfast events list",
    rich_markup_mode=None,
)


@app.command("list")
def list_events(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """List all events and how their sales stand.

    Example: holdfast events list --store sqlite:///shop.db
    """
    summaries = asyncio.run(_summaries(store))
    if as_json:
        print_json([_as_dict(summary) for summary in summaries])
    elif not summaries:
        say("no events yet; make one with: holdfast events create FILE.json")
    else:
        columns = ("event", "state", "capacity", "free", "held", "sold", "% sold")
        print_table((*columns, "revenue"), [_row(summary) for summary in summaries])


@app.command("map")
def house(event: EventArgument, store: StoreOption = None) -> None:
    """Draw the house: which seats are free, held and sold.

    Example: holdfast events map opening-night --store sqlite:///shop.db
    """
    seat_map = asyncio.run(_seat_map(store, event))
    if seat_map is None:
        raise refused(Refused(Reason.UNKNOWN_EVENT, event))
    print_house(seat_map)


async def _seat_map(store: str | None, event: str) -> SeatMap | None:
    async with opened_shop(store=store) as shop:
        return await shop.seats(event)


@app.command()
def create(
    file: Annotated[str, typer.Argument(metavar="FILE.json", help="The event; - reads stdin.")],
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create an event from a file, described as in docs/events.md.

    Example: holdfast events create opening-night.json

    Such a file: {"id": "opening-night", "prices": {"gold": 9000},
    "sections": [{"id": "A", "tier": "gold", "rows": 10, "seats_per_row": 20}]}
    """
    plan = _read_file(file)
    try:
        summary = asyncio.run(_create(store, plan))
    except Invalid as invalid:
        faults = "; ".join(str(fault).removeprefix(": ") for fault in invalid.faults)
        raise Failed(f"{file}: {faults}") from None
    if as_json:
        print_json(_as_dict(summary))
    else:
        event = summary.event
        say(f"created {event.id}: {summary.capacity:,} units, {event.state.replace('_', ' ')}")


@app.command()
def show(event: EventArgument, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Show one event, section by section.

    Example: holdfast events show opening-night
    """
    summary, seat_map = asyncio.run(_show(store, event))
    if as_json:
        sections = [dict(zip(SECTION, row, strict=True)) for row in _sections(seat_map)]
        print_json({**_as_dict(summary), "sections": sections, "pools": seat_map.pools})
        return
    say(f"{summary.event.name} ({summary.event.id})", "bold")
    print_pairs(_pairs(summary))
    if seat_map.seats:
        print_table(SECTION, _sections(seat_map))
    if seat_map.pools:
        pools = [(pool.id, pool.capacity, pool.available) for pool in seat_map.pools]
        print_table(("pool", "capacity", "free"), pools)


@app.command("open")
def open_event(
    event: EventArgument, store: StoreOption = None, as_json: JsonOption = False
) -> None:
    """Put an event on sale.

    Example: holdfast events open opening-night
    """
    _print_changed(asyncio.run(_change(store, event, "on_sale")), as_json)


@app.command()
def pause(event: EventArgument, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Take no new holds; those there are may still be paid for.

    Example: holdfast events pause opening-night
    """
    _print_changed(asyncio.run(_change(store, event, "paused")), as_json)


@app.command()
def close(event: EventArgument, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """End the sale of an event.

    Example: holdfast events close opening-night
    """
    _print_changed(asyncio.run(_change(store, event, "closed")), as_json)


async def _summaries(store: str | None) -> list[Summary]:
    async with opened_shop(store=store) as shop:
        return await shop.events()


async def _create(store: str | None, plan: Any) -> Summary:  # whatever the file holds
    # Not `opened_shop`: a shop may begin with its first event.
    async with Holdfast.open(store, upkeep=False) as shop:
        match await shop.create_event(plan):
            case Created(event):
                return await _summary(shop, event.id)
            case Refused(reason=Reason.EXISTS, value=value):
                raise Failed(f"there is an event {value!r} already: choose another id", REFUSED)
            case Refused() as refusal:
                raise refused(refusal)


async def _change(store: str | None, event: str, state: str) -> Summary:
    async with opened_shop(store=store) as shop:
        match await shop.change_event(event, state=state):
            case Changed(changed):
                return await _summary(shop, changed.id)
            case Refused() as refusal:
                raise refused(refusal)


async def _show(store: str | None, event: str) -> tuple[Summary, SeatMap]:
    async with opened_shop(store=store) as shop:
        summary = await _summary(shop, event)
        # The store's own map: whoever administers an event sees the units of every channel.
        return summary, await shop.store.seat_map(event) or SeatMap(summary.seq, [], [])


async def _summary(shop: Holdfast, event: str) -> Summary:
    summary = await shop.event(event)
    if summary is None:
        raise refused(Refused(Reason.UNKNOWN_EVENT, event))
    return summary


def _read_file(name: str) -> Any:  # any JSON value; the engine says what is wrong with it
    try:
        if name == "-" and sys.stdin is None:
            raise Failed("there is nothing on stdin to read")
        with sys.stdin.buffer if name == "-" else Path(name).open("rb") as file:
            text = file.read(EVENT_FILE_BYTES_MAX + 1).removeprefix(codecs.BOM_UTF8)
    except OSError as cause:
        raise Failed(f"cannot read {name}: {cause.strerror}") from None
    except ValueError:
        raise Failed(f"{name!r} cannot be the name of a file") from None
    if len(text) > EVENT_FILE_BYTES_MAX:
        raise Failed(f"{name} is larger than {EVENT_FILE_BYTES_MAX} bytes: split the event")
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as cause:
        raise Failed(f"{name} is not valid JSON: {cause}") from None
    except RecursionError:
        raise Failed(f"{name} is nested too deeply to be an event") from None


def _as_dict(summary: Summary) -> dict[str, object]:
    """As GET /v1/events/{event} shows it."""
    return {
        **msgspec.structs.asdict(summary.event),
        "capacity": summary.capacity,
        "available": summary.available,
        "held": summary.held,
        "sold": summary.sold,
        "percent_sold": summary.percent_sold,
        "revenue": summary.revenue,
        "seq": summary.seq,
    }


def _row(summary: Summary) -> tuple[str | int, ...]:
    event = summary.event
    return (
        event.id,
        event.state.replace("_", " "),
        *(summary.capacity, summary.available, summary.held, summary.sold),
        f"{summary.percent_sold:.1f}",
        money(summary.revenue, event.currency),
    )


def _pairs(summary: Summary) -> list[tuple[str, str]]:
    event = summary.event
    cap = "none" if event.max_per_buyer is None else str(event.max_per_buyer)
    prices = (f"{tier} {money(price, event.currency)}" for tier, price in event.prices.items())
    return [
        ("state", event.state.replace("_", " ")),
        ("free", f"{summary.available:,} of {summary.capacity:,}"),
        ("held", f"{summary.held:,}"),
        ("sold", f"{summary.sold:,} ({summary.percent_sold:.1f} %)"),
        ("revenue", money(summary.revenue, event.currency)),
        ("prices", ", ".join(prices)),
        ("a hold lasts", f"{event.hold_seconds} s, and {event.grace_seconds} s more while paying"),
        ("cap per buyer", cap),
        ("facts on the log", f"{summary.seq:,}"),
    ]


SECTION = ("section", "tier", "seats", "free", "held", "sold")


def _sections(seat_map: SeatMap) -> list[tuple[str | int, ...]]:
    """One row for each section and tier, in the order of the map."""
    states: dict[tuple[str, str], Counter[SeatState]] = {}
    for seat in seat_map.seats:
        states.setdefault((seat.section, seat.tier), Counter())[seat.state] += 1
    return [
        (*key, of.total(), of[SeatState.AVAILABLE], of[SeatState.HELD], of[SeatState.SOLD])
        for key, of in states.items()
    ]


def _print_changed(summary: Summary, as_json: bool) -> None:
    if as_json:
        print_json(_as_dict(summary))
    else:
        say(f"{summary.event.id} is {summary.event.state.replace('_', ' ')}")
