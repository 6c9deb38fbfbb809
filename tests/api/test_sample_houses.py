"""The designer's sample houses: what it exports is taken by POST /v1/events, and can be sold."""

import subprocess
from pathlib import Path

import msgspec
import pytest

from holdfast import Holdfast
from holdfast.api import events
from holdfast.api.callers import Caller
from holdfast.api.calls import Call
from holdfast.api.keys import Key, Role
from holdfast.api.service import Service
from holdfast.domain.outcomes import Placed
from holdfast.settings import Settings
from holdfast.stores.memory import MemoryStore
from tests.conftest import needed
from tests.servers import MissingServer, found_program

WEB = Path(__file__).parents[2] / "web"
EXPORT = WEB / "src" / "design" / "houses" / "export.mjs"
UNITS = {
    "theatre": 313,
    "arena": 20_000,
    "stadium": 60_000,
    "club": 1_010,
    "sneakers": 1_000,
    "clinic": 160,
}
PARTY = 6
SECTIONS = {
    "theatre": ("Stalls", "Balcony", "Box L1"),
    # A straight one, a bent one, one whose rows run from the front to the back.
    "arena": ("101", "308", "110"),
}
# In the middle of the front row of the middle section of a long side.
BEST = {
    "arena": ("117-1-9", "117-1-10"),
    "stadium": ("123-1-11", "123-1-12"),
}

pytestmark = pytest.mark.service


def _node() -> str:
    """Node.js, with what builds the pages."""
    if not (WEB / "node_modules").exists():
        raise MissingServer("what builds the pages is not installed: make web")
    return found_program("node", "apt-get install nodejs")


@pytest.fixture(scope="module")
def houses(tmp_path_factory) -> dict[str, bytes]:
    """Each as the designer exports it."""
    folder = tmp_path_factory.mktemp("houses")
    subprocess.run([needed(_node), EXPORT, folder], cwd=WEB, check=True, timeout=60)
    return {file.stem: file.read_bytes() for file in folder.glob("*.json")}


async def test_the_service_takes_every_sample_house_and_sells_from_it(houses):
    assert sorted(houses) == sorted(UNITS)
    shop = Holdfast(MemoryStore(), Settings(store="memory://"), upkeep=False)
    async with Service(shop) as service:
        for name, body in houses.items():
            call = Call(Caller(Key("k1", Role.ADMIN, "")), {}, {}, b"", "", "r1")
            call.body = body
            made = await events.create(service, call)
            assert made.status == 201
            event = msgspec.json.decode(body)["id"]
            summary = await shop.event(event)
            assert summary is not None
            assert summary.capacity == UNITS[name]
            for section in SECTIONS.get(name, ()):
                await _sits_together(shop, event, section)
            if best := BEST.get(name):
                placed = await shop.place_hold(event, buyer="first", best=2)
                assert isinstance(placed, Placed)
                assert placed.hold.seats == best


async def _sits_together(shop: Holdfast, event: str, section: str) -> None:
    """In a bent row, too, neighbours are neighbours."""
    party = 2 if section.startswith("Box") else PARTY
    placed = await shop.place_hold(
        event, buyer=section, best={"quantity": party, "section": section}
    )
    assert isinstance(placed, Placed)
    numbers = [int(seat.rsplit("-", 1)[1]) for seat in placed.hold.seats]
    assert numbers == list(range(numbers[0], numbers[0] + party))
