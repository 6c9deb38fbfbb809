"""What those who wait for an order are told."""

import asyncio

import pytest

from holdfast.checkout.told import Told
from holdfast.domain.model import Order, OrderState

ORDER = Order(
    *("e1.o1", "e1", "ann", OrderState.CAPTURED, ("A-1-1",), {}, 100, "EUR", 1), hold="e1.h1"
)


async def waiting(told: Told, count: int) -> list[asyncio.Task[Order]]:
    tasks = [asyncio.create_task(told.wait()) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


async def test_all_who_wait_hear_the_first_word_and_so_do_those_who_come_later():
    told = Told()
    tasks = await waiting(told, 3)
    told.say(ORDER)
    told.fail(ValueError("too late to be said"))
    assert await asyncio.gather(*tasks) == [ORDER] * 3
    assert await told.wait() == told.order == ORDER


async def test_who_gives_up_keeps_nobody_else_from_hearing():
    told = Told()
    one, other = await waiting(told, 2)
    one.cancel()
    told.say(ORDER)
    assert await other == ORDER
    with pytest.raises(asyncio.CancelledError):
        await one


async def test_trouble_is_told_to_all_and_is_no_order():
    told = Told()
    tasks = await waiting(told, 2)
    told.fail(ValueError("nobody knows"))
    for task in (*tasks, told.wait()):
        with pytest.raises(ValueError, match="nobody knows"):
            await task
    assert (told.done, told.order) == (True, None)


async def test_trouble_that_nobody_waits_for_is_no_trouble():
    told = Told()
    told.fail(ValueError("nobody waits"))
    assert told.done
