"""The contract of `holdfast lab`: what it prints, how it ends, and what it leaves behind."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli import main
from holdfast.lab.contest import places
from holdfast.lab.servers import MissingServer, Postgres, Server, family
from tests.api.serving import interruptible
from tests.docs.test_examples import wait_until

WRONG = {
    ("--strategy", "hope"): "unknown strategy 'hope': one of naive, pessimistic, optimistic, ",
    ("--scenario", "monsoon"): "unknown scenario 'monsoon': one of last-seat, small-stock, spread",
    (
        "--processes",
        "many",
    ): "--processes must be whole numbers with commas between them, not 'many'",
    ("--processes", "1,99"): "--processes must be from 1 to 16 each",
    ("--buyers", "0"): "--buyers must be a whole number from 1 to 100000",
    (
        "--store",
        "memory://",
    ): "processes cannot share memory://: the lab needs a database or a file",
    ("--store", "oracle://x"): "unknown store 'oracle://x': use ",
    ("--redis", "kafka://x:1"): "--redis must be redis://host:port/0, not 'kafka://x:1'",
    ("--redis", "redis://h:1?cluster=true"): "the lab takes one Redis, not a cluster: ",
    ("--html", "nowhere/lab.html"): "--html nowhere/lab.html: there is no folder nowhere",
}


@pytest.mark.parametrize("args", WRONG, ids=" ".join)
def test_a_wrong_value_is_one_line_and_starts_nothing(args, capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["lab", *args]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith(f"holdfast: {WRONG[args]}")
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_database_that_is_not_there_is_one_line_without_its_password(capfd):
    store = "postgresql://me:hunter2@127.0.0.1:1/shop"
    assert main(["lab", "--store", store, "--strategy", "atomic"]) == 2
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "cannot be reached" in err
    assert "hunter2" not in err


def test_its_help_tells_what_it_makes_and_what_it_ignores(capfd, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    assert main(["lab", "--help"]) == 0
    text = " ".join(capfd.readouterr().out.split())
    for says in ("schema holdfast_lab", "holdfast-lab:", "HOLDFAST_STORE and holdfast.toml do not"):
        assert says in text


def program(*args: str) -> list[str]:
    return [sys.executable, "-m", "holdfast", "lab", *args]


def run(folder: Path, *args: str) -> "subprocess.CompletedProcess[str]":
    command = program("--store", f"sqlite:///{folder / 'lab.db'}", "--buyers", "40", *args)
    return subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=folder)


@pytest.mark.slow
def test_one_json_value_and_nothing_else(tmp_path):
    chosen = ("--strategy", "group_commit", "--strategy", "naive", "--scenario", "last-seat")
    done = run(tmp_path, *chosen, "--json", "--processes", "2")
    assert (done.returncode, done.stderr) == (0, "")
    made = json.loads(done.stdout)
    assert [(each["strategy"], each["sold"] > 1) for each in made["results"]] == [
        ("naive", True),
        ("group-commit", False),
    ]
    assert made["curves"] == {}


@pytest.mark.slow
def test_what_the_machine_lacks_is_left_out_and_said(capfd, monkeypatch):
    def lacking(stack: object, kind: type[Server]) -> str:
        if kind is Postgres:
            raise RuntimeError("initdb failed:\nno space left")
        raise MissingServer(f"{kind.name}: apt-get install it")

    monkeypatch.setattr(places, "_start", lacking)
    chosen = [*("--strategy", "atomic", "--strategy", "two-layer", "--strategy", "redis-lua")]
    small = ["--scenario", "last-seat", "--buyers", "20", "--processes", "1", "--json"]
    assert main(["lab", *chosen, *small]) == 0
    made = json.loads(capfd.readouterr().out)
    assert [(each["strategy"], each["store"]) for each in made["results"]] == [("atomic", "sqlite")]
    why = {(each["strategy"], each["store"]): each["why"] for each in made["left_out"]}
    assert why["atomic", "postgresql"] == "it did not start: initdb failed: no space left"
    assert why["two-layer", "mariadb"] == "not installed here: MariaDB: apt-get install it"
    assert why["redis-lua", "redis"] == "not installed here: Redis: apt-get install it"
    assert why["two-layer", "sqlite"].startswith("a file on one machine")


@pytest.mark.slow
def test_people_get_a_table_and_hear_what_was_left_out(tmp_path):
    chosen = ("--strategy", "atomic", "--strategy", "skip-locked", "--scenario", "pool")
    done = run(tmp_path, *chosen, "--processes", "1", "--quick")
    assert (done.returncode, done.stderr) == (0, "")
    assert "per s" in done.stdout
    row = next(line for line in done.stdout.splitlines() if line.startswith("atomic"))
    assert row.split()[:5] == ["atomic", "sqlite", "x1", "33", "0"]
    assert "skip-locked on sqlite: SQLite has no row locks" in done.stdout
    assert "too short to be a figure" in done.stdout


@pytest.mark.slow
@pytest.mark.service
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=str)
def test_whoever_is_told_to_stop_stops_his_servers_and_leaves_nothing(how, tmp_path):
    """Redis, which is the last to be started, runs: all is there."""
    pipe = subprocess.PIPE
    lab = subprocess.Popen(
        program(), cwd=tmp_path, stdout=pipe, stderr=pipe, preexec_fn=interruptible
    )

    def children() -> list[int]:
        return family(lab.pid)[1:]

    def begun() -> bool:
        return any("contest.buyers" in line_of(pid) for pid in children())

    try:
        assert wait_until(begun)
        servers = [line_of(pid) for pid in children()]
        pids = [pid for child in children() for pid in family(child)]
    finally:
        out, err = stopped(lab, how)
    assert (lab.returncode, out, err) == (130, b"", b"")
    assert [pid for pid in pids if line_of(pid)] == []
    folders = {word for line in servers for word in line.split() if "holdfast-server-" in word}
    assert folders
    for word in folders:
        path = Path("/" + word.partition("/")[2])
        assert not path.exists()


def stopped(lab: "subprocess.Popen[bytes]", how: signal.Signals) -> tuple[bytes, bytes]:
    """Told once. One that goes on all the same is not left behind."""
    lab.send_signal(how)
    with contextlib.suppress(subprocess.TimeoutExpired):
        return lab.communicate(timeout=60)
    lab.kill()
    return lab.communicate()


def line_of(pid: int) -> str:
    """Its command line; nothing where it has ended."""
    try:
        text = Path(f"/proc/{pid}/cmdline").read_bytes()
        os.kill(pid, 0)
    except OSError:
        return ""
    return text.replace(b"\0", b" ").decode()
