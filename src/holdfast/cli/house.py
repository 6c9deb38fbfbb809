"""A house in characters: seats where they stand."""

from holdfast.cli.shared import on_terminal, say
from holdfast.domain.model import SeatState
from holdfast.domain.views import SeatMap

WIDTH_MAX = 400

GLYPHS = {
    SeatState.AVAILABLE: (".", "green"),
    SeatState.HELD: ("o", "yellow"),
    SeatState.SOLD: ("#", "red"),
}


def print_house(seat_map: SeatMap) -> None:
    rows: dict[int, dict[int, SeatState]] = {}
    left = min((seat.x for seat in seat_map.seats), default=0)
    for seat in seat_map.seats:
        rows.setdefault(round(seat.y), {})[round(seat.x - left)] = seat.state
    if rows:
        width = min(max(max(row) for row in rows.values()) + 1, WIDTH_MAX)
        say("stage".center(width).rstrip())
        before = min(rows)
        for y in sorted(rows):
            if y > before + 1:
                say()
            _print_row(rows[y], width)
            before = y
        say()
    legend = (f"{glyph} {state.value}" for state, (glyph, _) in GLYPHS.items()) if rows else ()
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
