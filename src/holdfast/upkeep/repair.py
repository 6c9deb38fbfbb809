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
    repaired = []
    drifted = [checked.event async for checked in check_store(store, only) if checked.drift]
    for event in drifted:
        fixed = await store.mend(event)
        left = [drift async for after in check_store(store, event) for drift in after.drift]
        repaired.append(Repaired(event, fixed, left))
    return repaired
