"""A few things that many need: each is lent to one at a time, in order of arrival."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

T = TypeVar("T")


class Lending(Generic[T]):
    """asyncio.Queue would not do: who gives back and asks again at once overtakes all who wait."""

    def __init__(self) -> None:
        self._idle: deque[T] = deque()
        self._waiting: deque[asyncio.Future[T]] = deque()

    def add(self, thing: T) -> None:
        """To the first who waits for it, else to whoever comes next."""
        while self._waiting:
            first = self._waiting.popleft()
            if not first.done():
                first.set_result(thing)
                return
        self._idle.append(thing)

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[T]:
        thing = await self._take()
        try:
            yield thing
        finally:
            self.add(thing)

    async def _take(self) -> T:
        if self._idle:
            return self._idle.popleft()
        waits: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(waits)
        return await waits
