"""The story, told by today's version, and what the schemas say about a fact."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema_rs
import pytest

from holdfast import Holdfast
from holdfast.api.schemas import FACTS, schema
from holdfast.domain.cloudevents import message
from holdfast.domain.facts import Entry
from holdfast.domain.views import SeatMap
from holdfast.settings import Settings
from holdfast.wiring import make_store
from tests.facts.story import GALA, Clock, told

FIXTURES = Path(__file__).parent / "fixtures"

Json = dict[str, Any]


class Night(NamedTuple):
    entries: list[Entry]
    map: SeatMap
    """In the end."""


@pytest.fixture(scope="session")
async def night() -> AsyncIterator[Night]:
    clock = Clock()
    store = make_store(Settings(store="memory://"), clock)
    async with Holdfast(store, Settings(), upkeep=False, clock=clock) as shop:
        await told(shop, clock)
        map = await shop.seats(GALA)
        assert map is not None
        yield Night(await shop.log(GALA, limit=1000), map)


VALIDATORS = {
    type: jsonschema_rs.Draft202012Validator(schema(type), validate_formats=True) for type in FACTS
}


def faults(fact: Json, type: str | None = None) -> list[str]:
    """What the schema of its type has against it."""
    validator = VALIDATORS[type or fact["type"]]
    return [fault.message for fault in validator.iter_errors(fact)]


def published(entry: Entry) -> Json:
    """As a broker gets it."""
    read: Json = json.loads(message(entry).body)
    return read
