"""Idempotency keys of calls that name no event: the digest of whoever claims a key first counts,
for a day."""

import asyncio
import uuid

import pytest

from holdfast.errors import StoreError

pytestmark = pytest.mark.policies("authority")

DAY_MS = 24 * 3600 * 1000


@pytest.fixture
async def store(store):
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def key() -> str:
    """Keys belong to no event: nobody else may have used it."""
    return uuid.uuid4().hex


async def test_the_first_digest_counts(store, key):
    assert await store.claim_keys([(key, "one")]) == ["one"]
    assert await store.claim_keys([(key, "two")]) == ["one"]
    assert await store.claim_keys([(key, "one")]) == ["one"]


async def test_many_are_answered_in_the_order_of_the_claims(store, key):
    assert await store.claim_keys([(f"{key}b", "b1")]) == ["b1"]
    claims = [(f"{key}{name}", f"{name}2") for name in "cab"]
    assert await store.claim_keys(claims) == ["c2", "a2", "b1"]
    assert await store.claim_keys(claims[::-1]) == ["b1", "a2", "c2"]


async def test_of_two_claims_of_one_key_in_one_call_the_first_counts(store, key):
    claims = [(key, "one"), (f"{key}b", "other"), (key, "two")]
    assert await store.claim_keys(claims) == ["one", "other", "one"]


async def test_no_claims_are_no_answers(store):
    assert await store.claim_keys([]) == []
    await store.free_keys([])


async def test_a_key_is_remembered_for_a_day_and_no_longer(store, key, clock):
    await store.claim_keys([(key, "one")])
    clock.advance(DAY_MS)
    assert await store.claim_keys([(key, "two")]) == ["one"]
    clock.advance(1)
    assert await store.claim_keys([(key, "two")]) == ["two"]
    clock.advance(DAY_MS)
    assert await store.claim_keys([(key, "three")]) == ["two"], "its day began anew"


async def test_to_claim_a_key_again_does_not_make_its_day_longer(store, key, clock):
    await store.claim_keys([(key, "one")])
    clock.advance(DAY_MS // 2)
    await store.claim_keys([(key, "one")])
    clock.advance(DAY_MS // 2 + 1)
    assert await store.claim_keys([(key, "two")]) == ["two"]


async def test_forgetting_old_keys_leaves_the_others(store, key, clock):
    old = [(f"{key}old{n}", "old") for n in range(5)]
    young = [(f"{key}young{n}", "young") for n in range(5)]
    await store.claim_keys(old)
    clock.advance(DAY_MS)
    await store.claim_keys(young)
    clock.advance(1)
    for n in range(5):
        await store.claim_keys([(f"{key}new{n}", "new")])
    assert await store.claim_keys([(id, "later") for id, _ in young]) == ["young"] * 5
    assert await store.claim_keys([(id, "later") for id, _ in old]) == ["later"] * 5


async def test_a_key_that_was_freed_is_anybodys(store, key):
    await store.claim_keys([(key, "one"), (f"{key}b", "one")])
    await store.free_keys([(key, "one")])
    assert await store.claim_keys([(key, "two"), (f"{key}b", "two")]) == ["two", "one"]


async def test_only_whoever_has_a_key_frees_it(store, key):
    await store.claim_keys([(key, "one")])
    await store.free_keys([(key, "two"), (f"{key}b", "one")])
    assert await store.claim_keys([(key, "two")]) == ["one"]


async def test_keys_that_look_alike_are_different(store, key):
    alike = ["a", "A", "á", "a\u0301", "\uff41", "a ", "ss", "ß", "😀", "'; --", '"\\ %s']
    claims = [(f"{key}{name}", str(n)) for n, name in enumerate(alike)]
    assert await store.claim_keys(claims) == [digest for _, digest in claims]
    await store.free_keys(claims[:1])
    again = [(name, "again") for name, _ in claims]
    assert await store.claim_keys(again) == ["again", *(digest for _, digest in claims[1:])]


async def test_a_key_may_have_256_bytes_and_a_digest_64(store, key):
    longest = key.ljust(256, "é")[: 32 + 112]
    assert len(longest.encode()) == 256
    assert await store.claim_keys([(longest, "d" * 64)]) == ["d" * 64]
    for claim in ((f"{longest}e", "one"), (key, "d" * 65)):
        with pytest.raises(StoreError, match="refused"):
            await store.claim_keys([(f"{key}b", "one"), claim])
    assert await store.claim_keys([(key, "two"), (f"{key}b", "two")]) == ["two", "two"]


async def test_of_those_who_race_for_a_key_all_hear_the_same(store, key):
    heard = await asyncio.gather(*(store.claim_keys([(key, f"d{n}")]) for n in range(20)))
    assert len({digest for (digest,) in heard}) == 1
    assert await store.claim_keys([(key, "late")]) == heard[0]


async def test_of_those_who_race_for_an_old_key_all_hear_the_same(store, key, clock):
    await store.claim_keys([(key, "old")])
    clock.advance(DAY_MS + 1)
    heard = await asyncio.gather(*(store.claim_keys([(key, f"d{n}")]) for n in range(20)))
    assert len({digest for (digest,) in heard}) == 1
    assert heard[0] != ["old"]


async def test_nobody_waits_in_a_ring_for_many_keys(store, key):
    """Each comes with the same keys in another order, and frees those that it got."""
    keys = [f"{key}{n}" for n in range(10)]

    async def work(nth: int) -> None:
        for turn in range(5):
            mine = f"d{nth}-{turn}"
            claims = [(name, mine) for name in keys[nth:] + keys[:nth]]
            got = await store.claim_keys(claims[::-1] if nth % 2 else claims)
            assert len(got) == len(keys)
            await store.free_keys(claims)

    await asyncio.gather(*(work(nth) for nth in range(8)))
    assert await store.claim_keys([(name, "free") for name in keys]) == ["free"] * len(keys)
