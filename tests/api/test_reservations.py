"""Keys of calls that name no event: a crowd's are claimed together, and each hears its own."""

import asyncio
from typing import Any, cast

import pytest

from holdfast import tasks
from holdfast.api.problems import Problem
from holdfast.api.reservations import TOGETHER_MAX, Reservations


class Keys:
    """The part of a store that keeps them."""

    def __init__(self) -> None:
        self.written: list[int] = []
        self.digests: dict[str, str] = {}
        self.trouble: Exception | None = None

    async def claim_keys(self, claims: list[tuple[str, str]]) -> list[str]:
        self.written.append(len(claims))
        await asyncio.sleep(0)
        if self.trouble is not None:
            raise self.trouble
        return [self.digests.setdefault(key, digest) for key, digest in claims]


@pytest.fixture
def keys() -> Keys:
    return Keys()


@pytest.fixture
def reservations(keys) -> Reservations:
    return Reservations(cast(Any, keys))


async def test_a_crowd_that_comes_in_turn_after_turn_is_written_together(
    keys, reservations, monkeypatch
):
    monkeypatch.setattr(tasks, "GATHER_SECONDS_MAX", float("inf"))
    claims = [asyncio.create_task(reservations.claim("k", "d"))]
    for n in range(9):
        claims.append(asyncio.create_task(reservations.claim(f"k{n}", "d")))
        await asyncio.sleep(0)
    await asyncio.gather(*claims)
    assert keys.written == [10]


async def test_no_more_are_written_together_than_may_be(keys, reservations):
    await asyncio.gather(*[reservations.claim(f"k{n}", "d") for n in range(TOGETHER_MAX + 3)])
    assert keys.written == [TOGETHER_MAX, 3]


async def test_only_who_uses_a_key_for_something_else_is_refused(keys, reservations):
    asked = [reservations.claim("k", "one"), reservations.claim("k", "two")]
    first, second = await asyncio.gather(*asked, return_exceptions=True)
    assert first is None
    assert isinstance(second, Problem)
    assert second.reason == "idempotency_mismatch"


async def test_who_comes_after_a_trouble_is_another_try(keys, reservations):
    keys.trouble = ConnectionError()
    with pytest.raises(ConnectionError):
        await reservations.claim("k", "d")
    keys.trouble = None
    await reservations.claim("k", "d")
