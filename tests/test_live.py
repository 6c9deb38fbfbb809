"""The live map's follower, without HTTP: frames join without a gap, and memory has its limits."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.api.charts import Charts
from holdfast.errors import Overloaded, StoreUnavailable
from holdfast.followers import feed, live, turns
from holdfast.followers.feed import Frame
from holdfast.followers.live import FRAME_SECONDS, Ended, Gone, Live, Slow, Stopping, Subscription
from holdfast.settings import Settings
from holdfast.stores.memory import MemoryStore
from tests.conftest import Clock
from tests.contract.helpers import E1, held, on_sale, sold


class Seconds:
    """A clock for the frames."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class World:
    """A shop and its live map, whose reader is driven by hand."""

    def __init__(self, shop: Holdfast, store: MemoryStore, seconds: Seconds) -> None:
        self.shop = shop
        self.store = store
        self.seconds = seconds
        self.live = Live(shop, Charts(shop), seconds)

    async def watch(self, since: int | None = None) -> "Watcher":
        subscription = await self.live.subscribe(E1, since)
        assert subscription is not None
        return Watcher(self, subscription, since)

    async def tick(self, after: float = FRAME_SECONDS) -> None:
        self.seconds.now += after
        await self.live.tick()

    async def map(self) -> tuple[dict[str, str], dict[str, int]]:
        chart = await self.live._charts.chart(E1)
        assert chart is not None
        return drawn(json.loads(chart.body))


def drawn(told: dict[str, Any]) -> tuple[dict[str, str], dict[str, int]]:
    return (
        {seat["id"]: seat["state"] for seat in told["seats"]},
        {pool["id"]: pool["available"] for pool in told["pools"]},
    )


def span(frame: dict[str, Any]) -> tuple[int, int]:
    return frame["from"], frame["to"]


class Watcher:
    """Does what a page does with the frames, and insists that they join."""

    def __init__(self, world: World, subscription: Subscription, since: int | None) -> None:
        self.world = world
        self.subscription = subscription
        self.seq = since
        self.seats: dict[str, str] = {}
        self.pools: dict[str, int] = {}
        self.types: list[str] = []

    async def frame(self) -> dict[str, Any]:
        """The next frame, which must be due."""
        assert self.subscription.due(self.world.seconds.now) == 0
        return self.see(await self.subscription.take())

    def see(self, frame: Frame) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(frame.body)
        self.types.append(told["type"])
        assert told["type"] == frame.type
        assert "buyer" not in frame.text
        assert frame.sse == b"id: %d\nevent: %b\ndata: %b\n\n" % (
            frame.seq,
            frame.type.encode(),
            frame.body,
        )
        if told["type"] == "snapshot":
            self.seats, self.pools = drawn(told)
            self.seq = told["seq"]
        else:
            assert self.seq is not None
            assert told["from"] == self.seq + 1 <= told["to"]
            self.seq = told["to"]
            self.seats.update(told["changes"])
            self.pools.update(told.get("pools", {}))
        assert frame.seq == self.seq
        return told

    async def all(self) -> None:
        """Every frame that there is."""
        while self.subscription.due(self.world.seconds.now) is not None:
            self.world.seconds.now += FRAME_SECONDS
            await self.frame()

    @property
    def quiet(self) -> bool:
        return self.subscription.due(self.world.seconds.now) is None


@pytest.fixture
async def world(clock: Clock) -> AsyncIterator[World]:
    store = MemoryStore(clock)
    settings = Settings(store="memory://")
    async with Holdfast(store, settings, upkeep=False, clock=clock) as shop:
        await on_sale(shop)
        yield World(shop, store, Seconds())


async def test_a_snapshot_comes_first_and_changes_join_it(world):
    await held(world.shop, "ann", seats=["A-1-1"])
    watcher = await world.watch()
    assert (await watcher.frame())["seq"] == 2
    assert watcher.quiet

    hold = await held(world.shop, "bob", seats=["A-1-2"])
    await world.tick()
    assert await watcher.frame() == {
        "type": "changes",
        "from": 3,
        "to": 3,
        "changes": [["A-1-2", "held"]],
    }
    await world.shop.confirm_hold(hold.id)
    await world.tick()
    assert (await watcher.frame())["changes"] == [["A-1-2", "sold"]]
    assert (watcher.seats, watcher.pools) == await world.map()


async def test_what_each_fact_does_to_a_seat(world, clock):
    watcher = await world.watch()
    await watcher.frame()
    states = []

    async def see() -> None:
        await world.tick()
        [(seat, state)] = (await watcher.frame())["changes"]
        assert seat == "A-2-2"
        states.append(state)

    seats = ["A-2-2"]
    hold = await held(world.shop, seats=seats)
    await see()
    await world.shop.extend_hold(hold.id)
    await see()
    await world.shop.pay_hold(hold.id)
    await see()
    await world.shop.release_hold(hold.id)
    await see()
    await held(world.shop, seats=seats)
    await see()
    clock.advance(3_600_000)
    await world.shop.expire(E1, 10)
    await see()
    order = await sold(world.shop, seats=seats)
    await see()
    await world.shop.cancel_order(order.id)
    await see()
    assert states == [
        "held",
        "held",
        "held",
        "available",
        "held",
        "available",
        "sold",
        "available",
    ]


async def test_a_frame_has_only_the_last_state_of_each_seat(world):
    watcher = await world.watch()
    await watcher.frame()
    first = await held(world.shop, "ann", seats=["A-1-1", "A-1-2"])
    await world.shop.release_hold(first.id)
    second = await held(world.shop, "bob", seats=["A-1-2"])
    await world.shop.confirm_hold(second.id)
    await world.tick()
    frame = await watcher.frame()
    assert span(frame) == (2, 5)
    assert dict(frame["changes"]) == {"A-1-1": "available", "A-1-2": "sold"}
    assert len(frame["changes"]) == 2


async def test_pools_are_told_where_facts_touch_them_and_as_the_authority_has_them(world):
    watcher = await world.watch()
    await watcher.frame()
    await held(world.shop, pools={"floor": 3})
    await world.tick()
    assert (await watcher.frame())["pools"] == {"floor": 7}
    await held(world.shop, seats=["A-1-1"])
    await world.tick()
    assert "pools" not in await watcher.frame()


async def test_units_of_channels_look_sold_whatever_happens_to_them(world):
    watcher = await world.watch()
    await watcher.frame()
    assert (watcher.seats["S-1-1"], watcher.pools["stand"]) == ("sold", 0)
    hold = await held(
        world.shop, seats=["S-1-1", "A-1-1"], pools={"stand": 1}, channels=["sponsors"]
    )
    await world.tick()
    frame = await watcher.frame()
    assert frame["changes"] == [["A-1-1", "held"]]
    assert "pools" not in frame
    await world.shop.release_hold(hold.id)
    await world.tick()
    assert (await watcher.frame())["changes"] == [["A-1-1", "available"]]
    assert (watcher.seats, watcher.pools) == await world.map()


async def test_at_most_five_frames_a_second_and_the_last_has_everything(world):
    watcher = await world.watch()
    await watcher.frame()
    times: list[float] = []
    for turn in range(50):  # two facts every 30 ms, for three seconds
        hold = await held(world.shop, f"u-{turn}", seats=["A-1-1"])
        await world.tick(after=0.03)
        await world.shop.release_hold(hold.id)
        await world.tick(after=0.03)
        if watcher.subscription.due(world.seconds.now) == 0:
            await watcher.frame()
            times.append(world.seconds.now)
    gaps = [later - sooner for sooner, later in pairwise(times)]
    assert min(gaps) >= FRAME_SECONDS
    assert len(times) >= 10
    await held(world.shop, "last", seats=["A-2-1"])
    await world.tick()
    await watcher.all()
    assert (watcher.seats, watcher.pools) == await world.map()


async def test_a_frame_soon_after_the_snapshot_waits_for_its_turn(world):
    watcher = await world.watch()
    await watcher.frame()
    await held(world.shop, seats=["A-1-1"])
    await world.tick(after=0.05)
    assert watcher.subscription.due(world.seconds.now) == pytest.approx(FRAME_SECONDS - 0.05)


async def test_a_slow_one_gets_one_bigger_frame(world):
    slow, quick = await world.watch(), await world.watch()
    await slow.frame()
    await quick.frame()
    for number in range(1, 6):
        await held(world.shop, f"u-{number}", seats=[f"A-1-{number}"])
        await world.tick()
        await quick.frame()
    assert len(await frames_of(slow)) == 1
    assert slow.seats == quick.seats
    assert slow.seq == quick.seq == 6


async def frames_of(watcher: Watcher) -> list[str]:
    before = len(watcher.types)
    await watcher.all()
    return watcher.types[before:]


async def test_those_who_need_the_same_share_one_frame(world):
    some = [await world.watch() for _ in range(3)]
    for watcher in some:
        await watcher.frame()
    await held(world.shop, seats=["A-1-1"])
    await world.tick()
    frames = [await watcher.subscription.take() for watcher in some]
    assert frames[0] is frames[1] is frames[2]


async def test_whoever_fell_out_of_the_ring_gets_a_new_snapshot(world, monkeypatch):
    monkeypatch.setattr(live, "FACTS_MAX", 4)
    watcher = await world.watch()
    await watcher.frame()
    for turn in range(3):
        for number in range(1, 3):
            hold = await held(world.shop, f"u-{turn}", seats=[f"A-{number}-1"])
            await world.shop.release_hold(hold.id)
        await world.tick()
    await held(world.shop, "last", seats=["B-1-1"])
    await world.tick()
    assert await frames_of(watcher) == ["snapshot"]
    assert len(world.live._events[E1].feed) <= 4
    assert (watcher.seats, watcher.pools) == await world.map()
    await held(world.shop, "more", seats=["B-1-2"])
    await world.tick()
    assert await frames_of(watcher) == ["changes"]


async def test_a_reader_that_is_far_behind_begins_anew(world, monkeypatch):
    monkeypatch.setattr(live, "FACTS_MAX", 3)
    watcher = await world.watch()
    await watcher.frame()
    for number in range(1, 6):
        await held(world.shop, f"u-{number}", seats=[f"A-1-{number}"])
    await world.tick()
    assert await frames_of(watcher) == ["snapshot"]
    assert (watcher.seats, watcher.pools) == await world.map()


async def test_whoever_is_too_far_behind_for_one_frame_gets_a_snapshot(world, monkeypatch):
    monkeypatch.setattr(feed, "FRAME_FACTS_MAX", 2)
    watcher = await world.watch()
    await watcher.frame()
    for number in range(1, 4):
        await held(world.shop, f"u-{number}", seats=[f"A-1-{number}"])
    await world.tick()
    assert await frames_of(watcher) == ["snapshot"]


async def test_pages_of_the_log_join(world, monkeypatch):
    monkeypatch.setattr(live, "PAGE", 2)
    watcher = await world.watch()
    await watcher.frame()
    for number in range(1, 6):
        await held(world.shop, f"u-{number}", seats=[f"A-1-{number}"])
    await world.tick()
    frame = await watcher.frame()
    assert (frame["from"], frame["to"], len(frame["changes"])) == (2, 6, 5)


@pytest.mark.parametrize("change", ["added", "withdrawn", "stock"])
async def test_a_new_layout_comes_as_a_snapshot(world, change):
    watcher = await world.watch()
    await watcher.frame()
    await held(world.shop, seats=["A-1-1"])
    match change:
        case "added":
            more = [{"id": "C", "tier": "gold", "rows": 1, "seats_per_row": 2, "channel": "x"}]
            await world.shop.add_capacity(E1, {"sections": more})
        case "withdrawn":
            await world.shop.withdraw(E1, seats=["A-2-5"])
        case "stock":
            await world.shop.add_capacity(E1, {"pools": [{"id": "floor", "capacity": 5}]})
    # Also what comes after it in the same reading is told as the new layout has it.
    if change == "added":
        await held(world.shop, seats=["C-1-1", "A-1-2"], channels=["x"])
    await world.tick()
    await watcher.frame()
    assert watcher.types == ["snapshot", "snapshot"]
    assert (watcher.seats, watcher.pools) == await world.map()
    if change == "added":
        await held(world.shop, seats=["C-1-2", "A-1-3"], channels=["x"])
        await world.tick()
        assert (await watcher.frame())["changes"] == [["A-1-3", "held"]]


async def test_other_changes_of_an_event_move_the_number_alone(world):
    watcher = await world.watch()
    await watcher.frame()
    await world.shop.pause_event(E1)
    await world.tick()
    assert await watcher.frame() == {"type": "changes", "from": 2, "to": 2, "changes": []}


async def test_one_who_comes_back_goes_on_from_his_number(world):
    watcher = await world.watch()
    await watcher.frame()
    watcher.subscription.close()
    await held(world.shop, "ann", seats=["A-1-1"], pools={"floor": 1})
    await held(world.shop, "bob", seats=["A-1-2"])
    again = await world.watch(since=1)
    await world.tick()
    frame = await again.frame()
    assert span(frame) == (2, 3)
    assert frame["pools"] == {"floor": 9}


async def test_another_process_goes_on_where_the_first_one_ended(world):
    """A process that has read nothing yet reads what is missing."""
    await held(world.shop, "ann", seats=["A-1-1"], pools={"floor": 1})
    await held(world.shop, "bob", seats=["A-1-2"])
    other = World(world.shop, world.store, world.seconds)
    first, second = await other.watch(since=2), await other.watch(since=1)
    await held(world.shop, "cid", seats=["A-1-3"])
    await other.tick()
    assert span(await first.frame()) == (3, 4)
    frame = await second.frame()
    assert (frame["from"], frame["to"], frame["pools"]) == (2, 4, {"floor": 9})


async def test_a_number_that_this_process_has_not_read_yet_is_waited_for(world):
    watcher = await world.watch()
    await watcher.frame()
    await held(world.shop, "ann", seats=["A-1-1"])
    await held(world.shop, "bob", seats=["A-1-2"])
    ahead = await world.watch(since=3)
    assert ahead.quiet
    await held(world.shop, "cid", seats=["A-1-3"])
    await world.tick()
    assert span(await ahead.frame()) == (4, 4)


@pytest.mark.parametrize("since", [0, 7, 10**17])
async def test_a_number_that_cannot_be_gone_on_from_gets_a_snapshot(world, since):
    await held(world.shop, "ann", seats=["A-1-1"])
    watcher = await world.watch(since=since)
    await watcher.frame()
    assert watcher.types == ["snapshot"]
    assert watcher.seq == 2


async def test_a_number_too_far_back_gets_a_snapshot(world, monkeypatch):
    monkeypatch.setattr(live, "RESUME_FACTS_MAX", 2)
    for number in range(1, 5):
        await held(world.shop, f"u-{number}", seats=[f"A-1-{number}"])
    near, far = await world.watch(since=3), await world.watch(since=2)
    await near.frame()
    await far.frame()
    assert (near.types, far.types) == (["changes"], ["snapshot"])


async def test_a_number_from_before_the_log_begins_gets_a_snapshot(world):
    for number in range(1, 5):
        await held(world.shop, f"u-{number}", seats=[f"A-1-{number}"])
    await world.store.prune(E1, 3, 100)
    near, far = await world.watch(since=3), await world.watch(since=1)
    await near.frame()
    await far.frame()
    assert (near.types, far.types) == (["changes"], ["snapshot"])
    assert far.seq == 5


async def test_facts_that_were_pruned_before_they_were_read_come_as_a_snapshot(world):
    watcher = await world.watch()
    await watcher.frame()
    for number in range(1, 4):
        await held(world.shop, f"u-{number}", seats=[f"A-1-{number}"])
    await world.store.prune(E1, 3, 100)
    await world.tick()
    await watcher.frame()
    assert watcher.types == ["snapshot", "snapshot"]
    assert (watcher.seats, watcher.pools) == await world.map()


async def test_a_log_that_lost_facts_means_a_new_snapshot_for_everybody(world, clock):
    for number in range(1, 4):
        await held(world.shop, f"u-{number}", seats=[f"A-1-{number}"])
    watcher = await world.watch()
    await watcher.frame()
    world.store._events.clear()
    await on_sale(world.shop)
    await world.tick()
    await watcher.frame()
    assert watcher.types == ["snapshot", "snapshot"]
    assert watcher.seq == 1
    assert set(watcher.seats.values()) == {"available", "sold"}
    await held(world.shop, seats=["A-1-1"])
    await world.tick()
    assert (await watcher.frame())["from"] == 2


async def test_an_event_that_is_gone_ends_its_subscriptions(world):
    watcher = await world.watch()
    await watcher.frame()
    world.store._events.clear()
    await world.tick()
    with pytest.raises(Gone):
        await watcher.subscription.next(1)
    assert await world.live.subscribe(E1) is None


async def test_there_is_no_subscription_to_an_unknown_event(world):
    assert await world.live.subscribe("nothing") is None
    assert await world.live.subscribe("not an id !") is None
    assert world.live.subscribers == 0
    assert world.live.lags() == {}


async def test_there_are_so_many_subscribers_and_no_more(world, monkeypatch):
    monkeypatch.setattr(live, "SUBSCRIBERS_MAX", 2)
    first, _ = await world.watch(), await world.watch()
    with pytest.raises(Overloaded):
        await world.watch()
    first.subscription.close()
    first.subscription.close()
    assert world.live.subscribers == 1
    await world.watch()


async def test_an_event_that_nobody_watches_is_forgotten(world):
    watcher = await world.watch()
    await watcher.frame()
    await held(world.shop, seats=["A-1-1"])
    await world.tick()
    watcher.subscription.close()
    await world.tick(after=live.FORGET_SECONDS - 1)
    assert world.live.lags() == {E1: 0}
    await world.tick(after=2)
    assert world.live.lags() == {}


async def test_lags_count_what_was_not_read_yet(world):
    await world.watch()
    await world.tick()
    await held(world.shop, "ann", seats=["A-1-1"])
    await world.tick()
    await held(world.shop, "bob", seats=["A-1-2"])
    await world.tick(after=0.01)
    assert world.live.lags() == {E1: 1}
    await world.tick()
    assert world.live.lags() == {E1: 0}


async def test_what_could_not_be_told_is_told_later(world, monkeypatch):
    """The log was read, but the authority did not say what is left of the pool."""
    watcher = await world.watch()
    await watcher.frame()
    await held(world.shop, pools={"floor": 1})

    async def no(event: str) -> None:
        raise StoreUnavailable("gone for a while")

    with monkeypatch.context() as broken:
        broken.setattr(world.store, "statuses", no)
        world.seconds.now += 1
        with pytest.raises(StoreUnavailable):
            await world.live.tick()
    assert watcher.quiet
    await world.tick()
    assert (await watcher.frame())["pools"] == {"floor": 9}


async def test_whoever_takes_no_frame_for_long_is_cut_off(world):
    watcher = await world.watch()
    sending = asyncio.Event()

    async def send() -> None:
        try:
            await watcher.subscription.next(1)
            sending.set()
            await asyncio.Event().wait()  # a socket that nobody reads
        finally:
            watcher.subscription.close()

    task = asyncio.create_task(send())
    await sending.wait()
    never_asked = await world.watch()
    await world.tick(after=live.STALLED_SECONDS + 2)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert world.live.subscribers == 0
    with pytest.raises(Ended):
        await never_asked.subscription.next(1)


async def test_the_reader_tells_by_itself_and_ends_everything_when_it_stops(world):
    world.live.clock = asyncio.get_running_loop().time
    world.live.start()
    watcher = await world.watch()
    frame = await watcher.subscription.next(5)
    assert frame is not None
    watcher.see(frame)
    await held(world.shop, seats=["A-1-1"])
    frame = await watcher.subscription.next(5)
    assert frame is not None
    assert watcher.see(frame)["changes"] == [["A-1-1", "held"]]
    assert await watcher.subscription.next(0) is None

    async def wait() -> None:
        try:
            await watcher.subscription.next(60)
        finally:
            watcher.subscription.close()

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0)
    await asyncio.wait_for(world.live.stop(), 1)
    with pytest.raises(Stopping):
        await waiting
    with pytest.raises(Stopping):
        await world.live.subscribe(E1)
    assert world.live.subscribers == 0


async def test_a_crowd_on_one_map_is_told_in_slices(world, monkeypatch):
    """Others get their turn while many are told, and nothing new is published until all were."""
    monkeypatch.setattr(turns, "LISTENERS_PER_SECOND_MAX", 1)  # the pause is as long as it gets
    watchers = [await world.watch() for _ in range(2 * turns.SLICE_MAX)]
    woken: list[Watcher] = []
    for watcher in watchers:
        await watcher.frame()
        watcher.subscription.wake = lambda watcher=watcher: woken.append(watcher)
    followed = world.live._events[E1]
    await held(world.shop, "ann", seats=["A-1-1"])
    await world.tick()
    assert (len(woken), followed.feed.edge) == (0, 2)
    await settle()
    assert len(woken) == turns.SLICE_MAX
    await held(world.shop, "bob", seats=["A-1-2"])
    await world.tick()
    assert (len(woken), followed.feed.edge) == (turns.SLICE_MAX, 2)
    async with asyncio.timeout(10):
        while not followed.round.done:  # noqa: ASYNC110 - nothing tells it
            await asyncio.sleep(0.01)
    assert set(woken) == set(watchers)
    await world.tick()
    assert followed.feed.edge == 3
    await world.live.stop()


async def test_what_takes_long_is_told_in_smaller_slices(world):
    """A slice of the clock's seconds: the next is smaller, and the pause after it is longer."""

    class Heavy:
        def wake(self) -> None:
            world.seconds.now += turns.SLICE_SECONDS / 4
            slices[-1] += 1

    slices = [0]
    them = turns.Turns(world.seconds)
    begun = them.begin([Heavy() for _ in range(3 * turns.SLICE_MAX)])
    async with asyncio.timeout(10):
        while not begun.done:
            await asyncio.sleep(0)
            if slices[-1]:
                slices.append(0)
    assert slices[0] == turns.SLICE_MAX
    assert min(each for each in slices if each) <= 5
    await them.stop()


# Frames that are pushed, as to a WebSocket


class Line:
    """A connection that takes a frame when the test says so."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher
        self.taken: list[asyncio.Future[None]] = []
        watcher.subscription.push = self._push

    def _push(self, frame: Frame) -> "asyncio.Future[None]":
        assert not any(not each.done() for each in self.taken)
        self.watcher.see(frame)
        self.taken.append(asyncio.get_running_loop().create_future())
        return self.taken[-1]

    async def run(self) -> None:
        try:
            while (frame := await self.watcher.subscription.next()) is not None:
                self.watcher.see(frame)
        finally:
            self.watcher.subscription.close()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_pushed_frame_wakes_nobody_and_the_next_waits_until_it_is_taken(world):
    watcher = await world.watch()
    line = Line(watcher)
    task = asyncio.create_task(line.run())
    async with asyncio.timeout(10):
        while not watcher.types:  # noqa: ASYNC110 - the snapshot is drawn on a thread
            await asyncio.sleep(0.001)
    for number in range(1, 5):
        await held(world.shop, f"u-{number}", seats=[f"A-1-{number}"])
        await world.tick()
        await settle()
    # The first was pushed; it is not taken, so the others wait, and come as one.
    assert (watcher.types, watcher.seq) == (["snapshot", "changes"], 2)
    line.taken[0].set_result(None)
    await settle()
    assert (watcher.types, watcher.seq) == (["snapshot", "changes", "changes"], 5)
    assert len(line.taken) == 1
    await held(world.shop, "last", seats=["A-2-1"])
    await world.tick()
    await settle()
    assert (len(line.taken), watcher.seq) == (2, 6)
    assert (watcher.seats, watcher.pools) == await world.map()
    assert world.live.counts.sent == 4
    assert world.live.counts.encoded == 4
    watcher.subscription.end(Ended())
    line.taken[-1].set_result(None)
    with pytest.raises(Ended):
        await task


async def test_whoever_does_not_take_what_was_pushed_is_ended_as_slow(world):
    watcher = await world.watch()
    line = Line(watcher)
    task = asyncio.create_task(line.run())
    async with asyncio.timeout(10):
        while not watcher.types:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.001)
    for number in (1, 2):
        await held(world.shop, f"u-{number}", seats=[f"A-1-{number}"])
        await world.tick()
        await settle()
    await world.tick(after=live.STALLED_SECONDS - 1)
    assert not task.done()
    await world.tick(after=2)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert isinstance(watcher.subscription.ended, Slow)
    assert (world.live.subscribers, world.live.counts.dropped) == (0, 1)
    # It goes on from the number that it has.
    again = await world.watch(since=watcher.seq)
    assert span(await again.frame()) == (3, 3)


async def test_a_large_frame_may_take_its_time(world):
    watcher = await world.watch()
    frame = await watcher.subscription.take()
    patience = watcher.subscription.patience_seconds
    assert patience == live.STALLED_SECONDS + len(frame.body) / live.BYTES_PER_SECOND_MIN


@pytest.mark.parametrize("when", ["at once", "later"])
async def test_a_line_that_breaks_ends_its_own_subscription_alone(world, when):
    broken, whole = await world.watch(), await world.watch()
    lines = [Line(broken), Line(whole)]

    def fail(frame: Frame) -> "asyncio.Future[None]":
        if when == "at once":
            raise OSError("gone")
        failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        failed.set_exception(OSError("gone"))
        return failed

    broken.subscription.push = fail
    tasks = [asyncio.create_task(line.run()) for line in lines]
    async with asyncio.timeout(10):
        while not (broken.types and whole.types):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.001)
    for number in (1, 2):
        await held(world.shop, f"u-{number}", seats=[f"A-1-{number}"])
        await world.tick()
        await settle()
        for taken in lines[1].taken:
            if not taken.done():
                taken.set_result(None)
    with pytest.raises(Ended):
        await tasks[0]
    assert whole.seq == 3
    assert world.live.subscribers == 1
    whole.subscription.end(Ended())
    with pytest.raises(Ended):
        await tasks[1]


async def test_snapshots_through_sockets_have_a_limit_and_who_has_the_map_needs_none(
    world, monkeypatch
):
    first = await world.live.subscribe(E1, keeps=True)
    assert first is not None
    size = len((await first.take()).body)
    monkeypatch.setattr(live, "KEPT_BYTES_MAX", size + size // 2)
    second = await world.live.subscribe(E1, keeps=True)
    assert second is not None
    with pytest.raises(Overloaded):
        await second.take()
    await held(world.shop, seats=["A-1-1"])
    await world.tick()
    with_the_map = await world.live.subscribe(E1, since=1, keeps=True)
    assert with_the_map is not None
    assert (await with_the_map.take()).type == "changes"
    assert (await first.take()).type == "changes"
    first.close()
    first.close()
    assert (await second.take()).type == "snapshot"


async def test_every_frame_through_a_socket_counts(world, monkeypatch):
    first = await world.live.subscribe(E1, since=1, keeps=True)
    assert first is not None
    await held(world.shop, seats=["A-1-1"])
    await world.tick()
    monkeypatch.setattr(live, "KEPT_BYTES_MAX", 10)
    with pytest.raises(Overloaded):
        await first.take()


async def test_an_event_is_not_forgotten_under_one_who_is_about_to_watch_it(world, monkeypatch):
    watcher = await world.watch()
    await watcher.frame()
    watcher.subscription.close()
    await world.tick(after=live.FORGET_SECONDS - 1)
    await held(world.shop, seats=["A-1-1"])
    heads, go = world.store.heads, asyncio.Event()

    async def slow() -> dict[str, int]:
        await go.wait()
        found: dict[str, int] = await heads()
        return found

    monkeypatch.setattr(world.store, "heads", slow)
    coming = asyncio.create_task(world.live.subscribe(E1, since=2))
    await asyncio.sleep(0)
    monkeypatch.setattr(world.store, "heads", heads)
    await world.tick(after=2)
    go.set()
    subscription = await coming
    assert subscription is not None
    await held(world.shop, seats=["A-1-2"])
    await world.tick(after=1)
    assert subscription.due(world.seconds.now) is not None, "it is told"


async def test_whoever_cannot_be_told_keeps_nobody_else_from_it(caplog):
    class Listener:
        def __init__(self, nth: int) -> None:
            self.nth, self.woken = nth, 0

        def wake(self) -> None:
            self.woken += 1
            if self.nth == 30:
                raise RuntimeError("odd")

    every = turns.Turns(time.monotonic)
    crowd = [Listener(nth) for nth in range(60)]
    told = every.begin(crowd)
    async with asyncio.timeout(10):
        while not told.done:  # noqa: ASYNC110 - it has nothing that could be waited for
            await asyncio.sleep(0.01)
    assert [each.woken for each in crowd] == [1] * 60
    assert "could not be told" in caplog.text
    await every.stop()
