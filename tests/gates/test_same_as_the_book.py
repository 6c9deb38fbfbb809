"""The scripts in Redis do what `Book` does, whatever is asked in whatever order."""

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.domain.gating import (
    Adjust,
    Book,
    Claim,
    Claimed,
    Clash,
    Find,
    Found,
    Free,
    Keep,
    Kept,
    Kind,
    Mark,
    Op,
    Owned,
    Snapshot,
    Stock,
    Verdict,
)
from holdfast.domain.model import FOREVER_MS
from holdfast.gates.redis import RedisGate
from holdfast.gates.redis import gate as module
from holdfast.gates.redis.scripts import Script
from tests.conftest import START_MS, Clock
from tests.gates.helpers import TIMEOUT_MS, opened

pytestmark = pytest.mark.service

SLACK_MS = 60_000
"""Redis and the test read the time at different moments; deadlines here are hours away, or over."""
HOUR_MS = 3_600_000

ids = st.sampled_from(["h1", "h2", "h3", "h4", "h5", "ä:1"])
buyers = st.sampled_from(["ann", "bob", "ciğdem"])
seats = st.sampled_from(["A-1", "A-2", "A-3", "A-4", "座-5"])
pools = st.sampled_from(["floor", "rail", "unheard"])
small = st.integers(0, 6)
versions = st.integers(1, 3)
moments = st.sampled_from([1, 2, 5, 100, HOUR_MS, FOREVER_MS])
over = st.sampled_from([0, -1])


def owneds(keep: st.SearchStrategy[int], *, empty: bool) -> st.SearchStrategy[Owned]:
    quantity = st.integers(0 if empty else 1, 6)
    made = st.builds(
        Owned,
        id=ids,
        buyer=buyers,
        seats=st.lists(seats, max_size=3, unique=True).map(tuple),
        pools=st.dictionaries(pools, quantity, max_size=2),
        kind=st.sampled_from(Kind),
        keep_ms=keep,
        version=versions,
        note=st.sampled_from(["", "{}", "ü"]),
    )
    return made if empty else made.filter(lambda owned: owned.units > 0)


def asks(keep: st.SearchStrategy[int], *, odd: bool = True) -> st.SearchStrategy[list[Op]]:
    fence = st.none() | versions
    after = st.none() | st.sampled_from([START_MS, START_MS + 3, 2**50])
    kinds: list[st.SearchStrategy[Any]] = [  # of one operation each
        st.builds(Claim, owneds(keep, empty=odd), st.none() | small),
        st.builds(Claim, owneds(keep, empty=odd)),
        st.builds(Keep, ids, st.sampled_from(Kind), keep, fence, st.none() | st.just("new")),
        st.builds(Mark, owneds(keep, empty=odd)),
        st.builds(Free, ids, fence, after),
        st.builds(Find, ids),
        st.builds(Stock, st.dictionaries(st.sampled_from(["floor", "rail"]), small)),
    ]
    if odd:
        counts = st.dictionaries(pools, small), st.dictionaries(buyers, small)
        kinds.append(st.builds(Adjust, *counts))
    return st.lists(st.one_of(kinds), max_size=8)


def runs(
    keep: st.SearchStrategy[int], *, odd: bool = True
) -> st.SearchStrategy[list[tuple[int, int, list[Op]]]]:
    """Each: so long after the one before, with that version, these asks."""
    later = st.sampled_from([0, 1, 2, 50, HOUR_MS])
    one = st.tuples(later, st.integers(0, 3), asks(keep, odd=odd))
    return st.lists(one, min_size=1, max_size=8)


def ordered(snapshot: Snapshot) -> Snapshot:
    """Owners have no order."""
    return replace(snapshot, owners=sorted(snapshot.owners, key=lambda kept: kept.owned.id))


quick = settings(
    max_examples=150,
    deadline=None,
    # Each try goes to a server: making an example smaller takes longer than a test may.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    # The server is emptied by each example itself.
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


async def compare(url: str, script: list[tuple[int, int, list[Op]]]) -> None:
    clock, book = Clock(), Book()
    gate = RedisGate(url, TIMEOUT_MS, clock)
    await gate.open()
    try:
        await gate.clear("e")
        for later, version, ops in script:
            clock.advance(later)
            assert await gate.run("e", version, ops) == book.run(version, ops, clock())
            assert ordered(await gate.snapshot("e")) == ordered(book.snapshot(clock()))
    finally:
        await gate.close()


@quick
@given(script=runs(moments | over))
def test_verdicts_and_snapshots_are_the_same_at_every_moment(redis_server, script):
    asyncio.run(compare(redis_server.url, script))


@quick
@given(script=runs(moments | over, odd=False))
def test_they_are_the_same_when_the_dead_are_swept_one_at_a_time(redis_server, script):
    """But for what nobody may ask for, and counters that were wrong and adjusted: what stops at
    zero, or is forgotten there, depends on who comes first."""
    text = module.RUN.text.replace("local LAPSE_MAX = 500", "local LAPSE_MAX = 1")
    assert text != module.RUN.text
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "RUN", Script(text, "0" * 40))
        asyncio.run(compare(redis_server.url, script))


def vague(verdict: Verdict) -> Verdict:
    """Without what depends on when exactly it was said."""
    match verdict:
        case Claimed(_, owned):
            return Claimed(0, owned and timeless(owned))
        case Found(_, owned):
            return Found(0, owned and timeless(owned))
        case Clash(taken):
            return Clash(tuple((seat, id, buyer, rounded(left)) for seat, id, buyer, left in taken))
    return verdict


def timeless(owned: Owned) -> Owned:
    return replace(owned, keep_ms=rounded(owned.keep_ms))


def rounded(left_ms: int) -> int:
    return round(left_ms / SLACK_MS)


async def compare_in_earnest(url: str, script: list[tuple[int, list[Op]]]) -> None:
    book = Book()
    async with opened(url) as gate:
        await gate.clear("e")
        now = (await gate.snapshot("e")).now_ms
        for version, ops in script:
            said = await gate.run("e", version, ops)
            now += 2  # what was over is over in the next run
            assert [*map(vague, said)] == [*map(vague, book.run(version, ops, now))]
            await asyncio.sleep(0.002)
        seen, meant = await gate.snapshot("e"), book.snapshot(now + 2)
        assert abs(seen.now_ms - meant.now_ms) < SLACK_MS
        assert untimed(seen) == untimed(meant)


def untimed(snapshot: Snapshot) -> Snapshot:
    owners = [Kept(timeless(kept.owned), 0) for kept in ordered(snapshot).owners]
    return replace(snapshot, now_ms=0, owners=owners)


fixed = st.sampled_from([0, 1, 10 * HOUR_MS, FOREVER_MS])


@settings(quick, max_examples=40)
@given(script=st.lists(st.tuples(versions, asks(fixed)), min_size=1, max_size=5))
def test_they_are_the_same_by_the_clock_of_redis(redis_server, script):
    for _, ops in script:
        # Moments that a reconciliation looked at are those of another clock here.
        ops[:] = [replace(op, unless_after_ms=None) if isinstance(op, Free) else op for op in ops]
    asyncio.run(compare_in_earnest(redis_server.url, script))
