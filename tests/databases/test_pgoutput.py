"""The decoder of pgoutput, with bytes that a server sent (PostgreSQL 15) and some that none has."""

import struct

import pytest

from holdfast.stores.postgres.pgoutput import Begin, Commit, Garbled, Insert, Relation, decode
from holdfast.stores.postgres.wal import FACTS_MAX, Assembler, Committed

EVERY_KIND = "plain, 'quoted', \"twice\", back\\slash, \t\n\r, ä ß ñ, 漢字, 🎫, \u2028, \u0301"


def begin(commit_lsn: int) -> bytes:
    return b"B" + struct.pack("!QqI", commit_lsn, 0, 7)


def commit(commit_lsn: int, end_lsn: int) -> bytes:
    return b"C" + struct.pack("!BQQq", 0, commit_lsn, end_lsn, 0)


def relation(id: int, name: str, *columns: str) -> bytes:
    namespace, _, table = name.rpartition(".")
    told = b"".join(b"\1" + each.encode() + b"\0" + struct.pack("!Ii", 25, -1) for each in columns)
    names = namespace.encode() + b"\0" + table.encode() + b"\0"
    return b"R" + struct.pack("!I", id) + names + b"d" + struct.pack("!H", len(columns)) + told


def insert(id: int, *values: str | bytes | None) -> bytes:
    told = b""
    for value in values:
        if value is None:
            told += b"n"
        elif isinstance(value, bytes):
            told += value
        else:
            told += b"t" + struct.pack("!I", len(value.encode())) + value.encode()
    return b"I" + struct.pack("!I", id) + b"N" + struct.pack("!H", len(values)) + told


LOG = relation(9, "holdfast.log", "event", "seq", "type", "at_ms", "data")


def fact(seq: int, event: str = "e1") -> bytes:
    return insert(9, event, str(seq), "hold.placed", "5", '{"n": 1}')


def fed(*messages: bytes) -> list[Committed]:
    assembler = Assembler()
    return [found for each in messages if (found := assembler.feed(memoryview(each)))]


def numbers(found: list[Committed]) -> list[tuple[int, list[int]]]:
    return [(each.lsn, [entry.seq for entry in each.entries]) for each in found]


SENT = [
    b"B\x00\x00\x00\x00\x01Y\x10\xd8\x00\x03\x03et\xe7\x0fE\x00\x00\x02\xd6",
    b"R\x00\x00@aholdfast\x00log\x00d\x00\x05"
    b"\x01event\x00\x00\x00\x00\x19\xff\xff\xff\xff\x01seq\x00\x00\x00\x00\x14\xff\xff\xff\xff"
    b"\x00type\x00\x00\x00\x00\x19\xff\xff\xff\xff\x00at_ms\x00\x00\x00\x00\x14\xff\xff\xff\xff"
    b"\x00data\x00\x00\x00\x00\x19\xff\xff\xff\xff",
    b"I\x00\x00@aN\x00\x05t\x00\x00\x00\x02e1t\x00\x00\x00\x011t\x00\x00\x00\x0bhold.placed"
    b't\x00\x00\x00\r1700000000000t\x00\x00\x00\x10{"n":"\xc3\xa4\\n\xf0\x9f\x8e\xab"}',
    b"C\x00\x00\x00\x00\x00\x01Y\x10\xd8\x00\x00\x00\x00\x01Y\x11\x08\x00\x03\x03et\xe7\x0fE",
]
EXPECTED = [
    Begin(22614232),
    Relation(16481, "holdfast", "log", ("event", "seq", "type", "at_ms", "data")),
    Insert(16481, ("e1", "1", "hold.placed", "1700000000000", '{"n":"ä\\n🎫"}')),
    Commit(22614232, 22614280),
]


def test_what_a_server_sent_is_read():
    assert [decode(each) for each in SENT] == EXPECTED
    [[entries, lsn]] = fed(*SENT)
    assert lsn == 22614280
    assert [(each.event, each.seq, each.at_ms, each.data) for each in entries] == [
        ("e1", 1, 1700000000000, {"n": "ä\n🎫"})
    ]


@pytest.mark.parametrize("view", [bytes, memoryview])
def test_text_of_every_kind_is_read_as_it_was_written(view):
    found = decode(view(insert(3, EVERY_KIND, "", "x" * 100_000)))
    assert found == Insert(3, (EVERY_KIND, "", "x" * 100_000))


def test_null_and_a_value_that_was_not_sent_are_none():
    assert decode(insert(3, None, "a", b"u", "b")) == Insert(3, (None, "a", None, "b"))


def test_a_table_without_columns_or_namespace_is_still_a_table():
    assert decode(relation(4, ".pg_class")) == Relation(4, "pg_catalog", "pg_class", ())


def test_kinds_that_nobody_needs_are_passed_over():
    truncate = b"T" + struct.pack("!IBI", 1, 0, 9)
    for kind in (truncate, b"O" + b"\0" * 9, b"Y", b"U...", b"D...", b"M...", b"S", b"\xff?"):
        assert decode(kind) is None
    around = [begin(10), truncate, LOG, fact(1), b"?", commit(10, 20)]
    assert numbers(fed(*around)) == [(20, [1])]


@pytest.mark.parametrize("whole", [begin(1), commit(1, 2), LOG, fact(1)], ids="BCRI")
def test_a_message_that_is_cut_off_anywhere_is_garbled_and_never_half_read(whole):
    for length in range(len(whole)):
        with pytest.raises(Garbled):
            decode(whole[:length])


@pytest.mark.parametrize(
    "broken",
    [
        insert(3, b"t" + struct.pack("!I", 2) + b"\xff\xfe"),
        insert(3, b"b" + struct.pack("!I", 1) + b"x"),
        b"I" + struct.pack("!I", 3) + b"K" + struct.pack("!H", 0),
    ],
    ids=["not UTF-8", "binary", "not a new row"],
)
def test_what_is_not_the_protocol_is_garbled(broken):
    with pytest.raises(Garbled):
        decode(broken)


def test_columns_are_found_by_name_in_any_order_and_among_others():
    other = relation(9, "holdfast.log", "data", "added", "type", "event", "at_ms", "seq")
    row = insert(9, '{"n": 1}', None, "hold.placed", "e1", "5", "3")
    [[[entry], lsn]] = fed(begin(10), other, row, commit(10, 20))
    assert (lsn, entry.event, entry.seq, entry.type) == (20, "e1", 3, "hold.placed")
    assert (entry.at_ms, entry.data) == (5, {"n": 1})


def test_a_table_that_was_altered_on_the_way_is_read_as_it_is_now():
    altered = relation(9, "holdfast.log", "seq", "event", "type", "at_ms", "data", "added")
    row = insert(9, "2", "e1", "hold.placed", "5", "{}", "new")
    told = [begin(10), LOG, fact(1), commit(10, 20), begin(30), altered, row, commit(30, 40)]
    assert numbers(fed(*told)) == [(20, [1]), (40, [2])]


def test_other_tables_of_the_publication_are_not_facts():
    others = [relation(8, "holdfast.orders", "event"), relation(7, "public.log", "event")]
    rows = [insert(8, "e1"), insert(7, "e1"), insert(6, "never told")]
    assert numbers(fed(begin(10), *others, *rows, LOG, fact(1), commit(10, 20))) == [(20, [1])]


@pytest.mark.parametrize(
    "row",
    [
        insert(9, "e1", "1", "hold.placed", "5", None),
        insert(9, "e1", "1", "hold.placed", "5", b"u"),
        insert(9, "e1", "one", "hold.placed", "5", "{}"),
        insert(9, "e1", "1", "hold.placed", "5", "{"),
    ],
    ids=["NULL", "unchanged", "no number", "no JSON"],
)
def test_a_fact_that_is_not_whole_is_garbled_not_skipped(row):
    with pytest.raises(Garbled, match="e1"):
        fed(begin(10), LOG, row)


def test_a_log_without_one_of_our_columns_is_garbled():
    with pytest.raises(Garbled, match="no column at_ms, data"):
        fed(relation(9, "holdfast.log", "event", "seq", "type"))


def test_a_commit_without_facts_only_moves_the_position():
    assembler = Assembler()
    for each in (begin(10), commit(10, 20)):
        assert assembler.feed(memoryview(each)) is None
    assert assembler.passed == 20


def test_a_position_told_within_a_transaction_does_not_count():
    """It may be past transactions that ended earlier, but this one is not over."""
    assembler = Assembler()
    assembler.feed(memoryview(begin(90)))
    assembler.reached(80)
    assert assembler.passed == 0
    assembler.feed(memoryview(commit(90, 100)))
    assembler.reached(50)
    assert assembler.passed == 100


def test_a_huge_commit_comes_in_parts_that_confirm_nothing_of_it():
    facts = [fact(seq) for seq in range(1, 2 * FACTS_MAX + 2)]
    found = numbers(fed(begin(10), LOG, *facts, commit(10, 20)))
    assert [lsn for lsn, _ in found] == [10, 10, 20]
    assert [seq for _, part in found for seq in part] == list(range(1, 2 * FACTS_MAX + 2))
