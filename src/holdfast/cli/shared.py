"""What the commands share: options, one way to fail, and output for people and for programs.

People get colour and tables where stdout is a terminal, and aligned plain text where it is not.
Programs get one JSON value. rich is imported for a terminal only: that takes longer than most
commands do.
"""

import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import typer

from holdfast.domain.outcomes import Reason, Refused
from holdfast.engine import Holdfast
from holdfast.ports import Store
from holdfast.settings import Settings, load_settings
from holdfast.wiring import has_schema, make_store

StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="The authority: sqlite:///shop.db, postgresql://..., mysql://... or memory://. "
        "Else HOLDFAST_STORE, else store in holdfast.toml, else sqlite:///holdfast.db.",
    ),
]
GateOption = Annotated[
    str | None,
    typer.Option(
        "--gate",
        metavar="URL",
        help="What stands before the authority: none, memory:// or redis://host:port/0.",
    ),
]
PolicyOption = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="NAME",
        help="Where holds live: authority, two-layer or gate. The latter two need a gate.",
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON value on stdout and nothing else.")
]
EventArgument = Annotated[str, typer.Argument(metavar="ID", help="The event's id.")]

OPTIONS = {
    **{name: f"--{name}" for name in ("store", "gate", "policy", "broker", "host")},
    "broker_topic": "--topic",
    "relay_name": "--name",
}
"""Settings as they are called on the command line."""

REFUSED = 1
WRONG_VALUE = 2
DRIFT = 3

MINOR_DIGITS = dict.fromkeys(
    [
        "BIF",
        "CLP",
        "DJF",
        "GNF",
        "ISK",
        "JPY",
        "KMF",
        "KRW",
        "PYG",
        "RWF",
        "UGX",
        "UYI",
        "VND",
        "VUV",
        "XAF",
        "XOF",
        "XPF",
    ],
    0,
)
MINOR_DIGITS |= dict.fromkeys(["BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"], 3)
MINOR_DIGITS |= dict.fromkeys(["CLF", "UYW"], 4)
"""Digits of the minor unit, as ISO 4217 has them, where they are not two."""


class Failed(Exception):
    """Ends the program with one line on stderr."""

    def __init__(self, line: str, code: int = WRONG_VALUE) -> None:
        super().__init__(line)
        self.code = code


def refused(refusal: Refused) -> Failed:
    """A refusal as the end of the program: nothing was wrong, and the answer is no."""
    detail = refusal.detail
    if refusal.reason is Reason.UNKNOWN_EVENT:
        detail += "; `holdfast events list` shows those there are"
    return Failed(detail, REFUSED)


def read_settings(given: Mapping[str, str | int | None]) -> Settings:
    """With what was given on the command line, each by the setting's name."""
    return load_settings(given, options=OPTIONS)


async def find_store(settings: Settings) -> None:
    """Fails where there is no store yet. To open it would make one: a typo in its address would
    pass for a shop in which nothing is sold."""
    url = make_store(settings).url
    _find_file(settings.store)
    if not await has_schema(settings):
        raise Failed(f"no Holdfast schema in {url}: holdfast migrate makes it")


def _find_file(url: str) -> None:
    path = url.removeprefix("sqlite:///")
    if path != url and not Path(path).exists():
        raise Failed(f"there is no file {path}, and so no store: holdfast migrate makes it")


@asynccontextmanager
async def opened_store(settings: Settings, *, new: bool = False) -> AsyncIterator[Store]:
    """A store that is there already: fails as `find_store` does, unless it may be `new`."""
    if not new:
        await find_store(settings)
    store = make_store(settings)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def opened_shop(**given: str | None) -> AsyncIterator[Holdfast]:
    """A shop that is there already; fails as `find_store` does."""
    settings = read_settings(given)
    # Made before its store is looked for: a setting that cannot be is said first.
    shop = Holdfast.open(**given, upkeep=False)
    await find_store(settings)
    async with shop:
        yield shop


def complain(line: str) -> None:
    """One line on stderr, whatever is in it: an argument may contain anything."""
    text = " ".join(line.split())
    print("holdfast:", "".join(c if c.isprintable() else "?" for c in text), file=sys.stderr)


def on_terminal() -> bool:
    return sys.stdout.isatty()


def print_json(value: object) -> None:
    """In UTF-8 whatever the locale says, as JSON wants it."""
    sys.stdout.flush()
    sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")
    sys.stdout.buffer.flush()


def say(text: str = "", style: str = "") -> None:
    """A line for people, in a colour where there are colours."""
    if not on_terminal():
        print(text)
        return
    from rich.console import Console

    Console().print(text, style=style or None, markup=False, highlight=False, soft_wrap=True)


def print_pairs(pairs: Sequence[tuple[str, str]]) -> None:
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        say(f"  {name:{width}}  {value}")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str | int]]) -> None:
    """What begins with a digit is set to the right, but for the first column: that is a name."""
    cells = [[f"{cell:,}" if isinstance(cell, int) else cell for cell in row] for row in rows]
    right = [
        nth > 0 and all(line[nth][:1].isdigit() for line in cells) for nth in range(len(columns))
    ]
    if on_terminal():
        _print_rich_table(columns, cells, right)
        return
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    for line in (columns, *cells):
        padded = [
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, right, strict=True)
        ]
        print("  ".join(padded).rstrip())


def _print_rich_table(
    columns: Sequence[str], cells: Sequence[Sequence[str]], right: Sequence[bool]
) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for column, to_right in zip(columns, right, strict=True):
        justify: Literal["left", "right"] = "right" if to_right else "left"
        # Names give way on a narrow terminal, numbers stay whole.
        table.add_column(column, justify=justify, no_wrap=to_right, overflow="fold")
    for line in cells:
        table.add_row(*map(Text, line))
    Console().print(table)


def money(amount: int, currency: str) -> str:
    """An amount in minor units as a person reads it: 27000 EUR is 270.00 EUR."""
    digits = MINOR_DIGITS.get(currency, 2)
    return f"{amount / 10**digits:,.{digits}f} {currency}"


def prepare_streams() -> None:
    """A stream that was closed leads nowhere, and a name that the terminal cannot show is shown
    escaped: neither is a reason to fail."""
    sys.stdout = sys.stdout or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    sys.stderr = sys.stderr or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def hush_stdout() -> None:
    """After a write failed: if that was stdout's, what is still buffered goes nowhere, quietly."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
