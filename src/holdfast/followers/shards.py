"""How the processes of one follower divide the events among themselves.

Events fall into a fixed number of shards, and one document tells who has which: its members, each
until an instant of the authority's clock, and the owner and the fence of every shard. Whoever
renews his membership reads it, takes what is free, gives up what is more than his share, and writes
it under its version: of two who do so at once one reads again. A member that is not renewed in time
is gone, and its shards are free.

A fence grows with every owner, and cursors are moved under it: an owner who does not know yet that
he was replaced moves none.
"""

import time
from collections.abc import Callable
from zlib import crc32

import msgspec

from holdfast.domain.model import Millis
from holdfast.domain.views import Document
from holdfast.ports import Store

KIND = "shards"
SHARDS = 64
LEASE_MS: Millis = 5_000
"""In which another has taken over what a dead member had."""
KEPT = 0.75
"""The part of it for which a membership lasts; in the rest the others notice."""
RENEW = 5
"""So many times within a lease everybody looks: two in a row may fail."""
TRIES_MAX = 10
"""Others write the same document. One who loses so often tries again at his next renewal."""


class Shard(msgspec.Struct, array_like=True):
    owner: str = ""
    """A member, or nobody."""
    fence: int = 0


class Table(msgspec.Struct):
    members: dict[str, Millis]
    """Each until when."""
    shards: list[Shard]
    seen_ms: Millis = 0
    """When a member last said that it is there."""


read_table = msgspec.json.Decoder(Table).decode


def shard_of(key: str) -> int:
    return crc32(key.encode()) % SHARDS


def empty() -> Table:
    return Table({}, [Shard() for _ in range(SHARDS)])


def renewed(table: Table, member: str, until_ms: Millis, now_ms: Millis) -> Table:
    """The table after a member has said that it is there until then: it has no more than its share,
    and as much of that as is free."""
    members = {name: until for name, until in table.members.items() if until > now_ms}
    members[member] = until_ms
    return Table(dict(sorted(members.items())), _shared(table, members, member), now_ms)


def without(table: Table, member: str, now_ms: Millis) -> Table:
    """The table after a member has left."""
    members = {name: until for name, until in table.members.items() if name != member}
    shards = [Shard("", each.fence) if each.owner == member else each for each in table.shards]
    return Table(members, shards, now_ms)


def _shared(table: Table, members: dict[str, Millis], member: str) -> list[Shard]:
    shards = [each if each.owner in members else Shard("", each.fence) for each in table.shards]
    mine = [nth for nth, each in enumerate(shards) if each.owner == member]
    free = [nth for nth, each in enumerate(shards) if not each.owner]
    share = _share(sorted(members), member)
    for nth in mine[share:]:
        shards[nth] = Shard("", shards[nth].fence)
    for nth in free[: max(0, share - len(mine))]:
        shards[nth] = Shard(member, shards[nth].fence + 1)
    return shards


def _share(members: list[str], member: str) -> int:
    """The first have one more where it does not divide evenly: each shard finds an owner."""
    each, over = divmod(SHARDS, len(members))
    return each + (members.index(member) < over)


class Shards:
    """One member's part. `renew` is called all the while, and what it has is asked before use."""

    def __init__(
        self,
        store: Store,
        follower: str,
        member: str,
        lease_ms: Millis = LEASE_MS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.follower = follower
        self.member = member
        self.lease_ms = lease_ms
        self._kept_ms = round(lease_ms * KEPT)
        self._store = store
        self._clock = clock
        self._fences: dict[int, int] = {}
        self._ends = float("-inf")
        self._told: tuple[Millis, float] = (0, 0.0)
        """The authority's time, and ours when it was asked for."""

    @property
    def renew_seconds(self) -> float:
        """How often `renew` is to be called."""
        return self.lease_ms / 1000 / RENEW

    def now_ms(self) -> Millis:
        """The authority's time, as far as it can be known without asking."""
        told, at = self._told
        return told + round((self._clock() - at) * 1000)

    @property
    def mine(self) -> dict[int, int]:
        """The shards that are surely ours, and their fences; none when the lease has run out."""
        return self._fences if self._clock() < self._ends else {}

    @staticmethod
    def fair(members: int) -> int:
        """How many shards a member has at most, where there are so many."""
        return -(-SHARDS // members)

    def fence(self, key: str) -> int:
        """Under which what belongs to that key is moved; 0 when that is not ours."""
        return self.mine.get(shard_of(key), 0)

    async def renew(self) -> None:
        """Reads, takes and writes as the module says. Raises what the store does."""
        # Counted from before the question: the authority's clock has gone on meanwhile, never back.
        began = self._clock()
        for _ in range(TRIES_MAX):
            table, version, now = await self._table()
            self._told = now, self._clock()
            table = renewed(table, self.member, now + self._kept_ms, now)
            if await self._put(table, version + 1):
                self._fences = {
                    nth: each.fence
                    for nth, each in enumerate(table.shards)
                    if each.owner == self.member
                }
                self._ends = began + self._kept_ms / 1000
                return
            began = self._clock()

    async def leave(self) -> None:
        """So that others need not wait for the end of the lease."""
        self._fences, self._ends = {}, float("-inf")
        for _ in range(TRIES_MAX):
            table, version, now = await self._table()
            if self.member not in table.members:
                return
            if await self._put(without(table, self.member, now), version + 1):
                return

    async def _table(self) -> tuple[Table, int, Millis]:
        documents, now = await self._store.documents(KIND, self.follower)
        if not documents:
            return empty(), 0, now
        return read_table(documents[0].body), documents[0].version, now

    async def _put(self, table: Table, version: int) -> bool:
        body = msgspec.json.encode(table).decode()
        return await self._store.put(Document(KIND, self.follower, version, body))
