"""Ids of our own: 26 characters, sortable by time, so that new rows land side by side on disk."""

import hashlib
import secrets
import time
from typing import Any

import msgspec

from holdfast.domain.limits import EVENT_ID

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
PAIRS = [first + second for first in ALPHABET for second in ALPHABET]
PUBLIC_CHARS_MAX = 130


def new_id() -> str:
    """48 bits of time and 80 of chance, as ULIDs have them. The time orders, it decides nothing."""
    value = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    return "".join([PAIRS[(value >> shift) & 1023] for shift in range(120, -1, -10)])


def public_id(event: str, id: str) -> str:
    return f"{event}.{id}"


def event_of(id: str) -> str | None:
    """The event that a public id belongs to; None if it cannot be anybody's."""
    if not isinstance(id, str) or len(id) > PUBLIC_CHARS_MAX:
        return None
    event, dot, _ = id.partition(".")
    return event if dot and EVENT_ID.fullmatch(event) else None


def digest(*asked: Any) -> str:  # whatever a command was made of
    """A fingerprint of what was asked, to notice the same id with another ask."""
    return hashlib.blake2b(msgspec.json.encode(asked, order="sorted"), digest_size=16).hexdigest()
