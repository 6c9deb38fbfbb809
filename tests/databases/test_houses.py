"""Houses of free seats: built before anything is locked, and as many as are asked for at once."""

import asyncio
import time
from typing import Any

import pytest

from holdfast import Placed
from holdfast.domain.model import Event
from holdfast.stores import houses
from tests.contract.helpers import said
from tests.databases.shops import E1, audited, held, plan, selling

SLOW_SECONDS = 1.5
BUILDERS = {
    store: f"holdfast.stores.{store}.{module}.build"
    for store, module in (("sqlite", "store"), ("postgres", "batches"), ("mysql", "store"))
}


async def test_houses_that_are_too_many_to_keep_are_still_built_for_those_who_ask(
    tmp_path, monkeypatch
):
    """All three in one batch of SQLite: none may push out another that the batch needs."""
    await three_houses("sqlite", f"sqlite:///{tmp_path / 'shop.db'}", monkeypatch)


@pytest.mark.service
async def test_houses_that_are_too_many_to_keep_are_built_on_servers_too(
    database, url, monkeypatch
):
    await three_houses(database.name, url, monkeypatch)


async def three_houses(store: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []
    build = houses.build

    def counted(event: Event, rows: Any) -> Any:
        built.append(event.id)
        assert len(built) < 20, "each is built for the others to push out"
        return build(event, rows)

    monkeypatch.setattr(houses, "HOUSE_SEATS_MAX", 2 * 40)
    monkeypatch.setattr(BUILDERS[store], counted)
    events = ["a", "b", "c"]
    async with audited(url) as shop:
        for event in events:
            await shop.create_event(plan(id=event))
        for _ in range(2):
            asks = (shop.place_hold(event, buyer="ann", best=1) for event in events)
            answers = await asyncio.gather(*asks)
            assert [said(answer) for answer in answers] == ["placed"] * 3


@pytest.mark.service
async def test_building_a_house_keeps_no_transaction_waiting(database, url, monkeypatch):
    """It takes longer than any transaction may be idle; a rival sells the same seats meanwhile."""
    built: list[float] = []
    build = houses.build

    def slow(*args: Any) -> Any:
        time.sleep(SLOW_SECONDS)  # on a thread of its own
        built.append(time.monotonic())
        return build(*args)

    limits: dict[str, Any] = {"statement_timeout_ms": 500, "lock_timeout_ms": 400}
    async with selling(url, **limits) as shop, audited(url, **limits) as rival:
        monkeypatch.setattr(BUILDERS[database.name], slow)
        asked = asyncio.create_task(shop.place_hold(E1, buyer="ann", best=1))
        while not asked.done() and not built:
            await held(rival, "bob", pools={"floor": 1})
            await asyncio.sleep(0.05)
        assert isinstance(await asked, Placed)
        assert len(built) == 1
