"""Runs of the lab as they might be, for the report: no figure here was measured."""

from typing import Any

SCENARIOS = [
    ("last-seat", "Everybody wants the last seat", 10_000, 1, 1, True),
    ("small-stock", "Everybody wants one of the last five", 10_000, 5, 1, True),
    ("spread", "Each wants one seat of many", 10_000, 50_000, 1, False),
    ("pairs", "Two seats side by side, or none", 10_000, 2_000, 2, True),
    ("pool", "One counter, more buyers than stock", 12_000, 10_000, 1, True),
]
STRATEGIES = {
    "naive": (1_900, ("postgresql", "mariadb", "sqlite")),
    "pessimistic": (780, ("postgresql", "mariadb")),
    "optimistic": (410, ("postgresql", "mariadb", "sqlite")),
    "atomic": (2_260, ("postgresql", "mariadb", "sqlite")),
    "skip-locked": (1_480, ("postgresql", "mariadb")),
    "redis-nx": (3_900, ("postgresql", "mariadb", "sqlite")),
    "two-layer": (4_100, ("postgresql", "mariadb", "sqlite")),
    "redis-lua": (5_320, ("redis",)),
    "group-commit": (38_400, ("postgresql", "mariadb", "sqlite")),
}
SPEEDS = {"postgresql": 1.0, "mariadb": 0.43, "sqlite": 1.21, "redis": 1.0}


def realistic() -> dict[str, Any]:
    """A whole run in which naive oversells and group commit is first."""
    return {
        "machine": {
            "cpus": 2,
            "model": "Some Processor 3.0 GHz",
            "memory_gb": 7.8,
            "python": "3.11.7",
            "system": "Linux 6.1 x86_64",
        },
        "versions": {
            "PostgreSQL": "15.18",
            "MariaDB": "10.11.14",
            "SQLite": "3.54.0",
            "Redis": "7.0.15",
            "holdfast": "0.1.0",
        },
        "date": "2026-11-16T14:03:22Z",
        "quick": False,
        "scenarios": [
            {
                "name": name,
                "title": title,
                "buyers": buyers,
                "units": units,
                "quantity": quantity,
                "contended": contended,
            }
            for name, title, buyers, units, quantity, contended in SCENARIOS
        ],
        "results": [
            result(scenario, strategy, store, processes)
            for scenario in range(len(SCENARIOS))
            for strategy, (_, stores) in STRATEGIES.items()
            for store in stores
            for processes in (1, 4)
        ],
        "published": [
            {"strategy": strategy, "per_second": figure, "source": "Stock for flash sales (table)"}
            for strategy, figure in (
                ("pessimistic", 200),
                ("optimistic", 500),
                ("atomic", 2_000),
                ("redis-lua", 50_000),
            )
        ],
        "curves": {
            "concurrency": curve(
                [
                    *((1, 610.0, 2.9), (3, 1_650.0, 3.4), (10, 4_900.0, 4.4), (30, 10_800.0, 6.2)),
                    *((100, 17_600.0, 11.9), (300, 21_900.0, 24.7), (1_000, 23_400.0, 71.0)),
                    *((3_000, 23_900.0, 188.0), (10_000, 23_100.0, 590.0)),
                ],
                300,
            ),
            "seats_per_hold": curve(
                [(n, 24_000 / (1 + 0.28 * (n - 1)), 60 + 14.5 * n) for n in range(1, 11)], None
            ),
            "event_size": curve(
                [
                    (1_000, 8_800.0, 49.0),
                    (10_000, 8_900.0, 47.5),
                    (100_000, 8_100.0, 52.0),
                    (1_000_000, 7_700.0, 55.0),
                ],
                None,
            ),
            "processes": curve(
                [(1, 14_900, 31.0), (2, 19_800, 44.0), (3, 20_100, 69.0), (4, 20_300, 92.0)], 2
            ),
        },
        "left_out": [
            {
                "strategy": "skip-locked",
                "store": "sqlite",
                "why": "SQLite has no SKIP LOCKED and needs none: it admits one writer",
            },
            {"strategy": None, "store": "kafka", "why": "no such program on this machine"},
        ],
    }


def curve(points: list[tuple[float, float, float]], knee: float | None) -> dict[str, Any]:
    keys = ("x", "per_second", "p99_ms")
    return {
        "points": [dict(zip(keys, point, strict=True)) for point in points],
        "knee": knee,
        "store": "postgresql",
    }


def result(nth: int, strategy: str, store: str, processes: int) -> dict[str, Any]:
    scenario, _, buyers, units, quantity, contended = SCENARIOS[nth]
    rate = STRATEGIES[strategy][0] * SPEEDS[store] * (1.0, 1.07, 1.3, 0.81, 0.74)[nth]
    rate *= 1.27 if processes == 4 else 1
    retries = buyers * (7 + nth) if strategy == "optimistic" and contended else 0
    wrong = strategy == "naive" and contended
    stock = min(units, buyers * quantity)
    oversold = (processes * 61 + nth * 7) * quantity if wrong else 0
    elapsed_ms = buyers / rate * 1000
    statements = buyers // 40 if strategy == "group-commit" else (buyers + retries) * 3
    return {
        "scenario": scenario,
        "strategy": strategy,
        "store": store,
        "durable": strategy != "redis-lua",
        "processes": processes,
        "buyers": buyers,
        "stock": stock,
        "sold": stock + oversold,
        "oversold": oversold,
        "attempts": buyers + retries,
        "retries": retries,
        "gave_up": retries // 900,
        "statements": 0 if store == "redis" else statements,
        "redis_calls": buyers if "redis" in strategy or strategy == "two-layer" else 0,
        "torn": 0,
        "errors": 0,
        "lock_queue": 15 if strategy == "pessimistic" and store != "sqlite" else None,
        "elapsed_ms": elapsed_ms,
        "per_second": rate,
        "p50_ms": elapsed_ms * 0.49,
        "p99_ms": elapsed_ms * 0.98,
        "max_ms": elapsed_ms * 0.995,
    }


def extreme() -> dict[str, Any]:
    """Noughts, millions, long names, markup in names, everything oversold."""
    run = realistic()
    long = "a-strategy-with-a-name-that-nobody-would-ever-give-to-a-strategy-but-somebody-might"
    numbers = (0, 0.01, 1, 999.96, 1_000_000, 123_456_789)
    run["scenarios"] = [
        {"name": "<b>&", "title": "<script>alert('&')</script> " + "very " * 30 + "long"},
        {"name": "noughts", "title": "Noughts", "buyers": 0, "units": 0, "contended": True},
        {"name": "alone", "title": "One result", "buyers": 1, "units": 1_000_000_000},
        {"name": "unmeasured", "title": "Nothing measured", "buyers": 1, "units": 1},
    ]
    base = run["results"][0]
    run["results"] = [
        {
            **base,
            "scenario": "<b>&",
            "strategy": f"{nth}{strategy}" if nth else strategy,
            "store": store,
            "processes": processes,
            "durable": nth % 2 == 0,
            "per_second": number,
            "oversold": int(number),
            "p50_ms": number,
            "p99_ms": number * 10,
        }
        for strategy, store in ((long, "postgresql"), ("naive", "a-store-with-a-long-name"))
        for nth, number in enumerate(numbers)
        for processes in (1, 1_000)
    ]
    run["results"] += [
        {"scenario": "noughts", "strategy": name, "store": "sqlite", "processes": processes}
        for name in ("naive", "pessimistic", "optimistic", "group-commit")
        for processes in (1, 4)
    ]
    run["results"].append({**base, "scenario": "alone", "strategy": "<i>odd</i>", "oversold": 0})
    run["published"].append({"strategy": long, "per_second": 1e9, "source": "<u>hearsay</u>"})
    run["curves"] = {
        "concurrency": curve([(1, 0, 0), (10_000, 123_456_789, 0.001)], 1),
        "seats_per_hold": curve([(1, 5, 5)], 1),
        "event_size": curve([(1_000, 1, 1e6), (3_000, 2, 1), (1_000_000, 3, 1e9)], 1_000_000),
        "processes": curve([(n, 7, 7) for n in range(1, 65)], 33),
        "<i>unheard&of</i>": curve([(0, 1, 1), (1, 2, 2)], None),
    }
    run["left_out"].append({"strategy": "x" * 90, "store": "<", "why": "because " * 60})
    run["machine"]["model"] = "A processor with a <long> name, " * 6
    return run
