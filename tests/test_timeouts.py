"""Waits that may all last equally long, under one timer."""

import asyncio
from functools import partial
from typing import Any

import pytest

from holdfast.tasks import Timeouts


@pytest.fixture
async def timers(monkeypatch) -> list[float]:
    """How many timers the loop was asked for."""
    loop = asyncio.get_running_loop()
    asked: list[float] = []
    call_later = loop.call_later

    def counted(seconds, *what):
        asked.append(seconds)
        return call_later(seconds, *what)

    monkeypatch.setattr(loop, "call_later", counted)
    return asked


async def ended(*each) -> None:
    while not all(one.over for one in each):  # noqa: ASYNC110  # turns count
        await asyncio.sleep(0)


async def test_each_is_ended_once_in_the_order_in_which_they_began():
    over: list[int] = []
    timeouts = Timeouts(0.01)
    each = [timeouts.begin(partial(over.append, n)) for n in range(3)]
    await ended(*each)
    assert over == [0, 1, 2]
    assert not timeouts.running


async def test_one_that_is_cancelled_is_not_ended():
    over: list[int] = []
    timeouts = Timeouts(0.01)
    first, second = [timeouts.begin(partial(over.append, n)) for n in range(2)]
    first.cancel()
    first.cancel()
    await ended(second)
    assert (over, first.over) == ([1], False)
    second.cancel()


async def test_a_crowd_has_one_timer_and_leaves_nothing(timers):
    timeouts = Timeouts(3600.0)
    for _ in range(1_000):
        timeouts.begin(lambda: None).cancel()
    assert len(timers) == 1
    assert not timeouts.running


async def test_who_begins_when_nobody_was_left_is_ended_too():
    timeouts = Timeouts(0.01)
    timeouts.begin(lambda: None).cancel()
    while timeouts._timer is not None:  # noqa: ASYNC110  # turns count
        await asyncio.sleep(0)
    late = timeouts.begin(lambda: None)
    await ended(late)


async def test_what_goes_wrong_in_one_keeps_no_other_from_its_end():
    timeouts = Timeouts(0.01)
    loop = asyncio.get_running_loop()
    told: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, what: told.append(what))
    try:
        each = [timeouts.begin(lambda: 1 / 0), timeouts.begin(lambda: None)]
        await ended(*each)
    finally:
        loop.set_exception_handler(None)
    assert [type(what["exception"]) for what in told] == [ZeroDivisionError]


async def test_one_whose_time_is_over_and_that_is_cancelled_in_that_turn_is_not_ended():
    """What it would have ended has gone on to something else."""
    over: list[str] = []
    timeouts = Timeouts(0.0)
    begun = timeouts.begin(lambda: over.append("ended"))
    timeouts._look()
    assert not timeouts.running
    begun.cancel()
    for _ in range(3):
        await asyncio.sleep(0)
    assert (over, begun.over) == ([], False)


def test_it_may_be_used_on_another_loop():
    timeouts = Timeouts(0.01)

    async def leaves_early() -> None:
        timeouts.begin(lambda: None)
        timeouts.close()

    async def stays() -> None:
        await ended(timeouts.begin(lambda: None))

    asyncio.run(leaves_early())
    asyncio.run(stays())
