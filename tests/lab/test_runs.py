"""Runs as documents: one at a time, whoever dies. And a crowd ends when nobody waits for it."""

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections.abc import Sequence
from typing import Any, get_args

import msgspec
import pytest
from msgspec.structs import replace

from holdfast import Holdfast
from holdfast.api.lab_wire import Strategy
from holdfast.domain.commands import Command
from holdfast.domain.outcomes import Answer
from holdfast.domain.views import Document
from holdfast.lab.contest.databases import SqliteLine
from holdfast.lab.contest.tables import EXISTING
from holdfast.lab.runs import offers
from holdfast.lab.runs.board import (
    CLAIM_KIND,
    CLAIM_MS,
    DIED,
    RELEASE_SECONDS,
    RUNS_MAX,
    Board,
    Lost,
)
from holdfast.lab.runs.crowd import Order
from holdfast.lab.runs.laboratory import Laboratory
from holdfast.lab.runs.trials import BOUNDS_MS, Run, Trial, histogram
from holdfast.lab.strategies import STRATEGIES
from holdfast.ports import Committed
from holdfast.settings import Settings
from holdfast.wiring import make_store
from tests.databases.shops import until

TRIAL = Trial("holdfast", buyers=10, seats=1)


@pytest.fixture
async def memory(clock):
    store = make_store(Settings(store="memory://"), clock)
    await store.open()
    yield store
    await store.close()


def run(nth: int) -> Run:
    return Run(f"run-{nth:03}", TRIAL, 0)


async def test_one_run_goes_on_at_a_time(memory):
    first, second = Board(memory), Board(memory)
    assert await first.claim(run(1), tables=False)
    assert await second.claim(run(2), tables=False) is None
    await first.release(clean=True)
    begun = await second.claim(run(2), tables=False)
    assert begun is not None
    assert begun[1] is None, "the first left nothing behind"


async def test_who_sees_that_a_run_is_over_may_begin_the_next_though_its_claim_stands(memory):
    first, second = Board(memory), Board(memory)
    claimed = await first.claim(run(1), tables=False)
    assert claimed is not None
    await first.save(replace(claimed[0], state="done"))
    beginning = asyncio.create_task(second.claim(run(2), tables=False))
    await asyncio.sleep(2 * RELEASE_SECONDS)
    assert not beginning.done(), "it is waited for"
    await first.release(clean=True)
    assert await beginning is not None


async def test_who_dies_after_his_last_word_is_not_waited_for_forever(memory, clock):
    dead = Board(memory)
    claimed = await dead.claim(run(1), tables=False)
    assert claimed is not None
    await dead.save(replace(claimed[0], state="done"))
    assert await Board(memory).claim(run(2), tables=False) is None
    clock.advance(CLAIM_MS)
    assert await Board(memory).claim(run(2), tables=False) is not None


async def test_of_many_who_ask_at_once_one_gets_it(memory):
    claims = await asyncio.gather(*(Board(memory).claim(run(n), tables=False) for n in range(9)))
    assert sum(claim is not None for claim in claims) == 1


async def test_a_performer_who_dies_does_not_block_the_lab(memory, clock):
    dead = Board(memory)
    claimed = await dead.claim(run(1), tables=True)
    assert claimed is not None
    await dead.save(replace(claimed[0], progress=replace(claimed[0].progress, answered=7)))
    clock.advance(CLAIM_MS - 1)
    assert await Board(memory).claim(run(2), tables=False) is None
    seen = await Board(memory).find("run-001")
    assert seen is not None
    assert seen.state == "running"
    clock.advance(1)
    seen = await Board(memory).find("run-001")
    assert seen is not None
    assert (seen.state, seen.error, seen.progress.answered) == ("failed", DIED, 7)
    claimed = await Board(memory).claim(run(2), tables=False)
    assert claimed is not None
    assert claimed[1] is not None
    assert (claimed[1].run, claimed[1].tables) == ("run-001", True)


async def test_tables_that_were_left_are_known_until_they_are_dropped(memory):
    dead = Board(memory)
    assert await dead.claim(run(1), tables=True)
    await dead.release(clean=False)
    between = Board(memory)
    assert await between.claim(run(2), tables=False)
    await between.release(clean=False)
    last = await Board(memory).claim(run(3), tables=False)
    assert last is not None
    assert last[1] is not None
    assert last[1].tables, "the run between made none, and dropped none"


async def test_a_run_that_is_stopped_while_its_event_is_made_closes_it(tmp_path, monkeypatch):
    async with Holdfast.open(f"sqlite:///{tmp_path}/x.db") as shop:
        apply, made = shop.store.apply, asyncio.Event()

        async def slow(commands: Sequence[Command], committed: Committed) -> list[Answer]:
            answers = await apply(commands, committed)
            made.set()
            await asyncio.sleep(0.1)
            return answers

        monkeypatch.setattr(shop.store, "apply", slow)
        lab = Laboratory(shop, unused, unused)
        begun = await lab.start(TRIAL, None)
        assert begun is not None
        await made.wait()
        await lab.stop()
        ended = await lab.find(begun.id)
        assert ended is not None
        assert ended.state == "failed"
        (summary,) = await shop.events()
        assert summary.event.state == "closed"


async def test_a_run_that_ends_while_its_progress_is_written_says_how_it_ended(
    tmp_path, monkeypatch, caplog
):
    """Else the last word would meet a version that it does not know of, and be lost."""
    async with Holdfast.open(f"sqlite:///{tmp_path}/x.db") as shop:
        put, close, writing = shop.store.put, shop.close_event, asyncio.Event()

        async def slow(document: Document) -> bool:
            written = await put(document)
            if document.kind == CLAIM_KIND and document.version == 2:  # lengthened
                writing.set()
                await asyncio.sleep(0.2)
            return written

        async def closed(event: str) -> Any:
            await writing.wait()
            return await close(event)

        monkeypatch.setattr(shop.store, "put", slow)
        monkeypatch.setattr(shop, "close_event", closed)
        lab = Laboratory(shop, unused, unused)
        begun = await lab.start(TRIAL, None)
        assert begun is not None
        await until(lambda: ended(lab, begun.id), "that it has ended")
        seen = await lab.find(begun.id)
        assert seen is not None
        assert (seen.state, seen.error) == ("done", None)
        assert await lab.start(TRIAL, None) is not None, "the next may begin at once"
        await lab.stop()
        assert "not written down" not in caplog.text, "it had to wait until the claim lapsed"


async def ended(lab: Laboratory, id: str) -> bool:
    run = await lab.find(id)
    return run is not None and run.state != "running"


async def unused() -> Any:
    raise AssertionError("not for this run")


async def test_who_lengthens_his_claim_keeps_it_and_who_lost_it_learns_so(memory, clock):
    first, second = Board(memory), Board(memory)
    assert await first.claim(run(1), tables=False)
    for _ in range(3):
        clock.advance(CLAIM_MS - 1)
        await first.lengthen()
    assert await second.claim(run(2), tables=False) is None
    clock.advance(CLAIM_MS)
    assert await second.claim(run(2), tables=False)
    with pytest.raises(Lost):
        await first.lengthen()


async def test_so_many_runs_are_kept_newest_first(memory, clock):
    for nth in range(RUNS_MAX + 3):
        board = Board(memory)
        claimed = await board.claim(run(nth), tables=False)
        assert claimed is not None
        await board.save(replace(claimed[0], state="done"))
        await board.release(clean=True)
        await board.prune()
        clock.advance(1)
    kept = await Board(memory).all()
    assert [each.id for each in kept[:2]] == [f"run-{RUNS_MAX + 2:03}", f"run-{RUNS_MAX + 1:03}"]
    assert len(kept) == RUNS_MAX
    documents, _ = await memory.documents("lab_run")
    assert len(documents) == RUNS_MAX


def test_every_latency_is_in_one_bucket_and_none_is_missing_between():
    found = histogram([1, 10, 11, 250_000, 10**9])
    assert sum(bucket.count for bucket in found) == 5
    assert [bucket.le_ms for bucket in found] == [*BOUNDS_MS]
    assert found[0].count == 2
    assert histogram([]) == []
    assert [(each.le_ms, each.count) for each in histogram([1_000_000])] == [(1000.0, 1)]


def test_every_seat_is_wanted_and_neighbours_want_the_same():
    trial = Trial("naive", buyers=10, seats=3)
    wanted = trial.wanted()
    assert wanted == sorted(wanted)
    assert len(set(wanted)) == 3
    assert [trial.scenario().want(nth).seats for nth in range(10)] == [(each,) for each in wanted]
    assert len(set(Trial("naive", buyers=3, seats=10).wanted())) == 3


def test_every_strategy_is_offered_under_the_name_that_may_be_asked_for():
    named = {"holdfast", *STRATEGIES} - {"group-commit"}
    assert {*get_args(Strategy)} == named
    assert {offer.id for offer in offers.strategies(Settings())} == named


@pytest.mark.parametrize(
    ("store", "gate", "missing"),
    [
        ("sqlite:///shop.db", "none", {"skip-locked", "redis-nx", "two-layer", "redis-lua"}),
        ("memory://", "memory://", {"skip-locked", "redis-nx", "two-layer", "redis-lua"}),
        ("sqlite:///shop.db", "redis://h", {"skip-locked", "redis-nx", "two-layer"}),
        ("postgresql://h/db", "none", {"redis-nx", "two-layer", "redis-lua"}),
        ("postgresql://h/db", "redis://h", set()),
        ("mysql://h/db", "redis://h?cluster=true", {"redis-nx", "two-layer", "redis-lua"}),
    ],
)
def test_what_is_offered_is_what_the_deployment_can_do(store, gate, missing):
    found = offers.strategies(Settings(store=store, gate=gate))
    assert {offer.id for offer in found if not offer.available} == missing
    assert all(bool(offer.why_not) != offer.available for offer in found)


@pytest.mark.slow
@pytest.mark.parametrize("temporary", [False, True])
async def test_a_crowd_that_nobody_waits_for_any_more_cleans_up_and_ends(tmp_path, temporary):
    """As when its worker is killed: the pipe ends."""
    url = f"sqlite:///{tmp_path / 'lab.db'}"
    order = Order(
        Trial("pessimistic", 20_000, 1),
        Settings(store="memory://"),
        database=url,
        folder=str(tmp_path) if temporary else "",
    )
    crowd = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast.lab.runs.crowd"), stdin=PIPE, stdout=PIPE
    )
    assert crowd.stdin
    assert crowd.stdout
    crowd.stdin.write(msgspec.json.encode(order) + b"\n")
    assert b"Progress" in await asyncio.wait_for(crowd.stdout.readline(), 20)
    crowd.stdin.close()
    assert await asyncio.wait_for(crowd.wait(), 20) == 0
    assert tmp_path.exists() is not temporary
    if temporary:
        return
    line = await SqliteLine.open(url)
    assert await line.rows(EXISTING["sqlite"]) == []
    await line.close()
