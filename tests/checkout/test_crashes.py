"""A process dies before or after any step of a purchase: another one goes on, and the order ends as
it would have. Which points there are is not written here: each course is run once without a crash
to find them, then once for each point, then once for each pair of points."""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import pytest

from holdfast import Holdfast, Placed
from holdfast.checkout.saga import Step
from holdfast.domain.model import OrderState, Settlement
from holdfast.domain.payments import PaymentState
from holdfast.settings import Settings
from tests.checkout.desk import Desk, Meanwhile
from tests.conftest import STORES, Clock
from tests.contract.helpers import E1, HARD_MS, on_sale

PAIR = ["A-1-1", "A-1-2"]
HOLD = f"{E1}.h"
DAY_MS = 24 * 3600 * 1000

Stage = Callable[[Desk], Awaitable[object]]


def buy(method: str = "sandbox:ok", *, other_seats: bool = False) -> Stage:
    return lambda desk: desk.till.buy(HOLD, method, key="key:k", other_seats=other_seats)


async def the_order(desk: Desk) -> str:
    (order,) = [order for order in await desk.orders() if order.hold == HOLD]
    return order.id


def cancel(*seats: str) -> Stage:
    async def stage(desk: Desk) -> None:
        await desk.till.cancel(await the_order(desk), seats=seats)

    return stage


def acts(approve: bool) -> Stage:
    async def stage(desk: Desk) -> None:
        desk.bank.act(await the_order(desk), approve)
        await desk.till.nudge(await the_order(desk))

    return stage


async def never_comes_back(desk: Desk) -> None:
    desk.clock.advance(DAY_MS)
    await desk.till.nudge(await the_order(desk))


async def too_late(desk: Desk) -> None:
    desk.clock.advance(HARD_MS)


async def a_rival_was_faster(desk: Desk) -> None:
    await too_late(desk)
    assert isinstance(await desk.shop.sell(E1, buyer="bob", seats=["A-1-2"]), object)


async def all_is_sold(desk: Desk) -> None:
    await too_late(desk)
    rest = [f"A-{row}-{number}" for row in (1, 2) for number in range(1, 6)]
    await desk.shop.sell(E1, buyer="bob", seats=rest)


async def he_gives_it_back(desk: Desk) -> None:
    await desk.shop.release_hold(HOLD)


async def he_buys_it_otherwise(desk: Desk) -> None:
    await desk.shop.confirm_hold(HOLD)


class Course(NamedTuple):
    stages: tuple[Stage, ...]
    state: OrderState
    payment: PaymentState
    settlement: Settlement | None = Settlement.IN_TIME
    meanwhile: Mapping[Step, Meanwhile] = MappingProxyType({})
    trouble: bool = False


S, P, T = OrderState, PaymentState, Settlement
COURSES = {
    "paid": Course((buy(),), S.CAPTURED, P.CAPTURED),
    "declined": Course((buy("sandbox:declined"),), S.DECLINED, P.DECLINED, None),
    "answer lost": Course((buy("sandbox:timeout"),), S.CAPTURED, P.CAPTURED),
    "late, nobody else came": Course(
        (buy(),), S.CAPTURED, P.CAPTURED, T.SAME_UNITS, {Step.AUTHORIZE: too_late}
    ),
    "late, a seat is gone": Course(
        (buy(),), S.VOIDED, P.VOIDED, T.VOIDED, {Step.AUTHORIZE: a_rival_was_faster}
    ),
    "late, other seats will do": Course(
        (buy(other_seats=True),),
        *(S.CAPTURED, P.CAPTURED, T.OTHER_SEATS),
        {Step.AUTHORIZE: a_rival_was_faster},
    ),
    "late, other seats would do, but there are none": Course(
        (buy(other_seats=True),), S.VOIDED, P.VOIDED, T.VOIDED, {Step.AUTHORIZE: all_is_sold}
    ),
    "given back meanwhile": Course(
        (buy(),), S.VOIDED, P.VOIDED, T.VOIDED, {Step.AUTHORIZE: he_gives_it_back}
    ),
    "bought otherwise meanwhile": Course(
        (buy(),), S.VOIDED, P.VOIDED, T.VOIDED, {Step.AUTHORIZE: he_buys_it_otherwise}
    ),
    "the buyer is asked and approves": Course(
        (buy("sandbox:3ds"), acts(True)), S.CAPTURED, P.CAPTURED
    ),
    "the buyer is asked and declines": Course(
        (buy("sandbox:3ds"), acts(False)), S.DECLINED, P.DECLINED, None
    ),
    "the buyer is asked and never comes back": Course(
        (buy("sandbox:3ds"), never_comes_back), S.CANCELLED, P.VOIDED, None
    ),
    "cancelled while the buyer is asked": Course(
        (buy("sandbox:3ds"), cancel()), S.CANCELLED, P.VOIDED, None
    ),
    "capture fails for good": Course(
        (buy("sandbox:capture-declined"),), S.CANCELLED, P.VOIDED, trouble=True
    ),
    "capture fails twice": Course((buy("sandbox:capture-error:2"),), S.CAPTURED, P.CAPTURED),
    "void fails twice": Course(
        (buy("sandbox:void-error:2"),),
        *(S.VOIDED, P.VOIDED, T.VOIDED),
        {Step.AUTHORIZE: a_rival_was_faster},
    ),
    "cancelled": Course((buy(), cancel()), S.CANCELLED, P.REFUNDED),
    "cancelled in two parts": Course(
        (buy(), cancel("A-1-1"), cancel("A-1-2")), S.CANCELLED, P.REFUNDED
    ),
    "one seat cancelled": Course((buy(), cancel("A-1-1")), S.CAPTURED, P.CAPTURED),
    "refund refused": Course(
        (buy("sandbox:refund-refused"), cancel()), S.CANCELLED, P.CAPTURED, trouble=True
    ),
}


async def follow(desk: Desk, course: Course, *crash_at: int) -> None:
    """Runs the course, with crashes, and looks at what came of it."""
    await on_sale(desk.shop)
    placed = await desk.shop.place_hold(E1, buyer="ann", id="h", seats=PAIR)
    assert isinstance(placed, Placed)
    desk.crash_at = set(crash_at)
    desk.meanwhile = dict(course.meanwhile)
    for stage in course.stages:
        await desk.insist(stage)
    if await desk.unfinished():
        await desk.recovered()
    (order,) = [
        order for order in await desk.orders() if order.hold == HOLD and order.checkout.method
    ]
    assert (order.state, order.checkout.payment) == (course.state, course.payment)
    assert order.checkout.settlement == course.settlement
    assert (order.trouble is not None) == course.trouble
    assert order.due_ms is None
    await desk.books_balance()
    assert desk.bank.tally.authorizations <= 1


@pytest.mark.parametrize("name", COURSES)
async def test_every_course_ends_as_it_should(desk, name):
    await follow(desk, COURSES[name])


async def fresh(clock: Clock, tmp_path, store: str, course: Course, *crash_at: int) -> Desk:
    async with Holdfast(
        STORES[store](tmp_path, clock), Settings(), upkeep=False, clock=clock
    ) as shop:
        desk = Desk(shop, clock)
        await follow(desk, course, *crash_at)
        return desk


@pytest.mark.parametrize("name", COURSES)
async def test_a_process_may_die_at_any_point_and_the_next_as_well(tmp_path, name):
    course = COURSES[name]
    points = len((await fresh(Clock(), tmp_path, "memory", course)).steps)
    assert points >= 2 * len(course.stages)
    for first in range(points):
        desk = await fresh(Clock(), tmp_path, "memory", course, first)
        for second in range(first + 1, len(desk.steps)):
            try:
                await fresh(Clock(), tmp_path, "memory", course, first, second)
            except AssertionError as fault:
                raise AssertionError(f"{name}: died at {first} and {second}: {fault}") from fault


@pytest.mark.slow
@pytest.mark.service
@pytest.mark.parametrize("store", ["sqlite", "postgres", "mysql"])
@pytest.mark.parametrize("name", ["paid", "late, a seat is gone", "cancelled"])
async def test_on_every_store_a_process_may_die_at_any_point(tmp_path, store, name):
    course = COURSES[name]
    points = len((await fresh(Clock(), tmp_path, store, course)).steps)
    for point in range(points):
        (tmp_path / str(point)).mkdir()
        await fresh(Clock(), tmp_path / str(point), store, course, point)


async def test_the_courses_go_through_every_step(tmp_path):
    """A step that no course takes would be a step at which no process ever died."""
    taken = set()
    for course in COURSES.values():
        desk = await fresh(Clock(), tmp_path, "memory", course)
        taken |= {step for step, _ in desk.steps}
    assert taken == set(Step)
