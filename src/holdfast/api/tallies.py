"""What the workers of a deployment have counted, added up: a scrape meets only one of them.

Every worker writes a file of its own: each second, when it is scraped, and at its end. The one that
is scraped shows the sum of the files, never a number that is not on file, so what was shown once
outlives its worker and no counter goes back. Of the others it is a second old at most.

When a worker has ended, however it ended, the supervisor adds its file to that of the dead. What
stood there is then gone, what was counted stays.
"""

import contextlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import msgspec

FOLDER = "HOLDFAST_METRICS_DIR"
"""The variable that tells a worker where."""
IN_MEMORY = "/dev/shm"
DEAD = "dead"
ENDED_MAX = 100

Key = tuple[str, tuple[str, ...]]
"""A metric's name and the values of its labels."""


class Tally(msgspec.Struct):
    counted: list[tuple[str, tuple[str, ...], list[float]]] = []
    """Only ever grows: one number, or those of a histogram."""
    standing: list[tuple[str, tuple[str, ...], float]] = []
    """How things stand in this process."""
    workers: int = 1
    """How many have counted this."""
    ended: list[str] = []
    """Files that were added to this one: whoever has read one of them too must not count it."""


class Tallies:
    """A folder of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._name = f"{os.getpid()}-{secrets.token_hex(4)}"

    @classmethod
    def make(cls) -> Self:
        """In memory where the machine has such a folder: nobody waits for a disk because of it."""
        place = IN_MEMORY if os.access(IN_MEMORY, os.W_OK | os.X_OK) else None
        return cls(Path(tempfile.mkdtemp(prefix="holdfast-", dir=place)))

    @classmethod
    def of_worker(cls, environ: Mapping[str, str]) -> Self | None:
        return cls(Path(environ[FOLDER])) if environ.get(FOLDER) else None

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def write(self, tally: Tally, name: str | None = None) -> None:
        """In place of what this process wrote last, whole or not at all."""
        path = self.folder / f"{name or self._name}.json"
        new = path.with_suffix(".new")
        new.write_bytes(msgspec.json.encode(tally))
        new.replace(path)

    def read(self) -> tuple[list[Tally], Tally]:
        """Those of the living, and that of the dead, which is read last: a file that goes away
        meanwhile is in it."""
        living = {}
        for path in self.folder.glob("*-*.json"):
            with contextlib.suppress(FileNotFoundError):
                living[path.stem] = _read(path)
        dead = self._dead()
        return [tally for name, tally in living.items() if name not in dead.ended], dead

    def bury(self, pid: int) -> None:
        """The process has ended. Only the supervisor does this."""
        for path in self.folder.glob(f"{pid}-*.json"):
            dead = self._dead()
            tally = _read(path)
            sums: dict[Key, list[float]] = {}
            add(sums, dead)
            add(sums, tally)
            counted = [(name, labels, values) for (name, labels), values in sums.items()]
            ended = [*dead.ended, path.stem][-ENDED_MAX:]
            self.write(Tally(counted, [], dead.workers + tally.workers, ended), DEAD)
            path.unlink()

    def _dead(self) -> Tally:
        try:
            return _read(self.folder / f"{DEAD}.json")
        except FileNotFoundError:
            return Tally(workers=0)


def add(sums: dict[Key, list[float]], tally: Tally) -> None:
    for name, labels, values in tally.counted:
        known = sums.get((name, labels))
        if known is None:
            sums[name, labels] = values
        elif len(known) == len(values):  # else a worker of another version, with other buckets
            sums[name, labels] = [a + b for a, b in zip(known, values, strict=True)]


def _read(path: Path) -> Tally:
    return msgspec.json.decode(path.read_bytes(), type=Tally)
