"""holdfast projections: show, rebuild and follow."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from holdfast import Holdfast
from holdfast.cli import main
from tests.contract.helpers import E1, description, held, on_sale, sold

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


async def sell_a_few() -> None:
    async with Holdfast.open("sqlite:///holdfast.db", upkeep=False) as shop:
        await on_sale(shop)
        await held(shop, seats=["A-2-1"])
        await sold(shop)


@pytest.fixture
async def sale(run) -> None:
    await sell_a_few()


def in_thread(work: Callable[[], Any]) -> Any:
    """The command line has a loop of its own."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


async def test_show_says_how_the_sale_has_gone(run, sale):
    code, out, _ = in_thread(lambda: run("projections", "show", E1))
    assert code == 0
    assert "4 of 29 units" in out
    assert "270.00 EUR" in out
    assert re.search(r"gold +2 +180\.00 EUR", out)
    code, out, _ = in_thread(lambda: run("projections", "show", E1, "--json"))
    found = msgspec.json.decode(out)
    assert (code, found["sold"], found["holds"]["held"]) == (0, 4, 1)


async def test_rebuild_folds_one_event_or_all(run, sale):
    assert in_thread(lambda: run("projections", "rebuild", E1, "--json"))[:2] == (0, '{"e1":3}\n')
    code, out, _ = in_thread(lambda: run("projections", "rebuild"))
    assert (code, out.split()) == (0, ["event", "facts", "e1", "3"])


async def test_rebuild_goes_on_where_one_cannot_be_folded_and_says_which(run, sale):
    async with Holdfast.open("sqlite:///holdfast.db", upkeep=False) as shop:
        await shop.create_event(description(id="e2"))
        assert await shop.store.prune(E1, 1, 10) == 1
    code, out, complaint = in_thread(lambda: run("projections", "rebuild", "--json"))
    assert (code, out, complaint.count("\n")) == (1, '{"e2":1}\n', 1)
    assert complaint.startswith("holdfast: e1 was not rebuilt: the log of e1 begins with 2")
    code, out, _ = in_thread(lambda: run("projections", "rebuild", E1))
    assert (code, out) == (1, "")


@pytest.mark.parametrize("command", ["show", "rebuild"])
async def test_an_unknown_event_is_one_line(run, sale, command):
    code, out, complaint = in_thread(lambda: run("projections", command, "nobody"))
    assert (code, out) == (1, "")
    assert complaint.count("\n") == 1
    assert "nobody" in complaint


@pytest.mark.parametrize(
    "options", [("--from", "nats://x:1"), ("--from", "kafka://"), ("--store", "memory://")]
)
def test_what_cannot_be_followed_is_one_line(run, options):
    code, _, complaint = run("projections", "follow", *options)
    assert (code, complaint.count("\n")) == (2, 1)


async def test_follow_saves_until_it_is_stopped(run, sale, tmp_path):
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast.cli", "projections", "follow"),
        cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        assert process.stdout is not None
        assert b"from log" in await process.stdout.readline()
        async with Holdfast.open("sqlite:///holdfast.db", upkeep=False) as shop:
            while not (await shop.store.documents("projection", E1))[0]:
                assert process.returncode is None
                await shop.store.wake(0.1)
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(30):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
