"""Limits: how much one caller may ask, alone and with all processes together."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from redis import Redis as Client

from holdfast.api import holds
from holdfast.api.callers import Caller
from holdfast.api.calls import REPLAYED, Call, Reply
from holdfast.api.keys import Key, Role
from holdfast.api.limits import Limits, Verdict
from holdfast.api.problems import Problem
from holdfast.api.service import Service
from holdfast.domain.outcomes import Answer
from holdfast.engine import Holdfast
from holdfast.errors import CommitUnknown, GateDown, Overloaded
from holdfast.gates.buckets import Buckets, Reservations
from holdfast.gates.grants import CLOSED_SECONDS, LAPSE_SECONDS, Grants, Line
from holdfast.gates.memory import MemoryGate
from holdfast.gates.redis import RedisGate
from holdfast.ports import Gate
from holdfast.settings import Settings
from holdfast.stores.memory import MemoryStore
from tests.contract.helpers import E1, SOFT_MS, on_sale
from tests.gates.conftest import found
from tests.servers import Redis, running

HERE, THERE = "192.0.2.1", "192.0.2.2"
ROUNDING = 1e-3


class Watch:
    """A monotonic clock, moved by hand."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now

    def millis(self) -> int:
        return round(1000 * self.now)


class Common(MemoryGate):
    """Stands for a gate that processes share. Counts what it is asked; fails and waits as told."""

    shared = True

    def __init__(self, watch: Watch) -> None:
        super().__init__(watch.millis)
        self.takes: Counter[str] = Counter()
        self.trouble: Callable[[], Exception] | None = None
        self.asked = asyncio.Event()
        self.answering = asyncio.Event()
        self.answering.set()

    async def take(self, name: str, rate: float, burst: float, want: int) -> tuple[int, float]:
        self.takes[name] += 1
        self.asked.set()
        await self._answer()
        return await super().take(name, rate, burst, want)

    async def reserve_units(
        self, name: str, hold: str, units: int, most: int, keep_ms: int
    ) -> bool:
        await self._answer()
        return await super().reserve_units(name, hold, units, most, keep_ms)

    async def free_units(self, hold: str) -> None:
        await self._answer()
        await super().free_units(hold)

    async def _answer(self) -> None:
        await self.answering.wait()
        if self.trouble is not None:
            raise self.trouble()


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def common(watch) -> Common:
    return Common(watch)


@pytest.fixture(params=["common", pytest.param("redis", marks=pytest.mark.service)])
async def shared(request, watch) -> AsyncIterator[Gate]:
    """On the test's clock, whichever it is."""
    gate: Gate = Common(watch)
    if request.param == "redis":
        server = found(lambda: running(Redis))
        with Client(port=server.port) as client:
            client.flushall()
        gate = RedisGate(server.url, 2_000, watch.millis)
    await gate.open()
    yield gate
    await gate.close()


def caller(role: Role = Role.PUBLIC, buyer: str | None = None, rate: float | None = None) -> Caller:
    return Caller(Key("k1", role, "", rate=rate), buyer)


ANN = caller(buyer="ann")


def made(watch: Watch, gate: Gate | None = None, **chosen: Any) -> Limits:
    """Ten at once and one in a second, unless the test says otherwise."""
    values = {"buyer_rate": 1.0, "buyer_burst": 10, "gate_timeout_ms": 2_000, **chosen}
    return Limits(Settings(**values), gate, watch)


async def admitted(limits: Limits, who: Caller, asks: int, address: str = HERE) -> int:
    """Of so many asks that come together."""
    verdicts = await asyncio.gather(*(limits.admit(who, address) for _ in range(asks)))
    return sum(not verdict.retry_after for verdict in verdicts)


STEPS = st.lists(st.tuples(st.floats(0, 3), st.integers(1, 30)), min_size=1, max_size=40)


def over(times: list[tuple[float, int]], rate: float, burst: float) -> list[object]:
    """Windows in which more was admitted than a bucket has and gains."""
    return [
        (start, end, total)
        for first, (start, _) in enumerate(times)
        for last, (end, _) in enumerate(times[first:], first)
        if (total := sum(count for _, count in times[first : last + 1]))
        > burst + rate * (end - start) + ROUNDING
    ]


@given(STEPS, st.floats(0.1, 50), st.integers(1, 50))
def test_a_bucket_never_gives_more_than_it_has_and_gains(steps, rate, burst):
    buckets, now, times = Buckets(), 1_000.0, []
    for passed, want in steps:
        now += passed
        granted, left = buckets.take("a", rate, burst, want, now)
        assert 0 <= granted <= want
        assert -ROUNDING <= left <= burst
        assert granted == want or left < 1, "it gives what it has"
        times.append((now, granted))
    assert over(times, rate, burst) == []


def test_a_bucket_that_gave_too_much_would_be_noticed():
    assert over([(0.0, 5), (1.0, 6)], rate=1.0, burst=5) != []


@given(STEPS, st.floats(0.1, 50), st.integers(1, 50))
def test_whoever_waits_as_long_as_he_was_told_is_admitted(steps, rate, burst):
    buckets, now = Buckets(), 1_000.0
    for passed, want in steps:
        now += passed
        granted, left = buckets.take("a", rate, burst, want, now)
        if granted == 0:
            now += (1 - left) / rate
            assert buckets.take("a", rate, burst, 1, now)[0] == 1


def test_a_clock_that_is_set_back_keeps_nobody_waiting_for_long():
    buckets = Buckets()
    assert buckets.take("a", 1.0, 5, 5, now=1_000_000.0) == (5, 0.0)
    assert buckets.take("a", 1.0, 5, 1, now=1_000.0) == (0, 0.0)
    assert buckets.take("a", 1.0, 5, 5, now=1_005.0) == (5, 0.0)


def test_full_buckets_are_forgotten_first_and_the_crowd_needs_no_room():
    buckets = Buckets(most=100)
    assert buckets.take("busy", 1.0, 50, 50, now=0.0) == (50, 0.0)
    for number in range(10_000):
        buckets.take(f"b{number}", 1.0, 50, 1, now=number / 1_000)
        assert len(buckets) <= 100
    granted, left = buckets.take("busy", 1.0, 50, 50, now=10.0)
    assert granted == 10, "though all others came later"
    assert left == pytest.approx(0.0)


async def test_a_buyer_is_limited_wherever_he_is_and_others_are_not(watch):
    limits = made(watch)
    assert await admitted(limits, ANN, 6, HERE) == 6
    assert await admitted(limits, ANN, 6, THERE) == 4
    assert await admitted(limits, caller(buyer="bob"), 6, HERE) == 6
    watch.now += 2.0
    assert await admitted(limits, ANN, 6, HERE) == 2


async def test_an_address_is_limited_whoever_calls_from_it(watch):
    limits = made(watch, address_rate=2.0, address_burst=5)
    assert await admitted(limits, ANN, 3) == 3
    assert await admitted(limits, caller(buyer="bob"), 3) == 2
    assert await admitted(limits, caller(), 1) == 0, "without a buyer"
    assert await admitted(limits, caller(buyer="bob"), 3, THERE) == 3
    watch.now += 0.5
    assert await admitted(limits, caller(), 3) == 1


async def test_what_one_limit_refuses_costs_nothing_of_the_others(watch):
    limits = made(watch, address_rate=1.0, address_burst=12)
    assert await admitted(limits, ANN, 100) == 10
    assert await admitted(limits, caller(), 100) == 2


async def test_sellers_and_admins_are_exempt_unless_their_key_has_a_rate(watch):
    limits = made(watch, address_burst=1)
    for role in (Role.SELLER, Role.ADMIN):
        assert not caller(role).limited
        assert caller(role, rate=1.0).limited
        assert await limits.admit(caller(role), HERE) == Verdict(0.0, {})
        assert await admitted(limits, caller(role), 100) == 100
    assert caller().limited
    assert ANN.limited


async def test_a_keys_rate_is_for_all_who_have_it_and_five_seconds_of_it_may_come_at_once(watch):
    limits = made(watch)
    assert await admitted(limits, caller(Role.SELLER, rate=3.0), 20, HERE) == 15
    assert await admitted(limits, caller(Role.SELLER, rate=3.0), 20, THERE) == 0
    watch.now += 1.0
    assert await admitted(limits, caller(Role.SELLER, rate=3.0), 20) == 3
    public = caller(buyer="bob", rate=0.1)
    limits = made(watch)
    assert await admitted(limits, public, 5) == 1, "one at least"
    assert (await limits.admit(public, HERE)).retry_after == pytest.approx(10.0)


@pytest.mark.parametrize("rate", [0.0, -1.0, 1e-9, 1e12])
async def test_an_odd_rate_of_a_key_is_no_error(watch, rate):
    limits = made(watch)
    assert await admitted(limits, caller(Role.SELLER, rate=rate), 2) in (1, 2)


async def test_the_headers_name_every_limit_and_the_one_nearest_to_its_end(watch):
    limits = made(watch, buyer_rate=20.0, buyer_burst=100, address_rate=1.0, address_burst=60)
    policy = '"buyer";q=100;w=5, "address";q=60;w=60'
    near = {"RateLimit": '"address";r=59;t=1', "RateLimit-Policy": policy}
    assert await limits.admit(ANN, HERE) == Verdict(0.0, near)
    await admitted(limits, ANN, 57, THERE)
    near = {"RateLimit": '"buyer";r=41;t=3', "RateLimit-Policy": policy}
    assert await limits.admit(ANN, HERE) == Verdict(0.0, near)
    keyed = await limits.admit(caller(Role.SELLER, rate=2.0), HERE)
    assert keyed.headers == {"RateLimit": '"key";r=9;t=1', "RateLimit-Policy": '"key";q=10;w=5'}


async def test_a_refusal_says_when_to_come_again_and_then_he_is_admitted(watch):
    limits = made(watch, buyer_rate=0.5, buyer_burst=2, address_rate=1.0, address_burst=2)
    assert await admitted(limits, ANN, 2) == 2
    watch.now += 0.5
    refused = await limits.admit(ANN, HERE)
    assert refused.retry_after == pytest.approx(1.5)
    assert refused.headers["RateLimit"] == '"buyer";r=0;t=4'
    watch.now += refused.retry_after
    assert (await limits.admit(ANN, HERE)).retry_after == 0.0
    assert (await limits.admit(ANN, HERE)).retry_after == pytest.approx(2.0)


async def test_units_of_an_address_are_limited_until_freed_or_lapsed(watch):
    limits = made(watch, address_units_max=10)
    assert await limits.reserve(HERE, "h1", 6, 60.0)
    assert not await limits.reserve(HERE, "h2", 5, 60.0)
    assert await limits.reserve(THERE, "h2", 5, 60.0), "another address"
    assert await limits.reserve(HERE, "h3", 4, 30.0)
    await limits.free("h1")
    await limits.free("h1")
    await limits.free("unknown")
    assert await limits.reserve(HERE, "h4", 6, 60.0)
    assert not await limits.reserve(HERE, "h5", 4, 60.0)
    watch.now += 30.0
    assert await limits.reserve(HERE, "h5", 4, 60.0)
    assert not await limits.reserve(HERE, "h6", 1, float("inf"))


async def test_the_same_hold_again_replaces_what_it_had(watch):
    limits = made(watch, address_units_max=10)
    assert await limits.reserve(HERE, "h1", 6, 60.0)
    assert await limits.reserve(HERE, "h1", 10, 60.0)
    assert not await limits.reserve(HERE, "h1", 11, 60.0)
    assert not await limits.reserve(HERE, "h2", 1, 60.0), "what it had stayed"
    assert await limits.reserve(THERE, "h1", 10, 90.0), "it moved"
    assert await limits.reserve(HERE, "h2", 10, 60.0)
    watch.now += 60.0
    assert not await limits.reserve(THERE, "h3", 1, 60.0), "the first deadline is of no account"


def test_reservations_need_no_more_room_than_there_are_holds():
    reserved = Reservations(most=100)
    for number in range(5_000):
        assert reserved.reserve("a", "again", 1, 1, 60.0, number / 1_000)
    assert len(reserved._due) < 2_000
    for number in range(1_000):
        assert reserved.reserve("a", f"h{number}", 1, 1_000, 60.0 + number, 10.0)
    assert len(reserved) == 100


async def test_with_a_shared_gate_processes_together_admit_what_one_may(watch, shared):
    processes = [made(watch, shared, buyer_burst=100) for _ in range(2)]
    counts = await asyncio.gather(*(admitted(each, ANN, 300) for each in processes))
    assert sum(counts) == 100
    watch.now += LAPSE_SECONDS + 3.0
    counts = [await admitted(each, ANN, 10) for each in processes]
    assert sum(counts) == 4


async def test_without_the_gate_two_processes_admit_twice_as_much(watch):
    processes = [made(watch, None, buyer_burst=100) for _ in range(2)]
    counts = await asyncio.gather(*(admitted(each, ANN, 300) for each in processes))
    assert sum(counts) == 200


async def test_units_are_counted_by_all_processes_together(watch, shared):
    one, two = (made(watch, shared, address_units_max=10) for _ in range(2))
    assert await one.reserve(HERE, "h1", 6, 60.0)
    assert not await two.reserve(HERE, "h2", 5, 60.0)
    assert await two.reserve(HERE, "h1", 10, 30.0)
    assert not await one.reserve(HERE, "h2", 1, 60.0)
    await one.free("h1")
    assert await one.reserve(HERE, "h2", 10, 30.0)
    watch.now += 30.0
    assert await two.reserve(HERE, "h3", 10, 30.0)


async def test_a_gate_of_one_process_is_not_asked(watch, common, monkeypatch):
    monkeypatch.setattr(Common, "shared", False)
    limits = made(watch, common)
    assert await admitted(limits, ANN, 20) == 10
    assert not common.takes


CROWD = st.lists(st.tuples(st.floats(0, 1.5), st.integers(0, 2), st.integers(1, 12)), max_size=40)


@settings(deadline=None)
@given(CROWD, st.floats(0.5, 20), st.integers(1, 40))
def test_in_any_time_all_admit_what_a_bucket_gives_in_that_time_and_a_second(crowd, rate, burst):
    async def run() -> list[tuple[float, int]]:
        watch = Watch()
        common = Common(watch)
        processes = [
            made(watch, common, buyer_rate=rate, buyer_burst=burst, address_burst=1_000_000)
            for _ in range(3)
        ]
        times = []
        for passed, process, asks in crowd:
            watch.now += passed
            times.append((watch.now, await admitted(processes[process], ANN, asks)))
        return times

    times = asyncio.run(run())
    assert over(times, rate, burst + rate * LAPSE_SECONDS) == []
    assert sum(count for _, count in times) <= burst + rate * sum(p for p, _, _ in crowd) + 0.1


async def test_whoever_asks_for_half_of_his_rate_is_never_refused(watch, common):
    """Though what lapses is charged to him."""
    processes = [made(watch, common, buyer_rate=10.0, buyer_burst=200) for _ in range(2)]
    for second in range(200):
        for part in range(5):
            watch.now += 0.2
            assert await admitted(processes[(second + part) % 2], ANN, 1) == 1


async def test_a_lone_caller_of_a_wide_limit_does_not_use_it_up(watch, common):
    limits = made(watch, common, buyer_rate=1.0, address_rate=1.0, address_burst=20_000)
    for _ in range(100):
        watch.now += LAPSE_SECONDS + 0.1
        verdict = await limits.admit(ANN, HERE)
    assert verdict.headers["RateLimit"] == '"buyer";r=9;t=1'
    granted, left = await common.take(f"address:{HERE}", 1.0, 20_000, 1)
    assert granted == 1
    assert left == pytest.approx(19_998.0, abs=1.0)


async def test_what_a_process_has_in_hand_lapses(watch, common):
    one, two = (made(watch, common, buyer_burst=100) for _ in range(2))
    for _ in range(16):
        assert await admitted(one, ANN, 1) == 1
    has_given = 100 - (await common.take("buyer:ann", 1.0, 100, 0))[1]
    assert has_given > 16, "some are in hand"
    watch.now += 100.0
    assert await admitted(two, ANN, 200) == 100
    assert await admitted(one, ANN, 200) == 0


async def test_what_comes_together_shares_a_refill(watch, common):
    limits = made(watch, common, buyer_burst=100)
    assert await admitted(limits, ANN, 60) == 60
    assert common.takes == {"buyer:ann": 1, f"address:{HERE}": 1}


async def test_one_who_asks_steadily_waits_for_the_gate_seldom(watch, common):
    limits = made(watch, common, buyer_rate=1_000.0, buyer_burst=1_000)
    for _ in range(1_000):
        watch.now += 0.001
        assert await admitted(limits, ANN, 1) == 1
    assert common.takes["buyer:ann"] < 20


async def test_a_refusal_is_repeated_from_memory_until_a_token_is_back(watch, common):
    limits = made(watch, common, buyer_rate=2.0)
    assert await admitted(limits, ANN, 10) == 10
    calls = common.takes["buyer:ann"]
    watch.now += 0.1
    assert await admitted(limits, ANN, 100) == 0
    verdict = await limits.admit(ANN, HERE)
    assert verdict.retry_after == pytest.approx(0.4)
    assert verdict.headers["RateLimit"] == '"buyer";r=0;t=5'
    assert common.takes["buyer:ann"] == calls
    watch.now += verdict.retry_after
    assert await admitted(limits, ANN, 100) == 1


async def test_one_who_goes_away_does_not_take_the_others_refill_with_him(watch, common):
    limits = made(watch, common)
    common.answering.clear()
    gone = asyncio.ensure_future(limits.admit(ANN, HERE))
    others = asyncio.ensure_future(admitted(limits, ANN, 5))
    await common.asked.wait()
    gone.cancel()
    common.answering.set()
    assert await others == 5
    assert gone.cancelled()


async def test_the_crowd_needs_no_room_with_a_gate_either(watch, common):
    grants = Grants(Line(common, 1.0, watch), watch, most=100)
    for number in range(1_000):
        watch.now += 0.001
        assert await grants.spend([(f"b{number}", 1.0, 10)]) == (True, [9.0])
        assert len(grants) <= 100


@pytest.mark.parametrize("trouble", [lambda: GateDown("told to"), lambda: KeyError("odd")])
async def test_a_gate_that_fails_is_done_without_and_left_alone_for_a_second(
    watch, common, trouble
):
    limits = made(watch, common, address_units_max=10)
    common.trouble = trouble
    assert await admitted(limits, ANN, 20) == 10, "counted here"
    calls = common.takes.total()
    assert await admitted(limits, caller(buyer="bob"), 20) == 10
    assert await limits.reserve(HERE, "h1", 6, 60.0)
    assert not await limits.reserve(HERE, "h2", 6, 60.0)
    await limits.free("h1")
    assert await limits.reserve(HERE, "h2", 6, 60.0)
    assert common.takes.total() == calls
    watch.now += CLOSED_SECONDS
    await admitted(limits, ANN, 20)
    assert common.takes.total() == calls + 1, "one tries"
    common.trouble = None
    watch.now += CLOSED_SECONDS
    await limits.admit(caller(buyer="eve"), HERE)
    assert await admitted(limits, caller(buyer="dan"), 20) == 10
    assert common.takes["buyer:dan"] >= 1, "it is asked again"


async def test_a_gate_that_does_not_answer_holds_nobody_up_for_longer_than_its_timeout(
    watch, common
):
    limits = made(watch, common, gate_timeout_ms=5, address_units_max=10)
    common.answering.clear()
    async with asyncio.timeout(5):
        assert await admitted(limits, ANN, 20) == 10
        assert await limits.reserve(HERE, "h1", 6, 60.0)
        await limits.free("h1")
    calls = common.takes.total()
    assert await admitted(limits, caller(buyer="bob"), 20) == 10
    assert common.takes.total() == calls


@pytest.mark.service
async def test_a_redis_that_is_not_there_is_done_without(watch):
    gate = RedisGate("redis://127.0.0.1:1", 100)
    await gate.open()
    limits = made(watch, gate, gate_timeout_ms=100, address_units_max=10)
    assert await admitted(limits, ANN, 20) == 10
    assert await limits.reserve(HERE, "h1", 10, 60.0)
    assert not await limits.reserve(HERE, "h2", 1, 60.0)
    await limits.free("h1")
    await gate.close()


# Units of an address, as the service counts them

UNITS_MAX = 4


class Desk:
    """A service in this process on the test's clock, which lets an address hold four units."""

    def __init__(self, service: Service) -> None:
        self.service = service

    async def ask(
        self, units: int = 4, *, id: str | None = None, key: str | None = None, buyer: str = "ann"
    ) -> Reply:
        body: dict[str, Any] = {"pools": {"floor": units}} | ({"id": id} if id else {})
        headers = {b"idempotency-key": key.encode()} if key else {}
        return await self._call(holds.place, {"event": E1}, body, buyer, headers)

    async def of_hold(self, handle: Any, placed: Reply) -> Reply:
        hold = msgspec.json.decode(placed.body)
        headers = {b"hold-token": hold["token"].encode()}
        return await self._call(handle, {"hold": hold["id"]}, {}, hold["buyer"], headers)

    async def _call(
        self, handle: Any, params: dict[str, str], body: Any, buyer: str, headers: Any
    ) -> Reply:
        call = Call(caller(buyer=buyer), params, headers, b"", HERE, "r1")
        call.body = msgspec.json.encode(body)
        try:
            answer: Reply = await handle(self.service, call)
        except Problem as problem:
            return Reply(problem.status, problem.body())
        return answer

    async def full(self) -> bool:
        """Whether somebody else could not hold one unit more."""
        answer = await self.ask(1, buyer="eve")
        if answer.status == 201:
            await self.of_hold(holds.release, answer)
        return said(answer) == (429, "address_units")


def said(answer: Reply) -> tuple[int, str]:
    return answer.status, msgspec.json.decode(answer.body).get("reason", "")


@pytest.fixture(params=["authority", "two-layer", "gate"])
async def desk(request, watch) -> AsyncIterator[Desk]:
    """With a gate that is this process's own: the units are counted here."""
    chosen = Settings(store="memory://", policy=request.param, address_units_max=UNITS_MAX)
    gate = None if request.param == "authority" else MemoryGate(watch.millis)
    store = MemoryStore(watch.millis)
    shop = Holdfast(store, chosen, gate=gate, upkeep=False, clock=watch.millis)
    async with Service(shop) as service:
        service.limits = Limits(chosen, None, watch)
        await on_sale(shop)
        yield Desk(service)


@pytest.mark.parametrize("name", [{"id": "mine"}, {"key": "k"}, {"id": "mine", "key": "k"}])
async def test_a_repetition_gets_its_first_answer_and_counts_once(desk, name):
    first = await desk.ask(**name)
    for _ in range(3):
        again = await desk.ask(**name)
        assert (again.status, again.body, again.headers) == (201, first.body, REPLAYED)
        assert await desk.full()
    await desk.of_hold(holds.release, first)
    assert (await desk.ask(**name)).body == first.body
    assert not await desk.full(), "it is the answer that comes again, not the hold"


@pytest.mark.parametrize("units", [2, UNITS_MAX])
@pytest.mark.parametrize("name", [{"id": "mine"}, {"key": "k"}])
async def test_another_ask_under_the_same_name_frees_nothing(desk, name, units):
    await desk.ask(units, **name)
    for other in (1, 3):
        assert said(await desk.ask(other, **name)) == (422, "idempotency_mismatch")
    left = UNITS_MAX - units
    assert said(await desk.ask(left + 1, buyer="eve")) == (429, "address_units")
    if left:
        assert (await desk.ask(left, buyer="eve")).status == 201


async def test_units_count_for_as_long_as_they_are_held(desk, watch):
    placed = await desk.ask()
    assert (await desk.of_hold(holds.extend, placed)).status == 200
    watch.now += SOFT_MS / 1000 + 1
    assert await desk.full(), "extended"
    assert (await desk.of_hold(holds.pay, placed)).status == 200
    watch.now += SOFT_MS / 1000
    assert await desk.full(), "paying, until the hard deadline"
    watch.now += 3_600
    assert not await desk.full()


@pytest.mark.parametrize("name", [{}, {"id": "mine"}, {"key": "k"}])
async def test_an_ask_that_fails_does_not_count(desk, monkeypatch, name):
    submit = desk.service.shop.submit

    async def fail(command: Any) -> Answer:
        raise Overloaded(1.0)

    monkeypatch.setattr(desk.service.shop, "submit", fail)
    with pytest.raises(Overloaded):
        await desk.ask(**name)
    monkeypatch.setattr(desk.service.shop, "submit", submit)
    assert not await desk.full()
    assert (await desk.ask(**name)).status == 201


async def test_units_of_which_nobody_knows_whether_they_are_held_count(desk, monkeypatch):
    submit = desk.service.shop.submit

    async def lose(command: Any) -> Answer:
        await submit(command)
        raise CommitUnknown("the answer was lost")

    monkeypatch.setattr(desk.service.shop, "submit", lose)
    with pytest.raises(CommitUnknown):
        await desk.ask(key="k")
    monkeypatch.setattr(desk.service.shop, "submit", submit)
    assert await desk.full()
    assert (await desk.ask(key="k")).headers == REPLAYED
    desk.service.limits._clock.now += holds.RESERVED_SECONDS + 1
    assert await desk.full(), "now it is known that they are"


async def test_a_refused_ask_does_not_count(desk):
    for name in ({}, {"id": "mine"}, {"key": "k"}):
        answer = await desk.ask(4, **name, buyer="b" * 200)
        assert answer.status == 422
    await desk.service.shop.pause_event(E1)
    for name in ({}, {"id": "mine"}, {"key": "k"}):
        assert said(await desk.ask(4, **name)) == (409, "not_on_sale")
    await desk.service.shop.open_event(E1)
    assert (await desk.ask(UNITS_MAX)).status == 201
