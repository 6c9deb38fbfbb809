"""Holds over HTTP: `holdfast serve` under wrk, against empty handlers on the same server.

Everything shares the machine: wrk, the server, the database. What counts are ratios, taken in
turns within one run. An empty handler is asked what holds are asked for: the same bytes.
"""

import json
import os
import re
import secrets
import shutil
import signal
import statistics
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.api.supervisor import listen, url_of
from holdfast.errors import SettingsError

ROUNDS = 3
CONNECTIONS = 200
ROW = 1_000
MAP_SEATS = 20_000
READERS = 4

POST = """
-- The same head for every request: to have it put together each time would cost the machine, which
-- both sides share, a tenth of what is measured.
local function post(path, more, body)
  return "POST " .. path .. " HTTP/1.1\\r\\nHost: localhost\\r\\n" .. more
    .. "Authorization: Bearer {key}\\r\\nContent-Type: application/json\\r\\nContent-Length: "
    .. #body .. "\\r\\n\\r\\n" .. body
end
local n = 0
"""
HOLDS = (
    POST
    + """
request = function()
  n = n + 1
  local seat = "S-" .. (math.floor((n - 1) / {row}) + 1) .. "-" .. ((n - 1) % {row} + 1)
  return post("{path}", "", '{{"buyer":"b' .. n .. '","seats":["' .. seat .. '"]}}')
end
"""
)
REFUSALS = (
    POST
    + """
request = function()
  n = n + 1
  return post("{path}", "", '{{"buyer":"r' .. n .. '","seats":["S-1-2"]}}')
end
"""
)
CHECKOUTS = (
    POST
    + """
local behind = {behind}
local function hold(k)
  local seat = "S-" .. (math.floor((k - 1) / {row}) + 1) .. "-" .. ((k - 1) % {row} + 1)
  local body = '{{"buyer":"b' .. k .. '","id":"h' .. k .. '","seats":["' .. seat .. '"]}}'
  return post("{path}", "", body)
end
local function order(k)
  local body = '{{"hold":"{event}.h' .. k .. '","payment":{{"method":"sandbox:ok"}}}}'
  return post("/v1/orders", "Idempotency-Key: {event}-" .. k .. "\\r\\n", body)
end
-- Holds and orders in turns. wrk asks for one request that it never sends: hold 1. An order follows
-- its hold after a while: by then it was answered, whichever connection it came by.
request = function()
  n = n + 1
  if n <= behind or {holds_only} then return hold(n) end
  local m = n - behind
  if m % 2 == 1 then return order((m + 3) / 2) end
  return hold(behind + m / 2)
end
"""
)
BEHIND = 600
NOTHING = "/nothing"
DEAF = "/deaf"
MAP = """
wrk.headers["Authorization"] = "Bearer {key}"
wrk.headers["Accept-Encoding"] = "gzip"
"""


class Run(NamedTuple):
    """What wrk tells."""

    rate: float
    p99_ms: float
    answers: int
    failed: int
    """Not 2xx, and for those that should be refused, refused."""


class Http:
    def __init__(self, store: str, gate: str | None, folder: Path, seconds: float) -> None:
        self._wrk = shutil.which("wrk")
        if self._wrk is None:
            raise SettingsError("figures over HTTP need wrk: install it (Debian: apt install wrk)")
        self._store = store
        self._gate = gate
        self._folder = folder
        self._seconds = max(1, round(seconds))
        self._key = secrets.token_urlsafe(18)

    def measure(self, rounds: int = ROUNDS) -> dict[str, Any]:  # ready for JSON
        with self._empty() as empty, self._served() as (url, _):
            turns = [self._turn(empty, url) for _ in range(rounds)]
            reading = self._reading(url)
        rate = {name: statistics.median(turn[name].rate for turn in turns) for name in turns[0]}
        ratio = {
            name: statistics.median(turn[name].rate / turn["empty"].rate for turn in turns)
            for name in ("holds", "refusals")
        }
        to_deaf = statistics.median(turn["holds"].rate / turn["deaf"].rate for turn in turns)
        return {
            "empty_handler_per_second": round(rate["empty"]),
            "deaf_handler_per_second": round(rate["deaf"]),
            "holds_per_second": round(rate["holds"]),
            "holds_ratio": round(ratio["holds"], 2),
            "holds_deaf_ratio": round(to_deaf, 2),
            "holds_p99_ms": round(statistics.median(t["holds"].p99_ms for t in turns), 1),
            "refusals_per_second": round(rate["refusals"]),
            "refusals_ratio": round(ratio["refusals"], 2),
            "refusals_p99_ms": round(statistics.median(t["refusals"].p99_ms for t in turns), 1),
            "not_as_expected": sum(
                turn["holds"].failed + turn["refusals"].answers - turn["refusals"].failed
                for turn in turns
            ),
            "connections": CONNECTIONS,
            **reading,
        }

    def checkouts(self, rounds: int = ROUNDS) -> dict[str, Any]:  # ready for JSON
        """Hold, then order, two requests each, with the sandbox in process; and holds alone."""
        with self._served() as (url, _):
            turns = [self._checkout_turn(url) for _ in range(rounds)]
        cost = statistics.median(holds.rate / (both.rate / 2) for holds, both in turns)
        return {
            "checkouts_per_second": round(statistics.median(both.rate / 2 for _, both in turns)),
            "holds_per_second": round(statistics.median(holds.rate for holds, _ in turns)),
            "a_checkout_costs_so_many_holds": round(cost, 2),
            "p99_ms": round(statistics.median(both.p99_ms for _, both in turns), 1),
            "not_as_expected": sum(holds.failed + both.failed for holds, both in turns),
            "connections": CONNECTIONS,
        }

    def beside(self, other: str) -> dict[str, float]:
        """Rates of both empty handlers, there and here, and of holds, in one turn."""
        with self._empty() as empty, self._served() as (url, _):
            runs = {
                "beside": self._run(other, HOLDS, NOTHING),
                "beside_deaf": self._run(other, HOLDS, DEAF),
                "empty": self._run(empty, HOLDS, NOTHING),
                "deaf": self._run(empty, HOLDS, DEAF),
                "holds": self._run(url, HOLDS, self._on_sale(url)),
            }
            return {name: run.rate for name, run in runs.items()}

    def _checkout_turn(self, url: str) -> tuple[Run, Run]:
        """The same holds, alone and with their orders."""
        runs = []
        for script in (CHECKOUTS.replace("{holds_only}", "true"), CHECKOUTS):
            event = f"http-{secrets.token_hex(6)}"
            self._make(url, event, round(self._seconds * 40_000))
            runs.append(self._run(url, script, f"/v1/events/{event}/holds", event=event))
        return runs[0], runs[1]

    def _turn(self, empty: str, url: str) -> dict[str, Run]:
        path = self._on_sale(url)
        return {
            "empty": self._run(empty, HOLDS, NOTHING),
            "deaf": self._run(empty, HOLDS, DEAF),
            "holds": self._run(url, HOLDS, path),
            "refusals": self._run(url, REFUSALS, path),
        }

    def _reading(self, url: str) -> dict[str, Any]:  # as above
        """Holds while others read a map of 20,000 seats as fast as they can."""
        path, read = self._on_sale(url), f"http-map-{secrets.token_hex(6)}"
        self._make(url, read, MAP_SEATS)
        seats = f"/v1/events/{read}/seats"
        with self._started(url + seats, MAP, "", READERS) as readers:
            holds = self._run(url, HOLDS, path, 50)
            maps = _read(readers.communicate()[0])
        return {
            "maps_per_second_of_20000_seats": round(maps.rate, 1),
            "holds_per_second_meanwhile": round(holds.rate),
            "holds_p99_ms_meanwhile": round(holds.p99_ms, 1),
        }

    def _run(
        self, url: str, script: str, path: str, connections: int = CONNECTIONS, event: str = ""
    ) -> Run:
        with self._started(url, script, path, connections, event) as wrk:
            return _read(wrk.communicate()[0])

    @contextmanager
    def _started(
        self, url: str, script: str, path: str, connections: int, event: str = ""
    ) -> Iterator["subprocess.Popen[str]"]:
        file = self._folder / f"{secrets.token_hex(6)}.lua"
        names = {"key": self._key, "path": path, "row": ROW, "event": event, "behind": BEHIND}
        names["holds_only"] = "false"
        file.write_text(script.format(**names))
        assert self._wrk is not None
        options = ("-t1", f"-c{connections}", f"-d{self._seconds}", "--latency", "-s", str(file))
        wrk = subprocess.Popen(
            [self._wrk, *options, url], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            yield wrk
        finally:
            wrk.kill()
            wrk.wait()

    def _on_sale(self, url: str) -> str:
        """Where the seats of a new event are held; more than there is time for."""
        event = f"http-{secrets.token_hex(6)}"
        self._make(url, event, round(self._seconds * 40_000))
        return f"/v1/events/{event}/holds"

    def _make(self, url: str, event: str, seats: int) -> None:
        section = {"id": "S", "tier": "any", "rows": -(-seats // ROW), "seats_per_row": ROW}
        body = {"id": event, "prices": {"any": 100}, "sections": [section]}
        request = urllib.request.Request(
            f"{url}/v1/events",
            json.dumps(body).encode(),
            {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"},
        )
        urllib.request.urlopen(request, timeout=120).close()

    def _served(self) -> AbstractContextManager[tuple[str, int]]:
        return served(self._store, self._key, gate=self._gate or "none")

    @contextmanager
    def _empty(self) -> Iterator[str]:
        with listen("127.0.0.1", 0) as listener:
            empty = subprocess.Popen(
                [sys.executable, "-m", "holdfast.lab.bench.empty", str(listener.fileno())],
                pass_fds=(listener.fileno(),),
            )
            try:
                yield url_of(listener)
            finally:
                empty.send_signal(signal.SIGTERM)
                empty.wait()


@contextmanager
def served(store: str, key: str, **settings: str) -> Iterator[tuple[str, int]]:
    """`holdfast serve` on that store, with that admin key: where it serves, and its process."""
    given = {
        "HOLDFAST_STORE": store,
        "HOLDFAST_ADMIN_KEY": key,
        "HOLDFAST_LOG_LEVEL": "error",
        "HOLDFAST_PAYMENTS": "sandbox",
        **{f"HOLDFAST_{name.upper()}": value for name, value in settings.items()},
    }
    serve = subprocess.Popen(
        [sys.executable, "-m", "holdfast.cli", "serve", "--port", "0"],
        env={**os.environ, **given},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert serve.stdout is not None
        said = serve.stdout.readline()
        found = re.search(r"serves (http://\S+)", said)
        if found is None:
            raise SettingsError(f"holdfast serve did not start: {said.strip()}")
        yield found[1], serve.pid
    finally:
        serve.send_signal(signal.SIGTERM)
        serve.communicate()


def _read(printed: str) -> Run:
    rate = re.search(r"Requests/sec:\s+([\d.]+)", printed)
    p99 = re.search(r"99%\s+([\d.]+)(us|ms|s)", printed)
    answers = re.search(r"(\d+) requests in", printed)
    failed = re.search(r"Non-2xx or 3xx responses: (\d+)", printed)
    if rate is None or p99 is None or answers is None:
        raise SettingsError(f"wrk said: {printed.strip()[-200:]}")
    millis = float(p99[1]) * {"us": 0.001, "ms": 1.0, "s": 1000.0}[p99[2]]
    return Run(float(rate[1]), millis, int(answers[1]), int(failed[1]) if failed else 0)
