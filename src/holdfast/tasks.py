"""Tasks that go on in the background until somebody ends them."""

import asyncio
import contextlib
from typing import Any


async def end_task(task: "asyncio.Task[Any] | None") -> None:
    """Cancels it, and returns when it has ended; where there is none, nothing."""
    if task is not None:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
