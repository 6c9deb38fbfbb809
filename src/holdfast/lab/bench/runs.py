"""A run of the bench: what was measured, on which machine, and how it compares with another run."""

import contextlib
import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec

import holdfast
from holdfast.errors import SettingsError
from holdfast.lab.bench.figures import MEASUREMENTS, Better, Result, Spread, summed_up

BUSY_SHARE = 0.25
"""A load average above so much of each processor means that others are at work."""
STOLEN_PERCENT = 2.0
RUNS_KEPT = 200


class Load(msgspec.Struct):
    """How quiet the machine was. The load after a run is for the greater part the run's own."""

    before: float
    after: float
    stolen_percent: float
    """Of the processors' time, taken by other guests of the same host."""
    busy: bool


class Measured(msgspec.Struct):
    measurement: str
    group: str
    store: str
    figures: dict[str, Spread]
    notes: Result


class LeftOut(msgspec.Struct):
    measurement: str
    store: str
    why: str


class Change(msgspec.Struct):
    """A figure against the same of another run."""

    measurement: str
    store: str
    figure: str
    was: Spread
    now: Spread
    ratio: float
    verdict: str


class Compared(msgspec.Struct):
    date: str
    same_machine: bool
    busy: bool
    """In either of the two runs."""
    changes: list[Change]


class Run(msgspec.Struct, omit_defaults=True):
    date: str
    quick: bool
    rounds: int
    machine: dict[str, Any]
    versions: dict[str, str]
    load: Load
    measured: list[Measured]
    left_out: list[LeftOut]
    rivals: list[Result] = []
    compared: Compared | None = None


def measured(name: str, store: str, rounds: list[Result]) -> Measured:
    figures, notes = summed_up(name, rounds)
    return Measured(name, MEASUREMENTS[name].group, store, figures, notes)


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# The machine


def versions() -> dict[str, str]:
    """Of what every run uses; servers tell their own."""
    # apsw is numbered as the SQLite that it carries, and one more.
    sqlite = metadata.version("apsw").rpartition(".")[0]
    return {"holdfast": holdfast.__version__, "SQLite": sqlite}


class Watch:
    """Notes how quiet the machine is, from its making to `load`."""

    def __init__(self) -> None:
        self._before = os.getloadavg()[0]
        self._times = _processor_times()

    def load(self) -> Load:
        stolen, total = (
            later - earlier for later, earlier in zip(_processor_times(), self._times, strict=True)
        )
        percent = 100 * stolen / total if total else 0.0
        busy = self._before > BUSY_SHARE * (os.cpu_count() or 1) or percent > STOLEN_PERCENT
        after = os.getloadavg()[0]
        return Load(round(self._before, 2), round(after, 2), round(percent, 1), busy)


def _processor_times() -> tuple[int, int]:
    """Stolen, and all, since the machine started; nothing where it does not tell."""
    with contextlib.suppress(OSError), open("/proc/stat", encoding="ascii") as lines:
        times = [int(word) for word in lines.readline().split()[1:9]]
        return times[7], sum(times)
    return 0, 0


# Runs that were kept


def folder() -> Path:
    """Figures belong to the machine, so they are kept with the user's state on it."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "holdfast" / "bench"


def save(run: Run, file: Path | None) -> Path:
    """Where it was kept: in that file, or in one of its own in our folder."""
    if file is None:
        file = folder() / f"{run.date.replace(':', '')}{'-quick' if run.quick else ''}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        for old in _kept()[RUNS_KEPT - 1 :]:
            old.unlink(missing_ok=True)
    file.write_text(text(run), encoding="utf-8")
    return file


def text(run: Run) -> str:
    """For a file: people read it too, and compare versions of it."""
    return json.dumps(msgspec.to_builtins(run), indent=1, ensure_ascii=False) + "\n"


def read(file: Path) -> Run:
    """Raises SettingsError."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=Run)
    except OSError as trouble:
        raise SettingsError(f"{file}: {trouble.strerror}") from trouble
    except msgspec.MsgspecError as trouble:
        raise SettingsError(f"{file} is no run of holdfast bench") from trouble


def last(quick: bool, names: set[str]) -> Run:
    """The last that was kept and measured any of these, in the same length. Raises
    SettingsError."""
    for run in _readable():
        if run.quick is quick and names & {each.measurement for each in run.measured}:
            return run
    kind = "quick run" if quick else "run"
    raise SettingsError(f"no {kind} with any of these figures was saved yet: use --save first")


def _readable() -> Iterator[Run]:
    for file in _kept():
        with contextlib.suppress(SettingsError):
            yield read(file)


def _kept() -> list[Path]:
    """The newest first: their names begin with the date."""
    return sorted(folder().glob("*.json"), reverse=True)


# Comparison


def compare(was: Run, run: Run) -> Compared:
    before = {(each.measurement, each.store): each.figures for each in was.measured}
    changes = [
        Change(
            *(each.measurement, each.store, name, old, new, _ratio(old, new)),
            verdict(MEASUREMENTS[each.measurement].figures[name].better, old, new),
        )
        for each in run.measured
        for name, new in each.figures.items()
        if (old := before.get((each.measurement, each.store), {}).get(name)) is not None
    ]
    same = (was.machine, was.quick) == (run.machine, run.quick)
    return Compared(was.date, same, was.load.busy or run.load.busy, changes)


def verdict(better: Better, was: Spread, now: Spread) -> str:
    """Faster or slower only where the medians are further apart than both spreads together are
    wide. A single round has no spread to judge by."""
    if min(was.rounds, now.rounds) < 2:
        return "one round"
    difference = now.median - was.median
    if abs(difference) <= was.width + now.width:
        return "within noise"
    return "faster" if (difference > 0) is (better is Better.MORE) else "slower"


def _ratio(was: Spread, now: Spread) -> float:
    if not was.median:
        return 1.0 if not now.median else 0.0
    return round(now.median / was.median, 3)
