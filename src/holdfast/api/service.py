"""What every handler works with: one object a process, put together when it starts."""

import asyncio
import os
from collections.abc import Sequence
from functools import partial
from typing import Self

from holdfast.api.arriving import Patience
from holdfast.api.callers import Callers, read_networks
from holdfast.api.charts import Charts
from holdfast.api.keys import Keys, Role, deployment_secret, pages_key
from holdfast.api.limits import Limits
from holdfast.api.metrics import WRITE_SECONDS, Metrics
from holdfast.api.reservations import Reservations
from holdfast.api.tokens import Tokens
from holdfast.api.traces import make_traces
from holdfast.checkout.till import make_till
from holdfast.domain.commands import Command
from holdfast.engine import Holdfast
from holdfast.followers.crew import Crew
from holdfast.followers.live import Live
from holdfast.lab.runs.laboratory import Laboratory, Pass
from holdfast.lab.runs.trials import RUN_SECONDS_MAX
from holdfast.pages.site import Site
from holdfast.settings import Settings
from holdfast.tasks import end_task

CROWD = "a run of the lab"


class Service:
    """Opened with the shop. `draining` makes /readyz say no, so that no more requests come."""

    def __init__(self, shop: Holdfast, *, upkeep: bool = True) -> None:
        self.shop = shop
        self.settings: Settings = shop.settings
        self.keys = Keys(shop.store)
        self.crew = Crew(shop, working=upkeep)
        self.projections = self.crew.projections
        self.charts = Charts(shop)
        self.live = Live(shop, self.charts)
        self.metrics = Metrics(shop, lambda: self.in_hand, self.lags, self.crew, self.live)
        self.traces = make_traces(os.environ)
        shop.batched = self._batched
        self.limits = Limits(self.settings, shop.gate)
        self.site = Site()
        self.pages_key: str | None = None
        """The public key that the pages call with, revoked or not; None without pages."""
        self.reservations = Reservations(shop.store)
        self.till = make_till(shop, upkeep=upkeep)
        self.laboratory = Laboratory(shop, self._admit_crowd, self._batches)
        self.hints: set[asyncio.Task[None]] = set()
        """Orders that are looked at because a provider said something about them."""
        self.in_hand = 0
        """Calls that are not answered yet, also those whose body is still to come."""
        self.patience = Patience(self.settings.body_seconds)
        self.draining = False
        self.trusted = read_networks(self.settings.trusted_proxies)

    async def __aenter__(self) -> Self:
        await self.shop.__aenter__()
        try:
            # Into any other store it was put before the first worker, and may be revoked since.
            if self.settings.admin_key and self.settings.store == "memory://":
                await self.keys.ensure_admin(self.settings.admin_key)
            await self.keys.open()
            secret = await deployment_secret(self.shop.store, self.settings.secret or None)
            if self.settings.pages == "on":
                self.pages_key = pages_key(secret)
                await self.keys.ensure_pages(self.pages_key)
        except BaseException:
            await self.__aexit__()
            raise
        self.tokens = Tokens(secret)
        self.callers = Callers(self.keys, self.tokens)
        await self.till.__aenter__()
        await self.crew.__aenter__()
        self.live.start()
        self.patience.start()
        self.metrics.start()
        return self

    async def drain(self) -> None:
        """Says that this process is about to stop, and ends what would go on for ever."""
        self.draining = True
        await self.live.stop()
        await self.laboratory.stop()

    async def __aexit__(self, *exc: object) -> None:
        try:
            await self.live.stop()
            await self.laboratory.stop()
            await self.patience.stop()
            for hint in list(self.hints):
                await end_task(hint)
            await self.crew.__aexit__()
            await self.till.__aexit__()
            await self.keys.close()
        finally:
            await self.shop.__aexit__(*exc)
            await self.metrics.stop()
            if self.traces is not None:
                await asyncio.to_thread(self.traces.close)

    def lags(self) -> dict[str, int]:
        """Of each follower of the log in this process: the facts that it is behind."""
        return {"live": max(self.live.lags().values(), default=0), **self.crew.lags()}

    async def _admit_crowd(self) -> Pass:
        """As a shop's own server: for the lab's buyers no limit shall count."""
        key = await self.keys.lend(Role.SELLER, CROWD, 2 * RUN_SECONDS_MAX)
        return Pass(key, partial(self.keys.take_back, key))

    async def _batches(self) -> tuple[int, int]:
        if self.settings.workers > 1:
            await asyncio.sleep(1.2 * WRITE_SECONDS)  # until the others have told
        return await self.metrics.batches()

    def _batched(self, commands: Sequence[Command], seconds: float) -> None:
        self.metrics.batch(len(commands), seconds)
        if self.traces is not None:
            self.traces.batch(commands, seconds)
