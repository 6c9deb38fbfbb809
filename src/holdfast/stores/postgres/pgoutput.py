"""What PostgreSQL's own output plugin says (pgoutput, protocol version 1), read from bytes. Pure.

Only what the log needs: which transaction, which table, which new row. Everything else (updates,
truncates, types, and kinds that are not invented yet) is passed over.
"""

from struct import Struct, error
from typing import NamedTuple, TypeAlias

_begin = Struct("!QqI")  # position of the commit, time, transaction
_commit = Struct("!BQQq")  # flags, position of the commit, the end of it, time
_relation = Struct("!I")
_count = Struct("!H")
_length = Struct("!I")

BEGIN, COMMIT, RELATION, INSERT = b"BCRI"
NULL, UNCHANGED, TEXT = b"nut"
NEW_ROW = ord("N")
COLUMN_TAIL_BYTES = 8
"""Of a column after its name: the number of its type, and the type's modifier."""


class Garbled(ValueError):
    """Bytes that are not what the protocol says."""


class Begin(NamedTuple):
    commit_lsn: int
    """Where the record of its commit begins."""


class Commit(NamedTuple):
    commit_lsn: int
    end_lsn: int
    """Where the record of its commit ends."""


class Relation(NamedTuple):
    """A table as it is in the rows that follow; told again after it was altered."""

    id: int
    namespace: str
    name: str
    columns: tuple[str, ...]


class Insert(NamedTuple):
    relation: int
    values: tuple[str | None, ...]
    """In the order of the relation's columns. None: NULL, or a large value that was not changed
    and so was not sent, which happens to updates only."""


Message: TypeAlias = Begin | Commit | Relation | Insert


def decode(payload: bytes | memoryview) -> Message | None:
    """One message; None where it is of a kind that nobody here needs. Raises Garbled."""
    if not payload:
        raise Garbled("an empty message")
    kind = payload[0]
    try:
        if kind == INSERT:
            return _read_insert(payload)
        if kind == BEGIN:
            return Begin(_begin.unpack_from(payload, 1)[0])
        if kind == COMMIT:
            _, commit_lsn, end_lsn, _ = _commit.unpack_from(payload, 1)
            return Commit(commit_lsn, end_lsn)
        if kind == RELATION:
            return _read_relation(payload)
    except (error, IndexError, UnicodeDecodeError) as cause:
        raise Garbled(f"a message {chr(kind)} of {len(payload)} bytes: {cause}") from cause
    return None


def _read_relation(payload: bytes | memoryview) -> Relation:
    (id,) = _relation.unpack_from(payload, 1)
    namespace, at = _read_name(payload, 1 + _relation.size)
    name, at = _read_name(payload, at)
    at += 1  # how much of an old row updates tell
    (count,) = _count.unpack_from(payload, at)
    at += _count.size
    columns = []
    for _ in range(count):
        column, at = _read_name(payload, at + 1)  # after its flags
        at += COLUMN_TAIL_BYTES
        columns.append(column)
    if at > len(payload):
        raise IndexError("cut off")
    # What every database has is told without a namespace.
    return Relation(id, namespace or "pg_catalog", name, tuple(columns))


def _read_name(payload: bytes | memoryview, at: int) -> tuple[str, int]:
    """A text that ends with a zero, and where it ends."""
    end = at
    while payload[end]:
        end += 1
    return str(payload[at:end], "utf-8"), end + 1


def _read_insert(payload: bytes | memoryview) -> Insert:
    (relation,) = _relation.unpack_from(payload, 1)
    at = 1 + _relation.size
    if payload[at] != NEW_ROW:
        raise IndexError("no new row")
    (count,) = _count.unpack_from(payload, at + 1)
    at += 1 + _count.size
    values: list[str | None] = []
    for _ in range(count):
        kind = payload[at]
        at += 1
        if kind == TEXT:
            (length,) = _length.unpack_from(payload, at)
            at += _length.size
            if at + length > len(payload):
                raise IndexError("cut off")
            values.append(str(payload[at : at + length], "utf-8"))
            at += length
        elif kind in (NULL, UNCHANGED):
            values.append(None)
        else:
            # Binary values come only to those who ask for them.
            raise IndexError(f"a value of kind {kind}")
    return Insert(relation, tuple(values))
