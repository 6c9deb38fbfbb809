"""A fact is a CloudEvent to others too: the reader of the CloudEvents project takes it."""

import json

import pytest

from holdfast.domain.cloudevents import message
from tests.facts.conftest import FIXTURES, Night, published

official = pytest.importorskip("cloudevents.core.formats.json", reason="pip install cloudevents")
kafka = pytest.importorskip("cloudevents.core.bindings.kafka")
v1 = pytest.importorskip("cloudevents.core.v1.event")


def test_the_official_reader_takes_every_fact(night: Night):
    for entry in night.entries:
        read = official.JSONFormat().read(v1.CloudEvent, message(entry).body)
        fact = published(entry)
        assert read.get_id() == f"gala.{entry.seq}"
        assert read.get_subject() == "gala"
        assert read.get_type() == entry.type
        assert read.get_time() == entry.at
        assert read.get_extension("sequence") == entry.seq
        assert read.get_data() == fact["data"]


def test_it_would_not_take_what_is_none(night: Night):
    for name in ("source", "type"):  # what else is missing it makes up
        fact = published(night.entries[0])
        del fact[name]
        with pytest.raises(Exception, match=name):
            official.JSONFormat().read(v1.CloudEvent, json.dumps(fact))


def test_and_it_takes_what_debezium_puts_on_kafka():
    recorded = json.loads((FIXTURES / "debezium.json").read_text(encoding="utf-8"))
    for each in recorded:
        headers = {name: value.encode() for name, value in each["headers"].items()}
        got = kafka.KafkaMessage(headers, each["key"].encode(), each["value"].encode())
        read = kafka.from_kafka(got, official.JSONFormat(), v1.CloudEvent)
        assert read.get_subject() == each["key"]
        assert read.get_id() == read.get_extension("sequence") == each["headers"]["ce_sequence"]
        assert read.get_type() == each["headers"]["ce_type"]
        assert read.get_data() == json.loads(each["value"])
