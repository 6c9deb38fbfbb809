"""Short names for what gates are asked, and how tests look behind a gate's back."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from redis.asyncio import Redis

from holdfast.domain.gating import Claim, Kind, Op, Owned, Snapshot, Verdict
from holdfast.domain.model import FOREVER_MS
from holdfast.errors import GateDown
from holdfast.gates.redis import RedisGate
from holdfast.ports import Gate

E1 = "gala"
TIMEOUT_MS = 10_000
"""For a gate that is well, on a machine that is busy."""


def owned(id: str, *seats: str, buyer: str = "", **more: Any) -> Owned:
    """Of whatever fields the test cares about."""
    return Owned(id=id, buyer=buyer or f"buyer of {id}", seats=seats, **more)


def claim(id: str, *seats: str, cap: int | None = None, **more: Any) -> Claim:
    fields: dict[str, Any] = {"kind": Kind.CLAIM, "keep_ms": FOREVER_MS, **more}
    return Claim(owned(id, *seats, **fields), cap)


async def ask(gate: Gate, op: Op, version: int = 1, event: str = E1) -> Verdict:
    [verdict] = await gate.run(event, version, [op])
    return verdict


def owners(snapshot: Snapshot) -> dict[str, Owned]:
    return {kept.owned.id: kept.owned for kept in snapshot.owners}


@asynccontextmanager
async def opened(url: str, timeout_ms: int = TIMEOUT_MS) -> AsyncIterator[RedisGate]:
    gate = RedisGate(url, timeout_ms)
    await gate.open()
    try:
        yield gate
    finally:
        await gate.close()


@asynccontextmanager
async def session(url: str) -> AsyncIterator["Redis"]:
    """A connection beside the gate's own."""
    client = Redis.from_url(url)
    try:
        yield client
    finally:
        await client.aclose()


async def until(done: Callable[[], Awaitable[bool]], seconds: float = 20) -> None:
    """Returns when it is so; the gate may be down meanwhile."""
    limit = time.monotonic() + seconds
    while True:
        try:
            if await done():
                return
        except GateDown:
            pass
        assert time.monotonic() < limit, "it never came about"
        await asyncio.sleep(0.01)
