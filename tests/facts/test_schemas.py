"""Every fact is what its schema says, and what is published is made from what is written."""

import copy
from pathlib import Path

import jsonschema_rs
import pytest

from holdfast.api import schemas
from holdfast.api.reference import pretty
from holdfast.api.schemas import EVENTS, FACTS, HOLDS, ORDERS, UNITS, documents, page, schema
from holdfast.domain import facts
from holdfast.domain.facts import EventData, UnitsData
from tests.facts.conftest import Night, faults, published

DOCS = Path(__file__).parents[2] / "docs"
ANEW = "make it anew: .venv/bin/python -m holdfast.api.schemas docs"


def test_there_is_a_schema_for_every_type_of_fact():
    constants = [value for name, value in vars(facts).items() if name.isupper()]
    assert {value for value in constants if isinstance(value, str)} == FACTS.keys()


def test_every_type_of_fact_happens_in_the_story(night: Night):
    assert {entry.type for entry in night.entries} == FACTS.keys()


@pytest.mark.parametrize("type", FACTS)
def test_every_fact_is_what_its_schema_says(night: Night, type):
    seen = [published(entry) for entry in night.entries if entry.type == type]
    assert [faults(fact) for fact in seen] == [[]] * len(seen)


@pytest.mark.parametrize("type", FACTS)
def test_a_schema_names_the_fields_that_are_written_and_no_others(night: Night, type):
    seen = {name for entry in night.entries if entry.type == type for name in entry.data}
    assert seen == schema(type)["properties"]["data"]["properties"].keys()


def test_every_field_of_the_types_is_described():
    assert set(UnitsData.__struct_fields__) == UNITS.keys()
    assert set(EventData.__struct_fields__) == EVENTS.keys()


@pytest.mark.parametrize("type", [*HOLDS, *ORDERS])
def test_what_the_contract_promises_is_required(type):
    promised = {"hold", "buyer", "seats", "pools", "amount"}
    promised |= {"order"} if type in ORDERS else set()
    assert promised <= set(schema(type)["properties"]["data"]["required"])


@pytest.mark.parametrize("type", FACTS)
def test_a_fact_without_what_is_promised_is_refused(night: Night, type):
    fact = published(next(entry for entry in night.entries if entry.type == type))
    for name in fact:
        lacking = {key: value for key, value in fact.items() if key != name}
        assert faults(lacking, type), name
    for name in schema(type)["properties"]["data"]["required"]:
        lacking = copy.deepcopy(fact)
        del lacking["data"][name]
        assert faults(lacking, type), name
        assert faults(fact | {"data": fact["data"] | {name: {"a": "b"}}}), name


def test_a_fact_may_carry_more_than_is_known(night: Night):
    for entry in night.entries:
        fact = published(entry)
        data = fact["data"] | {"since_version_9": [1]}
        assert faults(fact | {"traceparent": "00-ab-cd-01", "data": data}) == []


def test_schemas_are_schemas_and_name_no_host():
    found = documents()
    for document in found.values():
        jsonschema_rs.meta.validate(document)
        assert document["$id"].startswith("urn:holdfast:facts:")
    assert len({document["$id"] for document in found.values()}) == len(found)


def test_the_index_takes_every_fact_and_nothing_else(night: Night):
    found = documents()
    known = jsonschema_rs.Registry([(each["$id"], each) for each in found.values()])
    any_fact = jsonschema_rs.Draft202012Validator(found["index.json"], registry=known)
    for entry in night.entries:
        assert any_fact.is_valid(published(entry))
        assert not any_fact.is_valid(published(entry) | {"type": "hold.eaten"})


def test_the_schemas_in_docs_are_up_to_date():
    committed = {path.name: path.read_text(encoding="utf-8") for path in (DOCS / "facts").iterdir()}
    assert committed == {name: pretty(each) + "\n" for name, each in documents().items()}, ANEW


def test_the_tables_of_the_page_are_up_to_date():
    committed = (DOCS / "facts.md").read_text(encoding="utf-8")
    assert all(mark in committed for mark in schemas.MARKS)
    assert committed == page(committed), ANEW
