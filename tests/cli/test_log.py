"""holdfast log: facts are shown to people, and exported for auditors, whole or not at all."""

import asyncio
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, Placed
from holdfast.cli import log, main

STORE = ("--store", "sqlite:///shop.db")
EVENT = {
    "id": "gala",
    "prices": {"gold": 9000, "floor": 4500},
    "sections": [{"id": "A", "tier": "gold", "rows": 1, "seats_per_row": 4}],
    "pools": [{"id": "floor", "capacity": 100}],
}
FACTS = 8
PRUNED = "holdfast: the log of gala begins with 6: what was before was pruned\n"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path, monkeypatch, capfd) -> Run:
    """A command line run in this process."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("HOLDFAST_")]:
        monkeypatch.delenv(name)

    def call(*args: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main([*args, *STORE])
        return code, *capfd.readouterr()

    return call


async def sold() -> None:
    async with Holdfast.open("sqlite:///shop.db", upkeep=False) as shop:
        await shop.create_event(EVENT)
        await shop.create_event(EVENT | {"id": "a-matinee"})
        placed = await shop.place_hold("gala", buyer="Zoë", seats=["A-1-1"], pools={"floor": 2})
        assert isinstance(placed, Placed)
        await shop.confirm_hold(placed.hold.id, order="o1")
        for n in range(FACTS - 4):
            await shop.place_hold("gala", buyer=f"b{n}", pools={"floor": 1})
        await shop.pause_event("gala")


@pytest.fixture
def shop(run) -> None:
    """Eight facts of one event, and one of another."""
    asyncio.run(sold())


def prune(event: str, through: int) -> None:
    async def pruned() -> int:
        async with Holdfast.open("sqlite:///shop.db", upkeep=False) as shop:
            return await shop.store.prune(event, through, 1_000)

    assert asyncio.run(pruned()) == through


def numbers(lines: str) -> list[tuple[str, int]]:
    facts = [json.loads(line) for line in lines.splitlines()]
    return [(fact["subject"], fact["sequence"]) for fact in facts]


def whole(event: str = "gala", first: int = 1, last: int = FACTS) -> list[tuple[str, int]]:
    return [(event, number) for number in range(first, last + 1)]


def complaint(answer: tuple[int, str, str], code: int) -> str:
    got, out, err = answer
    assert (got, out) == (code, "")
    assert err.startswith("holdfast: ")
    assert err.count("\n") == 1
    return err


# Export


def test_an_event_is_exported_as_lines_of_cloud_events_in_order(run, shop):
    code, out, err = run("log", "export", "gala")
    assert (code, err) == (0, "")
    assert numbers(out) == whole()
    placed = json.loads(out.splitlines()[1])
    assert placed["specversion"] == "1.0"
    assert placed["id"] == "gala.2"
    assert placed["source"] == "/v1/events/gala"
    assert placed["type"] == "hold.placed"
    assert placed["data"]["buyer"] == "Zoë"
    assert "Zoë" in out, "as UTF-8, not escaped"


def test_all_events_are_exported_one_after_the_other(run, shop):
    code, out, _ = run("log", "export", "--all")
    assert code == 0
    assert numbers(out) == [("a-matinee", 1), *whole()]


@pytest.mark.parametrize("after", [0, 5, FACTS, 1_000])
def test_an_export_goes_on_after_a_number(run, shop, after):
    code, out, _ = run("log", "export", "gala", "--after", str(after))
    assert (code, numbers(out)) == (0, whole(first=after + 1))


def test_pages_join(run, shop, monkeypatch):
    monkeypatch.setattr(log, "PAGE_FACTS", 3)
    assert numbers(run("log", "export", "gala")[1]) == whole()


def test_a_file_is_there_when_all_of_it_is(run, shop, tmp_path, monkeypatch):
    target = tmp_path / "gala.jsonl"
    seen: list[bool] = []
    encode = log._encode

    def looking(fact: Any) -> bytes:
        seen.append(target.exists())
        return encode(fact)

    monkeypatch.setattr(log, "_encode", looking)
    code, out, _ = run("log", "export", "gala", "--out", "gala.jsonl")
    assert (code, out) == (0, "")
    assert seen == [False] * FACTS
    assert numbers(target.read_text()) == whole()
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(target.stat().st_mode) == 0o666 & ~umask
    assert left_over(tmp_path) == []


def left_over(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir() if file.name.startswith(".")]


def test_an_export_that_fails_leaves_what_was_there(run, shop, tmp_path, monkeypatch):
    target = tmp_path / "gala.jsonl"
    target.write_text("before")

    def full(fact: Any) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(log, "_encode", full)
    answer = run("log", "export", "gala", "--out", "gala.jsonl", "--force")
    assert "No space left" in complaint(answer, 1)
    assert target.read_text() == "before"
    assert left_over(tmp_path) == []


def test_a_file_that_is_there_is_overwritten_only_when_told_so(run, shop, tmp_path):
    target = tmp_path / "gala.jsonl"
    target.write_text("before")
    said = complaint(run("log", "export", "gala", "--out", "gala.jsonl"), 1)
    assert "is there already" in said
    assert "--force" in said
    assert target.read_text() == "before"
    assert run("log", "export", "gala", "--out", "gala.jsonl", "--force")[0] == 0
    assert numbers(target.read_text()) == whole()


def test_an_export_of_nothing_is_an_empty_file(run, shop, tmp_path):
    assert run("log", "export", "gala", "--after", "99", "--out", "none.jsonl")[0] == 0
    assert (tmp_path / "none.jsonl").read_bytes() == b""


def test_what_was_pruned_is_not_exported_and_that_is_said(run, shop):
    prune("gala", 5)
    code, out, err = run("log", "export", "gala")
    assert (code, numbers(out)) == (0, whole(first=6))
    assert err == PRUNED
    assert numbers(run("log", "export", "gala", "--after", "5")[1]) == whole(first=6)


@pytest.mark.parametrize("after", [0, 2, 4])
def test_what_is_left_after_a_number_that_was_pruned_is_exported(run, shop, after):
    prune("gala", 5)
    code, out, err = run("log", "export", "gala", "--after", str(after))
    assert (code, numbers(out)) == (0, whole(first=6))
    assert err == PRUNED


@pytest.mark.parametrize("after", [5, 6, 99])
def test_where_nothing_is_missing_nothing_is_said(run, shop, after):
    prune("gala", 5)
    code, out, err = run("log", "export", "gala", "--after", str(after))
    assert (code, numbers(out), err) == (0, whole(first=after + 1), "")


WRONG = {
    "no event": (["export"], 2, "name an event, or say --all"),
    "both": (["export", "gala", "--all"], 2, "name an event, or say --all"),
    "all after": (["export", "--all", "--after", "1"], 2, "--after goes with one event"),
    "unknown": (["export", "nowhere"], 1, "nowhere"),
    "unknown to show": (["show", "nowhere"], 1, "nowhere"),
    "below zero": (["export", "gala", "--after", "-1"], 2, "--after must be a whole number"),
    "no limit": (["show", "gala", "--limit", "0"], 2, "--limit must be a whole number"),
    "no folder": (["export", "gala", "--out", "no/such/file"], 1, "no/such/file: No such file"),
    "a folder": (["export", "gala", "--out", "."], 2, "."),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_be_done_is_one_line(run, shop, tmp_path, wrong):
    args, code, text = WRONG[wrong]
    assert text in complaint(run("log", *args), code)
    assert left_over(tmp_path) == []


def test_an_event_that_is_not_there_makes_no_file(run, shop, tmp_path):
    assert run("log", "export", "nowhere", "--out", "x.jsonl")[0] == 1
    assert not (tmp_path / "x.jsonl").exists()


# Show


def test_facts_are_shown_to_people(run, shop):
    code, out, _ = run("log", "show", "gala")
    assert code == 0
    head, *lines = out.splitlines()
    assert head.split() == ["at", "number", "fact", "whose", "about"]
    assert [line.split()[2:4] for line in lines][:3] == [
        ["1", "event.created"],
        ["2", "hold.placed"],
        ["3", "order.confirmed"],
    ]
    assert "Zoë" in lines[1]
    assert "A-1-1, floor x 2" in lines[1]
    assert "gala.o1" in lines[2]
    assert lines[-1].split()[3] == "event.changed"


def test_some_of_them_are_shown(run, shop):
    _, out, _ = run("log", "show", "gala", "--after", "2", "--limit", "2")
    assert [line.split()[2] for line in out.splitlines()[1:]] == ["3", "4"]
    assert run("log", "show", "gala", "--after", "99")[1] == "no facts of gala after 99\n"


def test_programs_get_one_json_value(run, shop):
    code, out, _ = run("log", "show", "gala", "--after", "6", "--json")
    assert code == 0
    assert [fact["sequence"] for fact in json.loads(out)] == [7, 8]


def test_that_the_beginning_was_pruned_is_said(run, shop):
    prune("gala", 5)
    for after in ((), ("--after", "4")):
        code, out, err = run("log", "show", "gala", *after)
        assert (code, err) == (0, PRUNED)
        assert [line.split()[2] for line in out.splitlines()[1:]] == ["6", "7", "8"]
        code, out, err = run("log", "show", "gala", "--json", *after)
        assert (code, err) == (0, PRUNED)
        assert [fact["sequence"] for fact in json.loads(out)] == [6, 7, 8]
    assert run("log", "show", "gala", "--after", "5")[2] == ""
