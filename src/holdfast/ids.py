"""Ids of our own: 26 characters, sortable by time, so that new rows land side by side on disk."""

import hashlib
import os
import time
import weakref
from functools import lru_cache
from typing import Any

import msgspec

from holdfast.domain.limits import EVENT_ID, PUBLIC_ID

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
PAIRS = [first + second for first in ALPHABET for second in ALPHABET]


CHANCE_CHARS = 16
SUPPLY_IDS = 256
TIME_SHIFTS = range(40, -1, -10)


class Ids:
    """48 bits of time, written as ULIDs write them, and 64 of chance. The time orders, it decides
    nothing.

    Chance is drawn from the system for many ids at a time: a call for each would cost more than
    the decision about a seat.
    """

    def __init__(self) -> None:
        self._supply = ""
        self._used = 0
        _all.add(self)
        self._time = 0, _written(0, TIME_SHIFTS)

    def new(self) -> str:
        used = self._used
        if used == len(self._supply):
            self._supply = os.urandom(CHANCE_CHARS // 2 * SUPPLY_IDS).hex().upper()
            used = 0
        self._used = used + CHANCE_CHARS
        now, written = self._time
        if now != (now := time.time_ns() // 1_000_000):
            written = _written(now, TIME_SHIFTS)
            self._time = now, written
        return written + self._supply[used : used + CHANCE_CHARS]

    def forget(self) -> None:
        self._supply, self._used = "", 0


_all: "weakref.WeakSet[Ids]" = weakref.WeakSet()


def _forked() -> None:
    """A child must not go on with its parent's supply."""
    for ids in _all:
        ids.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def _written(value: int, shifts: range) -> str:
    return "".join([PAIRS[(value >> shift) & 1023] for shift in shifts])


def public_id(event: str, id: str) -> str:
    return f"{event}.{id}"


def is_event_id(event: object) -> bool:
    """Whether there could be such an event at all."""
    return isinstance(event, str) and _fits_an_event(event)


@lru_cache(maxsize=1_000)  # a crowd asks for the same few
def _fits_an_event(id: str) -> bool:
    return EVENT_ID.fullmatch(id) is not None


def event_of(id: str) -> str | None:
    """The event that a public id belongs to; None if it cannot be anybody's."""
    found = PUBLIC_ID.fullmatch(id) if isinstance(id, str) else None
    return found[1] if found else None


def digest(*asked: Any) -> str:  # whatever a command was made of
    """A fingerprint of what was asked, to notice the same id with another ask."""
    return hashlib.blake2b(msgspec.json.encode(asked, order="sorted"), digest_size=16).hexdigest()
