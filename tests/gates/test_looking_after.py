"""check and repair of a gate from the command line, and a gate that comes back in a quiet hour."""

import asyncio
import json
from pathlib import Path

import pytest
from redis import Redis as Client

from holdfast import Holdfast
from holdfast.cli import main
from tests.contract.helpers import E1, held, on_sale, sold
from tests.databases.shops import until

pytestmark = pytest.mark.service

NOBODY = "redis://127.0.0.1:1/0"


@pytest.fixture
def client(redis_server):
    with Client(port=redis_server.port) as client:
        yield client


@pytest.fixture
def options(tmp_path, redis_server):
    """Of a shop with a hold and an order, on a file and this Redis."""
    store = f"sqlite:///{tmp_path / 'shop.db'}"

    async def sell() -> None:
        async with Holdfast.open(store, gate=redis_server.url, policy="two-layer") as shop:
            await on_sale(shop)
            await held(shop, "ann", seats=["A-1-1"], pools={"floor": 2})
            await sold(shop, "bob", seats=["A-1-2"])

    asyncio.run(sell())
    return ["--store", store, "--gate", redis_server.url, "--policy", "two-layer"]


def test_a_gate_that_is_as_it_should_be_is_clean(options, capfd):
    assert main(["check", *options]) == 0
    assert "gate: events compared: 1" in capfd.readouterr().out
    assert main(["repair", *options]) == 0


def test_what_was_lost_is_listed_and_mended(options, client, capfd):
    client.flushall()
    assert main(["check", *options]) == 3
    assert f"{E1}: {E1}." in capfd.readouterr().out
    assert main(["check", "--json", *options]) == 3
    found = json.loads(capfd.readouterr().out)
    assert (found["clean"], found["drift"], found["gate_drift"]) == (False, 0, 3)
    assert main(["repair", *options]) == 0
    capfd.readouterr()
    assert main(["check", *options]) == 0


@pytest.mark.parametrize(
    "key", ["seats", "owners", "deadlines", "stock", "claimed", "units", "version"]
)
def test_what_cannot_be_read_is_begun_anew(options, client, capfd, key):
    name = f"holdfast:{{{E1}}}:{key}"
    client.delete(name)
    client.lpush(name, "somebody else's")
    main(["check", *options])
    assert "Traceback" not in capfd.readouterr().err
    assert main(["repair", *options]) == 0
    assert main(["check", *options]) == 0
    assert client.type(name) != b"list"


def test_a_gate_that_cannot_be_reached_is_one_line(options, capfd):
    there = [NOBODY if option.startswith("redis:") else option for option in options]
    for command in ("check", "repair"):
        assert main([command, *there]) == 2
        line = capfd.readouterr().err.strip()
        assert "cannot be reached" in line.splitlines()[-1]


def test_without_a_policy_it_says_that_nothing_was_compared(options, capfd):
    assert main(["check", *options[:4]]) == 0
    assert "events compared: 0; under policy authority" in capfd.readouterr().out


def test_a_gate_in_memory_is_nobody_elses_to_look_at(options, capfd):
    assert main(["check", *options[:2], "--gate", "memory://"]) == 2
    assert "another process's own" in capfd.readouterr().err


def test_a_gate_that_does_not_answer_has_no_figures(capfd):
    assert main(["bench", "--quick", "--only", "gate", "--gate", NOBODY]) == 2
    assert "cannot be reached" in capfd.readouterr().err


async def test_two_stores_with_prefixes_of_their_own_do_not_meet(tmp_path, redis_server):
    def shop(name: str) -> Holdfast:
        store = f"sqlite:///{Path(tmp_path) / name}.db"
        gate = {"gate": redis_server.url, "policy": "gate", "gate_prefix": name}
        return Holdfast.open(store, **gate)

    async with shop("one") as one, shop("two") as two:
        for each in (one, two):
            await on_sale(each)
        hold = await held(one, "ann", seats=["A-1-1"])
        await held(two, "bob", seats=["A-1-1"])
        assert await two.hold(hold.id) is None


async def test_in_a_quiet_hour_too_it_is_noticed_that_the_gate_is_back(tmp_path, killable):
    store = f"sqlite:///{tmp_path / 'shop.db'}"
    async with Holdfast.open(store, gate=killable.url, policy="two-layer") as shop:
        assert shop.keeper is not None
        keeper = shop.keeper
        await on_sale(shop)
        await asyncio.to_thread(killable.kill)
        await held(shop, "ann", seats=["A-1-1"])
        assert keeper.state != "up"
        await asyncio.to_thread(killable.start)

        async def back() -> bool:
            return keeper.state == "up"

        await until(back, "that the gate is back, though nobody asks")
