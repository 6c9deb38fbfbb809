"""Named queries from .sql files: `-- name: x` begins one, comments below it say why."""

import re
from importlib.resources import files

NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def load_queries(package: str, file: str = "queries.sql") -> dict[str, str]:
    text = (files(package) / file).read_text(encoding="utf-8")
    _, *parts = NAME.split(text)
    named = zip(parts[::2], parts[1::2], strict=True)
    return {name: _bare(body) for name, body in named}


def _bare(body: str) -> str:
    lines = (line for line in body.splitlines() if not line.lstrip().startswith("--"))
    return "\n".join(lines).strip().rstrip(";")
