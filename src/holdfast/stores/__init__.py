"""The authorities. Each runs the same batches; it adds only how rows are read and written."""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from holdfast.domain.batch import Batch, Fetch, Moved
from holdfast.domain.model import Millis
from holdfast.domain.outcomes import Answer
from holdfast.errors import StoreBusy

Clock = Callable[[], Millis]


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
