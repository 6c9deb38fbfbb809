"""The processes that buyers come through: started once, and given one order after the other."""

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from itertools import pairwise
from typing import Self

import msgspec

from holdfast.errors import HoldfastError
from holdfast.lab.contest.buyers import Failure, Order
from holdfast.lab.contest.field import Counters

LINE_BYTES_MAX = 64 * 1024 * 1024
"""Counters of a million buyers."""
READY = b"ready\n"


class Crew:
    def __init__(self, processes: int) -> None:
        self._count = processes
        self._processes: list[Process] = []

    async def __aenter__(self) -> Self:
        try:
            for _ in range(self._count):
                self._processes.append(await _start())
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        for process in self._processes:
            if process.returncode is None:
                process.kill()
        for process in self._processes:
            await process.wait()

    async def run(self, orders: Sequence[Order]) -> list[Counters]:
        """One order for each process, the first ones; they begin when all of them are ready.
        Whatever ends it early ends the processes at once: they would go on buying, and whoever
        drops the tables would wait for them."""
        try:
            return await self._run(orders)
        except BaseException:
            await self.close()
            raise

    async def _run(self, orders: Sequence[Order]) -> list[Counters]:
        used = self._processes[: len(orders)]
        for process, order in zip(used, orders, strict=True):
            # Through the pipe: a password in an address must not show in the list of processes.
            await _send(process, msgspec.json.encode(order) + b"\n")
        for process in used:
            if (said := await _hear(process)) != READY:
                raise _failed(said)
        for process in used:
            await _send(process, b"go\n")
        return [_counters(await _hear(process)) for process in used]


async def _start() -> Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast.lab.contest.buyers"),
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        limit=LINE_BYTES_MAX,
        # Ctrl-C is for whoever leads; he ends the others.
        start_new_session=True,
    )


async def _send(process: Process, line: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(line)
    await process.stdin.drain()


async def _hear(process: Process) -> bytes:
    assert process.stdout is not None
    return await process.stdout.readline()


def _counters(line: bytes) -> Counters:
    if not line or b'"type":"Failure"' in line[:20]:
        raise _failed(line)
    return msgspec.json.decode(line, type=Counters)


def _failed(line: bytes) -> HoldfastError:
    text = msgspec.json.decode(line, type=Failure).text if line else "it ended without a word"
    return HoldfastError(f"a process of the lab failed: {text}")


def shares(buyers: int, processes: int) -> list[range]:
    """The buyers' numbers, cut into as many parts; no number is in two."""
    cuts = [buyers * nth // processes for nth in range(processes + 1)]
    return [range(start, stop) for start, stop in pairwise(cuts)]
