"""The authorities. Each runs the same batches; it adds only how rows are read and written."""

import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from holdfast.domain.batch import Batch, Fetch, Moved
from holdfast.domain.model import Millis
from holdfast.domain.outcomes import Answer
from holdfast.errors import StoreBusy

T = TypeVar("T")

Clock = Callable[[], Millis]

TRIES_MAX = 5
"""Of a small write of its own, which no lane would run again."""


def host_clock() -> Millis:
    """An embedded authority lives in this process: its clock is the host's."""
    return time.time_ns() // 1_000_000


def drive(batch: Batch, fetch: Callable[[Fetch], Sequence[Any]]) -> list[Answer]:
    """Runs a batch to its end with a store that answers at once."""
    try:
        want = next(batch)
        while True:
            want = batch.send(fetch(want))
    except StopIteration as done:
        answers: list[Answer] = done.value
        return answers
    except Moved as moved:
        raise StoreBusy(str(moved)) from moved


async def drive_async(
    batch: Batch, fetch: Callable[[Fetch], Awaitable[Sequence[Any]]]
) -> list[Answer]:
    """Runs a batch to its end with a store that has to be awaited."""
    try:
        want = next(batch)
        while True:
            want = batch.send(await fetch(want))
    except StopIteration as done:
        answers: list[Answer] = done.value
        return answers
    except Moved as moved:
        raise StoreBusy(str(moved)) from moved


async def persist(write: Callable[[], Awaitable[T]]) -> T:
    """Runs a small write again while it surely changed nothing: a deadlock, a connection that was
    lost before the commit."""
    for _ in range(TRIES_MAX - 1):
        with contextlib.suppress(StoreBusy):
            return await write()
    return await write()
