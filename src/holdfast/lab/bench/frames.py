"""What a crowd was told: whether the frames of each join without a gap, and in what map they end.

Most of a crowd is told the same, byte for byte, so a frame is read once and a way through the
frames is walked once, however many went it. Nothing is taken on trust for that: frames are the same
where their bytes are.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

_decode = msgspec.json.decode
_encode = msgspec.json.encode


class Told(NamedTuple):
    """A frame that was read. A snapshot joins whatever was before it: its `first` is 0."""

    number: int
    first: int
    last: int
    states: Mapping[str, str]
    pools: Mapping[str, int]


class Ledger:
    """Every frame that anybody was sent, once."""

    def __init__(self) -> None:
        self._told: dict[bytes, Told] = {}
        self._numbered: list[Told] = []

    def __len__(self) -> int:
        return len(self._numbered)

    def is_snapshot(self, number: int) -> bool:
        return self._numbered[number].first == 0

    def read(self, frame: bytes) -> Told:
        told = self._told.get(frame)
        if told is None:
            told = self._told[frame] = _read(len(self._numbered), _decode(frame))
            self._numbered.append(told)
        return told

    def digest(self, way: Iterable[int]) -> str:
        """Of the map that whoever was told these frames, one after the other, has in the end."""
        states: dict[str, str] = {}
        pools: dict[str, int] = {}
        for number in way:
            told = self._numbered[number]
            if told.first == 0:
                states, pools = dict(told.states), dict(told.pools)
            else:
                states.update(told.states)
                pools.update(told.pools)
        return digest(states, pools)


class Way:
    """What one watcher was told, and whether it noticed that something was missing."""

    __slots__ = ("_ledger", "gaps", "numbers", "seq")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.numbers: list[int] = []
        """Of the frames, in the order in which they came."""
        self.seq = -1
        self.gaps = 0

    def see(self, frame: bytes) -> None:
        told = self._ledger.read(frame)
        if told.first and told.first != self.seq + 1:
            self.gaps += 1
        self.seq = told.last
        self.numbers.append(told.number)


def digests(ledger: Ledger, ways: Iterable[Way]) -> dict[str, int]:
    """How many of them ended in which map."""
    walked = Counter(tuple(way.numbers) for way in ways)
    ended: Counter[str] = Counter()
    for way, walkers in walked.items():
        ended[ledger.digest(way)] += walkers
    return dict(ended)


def digest_of_map(body: bytes) -> str:
    """The same, of an answer of `GET .../seats`."""
    told = _read(0, {"type": "snapshot", **_decode(body)})
    return digest(told.states, told.pools)


def digest(states: Mapping[str, str], pools: Mapping[str, int]) -> str:
    told = _encode([sorted(states.items()), sorted(pools.items())])
    return hashlib.blake2b(told, digest_size=16).hexdigest()


def _read(number: int, frame: Any) -> Told:  # JSON
    if frame["type"] == "snapshot":
        states = {seat["id"]: seat["state"] for seat in frame["seats"]}
        pools = {pool["id"]: pool["available"] for pool in frame["pools"]}
        return Told(number, 0, frame["seq"], states, pools)
    changes = dict(frame["changes"])
    return Told(number, frame["from"], frame["to"], changes, frame.get("pools", {}))
