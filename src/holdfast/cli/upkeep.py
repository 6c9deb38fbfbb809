"""holdfast migrate, check and repair: looking after a store."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import typer

from holdfast.cli.shared import (
    DRIFT,
    Failed,
    GateOption,
    JsonOption,
    PolicyOption,
    StoreOption,
    opened_shop,
    print_json,
    print_table,
    read_settings,
    refused,
    say,
)
from holdfast.domain.outcomes import Reason, Refused
from holdfast.engine import Holdfast
from holdfast.upkeep.check import Checked, check_store
from holdfast.upkeep.reconcile import Mended
from holdfast.upkeep.repair import Repaired, repair_store
from holdfast.wiring import make_store

NOT_GATED = "; under policy authority the gate is not used: say --policy"
Named = dict[str, str | None]
"""Settings that were given on the command line."""
EventOption = Annotated[str | None, typer.Option("--event", metavar="ID", help="This event alone.")]


def migrate(store: StoreOption = None) -> None:
    """Create or upgrade the schema of a store. Safe to run at any time.

    Example: holdfast migrate --store sqlite:///shop.db
    """
    url, done = asyncio.run(_migrate(store))
    for step in done:
        say(f"{url}: {step}")
    if not done:
        say(f"{url}: up to date, nothing to do")


def check(
    store: StoreOption = None,
    gate: GateOption = None,
    policy: PolicyOption = None,
    event: EventOption = None,
    as_json: JsonOption = False,
) -> int:
    """Audit a store, and its gate; exit code 3 when something differs.

    Recomputes every counter and every unit from orders, holds and the log, and lists each
    difference. With a gate, what that keeps is compared with the store. It changes nothing and may
    run while sales go on.

    Example: holdfast check --store sqlite:///shop.db
    """
    named = {"store": store, "gate": gate, "policy": policy}
    url, checked, gates, compared = asyncio.run(_check(named, event))
    drift = sum(len(each.drift) for each in checked)
    gate_drift = sum(each.found for each in gates)
    clean = not drift and not gate_drift
    if as_json:
        found = {"store": url, "clean": clean, "drift": drift, "events": checked}
        print_json({**found, "gate_drift": gate_drift, "gates": gates})
    else:
        _print_checked(url, checked, drift)
        for line in (line for each in gates for line in each.lines):
            say(f"gate   {line}", "red")
        if compared is not None:
            say(f"gate: events compared: {compared:,}" + ("" if compared else NOT_GATED))
        if gate_drift:
            say("`holdfast repair`, with the same options, mends it; so does a reconciliation")
    return 0 if clean else DRIFT


def repair(
    store: StoreOption = None,
    gate: GateOption = None,
    policy: PolicyOption = None,
    event: EventOption = None,
) -> int:
    """Fix what check found, from the orders and holds; and the gate, from the store.

    Orders and holds themselves are never changed. Exit code 0 when all is well afterwards, 3 when
    something is left that only a person can decide, such as two orders for one seat.

    Example: holdfast repair --store sqlite:///shop.db
    """
    named = {"store": store, "gate": gate, "policy": policy}
    url, repaired, gates = asyncio.run(_repair(named, event))
    for line in (line for each in gates for line in each.lines):
        say(f"fixed  {line}", "green")
    for each in repaired:
        for fixed in each.fixed:
            say(f"fixed  {fixed}", "green")
        for drift in each.left:
            say(f"left   {drift}", "red")
    left = sum(len(each.left) for each in repaired)
    if not repaired and not any(each.found for each in gates):
        say(f"{url}: nothing to repair", "green")
    elif left:
        say("What is left only a person can decide, such as which of two buyers keeps a seat.")
    return DRIFT if left else 0


async def _migrate(store: str | None) -> tuple[str, list[str]]:
    migrated = make_store(read_settings({"store": store}))
    return migrated.url, await migrated.migrate()


async def _check(
    named: Named, event: str | None
) -> tuple[str, list[Checked], list[Mended], int | None]:
    async with _looked_at(named) as shop:
        await _find(shop, event)
        checked = [checked async for checked in check_store(shop.store, event)]
        if shop.reconciler is None:
            return shop.store.url, checked, [], None
        gates = await shop.reconciler.differences(event)
        return shop.store.url, checked, gates, len(await shop.reconciler.events(event))


async def _repair(named: Named, event: str | None) -> tuple[str, list[Repaired], list[Mended]]:
    async with _looked_at(named) as shop:
        await _find(shop, event)
        repaired = await repair_store(shop.store, event)
        gates = await shop.reconciler.round(event, strict=True) if shop.reconciler else []
        return shop.store.url, repaired, gates


@asynccontextmanager
async def _looked_at(named: Named) -> AsyncIterator[Holdfast]:
    if read_settings(named).gate == "memory://":
        raise Failed("the gate memory:// is another process's own: there is nothing to look at")
    async with opened_shop(**named) as shop:
        yield shop


async def _find(shop: Holdfast, event: str | None) -> None:
    if event is not None and await shop.event(event) is None:
        raise refused(Refused(Reason.UNKNOWN_EVENT, event))


def _print_checked(url: str, checked: list[Checked], drift: int) -> None:
    if checked:
        print_table(
            ("event", "seats", "pools", "holds", "orders", "facts", "drift"),
            [
                (c.event, c.seats, c.pools, c.holds, c.orders, c.facts, len(c.drift))
                for c in checked
            ],
        )
    if pruned := sum(each.pruned for each in checked):
        say(f"pruned facts, which were not there to be looked at: {pruned:,}")
    differences = [difference for each in checked for difference in each.drift]
    for difference in differences:
        say(f"drift  {difference}", "red")
    if not drift:
        say(f"{url}: clean; events checked: {len(checked):,}", "green")
        return
    mendable = sum(difference.mendable for difference in differences)
    say(f"{url}: {drift:,} found; {mendable:,} of them `holdfast repair` can fix")
