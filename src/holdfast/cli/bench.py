"""holdfast bench: what this machine can do."""

import shutil
import sys
import tempfile
from itertools import groupby, pairwise
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperCommand

from holdfast.cli.shared import complain, print_json, print_table, say
from holdfast.errors import SettingsError
from holdfast.lab.bench import benchmarks, rivals, runs
from holdfast.lab.bench.bench import ROUNDS, measurements
from holdfast.lab.bench.figures import GROUPS, MEASUREMENTS, Spread, known, shown
from holdfast.lab.bench.grounds import RIVALS, Addresses, Session, everything
from holdfast.lab.bench.runs import Change, Measured, Run
from holdfast.lab.machine import machine
from holdfast.settings import Settings
from holdfast.wiring import make_store

QUICK = 0.05
OURS = ""
"""Instead of a file: the one that is ours."""

NAMES = f"{', '.join(MEASUREMENTS)}; or a group: {', '.join(GROUPS)}"
StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="sqlite:///shop.db, postgresql://... or mysql://... Without it, files of its own: "
        "HOLDFAST_STORE and holdfast.toml do not count here.",
    ),
]


class BenchCommand(TyperCommand):
    """`--save` and `--compare` may stand without a file, which typer has no word for."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]  # click's own context, which typer does not export
        given = []
        for word, following in pairwise([*args, "-"]):
            alone = word in ("--save", "--compare") and following.startswith("-")
            given.append(f"{word}={OURS}" if alone else word)
        return super().parse_args(ctx, given)


def bench(
    store: StoreOption = None,
    gate: Annotated[
        str | None, typer.Option("--gate", metavar="URL", help="A gate to measure: redis://...")
    ] = None,
    broker: Annotated[
        str | None,
        typer.Option("--broker", metavar="URL", help="A broker to relay to: kafka://..., nats://"),
    ] = None,
    servers: Annotated[
        bool,
        typer.Option(
            "--servers",
            help="Start private servers from the installed binaries (PostgreSQL, MariaDB, Redis) "
            "and measure every group that can be.",
        ),
    ] = False,
    with_rivals: Annotated[
        bool,
        typer.Option(
            "--rivals",
            help="Other libraries too: fetched with pip into an environment that is thrown away.",
        ),
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help=f"May be repeated: {NAMES}.")
    ] = None,
    rounds: Annotated[
        int, typer.Option(min=1, max=50, help="Rounds of each measurement, after a warm-up.")
    ] = ROUNDS,
    save: Annotated[
        str | None,
        typer.Option(
            metavar="[FILE]",
            help="Keep this run: in the file, else in a new one under "
            "$XDG_STATE_HOME/holdfast/bench (~/.local/state/holdfast/bench).",
        ),
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option(
            metavar="[FILE]",
            help="Against the run in the file, else against the last that was saved and has any of "
            "these figures.",
        ),
    ] = None,
    write: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.md",
            help="Write a page of this run, and its JSON beside it. Neither a quick run nor a part "
            "of the figures is written without --force.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write the page all the same.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="A twentieth of the work: a trial, not a figure.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Measure this machine: group commit against batches of one or against one transaction for
    each hold, refusals, several processes, best available; with --servers all that Holdfast claims.

    Each figure is the median of several rounds after a warm-up, with its spread; the two sides of a
    ratio are measured in turns. Without a store on SQLite files, in a folder that is removed
    afterwards. On a database server it makes new events, and leaves them. For baskets, the
    comparison with one transaction for each hold, it makes and drops two tables
    holdfast_baseline_*, and needs the right to. Takes about three minutes, with --servers half an
    hour.

    Example: holdfast bench --save, and after a change: holdfast bench --compare
    """
    if servers and (store or gate):
        raise SettingsError("--servers starts servers of its own: leave --store and --gate out")
    if with_rivals and not servers and not (store or "").startswith("postgres"):
        raise SettingsError("--rivals needs PostgreSQL: --servers, or --store postgresql://...")
    names = _names(only) if only else _unnamed(servers, with_rivals, store, gate, broker)
    if only and with_rivals:
        names = _names([*only, "rivals"])
    if store:
        make_store(Settings(store=store))  # a wrong address is told before anything is measured
    was = _earlier(compare, quick, names)
    run = _measured(Addresses(store, gate, broker), servers, names, rounds, quick)
    if was is not None:
        run.compared = runs.compare(was, run)
    if as_json:
        print_json(run)
    else:
        _print(run)
    if save is not None:
        kept = runs.save(run, Path(save) if save else None)
        _note(f"saved as {kept}")
    if write is not None:
        _write(run, write, force or (servers and not only and not quick))


def _names(only: list[str]) -> list[str]:
    try:
        return known(only)
    except KeyError as unknown:
        raise SettingsError(f"unknown measurement {unknown.args[0]!r}: one of {NAMES}") from None


def _unnamed(
    servers: bool, with_rivals: bool, store: str | None, gate: str | None, broker: str | None
) -> list[str]:
    if servers:
        return everything(with_rivals)
    return [*measurements(store, gate, broker), *(RIVALS if with_rivals else ())]


def _earlier(compare: str | None, quick: bool, names: list[str]) -> Run | None:
    """Looked for first: else it would be missed when all is measured."""
    if compare is None:
        return None
    return runs.read(Path(compare)) if compare else runs.last(quick, set(names))


def _measured(
    addresses: Addresses, servers: bool, names: list[str], rounds: int, quick: bool
) -> Run:
    # In the working directory: a temporary folder in memory would make every flush look free.
    folder = Path(tempfile.mkdtemp(prefix=".holdfast-bench-", dir=Path.cwd()))
    date, watch = runs.now(), runs.Watch()
    session = Session(folder, _say, QUICK if quick else 1.0, rounds)
    try:
        if servers:
            session.run_on_servers(names, addresses.broker)
        else:
            session.run_at(addresses, names)
    finally:
        _hush()
        shutil.rmtree(folder, ignore_errors=True)
    beaten = [
        rivals.summary(each.notes, {name: value.median for name, value in each.figures.items()})
        for each in session.measured
        if each.group == "rivals"
    ]
    return Run(
        *(date, quick, rounds, machine(), {**runs.versions(), **session.versions}),
        *(watch.load(), sorted(session.measured, key=_place), session.left_out, beaten),
    )


def _place(measured: Measured) -> int:
    """In the list of all; of the same, the ground that was measured first stays first."""
    return list(MEASUREMENTS).index(measured.measurement)


def _write(run: Run, file: Path, whole: bool) -> None:
    if whole:
        benchmarks.write(run, file)
        _note(f"wrote {file}")
    else:
        what = "a quick run is a trial" if run.quick else "these are not all figures"
        _note(f"{file} was not written: {what} (--force writes it)")


def _say(doing: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{doing} ...", end="", file=sys.stderr, flush=True)


def _hush() -> None:
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)


def _note(line: str) -> None:
    """Beside what was asked for, so that --json stays one object."""
    print(line, file=sys.stderr)


def _print(run: Run) -> None:
    changes = {} if run.compared is None else _by_figure(run.compared.changes)
    for group, all_measured in groupby(run.measured, key=lambda each: each.group):
        say(f"{group}: {GROUPS[group]}")
        for measured in all_measured:
            say()
            _print_measured(measured, changes, run.quick)
        say()
    for left in run.left_out:
        say(f"left out: {left.measurement} on {left.store}: {left.why}")
    load = run.load
    say(
        f"rounds: {run.rounds}; load average {load.before} before, {load.after} after, which is "
        f"for the greater part this run; {load.stolen_percent} % of processor time stolen"
    )
    if run.quick:
        say("a quick run: a trial, not a figure")
    if run.compared is not None:
        _print_comparison(run)
    if load.busy:
        complain(f"the machine was busy, so these figures are too low: {benchmarks.busy(run)}")


def _print_measured(
    measured: Measured, changes: dict[tuple[str, str, str], Change], quick: bool
) -> None:
    about = MEASUREMENTS[measured.measurement]
    say(f"{measured.measurement} on {measured.store}: {about.about}")
    columns = ["figure", "median", "least to most"]
    columns += ["was", "ratio", "verdict"] if changes else ["claimed"]
    rows = []
    for name, spread in measured.figures.items():
        figure = about.figures[name]
        row = [name, shown(spread.median, figure.unit), _range(spread)]
        if changes:
            change = changes.get((measured.measurement, measured.store, name))
            row += _compared(change, figure.unit)
        else:
            target = figure.target(measured.store)
            row.append(
                ""
                if target is None
                else benchmarks.claim(figure, spread.median, target, quick).replace("*", "")
            )
        rows.append(row)
    print_table(columns, rows)
    if notes := {name: value for name, value in measured.notes.items() if value != ""}:
        say(", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in notes.items()))


def _compared(change: Change | None, unit: str) -> list[str]:
    if change is None:
        return ["", "", "new"]
    return [shown(change.was.median, unit), f"{change.ratio:.2f}", change.verdict]


def _by_figure(changes: list[Change]) -> dict[tuple[str, str, str], Change]:
    return {(each.measurement, each.store, each.figure): each for each in changes}


def _print_comparison(run: Run) -> None:
    assert run.compared is not None
    compared = run.compared
    counts = {
        word: sum(each.verdict == word for each in compared.changes)
        for word in ("faster", "slower", "within noise", "one round")
    }
    told = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    say(f"against the run of {compared.date}: {told or 'nothing in common'}")
    say(
        "faster and slower: by more than both runs' spreads together; the rest is noise, whatever "
        "its ratio"
    )
    if not compared.same_machine:
        complain("the other run was on another machine or of another length")
    if compared.busy:
        complain("the machine was busy in one of the two runs: ratios say little")


def _range(spread: Spread) -> str:
    return f"{shown(spread.min, '')} to {shown(spread.max, '')}"
