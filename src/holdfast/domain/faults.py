"""What is wrong with an input: all of it at once, each with its place and its value."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.domain.limits import CALLER_ID, EVENT_ID, FAULTS_SHOWN_MAX, LABEL_CHARS_MAX

VALUE_SHOWN_CHARS = 80


class Fault(msgspec.Struct, frozen=True):
    path: str
    problem: str
    value: str = ""

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        shown = f" (got {self.value})" if self.value else ""
        return f"{where}{self.problem}{shown}"


def is_label(raw: object, most: int = LABEL_CHARS_MAX) -> bool:
    """Whether this may be the name of something: printable, no blanks at its ends."""
    if not isinstance(raw, str) or not 0 < len(raw) <= most:
        return False
    return raw.isprintable() and raw == raw.strip()


class Faults:
    """Collects faults while a raw value is read. Each reader returns something usable, so that
    reading goes on to the next fault; what was read counts only if `found` stayed empty."""

    def __init__(self) -> None:
        self.found: list[Fault] = []

    def add(self, path: str, problem: str, value: object = None) -> None:
        if len(self.found) < FAULTS_SHOWN_MAX:
            shown = "" if value is None else repr(value)
            if len(shown) > VALUE_SHOWN_CHARS:
                shown = shown[:VALUE_SHOWN_CHARS] + "…"
            self.found.append(Fault(path, problem, shown))

    def integer(self, path: str, raw: object, least: int, most: int) -> int:
        if raw is None:
            self.add(path, "is missing: a whole number")
        elif not isinstance(raw, int) or isinstance(raw, bool):
            self.add(path, "must be a whole number", raw)
        elif not least <= raw <= most:
            self.add(path, f"must be from {least} to {most}", raw)
        else:
            return int(raw)  # not an enumeration that only looks like a number
        return least

    def number(self, path: str, raw: object) -> float:
        if isinstance(raw, bool) or not isinstance(raw, int | float) or not abs(raw) < 1e9:
            self.add(path, "must be a number", raw)
            return 0.0
        return float(raw)

    def flag(self, path: str, raw: object) -> bool:
        if not isinstance(raw, bool):
            self.add(path, "must be true or false", raw)
            return False
        return raw

    def label(self, path: str, raw: object, most: int = LABEL_CHARS_MAX) -> str:
        """A name that a person chose: printable, no blanks at its ends."""
        if isinstance(raw, str) and is_label(raw, most):
            return raw
        if not isinstance(raw, str):
            self.add(path, "must be a text", raw)
        elif not raw or len(raw) > most:
            self.add(path, f"must have 1 to {most} characters", raw)
        else:
            self.add(path, "must be printable, without blanks at its ends", raw)
        return "?"

    def caller_id(self, path: str, raw: object) -> str:
        """An id that the caller chose, for something of his."""
        if not isinstance(raw, str) or not CALLER_ID.fullmatch(raw):
            self.add(path, "must be 1 to 64 letters, digits, or '-', '_', '.', ':'", raw)
            return "?"
        return raw

    def event_id(self, path: str, raw: object) -> str:
        if raw is None:
            self.add(path, "is missing")
            return "?"
        if not isinstance(raw, str) or not EVENT_ID.fullmatch(raw):
            rule = "must be 1 to 64 letters, digits, '-' or '_', beginning with a letter or digit"
            self.add(path, rule, raw)
            return "?"
        return raw

    def mapping(self, path: str, raw: object, known: Sequence[str] = ()) -> Mapping[str, Any]:
        """A JSON object. Where the names are known, another one is a typing mistake."""
        if not isinstance(raw, Mapping):
            self.add(path, "must be an object", raw)
            return {}
        for name in raw:
            if not isinstance(name, str):
                self.add(path, "names must be texts", name)
                return {}
            if known and name not in known:
                self.add(f"{path}.{name}".lstrip("."), f"unknown; known are {', '.join(known)}")
        return raw

    def items(self, path: str, raw: object, most: int) -> Iterator[tuple[str, Any]]:
        """The items of a JSON array, each with its path."""
        if isinstance(raw, str) or not isinstance(raw, Sequence):
            self.add(path, "must be a list", raw)
        elif len(raw) > most:
            self.add(path, f"may have at most {most} items", len(raw))
        else:
            for index, item in enumerate(raw):
                yield f"{path}[{index}]", item
