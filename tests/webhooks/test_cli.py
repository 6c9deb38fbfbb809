"""holdfast webhooks: subscriptions on the command line."""

import asyncio
import json
import os
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from holdfast import Holdfast
from holdfast.brokers.webhooks.retries import KIND as RETRY_KIND
from holdfast.brokers.webhooks.retries import Retry, retry_id
from holdfast.brokers.webhooks.subscriptions import Webhooks
from holdfast.cli import main
from holdfast.domain.views import Document
from tests.webhooks.receiving import Receiver, verify

STORE = ("--store", "sqlite:///shop.db")
URL = "https://shop.invalid/hook"
EVENT = {"id": "gala", "prices": {"floor": 1}, "pools": [{"id": "floor", "capacity": 1}]}
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path, monkeypatch, capfd) -> Run:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("HOLDFAST_")]:
        monkeypatch.delenv(name)
    assert main(("migrate", *STORE)) == 0

    def call(*args: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main(("webhooks", *args, *STORE))
        return code, *capfd.readouterr()

    return call


def added(run: Run, *more: str, url: str = URL) -> tuple[str, str]:
    """Its id and its secret."""
    code, out, err = run("add", url, "--events", "order.confirmed, event.*", *more)
    assert (code, err) == (0, "")
    found = re.search(r"wh_\w+", out)
    assert found
    return found[0], out.splitlines()[-1]


@pytest.mark.parametrize("command", ["list", "add", "remove", "rotate", "enable", "redeliver"])
def test_every_command_has_help_with_an_example(tmp_path, monkeypatch, capfd, command):
    monkeypatch.chdir(tmp_path)
    assert main(("webhooks", command, "--help")) == 0
    assert f"Example: holdfast webhooks {command}" in " ".join(capfd.readouterr().out.split())


def test_a_webhook_is_added_and_listed_without_its_secret(run):
    assert run("list") == (
        0,
        "No webhooks yet: `holdfast webhooks add URL --events ...` makes one.\n",
        "",
    )
    id, secret = added(run, "--subject", "gala", "--description", "mails")
    assert re.fullmatch(r"whsec_\S{40,}", secret)
    code, out, _ = run("list")
    assert code == 0
    assert [each in out for each in (id, URL, "event.*", "active", secret)] == [True] * 4 + [False]
    (shown,) = json.loads(run("list", "--json")[1])
    assert shown["events"] == ["order.confirmed", "event.*"]
    assert (shown["subjects"], shown["description"]) == (["gala"], "mails")
    assert "secret" not in shown


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (("add", "http://127.0.0.1/", "--events", "*"), "unless HOLDFAST_WEBHOOK_INTERNAL=true"),
        (("add", "http://localhost/", "--events", "*"), "unless HOLDFAST_WEBHOOK_INTERNAL=true"),
        (("add", URL, "--events", "order.sold"), "events[0]"),
        (("add", URL, "--events", ","), "events"),
        (("add", "shop.example", "--events", "*"), "http://"),
        (("add", URL, "--events", "*", "--subject", "a.b"), "subjects[0]"),
        (("redeliver", "wh_x", "gala", "99999999999999999999"), "4611686018427387904"),
        (("redeliver", "wh_x", "gala", "0"), "sequence must be a whole number from 1 to "),
    ],
)
def test_a_wrong_value_is_one_line_and_exit_code_two(run, args, word):
    code, out, err = run(*args)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert word in err


def test_a_secret_is_rotated_and_a_webhook_enabled_and_removed(run):
    id, secret = added(run)
    code, out, _ = run("rotate", id, "--keep-seconds", "60")
    assert code == 0
    assert "The one before signs too for 60 s more:" in out
    assert out.splitlines()[-1].startswith("whsec_")
    assert out.splitlines()[-1] != secret
    for _ in range(8):
        run("rotate", id)
    code, out, err = run("rotate", id)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "10 secrets sign already" in err
    assert "The one before signs no more:" in run("rotate", id, "--keep-seconds", "0")[1]

    async def disable() -> None:
        async with Holdfast.open("sqlite:///shop.db", upkeep=False) as shop:
            await Webhooks(shop.store).disable(id, "nobody is there")

    asyncio.run(disable())
    assert "nobody is there" in run("list")[1]
    assert run("enable", id) == (0, f"Enabled {id}.\n", "")
    assert "active" in run("list")[1]
    assert run("remove", id) == (0, f"Removed {id}.\n", "")
    assert json.loads(run("list", "--json")[1]) == []


@pytest.mark.parametrize("command", ["remove", "rotate", "enable"])
def test_one_that_is_not_there_is_refused(run, command):
    code, _, err = run(command, "wh_nowhere")
    assert code == 1
    assert "there is no webhook 'wh_nowhere'" in err


def test_the_list_says_why_a_webhook_fails_in_the_words_of_the_api(run):
    id, _ = added(run)

    async def fail(retry: Retry | None, *, failing: bool) -> None:
        async with Holdfast.open("sqlite:///shop.db", upkeep=False) as shop:
            if failing:
                await Webhooks(shop.store).failing(id)
            name = retry_id(id, "gala")
            for each in (await shop.store.documents(RETRY_KIND, name))[0]:
                await shop.store.drop(each.kind, each.id, each.version)
            if retry is not None:
                body = msgspec.json.encode(retry).decode()
                await shop.store.put(Document(RETRY_KIND, name, 1, body))

    def listed() -> tuple[str, dict[str, Any]]:
        (shown,) = json.loads(run("list", "--json")[1])
        return run("list")[1].splitlines()[1].split("event.*  ")[1], shown

    first_ms, last_ms, due_ms = 1_790_000_000_000, 1_790_000_300_000, 1_790_002_100_000
    refused = Retry(4, 2, 2, first_ms, due_ms, 1, "answered 422", last_ms)
    asyncio.run(fail(refused, failing=False))
    line, shown = listed()
    assert line == "active  gala.4 answered 422, tries: 2, next: 2026-09-21 14:48"
    assert (shown["state"], shown["failing_since"]) == ("active", None)
    assert shown["last_failure"] == {
        "fact": "gala.4",
        "reason": "answered 422",
        "at": "2026-09-21T14:18:20Z",
        "attempts": 2,
        "next_try_at": "2026-09-21T14:48:20Z",
    }
    down = msgspec.structs.replace(refused, reason="answered 500", turn=0)
    asyncio.run(fail(down, failing=True))
    line, shown = listed()
    since = shown["failing_since"][:16].replace("T", " ")
    again = "gala.4 answered 500, tries: 2, next: at once"
    assert line == f"active  failing since {since}: {again}"
    assert shown["last_failure"]["next_try_at"] is None
    asyncio.run(fail(None, failing=True))
    assert listed()[0] == f"active  failing since {since}"


def test_a_store_in_memory_is_refused(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    assert main(("webhooks", "list", "--store", "memory://")) == 2


async def test_a_fact_is_delivered_again(run, monkeypatch):
    monkeypatch.setenv("HOLDFAST_WEBHOOK_INTERNAL", "true")
    receiver = Receiver()
    await receiver.start()
    try:
        async with Holdfast.open("sqlite:///shop.db", upkeep=False) as shop:
            await shop.create_event(EVENT)
        id, secret = await asyncio.to_thread(added, run, url=receiver.url)
        assert await asyncio.to_thread(run, "redeliver", id, "gala", "1") == (
            0,
            "gala.1: taken\n",
            "",
        )
        assert verify(secret, receiver.got[0].headers, receiver.got[0].body)["id"] == "gala.1"
        receiver.answer = lambda got: 500
        code, _, err = await asyncio.to_thread(run, "redeliver", id, "gala", "1")
        assert (code, "answered 500" in err) == (1, True)
        code, _, err = await asyncio.to_thread(run, "redeliver", id, "gala", "2")
        assert (code, "the log has no fact gala.2" in err) == (1, True)
        for unknown in ("nope", "not an id"):
            code, _, err = await asyncio.to_thread(run, "redeliver", id, unknown, "1")
            assert (code, f"there is no event {unknown!r}; " in err) == (1, True)
        code, _, err = await asyncio.to_thread(run, "redeliver", "wh_nowhere", "gala", "1")
        assert (code, "there is no webhook" in err) == (1, True)
    finally:
        await receiver.stop()
