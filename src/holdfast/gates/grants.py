"""What a process has in hand of buckets that all processes share, so that few requests wait for the
gate.

Tokens are taken from the gate before they are spent, a few at a time, and what is not spent within
`LAPSE_SECONDS` lapses. So in any t seconds all processes together spend burst + rate * (t + 1) at
most: those of the one second more were taken before. What lapses was taken in vain: a bucket may
be charged for up to twice what was spent. It is not more because a grant begins with one token, and
is doubled only when the one before it was spent quickly; a tenth of the burst is the most.

A gate that fails or is slow is left alone for `CLOSED_SECONDS`, then one call tries it; whoever
asks meanwhile is told so at once, and goes on without it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from holdfast.errors import GateDown
from holdfast.gates.buckets import SLACK, Ask, thinned
from holdfast.ports import Gate

LAPSE_SECONDS = 1.0
QUICK_SECONDS = 0.25
CLOSED_SECONDS = 1.0
HANDS_MAX = 50_000
GRANT_PART = 10
"""A grant is this part of the burst at most: the other processes want some too."""

T = TypeVar("T")

log = logging.getLogger("holdfast.gate")


class Line:
    """The way to the gate: within the timeout, closed for a while after a failure, and then open to
    one who tries."""

    def __init__(self, gate: Gate, timeout_seconds: float, clock: Callable[[], float]) -> None:
        self.gate = gate
        self.timeout_seconds = timeout_seconds
        self._clock = clock
        self._down = False
        self._trying = False
        self._closed_until = 0.0

    @property
    def closed(self) -> bool:
        return self._down and (self._trying or self._clock() < self._closed_until)

    async def ask(self, call: Callable[[], Awaitable[T]]) -> T:
        """Raises GateDown, whatever went wrong."""
        if self.closed:
            raise GateDown("left alone for a while")
        trial = self._trying = self._down
        try:
            async with asyncio.timeout(self.timeout_seconds):
                answer = await call()
        except TimeoutError:
            why = f"no answer within {1000 * self.timeout_seconds:g} ms"
            raise self._close(why, trial) from None
        except Exception as failure:
            # Whatever it is: a limit that cannot be looked up is no reason to fail a request.
            raise self._close(str(failure) or type(failure).__name__, trial) from failure
        finally:
            if trial:
                self._trying = False
        if trial:
            log.warning("limits ask the gate %s again", self.gate.url)
            self._down = False
        return answer

    def _close(self, why: str, trial: bool) -> GateDown:
        if not self._down:
            log.warning("limits do without the gate %s: %s", self.gate.url, why)
        if trial or not self._down:  # else it was under way already when another failed
            self._down = True
            self._closed_until = self._clock() + CLOSED_SECONDS
        return GateDown(why)


class _Hand:
    """Of one bucket: the tokens in hand, and what the gate said last."""

    __slots__ = ("asked_at", "left", "refill", "size", "tokens", "waiting")

    def __init__(self) -> None:
        self.tokens = 0
        self.size = 1
        self.left = 0.0
        self.asked_at = float("-inf")
        self.waiting = 0
        self.refill: asyncio.Task[None] | None = None

    def look(self, now: float) -> None:
        if now - self.asked_at > LAPSE_SECONDS:
            self.tokens = 0
            self.size = 1

    def remaining(self, ask: Ask, now: float) -> float:
        """Tokens here and there, as far as is known here."""
        _, rate, burst = ask
        return min(burst, self.tokens + self.left + (now - self.asked_at) * rate)

    def dry(self, ask: Ask, now: float) -> bool:
        """The gate had none, and cannot have one again yet."""
        if self.tokens or now - self.asked_at > LAPSE_SECONDS:
            return False
        return self.remaining(ask, now) < 1 - SLACK


class Grants:
    def __init__(self, line: Line, clock: Callable[[], float], most: int = HANDS_MAX) -> None:
        self._line = line
        self._clock = clock
        self._most = most
        self._hands: dict[str, _Hand] = {}
        self._refills: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._hands)

    async def spend(self, asks: Sequence[Ask]) -> tuple[bool, list[float]] | None:
        """One token of each, or none of any: whether they were spent, and what remains of each.
        None: the gate does not answer, or not in time."""
        began = now = self._clock()
        while now - began <= self._line.timeout_seconds and not self._line.closed:
            pairs = [(self._hand(ask[0], now), ask) for ask in asks]
            if any(hand.dry(ask, now) for hand, ask in pairs):
                return False, [hand.remaining(ask, now) for hand, ask in pairs]
            empty = [pair for pair in pairs if not pair[0].tokens]
            if not empty:
                for hand, _ in pairs:
                    hand.tokens -= 1
                return True, [hand.remaining(ask, now) for hand, ask in pairs]
            await self._wait(empty)
            now = self._clock()
        return None

    def _hand(self, name: str, now: float) -> _Hand:
        hand = self._hands.get(name)
        if hand is None:
            if len(self._hands) >= self._most:
                idle = now - LAPSE_SECONDS
                self._hands = thinned(self._hands, lambda hand: hand.asked_at, idle, self._most)
            hand = self._hands[name] = _Hand()
        hand.look(now)
        return hand

    async def _wait(self, empty: list[tuple[_Hand, Ask]]) -> None:
        """Until each was refilled once; all who wait for the same hand share that."""
        refills = set()
        for hand, ask in empty:
            hand.waiting += 1
            if hand.refill is None:
                hand.refill = asyncio.get_running_loop().create_task(self._refill(hand, ask))
                self._refills.add(hand.refill)
                hand.refill.add_done_callback(self._refills.discard)
            refills.add(hand.refill)
        try:
            # Not cancelled with one who waits: the others go on waiting.
            await asyncio.wait(refills)
        finally:
            for hand, _ in empty:
                hand.waiting -= 1

    async def _refill(self, hand: _Hand, ask: Ask) -> None:
        """Never raises: a gate that fails closes the line, which those who wait see."""
        name, rate, burst = ask
        try:
            if self._clock() - hand.asked_at < QUICK_SECONDS:
                hand.size = min(2 * hand.size, max(1, int(burst) // GRANT_PART))
            want = max(hand.size, hand.waiting)
            gate = self._line.gate
            granted, hand.left = await self._line.ask(lambda: gate.take(name, rate, burst, want))
            hand.tokens += granted
            hand.asked_at = self._clock()
            if granted < want:
                hand.size = 1  # there is little left, and others want some of it
        except GateDown:
            pass
        finally:
            hand.refill = None
