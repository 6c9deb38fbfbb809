"""The gate in Redis: one script, one round trip, for a whole batch of operations."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from redis import exceptions as err
from redis.asyncio import (
    BlockingConnectionPool,
    Connection,
    Redis,
    RedisCluster,
    SSLConnection,
    UnixDomainSocketConnection,
)
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from holdfast.domain.gating import Find, Op, Snapshot, Verdict
from holdfast.domain.model import Millis
from holdfast.errors import GateDown
from holdfast.gates.redis import wire
from holdfast.gates.redis.address import read_address
from holdfast.gates.redis.errors import DRIVER, is_replica, translation
from holdfast.gates.redis.scripts import PARTS, Script, load_script

PREFIX = "holdfast"
KEYS = ("seats", "owners", "deadlines", "stock", "claimed", "units", "version")
"""Of each event, in the order in which the script has them."""
UNITS_KEYS = ("reserved", "due", "totals")
"""Of all who reserve units, in the order in which their scripts have them."""
RUN_OPS_MAX = 250
"""Operations in one script: Redis serves nobody else meanwhile."""
CONNECTIONS_MAX = 16
"""A batch needs one for a millisecond; more would only queue in Redis."""
NODE_CONNECTIONS_MAX = 1_000
"""In a cluster, past this an ask fails instead of waiting: more than there are calls at a time."""
SCAN_KEYS = 1_000
LONG_MS = 10_000
"""For what moves much and is waited for by nobody: snapshots, and the list of events."""
CLUSTER_TURNS = 2
"""In a cluster a call may first have to ask who has the event now, and that of a silent node."""
PLAIN: dict[str, Any] = {  # keyword arguments of the driver
    "retry": Retry(NoBackoff(), 0),  # whoever asked goes on without the gate, at once
    "protocol": 2,
    "driver_info": None,  # else each connection begins with telling the driver's name
}

RUN = load_script(*PARTS)
LEASE = load_script("lease")
MOMENT = load_script("moment")
TAKE = load_script("take")
RESERVE_UNITS = load_script("units", "reserve_units")
FREE_UNITS = load_script("units", "free_units")


class RedisGate:
    """Every call takes `timeout_ms` at most, what is long excepted, and raises GateDown when it did
    not succeed; then some of it may have been done, or may still be. The next call tries anew."""

    shared = True

    def __init__(
        self,
        url: str,
        timeout_ms: int,
        clock: Callable[[], Millis] | None = None,
        prefix: str = PREFIX,
    ) -> None:
        """Redis's clock is the clock, unless a test brings its own."""
        self._prefix = prefix
        self._address = read_address(url)
        self._timeout_ms = timeout_ms
        self._clock = clock
        # Redis or RedisCluster, of which the driver's types cannot say what they have in common.
        self._client: Any = None

    @property
    def url(self) -> str:
        return self._address.shown

    async def open(self) -> None:
        """Asks nobody yet: a gate that is down when the shop opens is as good as one that goes down
        later."""
        if self._client is None:
            self._client = self._cluster() if self._address.cluster else self._single()

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with suppress(*DRIVER):
                async with asyncio.timeout(self._timeout_ms / 1000):
                    await client.aclose()

    async def run(self, event: str, version: int, ops: Sequence[Op]) -> list[Verdict]:
        """One round trip for each 250 operations: what is more is not one moment any more."""
        keys = self._keys(event)
        now = self._now()
        verdicts: list[Verdict] = []
        for start in range(0, len(ops) or 1, RUN_OPS_MAX):
            async with self._asking() as client:
                part = ops[start : start + RUN_OPS_MAX]
                reply = await _evaluate(client, RUN, keys, str(version), wire.pack(part), now)
                verdicts += wire.unpack(reply, len(part))
        return verdicts

    async def snapshot(self, event: str) -> Snapshot:
        """A transaction, not a script: what is long is sent as it is, not through Lua."""
        seats, owners, deadlines, stock, claimed, units, version = self._keys(event)
        async with self._asking(LONG_MS) as client:
            pipe = client.pipeline(transaction=True)
            pipe.eval(MOMENT.text, 1, version)
            pipe.execute_command("ZCARD", deadlines)  # not needed, but it has to be of its kind
            pipe.get(version)
            for key in (stock, claimed, units, seats, owners):
                # Not hgetall(), which the driver's cluster cannot read in a transaction.
                pipe.execute_command("HGETALL", key)
            (seconds, micros), _, number, *hashes = await pipe.execute()
            now = int(seconds) * 1000 + int(micros) // 1000
            now = now if self._clock is None else self._clock()
            found, dead = wire.read_snapshot(now, number, *hashes)
        if dead:
            # Every run sweeps those whose time is over, by their deadlines. Should that key have
            # been evicted they would be there for ever: whoever is looked for by name is swept too.
            await self.run(event, 0, [Find(id) for id in dead[:RUN_OPS_MAX]])
        return found

    async def events(self) -> list[str]:
        found: set[str] = set()
        async with self._asking(LONG_MS) as client:
            async for key in client.scan_iter(match=f"{self._prefix}:{{*}}:*", count=SCAN_KEYS):
                event, _, kind = key.decode().removeprefix(f"{self._prefix}:{{").rpartition("}:")
                if kind in ("version", "owners"):
                    found.add(event)
        return sorted(found)

    async def clear(self, event: str) -> None:
        async with self._asking() as client:
            await client.execute_command("UNLINK", *self._keys(event))

    async def lease(self, name: str, holder: str, lease_ms: int) -> bool:
        async with self._asking() as client:
            key = f"{self._prefix}:lease:{{{name}}}"
            return bool(await _evaluate(client, LEASE, [key], holder, str(lease_ms)))

    async def take(self, name: str, rate: float, burst: float, want: int) -> tuple[int, float]:
        key = f"{self._prefix}:bucket:{{{name}}}"
        asked = (repr(rate), repr(burst), str(want), self._now())
        async with self._asking() as client:
            granted, left = await _evaluate(client, TAKE, [key], *asked)
            return int(granted), float(left)

    async def reserve_units(
        self, name: str, hold: str, units: int, most: int, keep_ms: Millis
    ) -> bool:
        asked = (self._now(), name, hold, str(units), str(most), str(keep_ms))
        async with self._asking() as client:
            return bool(await _evaluate(client, RESERVE_UNITS, self._units_keys(), *asked))

    async def free_units(self, hold: str) -> None:
        async with self._asking() as client:
            await _evaluate(client, FREE_UNITS, self._units_keys(), self._now(), hold)

    def _now(self) -> str:
        """As scripts are told it: nothing means that they look for themselves."""
        return "" if self._clock is None else str(self._clock())

    def _keys(self, event: str) -> list[str]:
        """All with the event's hash tag: in a cluster they are in one place."""
        return [f"{self._prefix}:{{{event}}}:{kind}" for kind in KEYS]

    def _units_keys(self) -> list[str]:
        return [f"{self._prefix}:units:{{all}}:{kind}" for kind in UNITS_KEYS]

    @asynccontextmanager
    async def _asking(self, timeout_ms: int | None = None) -> AsyncIterator[Any]:
        """The driver's client. Whatever is done with it ends in time, and its errors stop here."""
        if self._client is None:
            raise GateDown(f"{self.url} is not open")
        limit_ms = timeout_ms or self._timeout_ms * (CLUSTER_TURNS if self._address.cluster else 1)
        try:
            async with asyncio.timeout(limit_ms / 1000):
                yield self._client
        except DRIVER as cause:
            if is_replica(cause):
                await self._hang_up()
            address = self._address
            raise translation(address.shown, address.password, limit_ms, cause) from cause

    async def _hang_up(self) -> None:
        """This was the master once, or the name leads elsewhere by now: next time, ask anew."""
        if isinstance(self._client, Redis):
            await self._client.connection_pool.disconnect(inuse_connections=False)

    def _single(self) -> Any:
        address = self._address
        where: dict[str, Any] = {"host": address.host, "port": address.port}  # of the driver
        kind: type[AbstractConnection] = Connection
        if address.scheme == "unix":
            where, kind = {"path": address.path}, UnixDomainSocketConnection
        elif address.scheme == "rediss":
            where, kind = where | address.tls, SSLConnection
        pool = BlockingConnectionPool(
            max_connections=CONNECTIONS_MAX,
            timeout=self._timeout_ms / 1000,
            connection_class=kind,
            db=address.db,
            socket_connect_timeout=self._timeout_ms / 1000,
            # Each call has its own limit, since a snapshot may take longer than a claim.
            socket_timeout=None,
            **where,
            **address.login,
            **PLAIN,
        )
        return Redis.from_pool(pool)

    def _cluster(self) -> Any:
        address = self._address
        seconds = self._timeout_ms / 1000
        options: dict[str, Any] = {**address.tls, **address.login, **PLAIN}  # of the driver
        return RedisCluster(
            host=address.host,
            port=address.port,
            # Slots that nobody serves are the trouble of their events, not of all.
            require_full_coverage=False,
            max_connections=NODE_CONNECTIONS_MAX,
            # Here the driver has to notice by itself: a node that is silent makes it ask the others
            # who has its slots now.
            socket_timeout=seconds,
            socket_connect_timeout=seconds,
            ssl=address.scheme == "rediss",
            **options,
        )


async def _evaluate(client: Any, script: Script, keys: list[str], *args: str | bytes) -> Any:
    """What the script returns; the driver cannot know its type, nor that of the client."""
    rest = (len(keys), *keys, *args)
    try:
        return await client.execute_command("EVALSHA", script.sha, *rest)
    except err.NoScriptError:
        # A server that was restarted, flushed or has just become the master: with its text the
        # script is done, and known again, at once.
        return await client.execute_command("EVAL", script.text, *rest)
