"""Which form of an answer a caller gets: Accept-Encoding, as RFC 9110 (12.5.3) has it."""

import re
from collections.abc import Iterable, Mapping

from holdfast.api.calls import Call, Reply
from holdfast.pages.site import File

ASKED = re.compile(r"([!#$%&'*+.^_`|~0-9a-z-]+)\s*(?:;\s*q\s*=\s*([01](?:\.[0-9]{0,3})?))?\s*")

FOR_EVER = "public, max-age=31536000, immutable"
ASK_AGAIN = "no-cache"


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


def sent(call: Call, file: File, headers: Mapping[str, str]) -> Reply:
    """A file in the form the caller likes most, with these headers; 304 if he has it."""
    encoding = choose(call.header(b"accept-encoding"), file.forms)
    told = {
        **headers,
        "ETag": file.etag(encoding),
        "Cache-Control": FOR_EVER if file.lasting else ASK_AGAIN,
        "Vary": "Accept-Encoding",
    }
    if _has(call, file):
        return Reply(304, b"", told)
    if encoding != "identity":
        told["Content-Encoding"] = encoding
    return Reply(200, file.forms[encoding], told, file.media)


def _has(call: Call, file: File) -> bool:
    """Whether the caller has this very file, in whatever form."""
    return has_one(call, map(file.etag, file.forms))


def has_one(call: Call, tags: Iterable[str]) -> bool:
    """Whether the caller has what one of these tags stands for. Weak or strong is all the same
    where it is only asked what need not be sent again."""
    known = call.header(b"if-none-match")
    if known is None:
        return False
    had = {each.strip().removeprefix("W/") for each in known.split(",")}
    return "*" in had or not had.isdisjoint([tag.removeprefix("W/") for tag in tags])
