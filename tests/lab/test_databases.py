"""Connections of the lab's own."""

import asyncio
import contextlib
import gc
from typing import Any

import pytest

from holdfast.lab.contest.databases import PostgresLine


@pytest.mark.service
async def test_whoever_stops_while_a_connection_is_made_leaves_nothing_that_complains(postgres):
    complaints: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, what: complaints.append(what))
    try:
        for turns in range(1, 40):
            opening = asyncio.create_task(PostgresLine.open(postgres.url))
            for _ in range(turns):
                await asyncio.sleep(0)
            opening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                line = await opening
                await line.close()
        gc.collect()
    finally:
        loop.set_exception_handler(None)
    assert complaints == []
