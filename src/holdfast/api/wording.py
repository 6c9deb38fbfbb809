"""What a decoder says of a body, in words for whoever sent it. It speaks to programmers, of its own
types; the ways in which it does are few, and each has a sentence here."""

import re
from collections.abc import Callable

from holdfast.domain.faults import Fault
from holdfast.domain.limits import PUBLIC_ID

Wording = Callable[[re.Match[str]], str]

TYPES = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "null": "null",
    "object": "an object",
    "str": "a text",
}
PARTS = {"array": "item", "object": "name", "str": "character"}
"""What the length of each is counted in."""
BOUNDS = {">=": "at least", ">": "more than", "<=": "at most", "<": "less than"}

PLACED = re.compile(r"(.*?)(?: - at (`key` in )?`\$([^`]*)`)?", re.DOTALL)
"""What is wrong, then its place: "Expected `int`, got `str` - at `$.best[0].quantity`"."""
FIELDS = {
    re.compile("Object missing required field `(.+)`", re.DOTALL): "is missing",
    re.compile("Object contains unknown field `(.+)`", re.DOTALL): "is not known here",
}
"""Of a field, whose name ends the path."""
WORDINGS: dict[re.Pattern[str], Wording] = {
    re.compile("Expected `([a-z |]+)`, got `([a-z]+)`"): (
        lambda said: f"must be {_types(said[1])}, not {_types(said[2])}"
    ),
    re.compile(r"Expected `(?:int|float)` ([<>]=?) (\S+)"): (
        lambda said: f"must be {BOUNDS[said[1]]} {said[2]}"
    ),
    re.compile("Expected `(str|array|object)` of length ([<>]=) ([0-9]+)"): (
        lambda said: f"must have {BOUNDS[said[2]]} {_counted(int(said[3]), PARTS[said[1]])}"
    ),
    re.compile("Expected `str` matching regex '(.+)'"): lambda said: _shape(said[1]),
    re.compile("(?:Number|Integer value) out of range"): (
        lambda said: "has a number that is too large"
    ),
    re.compile("Invalid enum value .+", re.DOTALL): (
        lambda said: "is not one of the values it may have"
    ),
}
OTHERWISE = "is not what it must be"
SHAPES = {
    f"^{PUBLIC_ID.pattern}$": (
        "must be an id as it was given, that of its event in front: opening-night.01J2..."
    )
}
"""What patterns say, where they say little to a reader."""

MALFORMED = re.compile(r"JSON is malformed: (.+) \(byte ([0-9]+)\)")
SPELLINGS = {
    "expected ':'": "a colon is missing",
    "expected ',' or ']'": "a comma or ] is missing",
    "expected ',' or '}'": "a comma or } is missing",
    "invalid number": "a number is not written as JSON has it",
    "object keys must be strings": "a name must be in double quotes",
    "trailing characters": "something follows after its end",
    "trailing comma in array": "a comma has nothing after it",
    "trailing comma in object": "a comma has nothing after it",
}


def not_json(body: bytes, trouble: Exception) -> Fault:
    """Of a body that cannot be read at all."""
    if not body:
        return Fault("", "the body is empty: it must be JSON")
    if isinstance(trouble, RecursionError):
        return Fault("", "the body is nested too deeply")
    return Fault("", f"the body is not JSON: {_spelling(body, trouble)}")


def _spelling(body: bytes, trouble: Exception) -> str:
    if isinstance(trouble, UnicodeDecodeError):
        return "it is not in UTF-8"
    said = MALFORMED.fullmatch(str(trouble))
    if said is None:
        return "it ends too early"
    # Counted from 1, and never past the end: a word is looked at when all of it was read.
    place = min(int(said[2]) + 1, len(body))
    return f"{SPELLINGS.get(said[1], 'what is there cannot be there')}, at byte {place}"


def misfit(text: str, within: str = "") -> Fault:
    """Of JSON that is not what is asked for; `within`: the path of what was decoded, if that is not
    the whole body."""
    said = PLACED.fullmatch(text)
    assert said is not None  # it matches everything
    problem, of_name, path = said[1], said[2], f"{within}{said[3] or ''}".removeprefix(".")
    for pattern, wording in FIELDS.items():
        if found := pattern.fullmatch(problem):
            return Fault(f"{path}.{found[1]}".lstrip("."), wording)
    words = _worded(problem)
    if of_name:
        return Fault(path, f"a name in it {words}")
    return Fault(path, words if path else f"the body {words}")


def _worded(problem: str) -> str:
    for pattern, wording in WORDINGS.items():
        if found := pattern.fullmatch(problem):
            return wording(found)
    return OTHERWISE


def _shape(pattern: str) -> str:
    """It comes as Python writes texts, with each backslash twice."""
    pattern = pattern.replace(r"\\", "\\")
    return SHAPES.get(pattern, f"must match {pattern}")


def _types(named: str) -> str:
    """In words: `int | null` is a whole number or null."""
    return " or ".join(TYPES.get(each, each) for each in named.split(" | "))


def _counted(number: int, part: str) -> str:
    return f"{number} {part}" if number == 1 else f"{number} {part}s"
