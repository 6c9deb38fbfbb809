"""holdfast bench: what this machine can do."""

import asyncio
import json
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.errors import SettingsError
from holdfast.lab.bench import DATABASE, EMBEDDED, EXTRA, Bench, measurements
from holdfast.settings import Settings
from holdfast.wiring import make_store

KNOWN = tuple(dict.fromkeys((*EMBEDDED, *DATABASE, *EXTRA)))

StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="sqlite:///shop.db, postgresql://... or mysql://... Without it, files of its own: "
        "HOLDFAST_STORE and holdfast.toml do not count here.",
    ),
]


def bench(
    store: StoreOption = None,
    gate: Annotated[
        str | None, typer.Option("--gate", metavar="URL", help="A gate to measure: redis://...")
    ] = None,
    broker: Annotated[
        str | None,
        typer.Option("--broker", metavar="URL", help="A broker to relay to: kafka://..., nats://"),
    ] = None,
    only: Annotated[str | None, typer.Option(help=f"One of: {', '.join(KNOWN)}.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A twentieth of the work: a trial, not a figure.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Measure this machine: group commit against batches of one or against one transaction for
    each hold, refusals, several processes, best available.

    Without a store on SQLite files, in a folder that is removed afterwards. On a database server it
    makes new events, and leaves them. For baskets, the comparison with one transaction for each
    hold, it makes and drops two tables holdfast_baseline_*, and needs the right to. Takes about two
    minutes.

    Example: holdfast bench --json
    """
    if only is not None and only not in KNOWN:
        raise SettingsError(f"unknown measurement {only!r}: one of {', '.join(KNOWN)}")
    shown = make_store(Settings(store=store)).url if store else "sqlite"
    # In the working directory: a temporary folder in memory would make every flush look free.
    folder = Path(tempfile.mkdtemp(prefix=".holdfast-bench-", dir=Path.cwd()))
    try:
        measured = Bench(store, folder, _say, 0.05 if quick else 1.0, gate, broker)
        names = [only] if only else measurements(store, gate, broker)
        results = {name: asyncio.run(getattr(measured, name)()) for name in names}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    report = {"machine": _machine(), "store": shown, "quick": quick, **results}
    if as_json:
        print(json.dumps(report))
    else:
        _print(report)


def _machine() -> dict[str, Any]:  # ready for JSON
    return {
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def _say(doing: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{doing} ...", end="", file=sys.stderr, flush=True)


def _print(report: dict[str, Any]) -> None:
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    for name, figures in report.items():
        if isinstance(figures, dict):
            print(name.replace("_", " "))
            for figure, value in figures.items():
                shown = f"{value:,}" if isinstance(value, int) else value
                print(f"  {figure.replace('_', ' '):42} {shown}")
