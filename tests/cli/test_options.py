"""Every option may be said by a variable, or in holdfast.toml; the command line counts first."""

import json
from typing import Any

import pytest
from typer.main import get_command

from holdfast.cli import main
from holdfast.cli.commands import make_app
from holdfast.cli.options import open_to_environment

STAMPEDE = ("stampede", "--store", "memory://")


@pytest.fixture(autouse=True)
def nowhere(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def said(capfd):
    """A crowd's result, as JSON."""

    def call(*args: str) -> dict[str, Any]:
        capfd.readouterr()
        assert main((*STAMPEDE, *args)) == 0
        told: dict[str, Any] = json.loads(capfd.readouterr().out)
        return told

    return call


@pytest.fixture
def wrong(capfd):
    """The one line that is said of a wrong value."""

    def call(*args: str) -> str:
        capfd.readouterr()
        assert main(args) == 2
        out, err = capfd.readouterr()
        assert out == ""
        lines: list[str] = err.splitlines()
        assert len(lines) == 1
        return lines[0]

    return call


@pytest.mark.parametrize("name", ["HOLDFAST_BUYERS", "HOLDFAST_STAMPEDE_BUYERS"])
def test_a_variable_says_what_an_option_is(said, monkeypatch, name):
    monkeypatch.setenv(name, "30")
    monkeypatch.setenv("HOLDFAST_JSON", "1")
    assert said()["buyers"] == 30
    assert said("--buyers", "20")["buyers"] == 20


def test_the_variable_of_the_command_counts_before_that_of_all(said, monkeypatch):
    monkeypatch.setenv("HOLDFAST_BUYERS", "30")
    monkeypatch.setenv("HOLDFAST_STAMPEDE_BUYERS", "40")
    assert said("--json")["buyers"] == 40


def test_a_table_of_the_file_says_it_for_its_command(said, monkeypatch, tmp_path):
    (tmp_path / "holdfast.toml").write_text("[stampede]\nbuyers = 30\nseats = 2\njson = true\n")
    assert (said()["buyers"], said()["sold"]) == (30, 2)
    monkeypatch.setenv("HOLDFAST_BUYERS", "40")
    assert said()["buyers"] == 40


def test_a_command_of_a_group_has_its_own_table(capfd, tmp_path):
    (tmp_path / "holdfast.toml").write_text(
        'store = "sqlite:///s.db"\n[events.list]\njson = true\n'
    )
    assert main(("migrate",)) == 0
    capfd.readouterr()
    assert main(("events", "list")) == 0
    assert json.loads(capfd.readouterr().out) == []


def test_a_table_says_no_more_than_the_environment(capfd, tmp_path, monkeypatch):
    """Also where that names the setting for all commands."""
    (tmp_path / "holdfast.toml").write_text('[migrate]\nstore = "sqlite:///file.db"\n')
    assert main(("migrate",)) == 0
    monkeypatch.setenv("HOLDFAST_STORE", "sqlite:///variable.db")
    assert main(("migrate",)) == 0
    assert (tmp_path / "file.db").exists()
    assert (tmp_path / "variable.db").exists()
    monkeypatch.setenv("HOLDFAST_MIGRATE_STORE", "sqlite:///own.db")
    assert main(("migrate",)) == 0
    assert (tmp_path / "own.db").exists()


def test_what_is_missing_is_told_without_python(wrong):
    assert wrong("keys", "create") == (
        "holdfast: missing option '--role' (see `holdfast keys create --help`)"
    )


def test_settings_keep_their_own_names(capfd, tmp_path, monkeypatch):
    """A port of the service is none of the sandbox."""
    program = get_command(make_app())
    open_to_environment(program)
    command: Any = program
    ports = [
        option.envvar
        for name in ("serve", "sandbox")
        for option in command.commands[name].params
        if option.name == "port"
    ]
    assert ports == [["HOLDFAST_SERVE_PORT"], ["HOLDFAST_SANDBOX_PORT"]]


def test_what_a_variable_says_may_be_meant_for_others(said, wrong, monkeypatch):
    monkeypatch.setenv("HOLDFAST_KEY", "a key for curl")
    assert said("--json", "--buyers", "10")["sold"] == 1
    assert wrong(*STAMPEDE, "--key", "k") == "holdfast: --key is for --url"


def test_a_wrong_variable_is_told_by_its_name(wrong, monkeypatch):
    monkeypatch.setenv("HOLDFAST_BUYERS", "many")
    assert wrong(*STAMPEDE).startswith("holdfast: HOLDFAST_BUYERS: ")
    monkeypatch.setenv("HOLDFAST_STAMPEDE_BUYERS", "0")
    assert wrong(*STAMPEDE) == (
        "holdfast: HOLDFAST_STAMPEDE_BUYERS: --buyers must be a whole number from 1 to 1000000 "
        "(see `holdfast stampede --help`)"
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[stampede]\nbuyer = 3", "[stampede]: there is no option 'buyer'; did you mean buyers?"),
        ("[stampede]\nbuyers = true", "[stampede]: buyers is no flag: it takes a value"),
        ("[stamped]\nbuyers = 3", "there is no command 'stamped'; did you mean stampede?"),
        ("[stampede]\nbuyers = 0", "--buyers must be a whole number from 1 to 1000000"),
        ("[events]\nlist = true", "[events]: list is a command: its options stand in a table"),
        ("[events.list]\nx = 1", "[events].list: there is no option 'x'"),
    ],
)
def test_a_wrong_table_is_told_in_a_line(wrong, tmp_path, text, line):
    (tmp_path / "holdfast.toml").write_text(text)
    command = ("events", "list") if "[events" in text else STAMPEDE
    assert wrong(*command).startswith(f"holdfast: holdfast.toml: {line}")


@pytest.mark.parametrize("args", [("--help",), ("--version",), (), ("stampede", "--help")])
def test_whoever_asks_for_help_gets_it_whatever_the_file_says(capfd, tmp_path, args):
    (tmp_path / "holdfast.toml").write_text("[stamped]\nbuyers = \n")
    assert main(args) == 0
    assert "holdfast" in capfd.readouterr().out


def test_one_of_several_needs_no_list(capfd, tmp_path):
    table = '[keys.create]\nrole = "public"\norigin = "https://a.example"\n'
    (tmp_path / "holdfast.toml").write_text(f'store = "sqlite:///s.db"\n{table}')
    assert main(("keys", "create")) == 0
    assert main(("keys", "list", "--json")) == 0
    told = json.loads(capfd.readouterr().out.splitlines()[-1])
    assert told[-1]["origins"] == ["https://a.example"]
