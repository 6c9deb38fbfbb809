"""The contract of `holdfast stampede`: what it prints, how it ends, and what it leaves behind."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.client import ClientError, LogPage
from holdfast.lab import remote
from holdfast.lab.stampede import Found, Report, Tally, house, merged, report
from tests.api.serving import ADMIN, Served, interruptible, serving
from tests.client.conftest import connect

KEYS = [
    *("buyers", "seats", "sold", "rejected", "errors", "oversold"),
    *("elapsed_ms", "p50_ms", "p99_ms", "store", "gate", "policy"),
]


def holdfast(folder: Path, *args: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    """The real program in that folder, with no settings but those given here."""
    clean = {name: text for name, text in os.environ.items() if not name.startswith("HOLDFAST_")}
    return subprocess.run(
        [sys.executable, "-m", "holdfast", *args],
        cwd=folder,
        env={**clean, **environ},
        capture_output=True,
        text=True,
        timeout=100,
    )


def stampede(folder: Path, *args: str, **environ: str) -> dict[str, Any]:
    done = holdfast(folder, "stampede", "--json", *args, **environ)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_a_thousand_on_one_seat_sell_it_once_and_leave_nothing_behind(tmp_path):
    result = stampede(tmp_path)
    assert list(result) == KEYS
    assert (result["buyers"], result["seats"]) == (1000, 1)
    assert (result["sold"], result["rejected"], result["errors"]) == (1, 999, 0)
    assert result["oversold"] == 0
    assert 0 < result["p50_ms"] <= result["p99_ms"] <= result["elapsed_ms"]
    assert (result["store"], result["gate"], result["policy"]) == ("memory://", "none", "authority")
    assert list(tmp_path.iterdir()) == []


def test_five_hundred_on_five_seats_sell_five(tmp_path):
    result = stampede(tmp_path, "--buyers", "500", "--seats", "5")
    assert (result["sold"], result["rejected"], result["oversold"]) == (5, 495, 0)


def test_fewer_buyers_than_seats_all_get_one(tmp_path):
    result = stampede(tmp_path, "--buyers", "3", "--seats", "200")
    assert (result["sold"], result["rejected"], result["oversold"]) == (3, 0, 0)


def test_ten_thousand_on_five_seats_of_a_file_leave_a_closed_event_as_evidence(tmp_path):
    store = "sqlite:///rush.db"
    result = stampede(tmp_path, "--buyers", "10000", "--seats", "5", "--store", store)
    assert (result["sold"], result["rejected"], result["oversold"]) == (5, 9995, 0)
    assert result["store"] == store

    (event,) = json.loads(holdfast(tmp_path, "events", "list", "--json", "--store", store).stdout)
    assert event["id"].startswith("stampede-")
    assert (event["state"], event["sold"], event["capacity"]) == ("closed", 5, 5)
    assert holdfast(tmp_path, "check", "--store", store).returncode == 0


def test_four_processes_on_one_file_sell_each_seat_once(tmp_path):
    result = stampede(
        tmp_path,
        *("--buyers", "2002", "--seats", "7", "--processes", "4", "--store", "sqlite:///rush.db"),
    )
    assert (result["buyers"], result["sold"], result["rejected"]) == (2002, 7, 1995)
    assert (result["errors"], result["oversold"]) == (0, 0)
    assert 0 < result["p50_ms"] <= result["p99_ms"] <= result["elapsed_ms"]


def test_more_processes_than_buyers_are_as_many_as_there_are_buyers(tmp_path):
    args = ("--buyers", "2", "--processes", "3", "--store", "sqlite:///rush.db")
    assert stampede(tmp_path, *args)["buyers"] == 2


def test_a_store_that_is_configured_anywhere_is_used(tmp_path):
    assert stampede(tmp_path, HOLDFAST_STORE="sqlite:///env.db")["store"] == "sqlite:///env.db"
    # Also when the file says what the default would be: it was said.
    (tmp_path / "holdfast.toml").write_text('store = "sqlite:///holdfast.db"\n')
    assert stampede(tmp_path)["store"] == "sqlite:///holdfast.db"
    assert stampede(tmp_path, "--store", "memory://")["store"] == "memory://"


def test_processes_cannot_share_memory(tmp_path):
    done = holdfast(tmp_path, "stampede", "--processes", "2")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        "holdfast: processes cannot share memory://: add --store sqlite:///stampede.db\n"
    )


def test_a_person_gets_words_instead_of_json(tmp_path):
    done = holdfast(tmp_path, "stampede", "--buyers", "50")
    assert done.returncode == 0
    assert "not oversold" in done.stdout
    assert "49" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr


@pytest.mark.parametrize("processes", ["1", "2"])
def test_an_interrupt_is_quiet_and_still_closes_the_event(tmp_path, processes):
    store = "sqlite:///rush.db"
    program = subprocess.Popen(
        [
            *(sys.executable, "-m", "holdfast", "stampede", "--buyers", "1000000"),
            *("--store", store, "--processes", processes),
        ],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=interruptible,
    )
    listed = ("events", "list", "--json", "--store", store)
    while holdfast(tmp_path, *listed).stdout.strip() in ("", "[]"):  # no file yet, or no event
        assert program.poll() is None
    # As a terminal does it: to the program and to all of its children.
    os.killpg(program.pid, signal.SIGINT)
    assert program.communicate(timeout=60) == (b"", b"")
    assert program.returncode == 130

    (event,) = json.loads(holdfast(tmp_path, *listed).stdout)
    assert event["state"] == "closed"


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    with serving(f"sqlite:///{folder / 'shop.db'}", cwd=folder) as served:
        yield served


def test_over_http_a_crowd_buys_what_there_is_and_leaves_a_closed_event(tmp_path, served):
    args = ("--url", served.url, "--key", ADMIN, "--buyers", "200", "--seats", "3")
    result = stampede(tmp_path, *args)
    assert list(result) == KEYS
    assert (result["buyers"], result["seats"], result["sold"]) == (200, 3, 3)
    assert (result["rejected"], result["errors"], result["oversold"]) == (197, 0, 0)
    assert 0 < result["p50_ms"] <= result["p99_ms"] <= result["elapsed_ms"]
    assert result["store"] == served.environment["HOLDFAST_STORE"]
    assert (result["gate"], result["policy"]) == ("none", "authority")
    (event,) = served.call("GET", "/v1/events").json()["events"]
    assert event["id"].startswith("stampede-")
    assert (event["state"], event["sold"], event["revenue"]) == ("closed", 3, 0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["HOLDFAST_KEY", "HOLDFAST_ADMIN_KEY"])
def test_over_http_the_key_may_come_from_the_environment(tmp_path, served, name):
    args = ("--url", served.url, "--buyers", "5", "--connections", "2")
    assert stampede(tmp_path, *args, **{name: ADMIN})["sold"] == 1


def test_over_http_a_key_that_will_not_do_is_one_line(tmp_path, served):
    for key, line in (
        ("wrong", "this API key is unknown or revoked"),
        (served.key("seller"), "this needs a key of role admin"),
    ):
        done = holdfast(tmp_path, "stampede", "--url", served.url, "--key", key)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"holdfast: {line}\n"


def test_over_http_nobody_there_is_one_line(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    done = holdfast(tmp_path, "stampede", "--url", url, "--key", "any")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"holdfast: {url} cannot be reached: Connection refused")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (("--store", "memory://"), "--store does not go with --url: the service has its own"),
        (("--gate", "none"), "--gate does not go with --url: the service has its own"),
        (("--policy", "gate"), "--policy does not go with --url: the service has its own"),
        (("--processes", "2"), "--processes does not go with --url: the service has its own"),
        ((), "--url needs an admin's key: --key KEY, or HOLDFAST_KEY in the environment"),
    ],
)
def test_what_does_not_go_with_a_url_is_one_line(tmp_path, args, line):
    done = holdfast(tmp_path, "stampede", "--url", "http://127.0.0.1:1", *args)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"holdfast: {line}\n")


def test_what_goes_with_a_url_only_is_one_line(tmp_path):
    done = holdfast(tmp_path, "stampede", "--key", "any")
    assert (done.returncode, done.stderr) == (2, "holdfast: --key is for --url\n")
    done = holdfast(tmp_path, "stampede", "--url", "nonsense", "--key", "any")
    assert done.returncode == 2
    assert done.stderr.startswith("holdfast: 'nonsense' is no address of a service")


def test_over_http_without_its_driver_it_says_what_to_install(tmp_path):
    program = (
        "import sys; sys.modules['aiohttp'] = None; from holdfast.cli import main; "
        "sys.exit(main(['stampede', '--url', 'http://127.0.0.1:1', '--key', 'any']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert done.stderr == "holdfast: the client needs aiohttp: pip install 'holdfast[client]'\n"


def test_over_http_an_interrupt_is_quiet_and_still_closes_the_event(tmp_path, served):
    def events() -> dict[str, str]:
        found = served.call("GET", "/v1/events").json()["events"]
        return {event["id"]: event["state"] for event in found}

    before = events()
    program = subprocess.Popen(
        [
            *(sys.executable, "-m", "holdfast", "stampede", "--buyers", "1000000"),
            *("--url", served.url, "--key", ADMIN),
        ],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=interruptible,
    )
    while not events().keys() - before.keys():
        assert program.poll() is None
    os.killpg(program.pid, signal.SIGINT)
    assert program.communicate(timeout=60) == (b"", b"")
    assert program.returncode == 130
    (new,) = events().keys() - before.keys()
    assert events()[new] == "closed"


async def test_over_http_what_was_sold_is_counted_from_the_log_and_compared_with_the_map(served):
    """The answers are not asked: two owners of one seat are found whatever buyers were told."""
    id = served.call("POST", "/v1/events", house("counted", 3, price=0)).json()["id"]
    hold = served.call("POST", f"/v1/events/{id}/holds", {"buyer": "u", "seats": ["S-1", "S-2"]})
    order = {"hold": hold.json()["id"]}
    served.call("POST", "/v1/orders", order, headers={"Idempotency-Key": "counted"})
    async with connect(served.url, ADMIN) as client:
        assert await remote.count(client, id, 3) == (Found(sold=2, oversold=0), [])
        assert await remote.count(client, id, 1) == (Found(sold=2, oversold=1), [])

        facts = (await client.log(id)).facts
        sale = facts[-1]
        again = replace(sale, sequence=sale.sequence + 1, data={**sale.data, "order": "another"})
        client.log = pages_of([*facts, again])
        found, doubts = await remote.count(client, id, 3)
        assert (found, doubts) == (Found(sold=4, oversold=2), [])
        client.log = pages_of(facts[:-1])
        found, doubts = await remote.count(client, id, 3)
        assert (found.sold, doubts) == (0, ["the log has 0 seats sold, the seat map 2 or others"])
        client.log = pages_of([facts[0], *facts[2:]])
        with pytest.raises(ClientError, match="has no fact 2"):
            await remote.count(client, id, 3)


def pages_of(facts: list[Any]) -> Any:
    async def log(event: str, *, after: int, limit: int) -> LogPage:
        later = [fact for fact in facts if fact.sequence > after]
        return LogPage(later[:2], 0)

    return log


def test_tallies_of_several_processes_keep_every_latency():
    one = Tally(sold=1, rejected=1, latencies_us=[1000, 9000], began_us=5_000, ended_us=14_000)
    other = Tally(rejected=1, errors={"x": 1}, latencies_us=[2000, 3000], ended_us=20_000)
    other.began_us = 6_000
    both = merged([one, other])
    assert (both.sold, both.rejected, both.errors) == (1, 2, {"x": 1})
    assert sorted(both.latencies_us) == [1000, 2000, 3000, 9000]
    assert both.elapsed_ms == 15.0
    assert (both.percentile_ms(50), both.percentile_ms(99)) == (2.0, 9.0)


def good() -> Report:
    tally = Tally(sold=1, rejected=9, latencies_us=[1] * 10, ended_us=1000)
    return report(tally, Found(sold=1, oversold=0), 1, "memory://")


def test_a_report_finds_fault_with_everything_but_a_kept_promise():
    assert good().faults == []
    tally = Tally(sold=2, rejected=7, errors={"x": 1}, latencies_us=[1] * 10, ended_us=1000)
    assert len(report(tally, Found(sold=2, oversold=1), 1, "memory://").faults) == 3
    # Whoever was told that he bought must be in the rows, even if the rows look right.
    told_two = Tally(sold=2, rejected=8, latencies_us=[1] * 10, ended_us=1000)
    assert len(report(told_two, Found(sold=1, oversold=0), 1, "memory://").faults) == 1
