"""How the processes of a follower divide the events: nobody has what another has, everything finds
an owner, and whoever was replaced knows it by the fence."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from holdfast.followers.shards import (
    KEPT,
    LEASE_MS,
    SHARDS,
    Shards,
    Table,
    empty,
    renewed,
    shard_of,
    without,
)
from holdfast.settings import Settings
from holdfast.wiring import make_store
from tests.conftest import Clock


def owned(table: Table, member: str) -> set[int]:
    return {nth for nth, shard in enumerate(table.shards) if shard.owner == member}


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["renew", "leave", "wait"]),
        st.sampled_from("abcde"),
        st.integers(0, 2 * LEASE_MS),
    ),
    max_size=60,
)


@given(STEPS)
def test_whatever_happens_a_fence_grows_with_every_owner_and_members_own_all_they_have(steps):
    table, now = empty(), 1_000
    for step, member, wait in steps:
        before = table
        match step:
            case "renew":
                table = renewed(table, member, now + LEASE_MS, now)
                assert member in table.members
            case "leave":
                table = without(table, member, now)
                assert not owned(table, member)
            case "wait":
                now += wait
        for was, now_shard in zip(before.shards, table.shards, strict=True):
            if now_shard.owner and now_shard.owner != was.owner:
                assert now_shard.fence == was.fence + 1
            else:
                assert now_shard.fence == was.fence
        assert all(shard.owner in {"", *table.members} for shard in table.shards)


@given(st.integers(1, 7), st.lists(st.sampled_from("abcdefg"), max_size=20))
def test_after_two_rounds_of_renewals_the_shares_are_even_and_nothing_is_left(members, before):
    table, now = empty(), 0
    for member in before:
        table = renewed(table, member, now + LEASE_MS, now)
    now += LEASE_MS + 1  # all of them are gone
    names = [f"m{nth}" for nth in range(members)]
    for _ in range(2):
        for name in names:
            table = renewed(table, name, now + LEASE_MS, now)
    shares = [len(owned(table, name)) for name in names]
    assert sum(shares) == SHARDS
    assert max(shares) - min(shares) <= 1


def test_events_are_spread_over_the_shards():
    assert len({shard_of(f"event-{nth}") for nth in range(1_000)}) == SHARDS


class Monotonic:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def world():
    clock, local = Clock(), Monotonic()
    store = make_store(Settings(store="memory://"), clock)
    await store.open()

    def pass_seconds(seconds: float) -> None:
        clock.advance(round(seconds * 1000))
        local.now += seconds

    def member(name: str) -> Shards:
        return Shards(store, "relay", name, clock=local)

    return member, pass_seconds


async def test_the_first_has_all_and_shares_with_the_second(world):
    member, _ = world
    first, second = member("a"), member("b")
    await first.renew()
    assert len(first.mine) == SHARDS
    await second.renew()
    assert not second.mine  # nothing is free before the first has given it up
    await first.renew()
    await second.renew()
    assert len(first.mine) == len(second.mine) == SHARDS // 2
    assert not first.mine.keys() & second.mine.keys()


async def test_what_a_dead_one_had_is_taken_over_when_its_lease_is_over_under_a_higher_fence(world):
    member, pass_seconds = world
    dead, heir = member("a"), member("b")
    await dead.renew()
    fences = dict(dead.mine)
    pass_seconds(KEPT * LEASE_MS / 1000 - 0.001)
    await heir.renew()
    assert not heir.mine
    pass_seconds(0.002)
    assert not dead.mine  # it knows by its own clock, without asking anybody
    await heir.renew()
    assert heir.mine == {nth: fence + 1 for nth, fence in fences.items()}


async def test_when_the_lease_is_over_another_has_looked_and_taken_over(world):
    """Whenever the dead one renewed last, and whenever the other looks: within the lease."""
    member, pass_seconds = world
    dead, heir = member("a"), member("b")
    await heir.renew()
    await dead.renew()
    await heir.renew()
    await dead.renew()
    had = len(dead.mine)
    assert 0 < had < SHARDS
    passed = 0.0
    while passed + heir.renew_seconds <= LEASE_MS / 1000:
        pass_seconds(heir.renew_seconds)
        passed += heir.renew_seconds
        await heir.renew()
    assert len(heir.mine) == SHARDS


async def test_one_that_leaves_is_not_waited_for(world):
    member, _ = world
    first, second = member("a"), member("b")
    await first.renew()
    await first.leave()
    assert not first.mine
    await second.renew()
    assert len(second.mine) == SHARDS
