"""Whose turn it is to write: processes queue on OS file locks before BEGIN IMMEDIATE.

SQLite's own busy handler sleeps and tries again, and under load one process may starve for
seconds. A blocked file lock is woken by the kernel instead. But one lock alone is not fair: of
those who wait, anyone may get it, and whoever just let go is running and takes it again first
(measured with four processes: the luckiest wrote twice as much as the unluckiest). So the waiting
is done on a row of chairs before the counter, each a byte of the lock file: one takes a chair
before leaving the last, so nobody overtakes, and who was served sits down at the end of the row.
"""

import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CHAIRS = 8
"""More processes than this scramble for the last chair; those who sit are served in order."""

COUNTER = 0
_FLOCK = struct.Struct("@hhqqi4x")


class Turn:
    """One who queues. Threads that write need one each: the locks are those of an open file."""

    def __init__(self, database: Path) -> None:
        path = database.with_name(database.name + "-turn")
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Blocks until it is the caller's turn. The kernel frees the locks of the dead."""
        for place in range(CHAIRS, COUNTER - 1, -1):
            self._lock(place)
            if place < CHAIRS:
                self._unlock(place + 1)
        try:
            yield
        finally:
            self._unlock(COUNTER)

    def close(self) -> None:
        os.close(self._file)

    def _lock(self, place: int) -> None:
        _set_lock(self._file, fcntl.F_WRLCK, place)

    def _unlock(self, place: int) -> None:
        _set_lock(self._file, fcntl.F_UNLCK, place)


def _set_lock(file: int, kind: int, place: int) -> None:
    """Locks of the open file, not of the process: two writers in one process queue as well."""
    if hasattr(fcntl, "F_OFD_SETLKW"):
        fcntl.fcntl(file, fcntl.F_OFD_SETLKW, _FLOCK.pack(kind, os.SEEK_SET, place, 1, 0))
    elif place == COUNTER:
        # Only Linux locks single bytes of an open file. Elsewhere all wait at the counter itself:
        # just as safe, less fair.
        fcntl.flock(file, fcntl.LOCK_EX if kind == fcntl.F_WRLCK else fcntl.LOCK_UN)
