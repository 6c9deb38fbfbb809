"""Tails: what the logs of several events tell, in one read."""

import asyncio
from itertools import pairwise

import pytest

from tests.contract.helpers import description, held, on_sale

pytestmark = pytest.mark.policies("authority")


async def facts(shop, event: str, count: int) -> None:
    """An event whose log has so many facts."""
    await shop.create_event(description(id=event))
    for n in range(count - 1):
        placed = await shop.place_hold(event, buyer=f"b{n}", pools={"floor": 1})
        assert placed


async def test_tails_tell_what_the_log_of_each_tells(shop):
    for event, count in (("a", 3), ("b", 6), ("c", 1), ("d", 2)):
        await facts(shop, event, count)
    after = {"d": 1, "b": 2, "a": 0, "c": 1, "none": 0}
    entries = await shop.store.tails(after, 3)
    by_event: dict[str, list[int]] = {}
    for entry in entries:
        by_event.setdefault(entry.event, []).append(entry.seq)
    assert by_event == {"a": [1, 2, 3], "b": [3, 4, 5], "d": [2]}
    order = [entry.event for entry in entries]
    assert len([1 for one, two in pairwise(order) if one != two]) == 2
    for event, seqs in by_event.items():
        told = await shop.store.log(event, after[event], 3)
        assert [entry for entry in entries if entry.event == event] == told
        assert [entry.seq for entry in told] == seqs
    assert await shop.store.tails({}, 3) == []


async def test_tails_of_many_events_are_one_read(shop):
    events = [f"e{n:03}" for n in range(250)]
    await asyncio.gather(*(shop.create_event(description(id=event)) for event in events))
    entries = await shop.store.tails(dict.fromkeys(reversed(events), 0), 10)
    assert sorted(entry.event for entry in entries) == events
    assert {entry.type for entry in entries} == {"event.created"}


async def test_a_fact_is_on_the_tails_as_it_is_on_the_log(shop):
    await on_sale(shop, name="Zoë's “night” %s \\ \U0001f600")
    await held(shop, buyer="ann'\"\\%s é")
    assert await shop.store.tails({"e1": 0}, 10) == await shop.store.log("e1", 0, 10)
