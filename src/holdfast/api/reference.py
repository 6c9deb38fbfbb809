"""The reference of the HTTP API, read off the OpenAPI document: as Markdown for docs/http.md, and
for /docs as the same blocks.

    python -m holdfast.api.reference > docs/http.md
"""

import json
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

Json = dict[str, Any]


class Heading(NamedTuple):
    level: int
    text: str
    id: str


class Text(NamedTuple):
    """A paragraph; `code` is in backticks, and a [link](#id) leads to a heading."""

    text: str


class Table(NamedTuple):
    head: tuple[str, ...]
    rows: list[tuple[str, ...]]


class Code(NamedTuple):
    kind: str
    text: str


LINE_CHARS_MAX = 88

Block = Heading | Text | Table | Code

ABOUT: tuple[Block, ...] = (
    Heading(2, "Who may call", "who"),
    Text(
        "Send an API key: `Authorization: Bearer KEY`. A key has a role. `admin` may do "
        "everything; `seller` is a shop's own server, which acts for any buyer; `public` is a "
        "browser, which reads, holds and pays for itself. `HOLDFAST_ADMIN_KEY` chooses the first "
        "admin key; `holdfast keys create --role seller` makes more. A public key, and no other, "
        "may also come as `?key=` on the calls that say so."
    ),
    Text(
        "With a public key the buyer is the one of the `Buyer-Token`, which "
        "[createBuyer](#createBuyer) makes. Placing a hold returns its `token`: send it as "
        "`Hold-Token` to see, extend, release or pay that hold and to read its order. A wrong one "
        "gets 404. Sellers and admins need neither."
    ),
    Heading(2, "Safe to repeat", "repeat"),
    Text(
        "Send an `Idempotency-Key` with a call that makes something. For 24 hours the same key "
        "with the same body gets the first answer again, with `Idempotency-Replayed: true`; with "
        "another body it gets [idempotency_mismatch](#idempotency_mismatch). Keys belong to your "
        "API key; with a public one to the buyer of the `Buyer-Token`, or without it to the hold. "
        "The key of a hold counts in its event, that of an order in all. A refusal made nothing, "
        "so it is decided anew. A first answer says how it was then: GET tells how it is now."
    ),
    Heading(2, "Limits", "limits"),
    Text(
        "Public callers are limited by buyer and by address, in requests and in units held at "
        "once; others only where a rate is set on their key. `RateLimit` and `RateLimit-Policy` "
        "announce the limits; past them the answer is 429 with `Retry-After`. A body may have "
        "64 KiB, one that describes an event 32 MiB; what comes before it 64 KiB and 100 headers. "
        "On one connection 64 requests may wait for the answer to the one before; one more is "
        "[overloaded](#overloaded), and ends it."
    ),
    Heading(2, "Answers", "answers"),
    Text(
        "JSON in UTF-8, names in snake_case, times in RFC 3339 and UTC, money in the minor unit "
        "(cents). New fields may be added to answers at any time. Every answer to a call of these "
        "has an `X-Request-Id`: yours if you sent one, else a new one. What is refused or fails is "
        "`application/problem+json`; its `reason` is a stable word, and each is explained under "
        "[Problems](#problems). Whatever answers GET, but for a stream, answers HEAD: the same "
        "without the body."
    ),
)


def reference(document: Json) -> list[Block]:
    return [
        Heading(1, "HTTP API", "top"),
        Text(
            "Everything that can be asked over HTTP, generated from the service itself. A running "
            "one shows the same at `/docs`, and to programs at `/openapi.json`."
        ),
        *ABOUT,
        *_operations(document),
        *_types(document),
        *_problems(document),
    ]


def _operations(document: Json) -> Iterator[Block]:
    shown: list[Any] = []
    for tag in document["tags"]:
        yield Heading(2, f"About {tag['name'].lower()}", f"about-{tag['name'].lower()}")
        for path, method, operation in operations(document):
            if tag["name"] in operation["tags"]:
                yield from _operation(document, path, method, operation)
                yield from _examples(operation, shown)


def operations(document: Json) -> Iterator[tuple[str, str, Json]]:
    """Each with its path and its method."""
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield path, method.upper(), operation


def _operation(document: Json, path: str, method: str, operation: Json) -> Iterator[Block]:
    yield Heading(3, f"{method} {path}", operation["operationId"])
    yield Text(f"{operation['summary']}. {operation['description']}")
    if rows := _parameters(document, operation):
        yield Table(("parameter", "in", "type", "what it says"), rows)
    if body := operation.get("requestBody"):
        says = "required" if body["required"] else "may be left out"
        kind = _kind(body["content"]["application/json"]["schema"])
        yield Text(f"Body: {kind}, {says}. {body['description']}")
    yield Code("text", _curl(path, method, operation))
    yield Table(("answer", "with"), [*_answers(document, operation)])


def _examples(operation: Json, shown: list[Any]) -> Iterator[Block]:
    """Of its answers, where it is not the same as one that was shown before."""
    for response in operation["responses"].values():
        for content in response.get("content", {}).values():
            example = content.get("example")
            if example is not None and example not in shown:
                shown.append(example)
                yield Code("json", pretty(example))


def _parameters(document: Json, operation: Json) -> list[tuple[str, ...]]:
    rows = [
        (
            f"`{each['name']}`",
            each["in"] + (", required" if each.get("required") else ""),
            _kind(each["schema"]),
            each["description"],
        )
        for each in operation.get("parameters", [])
    ]
    schemes = document["components"]["securitySchemes"]
    named = [schemes[name] for each in operation["security"] for name in each]
    keys = [scheme for scheme in named if scheme["type"] == "apiKey"]
    return rows + [(f"`{key['name']}`", key["in"], "string", key["description"]) for key in keys]


def _answers(document: Json, operation: Json) -> Iterator[tuple[str, str]]:
    for status, response in operation["responses"].items():
        words = reasons_of(document, response)
        if words:
            yield status, ", ".join(f"[{word}](#{word})" for word in words)
        else:
            kinds = [_kind(each["schema"]) for each in response.get("content", {}).values()]
            yield status, f"{response['description']} {' or '.join(kinds)}".strip()


def reasons_of(document: Json, response: Json) -> list[str]:
    """The reasons that a response may give; none if it is no problem."""
    for content in resolved(document, response).get("content", {}).values():
        for part in content["schema"].get("allOf", []):
            if "properties" in part:
                return list(part["properties"]["reason"]["enum"])
    return []


def resolved(document: Json, value: Json) -> Json:
    """What a `$ref` stands for."""
    if "$ref" not in value:
        return value
    found: Any = document
    for part in value["$ref"].removeprefix("#/").split("/"):
        found = found[part]
    return dict(found)


def _curl(path: str, method: str, operation: Json) -> str:
    lines = []
    for each in operation.get("parameters", []):
        if each["in"] == "path":
            path = path.replace(f"{{{each['name']}}}", each["example"])
        if each["in"] == "header" and each["required"]:
            lines.append(f"-H '{each['name']}: {each['example']}'")
    verb = "" if method == "GET" else f"-X {method} "
    if operation["x-roles"]:
        lines.insert(0, '-H "Authorization: Bearer $KEY"')
    if body := operation.get("requestBody"):
        # Of somebody else's object nothing is known but that it is one.
        example = pretty(body["content"]["application/json"].get("example", {}))
        lines.append(f"-H 'Content-Type: application/json' -d '{example}'")
    return " \\\n  ".join([f"curl {verb}http://127.0.0.1:8000{path}", *lines])


def pretty(value: Any, indent: int = 0) -> str:
    """JSON for people: what fits on a line is on one."""
    line = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or len(line) + indent <= LINE_CHARS_MAX:
        return line
    inner = "\n" + " " * (indent + 2)
    if isinstance(value, dict):
        items = [f"{json.dumps(name)}: {pretty(each, indent + 2)}" for name, each in value.items()]
        return "{" + inner + f",{inner}".join(items) + "\n" + " " * indent + "}"
    items = [pretty(each, indent + 2) for each in value]
    return "[" + inner + f",{inner}".join(items) + "\n" + " " * indent + "]"


def _types(document: Json) -> Iterator[Block]:
    yield Heading(2, "Types", "types")
    for name, schema in document["components"]["schemas"].items():
        yield Heading(3, name, f"type-{name}")
        if says := schema.get("description"):
            yield Text(says)
        if "enum" in schema:
            yield Text(f"One of {_values(schema)}.")
        if properties := schema.get("properties"):
            yield Table(
                ("field", "type", "default"),
                [
                    (f"`{field}`", _kind(each), _default(schema, field, each))
                    for field, each in properties.items()
                ],
            )


def _default(schema: Json, field: str, property: Json) -> str:
    if "default" in property:
        return f"`{json.dumps(property['default'])}`"
    return "required" if field in schema.get("required", []) else ""


def _values(schema: Json) -> str:
    return ", ".join(f"`{value}`" for value in schema["enum"])


def _kind(schema: Json) -> str:
    """A type in words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#type-{name})"
    if "anyOf" in schema and "type" not in schema:
        return " or ".join(map(_kind, schema["anyOf"]))
    if "enum" in schema:
        return _values(schema)
    if "const" in schema:
        return f"`{schema['const']}`"
    match schema.get("type"):
        case "array":
            return f"list of {_kind(schema['items'])}" + _between(schema, "Items", "items")
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            return f"object of {_kind(schema['additionalProperties'])}" + _between(
                schema, "Properties", "names"
            )
        case "string":
            kind = "time" if schema.get("format") == "date-time" else "string"
            return kind + _between(schema, "Length", "characters") + _like(schema)
        case str() as kind:
            return kind + _between(schema, "imum", "")
    return "any"


def _between(schema: Json, suffix: str, unit: str) -> str:
    least, most = schema.get(f"min{suffix}"), schema.get(f"max{suffix}")
    if most is not None:
        return f", {least or 0:,} to {most:,} {unit}".rstrip()
    return f", at least {least:,} {unit}".rstrip() if least else ""


def _like(schema: Json) -> str:
    pattern = schema.get("pattern", "")
    if r"\p{" in pattern:
        return ", printable, no blank at its ends"
    return f", as `{pattern}`" if pattern else ""


def _problems(document: Json) -> Iterator[Block]:
    yield Heading(2, "Problems", "problems")
    yield Text("What a refusal or a failure says as `reason`. Its `type` leads here.")
    given: dict[str, dict[str, set[str]]] = {}
    for _, _, operation in operations(document):
        for status, response in operation["responses"].items():
            for word in reasons_of(document, response):
                given.setdefault(word, {}).setdefault(status, set()).add(operation["operationId"])
    every = sum(1 for _ in operations(document))
    for word, says in document["x-reasons"].items():
        yield Heading(3, word, word)
        yield Text(says)
        for status, names in sorted(given.get(word, {}).items()):
            links = ", ".join(f"[{name}](#{name})" for name in sorted(names))
            yield Text(f"{status} from {'any call' if len(names) == every else links}.")


def markdown(blocks: list[Block]) -> str:
    anchors = {block.id: _anchor(block.text) for block in blocks if isinstance(block, Heading)}
    text = "\n".join(_written(block) for block in blocks)
    for id, anchor in anchors.items():
        text = text.replace(f"](#{id})", f"](#{anchor})")
    return text


def _anchor(heading: str) -> str:
    """As GitHub makes it."""
    kept = "".join(each for each in heading if each.isalnum() or each in " _-")
    return kept.lower().replace(" ", "-")


def _written(block: Block) -> str:
    match block:
        case Heading(level, text):
            return f"{'#' * level} {text}\n"
        case Text(text):
            return f"{text}\n"
        case Code(kind, text):
            return f"```{kind}\n{text}\n```\n"
        case Table(head, rows):
            lines = [head, tuple("---" for _ in head), *rows]
            return "".join(
                f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n"
                for row in lines
            )


def main() -> None:
    from holdfast.api.app import ROUTES
    from holdfast.api.openapi import document

    sys.stdout.write(markdown(reference(document(ROUTES))))


if __name__ == "__main__":
    main()
