"""holdfast demo: the whole promise in half a minute, on a file of its own."""

import asyncio
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.shared import REFUSED, Failed, on_terminal, refused, say
from holdfast.cli.stampede import print_report, progress
from holdfast.domain.model import SeatState
from holdfast.domain.outcomes import Placed, Reason, Refused
from holdfast.domain.views import SeatMap
from holdfast.engine import Holdfast
from holdfast.lab import stampede as lab
from holdfast.lab.stampede import Report

DEMO_FILE = "holdfast-demo.db"
DEMO_STORE = f"sqlite:///{DEMO_FILE}"
SUFFIXES = ("", "-wal", "-shm", "-turn")
BUYERS = 10_000
SEATS = 5

EVENT = "demo-night"
HOUSE = {
    "id": EVENT,
    "name": "Opening night",
    "currency": "EUR",
    "max_per_buyer": 8,
    "prices": {"gold": 9000, "silver": 6000, "floor": 4500},
    "sections": [
        {"id": "A", "tier": "gold", "rows": 10, "seats_per_row": 20, "x": 5, "aisles": [5, 15]},
        {"id": "B", "tier": "silver", "rows": 10, "seats_per_row": 30, "aisles": [8, 22]},
    ],
    "pools": [{"id": "floor", "capacity": 500, "tier": "floor"}],
}

GLYPHS = {
    SeatState.AVAILABLE: (".", "green"),
    SeatState.HELD: ("o", "yellow"),
    SeatState.SOLD: ("#", "red"),
}

EXAMPLE = """\
import asyncio
from holdfast import Holdfast, Placed, Refused

async def main():
    async with Holdfast.open("{store}") as shop:
        match await shop.place_hold("{event}", buyer="you", best=2):
            case Placed(hold): print(hold.seats, "are yours until", hold.expires_at)
            case Refused() as no: print(no.detail)

asyncio.run(main())"""


def demo(
    port: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, max=65_535, help="For the pages, which come later: unused yet."
        ),
    ] = 8000,
    fresh: Annotated[
        bool, typer.Option("--fresh", help=f"Delete {DEMO_FILE} first and begin anew.")
    ] = False,
    store: Annotated[
        str | None,
        typer.Option(
            "--store",
            metavar="URL",
            help=f"Run it elsewhere than in {DEMO_STORE}. HOLDFAST_STORE and holdfast.toml are "
            "not asked: a demo does not play in your shop.",
        ),
    ] = None,
) -> int:
    """Watch 10,000 people go after the five best seats of a house.

    In the terminal for now; the pages on --port come later. Every run goes on where the last one
    ended, in the same house.

    Example: holdfast demo --fresh
    """
    if fresh:
        _delete(store)
    report, sold, latecomer, seat_map = asyncio.run(_play(store or DEMO_STORE))
    say()
    print_report(report)
    say()
    _print_map(seat_map)
    say(f"The five they fought for: {', '.join(sold)}.")
    say(latecomer)
    _print_next(store or DEMO_STORE)
    return REFUSED if report.faults else 0


def _delete(store: str | None) -> None:
    if store not in (None, DEMO_STORE):
        raise Failed(f"--fresh deletes the demo's own {DEMO_FILE} only: leave out --store {store}")
    for suffix in SUFFIXES:
        try:
            Path(DEMO_FILE + suffix).unlink(missing_ok=True)
        except OSError as cause:
            raise Failed(f"cannot delete {DEMO_FILE}{suffix}: {cause.strerror}") from None


async def _play(store: str) -> tuple[Report, tuple[str, ...], str, SeatMap]:
    none = {"gate": "none", "policy": "authority"}  # as its own store: not what is configured
    async with Holdfast.open(store, upkeep=False, **none) as shop:
        await _build(shop)
        seats = await _best(shop)
        say(f"{BUYERS:,} people want the same {len(seats)} seats of {EVENT}, at once ...", "bold")
        with progress(BUYERS) as on_progress:
            tally = await lab.stampede(shop, EVENT, range(BUYERS), seats, on_progress)
        found = await lab.count(shop.store, EVENT, seats)
        report = lab.report(tally, found, len(seats), shop.store.url)
        latecomer = await _come_late(shop)
        return report, seats, latecomer, await _map(shop)


async def _build(shop: Holdfast) -> None:
    match await shop.create_event(HOUSE):
        case Refused(reason=reason) as refusal if reason is not Reason.EXISTS:
            raise refused(refusal)


async def _best(shop: Holdfast) -> tuple[str, ...]:
    """The best seats that are free. The engine knows them: it holds them, and lets them go."""
    seat_map = await _map(shop)
    free = sum(seat.state is SeatState.AVAILABLE for seat in seat_map.seats)
    if not free:
        raise Failed(f"{EVENT} is sold out: begin anew with `holdfast demo --fresh`", REFUSED)
    ask = {"quantity": min(SEATS, free), "together": False}
    match await shop.place_hold(EVENT, buyer="scout", best=ask):
        case Placed(hold):
            await shop.release_hold(hold.id)
            return hold.seats
        case Refused() as refusal:
            raise refused(refusal)


async def _come_late(shop: Holdfast) -> str:
    # Every run has a latecomer of its own: one alone would soon have all that one buyer may have.
    buyer = f"latecomer-{(await _map(shop)).seq}"
    match await shop.place_hold(EVENT, buyer=buyer, best=2):
        case Placed(hold):
            minutes = (hold.soft_ms - hold.placed_ms) // 60_000
            seats = ", ".join(hold.seats)
            return f"A latecomer then held the next best for {minutes} minutes: {seats}."
        case Refused() as refusal:
            return f"A latecomer then got nothing: {refusal.detail}."


async def _map(shop: Holdfast) -> SeatMap:
    return await shop.seats(EVENT) or SeatMap(0, [], [])


def _print_map(seat_map: SeatMap) -> None:
    """The house in characters, seats where they stand."""
    rows: dict[float, dict[int, SeatState]] = {}
    for seat in seat_map.seats:
        rows.setdefault(seat.y, {})[round(seat.x)] = seat.state
    if not rows:
        return
    width = max(max(row) for row in rows.values()) + 1
    say("stage".center(width))
    for y in range(round(min(rows)), round(max(rows)) + 1):
        _print_row(rows.get(y, {}), width)
    legend = (f"{glyph} {state.value}" for state, (glyph, _) in GLYPHS.items())
    pools = (f"{pool.id}: {pool.available} of {pool.capacity} left" for pool in seat_map.pools)
    say("   ".join((*legend, *pools)))


def _print_row(row: dict[int, SeatState], width: int) -> None:
    if not on_terminal():
        print("".join(GLYPHS[row[x]][0] if x in row else " " for x in range(width)).rstrip())
        return
    from rich.console import Console
    from rich.text import Text

    parts = [GLYPHS[row[x]] if x in row else (" ", "") for x in range(width)]
    Console().print(Text.assemble(*parts))


def _print_next(store: str) -> None:
    program = _program()
    say()
    say("Go on with:", "bold")
    say(f"  {program} events list --store {store}")
    say(f"  {program} stampede --buyers 10000 --seats 5 --store {store} --processes 4")
    say(f"  {program} check --store {store}")
    say()
    say("or from Python:", "bold")
    for line in EXAMPLE.format(store=store, event=EVENT).splitlines():
        say(f"  {line}".rstrip())


def _program() -> str:
    """How this program was called, so that the next line can be typed as it is shown."""
    script = Path(sys.argv[0])
    if script.name != "holdfast":
        return "python -m holdfast"
    return "holdfast" if shutil.which("holdfast") else str(script)
