"""How fast facts get from the log to a broker, and how late: `holdfast bench --only relay`.

A lag is from the moment a fact was written, by the authority's clock, to the acknowledgement of the
broker. Everything runs on the machine that is measured: seller, database and broker too.
"""

import asyncio
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from holdfast.domain.cloudevents import Message
from holdfast.domain.views import Move
from holdfast.errors import SettingsError
from holdfast.followers.relay import Relay, Source
from holdfast.followers.shards import Shards
from holdfast.ids import Ids
from holdfast.lab.bench import baseline
from holdfast.lab.bench.sales import make_events
from holdfast.ports import Broker, Store
from holdfast.settings import Settings
from holdfast.wiring import make_broker, make_store, make_wal

FACTS = 200_000
SALES_PER_SECOND = 3_000
SALES_SECONDS = 10.0
QUIET_PER_SECOND = 100
QUIET_SECONDS = 5.0
SLOW_BATCH_SECONDS = 0.005
SLOW_BATCH = 20
"""Facts that a slow sink takes at a time."""
SLOW_SECONDS = 5.0
LEASE_MS = 60_000
START_SECONDS = 60.0

Progress = Callable[[str], None]
Result = dict[str, float | int | str]
Prepared = tuple[Store, Broker, list[str]]


class Timed:
    """A broker that notes how old each fact was when it was acknowledged."""

    def __init__(self, broker: Broker, now_ms: Callable[[], int]) -> None:
        self.url = broker.url
        self._broker = broker
        self._now_ms = now_ms
        self.lags_ms: list[int] = []

    async def open(self) -> None:
        await self._broker.open()

    async def close(self) -> None:
        """It is closed by whoever has opened it."""

    async def publish(self, messages: Sequence[Message]) -> dict[int, str]:
        refused = await self._broker.publish(messages)
        now = self._now_ms()
        self.lags_ms += [now - message.at_ms for message in messages]
        return refused

    async def bury(self, message: Message, reason: str) -> None:
        await self._broker.bury(message, reason)


class SlowSink:
    """Takes everything, and its time for each batch."""

    url = "slow://"

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def publish(self, messages: Sequence[Message]) -> dict[int, str]:
        await asyncio.sleep(SLOW_BATCH_SECONDS)
        return {}

    async def bury(self, message: Message, reason: str) -> None:
        pass


class Relaying:
    """`scale` 1.0 is the whole of it, less is a trial."""

    def __init__(
        self, store: str | None, broker: str | None, progress: Progress, scale: float
    ) -> None:
        if store is None or not store.startswith("postgres"):
            raise SettingsError("relay measures with PostgreSQL: name one with --store")
        if broker is None or not broker.startswith(("kafka://", "nats://")):
            raise SettingsError("relay measures a broker: name one with --broker kafka://host:port")
        topic = f"bench-{Ids().new()}"
        self._settings = Settings(store=store, broker=broker, broker_topic=topic)
        self._progress = progress
        self._scale = scale

    async def measure(self) -> Result:
        return {
            **await self._throughput(),
            **await self._lag_of_sales(),
            **await self._lag_of_sources(),
            **await self._two_processes(),
        }

    async def _throughput(self) -> Result:
        """What is on the log already, as fast as it goes."""
        follower = Ids().new()
        async with self._prepared(follower) as (store, broker, events):
            self._progress("the log is being filled")
            await _fill(self._settings.store, events, self._facts)
            self._progress("facts are relayed")
            relay = await _ready(store, broker, follower)
            began = time.perf_counter()
            while await relay.round():
                pass
            seconds = time.perf_counter() - began
        return {"facts": relay.published, "facts_per_second": round(relay.published / seconds)}

    async def _lag_of_sales(self) -> Result:
        self._progress(f"{SALES_PER_SECOND:,} sales a second")
        lags, rate = await self._lags(SALES_PER_SECOND, SALES_SECONDS)
        return {
            "sales_per_second": round(rate),
            "lag_p50_ms_of_sales": round(statistics.median(lags), 1),
            "lag_p99_ms_of_sales": round(_percentile(lags, 0.99), 1),
        }

    async def _lag_of_sources(self) -> Result:
        """At a gentle rate: by polling alone, with wake-ups, and from the write-ahead log."""
        self._progress("the lag of polling, of wake-ups and of the write-ahead log")
        polling, _ = await self._lags(QUIET_PER_SECOND, QUIET_SECONDS, wake=False)
        waking, _ = await self._lags(QUIET_PER_SECOND, QUIET_SECONDS)
        result: Result = {
            "lag_p50_ms_polling": round(statistics.median(polling), 1),
            "lag_p50_ms_with_wake_ups": round(statistics.median(waking), 1),
        }
        wal = make_wal(self._settings)
        try:
            told, _ = await self._lags(QUIET_PER_SECOND, QUIET_SECONDS, source=wal)
        except SettingsError as missing:
            return {**result, "wal": f"left out: {missing}"}
        finally:
            await wal.drop()
        share = statistics.median(told) / statistics.median(polling)
        return {
            **result,
            "lag_p50_ms_wal": round(statistics.median(told), 1),
            "wal_to_polling": round(share, 3),
        }

    async def _two_processes(self) -> Result:
        """One and two processes, with a sink that takes its time for each batch."""
        self._progress("one relay and two, with a slow sink")
        seconds = max(1.0, SLOW_SECONDS * self._scale)
        rates = []
        for processes in (1, 2):
            follower = Ids().new()
            async with self._prepared(follower) as (_, _, events):
                await _fill(self._settings.store, events, self._facts)
                rates.append(await _slow_rate(self._settings.store, follower, processes, seconds))
        one, two = rates
        return {
            "slow_sink_facts_per_second": round(one),
            "slow_sink_facts_per_second_of_2": round(two),
            "ratio_of_2_processes": round(two / one, 2),
        }

    async def _lags(
        self, rate: int, seconds: float, *, wake: bool = True, source: Source | None = None
    ) -> tuple[list[int], float]:
        """Of facts that a process of its own sells at that rate; and the rate it had."""
        follower = Ids().new()
        seconds = max(1.0, seconds * self._scale)
        async with self._prepared(follower) as (store, broker, events):
            if source is not None:
                await source.open()
            shards = Shards(store, follower, "bench", LEASE_MS)
            timed = Timed(broker, shards.now_ms)
            relay = Relay(store, timed, shards, wake=wake, source=source)
            relay.start()
            try:
                sold = await _sell(self._settings.store, events[0], rate, seconds)
                async with asyncio.timeout(START_SECONDS):
                    while len(timed.lags_ms) < sold:  # noqa: ASYNC110 - it only counts
                        await asyncio.sleep(0.05)
            finally:
                await relay.stop()
        return timed.lags_ms, sold / seconds

    @property
    def _facts(self) -> int:
        return max(10_000, round(FACTS * self._scale))

    @asynccontextmanager
    async def _prepared(self, follower: str) -> AsyncIterator[Prepared]:
        """New events, and a follower who knows everything that was there before them."""
        store, broker = make_store(self._settings), make_broker(self._settings)
        assert broker is not None
        await store.open()
        try:
            events = await make_events(self._settings.store)
            heads = await store.heads()
            await store.move(follower, [Move(name, 0, seq, 0) for name, seq in heads.items()])
            await broker.open()
            yield store, broker, events
        finally:
            await store.forget(follower)
            await broker.close()
            await store.close()


async def _ready(store: Store, broker: Broker, follower: str) -> Relay:
    shards = Shards(store, follower, Ids().new(), LEASE_MS)
    await shards.renew()
    return Relay(store, broker, shards)


async def _fill(url: str, events: Sequence[str], facts: int) -> None:
    for event in events:
        await baseline.add_facts(url, event, facts // len(events))


async def _sell(url: str, prefix: str, rate: int, seconds: float) -> int:
    """How many were sold, by a process of its own."""
    command = ("-m", "holdfast.lab.bench.sales", prefix, str(rate), str(seconds))
    return int(await _told(url, *command))


async def _slow_rate(url: str, follower: str, processes: int, seconds: float) -> float:
    """Facts a second that so many processes move together."""
    command = ("-m", "holdfast.lab.bench.relaying", follower, str(processes), str(seconds))
    moved = await asyncio.gather(*(_told(url, *command) for _ in range(processes)))
    return sum(map(int, moved)) / seconds


async def _told(url: str, *command: str) -> str:
    """The last line that a Python program prints; the address it reads may have a password."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, stdin=pipe, stdout=pipe
    )
    said, _ = await process.communicate(f"{url}\n".encode())
    if process.returncode:
        raise SettingsError(f"{command[1]} failed")
    return said.decode().split()[-1]


async def relay_slowly(url: str, follower: str, processes: int, seconds: float) -> int:
    """The facts that this process moved, from when all have their share."""
    store = make_store(Settings(store=url))
    await store.open()
    try:
        shards = Shards(store, follower, Ids().new(), LEASE_MS)
        relay = Relay(store, SlowSink(), shards, batch_max=SLOW_BATCH)
        async with asyncio.timeout(START_SECONDS):
            while not shards.mine or len(shards.mine) > shards.fair(processes):
                await shards.renew()
                await asyncio.sleep(0.05)
        await relay.round()  # the cursors are read
        before, ends = relay.published, time.monotonic() + seconds
        while time.monotonic() < ends:
            await relay.round()
        return relay.published - before
    finally:
        await store.close()


def _percentile(values: Sequence[int], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


if __name__ == "__main__":
    address = sys.stdin.readline().strip()
    print(asyncio.run(relay_slowly(address, sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))))
