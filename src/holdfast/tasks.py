"""Tasks that go on in the background until somebody ends them, or serve many at once."""

import asyncio
from collections.abc import Sized
from typing import Any

GATHER_SECONDS_MAX = 0.005


async def end_task(task: "asyncio.Task[Any] | None") -> None:
    """Cancels it, and returns when it has ended; where there is none, nothing."""
    if task is None:
        return
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        # It was not the task that ended, but whoever waits for it is to end too.
        current = asyncio.current_task()
        if current is not None and current.cancelling():
            raise


async def gather_crowd(waiting: Sized, most: int) -> None:
    """Returns when a turn of the event loop has brought nobody new, or there are so many: whoever
    serves many at once begins better when the crowd has come in. One alone is no crowd, and goes
    straight on; one that never ends is waited for GATHER_SECONDS_MAX."""
    loop, seen = asyncio.get_running_loop(), 1
    ends = loop.time() + GATHER_SECONDS_MAX
    while seen < (seen := len(waiting)) < most and loop.time() < ends:  # noqa: ASYNC110  # turns count
        await asyncio.sleep(0)
