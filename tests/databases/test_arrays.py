"""Arrays as PostgreSQL writes them: whatever is in a column comes back as it was."""

import enum
import math

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast import Placed
from holdfast.stores.postgres.arrays import BETWEEN, NOTHING, columns, literal
from tests.databases.conftest import found
from tests.databases.kinds import DATABASES
from tests.databases.shops import E1, selling

pytestmark = pytest.mark.service

PIECES = (
    *('"', "\\", '\\"', "{", "}", ",", "NULL", "null", "None", "", " ", "a", "'", "\n", "\t"),
    *("é", "😀", "\u2028", "\x7f", "[1:2]={}", "\\N"),
)
texts = st.lists(st.sampled_from(PIECES), max_size=4).map("".join) | st.text(
    st.characters(blacklist_characters=[BETWEEN, NOTHING, "\0"], blacklist_categories=["Cs"])
)
KINDS = {
    "text": texts,
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "double precision": st.floats(),
    "boolean": st.booleans(),
}


class Two(enum.IntEnum):
    TWO = 2


def server_url() -> str:
    postgres = found(DATABASES["postgres"])
    return postgres.home(postgres.shared())


@pytest.fixture
async def db():
    opened = await asyncpg.connect(server_url())
    yield opened
    await opened.close()


def same(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return one == other and type(one) is type(other)


@pytest.mark.parametrize("kind", KINDS)
async def test_every_value_comes_back_as_it_was(db, kind):
    drawn: list[list[object]] = [[], [None], [None, None]]

    @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(st.none() | KINDS[kind], max_size=6))
    def draw(values: list[object]) -> None:
        drawn.append(values)

    draw()
    for values in drawn:
        came = await db.fetchval(f"SELECT $1::text::{kind}[]", literal(values))
        assert len(came) == len(values), values
        assert all(map(same, came, values)), (values, came)


@pytest.mark.parametrize("control", [BETWEEN, NOTHING])
def test_what_would_be_mistaken_is_refused(control):
    for values in ([f"a{control}b"], [control], ["a", None, control]):
        with pytest.raises(ValueError, match="control character"):
            literal(values)


async def test_numbers_of_an_enumeration_are_numbers(db):
    assert await db.fetchval("SELECT $1::text::bigint[]", literal([Two.TWO, None, 3])) == [
        *(2, None, 3)
    ]
    (column,) = columns([(Two.TWO,)])
    assert column == "{2}"


async def test_a_quantity_of_an_enumeration_hurts_nobody(url):
    async with selling(url) as shop:
        for pools in ({"floor": Two.TWO}, {"floor": 2}):
            assert isinstance(await shop.place_hold(E1, buyer="ann", pools=pools), Placed)


async def test_a_column_of_nothing_is_as_long_as_the_others(db):
    rows = [("a", None, 0, None), ("b", None, None, "x")]
    kinds = ("text", "bigint", "bigint", "text")
    arrays = ", ".join(f"${n}::text::{kind}[]" for n, kind in enumerate(kinds, 1))
    read = await db.fetch(f"SELECT * FROM unnest({arrays})", *columns(rows))
    assert [tuple(row) for row in read] == rows
    assert columns(rows)[1] == "{}"
