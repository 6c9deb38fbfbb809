"""The auditor: recomputes every counter and unit from rows and log, and reports what differs."""

from collections.abc import AsyncIterator

import msgspec

from holdfast.domain.audit import Drift, LogAudit, audit
from holdfast.errors import StoreError
from holdfast.ports import Store
from holdfast.upkeep.pruned import pruned_through

LOG_PAGE = 5_000


class Checked(msgspec.Struct, frozen=True):
    """One event's audit."""

    event: str
    seats: int
    pools: int
    holds: int
    orders: int
    facts: int
    drift: list[Drift]
    pruned: int = 0
    """How many of the oldest facts were not there to be looked at."""


async def check_store(store: Store, only: str | None = None) -> AsyncIterator[Checked]:
    """Audits event by event, each in one snapshot, while sales go on."""
    for event in await store.strays():
        if only is None or event == only:
            what = "an event and its counter"
            missing = Drift(event, "rows", what, "one is missing", False, doubtful=True)
            yield Checked(event, 0, 0, 0, 0, 0, [missing])
    for event in await store.heads():
        if only is None or event == only:
            try:
                checked = await check_event(store, event)
            except (StoreError, TypeError) as cause:
                # One event that cannot be read must not hide what the others have.
                unreadable = Drift(event, "rows", "values of their kind", str(cause), False, True)
                checked = Checked(event, 0, 0, 0, 0, 0, [unreadable])
            if checked:
                yield checked


async def check_event(store: Store, event: str) -> Checked | None:
    census = await store.census(event)
    if census is None:
        return None
    replay = await _replayed(store, event, census.seq)
    if replay.pruned:
        # Asked for last: it is noted before facts go, so what is missing by now is in it.
        replay.begins_after(await pruned_through(store, event))
    return Checked(
        event=event,
        seats=len(census.seats),
        pools=len(census.pools),
        holds=len(census.holds),
        orders=len(census.orders),
        facts=replay.seq - replay.pruned,
        drift=[*audit(census), *replay.finish(census)],
        pruned=replay.pruned,
    )


async def _replayed(store: Store, event: str, last: int) -> LogAudit:
    """Facts never change once written, so those up to the snapshot's number belong to it."""
    replay = LogAudit(event)
    while replay.seq < last:
        page = await store.log(event, replay.seq, min(LOG_PAGE, last - replay.seq))
        if not page:
            break
        if page[0].seq != replay.seq + 1 and await _first(store, event) >= page[0].seq:
            # No gap: nothing before it is left. What was read before has lost its sequel.
            replay = LogAudit(event, pruned=min(page[0].seq - 1, last))
        replay.read(entry for entry in page if entry.seq <= last)
        if page[-1].seq >= last:
            break
    return replay


async def _first(store: Store, event: str) -> int:
    [first] = await store.log(event, 0, 1)
    return first.seq
