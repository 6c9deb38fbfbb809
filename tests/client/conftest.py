"""The real service, as the tests of the API have it, and a client for it."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast.client import Client
from tests.api.conftest import event, public, seller, served
from tests.api.serving import ADMIN, Served

__all__ = ["event", "public", "seller", "served"]


def connect(url: str, key: str | None = None, **options: Any) -> Any:
    """A client whose answers a test may look into without asking first what they are."""
    return Client(url, key, **options)


@pytest.fixture
async def client(served: Served) -> AsyncIterator[Client]:
    async with Client(served.url, ADMIN) as client:
        yield client
