"""JSON Schema of every fact as a CloudEvent carries it, made from the types that are written. The
files of docs/facts and the tables of docs/facts.md come from here:

    python -m holdfast.api.schemas docs

What is required is what every fact of that type carries, whichever version wrote it: that list only
grows with a new version of the type.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from holdfast.api.reference import Table, markdown, pretty
from holdfast.domain import facts
from holdfast.domain.cloudevents import CloudEvent
from holdfast.domain.facts import EventData, UnitsData

Json = dict[str, Any]

DRAFT = "https://json-schema.org/draft/2020-12/schema"
VERSION = 1
"""Of the facts. Another one is another set of types, published beside this one for a time."""
MARKS = ("<!-- made by holdfast.api.schemas -->", "<!-- end -->")
"""What stands between them in docs/facts.md is written anew."""

FACTS = {
    facts.HOLD_PLACED: "A hold was placed: its units are nobody else's until its deadline.",
    facts.HOLD_EXTENDED: "Both deadlines of a hold moved.",
    facts.HOLD_PAYING: "Payment of a hold began.",
    facts.HOLD_RELEASED: "A hold was given back, and its units are free.",
    facts.HOLD_EXPIRED: "The deadline of a hold passed, and its units are free.",
    facts.ORDER_CONFIRMED: "Units were sold: a hold was confirmed, which is its end, or they were "
    "sold without one.",
    facts.ORDER_SETTLED: "A payment came too late, or there was nothing to sell for it: what "
    "became of it.",
    facts.ORDER_VOIDED: "Nothing was sold, and what the payment had set aside is free.",
    facts.ORDER_REFUNDED: "Money was given back.",
    facts.ORDER_CANCELLED: "A sale, or a part of it, was taken back, and its units are free.",
    facts.EVENT_CREATED: "An event was created.",
    facts.EVENT_CHANGED: "The settings or the units of an event changed.",
}
HOLDS = tuple(type for type in FACTS if type.startswith("hold."))
ORDERS = tuple(type for type in FACTS if type.startswith("order."))
CHANGED = (facts.EVENT_CHANGED,)


class Field(NamedTuple):
    """What a field says, on which facts of its kind (none named: on all), and whether each of those
    has it."""

    says: str
    on: tuple[str, ...] = ()
    promised: bool = False


UNITS = {
    "buyer": Field("Whose they are.", promised=True),
    "seats": Field("The ids of the seats.", promised=True),
    "pools": Field("How much of each pool.", promised=True),
    "amount": Field(
        "In the minor unit of the currency (cents). Of `order.cancelled` what the units that came "
        "back had cost, of `order.refunded` what was given back.",
        promised=True,
    ),
    "currency": Field("Three letters.", promised=True),
    "hold": Field("The hold's id; null for an order that was sold without a hold.", promised=True),
    "order": Field("The order's id.", ORDERS, promised=True),
    "version": Field("The hold's version after this fact.", HOLDS),
    "expires_at": Field("The soft deadline of the hold.", HOLDS),
    "settlement": Field(
        "What a payment that came late was settled with: `same_units`, `other_seats`, `voided` or "
        "`refunded`. Left out where a payment came in time.",
        (facts.ORDER_CONFIRMED, facts.ORDER_SETTLED, facts.ORDER_VOIDED, facts.ORDER_REFUNDED),
    ),
    "was": Field(
        "The state of the hold before it ended: `held` or `paying`, and `expired` where a late "
        "payer bought what was announced as free. Left out where no hold ended.",
        (facts.HOLD_RELEASED, facts.HOLD_EXPIRED, facts.ORDER_CONFIRMED),
    ),
    "tiers": Field(
        "Of the units that were sold or came back: how many of each tier, and for how much of "
        "`amount`.",
        (facts.ORDER_CONFIRMED, facts.ORDER_CANCELLED),
    ),
}

EVENTS = {
    "state": Field("`on_sale`, `paused` or `closed`, after this fact.", promised=True),
    "version": Field("Of the event's configuration, after this fact.", promised=True),
    "name": Field("Of the event.", promised=True),
    "changed": Field("The settings that changed, or `capacity`.", CHANGED),
    "seats_added": Field("Seats that came, or came back.", CHANGED),
    "seats_withdrawn": Field("Seats that were withdrawn.", CHANGED),
    "pools": Field("By how much the capacity of each pool grew (below zero: shrank).", CHANGED),
    "capacity": Field("All units of the event, after this fact."),
    "currency": Field("Three letters."),
}

ENVELOPE = {
    "specversion": "Of CloudEvents.",
    "id": "`{subject}.{sequence}`: the same each time the fact is sent. Drop repeats by it.",
    "source": "Where the log of the event is.",
    "type": "What happened.",
    "subject": "The event's id.",
    "sequence": "The number of the fact on the event's log: from 1, without a gap.",
    "time": "When it happened, by the store's clock. Go by `sequence`: a clock may be set back.",
    "datacontenttype": "Of `data`.",
}

TIMES = {"time", "expires_at"}


def documents() -> dict[str, Json]:
    """Every file of docs/facts by its name."""
    found = {f"{type}.json": schema(type) for type in FACTS}
    return found | {"index.json": _index()}


def urn(type: str) -> str:
    """Names a schema and no host: the file may be anywhere."""
    return f"urn:holdfast:facts:{type}:{VERSION}"


def schema(type: str) -> Json:
    """Of one type of fact: the whole CloudEvent."""
    properties = _properties(CloudEvent)
    properties["specversion"] = {"const": "1.0"}
    properties["type"] = {"const": type}
    properties["source"]["format"] = "uri-reference"
    properties["sequence"]["minimum"] = 1
    properties["datacontenttype"] = {"const": "application/json"}
    for name, says in ENVELOPE.items():
        properties[name]["description"] = says
    properties["data"] = _data(type)
    return {
        "$schema": DRAFT,
        "$id": urn(type),
        "title": type,
        "description": FACTS[type],
        "type": "object",
        "properties": properties,
        "required": list(properties),
    }


def _index() -> Json:
    return {
        "$schema": DRAFT,
        "$id": f"urn:holdfast:facts:{VERSION}",
        "title": "A fact of Holdfast",
        "description": "Any of these. The schema of each is in the file of its name.",
        "oneOf": [{"$ref": urn(type)} for type in FACTS],
    }


def _data(type: str) -> Json:
    kind, fields = _kind(type)
    read = _properties(kind)
    shown = {name: each for name, each in fields.items() if not each.on or type in each.on}
    properties = {name: read[name] | {"description": shown[name].says} for name in shown}
    if type in HOLDS:
        properties["hold"] |= {"type": "string", "description": "The hold's id."}
    return {
        "description": "Fields may be added: ignore those that you do not know.",
        "type": "object",
        "properties": properties,
        "required": [name for name, each in shown.items() if each.promised],
    }


def _kind(type: str) -> tuple[type[msgspec.Struct], dict[str, Field]]:
    return (EventData, EVENTS) if type.startswith("event.") else (UnitsData, UNITS)


def _properties(kind: type[msgspec.Struct]) -> Json:
    (found,), components = msgspec.json.schema_components((kind,), ref_template="{name}")
    properties: Json = _read(found, components)["properties"]
    for name in TIMES & properties.keys():
        properties[name]["format"] = "date-time"
    return properties


def _read(schema: Json, components: Json) -> Json:
    """As it is written: in one piece, without null where that is left out. Words are no closed
    list: one may be added."""
    if "$ref" in schema:
        return _read(components[schema["$ref"]], components)
    if "enum" in schema:
        return {"type": "string"}
    if "anyOf" in schema:
        parts = [_read(each, components) for each in schema["anyOf"]]
        if "default" in schema:
            parts = [each for each in parts if each["type"] != "null"]
        if len(parts) == 1:
            return parts[0]
        return {"type": [each["type"] for each in parts]}
    found: Json = {name: schema[name] for name in ("type", "required") if name in schema}
    if "items" in schema:
        found["items"] = _read(schema["items"], components)
    if isinstance(values := schema.get("additionalProperties"), dict):
        found["additionalProperties"] = _read(values, components)
    if "properties" in schema:
        found["properties"] = {
            name: _read(each, components) for name, each in schema["properties"].items()
        }
    return found


def tables() -> str:
    """Every type and every field, for docs/facts.md."""
    types: list[tuple[str, ...]] = [
        (f"[`{type}`](facts/{type}.json)", says) for type, says in FACTS.items()
    ]
    units, events = _fields(facts.HOLD_PLACED), _fields(facts.EVENT_CREATED)
    head = ("field", "on", "type", "what it says")
    return (
        "## Types\n\n"
        + markdown([Table(("type", "written when"), types)])
        + "\n## Data of holds and orders\n\n"
        + markdown([Table(head, list(units))])
        + "\n## Data of events\n\n"
        + markdown([Table(head, list(events))])
    )


def _fields(type: str) -> Iterator[tuple[str, ...]]:
    """A row for each field of the facts of its kind."""
    kind, fields = _kind(type)
    read = _properties(kind)
    for name, field in fields.items():
        on = ", ".join(f"`{type}`" for type in field.on)
        if field.on in (HOLDS, ORDERS):
            on = f"`{field.on[0].partition('.')[0]}.*`"
        yield f"`{name}`", on or "all", _words(read[name]), field.says


def _words(schema: Json) -> str:
    """A type in words."""
    if isinstance(schema["type"], list):
        return " or ".join(schema["type"])
    if "items" in schema:
        return f"list of {_words(schema['items'])}s"
    if "additionalProperties" in schema:
        inside = schema["additionalProperties"]
        if "properties" in inside:
            return "object of " + " and ".join(f"`{name}`" for name in inside["properties"])
        return f"object of {_words(inside)}s"
    return "time" if "format" in schema else str(schema["type"])


def page(text: str) -> str:
    """docs/facts.md with its tables as they should be."""
    before, _, rest = text.partition(MARKS[0])
    after = rest.partition(MARKS[1])[2]
    return f"{before}{MARKS[0]}\n\n{tables()}\n{MARKS[1]}{after}"


def main(docs: Path) -> None:
    for name, document in documents().items():
        (docs / "facts" / name).write_text(pretty(document) + "\n", encoding="utf-8")
    path = docs / "facts.md"
    path.write_text(page(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
