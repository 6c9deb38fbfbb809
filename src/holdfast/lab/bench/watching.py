"""The live map's fan-out, in one process: frames to many who watch one event.

A lag is from the answer of a hold to the frame that tells it, of the oldest fact in each frame.
There are at most five frames a second, so half of that interval is the least that can be hoped for.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

from holdfast.api.charts import Charts
from holdfast.domain.outcomes import Placed
from holdfast.engine import Holdfast
from holdfast.followers.live import Ended, Live, Subscription
from holdfast.lab.bench.figures import Result, percentile
from holdfast.lab.bench.holding import new_event, seat_ids, stampede

SUBSCRIBERS = 1_000
SEATS = 20_000
HOLDS_PER_SECOND = 200
SECONDS = 4.0
CROWD = 250
CROWD_HOLDS = 8_000
PATIENCE_SECONDS = 60.0


class Watching:
    """One event of a shop, and a crowd that watches it. `share` 1.0 is the whole of it."""

    def __init__(self, shop: Holdfast, event: str, share: float) -> None:
        self._shop = shop
        self._event = event
        self._subscribers = max(100, int(SUBSCRIBERS * share))
        self._holds = max(500, int(CROWD_HOLDS * share))
        self._seconds = max(0.6, SECONDS * share)
        self._seats: Iterator[str] = seat_ids(SEATS)
        self._answered: dict[int, float] = {}
        """When each fact was answered, by its number; kept while lags are measured."""
        self._frames = 0
        self._lags: list[float] = []
        self._told = 0
        """The last number that each was told, summed up over all of them."""

    async def measure(self) -> Result:
        await new_event(self._shop, self._event, SEATS)
        unwatched = await self._rate()
        async with self._watched():
            frames_per_second = await self._steady()
            watched = await self._rate()
        lags = sorted(self._lags)
        return {
            "frames_per_second": frames_per_second,
            "lag_p50_ms": percentile(lags, 0.5) * 1000,
            "lag_p99_ms": percentile(lags, 0.99) * 1000,
            "holds_per_second_unwatched": unwatched,
            "holds_per_second_watched": watched,
            "ratio": watched / unwatched,
            "subscribers": self._subscribers,
        }

    async def _rate(self) -> float:
        """Holds a second of a crowd."""

        async def hold(buyer: str, nth: int) -> None:
            await self._hold(buyer)

        return (await stampede(range(self._holds), hold, CROWD)).per_second

    async def _hold(self, buyer: str) -> None:
        placed = await self._shop.place_hold(self._event, buyer=buyer, seats=[next(self._seats)])
        assert isinstance(placed, Placed), placed

    async def _steady(self) -> float:
        """Frames a second while one seller holds at a steady rate: the numbers of his facts are
        those of his holds. Returns when everybody was told of the last."""
        first = (await self._shop.store.heads())[self._event] + 1
        began, frames = time.perf_counter(), self._frames
        for nth in range(int(HOLDS_PER_SECOND * self._seconds)):
            if (early := began + nth / HOLDS_PER_SECOND - time.perf_counter()) > 0:
                await asyncio.sleep(early)
            await self._hold("seller")
            self._answered[first + nth] = time.perf_counter()
        last = max(self._answered)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while self._told < last * self._subscribers:  # noqa: ASYNC110 - it only counts
                await asyncio.sleep(0.01)
        per_second = (self._frames - frames) / (time.perf_counter() - began)
        self._answered.clear()
        return per_second

    @asynccontextmanager
    async def _watched(self) -> AsyncIterator[None]:
        live = Live(self._shop, Charts(self._shop))
        live.start()
        ready = asyncio.Barrier(self._subscribers + 1)
        tasks: list[asyncio.Task[None]] = []
        try:
            for _ in range(self._subscribers):
                subscription = await live.subscribe(self._event)
                assert subscription is not None
                tasks.append(asyncio.create_task(self._watch(subscription, ready)))
            async with asyncio.timeout(PATIENCE_SECONDS):
                await ready.wait()
            yield
        finally:
            await live.stop()
        await asyncio.gather(*tasks)

    async def _watch(self, subscription: Subscription, ready: asyncio.Barrier) -> None:
        """Takes every frame, and puts it into the form in which it would be sent."""
        seq = 0
        try:
            while frame := await subscription.next(PATIENCE_SECONDS):
                assert frame.sse
                now = time.perf_counter()
                if seq == 0:
                    await ready.wait()
                elif oldest := self._answered.get(seq + 1):
                    self._frames += 1
                    self._lags.append(now - oldest)
                self._told += frame.seq - seq
                seq = frame.seq
        except Ended:
            pass
        finally:
            subscription.close()
