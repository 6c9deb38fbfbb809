"""What was taken is written down for many orders at once, and for each as if it were alone."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.checkout import recording
from holdfast.checkout.recording import Recorder
from holdfast.checkout.saga import Overtaken
from holdfast.domain.commands import Command, RecordCaptures
from holdfast.domain.model import Order, OrderState
from holdfast.domain.outcomes import Answer, CapturesRecorded
from holdfast.errors import StoreUnavailable
from tests.contract.helpers import held, on_sale


def an_order(id: str, event: str = "e1") -> Order:
    return Order(
        id=f"{event}.{id}",
        event=event,
        buyer="ann",
        state=OrderState.CONFIRMED,
        seats=("A-1-1",),
        pools={},
        amount=100,
        currency="EUR",
        created_ms=0,
        version=2,
    )


class Authority:
    """Records what it is told, unless it is told not to."""

    def __init__(self) -> None:
        self.written: list[int] = []
        self.gone: set[str] = set()
        self.trouble: Exception | None = None
        self.stalls: dict[str, asyncio.Event] = {}

    async def submit(self, command: Any) -> Answer:
        assert isinstance(command, RecordCaptures)
        await asyncio.sleep(0)
        if stall := self.stalls.get(command.event):
            await stall.wait()
        if self.trouble is not None:
            raise self.trouble
        self.written.append(len(command.orders))
        ids = [id for id, _ in command.orders if id not in self.gone]
        orders = [an_order(id.partition(".")[2], command.event) for id in ids]
        taken = [replace(order, state=OrderState.CAPTURED, version=3) for order in orders]
        return Answer(CapturesRecorded(tuple(taken)))


@pytest.fixture
def authority() -> Authority:
    return Authority()


@pytest.fixture
def recorder(authority) -> Recorder:
    return Recorder(authority.submit, 1_000)


async def test_one_alone_is_written_at_once_and_who_comes_then_together(authority, recorder):
    assert (await recorder.captured(an_order("a"))).state is OrderState.CAPTURED
    later = [recorder.captured(an_order(f"b{n}")) for n in range(10)]
    assert {order.version for order in await asyncio.gather(*later)} == {3}
    assert authority.written == [1, 10]


async def test_who_was_overtaken_hears_it_and_nobody_else_does(authority, recorder):
    authority.gone = {"e1.b"}
    asked = [recorder.captured(an_order(name)) for name in "abc"]
    a, b, c = await asyncio.gather(*asked, return_exceptions=True)
    assert isinstance(a, Order)
    assert isinstance(b, Overtaken)
    assert isinstance(c, Order)


async def test_who_cannot_be_written_hears_why_and_the_next_try_is_another(authority, recorder):
    authority.trouble = StoreUnavailable("gone")
    with pytest.raises(StoreUnavailable):
        await recorder.captured(an_order("a"))
    authority.trouble = None
    assert (await recorder.captured(an_order("a"))).version == 3


async def test_what_holds_up_one_event_holds_up_no_other(authority, recorder):
    stall = authority.stalls["e1"] = asyncio.Event()
    slow = asyncio.ensure_future(recorder.captured(an_order("a")))
    for _ in range(3):
        assert (await recorder.captured(an_order("b", "e2"))).event == "e2"
    assert not slow.done()
    stall.set()
    assert (await slow).event == "e1"


async def test_who_waits_no_longer_disturbs_nobody(authority, recorder):
    stall = authority.stalls["e1"] = asyncio.Event()
    first, second = [asyncio.ensure_future(recorder.captured(an_order(n))) for n in "ab"]
    await asyncio.sleep(0)
    first.cancel()
    stall.set()
    assert (await second).version == 3


async def test_none_waits_for_ever_whatever_ends_the_writing(authority, recorder):
    authority.stalls["e1"] = asyncio.Event()
    asked = [asyncio.ensure_future(recorder.captured(an_order("a")))]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    asked.append(asyncio.ensure_future(recorder.captured(an_order("b"))))
    await asyncio.sleep(0)
    for task in recorder._writing:
        task.cancel()
    ended = await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), 10)
    assert [type(each) for each in ended] == [asyncio.CancelledError] * 2


async def test_closing_writes_first_and_waits_for_no_others(recorder, monkeypatch):
    monkeypatch.setattr(recording, "PAUSE_SECONDS", 3600.0)
    await recorder.captured(an_order("a"))
    second = asyncio.ensure_future(recorder.captured(an_order("b")))
    await asyncio.sleep(0)
    assert not second.done()
    await asyncio.wait_for(recorder.close(), 10)
    assert (await second).version == 3


async def test_orders_that_are_paid_for_at_one_moment_are_written_together(quick_desk, monkeypatch):
    desk = quick_desk
    await on_sale(desk.shop)
    holds = [(await held(desk.shop, seats=[f"A-1-{n}"])).id for n in range(1, 6)]
    written: list[int] = []
    submit = desk.shop.submit

    def watched(command: Command) -> Awaitable[Answer]:
        if isinstance(command, RecordCaptures):
            written.append(len(command.orders))
        answer: Awaitable[Answer] = submit(command)
        return answer

    monkeypatch.setattr(desk.shop, "submit", watched)
    till = desk.process()
    bought = await asyncio.gather(*[till.buy(hold, "sandbox:ok") for hold in holds])
    await asyncio.gather(*till._tasks.values())
    assert sum(written) == 5
    assert len(written) <= 2, "the first at once, the others together"
    assert {each.order.state for each in bought if each.order} == {OrderState.CAPTURED}
    assert {order.state for order in await desk.orders()} == {OrderState.CAPTURED}
    await desk.books_balance()


async def test_who_stops_writes_down_first_what_was_taken(quick_desk, monkeypatch):
    monkeypatch.setattr(recording, "PAUSE_SECONDS", 3600.0)
    desk = quick_desk
    await on_sale(desk.shop)
    holds = [(await held(desk.shop, seats=[f"A-1-{n}"])).id for n in (1, 2)]
    async with desk.process() as till:
        for hold in holds:  # the second finds the first just written, and would wait for others
            await till.buy(hold, "sandbox:ok")
    assert [order.state for order in await desk.orders()] == [OrderState.CAPTURED] * 2
    assert desk.bank.tally.captures == 2
