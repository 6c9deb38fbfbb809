"""The refusal cache: what was lost a moment ago is refused again from memory, and never for long
when that is no longer true."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast import Holdfast, Placed, Reason, Refused, refusals
from holdfast.domain.commands import Command
from holdfast.domain.facts import Entry
from holdfast.domain.gating import Op, Verdict
from holdfast.domain.model import Ask
from holdfast.domain.outcomes import Answer, Holder
from holdfast.errors import StoreUnavailable
from holdfast.gates.memory import MemoryGate
from holdfast.ports import Committed, nothing
from holdfast.refusals import FRESH_MS, IDLE_MS, Refusals
from holdfast.settings import Settings
from holdfast.stores.memory import MemoryStore
from holdfast.upkeep.pruned import note_pruned
from tests.conftest import Clock, drift, make_sqlite
from tests.contract.helpers import E1, held, log_types, on_sale, reason, sold

SEAT = ["A-1-1"]


class CountedStore(MemoryStore):
    """Counts everything that goes in and out."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.calls = 0

    async def apply(
        self, commands: Sequence[Command], committed: Committed = nothing
    ) -> list[Answer]:
        self.calls += 1
        return await super().apply(commands, committed)

    async def summaries(self, event: str | None = None) -> Any:
        self.calls += 1
        return await super().summaries(event)

    async def log(self, event: str, after: int, limit: int) -> list[Entry]:
        self.calls += 1
        return await super().log(event, after, limit)


class CountedGate(MemoryGate):
    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.calls = 0

    async def run(self, event: str, version: int, ops: Sequence[Op]) -> list[Verdict]:
        self.calls += 1
        return await super().run(event, version, ops)


@asynccontextmanager
async def opened(store: Any, clock: Clock, **settings: Any) -> AsyncIterator[Holdfast]:
    """A shop whose cache reads the log when the test says so."""
    gate = CountedGate(clock) if settings.get("policy") else None
    chosen = Settings(store=store.url, gate="memory://" if gate else "none", **settings)
    async with Holdfast(store, chosen, gate=gate, upkeep=False, clock=clock) as shop:
        if shop.refusals is not None:
            await shop.refusals.stop()
        yield shop
        assert await drift(store) == []


@pytest.fixture
def store(clock) -> CountedStore:
    return CountedStore(clock)


@pytest.fixture
async def shop(store, clock) -> AsyncIterator[Holdfast]:
    async with opened(store, clock) as shop:
        await on_sale(shop)
        yield shop


async def look(shop: Holdfast) -> None:
    assert shop.refusals is not None
    await shop.refusals.read()


def refused(shop: Holdfast) -> int:
    """How often the cache has said no."""
    assert shop.refusals is not None
    return shop.refusals.refused


async def ask(shop: Holdfast, buyer: str = "bob", seats: Sequence[str] = SEAT, **more: Any) -> Any:
    return await shop.place_hold(E1, buyer=buyer, seats=list(seats), **more)


async def lose(shop: Holdfast, clock: Clock, seats: Sequence[str] = SEAT) -> None:
    """Bob asks for what another has, until it is remembered: the authority's no at once, a gate's
    after a look at the log has shown where it stands."""
    before = refused(shop)
    for _ in range(3):
        assert (await ask(shop, "bob", seats)).reason is Reason.TAKEN
        if refused(shop) > before:
            return
        await look(shop)
        clock.advance(1)
    raise AssertionError("it is not remembered")


async def passes(shop: Holdfast, *args: Any, **kwargs: Any) -> Any:
    """The answer, which must not be the cache's."""
    before = refused(shop)
    answer = await ask(shop, *args, **kwargs)
    assert refused(shop) == before
    return answer


async def test_a_seat_just_lost_is_refused_again_without_any_io(shop, store, clock):
    await held(shop, seats=SEAT)
    await lose(shop, clock)
    store.calls = 0
    for n in range(100):
        assert await ask(shop, f"buyer {n}") == Refused(Reason.TAKEN, seats=("A-1-1",))
    assert store.calls == 0


async def test_a_sale_of_a_seat_just_lost_is_refused_again_without_any_io(shop, store, clock):
    await held(shop, seats=SEAT)
    await lose(shop, clock)
    store.calls = 0
    no = Refused(Reason.TAKEN, seats=("A-1-1",))
    assert await shop.sell(E1, buyer="late", seats=SEAT) == no
    assert store.calls == 0
    # With an id, a payment or a key of the caller's it may be a repetition.
    for own in ({"payment": "p-1"}, {"order": "o-1"}, {"idempotency_key": "k-1"}):
        assert await shop.sell(E1, buyer="late", seats=SEAT, **own) == no
        assert store.calls
        store.calls = 0


async def test_a_sold_seat_is_refused_again_without_any_io(shop, store, clock):
    await sold(shop, seats=SEAT)
    await lose(shop, clock)
    store.calls = 0
    clock.advance(FRESH_MS - 1)
    assert await ask(shop) == Refused(Reason.TAKEN, seats=("A-1-1",))
    assert store.calls == 0


async def test_without_the_cache_every_ask_goes_to_the_authority(store, clock):
    async with opened(store, clock, refusal_cache=False) as shop:
        await on_sale(shop)
        assert shop.refusals is None
        await held(shop, seats=SEAT)
        store.calls = 0
        for _ in range(5):
            assert (await ask(shop)).reason is Reason.TAKEN
        assert store.calls == 5


@pytest.mark.parametrize("policy", ["two-layer", "gate"])
async def test_behind_a_gate_the_gate_is_not_asked_either(store, clock, policy):
    async with opened(store, clock, policy=policy) as shop:
        await on_sale(shop)
        await held(shop, seats=SEAT)
        await lose(shop, clock)
        gate = shop.gate
        assert isinstance(gate, CountedGate)
        gate.calls = store.calls = 0
        for n in range(20):
            assert (await ask(shop, f"buyer {n}")).reason is Reason.TAKEN
        assert (gate.calls, store.calls) == (0, 0)


@pytest.mark.parametrize("policy", ["two-layer", "gate"])
async def test_a_gates_word_is_repeated_for_a_second_at_most(store, clock, policy):
    """Not all that a gate keeps is on the log."""
    async with opened(store, clock, policy=policy) as shop:
        await on_sale(shop)
        await held(shop, seats=SEAT)
        await lose(shop, clock)
        clock.advance(refusals.FRESH_MS)
        await look(shop)
        assert (await passes(shop)).reason is Reason.TAKEN


async def test_the_holders_own_ask_goes_through(shop, clock):
    hold = await held(shop, "ann", seats=SEAT)
    await lose(shop, clock)
    assert await passes(shop, "ann") == Placed(hold)


async def test_a_holders_basket_goes_through_when_one_seat_of_it_is_his(shop, clock):
    await held(shop, "ann", seats=["A-1-1"])
    await held(shop, "cid", seats=["A-1-2"])
    await lose(shop, clock, ["A-1-1", "A-1-2"])
    assert (await passes(shop, "ann", ["A-1-1", "A-1-2"])).reason is Reason.TAKEN
    assert (await passes(shop, "cid", ["A-1-1", "A-1-2"])).reason is Reason.TAKEN


async def test_a_basket_with_a_seat_that_is_not_remembered_goes_through(shop, clock):
    await held(shop, seats=SEAT)
    await lose(shop, clock)
    assert (await passes(shop, seats=["A-1-1", "A-1-2"])) == Refused(Reason.TAKEN, seats=("A-1-1",))
    assert (await passes(shop, seats=["A-1-1", "Z-9"])).reason is Reason.UNKNOWN_UNIT


async def test_all_seats_of_a_basket_may_be_remembered_from_different_refusals(shop, clock):
    await held(shop, "ann", seats=["A-1-1"])
    await sold(shop, "cid", seats=["A-1-2"])
    await lose(shop, clock, ["A-1-1"])
    await passes(shop, "bob", ["A-1-2"])
    before = refused(shop)
    answer = await ask(shop, "bob", ["A-1-2", "A-1-1"])
    assert answer == Refused(Reason.TAKEN, seats=("A-1-2", "A-1-1"))
    assert refused(shop) == before + 1


@pytest.mark.parametrize("own", [{"id": "mine"}, {"idempotency_key": "mine"}])
async def test_the_callers_own_id_goes_through_for_it_may_be_a_repetition(shop, clock, own):
    first = await ask(shop, "bob", **own)
    await shop.release_hold(first.hold.id)
    await held(shop, "ann", seats=SEAT)
    await lose(shop, clock)
    assert await passes(shop, "bob", **own) == first


async def lose_pool(shop: Holdfast, clock: Clock) -> None:
    """As `lose`, of the pool."""
    before = refused(shop)
    assert (await ask_pool(shop)).reason is Reason.SOLD_OUT
    assert refused(shop) == before
    clock.advance(1)
    assert (await ask_pool(shop)).reason is Reason.SOLD_OUT
    assert refused(shop) == before + 1, "it is remembered"


async def ask_pool(shop: Holdfast, **more: Any) -> Any:
    return await shop.place_hold(E1, buyer="bob", **{"pools": {"floor": 1}, **more})


async def pool_passes(shop: Holdfast, **more: Any) -> Any:
    """The answer, which must not be the cache's."""
    before = refused(shop)
    answer = await ask_pool(shop, **more)
    assert refused(shop) == before
    return answer


async def all_sold(shop: Holdfast, pool: str = "floor") -> Any:
    seat_map = await shop.seats(E1)
    assert seat_map is not None
    left = next(each.available for each in seat_map.pools if each.id == pool)
    return await sold(shop, "cid", pools={pool: left})


async def test_a_pool_that_is_sold_out_is_refused_again_without_any_io(shop, store, clock):
    await all_sold(shop)
    await lose_pool(shop, clock)
    store.calls = 0
    no = Refused(Reason.SOLD_OUT, pools=("floor",), available=0)
    for _ in range(100):
        assert await ask_pool(shop) == no
        assert await shop.sell(E1, buyer="late", pools={"floor": 3}) == no
    assert store.calls == 0
    assert (await pool_passes(shop, id="mine")) == no
    assert (await pool_passes(shop, seats=SEAT)) == no, "the authority might name the seat"
    unknown = {"floor": 1, "cellar": 1}
    assert (await pool_passes(shop, pools=unknown)) == no
    assert (await pool_passes(shop, best=1)) == no


async def test_a_pool_that_is_only_held_is_not_remembered(shop, clock):
    """A hold may be over at any moment, and no fact says so before somebody asks."""
    seat_map = await shop.seats(E1)
    await held(shop, "ann", pools={"floor": seat_map.pools[0].available})
    for _ in range(4):
        assert (await pool_passes(shop)).reason is Reason.SOLD_OUT
        await look(shop)
        clock.advance(1)


async def test_a_pool_is_open_at_once_when_some_of_it_comes_back(shop, clock):
    order = await all_sold(shop)
    await lose_pool(shop, clock)
    await shop.cancel_order(order.id, pools={"floor": 2}, idempotency_key="two")
    assert isinstance(await ask_pool(shop), Placed)


async def test_a_pool_that_grows_is_open_at_once(shop, clock):
    await all_sold(shop)
    await lose_pool(shop, clock)
    await shop.add_capacity(E1, {"pools": [{"id": "floor", "capacity": 1}]})
    assert isinstance(await ask_pool(shop), Placed)


async def test_a_cancellation_elsewhere_opens_the_pool_through_the_log(two, clock):
    order = await all_sold(two.there)
    await lose_pool(two.here, clock)
    await two.there.cancel_order(order.id)
    before = refused(two.here)
    await ask_pool(two.here)
    assert refused(two.here) == before + 1, "nobody has told it yet"
    await look(two.here)
    assert isinstance(await ask_pool(two.here), Placed)


class HeldUp(CountedStore):
    """Applies nothing until it is let go."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.go = asyncio.Event()
        self.go.set()
        self.commands = 0

    async def apply(
        self, commands: Sequence[Command], committed: Committed = nothing
    ) -> list[Answer]:
        await self.go.wait()
        self.commands += len(commands)
        return await super().apply(commands, committed)


@pytest.mark.parametrize("cached", [True, False])
async def test_who_waits_already_is_not_asked_for_either(clock, cached):
    """What was lost while they waited is known when their turn comes; without the cache, the
    control, each of them goes to the authority."""
    store = HeldUp(clock)
    async with opened(store, clock, refusal_cache=cached, batch_max=10) as shop:
        await on_sale(shop)
        await held(shop, "ann", seats=SEAT)
        if cached:
            await lose(shop, clock)
            assert shop.refusals is not None
            shop.refusals.forget(E1)
            clock.advance(1)
        store.go.clear()
        store.commands = 0
        crowd = [asyncio.create_task(ask(shop, f"buyer {n}")) for n in range(100)]
        own = asyncio.create_task(ask(shop, "ann"))
        named = asyncio.create_task(ask(shop, "bob", id="mine"))
        await asyncio.sleep(0)
        clock.advance(1)
        store.go.set()
        no = Refused(Reason.TAKEN, seats=("A-1-1",))
        assert await asyncio.gather(*crowd) == [no] * 100
        assert isinstance(await own, Placed), "his own"
        assert await named == no
        assert store.commands == (2 * 10 + 2 if cached else 102), "two batches, and those two"


@pytest.mark.parametrize("more", [{"best": 1}, {"pools": {"floor": 1}}])
async def test_asks_for_more_than_named_seats_go_through(shop, clock, more):
    await held(shop, seats=SEAT)
    await lose(shop, clock)
    assert (await passes(shop, **more)).reason is Reason.TAKEN


async def test_a_release_opens_it_at_once(shop, clock):
    hold = await held(shop, seats=SEAT)
    await lose(shop, clock)
    await shop.release_hold(hold.id)
    assert isinstance(await ask(shop), Placed)


async def test_a_cancellation_opens_it_at_once(shop, clock):
    order = await sold(shop, seats=SEAT)
    await lose(shop, clock)
    await shop.cancel_order(order.id)
    assert isinstance(await ask(shop), Placed)


async def test_the_deadline_ends_it_unannounced(shop, clock):
    await shop.change_event(E1, hold_seconds=20)
    hold = await held(shop, seats=SEAT)
    await lose(shop, clock)
    clock.move_to(hold.soft_ms - 1)
    await look(shop)
    before = refused(shop)
    assert (await ask(shop)).reason is Reason.TAKEN
    assert refused(shop) == before + 1, "for as long as the hold lasts"
    clock.advance(1)
    assert isinstance(await ask(shop), Placed)
    assert "hold.expired" in await log_types(shop)


async def test_it_counts_only_while_the_log_was_read_within_the_last_second(shop, clock):
    await held(shop, seats=SEAT)
    await lose(shop, clock)
    await look(shop)
    assert FRESH_MS == 1_000
    clock.advance(FRESH_MS)
    before = refused(shop)
    await ask(shop)
    assert refused(shop) == before + 1
    clock.advance(1)
    assert (await passes(shop)).reason is Reason.TAKEN
    await look(shop)
    before = refused(shop)
    await ask(shop)
    assert refused(shop) == before + 1, "it counts again"


async def test_a_look_at_the_log_is_as_old_as_its_beginning(shop, store, clock, monkeypatch):
    await held(shop, seats=SEAT)
    await lose(shop, clock)

    async def slow(event: str, after: int, limit: int) -> list[Entry]:
        page = await MemoryStore.log(store, event, after, limit)
        clock.advance(FRESH_MS + 1)
        return page

    assert shop.refusals is not None
    monkeypatch.setattr(shop.refusals, "_read_log", slow)
    await look(shop)
    await passes(shop)


async def test_a_clock_that_was_set_back_makes_no_entry_count_for_longer(shop, clock):
    await held(shop, seats=SEAT)
    await lose(shop, clock)
    clock.advance(-1_000)
    assert (await passes(shop)).reason is Reason.TAKEN


CHANGES: dict[str, Any] = {
    "paused": lambda shop: shop.pause_event(E1),
    "changed": lambda shop: shop.change_event(E1, hold_seconds=100),
    "enlarged": lambda shop: shop.add_capacity(E1, {"pools": [{"id": "floor", "capacity": 1}]}),
    "withdrawn": lambda shop: shop.withdraw(E1, seats=["A-2-5"]),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_of_the_event_opens_everything(shop, clock, change):
    await held(shop, seats=SEAT)
    await lose(shop, clock)
    await CHANGES[change](shop)
    paused = change == "paused"
    assert (await passes(shop)).reason is (Reason.NOT_ON_SALE if paused else Reason.TAKEN)


class Elsewhere:
    """Two processes on one SQLite file: what one does the other reads from the log."""

    def __init__(self, here: Holdfast, there: Holdfast) -> None:
        self.here, self.there = here, there


@pytest.fixture
async def two(tmp_path, clock) -> AsyncIterator[Elsewhere]:
    here, there = make_sqlite(tmp_path, clock), make_sqlite(tmp_path, clock)
    async with opened(here, clock) as first, opened(there, clock) as second:
        await on_sale(first)
        yield Elsewhere(first, second)


async def opens(two: Elsewhere, clock: Clock) -> None:
    """Refused until the log is read, and then no longer."""
    before = refused(two.here)
    await ask(two.here)
    assert refused(two.here) == before + 1, "nobody has told it yet"
    await look(two.here)
    assert isinstance(await ask(two.here), Placed)


async def test_a_release_elsewhere_opens_it_through_the_log(two, clock):
    hold = await held(two.there, seats=SEAT)
    await lose(two.here, clock)
    await two.there.release_hold(hold.id)
    await opens(two, clock)


async def test_a_cancellation_elsewhere_opens_it_through_the_log(two, clock):
    order = await sold(two.there, seats=SEAT)
    await lose(two.here, clock)
    await two.there.cancel_order(order.id)
    await opens(two, clock)


async def test_an_expiry_announced_elsewhere_opens_it_though_this_clock_is_slow(tmp_path, clock):
    """The authority's clock is the only one: by that of this process the hold is not over yet."""
    slow = Clock()
    here, there = make_sqlite(tmp_path, clock), make_sqlite(tmp_path, clock)
    async with opened(here, slow) as first, opened(there, clock) as second:
        await on_sale(first, hold_seconds=20)
        await held(second, seats=SEAT)
        await lose(first, slow)
        clock.advance(20_000)
        await second.expire(E1, 10)
        await opens(Elsewhere(first, second), clock)


async def test_a_release_that_was_pruned_before_it_was_read_opens_it(two, clock):
    hold = await held(two.there, seats=SEAT)
    await lose(two.here, clock)
    await two.there.release_hold(hold.id)
    await held(two.there, seats=["A-2-1"])
    await note_pruned(two.there.store, E1, 3)
    assert await two.there.store.prune(E1, 100, 100) == 3
    await opens(two, clock)


async def test_a_change_elsewhere_opens_it_through_the_log(two, clock):
    await held(two.there, seats=SEAT)
    await lose(two.here, clock)
    await two.there.pause_event(E1)
    await look(two.here)
    assert (await passes(two.here)).reason is Reason.NOT_ON_SALE


async def test_what_opens_other_seats_opens_only_those(two, clock):
    await held(two.there, "ann", seats=["A-1-1"])
    other = await held(two.there, "ann", seats=["A-1-2"])
    await lose(two.here, clock, ["A-1-1"])
    await passes(two.here, "bob", ["A-1-2"])
    await two.there.release_hold(other.id)
    await look(two.here)
    before = refused(two.here)
    await ask(two.here, "bob", ["A-1-1"])
    assert refused(two.here) == before + 1
    assert isinstance(await passes(two.here, "bob", ["A-1-2"]), Placed)


async def test_a_false_no_lasts_a_second_at_most_though_the_log_cannot_be_read(two, clock):
    hold = await held(two.there, seats=SEAT)
    await lose(two.here, clock)
    await two.there.release_hold(hold.id)
    assert (await ask(two.here)).reason is Reason.TAKEN
    clock.advance(FRESH_MS + 1)
    assert isinstance(await ask(two.here), Placed)


def answered(*seats: str, left_ms: int = 60_000) -> list[tuple[str, str | None, int]]:
    return [(seat, "ann", left_ms) for seat in seats]


class Log:
    """A log to be read, with nothing in it but what the test puts there."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.reads = 0

    async def heads(self) -> dict[str, int]:
        return {E1: len(self.entries)}

    async def read(self, event: str, after: int, limit: int) -> list[Entry]:
        self.reads += 1
        return self.entries[after : after + limit]

    def add(self, type: str, *seats: str) -> None:
        self.entries.append(Entry(E1, len(self.entries) + 1, type, 0, {"seats": list(seats)}))


@pytest.fixture
def diary() -> Log:
    return Log()


@pytest.fixture
def cache(diary, clock) -> Refusals:
    return Refusals(diary.heads, diary.read, clock)


async def watch(cache: Refusals, clock: Clock, *events: str) -> None:
    for event in events or (E1,):
        cache.remember(event, [], clock())
    await cache.read()
    clock.advance(1)


async def test_an_answer_that_was_asked_for_before_the_watch_began_is_not_kept(cache, clock):
    """Whatever opened the seat meanwhile may be on the log before the place where it is read."""
    asked = clock()
    clock.advance(5)
    cache.remember(E1, answered("A"), asked)
    assert cache.refuse(E1, "bob", Ask(seats=("A",))) is None
    cache.remember(E1, answered("A"), clock())
    assert cache.refuse(E1, "bob", Ask(seats=("A",))) is None, (
        "nobody knows yet where the log stands"
    )
    clock.advance(5)
    await cache.read()
    cache.remember(E1, answered("A"), asked)
    cache.remember(E1, answered("A"), clock())
    assert cache.refuse(E1, "bob", Ask(seats=("A",))) is None, (
        "asked before, or in the same millisecond"
    )
    clock.advance(1)
    cache.remember(E1, answered("A"), clock())
    assert cache.refuse(E1, "bob", Ask(seats=("A",))) is not None


async def test_an_answer_that_was_on_its_way_when_seats_were_opened_is_not_kept(cache, clock):
    await watch(cache, clock)
    asked = clock()
    clock.advance(1)
    cache.forget(E1)
    cache.remember(E1, answered("A"), asked)
    assert cache.refuse(E1, "bob", Ask(seats=("A",))) is None


@pytest.mark.parametrize("opening", ["hold.released", "hold.expired", "order.cancelled"])
async def test_an_answer_that_was_on_its_way_when_the_log_was_read_is_not_kept(
    cache, diary, clock, opening
):
    await watch(cache, clock)
    asked = clock()
    clock.advance(1)
    diary.add(opening, "A")
    await cache.read()
    cache.remember(E1, answered("A"), asked)
    assert cache.refuse(E1, "bob", Ask(seats=("A",))) is None


@pytest.mark.parametrize("opening", ["hold.released", "hold.expired", "order.cancelled"])
async def test_facts_that_free_seats_open_those(cache, diary, clock, opening):
    await watch(cache, clock)
    cache.remember(E1, answered("A", "B"), clock())
    diary.add(opening, "A", "Z")
    await cache.read()
    assert cache.refuse(E1, "bob", Ask(seats=("A",))) is None
    assert cache.refuse(E1, "bob", Ask(seats=("B",))) is not None


async def test_a_change_of_the_event_on_the_log_opens_all_seats(cache, diary, clock):
    await watch(cache, clock)
    cache.remember(E1, answered("A", "B"), clock())
    diary.add("event.changed")
    await cache.read()
    assert [seat for seat in "AB" if cache.refuse(E1, "bob", Ask(seats=(seat,)))] == []


@pytest.mark.parametrize("type", ["hold.placed", "hold.extended", "hold.paying", "order.confirmed"])
async def test_facts_that_free_nothing_open_nothing(cache, diary, clock, type):
    await watch(cache, clock)
    cache.remember(E1, answered("A"), clock())
    diary.add(type, "A")
    await cache.read()
    assert cache.refuse(E1, "bob", Ask(seats=("A",))) is not None


async def test_a_long_log_is_read_to_its_end(cache, diary, clock, monkeypatch):
    monkeypatch.setattr(refusals, "PAGE", 3)
    await watch(cache, clock)
    cache.remember(E1, answered("A"), clock())
    for _ in range(7):
        diary.add("hold.placed", "B")
    diary.add("hold.released", "A")
    await cache.read()
    assert cache.refuse(E1, "bob", Ask(seats=("A",))) is None


async def test_seats_have_a_limit(cache, diary, clock, monkeypatch):
    monkeypatch.setattr(refusals, "ENTRIES_MAX", 3)
    await watch(cache, clock)
    cache.remember(E1, answered("A", "B", "C", "D"), clock())
    known = [seat for seat in "ABCD" if cache.refuse(E1, "bob", Ask(seats=(seat,)))]
    assert known == ["A", "B", "C"]
    cache.remember(E1, answered("A"), clock())
    diary.add("hold.released", "B", "never heard of")
    await cache.read()
    clock.advance(1)
    cache.remember(E1, answered("D", "E"), clock())
    known = [seat for seat in "ABCDE" if cache.refuse(E1, "bob", Ask(seats=(seat,)))]
    assert known == ["A", "C", "D"], "what was opened made room for one"
    cache.forget(E1)
    clock.advance(1)
    cache.remember(E1, answered(*"VWXYZ"), clock())
    assert sum(cache.refuse(E1, "bob", Ask(seats=(seat,))) is not None for seat in "VWXYZ") == 3


async def test_the_limit_is_for_all_events_together(cache, clock, monkeypatch):
    monkeypatch.setattr(refusals, "ENTRIES_MAX", 3)
    await watch(cache, clock, "e1", "e2")
    cache.remember("e1", answered("A", "B"), clock())
    cache.remember("e2", answered("A", "B"), clock())
    assert [seat for seat in "AB" if cache.refuse("e2", "bob", Ask(seats=(seat,)))] == ["A"]


async def test_events_have_a_limit(cache, clock, monkeypatch):
    monkeypatch.setattr(refusals, "EVENTS_MAX", 2)
    await watch(cache, clock, "e1", "e2", "e3")
    for event in ("e1", "e2", "e3"):
        cache.remember(event, answered("A"), clock())
    known = [event for event in ("e1", "e2", "e3") if cache.refuse(event, "bob", Ask(seats=("A",)))]
    assert known == ["e1", "e2"]


async def test_an_event_that_nobody_is_refused_at_is_watched_no_longer(
    cache, diary, clock, monkeypatch
):
    monkeypatch.setattr(refusals, "EVENTS_MAX", 1)
    await watch(cache, clock, E1)
    cache.remember(E1, answered("A"), clock())
    clock.advance(IDLE_MS)
    await cache.read()
    diary.reads = 0
    clock.advance(1)
    await cache.read()
    await cache.read()
    assert diary.reads == 0
    await watch(cache, clock, "e2")
    cache.remember("e2", answered("A"), clock())
    assert cache.refuse("e2", "bob", Ask(seats=("A",))) is not None, "there is room for another"


async def test_an_event_that_somebody_is_refused_at_stays_watched(cache, diary, clock):
    await watch(cache, clock)
    cache.remember(E1, answered("A", left_ms=10 * IDLE_MS), clock())
    for _ in range(3):
        clock.advance(IDLE_MS - 1)
        await cache.read()
        assert cache.refuse(E1, "bob", Ask(seats=("A",))) is not None


async def test_what_a_commit_takes_does_not_lengthen_a_deadline(cache, clock):
    await watch(cache, clock)
    asked_ms = clock()
    clock.advance(5_000)
    await cache.read()
    cache.remember(E1, answered("A", left_ms=100), asked_ms)
    assert cache.refuse(E1, "bob", Ask(seats=("A",))) is None, "the hold was over 4.9 s ago"


async def test_nothing_asked_is_nothing_refused(cache, clock):
    await watch(cache, clock)
    assert cache.refuse(E1, "bob", Ask()) is None
    assert cache.refuse("unheard", "bob", Ask(seats=("A",))) is None


async def test_the_log_is_read_by_itself(store, clock):
    """In earnest nobody calls read."""
    chosen = Settings(store=store.url)
    async with Holdfast(store, chosen, upkeep=False, clock=clock) as shop:
        await on_sale(shop)
        await held(shop, seats=SEAT)
        cache = shop.refusals
        assert cache is not None
        assert await reason(ask(shop)) is Reason.TAKEN
        await shop.release_hold((await shop.store.log(E1, 0, 9))[-1].data["hold"])
        watched = cache._events[E1]
        head = (await shop.store.heads())[E1]
        while watched.cursor != head:
            await store.wake(0.001)


def lost(seat: str, as_of: int | None, left_ms: int = 60_000) -> Answer:
    """The authority's no."""
    holders = (Holder(seat, "ann", left_ms),)
    return Answer(Refused(Reason.TAKEN, seats=(seat,)), holders=holders, as_of=as_of)


def knows(cache: Refusals, seat: str) -> bool:
    return cache.refuse(E1, "bob", Ask(seats=(seat,))) is not None


async def test_the_first_refusal_is_given_again(shop, store, clock):
    await held(shop, seats=SEAT)
    clock.advance(1)
    store.calls = 0
    for n in range(100):
        assert (await ask(shop, f"buyer {n}")).reason is Reason.TAKEN
    assert store.calls == 1


async def test_the_log_is_followed_from_where_the_first_refusal_found_it(cache, diary, clock):
    diary.add("hold.released", "B")
    cache.learn(E1, lost("A", 1), clock())
    cache.learn(E1, lost("B", 1), clock())
    assert knows(cache, "A")
    assert knows(cache, "B"), "what was released before it was refused says nothing"
    diary.add("hold.released", "A")
    await cache.read()
    assert [seat for seat in "AB" if knows(cache, seat)] == ["B"]


async def test_what_was_refused_before_the_log_is_followed_is_not_kept(cache, diary, clock):
    """Seat A was released under number 11, which nobody reads any more."""
    cache.learn(E1, lost("B", 12), clock())
    cache.learn(E1, lost("A", 10), clock())
    assert [seat for seat in "AB" if knows(cache, seat)] == ["B"]


@pytest.mark.parametrize("opens", ["opened", "forget"])
async def test_what_was_refused_before_this_process_opened_anything_is_not_kept(
    cache, clock, opens
):
    asked = clock()
    clock.advance(1)
    cache.opened(E1, ["A"]) if opens == "opened" else cache.forget(E1)
    cache.learn(E1, lost("A", 1), asked)
    assert not knows(cache, "A")
    clock.advance(1)
    cache.learn(E1, lost("A", 2), clock())
    assert knows(cache, "A")


async def test_the_first_refusal_counts_for_a_second_if_the_log_is_not_read(cache, clock):
    cache.learn(E1, lost("A", 1), clock())
    clock.advance(FRESH_MS)
    assert knows(cache, "A")
    clock.advance(1)
    assert not knows(cache, "A")


async def rewound(cache: Refusals, diary: Log, clock: Clock, facts: list[str]) -> bool:
    """Whether seat A is still refused after a server has lost the last two facts of four and others
    have taken their numbers."""
    for _ in range(4):
        diary.add("hold.placed", "A")
    cache.learn(E1, lost("A", 4), clock())
    await cache.read()
    assert knows(cache, "A")
    del diary.entries[2:]
    for fact in facts:
        clock.advance(1)
        diary.entries.append(Entry(E1, len(diary.entries) + 1, fact, clock(), {"seats": ["B"]}))
    await cache.read()
    return knows(cache, "A")


@pytest.mark.parametrize("facts", [0, 1, 2, 3])
async def test_a_log_that_went_back_opens_everything(cache, diary, clock, facts):
    """A server that crashed has forgotten what was not on disk, the hold of seat A with it."""
    assert not await rewound(cache, diary, clock, ["hold.placed"] * facts)
    clock.advance(1)
    cache.learn(E1, lost("B", len(diary.entries)), clock())
    assert knows(cache, "B"), "what is refused from now on counts again"


async def test_a_log_that_cannot_be_read_before_its_first_fact_was_seen_opens_everything(
    cache, diary, clock
):
    cache.learn(E1, lost("A", 1), clock())
    reading = diary.read
    failed = asyncio.Event()

    async def fails(event: str, after: int, limit: int) -> list[Entry]:
        failed.set()
        raise StoreUnavailable("the server is away")

    cache._read_log = fails
    cache.start()
    await failed.wait()
    await cache.stop()
    cache._read_log = reading
    assert not knows(cache, "A")
