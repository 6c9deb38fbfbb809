"""Group commit: what arrives while one batch commits is the next, and nobody hurts another."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from holdfast import lanes, tasks
from holdfast.domain.commands import (
    AddCapacity,
    ChangeEvent,
    Command,
    CreateEvent,
    ExpireHolds,
    PlaceHold,
    Withdraw,
)
from holdfast.domain.model import Ask, Best
from holdfast.domain.outcomes import Answer, Expired, Reason, Refused
from holdfast.domain.plan import EventPlan, read_event
from holdfast.engine import Holdfast
from holdfast.errors import (
    CommitUnknown,
    NotOpen,
    Overloaded,
    StoreBusy,
    StoreError,
    StoreUnavailable,
)
from holdfast.lanes import BATCHES_MAX, RETRIES_MAX, WAITS_MAX, Lanes
from holdfast.ports import Committed, Store, nothing
from holdfast.settings import Settings
from holdfast.stores.memory import MemoryStore
from tests.conftest import Clock, drift
from tests.contract.helpers import description

E1 = "e1"


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    """Between two attempts a lane waits a few milliseconds; here it only lets others run."""
    monkeypatch.setattr(lanes, "RETRY_FIRST_SECONDS", 0)


@pytest.fixture(autouse=True)
def warm(monkeypatch):
    """As if batches had just run; the tests of cold lanes say so."""
    monkeypatch.setattr(lanes, "COLD_SECONDS", float("inf"))


class Desk:
    """A store whose commits take as long as the test says. An answer tells its command's id."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.open = asyncio.Event()
        self._arrived: asyncio.Queue[None] = asyncio.Queue()
        self.trouble: Callable[[list[str]], Exception | None] = lambda ids: None
        self.committed_first = False
        """Whether a batch is committed at once, and only its answers take long."""
        self.locked: dict[str, int] = {}
        """Commands whose seats others have locked, and how often."""

    async def apply(
        self, commands: Sequence[Command], committed: Committed = nothing
    ) -> list[Answer]:
        ids = [command.id for command in commands]
        self.batches.append(ids)
        self._arrived.put_nowait(None)
        if self.committed_first:
            committed()
        await self.open.wait()
        if trouble := self.trouble(ids):
            raise trouble
        return [self.look(each) for each in commands]

    def look(self, command: Command) -> Answer:
        if isinstance(command, PlaceHold) and command.waits < self.locked.get(command.id, 0):
            return Answer(Refused(Reason.SOLD_OUT), waiting_for=(f"seat of {command.id}",))
        return answer(command.id)

    async def busy(self) -> None:
        """Until one more batch has reached the desk and waits there."""
        await self._arrived.get()


def answer(id: str) -> Answer:
    return Answer(Expired(int(id)))


def command(id: int, event: str = E1) -> Command:
    return ExpireHolds(id=str(id), event=event, limit=1)


def best(id: int) -> Command:
    return PlaceHold(
        id=str(id), event=E1, hold=f"e1.{id}", buyer="ann", ask=Ask(best=(Best(quantity=1),))
    )


def _plan() -> EventPlan:
    plan = read_event(description())
    assert isinstance(plan, EventPlan)
    return plan


CHANGES: dict[str, Callable[[int], Command]] = {
    "create": lambda id: CreateEvent(id=str(id), event=E1, plan=_plan()),
    "change": lambda id: ChangeEvent(id=str(id), event=E1, changes={}),
    "add": lambda id: AddCapacity(id=str(id), event=E1),
    "withdraw": lambda id: Withdraw(id=str(id), event=E1),
}


@pytest.fixture
def desk() -> Desk:
    return Desk()


def queue(desk: Desk, **limits: Any) -> Lanes:
    def apply(commands: Sequence[Command], committed: Committed) -> Any:
        return desk.apply(commands, committed)

    return Lanes(apply, **{"one_lane": False} | limits)


async def test_a_lone_command_goes_straight_through(desk):
    desk.open.set()
    assert await queue(desk).submit(command(1)) == answer("1")
    assert desk.batches == [["1"]]


async def test_what_arrives_while_one_batch_commits_is_the_next_batch(desk):
    lane = queue(desk)
    first = lane.submit(command(1))
    await desk.busy()
    rest = [lane.submit(command(id)) for id in range(2, 6)]
    assert desk.batches == [["1"]]
    desk.open.set()
    assert await asyncio.gather(first, *rest) == [answer(str(id)) for id in range(1, 6)]
    assert desk.batches == [["1"], ["2", "3", "4", "5"]]


async def test_what_arrives_together_is_one_batch_in_order_of_arrival(desk):
    desk.open.set()
    lane = queue(desk)
    ids = [5, 3, 9, 1, 7]
    answers = await asyncio.gather(*[lane.submit(command(id)) for id in ids])
    assert answers == [answer(str(id)) for id in ids]
    assert desk.batches == [[str(id) for id in ids]]


@pytest.mark.parametrize("most", [1, 2, 3, 100])
async def test_no_batch_is_larger_than_its_limit_and_the_order_is_kept(desk, most):
    desk.open.set()
    lane = queue(desk, batch_max=most)
    await asyncio.gather(*[lane.submit(command(id)) for id in range(10)])
    assert max(map(len, desk.batches)) == min(most, 10)
    assert [id for batch in desk.batches for id in batch] == [str(id) for id in range(10)]


@pytest.mark.parametrize("change", CHANGES)
async def test_what_changes_the_event_is_a_batch_of_its_own(desk, change):
    desk.open.set()
    lane = queue(desk)
    make = CHANGES[change]
    mixed = [command(1), command(2), make(3), make(4), command(5), command(6), make(7)]
    await asyncio.gather(*[lane.submit(each) for each in mixed])
    assert desk.batches == [["1", "2"], ["3"], ["4"], ["5", "6"], ["7"]]


async def test_events_do_not_wait_for_each_other(desk):
    lane = queue(desk)
    first = lane.submit(command(1, "e1"))
    second = lane.submit(command(2, "e2"))
    await desk.busy()
    await desk.busy()
    assert sorted(desk.batches) == [["1"], ["2"]]
    desk.open.set()
    assert [await first, await second] == [answer("1"), answer("2")]


async def test_a_full_batch_does_not_wait_for_the_one_before_it(desk):
    lane = queue(desk, batch_max=2)
    first = [lane.submit(command(id)) for id in (1, 2, 3, 4, 5, 6, 7)]
    await desk.busy()
    await desk.busy()
    await asyncio.sleep(0)
    assert desk.batches == [["1", "2"], ["3", "4"]], "two abreast, and no more"
    desk.open.set()
    await asyncio.gather(*first)
    assert desk.batches[2:] == [["5", "6"], ["7"]]


async def test_where_the_store_admits_one_writer_a_full_batch_waits(desk):
    lane = queue(desk, batch_max=2, one_lane=True)
    waiting = [lane.submit(command(id)) for id in (1, 2, 3, 4)]
    await desk.busy()
    await asyncio.sleep(0)
    assert desk.batches == [["1", "2"]]
    desk.open.set()
    await asyncio.gather(*waiting)


@pytest.mark.parametrize("solo", [best, *CHANGES.values()], ids=["best", *CHANGES])
@pytest.mark.parametrize("place", [0, 1, 2, 3, 4, 5])
async def test_beside_a_choice_of_seats_or_a_change_of_the_event_nothing_runs(desk, solo, place):
    lane = queue(desk, batch_max=2)
    commands = [command(id) for id in range(6)]
    commands[place] = solo(place)
    waiting = [lane.submit(each) for each in commands]
    running = 0

    async def apply(batch: Sequence[Command], committed: Committed) -> list[Answer]:
        nonlocal running
        running += 1
        await asyncio.sleep(0.001)
        if any(each.id == str(place) for each in batch):
            assert running == 1
        running -= 1
        return [answer(each.id) for each in batch]

    desk.apply = apply
    assert await asyncio.gather(*waiting) == [answer(str(id)) for id in range(6)]


async def test_the_next_batch_begins_when_the_last_has_committed_though_nobody_is_told_yet(desk):
    desk.committed_first = True
    lane = queue(desk)
    first = lane.submit(command(1))
    await desk.busy()
    second = lane.submit(command(2))
    await desk.busy()
    assert desk.batches == [["1"], ["2"]]
    assert not first.done()
    desk.open.set()
    assert [await first, await second] == [answer("1"), answer("2")]


@pytest.mark.parametrize("patience", [float("inf"), 0], ids=["waiting", "at_once"])
async def test_a_batch_waits_for_a_crowd_that_is_still_coming_in(desk, monkeypatch, patience):
    """But not for ever: past its time it begins with those who are there."""
    monkeypatch.setattr(tasks, "GATHER_SECONDS_MAX", patience)
    desk.open.set()
    lane = queue(desk)
    waiting = [lane.submit(command(0))]
    for id in range(1, 20):
        waiting.append(lane.submit(command(id)))
        await asyncio.sleep(0)
    await asyncio.gather(*waiting)
    if patience:
        assert [len(batch) for batch in desk.batches] == [20]
    else:
        assert len(desk.batches) > 5


@pytest.mark.parametrize("fault", ["cancelled", "known"])
async def test_a_batch_that_was_never_formed_does_not_stop_the_lane(desk, fault):
    """Nobody does either of these; if somebody ever does, only those are hurt who were in it."""
    faulty = [fault == "known"]

    def known(command: Command) -> Answer | None:
        if faulty.pop():
            raise RuntimeError
        faulty.append(False)
        return None

    desk.open.set()
    lane = Lanes(lambda commands, committed: desk.apply(commands, committed), known, one_lane=False)
    for id in (0, 1):
        lane.submit(command(id))
    (batch,) = lane._lanes[E1].batches
    if fault == "cancelled":
        await asyncio.sleep(0)
        batch.cancel()
    await asyncio.wait([batch])
    assert batch.cancelled() or isinstance(batch.exception(), RuntimeError)
    faulty[:] = [False]
    assert await lane.submit(command(2)) == answer("2")


@pytest.mark.parametrize("crowd", [lanes.SHARE_MIN, lanes.SHARE_MIN - 1])
async def test_a_few_wait_while_a_crowd_is_about_to_be_answered(desk, crowd):
    """Most of it comes back at once; few who are about to be answered are not waited for."""
    desk.committed_first = True
    lane = queue(desk)
    waiting = [lane.submit(command(id)) for id in range(crowd)]
    await desk.busy()
    waiting.append(lane.submit(command(1_000)))
    for _ in range(5):
        await asyncio.sleep(0)
    few_waited = len(desk.batches) == 1
    assert few_waited == (crowd == lanes.SHARE_MIN)
    desk.open.set()
    await asyncio.gather(*waiting)
    assert [len(batch) for batch in desk.batches] == [crowd, 1]


@pytest.mark.parametrize("last", [command, best], ids=["plain", "best"])
async def test_many_need_not_wait_until_a_crowd_is_answered(desk, last):
    """Nor if one of them chooses its seats: the crowd before them has committed."""
    desk.committed_first = True
    lane = queue(desk)
    many = lanes.SHARE_MIN
    waiting = [lane.submit(command(id)) for id in range(many)]
    await desk.busy()
    waiting += [lane.submit(command(many + id)) for id in range(many - 1)]
    waiting.append(lane.submit(last(2 * many - 1)))
    await desk.busy()
    assert [len(batch) for batch in desk.batches] == [many, many]
    desk.open.set()
    await asyncio.gather(*waiting)


@pytest.mark.parametrize("last", [command, best], ids=["plain", "best"])
@pytest.mark.parametrize("one_lane", [False, True], ids=["abreast", "alone"])
async def test_a_crowd_is_taken_in_parts_where_two_can_be_worked_on(desk, one_lane, last):
    """While the database has one part, the next is made here. Not where batches run alone: then
    parts would only be more of them."""
    desk.committed_first = True
    lane = queue(desk, one_lane=one_lane)
    crowd, part = 200, int(200 * lanes.SHARE)
    waiting = [lane.submit(command(id)) for id in range(crowd - 1)]
    waiting.append(lane.submit(last(crowd - 1)))
    await desk.busy()
    parts = [len(batch) for batch in desk.batches]
    assert parts == ([crowd] if one_lane or last is best else [part, part])
    desk.open.set()
    assert len(await asyncio.gather(*waiting)) == crowd


async def test_a_crowd_that_has_gone_is_forgotten(desk):
    """Else a few who come later would be waited for in vain, as if many came."""
    desk.open.set()
    lane = queue(desk)
    await asyncio.gather(*[lane.submit(command(id)) for id in range(1_000)])
    for id in range(1_000, 1_050):
        await lane.submit(command(id))
    before = len(desk.batches)
    await asyncio.gather(*[lane.submit(command(id)) for id in range(2_000, 2_050)])
    assert len(desk.batches) - before == 2
    assert len(desk.batches[before]) == lanes.SHARE_MIN


async def test_only_so_many_batches_wait_for_the_disk(desk):
    desk.committed_first = True
    lane = queue(desk)
    waiting = []
    for id in range(BATCHES_MAX + 3):
        waiting.append(lane.submit(command(id)))
        for _ in range(3):
            await asyncio.sleep(0)
    assert len(desk.batches) == BATCHES_MAX
    desk.open.set()
    assert await asyncio.gather(*waiting) == [answer(str(id)) for id in range(len(waiting))]
    assert desk.batches[BATCHES_MAX:] == [[str(BATCHES_MAX + more) for more in range(3)]]


async def test_where_the_store_admits_one_writer_events_share_batches(desk):
    desk.open.set()
    lane = queue(desk, one_lane=True)
    await asyncio.gather(*[lane.submit(command(id, f"e{id}")) for id in (1, 2, 3)])
    assert desk.batches == [["1", "2", "3"]]


async def test_a_lane_that_stands_still_says_no_at_once(desk):
    """A store that hangs: who comes when a batch is waiting already would only wait behind it."""
    lane = queue(desk, one_lane=True, batch_max=2, stall_seconds=0.05)
    first = lane.submit(command(1))
    await desk.busy()
    waiting = [lane.submit(command(id)) for id in (2, 3)]
    await asyncio.sleep(0.1)
    with pytest.raises(Overloaded):
        lane.submit(command(4))
    desk.open.set()
    await asyncio.gather(first, *waiting)
    await lane.submit(command(5))
    assert desk.batches == [["1"], ["2", "3"], ["5"]]


async def test_a_lane_whose_batches_wait_for_the_disk_for_ever_says_no_at_once():
    """They have committed, so nothing runs; but nobody is answered either."""
    never = asyncio.Event()

    async def apply(commands: Sequence[Command], committed: Committed) -> list[Answer]:
        committed()
        await never.wait()
        return [answer(each.id) for each in commands]

    lane = Lanes(apply, one_lane=False, batch_max=2, stall_seconds=0.05)
    waiting = []
    for id in range(1, 21):
        waiting.append(lane.submit(command(id)))
        await asyncio.sleep(0)
    await asyncio.sleep(0.1)
    with pytest.raises(Overloaded):
        lane.submit(command(21))
    never.set()
    await asyncio.gather(*waiting)


async def test_a_lane_that_moves_takes_what_comes(desk):
    """The control: as slow as before, but a batch has just begun."""
    lane = queue(desk, one_lane=True, batch_max=2, stall_seconds=60)
    first = lane.submit(command(1))
    await desk.busy()
    waiting = [lane.submit(command(id)) for id in (2, 3, 4)]
    desk.open.set()
    await asyncio.gather(first, *waiting)


async def test_a_full_queue_says_no_at_once(desk):
    lane = queue(desk, commands_max=3)
    first = lane.submit(command(1))
    await desk.busy()
    waiting = [lane.submit(command(id)) for id in (2, 3, 4)]
    with pytest.raises(Overloaded) as caught:
        lane.submit(command(5))
    assert caught.value.retry_after > 0
    other = lane.submit(command(6, "e2"))
    desk.open.set()
    assert await asyncio.gather(first, *waiting, other) == [answer(id) for id in "12346"]
    assert await lane.submit(command(7)) == answer("7")


async def test_who_stops_waiting_before_his_batch_begins_is_left_out(desk):
    lane = queue(desk)
    first = lane.submit(command(1))
    await desk.busy()
    waiting = {id: lane.submit(command(id)) for id in (2, 3, 4)}
    waiting[3].cancel()
    desk.open.set()
    assert [await first, await waiting[2], await waiting[4]] == [answer(id) for id in "124"]
    assert desk.batches == [["1"], ["2", "4"]]


async def test_a_queue_of_only_those_who_stopped_waiting_runs_nothing(desk):
    lane = queue(desk)
    first = lane.submit(command(1))
    await desk.busy()
    for id in (2, 3):
        lane.submit(command(id)).cancel()
    lane.submit(CHANGES["change"](4)).cancel()
    desk.open.set()
    assert await first == answer("1")
    assert await lane.submit(command(5)) == answer("5")
    assert desk.batches == [["1"], ["5"]]


async def test_who_stops_waiting_during_his_batch_hurts_nobody(desk):
    lane = queue(desk)
    waiting = [lane.submit(command(id)) for id in (1, 2, 3)]
    await desk.busy()
    waiting[1].cancel()
    desk.open.set()
    assert [await waiting[0], await waiting[2]] == [answer("1"), answer("3")]
    assert waiting[1].cancelled()
    assert desk.batches == [["1", "2", "3"]]


@pytest.mark.parametrize("trouble", [StoreBusy, CommitUnknown])
@pytest.mark.parametrize("times", range(1, RETRIES_MAX + 1))
async def test_a_passing_trouble_runs_the_whole_batch_again(desk, trouble, times):
    desk.open.set()
    desk.trouble = lambda ids: trouble("passing") if len(desk.batches) <= times else None
    lane = queue(desk)
    answers = await asyncio.gather(*[lane.submit(command(id)) for id in (1, 2, 3)])
    assert answers == [answer(id) for id in "123"]
    assert desk.batches == [["1", "2", "3"]] * (times + 1)


@pytest.mark.parametrize("failure", [StoreError, ValueError, StoreBusy])
@pytest.mark.parametrize("poison", ["1", "4", "7"])
async def test_a_trouble_that_stays_takes_only_the_poisonous_command_down(desk, failure, poison):
    desk.open.set()
    desk.trouble = lambda ids: failure("poison") if poison in ids else None
    lane = queue(desk)
    answers = await asyncio.gather(
        *[lane.submit(command(id)) for id in range(1, 8)], return_exceptions=True
    )
    for id, found in enumerate(answers, 1):
        if str(id) == poison:
            assert isinstance(found, failure)
        else:
            assert found == answer(str(id))


async def test_two_poisonous_commands_each_fail_alone_and_in_order(desk):
    desk.open.set()
    desk.trouble = lambda ids: StoreError(",".join(ids)) if {"2", "3"} & set(ids) else None
    lane = queue(desk)
    answers = await asyncio.gather(
        *[lane.submit(command(id)) for id in range(1, 5)], return_exceptions=True
    )
    assert [str(found) for found in answers] == [str(answer("1")), "2", "3", str(answer("4"))]


async def test_an_authority_that_is_away_fails_the_batch_at_once_and_is_not_asked_in_pieces(desk):
    desk.open.set()
    desk.trouble = lambda ids: StoreUnavailable("away") if "1" in ids else None
    lane = queue(desk)
    answers = await asyncio.gather(
        *[lane.submit(command(id)) for id in (1, 2, 3)], return_exceptions=True
    )
    assert [type(found) for found in answers] == [StoreUnavailable] * 3
    assert desk.batches == [["1", "2", "3"]]
    assert await lane.submit(command(4)) == answer("4")


async def test_a_lost_reply_is_settled_also_when_it_is_that_of_a_part(desk):
    """One poisonous command splits the batch; then the reply to the rest is lost once."""
    desk.open.set()

    def trouble(ids: list[str]) -> Exception | None:
        if "1" in ids:
            return StoreError("poison")
        return CommitUnknown("lost") if desk.batches.count(ids) == 1 else None

    desk.trouble = trouble
    lane = queue(desk)
    poison, good = lane.submit(command(1)), lane.submit(command(2))
    with pytest.raises(StoreError):
        await poison
    assert await good == answer("2")


async def test_an_ask_whose_seats_others_have_locked_heads_the_next_batch(desk):
    desk.locked = {"2": 1, "3": 1}
    lane = queue(desk)
    waiting = [lane.submit(best(id)) for id in (1, 2, 3)]
    await desk.busy()
    waiting.append(lane.submit(best(4)))
    desk.open.set()
    assert await asyncio.gather(*waiting) == [answer(id) for id in "1234"]
    assert desk.batches == [["1", "2", "3"], ["2", "3", "4"]]


@pytest.mark.parametrize("times", [WAITS_MAX, WAITS_MAX + 1])
async def test_an_ask_waits_for_locked_seats_so_often_and_no_more(desk, times):
    desk.open.set()
    desk.locked = {"1": times}
    waiting = queue(desk).submit(best(1))
    if times <= WAITS_MAX:
        assert await waiting == answer("1")
    else:
        with pytest.raises(StoreBusy):
            await waiting
    assert desk.batches == [["1"]] * (WAITS_MAX + 1)


async def test_who_stops_waiting_for_a_batch_that_fails_leaves_no_noise(desk):
    lane = queue(desk)
    desk.trouble = lambda ids: StoreUnavailable("away")
    gone, stays = lane.submit(command(1)), lane.submit(command(2))
    await desk.busy()
    gone.cancel()
    desk.open.set()
    with pytest.raises(StoreUnavailable):
        await stays
    assert gone.cancelled()


async def test_closing_answers_all_that_was_taken_and_then_takes_no_more(desk):
    lane = queue(desk, batch_max=2)
    waiting = [lane.submit(command(id)) for id in range(1, 6)]
    other = lane.submit(command(6, "e2"))
    await desk.busy()
    closing = asyncio.ensure_future(lane.close())
    await asyncio.sleep(0)
    with pytest.raises(NotOpen):
        lane.submit(command(7))
    assert not closing.done()
    desk.open.set()
    await closing
    assert [found.result() for found in (*waiting, other)] == [
        answer(str(id)) for id in range(1, 7)
    ]
    with pytest.raises(NotOpen):
        lane.submit(command(8))


async def test_closing_with_nothing_to_do_is_done(desk):
    lane = queue(desk)
    await lane.close()
    assert desk.batches == []


async def test_asking_for_ever_other_events_costs_no_memory(desk):
    desk.open.set()
    lane = queue(desk)
    for n in range(5_000):
        await lane.submit(command(1, f"e{n}"))
    assert len(lane._lanes) <= 1_001


class LostReply:
    """A store whose commits succeed while their replies are lost, now and then."""

    def __init__(self, store: Store, lost: int) -> None:
        self.store = store
        self.lost = lost
        self.calls = 0

    async def apply(
        self, commands: Sequence[Command], committed: Committed = nothing
    ) -> list[Answer]:
        self.calls += 1
        answers = await self.store.apply(commands)
        if self.lost:
            self.lost -= 1
            raise CommitUnknown("the reply was lost")
        return answers

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


STORY: dict[str, Callable[[Holdfast], Any]] = {
    "place by id": lambda shop: shop.place_hold(E1, buyer="ann", id="n1", seats=["A-2-1"]),
    "place by key": lambda shop: shop.place_hold(
        E1, buyer="ann", idempotency_key="k1", best=2, pools={"floor": 2}
    ),
    "place": lambda shop: shop.place_hold(E1, buyer="bob", best=2, pools={"floor": 2}),
    "place stock": lambda shop: shop.place_hold(E1, buyer="cid", pools={"floor": 1}),
    "extend": lambda shop: shop.extend_hold("e1.h1"),
    "extend by key": lambda shop: shop.extend_hold("e1.h2", idempotency_key="k2"),
    "pay": lambda shop: shop.pay_hold("e1.h3"),
    "release": lambda shop: shop.release_hold("e1.h4"),
    "confirm": lambda shop: shop.confirm_hold("e1.h5", payment="p1"),
    "confirm by order": lambda shop: shop.confirm_hold("e1.h6", order="o1", payment="p2"),
    "sell": lambda shop: shop.sell(E1, buyer="dee", pools={"floor": 1}, payment="p3"),
    "sell by order": lambda shop: shop.sell(E1, buyer="dee", order="o2", pools={"floor": 1}),
    "sell best": lambda shop: shop.sell(E1, buyer="dee", best=1),
    "cancel": lambda shop: shop.cancel_order("e1.o0"),
    "expire": lambda shop: shop.expire(E1, 10),
    "pause": lambda shop: shop.pause_event(E1),
    "add": lambda shop: shop.add_capacity(
        E1, {"pools": [{"id": "floor", "capacity": 3, "tier": "floor"}]}
    ),
    "withdraw": lambda shop: shop.withdraw(E1, seats=["A-2-5"], pools={"floor": 1}),
    "create": lambda shop: shop.create_event(description(id="e2")),
    "refused": lambda shop: shop.place_hold(E1, buyer="eve", seats=["A-1-1"]),
}


async def opened(lost: int, clock: Clock) -> tuple[Holdfast, LostReply]:
    """A shop in the middle of a sale, whose next replies will be lost."""
    store = LostReply(MemoryStore(clock), 0)
    shop = Holdfast(cast(Store, store), Settings(store="memory://"), upkeep=False)
    await shop.__aenter__()
    sections = [{"id": "A", "tier": "gold", "rows": 2, "seats_per_row": 10}]
    await shop.create_event(description(sections=sections, max_extensions=5))
    await shop.place_hold(E1, buyer="old", seats=["A-1-10"], pools={"floor": 1})
    await shop.sell(E1, buyer="old", order="o0", seats=["A-1-9"])
    clock.advance(480_000)
    for n in range(1, 7):
        await shop.place_hold(E1, buyer=f"u{n}", id=f"h{n}", seats=[f"A-1-{n}"])
    store.lost = lost
    store.calls = 0
    return shop, store


async def facts(shop: Holdfast) -> list[tuple[str, str]]:
    return [
        (each.event.id, entry.type)
        for each in await shop.events()
        for entry in await shop.log(each.event.id, limit=10_000)
    ]


@pytest.mark.parametrize("lost", [1, 2, RETRIES_MAX])
@pytest.mark.parametrize("name", STORY)
async def test_after_a_lost_reply_the_answer_is_the_first_and_nothing_is_doubled(name, lost):
    """Against the same command on a twin whose replies all arrive."""
    clock, twin_clock = Clock(), Clock()
    shop, store = await opened(lost, clock)
    twin, _ = await opened(0, twin_clock)
    outcome, expected = await STORY[name](shop), await STORY[name](twin)
    assert store.calls == lost + 1
    assert without_ids(outcome) == without_ids(expected)
    assert await facts(shop) == await facts(twin)
    assert await numbers(shop) == await numbers(twin)
    assert await drift(shop.store) == []


async def test_a_whole_batch_whose_reply_is_lost_is_answered_as_if_it_had_come():
    shop, store = await opened(1, Clock())
    twin, _ = await opened(0, Clock())
    names = [name for name in STORY if name not in ("pause", "add", "withdraw", "create")]
    outcomes = await asyncio.gather(*[STORY[name](shop) for name in names])
    expected = await asyncio.gather(*[STORY[name](twin) for name in names])
    assert store.calls == 2
    assert list(map(without_ids, outcomes)) == list(map(without_ids, expected))
    assert await facts(shop) == await facts(twin)
    assert await numbers(shop) == await numbers(twin)
    assert await drift(shop.store) == []


async def test_replies_that_stay_lost_fail_without_doubling_anything():
    shop, store = await opened(1_000, Clock())
    with pytest.raises(CommitUnknown):
        await shop.extend_hold("e1.h1")
    store.lost = 0
    hold = await shop.hold("e1.h1")
    assert hold is not None
    assert hold.extensions == 1
    assert await drift(shop.store) == []


async def numbers(shop: Holdfast) -> list[tuple[int, ...]]:
    return [
        (each.seq, each.capacity, each.available, each.held, each.sold, each.revenue)
        for each in await shop.events()
    ]


def without_ids(outcome: Any) -> Any:
    """An outcome without what two shops cannot have in common: ids that they made themselves."""
    thing = getattr(outcome, "hold", None) or getattr(outcome, "order", None)
    if thing is None:
        return outcome
    state = {name: getattr(thing, name) for name in thing.__struct_fields__}
    return type(outcome), {k: v for k, v in state.items() if k not in ("id", "order", "hold")}


async def crowd_on(desk: Desk, many: int, known: lanes.Known) -> list[Answer]:
    """All of them at one moment, at a lane that has not been used for a while."""
    desk.open.set()
    lane = Lanes(lambda commands, committed: desk.apply(commands, committed), known, one_lane=False)
    return await asyncio.gather(*[lane.submit(command(id)) for id in range(many)])


@pytest.mark.parametrize("cold_seconds", [1.0, float("inf")], ids=["cold", "warm"])
async def test_the_first_of_a_crowd_are_asked_for_the_rest(desk, monkeypatch, cold_seconds):
    """Those behind are told what the first were told. The control, a lane without that first look,
    has a good part of the crowd decided."""
    monkeypatch.setattr(lanes, "COLD_SECONDS", cold_seconds)
    no = Answer(Refused(Reason.SOLD_OUT))
    answers = await crowd_on(desk, 500, lambda _: no if desk.batches else None)
    decided = sum(map(len, desk.batches))
    part = int(500 * lanes.SHARE)
    assert decided == (lanes.FIRST_COMMANDS if cold_seconds == 1.0 else part)
    assert part > 2 * lanes.FIRST_COMMANDS
    assert answers.count(no) == 500 - decided


async def test_who_wants_something_else_than_the_first_of_a_crowd_is_decided_next(
    desk, monkeypatch
):
    monkeypatch.setattr(lanes, "COLD_SECONDS", 1.0)
    answers = await crowd_on(desk, 500, lanes.nobody_knows)
    assert answers == [answer(str(id)) for id in range(500)]
    sizes = [len(batch) for batch in desk.batches]
    assert sizes[0] == lanes.FIRST_COMMANDS
    assert sum(sizes) == 500


async def test_a_few_after_a_while_are_one_batch_and_the_next_need_not_wait_for_their_answers(
    desk, monkeypatch
):
    monkeypatch.setattr(lanes, "COLD_SECONDS", 1.0)
    desk.committed_first = True
    lane = queue(desk)
    few = [lane.submit(command(id)) for id in range(10)]
    await desk.busy()
    few.append(lane.submit(command(10)))
    await desk.busy()
    assert [len(batch) for batch in desk.batches] == [10, 1]
    desk.open.set()
    await asyncio.gather(*few)
