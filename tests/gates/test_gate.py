"""What a gate promises, whichever it is."""

import asyncio

import pytest

from holdfast.domain.gating import (
    Adjust,
    Claimed,
    Clash,
    Done,
    Find,
    Found,
    Free,
    Keep,
    Kind,
    Mark,
    OverCap,
    Short,
    Stock,
    Unready,
)
from holdfast.domain.model import FOREVER_MS
from holdfast.errors import GateDown, SettingsError
from holdfast.gates.redis import RedisGate
from tests.gates.helpers import E1, ask, claim, opened, owned, owners, session, until

ODD = ("ряд-1", "座席", "a b", "quo'te\"", "{x}", "🎟", "n̈", "*?[a]", "0", "-1", "1e3")


@pytest.fixture
async def ready(gate):
    """A gate that knows of stock in version 1."""
    assert await ask(gate, Stock({"floor": 10})) == Done(True)
    return gate


async def test_a_gate_that_was_told_nothing_judges_nothing(gate, clock):
    assert await ask(gate, claim("a", "A-1")) == Unready(0)
    assert await ask(gate, Find("a")) == Found(clock())


async def test_stock_makes_it_ready_and_says_whether_anything_was_new(gate):
    assert await ask(gate, Stock({"floor": 10, "rail": 0})) == Done(True)
    assert await ask(gate, Stock({"floor": 10, "rail": 0})) == Done(False)
    assert await ask(gate, Stock({"floor": 11, "rail": 0})) == Done(True)
    assert await ask(gate, Stock({"floor": 11})) == Done(True)
    assert await ask(gate, Stock({"floor": 11}), version=2) == Done(False), "raised by the asking"
    assert await ask(gate, Stock({"floor": 11}), version=1) == Done(False), "never lowered"
    snapshot = await gate.snapshot(E1)
    assert (snapshot.version, snapshot.stock) == (2, {"floor": 11})


async def test_an_event_without_pools_is_ready_too(gate):
    assert await ask(gate, Stock({})) == Done(True)
    assert isinstance(await ask(gate, claim("a", "A-1")), Claimed)


async def test_a_claim_is_granted_once_and_then_clashes(ready, clock):
    assert await ask(ready, claim("a", "A-1", buyer="ann", keep_ms=3_000)) == Claimed(clock())
    clock.advance(1_000)
    assert await ask(ready, claim("b", "A-2", "A-1")) == Clash((("A-1", "a", "ann", 2_000),))
    assert (await ready.snapshot(E1)).seats == {"A-1": "a"}, "all or nothing"


async def test_a_clash_with_what_is_for_ever_has_for_ever_left(ready, clock):
    await ask(ready, Mark(owned("sold", "A-1", buyer="ann")))
    left = FOREVER_MS - clock()
    assert await ask(ready, claim("b", "A-1")) == Clash((("A-1", "sold", "ann", left),))


async def test_the_same_id_again_is_told_what_it_has(ready, clock):
    first = owned("a", "A-1", pools={"floor": 2}, kind=Kind.COURTESY, keep_ms=500, note="{}")
    await ask(
        ready, claim("a", "A-1", pools={"floor": 2}, kind=Kind.COURTESY, keep_ms=500, note="{}")
    )
    assert await ask(ready, claim("a", "A-9")) == Claimed(clock(), first)
    assert (await ready.snapshot(E1)).claimed == {"floor": 2}


async def test_pools_run_short_and_say_what_is_left(ready):
    assert isinstance(await ask(ready, claim("a", pools={"floor": 7})), Claimed)
    assert await ask(ready, claim("b", pools={"floor": 4})) == Short("floor", 3)
    assert isinstance(await ask(ready, claim("c", pools={"floor": 3})), Claimed)
    assert await ask(ready, claim("d", pools={"floor": 1})) == Short("floor", 0)


async def test_less_stock_than_is_claimed_is_none_left_not_less_than_none(ready):
    await ask(ready, claim("a", pools={"floor": 7}))
    await ask(ready, Stock({"floor": 5}))
    assert await ask(ready, claim("b", pools={"floor": 1})) == Short("floor", 0)


async def test_a_pool_that_nobody_told_of_is_not_judged(ready):
    assert isinstance(await ask(ready, claim("a", pools={"unheard": 10**9})), Claimed)
    assert (await ready.snapshot(E1)).claimed == {"unheard": 10**9}


async def test_a_cap_counts_everything_that_the_buyer_has(ready):
    assert isinstance(await ask(ready, claim("a", "A-1", buyer="ann", cap=3)), Claimed)
    assert isinstance(await ask(ready, claim("b", buyer="ann", pools={"floor": 2}, cap=3)), Claimed)
    assert await ask(ready, claim("c", "A-2", buyer="ann", cap=3)) == OverCap(3)
    assert isinstance(await ask(ready, claim("d", "A-2", buyer="ann")), Claimed)
    assert isinstance(await ask(ready, claim("e", "A-3", buyer="bob", cap=1)), Claimed)
    assert await ask(ready, claim("f", "A-4", buyer="cyd", cap=0)) == OverCap(0)


async def test_a_courtesy_needs_the_present_version_and_a_claim_does_not(ready):
    await ask(ready, Find("nobody"), version=3)
    assert await ask(ready, claim("a", "A-1", kind=Kind.COURTESY), version=2) == Unready(3)
    assert isinstance(await ask(ready, claim("a", "A-1"), version=2), Claimed)
    assert isinstance(await ask(ready, claim("b", "A-2", kind=Kind.COURTESY), version=3), Claimed)


async def test_what_lapses_is_free_at_the_deadline_and_not_before(ready, clock):
    await ask(ready, claim("a", "A-1", buyer="ann", pools={"floor": 10}, keep_ms=100))
    clock.advance(99)
    assert await ask(ready, claim("b", "A-1")) == Clash((("A-1", "a", "ann", 1),))
    assert await ask(ready, claim("b", pools={"floor": 1})) == Short("floor", 0)
    assert await ask(ready, claim("b", "A-2", buyer="ann", cap=11)) == OverCap(11)
    clock.advance(1)
    assert isinstance(await ask(ready, claim("b", "A-1", pools={"floor": 10})), Claimed)
    assert isinstance(await ask(ready, claim("c", "A-2", buyer="ann", cap=1)), Claimed)
    assert await ask(ready, Find("a")) == Found(clock())


async def test_each_owner_has_a_deadline_of_his_own(ready, clock):
    await ask(ready, claim("a", "A-1", keep_ms=100))
    clock.advance(60)
    await ask(ready, claim("b", "A-2", keep_ms=100))
    clock.advance(60)
    assert owners(await ready.snapshot(E1)).keys() == {"b"}


async def test_keep_gives_another_deadline_to_whoever_is_there_still(ready, clock):
    await ask(ready, claim("a", "A-1", keep_ms=100))
    assert await ask(ready, Keep("a", Kind.HELD, 1_000)) == Done(True)
    clock.advance(500)
    kept = owned("a", "A-1", kind=Kind.HELD, keep_ms=500)
    assert await ask(ready, Find("a")) == Found(clock(), kept)
    assert await ask(ready, Keep("a", Kind.HELD, FOREVER_MS)) == Done(True)
    clock.advance(10**9)
    assert owners(await ready.snapshot(E1))["a"].keep_ms == FOREVER_MS
    assert await ask(ready, Keep("a", Kind.HELD, 10)) == Done(True)
    clock.advance(10)
    assert await ask(ready, Keep("a", Kind.HELD, 1_000)) == Done(False), "too late"


async def test_keep_is_fenced_by_the_version(ready, clock):
    await ask(ready, claim("a", "A-1", note="one"))
    assert await ask(ready, Keep("a", Kind.HELD, 50, was_version=2)) == Done(False)
    assert await ask(ready, Keep("a", Kind.HELD, 50, was_version=1, note="two")) == Done(True)
    assert await ask(ready, Keep("a", Kind.HELD, 50, was_version=1)) == Done(False)
    kept = owners(await ready.snapshot(E1))["a"]
    assert (kept.version, kept.note) == (2, "two")


async def test_a_note_may_be_emptied(ready):
    await ask(ready, claim("a", "A-1", note="one"))
    await ask(ready, Keep("a", Kind.HELD, 50, note=""))
    assert owners(await ready.snapshot(E1))["a"].note == ""


async def test_a_mark_takes_a_seat_from_whoever_was_noted_there(ready):
    await ask(ready, claim("a", "A-1", "A-2"))
    assert await ask(ready, Mark(owned("b", "A-1"))) == Done(True)
    assert (await ready.snapshot(E1)).seats == {"A-1": "b", "A-2": "a"}
    assert await ask(ready, Free("a")) == Done(True)
    assert (await ready.snapshot(E1)).seats == {"A-1": "b"}, "a gives back what is his"


async def test_a_mark_that_comes_twice_counts_once(ready):
    for _ in range(2):
        await ask(ready, Mark(owned("a", "A-1", buyer="ann", pools={"floor": 3})))
    snapshot = await ready.snapshot(E1)
    assert (snapshot.claimed, snapshot.units) == ({"floor": 3}, {"ann": 4})


async def test_a_mark_needs_no_ready_gate(gate):
    assert await ask(gate, Mark(owned("a", "A-1"))) == Done(True)
    assert (await gate.snapshot(E1)).version == 0
    assert await ask(gate, claim("b", "A-1")) == Unready(0)


async def test_free_gives_everything_back_once(ready):
    await ask(ready, claim("a", "A-1", buyer="ann", pools={"floor": 4}))
    await ask(ready, claim("b", buyer="ann", pools={"floor": 4}))
    assert await ask(ready, Free("a")) == Done(True)
    assert await ask(ready, Free("a")) == Done(False)
    snapshot = await ready.snapshot(E1)
    assert (snapshot.claimed, snapshot.units, snapshot.seats) == ({"floor": 4}, {"ann": 4}, {})
    await ask(ready, Free("b"))
    snapshot = await ready.snapshot(E1)
    assert (snapshot.claimed, snapshot.units, snapshot.owners) == ({}, {}, [])


async def test_free_is_fenced_by_version_and_by_time(ready, clock):
    await ask(ready, claim("a", "A-1"))
    assert await ask(ready, Free("a", was_version=2)) == Done(False)
    assert await ask(ready, Free("a", unless_after_ms=clock() - 1)) == Done(False)
    clock.advance(10)
    assert await ask(ready, Free("a", was_version=1, unless_after_ms=clock() - 10)) == Done(True)


async def test_adjust_lowers_counters_never_below_nothing(ready):
    await ask(ready, claim("a", buyer="ann", pools={"floor": 5}))
    assert await ask(ready, Adjust({"floor": 2}, {"ann": 1})) == Done(True)
    snapshot = await ready.snapshot(E1)
    assert (snapshot.claimed, snapshot.units) == ({"floor": 3}, {"ann": 4})
    await ask(ready, Adjust({"floor": 9, "unheard": 1}, {"ann": 4, "nobody": 2}))
    await ask(ready, Free("a"))
    snapshot = await ready.snapshot(E1)
    assert (snapshot.claimed, snapshot.units) == ({}, {})


async def test_verdicts_come_in_the_order_of_the_asks(ready, clock):
    ops = [
        claim("a", "A-1", buyer="ann"),
        claim("b", "A-1"),
        Free("a"),
        claim("c", "A-1"),
        Find("b"),
    ]
    assert await ready.run(E1, 1, ops) == [
        Claimed(clock()),
        Clash((("A-1", "a", "ann", FOREVER_MS - clock()),)),
        Done(True),
        Claimed(clock()),
        Found(clock()),
    ]


async def test_nothing_asked_is_nothing_said(ready):
    assert await ready.run(E1, 7, []) == []
    assert (await ready.snapshot(E1)).version == 7, "but the version was heard"


async def test_a_thousand_asks_go_through_in_order(ready):
    verdicts = await ready.run(E1, 1, [claim(f"h{n}", f"A-{n // 2}") for n in range(1_000)])
    assert [type(each) for each in verdicts] == [Claimed, Clash] * 500


async def test_a_basket_may_be_large(ready):
    seats = [f"A-{n}" for n in range(10_000)]
    assert isinstance(await ask(ready, claim("a", *seats)), Claimed)
    clash = await ask(ready, claim("b", *seats))
    assert isinstance(clash, Clash)
    assert len(clash.seats) == 10_000
    await ask(ready, Free("a"))
    assert (await ready.snapshot(E1)).seats == {}


async def test_the_dead_block_nobody_however_many_they_are(ready, clock):
    """More than a call sweeps: seats, stock and caps are free all the same."""
    await ask(ready, Stock({"floor": 2_000}))
    many = [
        claim(f"h{n}", f"A-{n}", buyer="ann", pools={"floor": 1}, keep_ms=50) for n in range(2_000)
    ]
    await ready.run(E1, 1, many)
    clock.advance(50)
    assert isinstance(await ask(ready, claim("x", "A-1999")), Claimed)
    assert (await ready.snapshot(E1)).claimed == {}, "a snapshot shows no dead"
    assert isinstance(await ask(ready, claim("y", "A-1998", buyer="ann", cap=1)), Claimed)
    assert isinstance(await ask(ready, claim("z", pools={"floor": 2_000})), Claimed)
    snapshot = await ready.snapshot(E1)
    assert snapshot.seats == {"A-1999": "x", "A-1998": "y"}
    assert snapshot.units == {"buyer of x": 1, "ann": 1, "buyer of z": 2_000}
    assert await ask(ready, Find("h7")) == Found(clock())


@pytest.mark.parametrize("name", ODD)
async def test_ids_are_any_text(ready, name, clock):
    await ask(ready, Stock({name: 5}))
    mine = owned(name, name, buyer=name, pools={name: 2}, note=name * 100)
    assert await ask(ready, Mark(mine)) == Done(True)
    assert await ask(ready, Find(name)) == Found(clock(), mine)
    assert await ask(ready, claim("x", pools={name: 4})) == Short(name, 3)
    clash = Clash(((name, name, name, FOREVER_MS - clock()),))
    assert await ask(ready, claim("x", name)) == clash
    snapshot = await ready.snapshot(E1)
    assert (snapshot.units, snapshot.seats) == ({name: 3}, {name: name})


async def test_large_numbers_stay_whole(ready):
    await ask(ready, Stock({"floor": 10**15}))
    await ask(ready, claim("a", buyer="ann", pools={"floor": 10**15 - 1}))
    assert await ask(ready, claim("b", pools={"floor": 2})) == Short("floor", 1)
    snapshot = await ready.snapshot(E1)
    assert (snapshot.stock, snapshot.units) == ({"floor": 10**15}, {"ann": 10**15 - 1})
    await ask(ready, Free("a"))
    assert isinstance(await ask(ready, claim("b", pools={"floor": 10**15})), Claimed)


async def test_events_know_nothing_of_each_other_and_are_forgotten_one_by_one(ready):
    await ask(ready, Stock({}), event="other")
    await ask(ready, claim("a", "A-1"), event="other")
    assert isinstance(await ask(ready, claim("a", "A-1")), Claimed)
    assert await ready.events() == sorted([E1, "other"])
    await ready.clear(E1)
    assert await ready.events() == ["other"]
    assert await ask(ready, claim("a", "A-1")) == Unready(0)
    assert (await ready.snapshot("other")).seats == {"A-1": "a"}


async def test_a_lease_has_one_holder(gate):
    assert await gate.lease("sweep", "one", 60_000)
    assert not await gate.lease("sweep", "two", 60_000)
    assert await gate.lease("sweep", "one", 60_000)
    assert await gate.lease("other", "two", 60_000)
    assert await gate.lease("sweep", "one", 0), "given back"
    assert await gate.lease("sweep", "two", 60_000)


@pytest.mark.service
async def test_a_lease_ends_by_the_clock_of_redis(redis_gate):
    assert await redis_gate.lease("sweep", "one", 100)
    await until(lambda: redis_gate.lease("sweep", "two", 100))


@pytest.mark.service
async def test_deadlines_end_by_the_clock_of_redis(redis_gate):
    await redis_gate.run(
        E1, 1, [Stock({"floor": 1}), claim("a", "A-1", pools={"floor": 1}, keep_ms=80)]
    )
    assert isinstance(await ask(redis_gate, claim("b", "A-1")), Clash)

    async def granted() -> bool:
        return isinstance(await ask(redis_gate, claim("b", "A-1", pools={"floor": 1})), Claimed)

    await until(granted)
    assert owners(await redis_gate.snapshot(E1)).keys() == {"b"}


@pytest.mark.service
async def test_two_processes_share_one_redis(redis_server):
    async with opened(redis_server.url) as one, opened(redis_server.url) as two:
        assert one.shared
        await ask(one, Stock({}))
        asks = (ask((one, two)[n % 2], claim(f"h{n}", "A-1")) for n in range(100))
        verdicts = await asyncio.gather(*asks)
        assert sum(isinstance(each, Claimed) for each in verdicts) == 1


@pytest.mark.service
@pytest.mark.parametrize("lost", ["owners", "seats", "deadlines", "stock", "claimed", "units"])
async def test_any_key_may_be_lost(redis_gate, redis_server, lost):
    """Evicted, say: then less is known, nothing is blocked, and asks are still answered."""
    await redis_gate.run(
        E1, 1, [Stock({"floor": 5}), claim("a", "A-1", pools={"floor": 5}, keep_ms=90)]
    )
    async with session(redis_server.url) as db:
        assert await db.delete(f"holdfast:{{{E1}}}:{lost}") == 1

    async def granted() -> bool:
        # Counters may stay too high until a reconciliation lowers them; a seat never stays taken.
        return isinstance(await ask(redis_gate, claim("b", "A-1")), Claimed)

    await until(granted)
    await redis_gate.run(E1, 1, [Mark(owned("a", "A-1")), Free("a"), Free("b")])
    assert (await redis_gate.snapshot(E1)).owners == []


@pytest.mark.service
async def test_a_seat_of_an_owner_without_a_record_is_free(redis_gate, redis_server):
    await ask(redis_gate, Stock({}))
    async with session(redis_server.url) as db:
        await db.hset(f"holdfast:{{{E1}}}:seats", "A-1", "nobody")
    assert isinstance(await ask(redis_gate, claim("b", "A-1")), Claimed)


async def test_a_bucket_gives_what_it_has_and_gains_with_time(gate, clock):
    assert await gate.take("a", 2.0, 10, 4) == (4, 6.0)
    assert await gate.take("a", 2.0, 10, 9) == (6, 0.0)
    assert await gate.take("b", 2.0, 10, 1) == (1, 9.0), "another one"
    clock.advance(250)
    granted, left = await gate.take("a", 2.0, 10, 1)
    assert (granted, left) == (0, pytest.approx(0.5, abs=0.01))
    clock.advance(250)
    assert await gate.take("a", 2.0, 10, 1) == (1, pytest.approx(0.0, abs=0.01))
    clock.advance(60_000)
    assert await gate.take("a", 2.0, 10, 99) == (10, 0.0), "never more than when it is full"


async def test_a_bucket_is_not_worth_more_to_those_who_come_together(gate):
    grants = await asyncio.gather(*(gate.take("a", 0.5, 20, 3) for _ in range(20)))
    assert sum(granted for granted, _ in grants) == 20


async def test_units_are_reserved_up_to_a_limit_until_freed_or_lapsed(gate, clock):
    assert await gate.reserve_units("here", "h1", 6, 10, 60_000)
    assert not await gate.reserve_units("here", "h2", 5, 10, 60_000)
    assert await gate.reserve_units("there", "h2", 5, 10, 60_000)
    assert await gate.reserve_units("here", "h3", 4, 10, 30_000)
    await gate.free_units("h1")
    await gate.free_units("h1")
    await gate.free_units("unknown")
    assert await gate.reserve_units("here", "h4", 6, 10, 60_000)
    assert not await gate.reserve_units("here", "h5", 1, 10, 60_000)
    clock.advance(30_000)
    assert await gate.reserve_units("here", "h5", 4, 10, 60_000)


async def test_a_hold_that_reserves_again_replaces_what_it_had(gate, clock):
    assert await gate.reserve_units("here", "h1", 6, 10, 60_000)
    assert await gate.reserve_units("here", "h1", 10, 10, 30_000)
    assert not await gate.reserve_units("here", "h1", 11, 10, 60_000)
    assert not await gate.reserve_units("here", "h2", 1, 10, 60_000), "what it had stayed"
    assert await gate.reserve_units("there", "h1", 10, 10, 90_000), "it moved"
    assert await gate.reserve_units("here", "h2", 10, 10, 60_000)
    clock.advance(60_000)
    assert not await gate.reserve_units("there", "h3", 1, 10, 60_000)
    assert await gate.events() == []


@pytest.mark.service
async def test_limits_in_redis_are_ours_by_name_and_gone_when_they_are_over(
    redis_gate, redis_server
):
    for odd in ODD:
        assert await redis_gate.take(odd, 2.0, 10, 5) == (5, 5.0)
        assert await redis_gate.reserve_units(odd, odd, 5, 10, 20_000)
    async with session(redis_server.url) as db:
        keys = [key async for key in db.scan_iter()]
        assert len(keys) == len(ODD) + 3
        for key in keys:
            limit_ms = 2_600 if key.startswith(b"holdfast:bucket:{") else 21_000
            assert key.startswith((b"holdfast:bucket:{", b"holdfast:units:{all}:"))
            assert 0 < await db.pttl(key) <= limit_ms
    assert await redis_gate.events() == []
    for odd in ODD:
        await redis_gate.free_units(odd)
    async with session(redis_server.url) as db:
        assert [key async for key in db.scan_iter(match="holdfast:units:*")] == []


@pytest.mark.service
@pytest.mark.parametrize("lost", ["reserved", "due", "totals"])
async def test_units_are_not_reserved_for_ever_when_redis_lost_a_key(
    redis_gate, redis_server, lost
):
    assert await redis_gate.reserve_units("here", "h1", 10, 10, 60_000)
    async with session(redis_server.url) as db:
        assert await db.delete(f"holdfast:units:{{all}}:{lost}") == 1
    assert await redis_gate.reserve_units("here", "h2", 10, 10, 60_000)
    assert not await redis_gate.reserve_units("here", "h3", 1, 10, 60_000)


GOOD = {
    "redis://127.0.0.1": "redis://127.0.0.1:6379/0",
    "redis://h:1/3": "redis://h:1/3",
    "redis://:geheim@h:1/3": "redis://h:1/3",
    "redis://ann:geheim@h": "redis://ann@h:6379/0",
    "redis://ann:geh%2Feim%40@h/": "redis://ann@h:6379/0",
    "rediss://[::1]:7/0?ssl_cert_reqs=none": "rediss://[::1]:7/0",
    "unix://ann:geheim@/run/redis.sock?db=2": "unix://ann@/run/redis.sock",
    "redis://:geheim@h:1?cluster=true": "redis://h:1/0?cluster=true",
    "redis://h:1?cluster=no": "redis://h:1/0",
}


@pytest.mark.parametrize("url", GOOD)
def test_an_address_is_shown_without_its_password(url):
    gate = RedisGate(url, 100)
    assert gate.url == GOOD[url]


BAD = (
    "",
    "redis",
    "redis://",
    "redis:///3",
    "redis://h:port",
    "redis://h:99999",
    "redis://:geheim/@h:1",
    "redis://:geheim@h/three",
    "redis://:geheim@h/-1",
    "redis://:geheim@h/1/2",
    "redis://:geheim@h?clutser=true",
    "redis://:geheim@h?cluster=maybe",
    "redis://:geheim@h?ssl_ca_certs=x",
    "redis://:geheim@h/3?cluster=true",
    "redis://:geheim@h#x",
    "unix://",
    "unix://:geheim@host/run/redis.sock",
    "unix:///run/redis.sock?cluster=true",
    "http://:geheim@h",
)


@pytest.mark.parametrize("url", BAD)
def test_a_wrong_address_is_refused_without_quoting_the_password(url):
    with pytest.raises(SettingsError) as caught:
        RedisGate(url, 100)
    assert "geheim" not in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_a_gate_that_is_not_open_is_down():
    gate = RedisGate("redis://127.0.0.1:1", 100)
    with pytest.raises(GateDown, match="not open"):
        await ask(gate, Find("a"))
    await gate.close()
