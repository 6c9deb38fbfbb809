"""Metrics, as Prometheus reads them.

The service answers a request every 80 microseconds, so these are plain numbers in dicts: half
a microsecond a request. prometheus-client's own counter and histogram take 2.9, and 3.1 in its mode
for several processes, which also keeps the files of dead workers for ever; here it only writes the
text. How the numbers of several workers become one is in tallies.py.

Labels have few values always: routes, statuses, outcomes, reasons, followers. No event, no buyer.
"""

import asyncio
import contextlib
import logging
import os
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from prometheus_client import generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from holdfast.api.tallies import Key, Tallies, Tally, add
from holdfast.domain.outcomes import (
    Cancelled,
    Confirmed,
    Extended,
    Outcome,
    Paying,
    Placed,
    Reason,
    Refused,
    Released,
)
from holdfast.engine import Holdfast
from holdfast.followers.crew import Crew
from holdfast.followers.live import Live
from holdfast.tasks import end_task

WRITE_SECONDS = 1.0
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
COMMANDS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 2_000.0, 5_000.0)

OUTCOMES = "holdfast_outcomes_total"
REQUESTS = "holdfast_requests_total"
REQUEST_SECONDS = "holdfast_request_seconds"
BATCH_COMMANDS = "holdfast_batch_commands"
BATCH_SECONDS = "holdfast_batch_seconds"
REMEMBERED = "holdfast_refusals_remembered_total"
GATE_FAILURES = "holdfast_gate_failures_total"
GATE_PASSED_BY = "holdfast_gate_passed_by_total"
STARTS = "holdfast_worker_starts_total"
WORKERS = "holdfast_workers"
IN_HAND = "holdfast_in_hand"
LANES = "holdfast_lane_commands"
LONGEST = "holdfast_lane_commands_max"
GATE_UP = "holdfast_gate_up"
LAG = "holdfast_log_lag_facts"
RELAY_LAG = "holdfast_relay_lag_seconds"
RELAY_UP = "holdfast_relay_up"
RELAY_SHARDS = "holdfast_relay_shards"
PUBLISHED = "holdfast_relay_published_total"
UNPUBLISHED = "holdfast_relay_refused_total"
DELIVERIES = "holdfast_webhook_deliveries_total"
FAILING = "holdfast_webhooks_failing"
DISABLED = "holdfast_webhooks_disabled"
IDLE = "holdfast_idle_cursors"
WATCHERS = "holdfast_live_watchers"
FRAMES_ENCODED = "holdfast_live_frames_encoded_total"
FRAMES_SENT = "holdfast_live_frames_sent_total"
WATCHERS_DROPPED = "holdfast_live_dropped_total"

log = logging.getLogger("holdfast.metrics")


class Counter(NamedTuple):
    help: str
    labels: tuple[str, ...] = ()


class Histogram(NamedTuple):
    help: str
    bounds: tuple[float, ...]
    labels: tuple[str, ...] = ()


class Gauge(NamedTuple):
    help: str
    of_all: Callable[[Iterable[float]], float] = sum
    """From those of the workers, the deployment's."""
    labels: tuple[str, ...] = ()


METRICS: dict[str, Counter | Histogram | Gauge] = {
    REQUESTS: Counter("Requests answered.", ("route", "status")),
    REQUEST_SECONDS: Histogram("Time from a request to its answer.", SECONDS, ("route",)),
    OUTCOMES: Counter("What became of holds and orders.", ("outcome", "reason")),
    BATCH_COMMANDS: Histogram("Commands in a batch that the store applied.", COMMANDS),
    BATCH_SECONDS: Histogram("Time in which the store applied a batch.", SECONDS),
    REMEMBERED: Counter("Refusals given again from memory."),
    GATE_FAILURES: Counter("Calls to the gate that failed."),
    GATE_PASSED_BY: Counter("Asks that went on without the gate."),
    STARTS: Counter("Workers started."),
    WORKERS: Gauge("Workers that serve."),
    IN_HAND: Gauge("Requests in hand."),
    LANES: Gauge("Commands that wait for a batch."),
    LONGEST: Gauge("Commands that wait in the longest lane.", max),
    GATE_UP: Gauge("1 if every worker has the gate, 0 if one passes it by.", min),
    LAG: Gauge("Facts that a follower of the log is not done with yet.", max, ("follower",)),
    RELAY_LAG: Gauge("Age of the oldest fact that is not published yet.", max),
    RELAY_UP: Gauge("1 if facts are published, 0 while a relay is in trouble.", min),
    RELAY_SHARDS: Gauge("Shards of events that are relayed here."),
    PUBLISHED: Counter("Facts that the broker has taken."),
    UNPUBLISHED: Counter("Facts that the broker refused for good."),
    DELIVERIES: Counter("What became of deliveries to webhooks.", ("outcome",)),
    FAILING: Gauge("Webhooks that have failed since their last success.", max),
    DISABLED: Gauge("Webhooks that were disabled because they failed too long.", max),
    IDLE: Gauge("Cursors that have stood still too long: facts are kept for them no longer."),
    WATCHERS: Gauge("Those who watch a live map."),
    FRAMES_ENCODED: Counter("Frames of live maps that were made."),
    FRAMES_SENT: Counter("Frames of live maps that were sent, the same one to all who need it."),
    WATCHERS_DROPPED: Counter("Those who watched a live map and were too slow."),
}


class Observed:
    """The numbers of a histogram."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def values(self) -> list[float]:
        return [*self.counts, self.total]


class Answered(Observed):
    """Of one route."""

    __slots__ = ("statuses",)

    def __init__(self) -> None:
        super().__init__(SECONDS)
        self.statuses: dict[int, int] = {}


class Metrics:
    """`in_hand` and `lags` are asked whenever the numbers are looked at."""

    def __init__(
        self,
        shop: Holdfast,
        in_hand: Callable[[], int] = int,
        lags: Callable[[], Mapping[str, int]] = dict,
        crew: Crew | None = None,
        live: Live | None = None,
    ) -> None:
        self._shop = shop
        self._in_hand = in_hand
        self._lags = lags
        self._crew = crew
        self._live = live
        self._routes: dict[str, Answered] = {}
        kinds = (Placed, Extended, Released, Paying, Confirmed, Cancelled)
        self._outcomes: dict[type[Outcome] | Reason, int] = dict.fromkeys((*kinds, *Reason), 0)
        self._batch_commands = Observed(COMMANDS)
        self._batch_seconds = Observed(SECONDS)
        self._tallies = Tallies.of_worker(os.environ)
        self._task: asyncio.Task[None] | None = None
        self._unwritten = False

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Writes what was counted last."""
        await end_task(self._task)
        if self._tallies is not None:
            with contextlib.suppress(OSError):
                self._tallies.write(self._tally())

    def outcome(self, outcome: Outcome) -> None:
        key = outcome.reason if isinstance(outcome, Refused) else type(outcome)
        self._outcomes[key] = self._outcomes.get(key, 0) + 1

    def answered(self, route: str, status: int, seconds: float) -> None:
        answered = self._routes.get(route)
        if answered is None:
            answered = self._routes[route] = Answered()
        answered.add(seconds)
        statuses = answered.statuses
        statuses[status] = statuses.get(status, 0) + 1

    def batch(self, commands: int, seconds: float) -> None:
        self._batch_commands.add(commands)
        self._batch_seconds.add(seconds)

    async def export(self) -> bytes:
        """The text for a scrape: of all workers on this machine."""
        mine = self._tally()
        if self._tallies is None or not self._write(mine):
            return _text([mine], Tally(workers=0))
        living, dead = await asyncio.to_thread(self._tallies.read)
        return await asyncio.to_thread(_text, living, dead)

    async def batches(self) -> tuple[int, int]:
        """Batches that the store has applied, and commands in them: of all workers, of the others
        as they were a second ago at most."""
        tallies = [self._tally()]
        if self._tallies is not None and self._write(tallies[0]):
            living, dead = await asyncio.to_thread(self._tallies.read)
            tallies = [*living, dead]
        counted: dict[Key, list[float]] = {}
        for tally in tallies:
            add(counted, tally)
        *batches, commands = counted[BATCH_COMMANDS, ()]
        return round(sum(batches)), round(commands)

    async def _run(self) -> None:
        while True:
            self._write(self._tally())
            await asyncio.sleep(WRITE_SECONDS)

    def _write(self, tally: Tally) -> bool:
        if self._tallies is None:
            return False
        try:
            self._tallies.write(tally)
        except OSError as trouble:
            if not self._unwritten:
                log.warning("metrics cannot be shared with other workers: %s", trouble)
            self._unwritten = True
            return False
        self._unwritten = False
        return True

    def _tally(self) -> Tally:
        return Tally(
            [(name, labels, values) for (name, labels), values in self._counted()],
            [(name, labels, value) for (name, labels), value in self._standing()],
        )

    def _counted(self) -> Iterator[tuple[Key, list[float]]]:
        for route, answered in self._routes.items():
            yield (REQUEST_SECONDS, (route,)), answered.values()
            for status, count in answered.statuses.items():
                yield (REQUESTS, (route, str(status))), [count]
        for key, count in self._outcomes.items():
            labels = ("refused", key.value) if isinstance(key, Reason) else (_name(key), "")
            yield (OUTCOMES, labels), [count]
        yield (BATCH_COMMANDS, ()), self._batch_commands.values()
        yield (BATCH_SECONDS, ()), self._batch_seconds.values()
        if self._shop.refusals is not None:
            yield (REMEMBERED, ()), [self._shop.refusals.refused]
        if (keeper := self._shop.keeper) is not None:
            yield (GATE_FAILURES, ()), [keeper.failures]
            yield (GATE_PASSED_BY, ()), [keeper.passed_by]
        if self._crew is not None:
            yield from _counted_by(self._crew)
        if self._live is not None:
            counts = self._live.counts
            yield (FRAMES_ENCODED, ()), [counts.encoded]
            yield (FRAMES_SENT, ()), [counts.sent]
            yield (WATCHERS_DROPPED, ()), [counts.dropped]

    def _standing(self) -> Iterator[tuple[Key, float]]:
        waiting = self._shop.waiting()
        yield (IN_HAND, ()), self._in_hand()
        yield (LANES, ()), sum(waiting)
        yield (LONGEST, ()), max(waiting, default=0)
        if (keeper := self._shop.keeper) is not None:
            yield (GATE_UP, ()), float(keeper.state == "up")
        for follower, facts in self._lags().items():
            yield (LAG, (follower,)), facts
        if self._crew is not None:
            yield from _standing_by(self._crew)
        if self._live is not None:
            yield (WATCHERS, ()), self._live.subscribers


def _counted_by(crew: Crew) -> Iterator[tuple[Key, list[float]]]:
    if (relay := crew.relay) is not None:
        yield (PUBLISHED, ()), [relay.published]
        yield (UNPUBLISHED, ()), [relay.refused]
    sent = crew.deliveries
    outcomes = {"delivered": sent.delivered, "failed": sent.failed, "dead": sent.dead}
    for outcome, count in outcomes.items():
        yield (DELIVERIES, (outcome,)), [count]


def _standing_by(crew: Crew) -> Iterator[tuple[Key, float]]:
    if (relay := crew.relay) is not None:
        yield (RELAY_LAG, ()), relay.lag_seconds()
        yield (RELAY_UP, ()), float(not relay.trouble)
        yield (RELAY_SHARDS, ()), relay.shards
    yield (FAILING, ()), crew.deliveries.failing()
    yield (DISABLED, ()), crew.deliveries.disabled_now
    yield (IDLE, ()), len(crew.pruner.idle)


def _name(kind: type[Outcome]) -> str:
    return kind.__name__.lower()


class _Summed(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        return self._families


def _text(living: Sequence[Tally], dead: Tally) -> bytes:
    counted: dict[Key, list[float]] = {}
    standing: dict[Key, list[float]] = {}
    for tally in (*living, dead):
        add(counted, tally)
        for name, labels, value in tally.standing:
            standing.setdefault((name, labels), []).append(value)
    counted[STARTS, ()] = [sum(tally.workers for tally in (*living, dead))]
    standing[WORKERS, ()] = [len(living)]
    rows: dict[str, list[tuple[tuple[str, ...], list[float]]]] = {}
    for (name, labels), values in (*counted.items(), *standing.items()):
        rows.setdefault(name, []).append((labels, values))
    families = (
        _family(name, METRICS[name], sorted(rows[name])) for name in METRICS if name in rows
    )
    return generate_latest(_Summed(families))


def _family(
    name: str,
    metric: Counter | Histogram | Gauge,
    rows: Iterable[tuple[tuple[str, ...], list[float]]],
) -> Metric:
    match metric:
        case Counter(help, names):
            counter = CounterMetricFamily(name, help, labels=names)
            for labels, values in rows:
                counter.add_metric(labels, values[0])
            return counter
        case Gauge(help, of_all, names):
            gauge = GaugeMetricFamily(name, help, labels=names)
            for labels, values in rows:
                gauge.add_metric(labels, of_all(values))
            return gauge
        case Histogram(help, bounds, names):
            histogram = HistogramMetricFamily(name, help, labels=names)
            for labels, values in rows:
                histogram.add_metric(labels, list(_buckets(bounds, values)), values[-1])
            return histogram


def _buckets(bounds: Sequence[float], values: Sequence[float]) -> Iterator[tuple[str, float]]:
    """Prometheus counts in each bucket those of all smaller ones too."""
    reached = 0.0
    for bound, count in zip((*bounds, float("inf")), values[:-1], strict=True):
        reached += count
        # How prometheus-client itself writes a bound; it says no types.
        yield floatToGoString(bound), reached  # type: ignore[no-untyped-call]
