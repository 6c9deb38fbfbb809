"""The documented configuration fits the tables, and what it gave in a real run is read as facts.

The run itself, which needs Kafka, Kafka Connect and a minute, is told of in docs/debezium.md."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec

from holdfast.domain.facts import Entry
from tests.facts.conftest import FIXTURES, faults, published

ROOT = Path(__file__).parents[2]
POSTGRES = ROOT / "src" / "holdfast" / "stores" / "postgres"
DEBEZIUM = ROOT / "deploy" / "debezium"
CONFIG: dict[str, str] = json.loads((DEBEZIUM / "connector.json").read_text())["config"]
ROUTER = "transforms.facts."
SNAPSHOT = "snapshot.select.statement.overrides"


def columns(table: str) -> set[str]:
    text = (POSTGRES / "schema.sql").read_text(encoding="utf-8")
    body = re.search(rf"CREATE TABLE {re.escape(table)} \((.*?)\n\)", text, re.DOTALL)
    assert body is not None
    lines = [line.split() for line in body[1].splitlines() if line.strip()]
    return {line[0] for line in lines if line[0] not in ("PRIMARY", "CONSTRAINT", "CHECK")}


def placed() -> list[list[str]]:
    """Column, place and name of what is sent beside the value."""
    found = CONFIG[ROUTER + "table.fields.additional.placement"]
    return [each.split(":") for each in found.split(",")]


def test_the_configuration_names_only_columns_that_exist():
    table = CONFIG["table.include.list"]
    named = {value for name, value in CONFIG.items() if name.startswith(ROUTER + "table.field.")}
    named |= {CONFIG[ROUTER + "route.by.field"], *(column for column, _, _ in placed())}
    assert CONFIG[SNAPSHOT] == table
    snapshot = CONFIG[f"{SNAPSHOT}.{table}"]
    chosen = re.fullmatch(rf"SELECT (.+) FROM {re.escape(table)} ORDER BY (.+)", snapshot)
    assert chosen is not None
    read = chosen[1].split(", ")
    assert named <= set(read) <= columns(table)
    assert chosen[2] == "event, seq"


def test_facts_of_an_event_stay_in_order_and_can_be_told_apart():
    """One topic and the event as key: one partition. Event and number: no two facts have both."""
    assert "$" not in CONFIG[ROUTER + "route.topic.replacement"]
    assert CONFIG[ROUTER + "table.field.event.key"] == "event"
    headers = {name: column for column, place, name in placed() if place == "header"}
    assert headers["ce_source"] == headers["ce_subject"] == "event"
    assert headers["ce_id"] == headers["ce_sequence"] == "seq"


def test_the_publication_is_the_one_that_is_prepared():
    prepared = (DEBEZIUM / "prepare.sql").read_text(encoding="utf-8")
    table, name = CONFIG["table.include.list"], CONFIG["publication.name"]
    assert f"CREATE PUBLICATION {name} FOR TABLE {table} WITH (publish = 'insert');" in prepared
    assert f"CREATE ROLE {CONFIG['database.user']} " in prepared
    assert CONFIG["publication.autocreate.mode"] == "disabled"


def test_messages_of_barriers_are_left_out():
    """Else each would be a message on Kafka: as many as there are facts."""
    queries = (POSTGRES / "queries.sql").read_text(encoding="utf-8")
    prefixes = set(re.findall(r"pg_logical_emit_message\(\w+, '([^']*)'", queries))
    assert prefixes == set(CONFIG["message.prefix.exclude.list"].split(","))
    own = re.findall(r"pg_logical_emit_message\(true, '([^']*)'", CONFIG["heartbeat.action.query"])
    assert set(own) == prefixes


def recorded() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((FIXTURES / "debezium.json").read_bytes())
    return found


def test_what_debezium_gave_is_read_as_facts():
    """As docs/debezium.md tells a consumer to."""
    assert len(recorded()) > 1
    names = [name for _, _, name in placed()]
    last: dict[str, int] = {}
    for message in recorded():
        headers = message["headers"]
        seq = int(headers["ce_sequence"])
        if seq <= last.get(headers["ce_subject"], 0):
            continue
        assert seq == last.get(headers["ce_subject"], 0) + 1
        last[headers["ce_subject"]] = seq
        assert message["key"] == headers["ce_subject"]
        assert headers.keys() == {"id", "content-type", "ce_specversion", *names}
        entry = Entry(
            event=headers["ce_subject"],
            seq=seq,
            type=headers["ce_type"],
            at_ms=int(headers["at_ms"]),
            data=msgspec.json.decode(message["value"]),
        )
        assert faults(published(entry)) == []
