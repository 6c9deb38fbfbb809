"""The keeper: what arrives together is one call, and a gate that fails is passed by."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

import pytest

from holdfast.domain.gating import Claimed, Done, Find, Found, Op, Snapshot, Stock, Verdict
from holdfast.errors import GateDown
from holdfast.gates import keeper as module
from holdfast.gates.keeper import OPS_MAX, PAUSE_FIRST_SECONDS, PAUSE_LAST_SECONDS, Keeper
from holdfast.gates.memory import MemoryGate
from tests.gates.helpers import E1, claim

TIMEOUT_SECONDS = 0.02


class Moody(MemoryGate):
    """A gate that does as the test says, and remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, int, list[Op]]] = []
        self.free = asyncio.Event()
        self.free.set()
        self.trouble: Callable[[], Exception] | None = None

    async def run(self, event: str, version: int, ops: Sequence[Op]) -> list[Verdict]:
        self.calls.append((event, version, list(ops)))
        await self._answer()
        return await super().run(event, version, ops)

    async def snapshot(self, event: str) -> Snapshot:
        self.calls.append((event, 0, []))
        await self._answer()
        return await super().snapshot(event)

    async def _answer(self) -> None:
        await self.free.wait()
        if self.trouble is not None:
            raise self.trouble()

    @property
    def sizes(self) -> list[int]:
        return [len(ops) for _, _, ops in self.calls]


class Wristwatch:
    """The keeper's own clock, moved by hand."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def watch(monkeypatch) -> Wristwatch:
    watch = Wristwatch()
    monkeypatch.setattr(module, "time", watch)
    return watch


@pytest.fixture
def gate() -> Moody:
    return Moody()


@pytest.fixture
def keeper(gate, watch) -> Keeper:
    return Keeper(gate, TIMEOUT_SECONDS)


async def turns(count: int = 5) -> None:
    """Lets everybody else have a turn."""
    for _ in range(count):
        await asyncio.sleep(0)


def down(why: str = "connection refused") -> Callable[[], Exception]:
    return lambda: GateDown(why)


async def test_asks_that_arrive_together_are_one_call_in_their_order(keeper, gate):
    await keeper.ask(E1, 1, Stock({}))
    gate.calls.clear()
    asks = [claim(f"h{n}", f"A-{n // 2}") for n in range(20)]
    verdicts = await asyncio.gather(*(keeper.ask(E1, 1, each) for each in asks))
    assert gate.calls == [(E1, 1, asks)]
    granted = [isinstance(verdict, Claimed) for verdict in verdicts]
    assert granted == [True, False] * 10, "each got the verdict of his own ask"


async def test_what_arrives_during_a_call_is_the_next_one(keeper, gate):
    gate.free.clear()
    first = asyncio.create_task(keeper.ask(E1, 1, Stock({})))
    await turns()
    later = [asyncio.create_task(keeper.ask(E1, 1, Find(f"h{n}"))) for n in range(7)]
    await turns()
    assert gate.sizes == [1], "one at a time"
    gate.free.set()
    assert await first == Done(True)
    await asyncio.gather(*later)
    assert gate.sizes == [1, 7]


async def test_a_call_has_a_limit_and_the_rest_follows_in_order(keeper, gate):
    asks = [Find(f"h{n}") for n in range(2 * OPS_MAX + 1)]
    verdicts = await asyncio.gather(*(keeper.ask(E1, 1, each) for each in asks))
    assert gate.sizes == [OPS_MAX, OPS_MAX, 1]
    assert [op for _, _, ops in gate.calls for op in ops] == asks
    assert all(isinstance(verdict, Found) for verdict in verdicts)


async def test_events_do_not_wait_for_each_other(keeper, gate):
    gate.free.clear()
    asks = [asyncio.create_task(keeper.ask(event, 1, Find("h"))) for event in ("e1", "e2", "e3")]
    await turns()
    assert [event for event, _, _ in gate.calls] == ["e1", "e2", "e3"]
    gate.free.set()
    await asyncio.gather(*asks)


async def test_a_call_is_of_one_version(keeper, gate):
    """Else a courtesy of an older version would pass for one of the present."""
    await asyncio.gather(*(keeper.ask(E1, version, Find("h")) for version in (3, 3, 5, 4)))
    assert [(version, len(ops)) for _, version, ops in gate.calls] == [(3, 2), (5, 1), (4, 1)]


async def test_whoever_stops_waiting_does_not_hurt_the_others(keeper, gate):
    gate.free.clear()
    impatient = asyncio.create_task(keeper.ask(E1, 1, Stock({})))
    patient = asyncio.create_task(keeper.ask(E1, 1, Find("h")))
    await turns()
    impatient.cancel()
    await turns()
    gate.free.set()
    assert isinstance(await patient, Found)
    assert impatient.cancelled()


async def test_a_gate_that_fails_costs_its_verdict_and_nothing_else(keeper, gate):
    gate.trouble = down()
    asks = [keeper.ask(E1, 1, Find(f"h{n}")) for n in range(3)]
    assert await asyncio.gather(*asks) == [None] * 3
    assert gate.sizes == [3]
    assert (keeper.state, keeper.failures, keeper.passed_by) == ("connection refused", 1, 3)


async def test_a_gate_that_hangs_costs_its_timeout(keeper, gate):
    gate.free.clear()
    began = time.monotonic()
    assert await keeper.ask(E1, 1, Find("h")) is None
    assert time.monotonic() - began < 20 * TIMEOUT_SECONDS
    assert keeper.state == "no answer within 20 ms"


async def test_after_a_failure_the_gate_is_left_alone_until_the_pause_is_over(keeper, gate, watch):
    gate.trouble = down()
    await keeper.ask(E1, 1, Find("h"))
    gate.trouble = None
    watch.now += PAUSE_FIRST_SECONDS - 0.001
    assert await keeper.ask(E1, 1, Find("h")) is None
    assert await keeper.ask("e2", 1, Find("h")) is None
    keeper.tell(E1, 1, Find("h"))
    assert await keeper.snapshot(E1) is None
    await keeper.settled()
    assert len(gate.calls) == 1
    watch.now += 0.002
    assert isinstance(await keeper.ask(E1, 1, Find("h")), Found)
    assert (len(gate.calls), keeper.state) == (2, "up")


async def test_what_waited_behind_a_call_that_failed_does_not_go_to_the_gate(keeper, gate):
    gate.free.clear()
    gate.trouble = down()
    asks = [asyncio.create_task(keeper.ask(E1, 1, Find("a")))]
    await turns()
    asks += [asyncio.create_task(keeper.ask(E1, 1, Find(f"b{n}"))) for n in range(3)]
    await turns()
    gate.free.set()
    assert await asyncio.gather(*asks) == [None] * 4
    assert gate.sizes == [1]


async def test_one_call_tries_whether_the_gate_is_back(keeper, gate, watch):
    gate.trouble = down()
    await keeper.ask(E1, 1, Find("h"))
    gate.trouble = None
    gate.free.clear()
    gate.calls.clear()
    watch.now += PAUSE_FIRST_SECONDS
    probe = asyncio.create_task(keeper.ask("e0", 1, Find("h")))
    await turns()
    others = await asyncio.gather(*(keeper.ask(f"e{n}", 1, Find("h")) for n in range(1, 20)))
    assert others == [None] * 19
    assert await keeper.snapshot(E1) is None
    assert [event for event, _, _ in gate.calls] == ["e0"]
    gate.free.set()
    assert isinstance(await probe, Found)
    assert isinstance(await keeper.ask("e1", 1, Find("h")), Found)


async def test_of_many_events_at_once_one_tries_whether_the_gate_is_back(keeper, gate, watch):
    gate.trouble = down()
    await keeper.ask(E1, 1, Find("h"))
    gate.calls.clear()
    watch.now += PAUSE_FIRST_SECONDS
    await asyncio.gather(*(keeper.ask(f"e{n}", 1, Find("h")) for n in range(20)))
    assert len(gate.calls) == 1


async def test_each_failure_makes_the_pause_longer_up_to_a_limit(keeper, gate, watch):
    gate.trouble = down()
    pause = PAUSE_FIRST_SECONDS
    await keeper.ask(E1, 1, Find("h"))
    for calls in range(1, 9):
        watch.now += pause - 0.001
        await keeper.ask(E1, 1, Find("h"))
        assert len(gate.calls) == calls, f"after {pause} s"
        watch.now += 0.002
        await keeper.ask(E1, 1, Find("h"))
        assert len(gate.calls) == calls + 1
        pause = min(2 * pause, PAUSE_LAST_SECONDS)
    assert pause == PAUSE_LAST_SECONDS
    gate.trouble = None
    watch.now += PAUSE_LAST_SECONDS
    await keeper.ask(E1, 1, Find("h"))
    gate.trouble = down()
    await keeper.ask(E1, 1, Find("h"))
    watch.now += PAUSE_FIRST_SECONDS
    gate.trouble = None
    assert isinstance(await keeper.ask(E1, 1, Find("h")), Found), "short again"


async def test_it_says_once_that_the_gate_is_gone_and_once_that_it_is_back(
    keeper, gate, watch, caplog
):
    caplog.set_level(logging.WARNING, "holdfast.gate")
    recovered: list[str] = []
    keeper.recovered = lambda: recovered.append(keeper.state)
    gate.trouble = down()
    for _ in range(5):
        await keeper.ask(E1, 1, Find("h"))
        watch.now += PAUSE_LAST_SECONDS
    assert caplog.messages == ["the gate memory:// is passed by: connection refused"]
    assert recovered == []
    gate.trouble = None
    for _ in range(3):
        await keeper.ask(E1, 1, Find("h"))
    assert caplog.messages[1:] == ["the gate memory:// answers again"]
    assert recovered == ["up"], "told once, and by then it may be used again"


async def test_a_gate_that_was_never_down_has_not_recovered(keeper):
    recovered: list[bool] = []
    keeper.recovered = lambda: recovered.append(True)
    await keeper.ask(E1, 1, Find("h"))
    assert recovered == []


async def test_what_is_told_is_done_in_order_with_what_is_asked(keeper, gate):
    keeper.tell(E1, 1, Stock({"floor": 1}))
    keeper.tell(E1, 1, claim("a", "A-1"))
    assert isinstance(await keeper.ask(E1, 1, Find("a")), Found)
    assert gate.sizes == [3]
    assert (await gate.snapshot(E1)).seats == {"A-1": "a"}


@pytest.mark.parametrize("mood", ["failing", "hanging", "down"])
async def test_telling_never_raises_and_is_over_in_time(keeper, gate, mood):
    if mood == "hanging":
        gate.free.clear()
    else:
        gate.trouble = down()
    if mood == "down":
        await keeper.ask(E1, 1, Find("h"))
    for _ in range(3):
        keeper.tell(E1, 1, Find("h"))
    await asyncio.wait_for(keeper.settled(), 20 * TIMEOUT_SECONDS)
    assert keeper.failures == 1


async def test_more_than_may_wait_goes_on_without_the_gate(keeper, gate, monkeypatch):
    monkeypatch.setattr(module, "WAITING_MAX", 4)
    gate.free.clear()
    first = asyncio.create_task(keeper.ask(E1, 1, Find("under way")))
    await turns()
    waiting = [asyncio.create_task(keeper.ask(E1, 1, Find(f"h{n}"))) for n in range(4)]
    await turns()
    assert await keeper.ask(E1, 1, Find("one too many")) is None
    keeper.tell(E1, 1, Find("told in vain"))
    assert keeper.passed_by == 1
    gate.free.set()
    assert all(isinstance(each, Found) for each in await asyncio.gather(first, *waiting))
    assert gate.sizes == [1, 4]


async def test_a_snapshot_may_take_longer_than_a_verdict(keeper, gate):
    gate.free.clear()
    asyncio.get_running_loop().call_later(2 * TIMEOUT_SECONDS, gate.free.set)
    assert await keeper.snapshot(E1, patience=50) is not None
    assert keeper.state == "up"


async def test_a_snapshot_on_the_way_of_an_ask_may_not(keeper, gate):
    gate.free.clear()
    assert await keeper.snapshot(E1) is None
    assert keeper.state != "up"
    gate.free.set()


async def test_a_snapshot_that_fails_is_none_and_is_noticed(keeper, gate):
    gate.trouble = down()
    assert await keeper.snapshot(E1) is None
    assert (keeper.state, keeper.failures) == ("connection refused", 1)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_gate_that_fails_in_a_way_that_nobody_foresaw_costs_its_verdict_too(keeper, gate):
    gate.trouble = lambda: ValueError("a bug in an adapter")
    ask = asyncio.create_task(keeper.ask(E1, 1, Find("h")))
    done, _ = await asyncio.wait([ask], timeout=4 * TIMEOUT_SECONDS)
    try:
        assert done
        assert await ask is None
    finally:
        ask.cancel()
