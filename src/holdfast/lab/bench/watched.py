"""Thousands of WebSockets on one event of a running server, while its seats change.

The crowd and whoever changes seats are processes of their own, and all share the machine with the
server. Holds are measured in turns without and with the crowd, so what counts is their ratio.
"""

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec

from holdfast.lab.bench.changing import ROW, Change, Changed
from holdfast.lab.bench.frames import digest_of_map
from holdfast.lab.bench.sockets import Gather, Leave, Told, Watch

SEATS = 2_000
SEATS_PER_SECOND = 1_000
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

    def leave(self) -> None:
        self._crowd.tell(Leave())
        self._crowd.answer(type(None))

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
