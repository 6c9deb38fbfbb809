"""How much one caller may ask: requests in a second, and units held at once.

A public caller is limited as a buyer, as an address, and with everybody else who has his key if the
key has a rate; sellers and admins only by a rate on their key. A request is admitted if every limit
has a token for it, and only then takes one of each: what is refused costs nothing.

Without a shared gate each process counts for itself: N of them admit N times as much. With one the
limits are those of all processes together, but for what grants.py says about the second before;
while the gate is down each process counts for itself again, with buckets that are full at first.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from math import ceil

import msgspec

from holdfast.api.callers import Caller
from holdfast.api.keys import Role
from holdfast.errors import GateDown
from holdfast.gates.buckets import SLACK, Ask, Buckets, Reservations
from holdfast.gates.grants import Grants, Line
from holdfast.ports import Gate
from holdfast.settings import Settings

KEY_BURST_SECONDS = 5.0
"""A key with a rate may ask at once what it may ask in so long, and one thing at least."""
RATE_MIN = 0.001
RATE_MAX = 1_000_000.0
RATES_MAX = 1_000
"""Different rates of keys whose limits are kept ready."""
WAIT_SECONDS_MIN = 0.001
UNLIMITED = 2**40
"""Units: more than there are."""
KEEP_SECONDS_MAX = 30 * 86_400.0


class Verdict(msgspec.Struct, frozen=True):
    retry_after: float
    """0.0: admitted; else the seconds after which one more request would be."""
    headers: dict[str, str]
    """RateLimit and RateLimit-Policy, as draft-ietf-httpapi-ratelimit-headers has them: what
    remains (r) of the limit nearest to its end and the seconds until all of it is back (t); and of
    every limit how much may come at once (q), which comes back in so many seconds (w)."""


class _Limit:
    __slots__ = ("burst", "policy", "prefix", "rate", "title")

    def __init__(self, name: str, rate: float, burst: float) -> None:
        self.rate = min(max(rate, RATE_MIN), RATE_MAX)
        self.burst = burst
        self.prefix = f"{name}:"
        self.title = f'"{name}"'
        self.policy = f"{self.title};q={int(burst)};w={ceil(burst / self.rate)}"

    def ask(self, who: str) -> Ask:
        return self.prefix + who, self.rate, self.burst


class Limits:
    """Nothing here raises, and nothing waits longer than for the gate's timeout."""

    def __init__(
        self,
        settings: Settings,
        gate: Gate | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._buyer = _Limit("buyer", settings.buyer_rate, settings.buyer_burst)
        self._address = _Limit("address", settings.address_rate, settings.address_burst)
        self._by_rate: dict[float, _Limit] = {}
        self._units_max = settings.address_units_max
        self._buckets = Buckets()
        self._reserved = Reservations()
        self._line: Line | None = None
        self._grants: Grants | None = None
        if gate is not None and gate.shared:
            self._line = Line(gate, settings.gate_timeout_ms / 1000, clock)
            self._grants = Grants(self._line, clock)

    async def admit(self, caller: Caller, address: str) -> Verdict:
        """Whether this request may be served; if so it has been counted."""
        limits: list[_Limit] = []
        asks: list[Ask] = []
        key = caller.key
        if key.role is Role.PUBLIC:
            if caller.buyer is not None:
                limits.append(self._buyer)
                asks.append(self._buyer.ask(caller.buyer))
            limits.append(self._address)
            asks.append(self._address.ask(address))
        if key.rate is not None:
            limit = self._of_key(key.rate)
            limits.append(limit)
            asks.append(limit.ask(key.id))
        if not asks:
            return Verdict(0.0, {})
        spent = None if self._grants is None else await self._grants.spend(asks)
        admitted, left = spent or self._buckets.spend(asks, self._clock())
        return _admitted(limits, left) if admitted else _refused(limits, left)

    async def reserve(self, address: str, hold: str, units: int, seconds: float) -> bool:
        """Whether this address may hold so many units more at once. If so they count until the
        seconds have passed or the hold is freed; the same hold again replaces what it had."""
        return await self._reserve(address, hold, units, seconds, self._units_max)

    async def keep(self, address: str, hold: str, units: int, seconds: float) -> None:
        """Units that this address holds already: they count, whatever it may hold."""
        await self._reserve(address, hold, units, seconds, UNLIMITED)

    async def _reserve(
        self, address: str, hold: str, units: int, seconds: float, most: int
    ) -> bool:
        keep_seconds = min(max(seconds, 0.0), KEEP_SECONDS_MAX)
        line = self._line
        if line is not None:
            keep_ms = max(1, ceil(1000 * keep_seconds))
            asked = (address, hold, units, most, keep_ms)
            with suppress(GateDown):
                return await line.ask(lambda: line.gate.reserve_units(*asked))
        now = self._clock()
        return self._reserved.reserve(address, hold, units, most, keep_seconds, now)

    async def free(self, hold: str) -> None:
        """Its units count no more. What a gate that is down cannot be told lapses by itself."""
        self._reserved.free(hold)
        line = self._line
        if line is not None:
            with suppress(GateDown):
                await line.ask(lambda: line.gate.free_units(hold))

    def _of_key(self, rate: float) -> _Limit:
        limit = self._by_rate.get(rate)
        if limit is None:
            if len(self._by_rate) >= RATES_MAX:
                self._by_rate.clear()
            burst = max(1.0, KEY_BURST_SECONDS * min(rate, RATE_MAX))
            limit = self._by_rate[rate] = _Limit("key", rate, burst)
        return limit


def _admitted(limits: list[_Limit], left: list[float]) -> Verdict:
    nearest = left.index(min(left))
    return Verdict(0.0, _headers(limits, limits[nearest], left[nearest]))


def _refused(limits: list[_Limit], left: list[float]) -> Verdict:
    waits = [(1 - has) / limit.rate for limit, has in zip(limits, left, strict=True)]
    wait = max(waits)
    longest = waits.index(wait)
    headers = _headers(limits, limits[longest], left[longest])
    return Verdict(max(wait, WAIT_SECONDS_MIN), headers)


def _headers(limits: list[_Limit], nearest: _Limit, left: float) -> dict[str, str]:
    full_in = ceil((nearest.burst - left) / nearest.rate)
    return {
        "RateLimit": f"{nearest.title};r={max(0, int(left + SLACK))};t={full_in}",
        "RateLimit-Policy": ", ".join([limit.policy for limit in limits]),
    }
