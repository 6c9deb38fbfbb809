"""What those who wait for an order are told, once: how it stands, or why nobody knows."""

import asyncio

from holdfast.domain.model import Order


class Told:
    """Nobody who waits keeps another from waiting, or from being told, by giving up."""

    __slots__ = ("_order", "_trouble", "_waiting")

    def __init__(self) -> None:
        self._order: Order | None = None
        self._trouble: BaseException | None = None
        self._waiting: list[asyncio.Future[Order]] = []

    @property
    def done(self) -> bool:
        return self._order is not None or self._trouble is not None

    @property
    def order(self) -> Order | None:
        """None where nothing was said, or only that there is trouble."""
        return self._order

    def say(self, order: Order) -> None:
        if self.done:
            return
        self._order = order
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(order)

    def fail(self, trouble: BaseException) -> None:
        if self.done:
            return
        self._trouble = trouble
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_exception(trouble)

    async def wait(self) -> Order:
        if self._order is not None:
            return self._order
        if self._trouble is not None:
            raise self._trouble
        waiting: asyncio.Future[Order] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        return await waiting
