"""Whose turn it is to write: processes queue on OS file locks before BEGIN IMMEDIATE.

SQLite's own busy handler sleeps and tries again, and under load one process may starve for
seconds. A blocked file lock is woken by the kernel instead. One lock alone is not fair: whoever
lets go is running and would take it again at once. So there are two, as at a counter with a
single waiting chair: one waits for the chair, then for the counter, then leaves the chair. Who
has just been served cannot be served again before the one in the chair.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Turn:
    def __init__(self, database: Path) -> None:
        self._chair = _open(database, "-chair")
        self._counter = _open(database, "-turn")

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Blocks until it is this process's turn. The kernel frees the locks of the dead."""
        fcntl.flock(self._chair, fcntl.LOCK_EX)
        try:
            fcntl.flock(self._counter, fcntl.LOCK_EX)
        finally:
            fcntl.flock(self._chair, fcntl.LOCK_UN)
        try:
            yield
        finally:
            fcntl.flock(self._counter, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._chair)
        os.close(self._counter)


def _open(database: Path, suffix: str) -> int:
    path = database.with_name(database.name + suffix)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
