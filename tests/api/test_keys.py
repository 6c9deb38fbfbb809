"""API keys: made, listed and revoked on the command line, heeded by a running service."""

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.api.keys import Keys, Role
from holdfast.stores.memory import MemoryStore
from tests.api.serving import ADMIN, HOLDFAST, Served, serving

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made: Path = tmp_path_factory.mktemp("keys")
    return made


@pytest.fixture(scope="module")
def served(folder) -> Iterator[Served]:
    """On a file of its own, into which these tests look."""
    store = f"sqlite:///{folder / 'shop.db'}"
    with serving(store, cwd=folder, sqlite_synchronous="NORMAL") as it:
        yield it


def holdfast(served: Served, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*HOLDFAST, *arguments],
        env=served.environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


def contents(folder: Path) -> bytes:
    """Every byte of the store: its file, and what was not written into it yet."""
    return b"".join(path.read_bytes() for path in folder.glob("shop.db*"))


@pytest.mark.parametrize("role", ["admin", "seller", "public"])
def test_a_key_is_printed_alone_on_the_last_line_and_works_at_once(served, role):
    made = holdfast(served, "keys", "create", "--role", role)
    assert made.returncode == 0
    key = made.stdout.splitlines()[-1]
    assert re.fullmatch(rf"hf_{role}_[\w-]{{32}}", key)
    assert made.stdout.count(key) == 1
    assert served.call("GET", "/v1/events", key=key).status_code == 200
    assert served.call("GET", "/v1/system", key=key).status_code == (
        200 if role == "admin" else 403
    )


def test_the_store_has_only_the_hash(served, folder):
    key = served.key("seller", "--name", "a name that can be found")
    found = contents(folder)
    assert b"a name that can be found" in found  # the control: we look in the right place
    assert key.encode() not in found
    assert key.removeprefix("hf_seller_").encode() not in found
    assert ADMIN.encode() not in found


def test_keys_are_listed_without_the_keys(served):
    key = served.key("public", "--name", "the web shop", "--origin", "https://shop.example")
    listed = holdfast(served, "keys", "list")
    assert listed.returncode == 0
    assert "the web shop" in listed.stdout
    assert "HOLDFAST_ADMIN_KEY" in listed.stdout
    assert key not in listed.stdout
    shown = json.loads(holdfast(served, "keys", "list", "--json").stdout)
    mine = next(each for each in shown if each["name"] == "the web shop")
    assert (mine["role"], mine["origins"]) == ("public", ["https://shop.example"])
    assert all("hash" not in each for each in shown)
    assert mine["id"] not in key


@pytest.mark.parametrize("named_by", ["key", "id"])
def test_a_revoked_key_is_refused_within_a_second(served, named_by):
    key = served.key("seller", "--name", f"to be revoked by {named_by}")
    assert served.call("GET", "/v1/events", key=key).status_code == 200
    listed = json.loads(holdfast(served, "keys", "list", "--json").stdout)
    id = next(each["id"] for each in listed if each["name"] == f"to be revoked by {named_by}")
    ended = holdfast(served, "keys", "revoke", key if named_by == "key" else id)
    over = time.monotonic() + 1
    assert ended.returncode == 0
    assert key not in ended.stdout
    while (answer := served.call("GET", "/v1/events", key=key)).status_code == 200:
        assert time.monotonic() < over
    assert (answer.status_code, answer.json()["reason"]) == (401, "unauthorized")
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    # Again is not an error, and it stays revoked.
    assert holdfast(served, "keys", "revoke", id).returncode == 0
    assert re.search(rf"{id}.*revoked", holdfast(served, "keys", "list").stdout)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["create", "--role", "owner"], 2),
        (["create"], 2),
        (["create", "--role", "public", "--origin", "shop.example"], 2),
        (["create", "--role", "public", "--origin", "https://shop.example/path"], 2),
        (["create", "--role", "seller", "--rate", "0"], 2),
        (["create", "--role", "seller", "--store", "memory://"], 2),
        (["revoke", "nothing"], 1),
        (["revoke"], 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_value_is_one_line(served, arguments, code):
    failed = holdfast(served, "keys", *arguments)
    assert failed.returncode == code
    assert failed.stdout == ""
    assert failed.stderr.startswith("holdfast: ")
    assert failed.stderr.count("\n") == 1


def first_start(folder: Path, store: str) -> str:
    """What `holdfast serve` prints until it serves, where nobody chose an admin key."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")
    }
    process = subprocess.Popen(
        [*HOLDFAST, "serve", "--port", "0", "--store", store],
        env=environment,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    said = ""
    try:
        for line in process.stdout:
            said += line
            if "serves http" in line:
                break
    finally:
        process.terminate()
        process.communicate(timeout=40)
    return said


def test_the_first_admin_key_is_printed_once(tmp_path):
    store = f"sqlite:///{tmp_path / 'shop.db'}"
    said = first_start(tmp_path, store)
    keys = re.findall(r"^hf_admin_[\w-]{32}$", said, re.MULTILINE)
    assert len(keys) == 1, said
    assert "hf_admin" not in first_start(tmp_path, store)
    assert keys[0].encode() not in contents(tmp_path)
    # With a key of one's own the first one is still good.
    with serving(store, cwd=tmp_path, sqlite_synchronous="NORMAL") as served:
        for key in (keys[0], ADMIN):
            assert served.call("GET", "/v1/system", key=key).status_code == 200
        assert not any("hf_admin" in line for line in served.said)


def test_a_revoked_admin_key_does_not_come_back(tmp_path):
    store = f"sqlite:///{tmp_path / 'shop.db'}"
    options = {"cwd": tmp_path, "sqlite_synchronous": "NORMAL"}
    with serving(store, **options) as served:
        assert holdfast(served, "keys", "revoke", ADMIN).returncode == 0
        environment = served.environment
    failed = subprocess.run(
        [*HOLDFAST, "serve", "--port", "0"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert failed.returncode == 2
    assert "HOLDFAST_ADMIN_KEY" in failed.stderr
    assert ADMIN not in failed.stderr
    assert failed.stderr.count("\n") == 1


def test_metrics_may_be_for_admins_only(tmp_path):
    store = f"sqlite:///{tmp_path / 'shop.db'}"
    settings = {"sqlite_synchronous": "NORMAL", "metrics_open": "false"}
    with serving(store, cwd=tmp_path, **settings) as served:
        keys = {None: 401, "unknown": 401, served.key("seller"): 403, ADMIN: 200}
        for key, status in keys.items():
            assert served.call("GET", "/metrics", key=key).status_code == status


async def test_a_key_that_was_lent_ends_by_itself_and_is_removed_by_the_next(clock):
    store = MemoryStore(clock)
    keys = Keys(store)
    named_alike = await keys.create(Role.ADMIN, "a crowd")
    lent = await keys.lend(Role.SELLER, "a crowd", 60)
    await keys.read()
    assert keys.find(lent) is not None
    clock.advance(60_001)
    await keys.read()
    assert keys.find(lent) is None
    assert len(await keys.all()) == 2
    taken_back = await keys.lend(Role.SELLER, "a crowd", 60)
    assert len(await keys.all()) == 2, "the old one is gone"
    await keys.take_back(taken_back)
    assert keys.find(taken_back) is None
    assert keys.find(named_alike) is not None
    assert [key.role for key in await keys.all()] == [Role.ADMIN]
