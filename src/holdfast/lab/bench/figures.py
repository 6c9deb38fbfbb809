"""What is measured, and what each figure means: the one list behind `holdfast bench`, its
comparisons and docs/benchmarks.md.

A round of a measurement gives values by name. Those that are listed here are figures, with a median
and a spread over the rounds; whatever else a round tells is a note, such as how many tasks asked.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

SQLITE = "sqlite"
POSTGRES = "postgresql"
MARIADB = "mariadb"
SLOW_FLUSH = "postgresql, flush of 8 ms"
LOGICAL = "postgresql, wal_level=logical"
GATED = "postgresql and redis"

ANYWHERE = ""

Result = dict[str, Any]  # values by name, ready for JSON


class Better(StrEnum):
    MORE = "more"
    LESS = "less"


class Figure(NamedTuple):
    unit: str
    better: Better
    means: str
    targets: Mapping[str, float] = {}
    """What is claimed, by where it is measured: at least so much, or at most."""

    def target(self, ground: str) -> float | None:
        return self.targets.get(ground, self.targets.get(ANYWHERE))

    def reaches(self, value: float, target: float) -> bool:
        return value >= target if self.better is Better.MORE else value <= target


class Measurement(NamedTuple):
    group: str
    about: str
    figures: Mapping[str, Figure]


def rate(means: str, **targets: float) -> Figure:
    return Figure("/s", Better.MORE, means, _grounds(targets))


def millis(means: str, **targets: float) -> Figure:
    return Figure("ms", Better.LESS, means, _grounds(targets))


def times(means: str, **targets: float) -> Figure:
    """A ratio that should be large."""
    return Figure("x", Better.MORE, means, _grounds(targets))


def cost(means: str, **targets: float) -> Figure:
    """A ratio that should be small."""
    return Figure("x", Better.LESS, means, _grounds(targets))


def failures(means: str) -> Figure:
    return Figure("", Better.LESS, means, {ANYWHERE: 0})


def _grounds(targets: Mapping[str, float]) -> dict[str, float]:
    named = {
        "anywhere": ANYWHERE,
        "sqlite": SQLITE,
        "postgres": POSTGRES,
        "slow_flush": SLOW_FLUSH,
    }
    return {named[name]: value for name, value in targets.items()}


GROUPS = {
    "engine": "The Python API in one process, and several processes on one store.",
    "stores": "What only a database server shows: rivals for its locks, slow disks, large tables.",
    "gate": "Redis in front of the database.",
    "http": "`holdfast serve` under wrk, which shares the machine with it.",
    "checkout": "Hold and order over HTTP, with a payment in between.",
    "relay": "Facts from the log to a broker.",
    "live": "The live seat map, from the log to those who watch.",
    "pages": "The seat map in headless Chromium without a graphics processor, on the same machine.",
    "rivals": "Other libraries, through their public API, on the same server in the same run.",
}

MEASUREMENTS: dict[str, Measurement] = {
    "group_commit": Measurement(
        "engine",
        "Holds of one seat by 1,000 tasks, in turns with the same in batches of one.",
        {
            "holds_per_second": rate("holds of one seat", sqlite=15_000),
            "p50_ms": millis("half of them answered within"),
            "p99_ms": millis("99 % of them answered within"),
            "holds_per_second_batch_of_1": rate("each in a transaction of its own"),
            "ratio": times("group commit to batches of one", sqlite=8),
        },
    ),
    "hot_pool": Measurement(
        "engine",
        "1,000 buyers on one counter row.",
        {
            "holds_per_second": rate("holds of one unit of one pool", postgres=12_000),
            "p50_ms": millis("half of them answered within"),
            "p99_ms": millis("99 % of them answered within"),
        },
    ),
    "refusals": Measurement(
        "engine",
        "A crowd that the authority refuses, without gate and refusal cache.",
        {
            "refusals_per_second": rate("refusals of a seat that is gone"),
            "p99_ms": millis("99 % of them answered within"),
            "memory_growth_mb": Figure(
                "MB", Better.LESS, "memory that all those refusals leave behind", {ANYWHERE: 10}
            ),
        },
    ),
    "processes": Measurement(
        "engine",
        "Four processes that write the same store as fast as they can.",
        {
            "holds_per_second": rate("holds of all four together"),
            "p99_ms": millis("99 % of them answered within"),
            "largest_to_smallest": cost("the largest share to the smallest", anywhere=2),
        },
    ),
    "best_available": Measurement(
        "engine",
        "The choice of 1 to 10 seats together in a house of 60,000, which is computing alone.",
        {
            f"{name}_ms_{percent}_percent_sold": millis(f"{means}, {percent} % sold", **target)
            for percent in (0, 50, 98)
            for name, means, target in (
                ("first_choice_worst", "the first choice, which builds its index, at worst", {}),
                ("choice_p50", "half of all later choices within", {}),
                ("choice_worst", "a later choice at worst", {"anywhere": 5.0}),
            )
        },
    ),
    "baskets": Measurement(
        "stores",
        "Holds of 1 to 4 seats, in turns with one guarded update and insert for each seat in a "
        "transaction of its own, over the best of 1 to 32 connections.",
        {
            "holds_per_second": rate("holds of 1 to 4 seats", postgres=12_000),
            "seats_per_second": rate("their seats"),
            "single_seat_holds_per_second": rate("holds of one seat"),
            "one_transaction_for_each_seat_per_second": rate("seats, one transaction each"),
            "ratio_of_seats": times("seats, to one transaction each", postgres=5),
            "ratio_of_single_seat_holds": times("holds of one seat, to one transaction each"),
        },
    ),
    "paced": Measurement(
        "stores",
        "Four processes on one event, together at a steady 4,000 holds a second.",
        {
            "holds_per_second": rate("holds that were answered"),
            "p50_ms": millis("half of them answered within"),
            "p99_ms": millis("99 % of them answered within", slow_flush=60),
        },
    ),
    "large_event": Measurement(
        "stores",
        "Hold and release, in turns in a small event and in one a hundred times as large.",
        {
            "pairs_per_second_small": rate("hold and release in the small one"),
            "pairs_per_second_large": rate("hold and release in the large one"),
            "ratio": times("large to small", anywhere=0.5),
        },
    ),
    "long_log": Measurement(
        "stores",
        "Hold and release, in turns with a log of 10,000 facts and with one of ten million.",
        {
            "pairs_per_second_short_log": rate("hold and release with the short log"),
            "pairs_per_second_long_log": rate("hold and release with the long log"),
            "ratio": times("long to short", anywhere=0.8),
        },
    ),
    "gate": Measurement(
        "gate",
        "A hot seat with gate and refusal cache, in turns with neither; holds under each policy.",
        {
            "refusals_per_second_without": rate("refusals without gate and cache"),
            "refusals_per_second_with_gate_and_cache": rate("refusals with both"),
            "ratio_of_refusals": times("with, to without", anywhere=5),
            "holds_per_second_authority": rate("holds under policy authority"),
            "holds_per_second_two_layer": rate("holds under policy two-layer"),
            "holds_per_second_gate": rate("holds under policy gate"),
            "two_layer_to_authority": times("two-layer to authority", anywhere=0.55),
            "gate_to_two_layer": times("gate to two-layer", anywhere=1.5),
        },
    ),
    "http": Measurement(
        "http",
        "200 connections, in turns on empty Falcon handlers on the same server, unique seats and "
        "one hot seat; then holds while others read a map of 20,000 seats.",
        {
            "empty_handler_per_second": rate("a handler that takes the same JSON, and no more"),
            "deaf_handler_per_second": rate("one that does not even take it"),
            "holds_per_second": rate("holds of one seat", postgres=6_000),
            "holds_ratio": times("holds to the empty handler", postgres=0.4),
            "holds_deaf_ratio": times("holds to the one that takes nothing", postgres=0.4),
            "holds_p99_ms": millis("99 % of holds answered within", postgres=60),
            "refusals_per_second": rate("refusals of a hot seat"),
            "refusals_ratio": times("refusals to the empty handler", postgres=0.6),
            "refusals_p99_ms": millis("99 % of refusals answered within"),
            "maps_per_second_of_20000_seats": rate("maps read"),
            "holds_per_second_meanwhile": rate("holds while maps are read"),
            "holds_p99_ms_meanwhile": millis("99 % of those within", postgres=100),
            "not_as_expected": failures("answers of another kind than asked for"),
        },
    ),
    "checkout": Measurement(
        "checkout",
        "Hold, then order, with the sandbox in process, in turns with the same holds alone.",
        {
            "checkouts_per_second": rate("checkouts, two requests each", postgres=2_500),
            "holds_per_second": rate("holds alone"),
            "a_checkout_costs_so_many_holds": cost("a checkout, in holds", postgres=3.5),
            "p99_ms": millis("99 % of requests answered within"),
            "not_as_expected": failures("answers of another kind than asked for"),
        },
    ),
    "relay": Measurement(
        "relay",
        "From the moment a fact was written to the acknowledgement of the broker.",
        {
            "facts_per_second": rate(
                "facts of one process, from a log that is full", anywhere=10_000
            ),
            "sales_per_second": rate("sales, at a steady rate, whose facts follow"),
            "lag_p50_ms_of_sales": millis("half of those facts arrive within"),
            "lag_p99_ms_of_sales": millis("99 % of those facts arrive within", anywhere=1_000),
            "lag_p50_ms_polling": millis("half of 100 facts a second, by polling alone, within"),
            "lag_p50_ms_with_wake_ups": millis("the same with wake-ups"),
            "lag_p50_ms_wal": millis("the same from the write-ahead log"),
            "wal_to_polling": cost("write-ahead log to polling", anywhere=0.25),
            "slow_sink_facts_per_second": rate("one process, to a sink that takes 5 ms a batch"),
            "slow_sink_facts_per_second_of_2": rate("two processes"),
            "ratio_of_2_processes": times("two to one", anywhere=1.7),
        },
    ),
    "live": Measurement(
        "live",
        "Subscribers of one event in one process; holds in turns with and without them.",
        {
            "frames_per_second": rate("frames handed over, to all together"),
            "lag_p50_ms": millis("half of all frames later than their oldest fact by"),
            "lag_p99_ms": millis("99 % of all frames within", anywhere=1_000),
            "holds_per_second_unwatched": rate("holds that nobody watches"),
            "holds_per_second_watched": rate("holds that all of them watch"),
            "ratio": times("watched to unwatched", anywhere=0.5),
        },
    ),
    "watchers": Measurement(
        "live",
        "2,000 WebSockets, of which 20 never read, on one event of `holdfast serve` while 1,000 of "
        "its seats change in a second; holds in turns there and in an event that nobody watches.",
        {
            "seats_per_second": rate("seats that change, through the HTTP API", anywhere=950),
            "holds_p99_ms_unwatched": millis("99 % of holds that nobody watches within"),
            "holds_p99_ms_watched": millis("99 % of holds that all of them watch within"),
            "p99_ratio": cost("watched to unwatched", anywhere=2),
            "frames_per_second_each": rate("frames to each that reads", anywhere=1),
            "encodings_per_frame": cost("times that each frame was encoded, for all", anywhere=1),
            "memory_growth_mb": Figure(
                "MB", Better.LESS, "memory that the server takes meanwhile", {ANYWHERE: 50}
            ),
            "not_as_expected": failures(
                "watchers with a gap or another map in the end than the authority's, holds that "
                "failed"
            ),
        },
    ),
    "pages": Measurement(
        "pages",
        "A stadium of 60,000 seats: opened, dragged about for 3 seconds at a zoom where seats are "
        "discs, then the same and clicks while 2,000 of its seats change in a second.",
        {
            "first_paint_ms": millis("from the data to the first picture", anywhere=1_000),
            "read_ms": millis("to read the data, before that"),
            "pan_frames_per_second": rate("pictures while it is dragged", anywhere=50),
            "pan_worst_frame_ms": millis("from one picture to the next at worst"),
            "changes_per_second": rate("seats that change, through the HTTP API", anywhere=2_000),
            "pan_frames_per_second_meanwhile": rate("pictures while it is dragged then"),
            "input_p50_ms_meanwhile": millis("half of all moves of the mouse shown within"),
            "input_p99_ms_meanwhile": millis("99 % of all moves shown within", anywhere=100),
            "click_worst_ms_meanwhile": millis("a click shown at worst within"),
            "inputs_dropped": failures("moves and clicks that the page did not get or act on"),
            "seats_wrong": failures("seats in another state than the authority's in the end"),
        },
    ),
    "neveroversell": Measurement(
        "rivals",
        "All units of one resource held one by one: by as many callers on both sides, and by as "
        "many as suit each side best.",
        {
            "holds_per_second": rate("neveroversell, so many callers"),
            "p99_ms": millis("99 % of its holds within"),
            "holdfast_holds_per_second": rate("Holdfast, as many callers"),
            "holdfast_p99_ms": millis("99 % of its holds within"),
            "ratio": times("Holdfast to neveroversell", anywhere=10),
            "p99_ratio": cost("p99 of Holdfast to that of neveroversell", anywhere=1),
            "best_holds_per_second": rate("neveroversell, the callers that suit it best"),
            "best_p99_ms": millis("99 % of its holds within"),
            "holdfast_best_holds_per_second": rate("Holdfast, the callers that suit it best"),
            "holdfast_best_p99_ms": millis("99 % of its holds within"),
            "best_ratio": times("Holdfast to neveroversell, each at its best", anywhere=10),
        },
    ),
    "granian": Measurement(
        "rivals",
        "Falcon handlers that do nothing, on Granian and on Holdfast's own HTTP server, and holds "
        "over HTTP, in turns, 200 connections each.",
        {
            "empty_per_second": rate("a handler that takes the same JSON, on Granian"),
            "deaf_per_second": rate("one that does not even take it"),
            "holdfast_empty_per_second": rate("the first on Holdfast's server"),
            "holdfast_deaf_per_second": rate("the second"),
            "empty_ratio": times("Holdfast's server to Granian, the first"),
            "deaf_ratio": times("Holdfast's server to Granian, the second"),
            "holdfast_holds_per_second": rate("holds of one seat"),
            "holds_ratio": times("holds to the first on Granian", postgres=0.4),
            "holds_deaf_ratio": times("holds to the second on Granian", postgres=0.4),
        },
    ),
}


class Spread(msgspec.Struct, frozen=True):
    """A figure over the rounds of a run."""

    median: float
    min: float
    max: float
    rounds: int

    @property
    def width(self) -> float:
        return self.max - self.min


def spread(values: Sequence[float]) -> Spread:
    return Spread(
        _short(statistics.median(values)), _short(min(values)), _short(max(values)), len(values)
    )


def summed_up(name: str, rounds: Sequence[Result]) -> tuple[dict[str, Spread], Result]:
    """Figures with their spread, in the order of the list; and notes, as the last round has
    them."""
    figures = {
        figure: spread([each[figure] for each in rounds if figure in each])
        for figure in MEASUREMENTS[name].figures
        if any(figure in each for each in rounds)
    }
    notes = {key: value for key, value in rounds[-1].items() if key not in figures}
    return figures, notes


def percentile(sorted_values: Sequence[float], share: float) -> float:
    return sorted_values[min(len(sorted_values) - 1, int(share * len(sorted_values)))]


def known(names: Iterable[str]) -> list[str]:
    """The measurements that are meant by names of measurements and of groups, in order. Raises
    KeyError with a name that is neither."""
    wanted: set[str] = set()
    for name in names:
        members = {each for each, about in MEASUREMENTS.items() if about.group == name}
        if name in MEASUREMENTS:
            members.add(name)
        if not members:
            raise KeyError(name)
        wanted |= members
    return [name for name in MEASUREMENTS if name in wanted]


def shown(value: float, unit: str) -> str:
    """As a person reads it: 18,600 and 0.21, not 18600.0 and 0.2103."""
    text = f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"
    return f"{text} {unit}" if unit else text


def _short(value: float) -> float:
    """Four digits are more than any of these are good for."""
    return round(value) if abs(value) >= 1_000 else float(f"{value:.4g}")
