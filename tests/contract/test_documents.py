"""Documents: small values that parts of the program keep at the authority, beside the events. Each
is replaced under its version, so of those who race for one, one wins and the others know."""

import asyncio

import pytest
from msgspec.structs import replace

from holdfast.domain.views import (
    DOCUMENT_BODY_BYTES_MAX,
    DOCUMENT_ID_BYTES_MAX,
    DOCUMENT_KIND_BYTES_MAX,
    Document,
)
from holdfast.errors import StoreError
from holdfast.ports import Store

pytestmark = pytest.mark.policies("authority")


def key(id: str = "k1", version: int = 1, body: str = '{"n": 1}', kind: str = "key") -> Document:
    return Document(kind, id, version, body)


@pytest.fixture
async def store(store):
    await store.open()
    yield store
    await store.close()


async def found(store: Store, kind: str = "key", id: str | None = None) -> list[Document]:
    documents, _ = await store.documents(kind, id)
    return documents


async def test_what_was_put_is_found(store):
    assert await found(store) == []
    assert await store.put(key())
    assert await found(store) == [key()]
    assert await found(store, id="k1") == [key()]
    assert await found(store, id="k2") == []


async def test_it_comes_with_the_time_of_the_authority(store, clock):
    assert (await store.documents("key")) == ([], clock())
    await store.put(key())
    clock.advance(1_234)
    assert (await store.documents("key", "k1")) == ([key()], clock())


async def test_the_next_version_replaces_it(store):
    for version in range(1, 4):
        assert await store.put(key(version=version, body=f"[{version}]"))
        assert await found(store) == [key(version=version, body=f"[{version}]")]


async def test_the_next_version_may_say_the_same(store):
    await store.put(key())
    assert await store.put(key(version=2))
    assert await found(store) == [key(version=2)]


@pytest.mark.parametrize("there", [0, 1, 2, 3])
@pytest.mark.parametrize("version", [-1, 0, 1, 2, 3, 4, 5])
async def test_only_the_version_after_the_one_that_is_there_is_written(store, there, version):
    for each in range(1, there + 1):
        assert await store.put(key(version=each))
    before = await found(store)
    new = key(version=version, body='"new"')
    expected = version == there + 1
    assert await store.put(new) is expected
    assert await found(store) == ([new] if expected else before)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
async def test_only_the_version_that_is_there_is_dropped(store, version):
    await store.put(key())
    await store.put(key(version=2))
    assert await store.drop("key", "k1", version) is (version == 2)
    assert await found(store) == ([] if version == 2 else [key(version=2)])


async def test_what_is_not_there_is_not_dropped(store):
    await store.put(key())
    assert not await store.drop("key", "k2", 1)
    assert not await store.drop("lease", "k1", 1)
    assert await found(store) == [key()]


async def test_what_was_dropped_begins_anew(store):
    await store.put(key())
    await store.put(key(version=2))
    assert await store.drop("key", "k1", 2)
    assert not await store.drop("key", "k1", 2)
    assert not await store.put(key(version=3))
    assert await store.put(key())
    assert await found(store) == [key()]


ALIKE = (
    "a",
    "A",
    "á",
    "a\u0301",
    "\uff41",
    "a ",
    "ss",
    "ß",
    "i",
    "I",
    "\u0131",
    "İ",
    "😀",
    "\ufffd",
)
"""Different to a byte, the same to one collation or another."""


async def test_ids_and_kinds_that_look_alike_are_different_and_ids_are_in_order_of_bytes(store):
    for id in ALIKE:
        assert await store.put(key(id))
        assert await store.put(key("k", kind=id, body='"a kind"'))
    assert [each.id for each in await found(store)] == sorted(ALIKE, key=str.encode)
    for id in ALIKE:
        assert await found(store, id=id) == [key(id)]
        assert await found(store, kind=id) == [key("k", kind=id, body='"a kind"')]
        assert await store.drop("key", id, 1)


async def test_only_those_of_the_kind_are_listed(store):
    for kind in ("key", "lease"):
        for id in ("b", "a"):
            assert await store.put(key(id, kind=kind))
    assert await found(store, "key") == [key("a"), key("b")]
    assert await found(store, "lease") == [key("a", kind="lease"), key("b", kind="lease")]
    assert await found(store, "other") == []


BODIES = ('{"a": "it\'s", "b": "\\n\\\\ \\u0000 %s %(x)s"}', '"{é😀}"', "", "'; DROP TABLE x; --")


@pytest.mark.parametrize("body", BODIES)
async def test_a_body_comes_back_as_it_was(store, body):
    assert await store.put(key(body=body))
    assert await store.put(key(version=2, body=f"{body} "))
    assert await found(store) == [key(version=2, body=f"{body} ")]


LARGEST = Document(
    "k" * DOCUMENT_KIND_BYTES_MAX,
    "é" * (DOCUMENT_ID_BYTES_MAX // 2),
    1,
    "é" * (DOCUMENT_BODY_BYTES_MAX // 2),
)
TOO_LARGE = {
    "kind": replace(LARGEST, kind="k" * (DOCUMENT_KIND_BYTES_MAX + 1)),
    "id": replace(LARGEST, id="é" * (DOCUMENT_ID_BYTES_MAX // 2) + "e"),
    "body": replace(LARGEST, body="é" * (DOCUMENT_BODY_BYTES_MAX // 2) + "e"),
}


async def test_the_largest_document_is_kept(store):
    assert await store.put(LARGEST)
    assert await found(store, LARGEST.kind, LARGEST.id) == [LARGEST]


@pytest.mark.parametrize("what", TOO_LARGE)
async def test_a_document_that_is_too_large_is_refused_not_cut(store, what):
    with pytest.raises(StoreError, match="refused"):
        await store.put(TOO_LARGE[what])
    assert await found(store, TOO_LARGE[what].kind) == []
    assert await store.put(LARGEST)
    assert await store.put(key())


@pytest.mark.parametrize("version", [1, 2])
async def test_of_those_who_race_for_a_version_one_wins(store, version):
    if version == 2:
        await store.put(key())
    rivals = [key(version=version, body=f"[{n}]") for n in range(20)]
    won = await asyncio.gather(*map(store.put, rivals))
    assert won.count(True) == 1
    assert await found(store) == [rivals[won.index(True)]]


async def test_nobody_loses_a_step_when_all_count_at_once(store):
    """Each reads, adds one, and puts it, until it is written: the lost update of a read and a
    write without a guard would show."""
    await store.put(key(body="0"))

    async def count() -> None:
        while True:
            [last] = await found(store)
            step = str(int(last.body) + 1)
            if await store.put(key(version=last.version + 1, body=step)):
                return

    await asyncio.gather(*(count() for _ in range(12)))
    assert await found(store) == [key(version=13, body="12")]


async def test_a_lease_goes_from_hand_to_hand_and_is_never_in_two(store):
    """Put, dropped, and put again by whoever is first: also where a row that was just removed is
    waited for by several."""
    inside = 0
    turns = 0

    async def work() -> None:
        nonlocal inside, turns
        mine = 0
        while mine < 3:
            if not await store.put(key()):
                continue
            inside += 1
            assert inside == 1
            mine += 1
            turns += 1
            inside -= 1
            assert await store.drop("key", "k1", 1)

    await asyncio.gather(*(work() for _ in range(5)))
    assert turns == 15
