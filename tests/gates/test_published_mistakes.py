"""Each mistake of published designs, made on purpose on a real Redis, and ours beside it."""

import asyncio

import pytest

from holdfast.domain.gating import Claimed, Clash, Done, Find, Found, Free, Keep, Kind, Short, Stock
from tests.gates.helpers import E1, ask, claim, owned, owners, session, until

pytestmark = pytest.mark.service


@pytest.fixture
async def db(redis_server):
    async with session(redis_server.url) as db:
        yield db


@pytest.fixture
async def ready(redis_gate):
    await ask(redis_gate, Stock({"floor": 5}))
    return redis_gate


async def test_del_on_rollback_deletes_the_claim_of_the_next_owner(db):
    """The control: ann's claim lapses, bob gets the seat, and ann's rollback takes it from him."""
    await db.set("seat:A-1", "ann", nx=True, px=1)
    await until(lambda: free(db, "seat:A-1"))
    assert await db.set("seat:A-1", "bob", nx=True, px=60_000)
    await db.delete("seat:A-1")
    assert await db.set("seat:A-1", "cyd", nx=True, px=60_000), "sold to bob and to cyd"


async def free(db, key: str) -> bool:
    return not await db.exists(key)


async def test_our_rollback_gives_back_nothing_but_our_own(ready):
    await ask(ready, claim("ann", "A-1", keep_ms=1))
    await until(lambda: granted(ready, claim("bob", "A-1")))
    assert await ask(ready, Free("ann")) == Done(False)
    assert isinstance(await ask(ready, claim("cyd", "A-1")), Clash)


async def granted(gate, op) -> bool:
    return isinstance(await ask(gate, op), Claimed)


ONE_EXPIRE = """
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('PEXPIRE', KEYS[1], 150)
"""


async def test_one_expire_on_a_hash_renews_the_deadline_of_everybody(db):
    """The control: ann's 150 ms never end as long as others come."""
    await db.eval(ONE_EXPIRE, 1, "holds", "ann", "A-1")
    for n in range(8):
        await asyncio.sleep(0.04)
        await db.eval(ONE_EXPIRE, 1, "holds", f"u{n}", f"B-{n}")
    assert await db.hget("holds", "ann") == b"A-1", "after 320 ms"


async def test_our_deadlines_are_each_owners_own(ready):
    await ask(ready, claim("ann", "A-1", keep_ms=150))
    for n in range(8):
        await asyncio.sleep(0.04)
        await ask(ready, claim(f"u{n}", f"B-{n}", keep_ms=60_000))
    assert isinstance((await ask(ready, Find("ann"))), Found)
    assert owners(await ready.snapshot(E1)).keys() == {f"u{n}" for n in range(8)}


async def test_decr_and_then_incr_turns_a_real_buyer_away(db):
    """The control: five are left. One who wants six decrements, and before he has given them back,
    one who wants two, for whom there is enough, sees less than none."""
    await db.set("stock", 5)
    assert await db.decrby("stock", 6) == -1
    assert await db.decrby("stock", 2) < 0, "turned away"
    await db.incrby("stock", 2)
    await db.incrby("stock", 6)
    assert int(await db.get("stock")) == 5, "and five were left all the time"


async def test_ours_looks_and_takes_in_one_step(ready):
    """However they interleave: whoever wants too much is never seen by anybody else."""
    asks = [ask(ready, claim(f"six-{n}", pools={"floor": 6})) for n in range(50)]
    asks.insert(25, ask(ready, claim("two", pools={"floor": 2})))
    verdicts = await asyncio.gather(*asks)
    assert isinstance(verdicts.pop(25), Claimed)
    assert all(isinstance(each, Short) and each.available >= 3 for each in verdicts)


GIVE_BACK = "return redis.call('INCRBY', KEYS[1], ARGV[1])"


async def test_a_message_that_comes_twice_gives_stock_back_twice(db):
    """The control: one ticket, bought and given back, is two tickets."""
    await db.set("stock", 1)
    await db.decr("stock")
    for _ in range(2):
        await db.eval(GIVE_BACK, 1, "stock", 1)
    assert int(await db.get("stock")) == 2


async def test_ours_is_given_back_once(ready):
    await ask(ready, claim("ann", pools={"floor": 5}))
    assert [await ask(ready, Free("ann")) for _ in range(2)] == [Done(True), Done(False)]
    assert await ask(ready, claim("bob", pools={"floor": 6})) == Short("floor", 5)


async def test_what_lapsed_is_not_given_back_again(ready):
    """Nor by the deadline and by the owner both."""
    await ask(ready, claim("ann", pools={"floor": 5}, keep_ms=1))
    await until(lambda: granted(ready, claim("bob", pools={"floor": 5})))
    assert await ask(ready, Free("ann")) == Done(False)
    assert await ask(ready, claim("cyd", pools={"floor": 1})) == Short("floor", 0)


async def test_get_and_then_an_unguarded_write_lets_two_have_the_seat(db):
    """The control: both look before either writes."""
    seen = [await db.get("seat:A-1") for _ in ("ann", "bob")]
    winners = []
    for buyer, owner in zip(("ann", "bob"), seen, strict=True):
        if owner is None:
            await db.set("seat:A-1", buyer)
            winners.append(buyer)
    assert winners == ["ann", "bob"]


async def test_ours_has_one_winner_and_a_fence(ready):
    verdicts = await asyncio.gather(*(ask(ready, claim(f"h{n}", "A-1")) for n in range(50)))
    assert sum(isinstance(each, Claimed) for each in verdicts) == 1
    [winner] = owners(await ready.snapshot(E1))
    stale = Keep(winner, Kind.HELD, 60_000, was_version=1)
    both = await asyncio.gather(ask(ready, stale), ask(ready, stale))
    assert Done(True) in both
    assert Done(False) in both
    kept = owners(await ready.snapshot(E1))[winner]
    assert (kept.version, kept.seats) == (2, owned("x", "A-1").seats)
