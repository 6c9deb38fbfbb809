"""Everything that follows the log in one process, started and stopped together. Each of them
divides its work with those of other processes, or leaves it to one of them."""

import contextlib
from collections.abc import Sequence
from typing import Self

from holdfast.engine import Holdfast
from holdfast.followers.deliveries import FOLLOWER as WEBHOOKS
from holdfast.followers.deliveries import Deliveries
from holdfast.followers.projections import Projections
from holdfast.followers.relay import Relay, make_relay
from holdfast.ids import Ids
from holdfast.upkeep.lease import Lease
from holdfast.upkeep.prune import Follower, Pruner


class Crew:
    def __init__(self, shop: Holdfast, *, working: bool = True) -> None:
        """`working`: whether this process does the work, or only looks at what others do."""
        store, settings = shop.store, shop.settings
        self._working = working
        self._projecting = settings.projections == "log"
        self.relay: Relay | None = make_relay(store, settings) if working else None
        self.deliveries = Deliveries(store, settings)
        self.projections = Projections(store)
        self.pruner = Pruner(
            store,
            settings.retention_days,
            settings.cursor_idle_hours,
            Lease(store, "prune", Ids().new()),
            settle=self.projections.settle,
            crews={WEBHOOKS: self._webhooks},
            waiting=self.deliveries.webhooks.waiting,
        )

    async def __aenter__(self) -> Self:
        if self._working:
            if self.relay is not None:
                self.relay.start()
            self.deliveries.start()
            if self._projecting:
                self.projections.start()
            self.pruner.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        async with contextlib.AsyncExitStack() as stack:
            if self.relay is not None:
                stack.push_async_callback(self.relay.stop)
            # Also where it does not work: facts may have been delivered again by hand.
            stack.push_async_callback(self.deliveries.stop)
            stack.push_async_callback(self.projections.stop)
            stack.push_async_callback(self.pruner.stop)

    def lags(self) -> dict[str, int]:
        """Of each follower: facts that it is not done with yet, of the events that are ours."""
        lags = {}
        if self.relay is not None:
            lags["relay"] = sum(self.relay.lags().values())
        if webhooks := self.deliveries.lags():
            lags["webhooks"] = sum(webhooks.values())
        if projections := self.projections.lags():
            lags["projections"] = sum(projections.values())
        return lags

    async def _webhooks(self) -> Sequence[Follower]:
        """Each subscription is a follower of its own, although all share one table of shards. Also
        one that is disabled: whoever enables it in time gets what happened meanwhile."""
        found = await self.deliveries.webhooks.all()
        return [Follower(each.follower, each.follows) for each in found]
