"""Metrics: they say what was done, of all workers together, and never take it back."""

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

from holdfast import Holdfast
from holdfast.api.charts import Charts
from holdfast.api.metrics import METRICS, Metrics
from holdfast.api.tallies import FOLDER, Tallies, Tally
from holdfast.domain.outcomes import Reason, Refused
from holdfast.followers.crew import Crew
from holdfast.followers.live import Live
from tests.api.conftest import make_event
from tests.api.serving import Served, serving

pytestmark = pytest.mark.slow

HOLDS = "POST /v1/events/{event}/holds"
WAIT_SECONDS_MAX = 20.0


class Scrape(dict[tuple[str, frozenset[tuple[str, str]]], float]):
    """Every sample by its name and labels."""

    def __init__(self, text: str) -> None:
        self.kinds: dict[str, str] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                assert (sample.name, frozenset(sample.labels.items())) not in self, "twice"
                self[sample.name, frozenset(sample.labels.items())] = sample.value
                self.kinds[sample.name] = family.type

    def value(self, name: str, **labels: str) -> float:
        return self.get((name, frozenset(labels.items())), 0.0)

    def counters(self) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        return {key: value for key, value in self.items() if self.kinds[key[0]] != "gauge"}


def scrape(served: Served) -> Scrape:
    """On a connection of its own, so that any worker may answer."""
    answer = requests.get(f"{served.url}/metrics", timeout=30)
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    return Scrape(answer.text)


def scrapes(served: Served, until: Callable[[Scrape], bool]) -> Iterator[Scrape]:
    """One after the other, up to the first that is as it should be."""
    ends = time.monotonic() + WAIT_SECONDS_MAX
    while time.monotonic() < ends:
        try:
            seen = scrape(served)
        except requests.ConnectionError:
            continue  # the only worker was killed while it answered
        yield seen
        if until(seen):
            return
        time.sleep(0.05)
    pytest.fail(f"never came to be; the last was {dict(seen)}")


def children(served: Served) -> set[int]:
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            after = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(after[1]) == served.process.pid and after[0] != "Z":
            found.add(int(stat.parent.name))
    return found


def hold(served: Served, event: str, buyer: str, seat: str) -> requests.Response:
    body = {"buyer": buyer, "seats": [seat]}
    return served.call("POST", f"/v1/events/{event}/holds", body)


def test_counters_match_what_was_done(served, event):
    before = scrape(served)
    assert [hold(served, event, f"u-{n}", f"A-1-{n}").status_code for n in (1, 2, 3)] == [201] * 3
    assert hold(served, event, "u-4", "A-1-1").status_code == 409
    assert hold(served, event, "u-4", "Z-1-1").status_code == 422
    after = scrape(served)

    def grew(name: str, **labels: str) -> float:
        return after.value(name, **labels) - before.value(name, **labels)

    assert grew("holdfast_requests_total", route=HOLDS, status="201") == 3
    assert grew("holdfast_requests_total", route=HOLDS, status="409") == 1
    assert grew("holdfast_requests_total", route=HOLDS, status="422") == 1
    assert grew("holdfast_request_seconds_count", route=HOLDS) == 5
    assert grew("holdfast_request_seconds_bucket", route=HOLDS, le="+Inf") == 5
    assert 0 < grew("holdfast_request_seconds_sum", route=HOLDS) < 30
    assert grew("holdfast_outcomes_total", outcome="placed", reason="") == 3
    assert grew("holdfast_outcomes_total", outcome="refused", reason="taken") == 1
    assert grew("holdfast_outcomes_total", outcome="refused", reason="unknown_unit") == 1
    # One after the other, each was a batch of its own; upkeep may have had some besides.
    assert grew("holdfast_batch_commands_bucket", le="1.0") >= 5
    assert grew("holdfast_batch_seconds_count") == grew("holdfast_batch_commands_count")


def test_how_things_stand_is_shown_too(served, event):
    seen = scrape(served)
    assert seen.value("holdfast_in_hand") == 1  # the scrape itself
    assert seen.value("holdfast_workers") == 1
    assert seen.value("holdfast_worker_starts_total") == 1
    for name in ("holdfast_lane_commands", "holdfast_lane_commands_max"):
        assert (name, frozenset()) in seen
        assert seen.value(name) == 0
    assert ("holdfast_gate_up", frozenset()) not in seen


def test_a_refusal_from_memory_is_counted_as_such(served, event):
    hold(served, event, "u-1", "A-1-1")
    before = scrape(served).value("holdfast_refusals_remembered_total")

    def refused_again(seen: Scrape) -> bool:
        hold(served, event, "u-2", "A-1-1")
        return seen.value("holdfast_refusals_remembered_total") > before

    assert list(scrapes(served, refused_again))


def test_labels_name_no_event_and_no_buyer(served, event):
    hold(served, event, "u-of-the-labels", "A-1-1")
    served.call("GET", f"/v1/events/{event}")
    served.call("GET", "/v1/events/no-such-event")
    text = requests.get(f"{served.url}/metrics", timeout=30).text
    assert event not in text
    assert "no-such-event" not in text
    assert "u-of-the-labels" not in text


async def test_every_metric_is_explained_in_the_docs():
    page = Path(__file__).parents[2] / "docs" / "observing.md"
    assert re.findall(r"^\| `(holdfast_\w+)`", page.read_text(), re.MULTILINE) == list(METRICS)


async def test_a_gate_is_up_or_passed_by():
    # Not opened: nobody looks whether the gate is back.
    shop = Holdfast.open("memory://", gate="memory://", policy="two-layer")
    metrics = Metrics(shop, lags=lambda: {"live": 7})
    up = Scrape((await metrics.export()).decode())
    assert shop.keeper is not None
    shop.keeper._fail("it was pulled out", trial=False)
    shop.keeper.passed_by += 5
    down = Scrape((await metrics.export()).decode())
    assert (up.value("holdfast_gate_up"), down.value("holdfast_gate_up")) == (1, 0)
    assert ("holdfast_gate_up", frozenset()) in down
    assert down.value("holdfast_gate_failures_total") == 1
    assert down.value("holdfast_gate_passed_by_total") == 5
    assert down.value("holdfast_log_lag_facts", follower="live") == 7


async def test_every_metric_is_exported_and_every_reason_from_the_start():
    gated = {"gate": "memory://", "policy": "two-layer"}
    async with Holdfast.open("memory://", broker="memory://", upkeep=True, **gated) as shop:
        live = Live(shop, Charts(shop))
        metrics = Metrics(shop, lags=lambda: {"live": 0}, crew=Crew(shop), live=live)
        metrics.outcome(Refused(Reason.SOLD_OUT))
        metrics.answered("GET /", 200, 0.001)
        seen = Scrape((await metrics.export()).decode())
    exported = {name.removesuffix("_count") for name, _ in seen}
    assert METRICS.keys() <= exported
    for reason in Reason:
        counted = ("holdfast_outcomes_total", {("outcome", "refused"), ("reason", reason.value)})
        assert seen[counted[0], frozenset(counted[1])] == (reason is Reason.SOLD_OUT)
    # A bound belongs to its own bucket.
    assert seen.value("holdfast_request_seconds_bucket", route="GET /", le="0.001") == 1


def test_a_scrape_is_the_sum_over_the_workers_and_a_killed_one_takes_nothing_back(tmp_path):
    store = f"sqlite:///{tmp_path / 'shop.db'}"
    options = {"sqlite_synchronous": "NORMAL", "workers": 2}
    with serving(store, cwd=tmp_path, **options) as served:
        event = make_event(served)
        for n in range(40):
            # On connections of their own, so that both workers get some.
            body = {"buyer": f"u-{n}", "pools": {"floor": 1}}
            served.session.close()
            made = served.call("POST", f"/v1/events/{event}/holds", body)
            assert made.status_code == 201
        placed = {"outcome": "placed", "reason": ""}

        def whole(seen: Scrape) -> bool:
            return seen.value("holdfast_outcomes_total", **placed) == 40

        last = list(scrapes(served, whole))[-1]
        assert last.value("holdfast_workers") == 2
        assert last.value("holdfast_requests_total", route=HOLDS, status="201") == 40

        old = children(served)
        assert len(old) == 2
        for pid in old:
            last = scrape(served)
            os.kill(pid, signal.SIGKILL)
            last = check_growth(served, last, old)
        assert last.value("holdfast_outcomes_total", **placed) == 40
        assert last.value("holdfast_worker_starts_total") == 4


def check_growth(served: Served, last: Scrape, old: set[int]) -> Scrape:
    """Every scrape shows at least what the one before did, until a new worker serves."""
    started = last.value("holdfast_worker_starts_total")

    def replaced(seen: Scrape) -> bool:
        starts = seen.value("holdfast_worker_starts_total")
        return starts > started and seen.value("holdfast_workers") == 2

    for seen in scrapes(served, replaced):
        for key, value in last.counters().items():
            assert seen.get(key, -1) >= value, key
        last = seen
    return last


def test_the_numbers_on_file_go_when_the_service_does(tmp_path):
    with serving("memory://", cwd=tmp_path) as served:
        (worker,) = children(served)
        folder = folder_of(worker)
        assert list(folder.glob("*.json"))
    assert not folder.exists()


def test_they_go_too_when_the_supervisor_is_killed(tmp_path):
    with serving("memory://", cwd=tmp_path) as served:
        (worker,) = children(served)
        folder = folder_of(worker)
        served.process.kill()
        ends = time.monotonic() + WAIT_SECONDS_MAX
        while folder.exists() and time.monotonic() < ends:
            time.sleep(0.02)
    assert not folder.exists()


def folder_of(worker: int) -> Path:
    environment = Path(f"/proc/{worker}/environ").read_text().split("\0")
    return Path(dict(each.split("=", 1) for each in environment if each)[FOLDER])


def test_what_the_dead_have_counted_stays_and_how_they_stood_does_not(tmp_path):
    tallies = Tallies(tmp_path)
    for _ in range(3):
        tallies.write(Tally([("a", ("x",), [1, 2.5])], [("b", (), 4)]))
        living, dead = tallies.read()
        assert [each.standing for each in living] == [[("b", (), 4)]]
        tallies.bury(os.getpid())
        living, dead = tallies.read()
        assert living == []
        tallies = Tallies(tmp_path)  # the next worker
    assert dead.counted == [("a", ("x",), [3, 7.5])]
    assert (dead.standing, dead.workers) == ([], 3)


def test_a_reader_between_two_steps_of_a_burial_counts_nobody_twice(tmp_path):
    tallies = Tallies(tmp_path)
    tallies.write(Tally([("a", (), [1])]))
    (file,) = tmp_path.glob("*.json")
    before = file.read_bytes()
    tallies.bury(os.getpid())
    file.write_bytes(before)  # as if it had not been removed yet
    living, dead = tallies.read()
    assert (living, dead.counted) == ([], [("a", (), [1])])
