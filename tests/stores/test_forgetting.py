"""When old answers and keys are looked for, so that they do not pile up."""

import pytest

from holdfast.domain.facts import HOLD_PLACED, Fact, UnitsData
from holdfast.domain.outcomes import Reason, Refused
from holdfast.domain.shelf import KeyUse, Record, Shelf
from holdfast.stores import rows

FACT = Fact(HOLD_PLACED, UnitsData("ann", ("A-1-1",), {}, 100, "EUR", "e1.h1"))


def forgotten(before: int, facts: int, *, records: int = 0, keys: int = 0) -> dict[str, int]:
    """How many of what a batch looks for that moves the log so far."""
    shelf = Shelf("e1", None)
    shelf.as_of = before
    shelf.facts = [FACT] * facts
    for n in range(records):
        shelf.record(Record(f"r{n}", "d", Refused(Reason.TAKEN), 1))
    for n in range(keys):
        shelf.key_uses.put(KeyUse(f"k{n}", "d", 1))
    writes = rows.changes(shelf, 1, 0)
    return {each.query: each.rows[0][-1] for each in writes if each.query.startswith("forget")}


@pytest.mark.parametrize(
    ("before", "facts", "most"),
    [
        (0, 255, None),
        (0, 256, 512),
        (255, 1, 512),
        (256, 255, None),
        (250, 600, 1536),
        (256, 0, None),
    ],
)
def test_whoever_passes_a_round_number_forgets_twice_what_has_come_since(before, facts, most):
    expected = {} if most is None else {"forget_records": most}
    assert forgotten(before, facts, records=1) == expected


def test_over_a_whole_sale_twice_as_many_are_forgotten_as_were_added():
    before, added, gone = 0, 0, 0
    for n in range(2_000):
        facts = 1 + n % 61
        gone += forgotten(before, facts, records=facts).get("forget_records", 0)
        before, added = before + facts, added + facts
    assert added <= gone <= 2 * added


def test_who_adds_none_forgets_none():
    assert forgotten(0, 300) == {}
    assert forgotten(0, 300, keys=1) == {"forget_keys": 512}
    assert forgotten(0, 300, keys=1, records=1).keys() == {"forget_records", "forget_keys"}
