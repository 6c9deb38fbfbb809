"""A night at the box office in which everything happens that can be announced.

Runs on every version of Holdfast since the first that had a log: what a version cannot do yet is
left out. The fixtures were made with it, from the sources of old versions:

    PYTHONPATH=OLD/src python tests/facts/story.py FOLDER
"""

import asyncio
import json
import sqlite3
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from holdfast import Holdfast
from holdfast.settings import Settings
from holdfast.wiring import make_store

GALA = "gala"
START_MS = 1_790_000_000_000
EVENT: dict[str, Any] = {
    "id": GALA,
    "name": "Opening night",
    "currency": "EUR",
    "hold_seconds": 480,
    "grace_seconds": 300,
    "max_extensions": 1,
    "prices": {"gold": 9000, "silver": 6000, "floor": 4500},
    "sections": [
        {"id": "A", "tier": "gold", "rows": 2, "seats_per_row": 5},
        {"id": "B", "tier": "silver", "rows": 1, "seats_per_row": 2},
    ],
    "pools": [{"id": "floor", "capacity": 10, "tier": "floor"}],
}
BOX = {"id": "BOX-1", "section": "BOX", "row": "1", "number": 1, "tier": "gold"}


class Clock:
    def __init__(self) -> None:
        self.now_ms = START_MS

    def __call__(self) -> int:
        return self.now_ms

    def advance(self, ms: int = 1_000) -> None:
        self.now_ms += ms


# Any: the outcomes and the till of whichever version this runs on.
async def told(shop: Any, clock: Clock) -> None:
    await box_office(shop, clock)
    try:
        from holdfast.checkout.till import Till  # noqa: F401 - whether there is one
    except ImportError:
        return
    await checkout(shop, clock)


async def box_office(shop: Any, clock: Clock) -> None:
    await shop.create_event(EVENT)
    clock.advance()
    seats = ["A-1-1", "A-1-2"]
    placed = await shop.place_hold(GALA, buyer="ann", id="h1", seats=seats, pools={"floor": 2})
    for step in (shop.extend_hold, shop.pay_hold, shop.confirm_hold):
        clock.advance()
        await step(placed.hold.id)
    placed = await shop.place_hold(GALA, buyer="bob", id="h2", seats=["A-2-1"])
    clock.advance()
    await shop.release_hold(placed.hold.id)
    await shop.place_hold(GALA, buyer="zoë", id="h3", pools={"floor": 3})
    clock.advance(900_000)
    await shop.expire(GALA, 10)
    sold = await shop.sell(GALA, buyer="door", seats=["B-1-1"], pools={"floor": 1})
    clock.advance()
    await shop.cancel_order(sold.order.id)
    await shop.pause_event(GALA)
    await shop.open_event(GALA)
    await shop.add_capacity(GALA, {"seats": [BOX], "pools": [{"id": "floor", "capacity": 5}]})
    await shop.withdraw(GALA, seats=["BOX-1"])
    clock.advance()


async def checkout(shop: Any, clock: Clock) -> None:
    """Somebody pays in time and gets his money back; others pay too late, and get other seats,
    nothing, or, where the money was taken at once, that back."""
    from holdfast.checkout.payments.bank import Bank
    from holdfast.checkout.payments.sandbox import SandboxProvider
    from holdfast.checkout.saga import Step
    from holdfast.checkout.till import Till

    meanwhile: dict[Any, Callable[[], Awaitable[None]]] = {}

    @asynccontextmanager
    async def trap(step: Any) -> AsyncIterator[None]:
        if step in meanwhile:
            await meanwhile.pop(step)()
        yield

    provider: Any = SandboxProvider(Bank(clock=lambda: clock() / 1000))
    till = Till(shop, provider, resume=False, trap=trap)

    async def bought(nth: int, seats: list[str], rival: list[str], **how: Any) -> str:
        hold = (await shop.place_hold(GALA, buyer=f"late-{nth}", id=f"l{nth}", seats=seats)).hold

        async def too_late() -> None:
            clock.now_ms = hold.hard_ms + 1
            await shop.sell(GALA, buyer="rival", seats=rival)

        if rival:
            meanwhile[Step.SETTLE] = too_late
        order = (await till.buy(hold.id, "sandbox:ok", key=f"key:{nth}", **how)).order
        await finished()
        assert order is not None
        return order.id

    async def finished() -> None:
        while till._tasks:
            await asyncio.gather(*till._tasks.values())
        clock.advance()

    in_time = await bought(1, ["A-1-3"], [])
    await bought(2, ["A-1-4"], ["A-1-4"], other_seats=True)
    await till.cancel(in_time)
    await finished()
    await bought(3, ["B-1-1"], ["B-1-1", "B-1-2"])
    authorize = provider.authorize

    async def taken_at_once(charge: Any) -> Any:
        await authorize(charge)
        return await provider.capture(charge)

    provider.authorize = taken_at_once
    await bought(4, ["A-2-5"], ["A-1-3", "A-2-1", "A-2-2", "A-2-3", "A-2-4", "A-2-5"])
    await finished()


async def written(folder: Path) -> list[dict[str, Any]]:
    """The rows of the log, as that version wrote them into a file."""
    clock = Clock()
    store = make_store(Settings(store=f"sqlite:///{folder / 'shop.db'}"), clock)
    async with Holdfast(store, Settings(), upkeep=False) as shop:
        await told(shop, clock)
    with sqlite3.connect(folder / "shop.db") as file:
        rows = file.execute("SELECT event, seq, type, at_ms, data FROM log ORDER BY seq").fetchall()
    names = ("event", "seq", "type", "at_ms")
    return [dict(zip(names, row, strict=False)) | {"data": json.loads(row[4])} for row in rows]


def main(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        rows = asyncio.run(written(Path(scratch)))
    folder.mkdir(exist_ok=True)
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    (folder / "log.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    print(len(rows), "facts of", sorted({row["type"] for row in rows}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
