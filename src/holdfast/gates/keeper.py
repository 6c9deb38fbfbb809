"""The keeper stands between the shop and its gate: asks for many at once, and goes on without the
gate when it fails. A gate that is down, slow or emptied costs speed, never an answer.

What arrives while one call is under way forms the next, as in a lane. After a failure the gate is
passed by for a moment, then one call tries it; each failure makes the moment longer, up to a limit.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeVar

from holdfast.domain.gating import Op, Snapshot, Verdict
from holdfast.errors import GateBroken, GateDown
from holdfast.ports import Gate

OPS_MAX = 250
"""In one call: the gate does nothing else meanwhile."""
WAITING_MAX = 20_000
PAUSE_FIRST_SECONDS = 0.1
PAUSE_LAST_SECONDS = 2.0
PROBED = "-"
"""No event has this id."""

T = TypeVar("T")

log = logging.getLogger("holdfast.gate")

Waiting = tuple[int, Op, "asyncio.Future[Verdict | None] | None"]


class Keeper:
    def __init__(self, gate: Gate, timeout_seconds: float) -> None:
        self.gate = gate
        self._timeout_seconds = timeout_seconds
        self._turns: dict[str, deque[Waiting]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._down = ""
        self._closed_until = 0.0
        self._pause_seconds = PAUSE_FIRST_SECONDS
        self._trying = False
        self.failures = 0
        self.passed_by = 0
        """Asks that went on without the gate."""
        self.recovered: Callable[[], None] = lambda: None
        """Told when the gate answers again: what it has is old by then."""
        self.failed: Callable[[], None] = lambda: None
        self._broken: set[str] = set()

    @property
    def state(self) -> str:
        """For people: "up", or why it is passed by."""
        return self._down or "up"

    async def ask(self, event: str, version: int, op: Op) -> Verdict | None:
        """The gate's verdict, or None: go on without."""
        if not self._may_try() or self._waiting(event) >= WAITING_MAX:
            self.passed_by += 1
            return None
        answer: asyncio.Future[Verdict | None] = asyncio.get_running_loop().create_future()
        self._queue(event, (version, op, answer))
        return await answer

    def tell(self, event: str, version: int, op: Op) -> None:
        """Something the gate should know. If it gets lost, a reconciliation finds it."""
        if self._may_try() and self._waiting(event) < WAITING_MAX:
            self._queue(event, (version, op, None))

    async def snapshot(self, event: str, patience: float = 1.0) -> Snapshot | None:
        """Within so many times the time that a verdict may take."""
        if not self._may_try():
            return None
        try:
            limit = patience * self._timeout_seconds
            return await self._guarded(self.gate.snapshot(event), limit)
        except GateDown:
            return None

    async def probe(self) -> None:
        """Asks for something small, to see whether it answers."""
        await self.snapshot(PROBED)

    async def settled(self) -> None:
        """Until everything told so far has been done, or given up."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _waiting(self, event: str) -> int:
        return len(self._turns.get(event, ()))

    def _queue(self, event: str, waiting: Waiting) -> None:
        turn = self._turns.get(event)
        if turn is not None:
            turn.append(waiting)
            return
        self._turns[event] = deque([waiting])
        task = asyncio.get_running_loop().create_task(self._run(event))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, event: str) -> None:
        turn = self._turns[event]
        try:
            while turn:
                batch = [turn.popleft()]
                while turn and len(batch) < OPS_MAX and turn[0][0] == batch[0][0]:
                    batch.append(turn.popleft())
                verdicts = await self._call(event, batch)
                for (_, _, answer), verdict in zip(batch, verdicts, strict=True):
                    if answer is not None and not answer.done():
                        answer.set_result(verdict)
        finally:
            del self._turns[event]

    async def _call(self, event: str, batch: list[Waiting]) -> list[Verdict] | list[None]:
        if not self._may_try():
            self.passed_by += len(batch)
            return [None] * len(batch)
        version = batch[0][0]
        ops = [op for _, op, _ in batch]
        try:
            done = await self._guarded(self.gate.run(event, version, ops), self._timeout_seconds)
            self._broken.discard(event)
            return done
        except GateDown as why:
            if isinstance(why, GateBroken) and event not in self._broken:
                self._broken.add(event)
                log.warning("the gate is passed by for %s: %s", event, why)
            self.passed_by += len(batch)
            return [None] * len(batch)

    def _may_try(self) -> bool:
        return not self._down or (not self._trying and time.monotonic() >= self._closed_until)

    async def _guarded(self, call: Awaitable[T], seconds: float) -> T:
        """The breaker: counts what goes wrong, and keeps others away meanwhile."""
        trial = self._trying = bool(self._down)
        try:
            async with asyncio.timeout(seconds):
                result = await call
        except TimeoutError:
            self._fail(f"no answer within {1000 * seconds:g} ms", trial)
            raise GateDown(self._down) from None
        except GateBroken:
            # It answers; what it has of this event is for the reconciliation to mend.
            raise
        except Exception as failure:
            # Whatever it is: nobody may wait for a verdict that does not come.
            self._fail(str(failure) or type(failure).__name__, trial)
            raise GateDown(self._down) from failure
        finally:
            self._trying = False
        if self._down:
            log.warning("the gate %s answers again", self.gate.url)
            self._down = ""
            self._pause_seconds = PAUSE_FIRST_SECONDS
            self.recovered()
        return result

    def _fail(self, why: str, trial: bool) -> None:
        self.failures += 1
        if self._down and not trial:
            return  # it was under way already when another failed
        if not self._down:
            log.warning("the gate %s is passed by: %s", self.gate.url, why)
            self.failed()
        self._down = why or "down"
        self._closed_until = time.monotonic() + self._pause_seconds
        self._pause_seconds = min(2 * self._pause_seconds, PAUSE_LAST_SECONDS)
