"""Cursors: how far each follower has come with the log of each event. A cursor moves from where its
mover believes it to be, under a fence that grows with every owner."""

import asyncio
import time

import pytest

from holdfast.domain.views import CURSOR_FOLLOWER_BYTES_MAX, Cursor, Move
from holdfast.errors import StoreError
from holdfast.ports import Store

pytestmark = pytest.mark.policies("authority")


@pytest.fixture
async def store(store):
    await store.open()
    yield store
    await store.close()


async def places(store: Store, follower: str | None = None) -> list[tuple[str, str, int, int]]:
    cursors, _ = await store.cursors(follower)
    return [(each.follower, each.event, each.seq, each.fence) for each in cursors]


async def moved(store: Store, *moves: tuple[str, int, int, int], follower: str = "mails"):
    return await store.move(follower, [Move(*move) for move in moves])


async def test_a_cursor_begins_at_zero_and_goes_on_from_where_it_is(store, clock):
    assert await store.cursors() == ([], clock())
    assert await moved(store, ("e1", 0, 5, 1)) == {"e1"}
    assert await store.cursors() == ([Cursor("mails", "e1", 5, 1, clock())], clock())
    clock.advance(10)
    assert await moved(store, ("e1", 5, 9, 1)) == {"e1"}
    assert await store.cursors("mails") == ([Cursor("mails", "e1", 9, 1, clock())], clock())


async def test_nothing_to_move_moves_nothing(store):
    assert await moved(store) == set()
    assert await places(store) == []


@pytest.mark.parametrize("was", [0, 4, 6])
async def test_one_that_is_elsewhere_stays(store, was):
    await moved(store, ("e1", 0, 5, 1))
    assert await moved(store, ("e1", was, 9, 9)) == set()
    assert await places(store) == [("mails", "e1", 5, 1)]


async def test_one_that_is_not_there_begins_at_zero_only(store):
    assert await moved(store, ("e1", 3, 5, 1)) == set()
    assert await places(store) == []


@pytest.mark.parametrize(("fence", "passes"), [(1, False), (2, True), (3, True)])
@pytest.mark.parametrize("at", [0, 5])
async def test_a_lower_fence_moves_it_no_more(store, at, fence, passes):
    await moved(store, ("e1", 0, at, 2))
    assert await moved(store, ("e1", at, 9, fence)) == ({"e1"} if passes else set())
    assert await places(store) == [("mails", "e1", *((9, fence) if passes else (at, 2)))]


@pytest.mark.parametrize("at", [0, 5])
async def test_one_that_stays_where_it_is_only_sets_the_fence(store, clock, at):
    began = clock()
    assert await moved(store, ("e1", 0, at, 1)) == {"e1"}
    clock.advance(1_000)
    assert await moved(store, ("e1", at, at, 4)) == {"e1"}
    assert (await store.cursors())[0] == [Cursor("mails", "e1", at, 4, began)]
    assert await moved(store, ("e1", at, at + 1, 3)) == set(), "whoever was replaced"
    clock.advance(1_000)
    assert await moved(store, ("e1", at, at + 1, 4)) == {"e1"}
    assert (await store.cursors())[0] == [Cursor("mails", "e1", at + 1, 4, clock())]


async def test_it_may_be_moved_back(store):
    await moved(store, ("e1", 0, 5, 1))
    assert await moved(store, ("e1", 5, 0, 1)) == {"e1"}
    assert await moved(store, ("e1", 0, 2, 1)) == {"e1"}
    assert await places(store) == [("mails", "e1", 2, 1)]


async def test_of_many_those_that_may_move_do(store):
    await moved(store, ("a", 0, 5, 1), ("b", 0, 5, 9), ("c", 0, 5, 1), ("z", 0, 0, 1))
    steps = [("z", 0, 3, 1), ("d", 0, 1, 1), ("c", 4, 6, 1), ("b", 5, 6, 1), ("a", 5, 6, 1)]
    assert await moved(store, *steps, ("n", 2, 3, 1)) == {"a", "d", "z"}
    assert await places(store) == [
        ("mails", "a", 6, 1),
        ("mails", "b", 5, 9),
        ("mails", "c", 5, 1),
        ("mails", "d", 1, 1),
        ("mails", "z", 3, 1),
    ]


async def test_of_two_moves_of_one_event_the_first_counts(store):
    assert await moved(store, ("e1", 0, 5, 1), ("e1", 5, 9, 1)) == {"e1"}
    assert await places(store) == [("mails", "e1", 5, 1)]


async def test_followers_do_not_know_of_each_other(store):
    for follower in ("mails", "Mails", "tickets"):
        assert await moved(store, ("e1", 0, len(follower), 1), follower=follower) == {"e1"}
    assert await places(store, "tickets") == [("tickets", "e1", 7, 1)]
    assert await places(store, "nobody") == []
    assert [follower for follower, *_ in await places(store)] == ["Mails", "mails", "tickets"]


async def test_a_follower_that_is_forgotten_begins_anew(store):
    await moved(store, ("e1", 0, 5, 3), ("e2", 0, 6, 3))
    await moved(store, ("e1", 0, 7, 1), follower="tickets")
    await store.forget("mails")
    await store.forget("nobody")
    assert await places(store) == [("tickets", "e1", 7, 1)]
    assert await moved(store, ("e1", 5, 6, 3)) == set()
    assert await moved(store, ("e1", 0, 1, 1)) == {"e1"}


async def test_the_longest_name_is_kept_and_a_longer_one_refused(store):
    longest = "é" * (CURSOR_FOLLOWER_BYTES_MAX // 2)
    assert await moved(store, ("e1", 0, 1, 1), follower=longest) == {"e1"}
    assert await places(store) == [(longest, "e1", 1, 1)]
    with pytest.raises(StoreError):
        await moved(store, ("e1", 0, 1, 1), follower=f"{longest}e")
    assert len(await places(store)) == 1


async def test_of_those_who_race_for_a_step_one_takes_it(store):
    for was in range(3):
        rivals = [moved(store, ("e1", was, was + 1, fence)) for fence in [1] * 12]
        done = await asyncio.gather(*rivals)
        assert done.count({"e1"}) == 1
    assert await places(store) == [("mails", "e1", 3, 1)]


async def test_movers_of_many_events_in_any_order_all_come_to_an_end(store):
    """Each of them is moved by one of those who try, and nobody waits for another in a ring."""
    events = [f"e{n:02}" for n in range(30)]
    for was in (0, 1, 0):
        orders = (events, events[::-1], events[10:] + events[:10], events[::3], events[1::2])
        done = await asyncio.gather(
            *(moved(store, *((event, was, 1 - was, 1) for event in order)) for order in orders)
        )
        assert sorted(event for each in done for event in each) == events


@pytest.mark.parametrize("was", [0, 5])
async def test_500_cursors_are_moved_at_once(store, was):
    events = [f"e{n:03}" for n in range(500)]
    if was:
        await moved(store, *((event, 0, was, 1) for event in events))
    began = time.perf_counter()
    assert await moved(store, *((event, was, was + 1, 1) for event in events)) == set(events)
    # A round trip for each would take longer on any server; there is a lot of room for a busy one.
    assert time.perf_counter() - began < 2
    assert [seq for *_, seq, _ in await places(store)] == [was + 1] * 500
