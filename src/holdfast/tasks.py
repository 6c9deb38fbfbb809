"""Tasks that go on in the background until somebody ends them."""

import asyncio
from typing import Any


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
