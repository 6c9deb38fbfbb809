"""A desk on every store."""

from collections.abc import AsyncIterator

import pytest

from holdfast import Holdfast
from holdfast.settings import Settings
from tests.checkout.desk import Desk
from tests.conftest import EVERY_STORE, STORES, Clock, needed


@pytest.fixture(params=EVERY_STORE)
async def desk(request, tmp_path, clock: Clock) -> AsyncIterator[Desk]:
    store = needed(lambda: STORES[request.param](tmp_path, clock))
    async with Holdfast(store, Settings(), upkeep=False, clock=clock) as shop:
        yield Desk(shop, clock)


@pytest.fixture
async def quick_desk(tmp_path, clock: Clock) -> AsyncIterator[Desk]:
    """In memory: for what is tried hundreds of times."""
    store = STORES["memory"](tmp_path, clock)
    async with Holdfast(store, Settings(), upkeep=False, clock=clock) as shop:
        yield Desk(shop, clock)
