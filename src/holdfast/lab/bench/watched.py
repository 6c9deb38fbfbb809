"""Thousands of WebSockets on one event of a running server, while its seats change.

The crowd, and whoever changes seats, are processes of their own, and all share the machine with the
server. Holds are measured in turns: of the event that all watch, and of one that nobody watches. So
what counts is their ratio.
"""

import json
import os
import secrets
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Self, TypeVar

import msgspec

from holdfast.lab.bench.changing import ROW, Change, Changed
from holdfast.lab.bench.figures import Result, percentile
from holdfast.lab.bench.frames import digest_of_map
from holdfast.lab.bench.http import served
from holdfast.lab.bench.sockets import Gather, Told, Watch

WATCHERS = 2_000
DEAF = 20
"""So many of them never read anything."""
TURNS = 4
TURN_SECONDS = 2.0
SEATS = 2_000
SEATS_PER_SECOND = 1_000
ENCODED = "holdfast_live_frames_encoded_total"
ANSWER_SECONDS = 120

T = TypeVar("T")


class Process:
    """A module of ours, in a process that is told what to do line by line."""

    def __init__(self, module: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"holdfast.lab.bench.{module}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def tell(self, order: msgspec.Struct) -> None:
        # Through the pipe: a key must not show in the list of processes.
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(order) + b"\n")
        self._process.stdin.flush()

    def answer(self, type: type[T]) -> T:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ChildProcessError("a process of the bench ended; its reason is above")
        return msgspec.json.decode(line, type=type)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


class Stage:
    """A running server, a crowd that watches an event of it, and somebody who changes its seats."""

    def __init__(self, url: str, key: str) -> None:
        self.url = url
        self.key = key
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._crowd, self._changer = Process("sockets"), Process("changing")
        self._stack.callback(self._crowd.close)
        self._stack.callback(self._changer.close)
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def get(self, path: str) -> bytes:
        return self._call(path)

    def make_event(self, event: str, seats: int = SEATS) -> None:
        section = {"id": "A", "tier": "any", "rows": -(-seats // ROW), "seats_per_row": ROW}
        self._call("/v1/events", {"id": event, "prices": {"any": 100}, "sections": [section]})

    def watch(self, event: str, watchers: int, **how: int) -> None:
        """Returns when all of them have their snapshot."""
        self._crowd.tell(Watch(self.url, self.key, event, watchers, **how))
        self._crowd.answer(type(None))

    def change(
        self, event: str, seconds: float, seats_per_second: int = SEATS_PER_SECOND
    ) -> Changed:
        self._changer.tell(Change(self.url, self.key, event, SEATS, seats_per_second, seconds))
        return self._changer.answer(Changed)

    def gather(self, event: str) -> tuple[Told, str]:
        """What they were told, once they were told everything; and the authority's map."""
        self._crowd.tell(Gather(json.loads(self.get(f"/v1/events/{event}"))["seq"]))
        told = self._crowd.answer(Told)
        return told, digest_of_map(self.get(f"/v1/events/{event}/seats"))

    def metrics(self) -> dict[str, float]:
        """Those without labels."""
        lines = self.get("/metrics").decode().splitlines()
        pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return {name: float(value) for name, _, value in pairs if "{" not in name}

    def _call(self, path: str, body: object = None) -> bytes:
        sent = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}{path}", sent, headers)
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
            found: bytes = answer.read()
        return found


def memory_bytes(serve: int) -> int:
    """Of the workers of a server."""
    children = Path(f"/proc/{serve}/task/{serve}/children").read_text().split()
    pages = (Path(f"/proc/{child}/statm").read_text().split()[1] for child in children)
    return sum(map(int, pages)) * os.sysconf("SC_PAGE_SIZE")


class Watched:
    """`share` 1.0 is the whole of it."""

    def __init__(self, store: str, share: float) -> None:
        self._store = store
        self._watchers = max(50, int(WATCHERS * share))
        self._deaf = max(1, int(DEAF * share))
        self._seconds = max(0.3, TURN_SECONDS * share)

    def measure(self) -> Result:
        key = secrets.token_urlsafe(18)
        with served(self._store, key) as (url, server), Stage(url, key) as stage:
            return self._measure(stage, server)

    def _measure(self, stage: Stage, server: int) -> Result:
        watched, other = (f"watched-{secrets.token_hex(6)}" for _ in range(2))
        for event in (watched, other):
            stage.make_event(event)
            stage.change(event, self._seconds / 2)
        encoded = stage.metrics()[ENCODED]
        unwatched = [stage.change(other, self._seconds)]
        stage.watch(watched, self._watchers, slow=self._deaf)
        before, began, meanwhile = memory_bytes(server), time.perf_counter(), []
        for _ in range(TURNS):
            meanwhile.append(stage.change(watched, self._seconds))
            unwatched.append(stage.change(other, self._seconds))
        told, map_of_the_authority = stage.gather(watched)
        elapsed = time.perf_counter() - began
        reading = self._watchers - self._deaf
        right = told.ended_in.get(map_of_the_authority, 0)
        p99, p99_watched = _p99_ms(unwatched), _p99_ms(meanwhile)
        return {
            "seats_per_second": sum(each.seats for each in meanwhile)
            / sum(each.seconds for each in meanwhile),
            "holds_p99_ms_unwatched": p99,
            "holds_p99_ms_watched": p99_watched,
            "p99_ratio": p99_watched / p99,
            # Of one half of the time nothing is to be told.
            "frames_per_second_each": 2 * (told.frames - told.snapshots) / reading / elapsed,
            "encodings_per_frame": (stage.metrics()[ENCODED] - encoded) / told.different_frames,
            "memory_growth_mb": max(0.0, (memory_bytes(server) - before) / 1e6),
            "not_as_expected": told.gaps
            + (reading - right)
            + sum(each.failed for each in (*meanwhile, *unwatched)),
            "watchers": self._watchers,
            "that_never_read": self._deaf,
        }


def _p99_ms(changed: Iterable[Changed]) -> float:
    """The median of what each turn gave: a machine that stood still for a moment is in one."""
    return statistics.median(percentile(sorted(each.latencies_ms), 0.99) for each in changed)
