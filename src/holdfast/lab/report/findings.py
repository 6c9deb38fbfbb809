"""What a run of the lab found: the JSON of `holdfast lab --json`, and the questions one asks it."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

OWN = "group-commit"
"""Holdfast itself, among the strategies."""
STORES = {
    "postgresql": "PostgreSQL",
    "postgres": "PostgreSQL",
    "mariadb": "MariaDB",
    "mysql": "MariaDB/MySQL",
    "sqlite": "SQLite",
    "redis": "Redis",
    "memory": "memory",
}


class Scenario(msgspec.Struct, frozen=True):
    name: str
    title: str = ""
    buyers: int = 0
    units: int = 0
    quantity: int = 1
    contended: bool = False

    @property
    def shown(self) -> str:
        return self.title or self.name


class Result(msgspec.Struct, frozen=True):
    """One strategy on one store in one scenario. `per_second` is of buyers answered; `sold` and
    `oversold` were counted from the rows."""

    scenario: str
    strategy: str
    store: str
    durable: bool = True
    processes: int = 1
    buyers: int = 0
    stock: int = 0
    sold: int = 0
    oversold: int = 0
    attempts: int = 0
    retries: int = 0
    gave_up: int = 0
    statements: int = 0
    redis_calls: int = 0
    torn: int = 0
    """Buyers who got a part of what they wanted."""
    errors: int = 0
    lock_queue: int | None = None
    """The most transactions that waited for a lock at one moment, where the server tells."""
    elapsed_ms: float = 0.0
    per_second: float = 0.0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    max_ms: float = 0.0

    @property
    def wrong(self) -> bool:
        return bool(self.oversold or self.torn)

    @property
    def shown_store(self) -> str:
        return STORES.get(self.store, self.store)

    @property
    def where(self) -> str:
        return f"{self.shown_store} with {count(self.processes, 'process', 'processes')}"

    def each(self, counter: int) -> float:
        """A counter for each buyer."""
        return counter / self.buyers if self.buyers else 0.0


class Published(msgspec.Struct, frozen=True):
    strategy: str
    per_second: float
    source: str = ""


class LeftOut(msgspec.Struct, frozen=True):
    why: str
    strategy: str | None = None
    store: str | None = None


class Point(msgspec.Struct, frozen=True):
    x: float
    per_second: float
    p99_ms: float


class Curve(msgspec.Struct, frozen=True):
    points: list[Point] = []
    knee: float | None = None
    store: str = ""


class Findings(msgspec.Struct, frozen=True):
    """The whole run. What is missing in the JSON is empty here."""

    machine: dict[str, Any] = {}  # shown as it is
    versions: dict[str, str | None] = {}
    date: str = ""
    quick: bool = False
    scenarios: list[Scenario] = []
    results: list[Result] = []
    published: list[Published] = []
    curves: dict[str, Curve] | None = None
    left_out: list[LeftOut] = []

    def contended(self) -> list[Scenario]:
        return [each for each in self.scenarios if each.contended]

    def of(self, scenario: Scenario) -> list[Result]:
        return [each for each in self.results if each.scenario == scenario.name]

    def stores(self) -> list[str]:
        return list(dict.fromkeys(each.store for each in self.results))

    def has(self, strategy: str, store: str) -> bool:
        return any((each.strategy, each.store) == (strategy, store) for each in self.results)

    def oversellers(self) -> dict[str, list[Result]]:
        """The runs in which a strategy sold what was not there, or a part of a basket."""
        found: dict[str, list[Result]] = {}
        for each in self.results:
            if each.wrong:
                found.setdefault(each.strategy, []).append(each)
        return found

    def published_for(self, strategy: str) -> Published | None:
        return next((each for each in self.published if each.strategy == strategy), None)

    def ranked(self, results: Iterable[Result]) -> list[Result]:
        """The best run of each strategy, the fastest first. Who oversold anywhere is not ranked:
        how fast it is wrong is of no use to anybody."""
        wrong = self.oversellers()
        best: dict[str, Result] = {}
        for each in results:
            known = best[each.strategy].per_second if each.strategy in best else 0
            if each.strategy not in wrong and each.per_second > known:
                best[each.strategy] = each
        return sorted(best.values(), key=lambda each: -each.per_second)

    def peers(self, result: Result) -> list[Result]:
        """All that ran under the very same circumstances, the fastest first."""
        same = (result.scenario, result.store, result.processes)
        found = [
            each for each in self.results if (each.scenario, each.store, each.processes) == same
        ]
        return sorted(found, key=lambda each: -each.per_second)

    def storm(self) -> Result | None:
        """Where the optimistic strategy tried again most often for each buyer."""
        return self._worst("optimistic", lambda each: (True, each.each(each.retries)))

    def queue(self) -> Result | None:
        """Where the pessimistic strategy let its buyers wait longest; SQLite has no row locks to
        show it with, so it counts only where there is nothing else."""
        return self._worst("pessimistic", lambda each: (each.store != "sqlite", each.p99_ms))

    def _worst(
        self, strategy: str, badness: Callable[[Result], tuple[bool, float]]
    ) -> Result | None:
        contended = {each.name for each in self.contended()}
        found = [
            each
            for each in self.results
            if each.strategy == strategy and (not contended or each.scenario in contended)
        ]
        return max(found, key=badness, default=None)


def read(result: dict[str, Any]) -> Findings:
    """From the JSON; every scenario that a result names is there."""
    found = msgspec.convert(result, Findings)
    known = {each.name for each in found.scenarios}
    unknown = dict.fromkeys(each.scenario for each in found.results if each.scenario not in known)
    return msgspec.structs.replace(found, scenarios=[*found.scenarios, *map(Scenario, unknown)])


def count(number: float, one: str, many: str) -> str:
    return f"{number:,.0f} {one if number == 1 else many}"
