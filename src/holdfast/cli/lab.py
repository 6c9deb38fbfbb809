"""holdfast lab: every published strategy, side by side, on this machine."""

import asyncio
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli.shared import (
    DRIFT,
    REFUSED,
    Failed,
    JsonOption,
    complain,
    on_terminal,
    print_json,
    print_table,
    say,
)
from holdfast.lab.contest.compare import (
    Comparison,
    LeftOut,
    Plan,
    Progress,
    Result,
    at_fault,
    report,
)
from holdfast.lab.contest.field import SCENARIOS, Scenario
from holdfast.lab.contest.places import Places, places
from holdfast.lab.strategies import STRATEGIES
from holdfast.settings import Settings
from holdfast.stores.addresses import without_secrets
from holdfast.wiring import make_gate, make_store

BUYERS_MAX = 100_000
QUICK_BUYERS = 500
PROCESSES_MAX = 16
CURVES = ("postgresql:", "postgres:", "mysql:", "mariadb:")

Tell = Callable[[str], None]


def lab(
    store: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL",
            help="A database to compare on; may be repeated. Without it private servers are "
            "started from the binaries that are installed, and removed afterwards: HOLDFAST_STORE "
            "and holdfast.toml do not count here.",
        ),
    ] = None,
    redis: Annotated[
        str | None,
        typer.Option(metavar="URL", help="redis://host:port/0. Else a private one is started."),
    ] = None,
    scenario: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help=f"May be repeated: {', '.join(SCENARIOS)}. Else all."),
    ] = None,
    strategy: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help=f"May be repeated: {', '.join(STRATEGIES)}. Else all."),
    ] = None,
    processes: Annotated[
        str,
        typer.Option(metavar="N,N", help="Processes that buyers come through, one run for each."),
    ] = "1,4",
    buyers: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=BUYERS_MAX, help="Else 10,000 (pool: 12,000)."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help=f"{QUICK_BUYERS} buyers: a trial, not a figure.")
    ] = False,
    curves: Annotated[
        bool, typer.Option("--curves", help="Measure Holdfast's scaling curves, too.")
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a report with charts there; with the curves."),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Compare every published way to sell the last seat, on this machine.

    Each strategy sells the same stock to the same crowd, on each store, with one and with four
    processes. What was sold, and what was sold twice, is counted from the rows afterwards. The
    naive strategy oversells, and must. Exit code 3 if another one does.

    In a database that is given it makes, and drops again, the schema holdfast_lab (PostgreSQL) or
    the tables lab_seats, lab_pools and lab_sales; in Redis, keys that begin with holdfast-lab:. For
    group-commit it makes Holdfast's own schema, if it is not there, and events lab-ID, which are
    closed and stay; so do those of the curves. Nothing else is touched.

    Example: holdfast lab --quick

    Example: holdfast lab --scenario last-seat --html lab.html
    """
    chosen = _chosen_strategies(strategy)
    scenarios = _chosen_scenarios(scenario, QUICK_BUYERS if quick and not buyers else buyers)
    counts = _read_processes(processes)
    stores = _checked(store or (), redis)
    if html is not None and not html.parent.is_dir():
        raise Failed(f"--html {html}: there is no folder {html.parent}")
    needs_redis = any(STRATEGIES[name].uses_redis for name in chosen)
    with (
        _stoppable(),
        _telling() as (tell, on_progress),
        places(stores, redis, needs_redis=needs_redis, say=tell) as found,
    ):
        plan = Plan(
            stores=found.stores,
            redis=found.redis,
            scenarios=scenarios,
            strategies=chosen,
            processes=counts,
            no_redis=_no_redis(found),
        )
        comparison = Comparison(plan, on_progress)
        comparison.left_out += _without(found, chosen)
        asyncio.run(comparison.run())
        result = report(comparison, quick=quick)
        if curves or html:
            result["curves"] = _curves(found, quick, tell)
    if html is not None:
        from holdfast.lab.report.report import write_report

        write_report(result, html)
    if as_json:
        print_json(result)
    else:
        _print(result, comparison, html)
    return _ended(comparison)


def _chosen_strategies(names: Sequence[str] | None) -> tuple[str, ...]:
    wanted = [name.replace("_", "-") for name in names or STRATEGIES]
    for name in wanted:
        if name not in STRATEGIES:
            raise Failed(f"unknown strategy {name!r}: one of {', '.join(STRATEGIES)}")
    return tuple(name for name in STRATEGIES if name in wanted)


def _chosen_scenarios(names: Sequence[str] | None, buyers: int | None) -> tuple[Scenario, ...]:
    for name in names or ():
        if name not in SCENARIOS:
            raise Failed(f"unknown scenario {name!r}: one of {', '.join(SCENARIOS)}")
    chosen = [each for each in SCENARIOS.values() if not names or each.name in names]
    return tuple(each.scaled(buyers) if buyers else each for each in chosen)


def _read_processes(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.strip().isdecimal() and part.strip().isascii() for part in parts):
        raise Failed(f"--processes must be whole numbers with commas between them, not {text!r}")
    counts = tuple(dict.fromkeys(int(part) for part in parts))
    if not all(1 <= count <= PROCESSES_MAX for count in counts):
        raise Failed(f"--processes must be from 1 to {PROCESSES_MAX} each")
    return counts


def _checked(stores: Sequence[str], redis: str | None) -> tuple[str, ...]:
    """Addresses that make sense, before anything is started."""
    for url in stores:
        if url == "memory://":
            raise Failed("processes cannot share memory://: the lab needs a database or a file")
        make_store(Settings(store=url))
    if redis is not None:
        if not redis.startswith(("redis://", "rediss://", "unix://")):
            raise Failed(f"--redis must be redis://host:port/0, not {without_secrets(redis)!r}")
        make_gate(Settings(gate=redis))
        if "cluster=" in redis:
            raise Failed("the lab takes one Redis, not a cluster: redis://host:port/0")
    return tuple(dict.fromkeys(stores))


def _no_redis(found: Places) -> str:
    return found.missing.get("redis", "no Redis was given")


def _without(found: Places, chosen: Sequence[str]) -> list[LeftOut]:
    """What could not run because the machine has no such server."""
    left = [
        LeftOut(name, store, why)
        for store, why in found.missing.items()
        if store != "redis"
        for name in chosen
        if STRATEGIES[name].stores != ("redis",)
    ]
    if found.redis is None:
        alone = [name for name in chosen if STRATEGIES[name].stores == ("redis",)]
        left += [LeftOut(name, "redis", _no_redis(found)) for name in alone]
    return left


def _curves(found: Places, quick: bool, tell: Tell) -> dict[str, Any]:  # as the report reads them
    """Of Holdfast on the first server, else on the file."""
    from holdfast.lab.contest.scaling import measure

    servers = [url for url in found.stores if url.startswith(CURVES)]
    store = (servers or list(found.stores))[0]
    return dict(asyncio.run(measure(store, tell, quick)))


@contextmanager
def _stoppable() -> Iterator[None]:
    """Whoever is told to stop stops his servers first, also when it was not by Ctrl-C."""
    before = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _telling() -> Iterator[tuple[Tell, Callable[[Progress], None]]]:
    """What is going on, live, for a person who waits; elsewhere nothing."""
    if not sys.stderr.isatty():
        yield (lambda _: None), (lambda _: None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        MofNCompleteColumn(),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[doing]}"),
    )
    bar = Bar(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task("", total=None, doing="")

    def on_progress(now: Progress) -> None:
        bar.update(task, completed=now.done, total=now.total, doing=now.doing)
        if now.last is not None:
            bar.console.print(_line(now.last), markup=False, highlight=False)

    with bar:
        yield (lambda doing: bar.update(task, doing=doing)), on_progress


def _line(last: Result) -> str:
    oversold = f", {last.oversold:,} OVERSOLD" if last.oversold else ""
    return f"{last}: {last.per_second:,.0f}/s, p99 {last.p99_ms:,.0f} ms{oversold}"


COLUMNS = ("strategy", "store", "sold", "oversold", "per s", "p99 ms", "retries", "queue")
WIDE = (*COLUMNS, "statements", "p50 ms", "gave up")
WIDE_CHARS = 110
"""On a narrower terminal the last columns are left out: all that is counted is in the JSON."""


def _print(result: dict[str, Any], comparison: Comparison, html: Path | None) -> None:
    narrow = on_terminal() and shutil.get_terminal_size().columns < WIDE_CHARS
    columns = COLUMNS if narrow else WIDE
    machine, versions = result["machine"], result["versions"]
    say(f"{machine['cpus']} x {machine['model']}, {machine['memory_gb']} GB, {machine['system']}")
    say(", ".join(f"{name} {version}" for name, version in versions.items()))
    for scenario in comparison.plan.scenarios:
        rows = [_row(each) for each in comparison.results if each.scenario == scenario.name]
        if rows:
            say()
            say(f"{scenario.name}: {scenario.title} ({_size(scenario)})", "bold")
            print_table(columns, [row[: len(columns)] for row in rows])
    if comparison.left_out:
        say()
        say("Left out", "bold")
    for left in comparison.left_out:
        say(f"  {left.strategy} on {left.store}: {left.why}")
    say()
    say(
        "x1, x4: through so many processes. per s are answers, yes or no, to 1,000 buyers at most "
        "who wait at a time. queue is the most that waited for a lock at one moment. redis-lua "
        "keeps its sales in memory; all others are on the disk before anybody hears of them."
    )
    if result["quick"]:
        say("This was a trial: too short to be a figure.")
    if html is not None:
        say(f"The report is in {html}")


def _size(scenario: Scenario) -> str:
    units = "units in a pool" if scenario.pool else "seats"
    return (
        f"{scenario.buyers:,} buyers, {scenario.units:,} {units if scenario.units > 1 else 'seat'}"
    )


def _row(each: Result) -> list[str | int]:
    return [
        each.strategy,
        f"{each.store} x{each.processes}",
        each.sold,
        each.oversold,
        round(each.per_second),
        _ms(each.p99_ms),
        each.retries,
        "-" if each.lock_queue is None else str(each.lock_queue),
        each.statements,
        _ms(each.p50_ms),
        each.gave_up,
    ]


def _ms(time_ms: float) -> str:
    return f"{time_ms:,.0f}" if time_ms >= 10 else f"{time_ms:.1f}"


def _ended(comparison: Comparison) -> int:
    for text, times in comparison.troubles.items():
        complain(f"{times:,} buyers: {text}")
    wrong = at_fault(comparison.results)
    for each in wrong:
        complain(f"{each}: {'; '.join(each.faults)}")
    if any(each.oversells for each in wrong):
        return DRIFT
    return REFUSED if wrong else 0
