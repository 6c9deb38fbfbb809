"""Holdfast: while one transaction commits, all who click meanwhile wait, and are the next.

A batch loads the rows that its buyers name, decides for each in order of arrival, writes all
changes with a guard, and commits once. A thousand people on one seat are one look at the row, a
thousand decisions in memory and one flush. Buyers never meet in the database; processes do. Where
it stops: a buyer alone gains nothing by it, and pays for what the others here leave out, which a
shop needs: the order and its fact on the log, written in the same transaction, ids that make a
repetition harmless, the event's state and prices. And one process decides for no more than its
core can.

`sell` is one command, as what the SQL strategies do is one transaction. It is the public API, on
the same database with its defaults, which are durable.
"""

from contextlib import ExitStack

from holdfast.domain.outcomes import Confirmed
from holdfast.engine import Holdfast
from holdfast.lab.contest.databases import metered
from holdfast.lab.contest.field import POOL, Ground, Scenario, Strategy, Want, seat
from holdfast.settings import Settings
from holdfast.wiring import make_store

STALL_SECONDS = 60.0
"""A whole crowd waits at once here, and none of it shall be sent away."""


class GroupCommit(Strategy):
    name = "group-commit"

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        self._shop = open_shop(ground.url)
        self._metered = ExitStack()

    async def open(self) -> None:
        self._metered.enter_context(metered(self.db.dialect.name, self.counters))
        await self._shop.__aenter__()
        # A shop that has been open for a moment knows its event.
        await self._shop.event(self.ground.event)
        self.counters.statements = 0

    async def close(self) -> None:
        await self._shop.__aexit__()
        self._metered.close()

    async def buy(self, buyer: str, want: Want) -> bool:
        pools = {POOL: want.quantity} if want.quantity else None
        outcome = await self._shop.sell(
            self.ground.event, buyer=buyer, seats=want.seats, pools=pools
        )
        return isinstance(outcome, Confirmed)


def open_shop(url: str) -> Holdfast:
    """With the defaults: neither the environment nor holdfast.toml count here."""
    settings = Settings(store=url, stall_seconds=STALL_SECONDS)
    return Holdfast(make_store(settings), settings, upkeep=False)


def plan(event: str, scenario: Scenario) -> dict[str, object]:
    """The scenario's stock as an event."""
    described: dict[str, object] = {"id": event, "name": "Lab", "prices": {"any": 100}}
    if scenario.pool:
        pools = [{"id": POOL, "capacity": scenario.units, "tier": "any"}]
        return {**described, "pools": pools}
    seats = [
        {"id": seat(nth), "section": "S", "row": "1", "number": nth, "tier": "any"}
        for nth in range(scenario.units)
    ]
    return {**described, "seats": seats}
