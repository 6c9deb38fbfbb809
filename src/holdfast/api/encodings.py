"""Which form of an answer a caller gets: Accept-Encoding, as RFC 9110 (12.5.3) has it."""

import re
from collections.abc import Iterable

ASKED = re.compile(r"([!#$%&'*+.^_`|~0-9a-z-]+)\s*(?:;\s*q\s*=\s*([01](?:\.[0-9]{0,3})?))?\s*")


def choose(accept: str | None, offered: Iterable[str]) -> str:
    """Of what is offered, best first, the one the caller likes most; `identity` where he said
    nothing, or nothing that can be read."""
    if not accept:
        return "identity"
    likes: dict[str, float] = {}
    for part in accept.lower().split(","):
        if asked := ASKED.fullmatch(part.strip()):
            likes.setdefault(asked[1], float(asked[2] or 1))
    others = likes.get("*", 0.0)
    # What is not named may always come as it is, but nobody prefers that.
    likes.setdefault("identity", others if "*" in likes else 0.0005)
    best = max(offered, key=lambda each: likes.get(each, others), default="identity")
    return best if likes.get(best, others) > 0 else "identity"
