"""holdfast projections: what it says to people. What it keeps is in tests/projections."""

import asyncio
import os
import re
import signal
import subprocess
import sys

import pytest

from holdfast import Holdfast, Placed
from holdfast.cli import main

EVENT = {"id": "gala", "prices": {"floor": 4500}, "pools": [{"id": "floor", "capacity": 70}]}
STORE = ("--store", "sqlite:///shop.db")


async def sell() -> None:
    async with Holdfast.open("sqlite:///shop.db", upkeep=False) as shop:
        await shop.create_event(EVENT)
        for buyer in ("ann", "bob"):
            placed = await shop.place_hold("gala", buyer=buyer, pools={"floor": 1})
            assert isinstance(placed, Placed)
            if buyer == "ann":
                await shop.confirm_hold(placed.hold.id)
            else:
                await shop.release_hold(placed.hold.id)


@pytest.fixture
def shop(tmp_path, monkeypatch) -> None:
    """One unit of seventy is sold, and one of two holds was given back."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("HOLDFAST_")]:
        monkeypatch.delenv(name)
    asyncio.run(sell())


def test_shares_are_written_in_one_way(shop, capfd):
    assert main(["projections", "show", "gala", *STORE]) == 0
    out = capfd.readouterr().out
    assert re.findall(r"[\d.]+ ?%", out) == ["1.43 %", "50.00 %", "50.00 %"]


def test_follow_says_that_it_has_stopped(shop):
    command = [sys.executable, "-m", "holdfast.cli", "projections", "follow", *STORE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "Projecting sqlite:///shop.db from log\n"
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=30)
            assert (process.returncode, out) == (0, "Stopped\n")
        finally:
            if process.poll() is None:
                process.kill()
