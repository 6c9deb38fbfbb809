"""Every route, in one table: Falcon's router, the check of roles and the OpenAPI document are made
from it."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from holdfast.api.calls import BODY_BYTES_MAX, Call, Reply
from holdfast.api.keys import Role
from holdfast.api.service import Service

Handler = Callable[[Service, Call], Awaitable[Reply]]

ANYBODY: frozenset[Role] = frozenset()
"""Without a key."""
EVERY_ROLE = frozenset(Role)
SELLING = frozenset({Role.SELLER, Role.ADMIN})
ADMIN = frozenset({Role.ADMIN})


class Route(msgspec.Struct, frozen=True, kw_only=True):
    method: str
    path: str
    handle: Any  # a Handler; msgspec does not know callables
    roles: frozenset[Role] = EVERY_ROLE
    operation: str = ""
    """Its operationId: one verb from end to end, as placeHold."""
    summary: str
    body: Any = None
    """The type of its body, if it takes one."""
    body_required: bool = True
    body_max: int = BODY_BYTES_MAX
    answers: Mapping[int, Any] = {}
    """Of each status the type of its body; None where there is none."""
    media: str = "application/json"
    """What its answers are."""
    reasons: Mapping[int, tuple[str, ...]] = {}
    """Of each status the reasons that its problem may give."""
    query: Mapping[str, str] = {}
    """Names of query parameters, each a whole number, and what they say."""
    least: Mapping[str, int] = {}
    """Of those the smallest, where it is not 0."""
    texts: Mapping[str, str] = {}
    """Names of query parameters that must be there, each an id, and what they say."""
    headers: tuple[str, ...] = ()
    """Those of ours that it heeds: Idempotency-Key, Buyer-Token, Hold-Token, If-None-Match."""
    key_in_query: bool = False
    """Whether a public key may come as ?key=."""
    stream: bool = False
    hidden: bool = False
    """Whether it is no part of the API: the OpenAPI document does not show it."""

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def answers_head(self) -> bool:
        """As GET, without the body. Not a stream: what it would answer only a subscription tells,
        and that is a place among those who watch, taken for nobody."""
        return self.method == "GET" and not self.stream
