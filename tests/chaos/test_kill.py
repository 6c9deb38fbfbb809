"""kill -9 at any moment: what was answered is there, and nothing is half there."""

import random
import subprocess
import sys

import pytest

from holdfast import Holdfast
from holdfast.stores.sqlite import SqliteStore
from holdfast.upkeep.check import check_event

KILLS = 20
HOUSE = {
    "id": "e1",
    "prices": {"any": 100},
    "sections": [{"id": "A", "tier": "any", "rows": 200, "seats_per_row": 100}],
    "pools": [{"id": "floor", "capacity": 100_000, "tier": "any"}],
}


def answered_before_the_kill(url: str, name: str, lines: int) -> list[str]:
    """Runs a holder, kills it after so many answers, returns all answers that got out."""
    command = [sys.executable, "-m", "tests.chaos.holder", url, "e1", name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        said = [holder.stdout.readline() for _ in range(lines)]
        holder.kill()
        said += holder.stdout.readlines()
        assert holder.wait() == -9
    return [line.strip() for line in said if line.endswith("\n")]


@pytest.mark.slow
async def test_twenty_kills_lose_nothing_that_was_answered(tmp_path):
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    chance = random.Random(20)
    async with Holdfast.open(url) as shop:
        await shop.create_event(HOUSE)
    answers: list[str] = []
    for kill in range(KILLS):
        answers += answered_before_the_kill(url, f"k{kill}", chance.randint(1, 400))
    async with Holdfast.open(url) as shop:
        for answer in answers:
            kind, id = answer.split()
            there = await (shop.hold(id) if kind == "hold" else shop.order(id))
            assert there is not None, answer
        checked = await check_event(shop.store, "e1")
        assert checked is not None
        assert checked.drift == []
        # The auditor read the log from 1 without a gap, to the number that the event counts.
        summary = await shop.event("e1")
        assert summary is not None
        assert checked.facts == summary.seq >= len(answers)
    assert len(answers) > KILLS * 10


@pytest.mark.slow
async def test_a_commit_reaches_the_disk_before_the_answer(tmp_path):
    """What a kill cannot show, a loss of power would: the file is written with FULL."""
    async with Holdfast.open(f"sqlite:///{tmp_path / 'shop.db'}") as shop:
        assert isinstance(shop.store, SqliteStore)
        assert shop.store._db.pragma("synchronous") == 2
        assert shop.store._db.pragma("journal_mode") == "wal"
