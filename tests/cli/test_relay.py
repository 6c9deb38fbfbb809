"""holdfast relay: a wrong value is one line, and a running one publishes until it is stopped."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest
from nats.js.errors import NotFoundError

from holdfast import Holdfast
from holdfast.cli import main
from tests.api.serving import HOLDFAST
from tests.brokers.reading import read_nats
from tests.conftest import needed, needed_server
from tests.servers import Nats, running

STORE = ("--store", "sqlite:///shop.db")
AWAY = "nats://127.0.0.1:1"
EVENT = {"id": "gala", "prices": {"floor": 4500}, "pools": [{"id": "floor", "capacity": 100}]}
WAIT_SECONDS_MAX = 30.0

T = TypeVar("T")


def clean() -> dict[str, str]:
    return {name: text for name, text in os.environ.items() if not name.startswith("HOLDFAST_")}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (STORE, "needs a broker"),
        ((*STORE, "--broker", "none"), "needs a broker"),
        ((*STORE, "--broker", "memory://"), "needs a broker"),
        (("--store", "memory://", "--broker", AWAY), "not memory://"),
        ((*STORE, "--broker", "rabbit://u:sesame@host:1"), "unknown broker"),
        ((*STORE, "--broker", "kafka://host"), "kafka://host:port"),
        ((*STORE, "--broker", "kafka://u:sesame@host:1"), "kafka://host:port"),
        ((*STORE, "--broker", AWAY, "--topic", "no topic"), "--topic 'no topic': write 1 to 200 "),
        ((*STORE, "--broker", AWAY, "--name", "no name"), "--name 'no name': write 1 to 64 "),
        ((*STORE, "--broker", AWAY, "--from", "nonsense"), "--from must be log or wal"),
        ((*STORE, "--broker", AWAY, "--from", "wal"), "no other store has it"),
        ((*STORE, "--drop-slot"), "no other store has it"),
        (("--store", "nowhere://", "--broker", AWAY), "unknown store"),
    ],
)
def test_a_wrong_value_is_one_line_before_anything_is_made(
    options, said, tmp_path, monkeypatch, capfd
):
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("HOLDFAST_")]:
        monkeypatch.delenv(name)
    assert main(["relay", *options]) == 2
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1), err
    assert err.startswith("holdfast: ")
    assert said in err
    assert "sesame" not in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("sasl", "name=value"),
        ("no.such.option=1", "no.such.option"),
        ("security.protocol=SESAME", "security.protocol"),
    ],
)
def test_wrong_options_for_kafka_are_one_line(options, said, tmp_path):
    done = subprocess.run(
        [*HOLDFAST, "relay", *STORE, "--broker", "kafka://127.0.0.1:1"],
        cwd=tmp_path,
        env={**clean(), "HOLDFAST_BROKER_OPTIONS": options},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert said in done.stderr
    assert list(tmp_path.iterdir()) == []


class Running:
    def __init__(self, process: "subprocess.Popen[str]", complaints: Path) -> None:
        self.process = process
        self._complaints = complaints

    @property
    def complaints(self) -> str:
        return self._complaints.read_text(encoding="utf-8")

    def stop(self, how: signal.Signals) -> list[str]:
        """All that it still says, once it has ended well."""
        self.process.send_signal(how)
        out, _ = self.process.communicate(timeout=30)
        assert self.process.returncode == 0, self.complaints
        return out.splitlines()


@contextmanager
def relaying(folder: Path, broker: str, topic: str) -> Iterator[Running]:
    """A relay that has said that it relays."""
    with (folder / "complaints.log").open("wb") as log:
        process = subprocess.Popen(
            [*HOLDFAST, "relay", *STORE, "--broker", broker, "--topic", topic],
            cwd=folder,
            env=clean(),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    started = Running(process, folder / "complaints.log")
    with process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            assert said == f"Relaying sqlite:///shop.db to {broker}\n", started.complaints
            yield started
        finally:
            if process.poll() is None:
                process.kill()


def sell(holds: int) -> None:
    """So many facts more, and one of the event where it is new."""

    async def sold() -> None:
        async with Holdfast.open("sqlite:///shop.db", upkeep=False) as shop:
            if await shop.event("gala") is None:
                await shop.create_event(EVENT)
            for nth in range(holds):
                await shop.place_hold("gala", buyer=f"b{nth}", pools={"floor": 1})

    asyncio.run(sold())


def numbers(server: Nats, topic: str, count: int) -> list[int]:
    """Of the facts that the stream has, when it has so many."""

    def read() -> list[bytes]:
        try:
            subject = f"{topic}.facts.gala"
            found = read_nats(server.url, subject, lambda bodies: len(bodies) >= count)
            return asyncio.run(found)
        except NotFoundError:
            return []  # the stream is made by the relay, which waits before it tries again

    bodies = until(read)
    return [msgspec.json.decode(body)["sequence"] for body in bodies]


def noted(seq: int) -> bool:
    """Whether the relay has moved its cursor so far: who is stopped before repeats."""

    async def cursors() -> list[int]:
        async with Holdfast.open("sqlite:///shop.db", upkeep=False) as shop:
            return [each.seq for each in (await shop.store.cursors("relay"))[0]]

    return asyncio.run(cursors()) == [seq]


def until(true: Callable[[], T]) -> T:
    ends = time.monotonic() + WAIT_SECONDS_MAX
    while not (found := true()) and time.monotonic() < ends:
        time.sleep(0.05)
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.service
@pytest.mark.slow
@pytest.mark.xdist_group("brokers")
def test_it_publishes_everything_and_the_next_one_goes_on_where_it_stopped(folder):
    server = needed(lambda: running(Nats))
    sell(6)
    with relaying(folder, server.url, "cli") as relay:
        assert numbers(server, "cli", 7) == list(range(1, 8))
        sell(3)
        assert numbers(server, "cli", 10) == list(range(1, 11))
        assert relay.stop(signal.SIGTERM) == ["Stopped; facts published: 10"]
        assert relay.complaints == ""
    sell(2)
    with relaying(folder, server.url, "cli") as relay:
        assert numbers(server, "cli", 12) == list(range(1, 13))
        assert relay.stop(signal.SIGTERM) == ["Stopped; facts published: 2"]


@pytest.mark.service
@pytest.mark.slow
@pytest.mark.xdist_group("brokers")
def test_a_broker_that_is_away_is_waited_for(folder):
    sell(4)
    with needed_server(Nats) as server:
        server.stop()
        with relaying(folder, server.url, "away") as relay:
            assert until(lambda: "facts are not published" in relay.complaints)
            server.start()
            assert numbers(server, "away", 5) == list(range(1, 6))
            assert relay.stop(signal.SIGTERM) == ["Stopped; facts published: 5"]


@pytest.mark.service
@pytest.mark.slow
@pytest.mark.xdist_group("brokers")
def test_one_whose_broker_never_came_stops_as_quickly(folder):
    sell(1)
    with relaying(folder, AWAY, "never") as relay:
        assert relay.stop(signal.SIGTERM) == ["Stopped; facts published: 0"]
