"""What tests of shops behind a gate share: stores and gates that fail when told to, and ways to
look behind a gate's back."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.domain.commands import Command
from holdfast.domain.gating import Op, Owned, Snapshot, Verdict
from holdfast.domain.outcomes import Answer
from holdfast.errors import GateDown
from holdfast.gates.memory import MemoryGate
from holdfast.ports import Committed, Store, nothing
from holdfast.settings import Settings
from holdfast.stores.memory import MemoryStore
from holdfast.upkeep.reconcile import Mended, reconcile
from tests.conftest import Clock, drift
from tests.contract.helpers import E1


async def passed() -> None:
    """Nothing in the way."""


class Desk(MemoryStore):
    """An authority that counts its batches, and may be slow or unlucky before and after each."""

    def __init__(self, clock: Clock, same_as: "Desk | None" = None) -> None:
        super().__init__(clock)
        if same_as is not None:
            self._events = same_as._events
        self.asked: list[Command] = []
        self.before: Callable[[], Awaitable[None]] = passed
        self.after: Callable[[], Awaitable[None]] = passed

    async def apply(
        self, commands: Sequence[Command], committed: Committed = nothing
    ) -> list[Answer]:
        self.asked.extend(commands)
        await self.before()
        answers = await super().apply(commands, committed)
        await self.after()
        return answers


class Post(MemoryGate):
    """A gate that notes what it is asked, and is down when told to."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.asked: list[Op] = []
        self.down = False
        self.deaf_to: tuple[type, ...] = ()

    def _answer(self) -> None:
        if self.down:
            raise GateDown("told to")

    async def run(self, event: str, version: int, ops: Sequence[Op]) -> list[Verdict]:
        self.asked.extend(ops)
        if any(isinstance(op, self.deaf_to) for op in ops):
            raise GateDown("told to")
        self._answer()
        return await super().run(event, version, ops)

    async def snapshot(self, event: str) -> Snapshot:
        self._answer()
        return await super().snapshot(event)

    async def clear(self, event: str) -> None:
        self._answer()
        await super().clear(event)

    async def lease(self, name: str, holder: str, lease_ms: int) -> bool:
        self._answer()
        return await super().lease(name, holder, lease_ms)

    async def close(self) -> None:
        """Another shop of the test may still stand before it."""


@asynccontextmanager
async def opened(
    store: Store, gate: MemoryGate | None, clock: Clock, policy: str, **settings: Any
) -> AsyncIterator[Holdfast]:
    """A shop that does by itself only what it is asked: reconciliation is the test's to call."""
    named = {"gate": "memory://" if gate else "none", "refusal_cache": False} | settings
    chosen = Settings(store=store.url, policy=policy, **named)
    async with Holdfast(store, chosen, gate=gate, upkeep=False, clock=clock) as shop:
        if shop.reconciler is not None:
            await shop.reconciler.stop()
        yield shop
        if isinstance(gate, Post):
            gate.down, gate.deaf_to = False, ()
        assert await drift(store) == []


@contextmanager
def down(gate: Post) -> Iterator[None]:
    gate.down = True
    yield
    gate.down = False


async def kept(shop: Holdfast, event: str = E1) -> dict[str, Owned]:
    """What the gate keeps, by owner."""
    assert shop.gate is not None
    return {each.owned.id: each.owned for each in (await shop.gate.snapshot(event)).owners}


async def noted(shop: Holdfast, event: str = E1) -> dict[str, str]:
    """Who is noted at each seat in the gate."""
    assert shop.gate is not None
    return (await shop.gate.snapshot(event)).seats


async def differences(shop: Holdfast, event: str = E1) -> list[str]:
    """What a reconciliation would find."""
    assert shop.gate is not None
    found = await reconcile(shop.store, shop.gate, event, mend=False)
    return found.lines if found else []


async def mend(shop: Holdfast, event: str = E1) -> Mended:
    assert shop.gate is not None
    found = await reconcile(shop.store, shop.gate, event)
    assert found is not None
    return found


@pytest.fixture
def no_pause(monkeypatch) -> None:
    """A gate that failed is tried again at once."""
    monkeypatch.setattr("holdfast.gates.keeper.PAUSE_FIRST_SECONDS", 0.0)


@pytest.fixture
def no_waiting(monkeypatch) -> None:
    """Between two attempts a lane only lets others run."""
    monkeypatch.setattr("holdfast.lanes.RETRY_FIRST_SECONDS", 0)


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)
