"""One service for the tests of a module, on SQLite; events have names of their own."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from tests.api.serving import Served, serving

_numbers = count(1)


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    with serving(f"sqlite:///{folder / 'shop.db'}", cwd=folder, sqlite_synchronous="NORMAL") as it:
        yield it


@pytest.fixture(scope="module")
def seller(served: Served) -> str:
    return served.key("seller")


@pytest.fixture(scope="module")
def public(served: Served) -> str:
    return served.key("public")


@pytest.fixture
def event(served) -> str:
    """A new event: seats A-1-1 to A-2-10 at 90.00, and a pool `floor` of 50 at 45.00."""
    return make_event(served)


def make_event(served: Served, **changes: Any) -> str:
    id = f"night-{next(_numbers)}"
    body = {
        "id": id,
        "prices": {"gold": 9000, "floor": 4500},
        "sections": [{"id": "A", "tier": "gold", "rows": 2, "seats_per_row": 10}],
        "pools": [{"id": "floor", "capacity": 50}],
        **changes,
    }
    made = served.call("POST", "/v1/events", body)
    assert made.status_code == 201, made.text
    return id


def pytest_collection_modifyitems(items) -> None:
    """Whoever shares a server runs in one worker: two would start it twice."""
    for item in items:
        if "served" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group(item.module.__name__))
