"""Those who write wait while a client does not take what it is sent; and a client is not read from
while nobody takes what it sends."""

import asyncio


class Paced(asyncio.Protocol):
    __slots__ = ("_loop", "_reading", "_rooms", "_transport", "done")

    _transport: asyncio.Transport

    def __init__(self, loop: asyncio.AbstractEventLoop, done: "asyncio.Future[None]") -> None:
        """`done`: a future that is done, for all who need not wait."""
        self._loop = loop
        self.done = done
        self._reading = True
        self._rooms: list[asyncio.Future[None]] | None = None
        """Of those who wait for room, while there is none."""

    @property
    def full(self) -> bool:
        return self._rooms is not None

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    def _read_on(self, wanted: bool) -> None:
        """Goes on reading, or waits with it."""
        if wanted is self._reading or self._transport.is_closing():
            return
        self._reading = wanted
        if wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def written(self) -> "asyncio.Future[None]":
        """Ends when there is room for more."""
        if self._rooms is None:
            return self.done
        # One for each: whoever stops waiting ends nobody else's wait.
        room: asyncio.Future[None] = self._loop.create_future()
        self._rooms.append(room)
        return room

    def pause_writing(self) -> None:
        self._rooms = []

    def resume_writing(self) -> None:
        rooms, self._rooms = self._rooms or [], None
        for room in rooms:
            if not room.done():
                room.set_result(None)
