"""Which commands make a store: those that begin a shop. To the others a typo in its address is one
line, and nothing is made."""

import os
from collections.abc import Callable

import pytest

from holdfast.cli import main

NO_STORE = "sqlite:///shp.db"
AWAY = ("--broker", "nats://127.0.0.1:1")
WEBHOOK = "wh_01KA5X0Q7RZJ4N8S2D6F9G3H5T"
FOR_A_SHOP = [
    ("check",),
    ("repair",),
    ("events", "list"),
    ("events", "show", "gala"),
    ("events", "map", "gala"),
    ("events", "open", "gala"),
    ("events", "pause", "gala"),
    ("events", "close", "gala"),
    ("followers", "list"),
    ("followers", "forget", "relay"),
    ("dead-letters", "list"),
    ("dead-letters", "retry", "--all", *AWAY),
    ("dead-letters", "drop", "--all"),
    ("log", "show", "gala"),
    ("log", "export", "gala"),
    ("log", "export", "--all", "--out", "all.jsonl"),
    ("projections", "show", "gala"),
    ("projections", "rebuild"),
    ("projections", "follow"),
    ("keys", "list"),
    ("keys", "revoke", "3f9a1c27d5e0"),
    ("orders", "needing-a-person"),
    ("orders", "show", "gala.o1"),
    ("orders", "retry", "gala.o1"),
    ("orders", "cancel", "gala.o1"),
    ("webhooks", "list"),
    ("webhooks", "add", "https://shop.example/in", "--events", "*"),
    ("webhooks", "remove", WEBHOOK),
    ("webhooks", "rotate", WEBHOOK),
    ("webhooks", "enable", WEBHOOK),
    ("webhooks", "redeliver", WEBHOOK, "gala", "1"),
    ("relay", *AWAY),
]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path, monkeypatch, capfd) -> Run:
    """A command line run in this process."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("HOLDFAST_")]:
        monkeypatch.delenv(name)

    def call(*args: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main(args)
        return code, *capfd.readouterr()

    return call


@pytest.mark.parametrize("command", FOR_A_SHOP, ids=" ".join)
def test_a_store_that_is_not_there_is_one_line_and_nothing_is_made(run, tmp_path, command):
    code, out, err = run(*command, "--store", NO_STORE)
    assert (code, out) == (2, "")
    assert err == (
        "holdfast: there is no file shp.db, and so no store: holdfast migrate makes it\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("sqlite:///no/where.db", "the folder of sqlite:///no/where.db does not exist"),
        ("sqlite:///:memory:", "use memory://"),
        ("sqlite:///", "needs a file"),
        ("ftp://x", "unknown store"),
    ],
)
def test_an_address_that_cannot_be_is_said_as_everywhere(run, tmp_path, url, says):
    code, out, err = run("followers", "list", "--store", url)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert says in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [("keys", "create", "--role", "admin"), ("migrate",)])
def test_a_shop_may_begin_with_its_keys_or_its_schema(run, tmp_path, command):
    assert run(*command, "--store", "sqlite:///shop.db")[0] == 0
    assert (tmp_path / "shop.db").exists()
    assert run("keys", "list", "--store", "sqlite:///shop.db")[0] == 0


def test_a_shop_may_begin_with_its_first_event(run, tmp_path):
    (tmp_path / "gala.json").write_text(
        '{"id": "gala", "prices": {"floor": 1}, "pools": [{"id": "floor", "capacity": 1}]}'
    )
    assert run("events", "create", "gala.json", "--store", "sqlite:///shop.db")[0] == 0
    assert run("events", "show", "gala", "--store", "sqlite:///shop.db")[0] == 0
