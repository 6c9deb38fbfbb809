"""Where the bench measures what: in one place that was named, or with `--servers` on private
servers, one ground after the other, so that none disturbs another."""

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from holdfast.errors import HoldfastError, SettingsError
from holdfast.lab.bench import runs
from holdfast.lab.bench.bench import EMBEDDED, Bench, Progress, ground_of
from holdfast.lab.bench.figures import (
    GATED,
    LOGICAL,
    MARIADB,
    MEASUREMENTS,
    POSTGRES,
    SLOW_FLUSH,
    SQLITE,
)
from holdfast.lab.bench.runs import LeftOut, Measured

NO_BROKER = "no broker: name one with --broker kafka://host:port"
RIVALS = ("neveroversell", "granian")
ON_REQUEST = ("long_log", *RIVALS)
"""One writes gigabytes, and the others are fetched from a package registry."""


class Ground(NamedTuple):
    name: str
    servers: Mapping[str, Mapping[str, str]]
    """Kinds of `lab.servers`, with settings other than their own."""
    names: Sequence[str]


GROUNDS = (
    Ground(SQLITE, {}, (*EMBEDDED, "pages")),
    Ground(
        POSTGRES,
        {"Postgres": {}},
        (
            *("group_commit", "hot_pool", "refusals", "processes", "baskets", "paced"),
            *("large_event", "long_log", "http", "checkout", "live", "watchers"),
            *RIVALS,
        ),
    ),
    Ground(SLOW_FLUSH, {"Postgres": {"commit_delay": "8000", "commit_siblings": "0"}}, ("paced",)),
    Ground(GATED, {"Postgres": {}, "Redis": {}}, ("gate",)),
    Ground(LOGICAL, {"Postgres": {"wal_level": "logical"}}, ("relay",)),
    Ground(MARIADB, {"MariaDB": {}}, ("hot_pool", "baskets", "paced", "large_event")),
)


class Addresses(NamedTuple):
    store: str | None = None
    gate: str | None = None
    broker: str | None = None


class Session:
    """What is measured in one run of the bench."""

    def __init__(self, folder: Path, progress: Progress, scale: float, rounds: int) -> None:
        self._folder = folder
        self._progress = progress
        self._scale = scale
        self._rounds = rounds
        self.measured: list[Measured] = []
        self.left_out: list[LeftOut] = []
        self.versions: dict[str, str] = {}

    def run_at(self, addresses: Addresses, names: Sequence[str]) -> None:
        """Everything that is named, in one place. What cannot be measured there raises."""
        with self._bench(addresses) as bench:
            for name in names:
                self._measure(bench, ground_of(addresses.store), name)

    def run_on_servers(self, names: Sequence[str], broker: str | None) -> None:
        """Everything that is named, on each ground that it is for. What cannot be measured is left
        out, and the rest goes on."""
        for ground in GROUNDS:
            if wanted := [name for name in ground.names if name in names]:
                if wanted == ["relay"] and broker is None:
                    self._leave_out(ground.name, wanted, NO_BROKER)
                    continue
                try:
                    with self._opened(ground, broker) as addresses:
                        self._run_here(addresses, ground.name, wanted)
                except SettingsError as missing:
                    self._leave_out(ground.name, wanted, str(missing))

    def _run_here(self, addresses: Addresses, ground: str, names: Sequence[str]) -> None:
        with self._bench(addresses) as bench:
            for name in names:
                try:
                    self._measure(bench, ground, name)
                except (HoldfastError, OSError, AssertionError) as trouble:
                    lines = str(trouble).splitlines() or [type(trouble).__name__]
                    self._leave_out(ground, [name], lines[0])

    def _measure(self, bench: Bench, ground: str, name: str) -> None:
        rounds = asyncio.run(bench.measure(name, self._rounds))
        self.measured.append(runs.measured(name, ground, rounds))

    def _leave_out(self, ground: str, names: Sequence[str], why: str) -> None:
        self.left_out += [LeftOut(name, ground, why) for name in names]

    @contextmanager
    def _bench(self, addresses: Addresses) -> Iterator[Bench]:
        store, gate, broker = addresses
        bench = Bench(store, self._folder, self._progress, self._scale, gate, broker)
        with closing(bench):
            yield bench

    @contextmanager
    def _opened(self, ground: Ground, broker: str | None) -> Iterator[Addresses]:
        """Raises SettingsError where the machine lacks a server."""
        from holdfast.lab import servers  # of no use to whoever brings his own

        found: dict[str, str] = {}
        with ExitStack() as stack:
            for kind, settings in ground.servers.items():
                self._progress(f"{kind} is being started")
                try:
                    made: type[servers.Postgres | servers.MariaDB | servers.Redis] = getattr(
                        servers, kind
                    )
                    set_up = {**made.sized, **settings}
                    server = stack.enter_context(servers.own_server(made, **set_up))
                except (servers.MissingServer, RuntimeError) as trouble:
                    raise SettingsError(str(trouble)) from trouble
                # The number alone: distributions add much to it.
                number = re.search(r"\d+(\.\d+)+", server.version)
                self.versions[server.name] = number[0] if number else server.version
                found["gate" if kind == "Redis" else "store"] = server.url
            yield Addresses(**found, broker=broker)


def everything(rivals: bool) -> list[str]:
    """What `--servers` measures where nothing is named."""
    asked = RIVALS if rivals else ()
    return [name for name in MEASUREMENTS if name not in ON_REQUEST or name in asked]
