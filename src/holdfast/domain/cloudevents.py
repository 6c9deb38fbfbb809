"""A fact as others get it, over HTTP and from brokers: a CloudEvent 1.0 in JSON."""

from datetime import datetime
from typing import Any, Literal

import msgspec

from holdfast.domain.facts import Entry
from holdfast.domain.model import Millis

CONTENT_TYPE = "application/cloudevents+json"
DEAD_LETTER = "holdfast.dead_letter"
"""The type of what stands in the dead letters of a broker: the fact, and why it is there."""


class CloudEvent(msgspec.Struct, kw_only=True):
    """A CloudEvent. `sequence` is its number on the event's log."""

    specversion: Literal["1.0"] = "1.0"
    id: str
    source: str
    type: str
    subject: str
    sequence: int
    time: datetime
    datacontenttype: Literal["application/json"] = "application/json"
    data: dict[str, Any]  # whatever its version of the fact carried


class Message(msgspec.Struct, frozen=True):
    """A fact on its way to a broker. Whoever gets it twice knows it by its id."""

    event: str
    seq: int
    id: str
    type: str
    body: bytes
    """The CloudEvent, encoded."""
    at_ms: Millis = 0
    """When it became true."""


_encode = msgspec.json.Encoder().encode


def fact_id(event: str, seq: int) -> str:
    return f"{event}.{seq}"


def cloud_event(entry: Entry) -> CloudEvent:
    return CloudEvent(
        id=fact_id(entry.event, entry.seq),
        source=f"/v1/events/{entry.event}",
        type=entry.type,
        subject=entry.event,
        sequence=entry.seq,
        time=entry.at,
        data=entry.data,
    )


def message(entry: Entry) -> Message:
    id = fact_id(entry.event, entry.seq)
    body = _encode(cloud_event(entry))
    return Message(entry.event, entry.seq, id, entry.type, body, entry.at_ms)
