"""Other libraries that hold stock, each in a throw-away environment, driven through its public API
on the same server in the same run.

neveroversell (PyPI) blocks, and each of its calls is one SQL function in a transaction of its own,
so its callers are threads of one process over its own pool (`rival_neveroversell.py` says how it is
set up). Holdfast's are tasks of one process. Both hold every unit of one resource, one by one. More
callers than suit a side only wait longer, so there are two figures: as many callers on both sides,
the rival over as many connections as suit it best; and each with the callers that suit it best.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from holdfast.engine import Holdfast
from holdfast.errors import SettingsError
from holdfast.ids import Ids
from holdfast.lab.bench.figures import Result
from holdfast.lab.bench.holding import Pace, hold_pool

UNITS = 10_000
CALLERS = 100
CONNECTIONS = (2, 4, 8, 16, 32)
TASKS = (100, 250, 500, 1_000)
TRIAL = 0.1
"""Of the units, at most, with which what suits a side best is looked for."""
INSTALL_SECONDS = 300
DRIVER = Path(__file__).with_name("rival_neveroversell.py")

Say = Callable[[str], None]


class Neveroversell:
    """Installs it below the folder and starts its driver. Raises SettingsError where that cannot
    be done. Whoever has it calls `close`."""

    def __init__(self, store: str, folder: Path) -> None:
        self._store = store
        python = installed("neveroversell", folder)
        self.version = version_of("neveroversell", python)
        self._driver = subprocess.Popen(
            [str(python), str(DRIVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._best: tuple[int, int] | None = None
        """Connections that suit it best, and tasks that suit Holdfast best."""

    def close(self) -> None:
        assert self._driver.stdin is not None
        self._driver.stdin.close()
        self._driver.wait()

    async def measure(self, say: Say, share: float) -> Result:
        """One round, the two sides in turns."""
        units = max(1_000, int(UNITS * share))
        connections, tasks = await self._suiting(say, max(500, int(UNITS * min(share, TRIAL))))
        say(f"neveroversell and Holdfast, {CALLERS} callers each")
        theirs = await self._theirs(units, CALLERS, connections)
        ours = await self._ours(units, CALLERS)
        say("neveroversell and Holdfast, each at its best")
        their_best = await self._theirs(units, connections, connections)
        our_best = await self._ours(units, tasks)
        return {
            "holds_per_second": theirs.per_second,
            "p99_ms": theirs.p99_ms,
            "holdfast_holds_per_second": ours.per_second,
            "holdfast_p99_ms": ours.p99_ms,
            "ratio": ours.per_second / theirs.per_second,
            "p99_ratio": ours.p99_ms / theirs.p99_ms,
            "best_holds_per_second": their_best.per_second,
            "best_p99_ms": their_best.p99_ms,
            "holdfast_best_holds_per_second": our_best.per_second,
            "holdfast_best_p99_ms": our_best.p99_ms,
            "best_ratio": our_best.per_second / their_best.per_second,
            "rival": "neveroversell",
            "version": self.version,
            "units": units,
            "callers": CALLERS,
            "best_callers": connections,
            "holdfast_best_callers": tasks,
        }

    async def _suiting(self, say: Say, units: int) -> tuple[int, int]:
        """Looked for once, before the first round."""
        if self._best is None:
            say("the callers that suit neveroversell and Holdfast best are looked for")
            await self._theirs(units, 1, 1)
            theirs = {each: await self._theirs(units, each, each) for each in CONNECTIONS}
            ours = {each: await self._ours(2 * units, each) for each in TASKS}
            self._best = (
                max(theirs, key=lambda each: theirs[each].per_second),
                max(ours, key=lambda each: ours[each].per_second),
            )
        return self._best

    async def _theirs(self, units: int, callers: int, connections: int) -> Pace:
        sizes = {"units": units, "callers": callers, "connections": connections}
        told = await asyncio.to_thread(self._ask, {"url": self._store, **sizes})
        return Pace(units / told["seconds"], told["p50_ms"], told["p99_ms"])

    def _ask(self, asked: dict[str, str | int]) -> dict[str, float]:
        # Through the pipe: a password in the address must not show in the list of processes.
        assert self._driver.stdin is not None
        assert self._driver.stdout is not None
        try:
            self._driver.stdin.write(json.dumps(asked) + "\n")
            self._driver.stdin.flush()
            told: dict[str, float] = json.loads(self._driver.stdout.readline())
        except (BrokenPipeError, ValueError) as cause:
            raise SettingsError("neveroversell gave up; its own words are above") from cause
        return told

    async def _ours(self, units: int, tasks: int) -> Pace:
        async with Holdfast.open(self._store, upkeep=False) as shop:
            return await hold_pool(shop, f"bench-rival-{Ids().new()}", units, tasks)


def summary(notes: Result, medians: dict[str, float]) -> Result:
    """What is told of a rival in one line."""
    figures = (
        *("holds_per_second", "p99_ms", "holdfast_holds_per_second", "holdfast_p99_ms"),
        *("ratio", "best_ratio", "empty_per_second", "holdfast_empty_per_second", "empty_ratio"),
        *("holds_ratio", "holds_deaf_ratio"),
    )
    return {
        "rival": notes["rival"],
        "version": notes["version"],
        **{name: medians[name] for name in figures if name in medians},
    }


def installed(package: str, folder: Path, *more: str) -> Path:
    """A Python that has the package, and more, in an environment of its own below the folder."""
    home = folder / f"rival-{package}"
    python = home / "bin" / "python"
    pip = (str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    for command in ((sys.executable, "-m", "venv", str(home)), (*pip, package, *more)):
        try:
            subprocess.run(command, capture_output=True, timeout=INSTALL_SECONDS, check=True)
        except (OSError, subprocess.SubprocessError) as cause:
            # Not in pip's words: they name hosts and paths, and this may get into a document.
            raise SettingsError(f"{package} could not be installed with pip") from cause
    return python


def version_of(package: str, python: Path) -> str:
    ask = f"import importlib.metadata; print(importlib.metadata.version({package!r}))"
    told = subprocess.run([str(python), "-c", ask], capture_output=True, text=True, check=True)
    return told.stdout.strip()
