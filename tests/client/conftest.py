"""The real service, as the tests of the API have it, and a client for it."""

from collections.abc import AsyncIterator

import pytest

from holdfast.client import Client
from tests.api.conftest import event, public, seller, served
from tests.api.serving import ADMIN, Served

__all__ = ["event", "public", "seller", "served"]


@pytest.fixture
async def client(served: Served) -> AsyncIterator[Client]:
    async with Client(served.url, ADMIN) as client:
        yield client
