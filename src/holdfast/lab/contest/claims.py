"""Redis as strategies use it: a few connections, one call at a time on each, every call counted."""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from holdfast.errors import GateDown, SettingsError
from holdfast.lab.contest.lending import Lending

PREFIX = "holdfast-lab:"
"""How all keys of the lab begin: no other is touched."""
SCAN_KEYS = 1_000

Argument = str | int


class Counts(Protocol):
    redis_calls: int


class Claims:
    def __init__(self, url: str | None, counts: Counts) -> None:
        self._url = url
        self._counts = counts
        self._clients: list[Any] = []  # redis-py's, whose answers have no types
        self._lending: Lending[Any] = Lending()  # the same
        self._scripts: dict[str, str] = {}

    async def open(self, connections: int) -> None:
        """Opens none where there is no Redis."""
        if self._url is None:
            return
        import redis.asyncio as redis

        if "cluster=" in self._url:
            raise SettingsError("the lab takes one Redis, not a cluster: redis://host:port/0")
        for _ in range(connections):
            client = redis.Redis.from_url(
                self._url, single_connection_client=True, decode_responses=True
            )
            self._clients.append(client)
            self._lending.add(client)
            try:
                await client.ping()
            except (redis.RedisError, OSError) as cause:
                raise GateDown(f"Redis cannot be reached: {cause}") from cause

    async def close(self) -> None:
        while self._clients:
            await self._clients.pop().aclose()

    async def call(self, *command: Argument) -> Any:  # as Redis answers it
        """One command. Its key is the second word, without the lab's prefix."""
        self._counts.redis_calls += 1
        async with self._lending.lent() as client:
            return await client.execute_command(*command)

    async def script(self, name: str, keys: Sequence[str], args: Sequence[Argument]) -> Any:
        """Runs strategies/NAME.lua; what it returns is in its first lines."""
        if name not in self._scripts:
            self._scripts[name] = await self.call("SCRIPT", "LOAD", source(name))
        return await self.call("EVALSHA", self._scripts[name], len(keys), *keys, *args)

    async def clear(self) -> None:
        """Removes all that the lab has there."""
        if self._url is None:
            return
        cursor = "0"
        while True:
            cursor, keys = await self.call(
                "SCAN", cursor, "MATCH", f"{PREFIX}*", "COUNT", SCAN_KEYS
            )
            if keys:
                await self.call("UNLINK", *keys)
            if str(cursor) == "0":
                return


@functools.cache
def source(name: str) -> str:
    return (Path(__file__).parents[1] / "strategies" / f"{name}.lua").read_text(encoding="utf-8")


def key(*names: str) -> str:
    return PREFIX + ":".join(names)
