"""The Lua scripts: parts from .lua files, put together into what Redis is sent."""

from hashlib import sha1
from importlib.resources import files
from typing import NamedTuple

PACKAGE = "holdfast.gates.redis"
PARTS = ("book", "claim", "keep", "mark", "free", "find", "stock", "adjust", "main")
"""In this order: a part sees what the parts before it define."""


class Script(NamedTuple):
    text: str
    sha: str
    """What Redis calls it."""


def load_script(*parts: str) -> Script:
    text = "\n".join((files(PACKAGE) / f"{part}.lua").read_text(encoding="utf-8") for part in parts)
    # Redis chose SHA-1, as a name and not as a guard.
    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())
