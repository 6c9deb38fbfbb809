"""Writes docs/benchmarks.md from a run of the bench, word for word: `make bench`.

`python -m holdfast.lab.bench.benchmarks docs/benchmarks.json` prints the page of a run that was
kept.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from holdfast.errors import SettingsError
from holdfast.lab.bench.figures import GROUPS, MEASUREMENTS, Better, Figure, Spread, shown
from holdfast.lab.bench.runs import LeftOut, Measured, Run, read, text

HEAD = """\
# Benchmarks

<!-- Written by `make bench` from benchmarks.json, which is beside it. Not by hand. -->
"""
HOW = """\
Each figure is the median of {rounds} rounds after a warm-up, with the least and the most beside
it. The sides of a ratio were measured in turns, and the ratio is that of each round. Load
generators, servers and Holdfast share the machine. `holdfast bench --servers` repeats it on yours:
[how](bench.md).
"""
QUICK = """
**A trial: a twentieth of the work. These are no figures.**
"""
BUSY = """
**The machine was not quiet:** {why}. Ratios may stand; the rest is too low.
"""
RIVALS = """\
How it was driven: neveroversell blocks, and each of its calls is one SQL function in a transaction
of its own, so its callers are threads of one process over the connection pool that it documents
(`Inventory(pool=...)`), opened before the clock starts, in autocommit, with as many connections as
suited it best of 2 to 32. Holdfast's callers are tasks of one process. Both hold every unit of a
new resource one by one, on the same PostgreSQL with the same settings, in turns. The rival is
installed from PyPI into an environment that is thrown away.

Granian, too. It is no rival for seats but a server of HTTP, the one that Holdfast's own has
replaced: the handler that does nothing, on both, tells what holds over HTTP could be at best.
"""
NOT_NOTED = ("rival", "shares")
"""Said elsewhere, or of the last round only."""


def page(run: Run) -> str:
    return "\n".join([HEAD, *_introduction(run), *_groups(run), *_left_out(run.left_out)])


def write(run: Run, file: Path) -> None:
    """The page, and the run it was made from beside it."""
    file.with_suffix(".json").write_text(text(run), encoding="utf-8")
    file.write_text(page(run), encoding="utf-8")


def _introduction(run: Run) -> Iterator[str]:
    machine = run.machine
    versions = ", ".join(f"{name} {number}" for name, number in run.versions.items())
    yield (
        f"Measured on {run.date[:10]} at {run.date[11:16]} UTC: {machine['cpus']} processors "
        f"({machine['model']}), {machine['memory_gb']} GB, {machine['system']}, "
        f"Python {machine['python']}, {versions}. Load average {run.load.before} before and "
        f"{run.load.after} after; {run.load.stolen_percent} % of the processors' time went to "
        "other guests of the host.\n"
    )
    yield HOW.format(rounds=run.rounds)
    if run.quick:
        yield QUICK.lstrip("\n")
    if run.load.busy:
        yield BUSY.lstrip("\n").format(why=busy(run))


def busy(run: Run) -> str:
    """Why the machine was not quiet."""
    cpus = run.machine["cpus"]
    return (
        f"a load average of {run.load.before} on {cpus} processors when it began, and "
        f"{run.load.stolen_percent} % of their time stolen"
    )


def _groups(run: Run) -> Iterator[str]:
    for group, about in GROUPS.items():
        names = [name for name, each in MEASUREMENTS.items() if each.group == group]
        found = {
            name: [each for each in run.measured if each.measurement == name] for name in names
        }
        if not any(found.values()):
            continue
        yield f"## {group.capitalize()}\n\n{about}\n"
        if group == "rivals":
            yield RIVALS
        for name, measured in found.items():
            if measured:
                yield from _measurement(name, measured, run.quick)


def _measurement(name: str, measured: list[Measured], quick: bool) -> Iterator[str]:
    yield f"### `{name}`\n\n{MEASUREMENTS[name].about}\n"
    rows = [
        _row(MEASUREMENTS[name].figures[figure], each, spread, quick)
        for each in measured
        for figure, spread in each.figures.items()
        if figure in MEASUREMENTS[name].figures
    ]
    head = "| what | on | median | least to most | claimed |\n| --- | --- | ---: | ---: | --- |\n"
    yield head + "\n".join(rows) + "\n"
    for each in measured:
        if notes := _notes(each):
            yield f"On {each.store}, {notes}.\n"


def _row(figure: Figure, measured: Measured, spread: Spread, quick: bool) -> str:
    least = f"{shown(spread.min, '')} to {shown(spread.max, '')}"
    value = shown(spread.median, figure.unit)
    target = figure.target(measured.store)
    said = "" if target is None else claim(figure, spread.median, target, quick)
    return f"| {figure.means} | {measured.store} | {value} | {least} | {said} |"


def claim(figure: Figure, value: float, target: float, quick: bool) -> str:
    """What is claimed, and whether this run bears it out."""
    most = "at least" if figure.better is Better.MORE else "at most"
    said = f"{most} {shown(target, figure.unit)}"
    if quick:
        return said
    return said if figure.reaches(value, target) else f"{said}: **not reached**"


def _notes(measured: Measured) -> str:
    told = {key: value for key, value in measured.notes.items() if key not in NOT_NOTED}
    return ", ".join(
        f"{key.replace('_', ' ')}: {value:,}" if isinstance(value, int) else f"{key}: {value}"
        for key, value in told.items()
    )


def _left_out(left_out: list[LeftOut]) -> Iterator[str]:
    if left_out:
        yield "## Left out\n"
        lines = (f"- `{each.measurement}` on {each.store}: {each.why}" for each in left_out)
        yield "\n".join(lines) + "\n"


if __name__ == "__main__":
    try:
        print(page(read(Path(sys.argv[1]))), end="")
    except SettingsError as wrong:
        sys.exit(str(wrong))
