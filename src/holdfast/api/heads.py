"""Heads of requests that came before, byte for byte: what they say is known.

A program that calls again and again sends the same head each time, and another body. Where all of
a request comes at once, and nothing else with it, its head need not be parsed anew: the same bytes
mean the same (measured: a tenth of what a refusal takes, or a handler that does nothing).
"""

from typing import NamedTuple

from holdfast.api.exchange import Exchange, Header

END = b"\r\n\r\n"
HEAD_BYTES_MAX = 1_024
HEADS_MAX = 1_000
ONCE_ONLY = b"dempotency-"
"""A head with a key of its own does not come twice. Nor does many another, so a head is kept when
it comes for the second time."""


class Head(NamedTuple):
    method: str
    target: bytes
    headers: tuple[Header, ...]
    length: int
    """Of the body."""


class Heads:
    def __init__(self) -> None:
        self._known: dict[bytes, Head | None] = {}
        """None: it came once."""

    def get(self, head: bytes) -> Head | None:
        return self._known.get(head)

    def came(self, head: bytes, length: int, exchange: Exchange) -> None:
        """A request came at once, with that head and so long a body, and was no strange one."""
        if exchange.expects or exchange.version != "1.1":
            return
        if len(head) > HEAD_BYTES_MAX or ONCE_ONLY in head:
            return
        known = self._known
        if head in known:
            known[head] = Head(exchange.method, exchange.target, tuple(exchange.headers), length)
            return
        if len(known) >= HEADS_MAX:
            known.clear()
        known[head] = None
