"""The command line: every wrong value is one line and exit code 2, and never a traceback."""

import json
import os
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

import holdfast as package
from holdfast.blocking import Holdfast
from holdfast.cli import main

STORE = ("--store", "sqlite:///shop.db")
EVENT_JSON = {
    "id": "premiere",
    "name": "Première",
    "prices": {"gold": 9000, "floor": 4500},
    "sections": [{"id": "A", "tier": "gold", "rows": 2, "seats_per_row": 5}],
    "pools": [{"id": "floor", "capacity": 100}],
}


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


@pytest.fixture
def run(tmp_path, monkeypatch, capfd):
    """A command line run in this process: its exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("HOLDFAST_")]:
        monkeypatch.delenv(name)

    def call(*args: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main(args)
        return code, *capfd.readouterr()

    return call


@pytest.fixture
def premiere(tmp_path, run):
    """A shop with an event of which a few units are sold."""
    (tmp_path / "premiere.json").write_text(json.dumps(EVENT_JSON))
    assert run("events", "create", "premiere.json", *STORE)[0] == 0
    with Holdfast.open("sqlite:///shop.db") as shop:
        shop.sell("premiere", buyer="u1", seats=["A-1-1", "A-1-2"], pools={"floor": 3})
        shop.place_hold("premiere", buyer="u2", seats=["A-2-1"])


def edit(folder: Path, *statements: str) -> None:
    """Changes rows behind the engine's back."""
    db = apsw.Connection(str(folder / "shop.db"))
    for statement in statements:
        db.execute(statement)
    db.close()


# Wrong values

WRONG = {
    "unknown command": (["bogus"], "bogus"),
    "unknown command of a group": (["events", "shw"], "show"),
    "no command of a group": (["events"], "holdfast events --help"),
    "unknown option": (["--bogus"], "--bogus"),
    "unknown option of a command": (["stampede", "--buyer", "3"], "--buyers"),
    "option without a value": (["stampede", "--buyers"], "--buyers"),
    "not a number": (["stampede", "--buyers", "many"], "from 1 to 1000000"),
    "not a whole number": (["stampede", "--seats", "1.5"], "from 1 to 60000"),
    "too few": (["stampede", "--buyers", "0"], "from 1 to 1000000"),
    "too many": (["stampede", "--seats", "60001"], "from 1 to 60000"),
    "too many processes": (["stampede", "--processes", "65"], "from 1 to 64"),
    "no such port": (["demo", "--port", "65536"], "from 0 to 65535"),
    "one argument too many": (["stampede", "everybody"], "everybody"),
    "missing argument": (["events", "show"], "ID"),
    "missing file": (["events", "create"], "FILE.json"),
    "line breaks": (["stampede", "--bo\ngus\x1b[31m"], "no such option"),
    "unknown store": (["events", "list", "--store", "ftp://x"], "sqlite:///"),
    "empty store": (["stampede", "--store", ""], "sqlite:///"),
    "store without a file": (["migrate", "--store", "sqlite:///"], "needs a file"),
    "store in no folder": (["migrate", "--store", "sqlite:///no/where.db"], "does not exist"),
    "store that is a folder": (["migrate", "--store", "sqlite:///."], "folder"),
    "store that is no database": (["events", "list", "--store", "sqlite:///junk.db"], "junk.db"),
    "store to check that is not there": (["check", "--store", "sqlite:///no.db"], "no.db"),
    "store to repair that is not there": (["repair", "--store", "sqlite:///no.db"], "no.db"),
    "file that is not there": (["events", "create", "no.json"], "no.json"),
    "file that is a folder": (["events", "create", "."], "cannot read"),
    "broken JSON": (["events", "create", "broken.json"], "broken.json is not valid JSON"),
    "no JSON at all": (["events", "create", "junk.db"], "junk.db is not valid JSON"),
    "JSON that is not UTF-8": (["events", "create", "latin.json"], "not valid JSON"),
    "JSON without a bottom": (["events", "create", "deep.json"], "nested too deeply"),
    "JSON that is no event": (["events", "create", "list.json"], "must be an object"),
    "no such worker count": (["serve", "--workers", "0"], "from 1 to 64"),
    "workers in memory": (["serve", "--store", "memory://", "--workers", "2"], "memory://"),
    "no such host": (["serve", "--host", "no.such.host.invalid"], "no.such.host.invalid"),
    "worker in memory": (["worker", "--store", "memory://"], "memory://"),
    "no such role": (["keys", "create", "--role", "king"], "admin, seller or public"),
    "no origin": (["keys", "create", "--role", "public", "--origin", "shop"], "https://"),
    "keys in memory": (["keys", "list", "--store", "memory://"], "memory://"),
    "no name": (
        ["dead-letters", "retry", "--all", "--name", "a b"],
        "--name 'a b': write 1 to 64 ",
    ),
    "no host": (["serve", "--host", ""], "--host '': "),
    "fresh on a store of one's own": (["demo", "--fresh", "--store", "sqlite:///a.db"], "--fresh"),
}


@pytest.fixture
def files(tmp_path):
    (tmp_path / "junk.db").write_bytes(b"this is not a database at all " * 10)
    (tmp_path / "broken.json").write_text('{"id": "premiere", ')
    (tmp_path / "latin.json").write_bytes('"Première"'.encode("latin-1"))
    (tmp_path / "deep.json").write_text("[" * 200_000)
    (tmp_path / "list.json").write_text("[]")


def assert_one_line(code: int, out: str, err: str) -> None:
    assert (code, out) == (2, "")
    assert err.startswith("holdfast: ")
    assert err.count("\n") == 1
    assert err.endswith("\n")
    assert "Traceback" not in err
    assert err.strip().isprintable()


@pytest.mark.parametrize(("args", "says"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_value_is_one_line_and_exit_code_2(run, files, args, says):
    code, out, err = run(*args)
    assert_one_line(code, out, err)
    assert says in err


@pytest.mark.parametrize(
    "args",
    [
        ["stampede", "--buyers", "0"],
        ["events", "list", "--store", "sqlite:///junk.db"],
    ],
    ids=" ".join,
)
def test_the_program_itself_ends_the_same_way(tmp_path, files, args):
    done = holdfast(tmp_path, *args)
    assert_one_line(done.returncode, done.stdout, done.stderr)


def test_every_fault_of_an_event_is_named_at_once(run, tmp_path):
    sections = [{"id": "A", "tier": "tin", "rows": 0, "seats_per_row": 5}]
    event = {"id": "a b", "prices": {"gold": -1}, "sections": sections, "colour": "red"}
    (tmp_path / "bad.json").write_text(json.dumps(event))
    code, out, err = run("events", "create", "bad.json")
    assert_one_line(code, out, err)
    for fault in ("bad.json: ", "id: ", "prices.gold: ", "sections[0].rows: ", "tin", "colour: "):
        assert fault in err


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("HOLDFAST_STORE", "oracle://x", "oracle://x"),
        ("HOLDFAST_LANE_MAX", "many", "lane_max"),
        ("HOLDFAST_SQLITE_SYNCHRONOUS", "OFF", "FULL or NORMAL"),
        ("HOLDFAST_EARLY_RELEASE", "no", "write true or false"),
        ("HOLDFAST_RELAY_NAME", "a b", "HOLDFAST_RELAY_NAME: relay_name = 'a b': write 1 to 64 "),
        ("HOLDFAST_CONFIG", "no.toml", "no.toml"),
        ("HOLDFAST_CONFIG", "broken.toml", "broken.toml"),
    ],
)
def test_a_wrong_setting_is_one_line_and_exit_code_2(run, tmp_path, monkeypatch, name, value, says):
    (tmp_path / "broken.toml").write_text("store = ")
    monkeypatch.setenv(name, value)
    code, out, err = run("events", "list")
    assert_one_line(code, out, err)
    assert says in err


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("SECRET", "hush" * 200, "512"),
        ("SECRET", "hush-hush", "16 characters at least"),
        ("ADMIN_KEY", "hush" * 200, "512"),
        ("STORE", "oracle://ann:hush@host/x", "oracle://***@host/x"),
        ("GATE", "memcached://ann:hush@host", "unknown gate"),
    ],
)
def test_a_wrong_setting_that_is_secret_is_not_shown(run, monkeypatch, name, value, says):
    monkeypatch.setenv(f"HOLDFAST_{name}", value)
    code, out, err = run("events", "list")
    assert_one_line(code, out, err)
    assert says in err
    assert "hush" not in err


@pytest.mark.parametrize("name", ["store", "gate", "secret", "admin_key"])
def test_nor_is_one_of_the_wrong_kind_in_the_file(run, tmp_path, name):
    (tmp_path / "holdfast.toml").write_text(f'{name} = ["redis://:hush@host"]')
    code, out, err = run("events", "list")
    assert_one_line(code, out, err)
    assert name in err
    assert "hush" not in err


def test_a_folder_that_cannot_be_written_is_one_line_and_exit_code_2(run, tmp_path):
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o500)
    if os.access(folder, os.W_OK):  # root may write anywhere but in the kernel's own folders
        folder = Path("/proc")
        if not folder.is_dir():
            pytest.skip("this user may write everywhere")
    assert_one_line(*run("migrate", "--store", f"sqlite:///{folder}/shop.db"))


def test_a_schema_of_the_future_is_one_line_and_exit_code_2(run, tmp_path):
    assert run("migrate", *STORE)[0] == 0
    edit(tmp_path, "PRAGMA user_version = 1000")
    code, out, err = run("events", "list", *STORE)
    assert_one_line(code, out, err)
    assert "newer" in err


# Output

COMMANDS = [
    *([], ["demo"], ["serve"], ["worker"], ["stampede"], ["migrate"], ["check"], ["repair"]),
    *(["bench"], ["events"], ["keys"], ["orders"], ["sandbox"], ["log"], ["relay"], ["lab"]),
    *(["events", name] for name in ("list", "create", "show", "map", "open", "pause", "close")),
    *(["keys", name] for name in ("list", "create", "revoke")),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command) or "holdfast")
def test_every_command_has_help_with_an_example(run, command):
    code, out, err = run(*command, "--help")
    assert (code, err) == (0, "")
    assert " ".join(["Example: holdfast", *command]) in " ".join(out.split())


def test_without_a_command_the_help_is_shown(run):
    assert run() == run("--help")


def test_the_version_is_printed_by_every_way_to_start_the_program(tmp_path):
    for module in ("holdfast", "holdfast.cli"):
        printed = subprocess.check_output([sys.executable, "-m", module, "--version"], text=True)
        assert printed == f"holdfast {package.__version__}\n"


def test_a_reader_that_went_away_is_no_trouble(tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    program = [sys.executable, "-m", "holdfast", "--help"]
    done = subprocess.run(program, stdout=writing, stderr=subprocess.PIPE, timeout=60)
    os.close(writing)
    assert done.stderr == b""
    assert done.returncode == 1


# Events


def test_an_event_is_created_shown_paused_opened_and_closed(run, tmp_path):
    (tmp_path / "premiere.json").write_text(json.dumps(EVENT_JSON))
    code, out, err = run("events", "create", "premiere.json", *STORE)
    assert (code, out, err) == (0, "created premiere: 110 units, on sale\n", "")

    for command, state in (("pause", "paused"), ("open", "on_sale"), ("close", "closed")):
        code, out, _ = run("events", command, "premiere", *STORE)
        assert (code, out) == (0, f"premiere is {state.replace('_', ' ')}\n")
        shown = json.loads(run("events", "show", "premiere", "--json", *STORE)[1])
        assert shown["state"] == state
    assert run("events", "open", "premiere", "--json", *STORE)[1].startswith('{"id":"premiere"')


def test_lists_and_details_carry_the_numbers_of_the_api(run, premiere):
    (event,) = json.loads(run("events", "list", "--json", *STORE)[1])
    numbers = {"capacity": 110, "available": 104, "held": 1, "sold": 5, "revenue": 31500}
    assert event.items() >= {"id": "premiere", "name": "Première", **numbers}.items()
    assert event["percent_sold"] == 4.55

    shown = json.loads(run("events", "show", "premiere", "--json", *STORE)[1])
    assert shown.items() >= event.items()
    (section,) = shown["sections"]
    assert (section["seats"], section["free"], section["held"], section["sold"]) == (10, 7, 1, 2)
    assert shown["pools"][0]["available"] == 97


def test_people_get_a_table_and_money_as_they_write_it(run, premiere):
    code, out, _ = run("events", "list", *STORE)
    header, row = out.splitlines()
    assert code == 0
    assert header.split()[:3] == ["event", "state", "capacity"]
    assert row.split() == ["premiere", *"on sale 110 104 1 5 4.5 315.00 EUR".split()]  # noqa: SIM905
    assert "Première" in run("events", "show", "premiere", *STORE)[1]


def test_no_events_is_an_empty_list(run):
    assert run("migrate", *STORE)[0] == 0
    assert run("events", "list", "--json", *STORE) == (0, "[]\n", "")


def test_a_refusal_is_one_line_and_exit_code_1(run, premiere):
    refused = [
        ("events", "create", "premiere.json"),
        ("events", "show", "nowhere"),
        ("events", "open", "no such id"),
        ("check", "--event", "nowhere"),
        ("repair", "--event", "nowhere"),
    ]
    for command in refused:
        code, out, err = run(*command, *STORE)
        assert (code, out, err.count("\n")) == (1, "", 1)
        assert err.startswith("holdfast: there is ")


def test_an_event_may_come_from_stdin(tmp_path):
    program = [sys.executable, "-m", "holdfast", "events", "create", "-", *STORE]
    text = json.dumps(EVENT_JSON)
    done = subprocess.run(program, cwd=tmp_path, input=text, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


# Upkeep


def test_migrating_twice_does_nothing_the_second_time(run):
    code, first, _ = run("migrate", *STORE)
    assert code == 0
    assert "schema 0 -> 1" in first
    assert "nothing to do" in run("migrate", *STORE)[1]


DRIFTS = {
    "UPDATE pools SET sold = 9": "pool floor",
    "DELETE FROM sold_seats WHERE seat = 'A-1-2'": "sold seat A-1-2",
    "UPDATE counters SET revenue = revenue + 1": "revenue",
    "UPDATE seats SET hold = NULL, until_ms = 0 WHERE id = 'A-2-1'": "seat A-2-1",
}


def test_check_names_every_drift_repair_fixes_it_and_check_is_clean_again(run, tmp_path, premiere):
    assert run("check", *STORE)[0] == 0
    edit(tmp_path, *DRIFTS)

    code, out, err = run("check", *STORE)
    assert (code, err) == (3, "")
    for where in DRIFTS.values():
        assert f"premiere: {where}: expected" in out
    found = json.loads(run("check", "--json", *STORE)[1])
    assert (found["clean"], found["drift"]) == (False, 4)
    assert {drift["where"] for drift in found["events"][0]["drift"]} == set(DRIFTS.values())

    code, out, _ = run("repair", *STORE)
    assert code == 0
    assert out.count("fixed  ") == 4
    assert run("repair", *STORE)[:2] == (0, "sqlite:///shop.db: nothing to repair\n")

    code, out, _ = run("check", "--event", "premiere", "--json", *STORE)
    assert (code, json.loads(out)["clean"]) == (0, True)


def test_what_only_a_person_can_decide_is_left_and_said(run, tmp_path, premiere):
    edit(
        tmp_path,
        "INSERT INTO orders SELECT event, id || 'X', 'u9', state, '[\"A-1-1\"]', '{}', 1, 0, "
        "currency, created_ms, NULL, NULL, version, due_ms, trouble, checkout FROM orders",
    )
    code, out, _ = run("repair", *STORE)
    assert code == 3
    assert "left   premiere: seat A-1-1: expected one owner" in out
    assert "person" in out
    assert run("check", *STORE)[0] == 3
