"""Arrays as PostgreSQL writes them, `{"a","b",NULL}`: a column of a batch becomes one text.

asyncpg would look at each element several times before it sends a list (measured: a quarter of all
the work of this process); a text is sent as it is, and the server takes it apart in no time.

JSON is full of quotes, each of which would have to be escaped here and read again there. Texts of
it are only joined, and `string_to_array` parts them (measured: 2 us instead of 14 for 16 of them).
To that one empty text is no text at all; JSON is never empty.
"""

from collections.abc import Collection, Sequence
from typing import Any

BETWEEN = "\x1f"
NOTHING = "\x1e"
"""Control characters, which are in no label, no id, and no JSON."""


def literal(values: Sequence[Any]) -> str:  # texts, or numbers, or flags; any of them may be None
    many = len(values)
    if many > 1 and values.count(values[0]) == many:
        # Half of the columns of a batch: its event, its time, the state of what is new.
        one = literal(values[:1])[1:-1]
        return "{" + f"{one}," * (many - 1) + one + "}"
    nothing = values.count(None)
    there = [each for each in values if each is not None] if nothing else values
    if not there or not isinstance(there[0], str):
        return _numbers(values)
    if nothing:
        values = [NOTHING if value is None else value for value in values]
    text = BETWEEN.join(values)
    if text.count(BETWEEN) != many - 1 or text.count(NOTHING) != nothing:
        raise ValueError("a text has a control character in it")
    if '"' in text or "\\" in text:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    text = '{"' + text.replace(BETWEEN, '","') + '"}'
    return text.replace(f'"{NOTHING}"', "NULL") if nothing else text


def _numbers(values: Sequence[Any]) -> str:  # or flags; as above
    text = repr([*values])
    if "<" in text:  # a number that has a name: <Size.TWO: 2>
        text = repr([None if value is None else int(value) for value in values])
    return "{" + text[1:-1].replace("None", "NULL") + "}"


def columns(rows: Sequence[Sequence[Any]], joined: Collection[int] = ()) -> list[str]:  # as above
    """What `unnest` makes these rows of. It fills shorter arrays up with NULL, so a column of
    nothing else need not be sent: every row has a key, which is as long as it has to be. `joined`:
    the columns that are JSON."""
    return [
        BETWEEN.join(column) if nth in joined else _column(column)
        for nth, column in enumerate(zip(*rows, strict=True))
    ]


def _column(values: Sequence[Any]) -> str:  # as above
    return "{}" if values.count(None) == len(values) else literal(values)
