"""What is to be done once, of all the processes on one store."""

import asyncio

import pytest

from holdfast.upkeep.expire import Announcer
from holdfast.upkeep.lease import LEASE_MS, Lease

pytestmark = pytest.mark.policies("authority")


async def test_one_has_it_and_the_next_when_it_is_over(shop, clock):
    first, second = Lease(shop.store, "work", "a"), Lease(shop.store, "work", "b")
    assert await first.hold()
    assert not await second.hold()
    clock.advance(LEASE_MS - 1)
    assert not await second.hold()
    clock.advance(1)
    assert await second.hold()
    assert not await first.hold()
    assert second.fence > first.fence


async def test_whoever_goes_on_keeps_it(shop, clock):
    first, second = Lease(shop.store, "work", "a"), Lease(shop.store, "work", "b")
    for _ in range(10):
        assert await first.hold()
        clock.advance(LEASE_MS // 2)
        assert not await second.hold()


async def test_given_back_it_is_the_next_ones_at_once(shop):
    first, second = Lease(shop.store, "work", "a"), Lease(shop.store, "work", "b")
    assert await first.hold()
    await first.give_back()
    assert await second.hold()
    # It is not ours any more: giving it back again takes it from nobody.
    await first.give_back()
    assert await second.hold()
    assert not await first.hold()


async def test_of_many_who_reach_for_it_at_once_one_gets_it(shop):
    leases = [Lease(shop.store, "work", f"holder-{n}") for n in range(20)]
    got = await asyncio.gather(*(lease.hold() for lease in leases))
    assert sum(got) == 1


async def test_leases_of_different_names_do_not_meet(shop):
    assert await Lease(shop.store, "work", "a").hold()
    assert await Lease(shop.store, "play", "b").hold()


async def test_only_the_one_who_has_it_announces(shop):
    """Each of five would look for holds that are due; one does."""
    looked: list[str] = []
    often = asyncio.Event()

    def announcer(name: str) -> Announcer:
        async def due() -> list[str]:
            looked.append(name)
            if len(looked) >= 10:
                often.set()
            return []

        return Announcer(shop.expire, due, 0.001, Lease(shop.store, "upkeep", name))

    announcers = [announcer(f"holder-{n}") for n in range(5)]
    for each in announcers:
        each.start()
    await often.wait()
    assert len(set(looked)) == 1
    before = looked[0]
    # The one who has it stops: another takes over, without waiting for its end.
    await announcers[int(before.removeprefix("holder-"))].stop()
    looked.clear()
    often.clear()
    await often.wait()
    for each in announcers:
        await each.stop()
    assert before not in looked
