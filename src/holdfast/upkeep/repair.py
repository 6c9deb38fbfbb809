"""Repair: what follows from holds and orders is written anew. Holds and orders are not touched:
where two buyers have one seat, or the log tells another story, a person has to look."""

import msgspec

from holdfast.domain.audit import Drift
from holdfast.ports import Store
from holdfast.upkeep.check import check_store


class Repaired(msgspec.Struct, frozen=True):
    event: str
    fixed: list[str]
    left: list[Drift]
    """What only a person can decide."""


async def repair_store(store: Store, only: str | None = None) -> list[Repaired]:
    """Mends event by event. Where holds or orders themselves are in doubt nothing is mended: what
    follows from a wrong order would be wrong too."""
    repaired = []
    drifted = [checked async for checked in check_store(store, only) if checked.drift]
    for checked in drifted:
        doubts = [drift for drift in checked.drift if drift.doubtful]
        if doubts:
            repaired.append(Repaired(checked.event, [], checked.drift))
            continue
        fixed = await store.mend(checked.event)
        left = [drift async for after in check_store(store, checked.event) for drift in after.drift]
        repaired.append(Repaired(checked.event, fixed, left))
    return repaired
