"""The OpenAPI document, made from the table of routes and the types that travel."""

from collections.abc import Sequence
from typing import Any

import msgspec

import holdfast
from holdfast.api import wire
from holdfast.api.calls import IDEMPOTENCY_KEY
from holdfast.api.examples import EXAMPLES, IDS, PROBLEM
from holdfast.api.problems import CONTENT_TYPE, TITLES
from holdfast.api.reasons import REASONS
from holdfast.api.routes import EVERY_ROLE, Route
from holdfast.domain import limits

Json = dict[str, Any]

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
"""A route with another one, as a WebSocket's, is not for this document."""
NUMBER_MAX = 10**18 - 1
TEXT = {"type": "string", "minLength": 1, "maxLength": 200}
REF = "#/components/{}/{}"

DESCRIPTION = """\
Holds and sells numbered seats and counted stock to crowds, and cannot oversell.

Send an API key as `Authorization: Bearer KEY`. Times are RFC 3339 in UTC, money is in minor units
(cents), and whatever is refused is answered with `application/problem+json`, whose `reason` is a
stable word. Whatever answers GET, but for a stream, answers HEAD."""

PATTERNS = {
    "provider": "[a-z]{1,32}",
    "event": limits.EVENT_ID.pattern,
    "hold": limits.PUBLIC_ID.pattern,
    "order": limits.PUBLIC_ID.pattern,
    "webhook": "wh_[A-Za-z0-9]{1,64}",
    "run": "[0-9A-Z]{26}",
}

REQUEST_HEADERS: dict[str, Json] = {
    "Idempotency-Key": {
        "description": "Makes the call safe to repeat: for 24 hours the same key and body get the "
        "first answer again.",
        "schema": {"type": "string", "pattern": f"^{IDEMPOTENCY_KEY}$"},
        "example": "order-7c9e6679",
    },
    "Buyer-Token": {
        "description": "Who the buyer is, where the key is a public one; `POST /v1/buyers` makes "
        "it.",
        "schema": {"type": "string"},
    },
    "Hold-Token": {
        "description": "The hold's `token`. Needed where the key is a public one: a wrong one gets "
        "404.",
        "schema": {"type": "string"},
    },
    "If-None-Match": {
        "description": "The ETag of what you have: 304 if it has not changed.",
        "schema": {"type": "string"},
    },
    "Last-Event-ID": {
        "description": "The number of the last event you have; browsers send it by themselves when "
        "they connect again. Goes before `since`.",
        "schema": {"type": "string"},
    },
}

RESPONSE_HEADERS: dict[str, Json] = {
    "ETag": {"description": "Names this version of it.", "schema": {"type": "string"}},
    "Idempotency-Replayed": {
        "description": "There where this is the first answer to an Idempotency-Key, given again.",
        "schema": {"const": "true"},
    },
    "RateLimit": {
        "description": "Of the limit nearest to its end what remains (r), and in how many seconds "
        "all of it is back (t). Only where the caller is limited.",
        "schema": {"type": "string", "pattern": '^"[a-z]+";r=[0-9]+;t=[0-9]+$'},
    },
    "RateLimit-Policy": {
        "description": "Every limit: how much may come at once (q), and in how many seconds that "
        "comes back (w).",
        "schema": {
            "type": "string",
            "pattern": '^"[a-z]+";q=[0-9]+;w=[0-9]+(, "[a-z]+";q=[0-9]+;w=[0-9]+)*$',
        },
    },
    "Retry-After": {
        "description": "Seconds after which to try again.",
        "schema": {"type": "integer", "minimum": 0},
    },
    "WWW-Authenticate": {"description": "How to say who you are.", "schema": {"type": "string"}},
    "X-Request-Id": {
        "description": "This call's number in the log: yours if you sent one, else ours.",
        "schema": {"type": "string", "pattern": "^[!-~]{1,64}$"},
    },
}

EVENT_STREAM = "text/event-stream"
STREAMED = {
    "description": "Each event; `data` is JSON, as the messages of the WebSocket are.",
    "type": "object",
    "properties": {name: {"type": "string"} for name in ("id", "event", "data")},
}

SECURITY = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "An API key of any role."},
    "publicKey": {
        "type": "apiKey",
        "in": "query",
        "name": "key",
        "description": "A public key, and no other, may be in the address.",
    },
}


def document(routes: Sequence[Route]) -> Json:
    """The same for the same routes, to the byte. Its `x-reasons` explain every problem."""
    shown = [route for route in routes if route.method in METHODS and not route.hidden]
    paths: dict[str, Json] = {}
    for route in shown:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, shown)
    words = {word for route in shown for each in reasons(route).values() for word in each}
    words |= {"not_found", "method_not_allowed"}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Holdfast",
            "version": holdfast.__version__,
            "description": DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": tag} for tag in dict.fromkeys(map(_tag, shown))],
        "paths": paths,
        "components": {
            "schemas": _components(shown),
            "responses": {
                _name(status, given): _problem(status, given)
                for status, given in sorted(
                    {each for route in shown for each in reasons(route).items()}
                )
            },
            "headers": RESPONSE_HEADERS,
            "securitySchemes": SECURITY,
        },
        "x-reasons": {word: REASONS.get(word, "") for word in sorted(words)},
    }


def reasons(route: Route) -> dict[int, tuple[str, ...]]:
    """Every problem that a call may end with: the route's own, and those of any call."""
    found = {status: list(words) for status, words in route.reasons.items()}

    def add(status: int, *words: str) -> None:
        mine = found.setdefault(status, [])
        mine += [word for word in words if word not in mine]

    add(400, "bad_request")
    if route.roles:
        add(401, "unauthorized", "buyer_token")
        add(429, "rate_limited")
        add(503, "overloaded", "store_unavailable")
    if route.roles and route.roles != EVERY_ROLE:
        add(403, "forbidden")
    if "{" in route.path:
        add(404, "not_found")
    if route.body is not None:
        add(408, "too_slow")
        add(413, "too_large")
    if route.body is not None or route.query or "Idempotency-Key" in route.headers:
        add(422, "invalid")
    add(500, "internal")
    add(503, "overloaded")
    if route.method != "GET":
        add(503, "unknown")
    return {status: tuple(found[status]) for status in sorted(found)}


def _operation(route: Route, routes: Sequence[Route]) -> Json:
    roles = sorted(route.roles)
    who = f"Roles: {', '.join(roles)}." if roles else "Needs no key."
    operation: Json = {
        "operationId": route.operation,
        "summary": route.summary,
        "description": who,
        "tags": [_tag(route)],
        "x-roles": roles,
        "security": _security(route),
    }
    if parameters := _parameters(route):
        operation["parameters"] = parameters
    if route.body is not None:
        operation["requestBody"] = {
            "required": route.body_required,
            "description": f"{route.body_max:,} bytes at most.",
            "content": _content(route.body, "application/json"),
        }
    operation["responses"] = {
        **{str(status): _answer(route, status, routes) for status in route.answers},
        **{
            str(status): {"$ref": REF.format("responses", _name(status, words))}
            for status, words in reasons(route).items()
        },
    }
    return operation


def _tag(route: Route) -> str:
    """One noun, one module."""
    return str(route.handle.__module__).rpartition(".")[2].capitalize()


def _security(route: Route) -> list[Json]:
    if not route.roles:
        # Which needs a key only where the deployment says so.
        return [{}, {"bearer": []}] if 401 in route.reasons else []
    return [{"bearer": []}, *([{"publicKey": []}] if route.key_in_query else [])]


def _parameters(route: Route) -> list[Json]:
    in_path = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
    return [
        *(
            {
                "name": name,
                "in": "path",
                "required": True,
                "description": f"The {name}'s {'name' if name == 'provider' else 'id'}.",
                "schema": {"type": "string", "pattern": f"^{PATTERNS[name]}$"},
                "example": IDS[name],
            }
            for name in in_path
        ),
        *(
            {
                "name": name,
                "in": "query",
                "description": says,
                "schema": {
                    "type": "integer",
                    "minimum": route.least.get(name, 0),
                    "maximum": NUMBER_MAX,
                },
            }
            for name, says in route.query.items()
        ),
        *(
            {"name": name, "in": "query", "required": True, "description": says, "schema": TEXT}
            for name, says in route.texts.items()
        ),
        *(
            {
                "name": name,
                "in": "header",
                "required": name == "Idempotency-Key" and 400 in route.reasons,
                **REQUEST_HEADERS[name],
            }
            for name in route.headers
        ),
    ]


def _answer(route: Route, status: int, routes: Sequence[Route]) -> Json:
    kind = route.answers[status]
    names = ["X-Request-Id"]
    if route.roles:
        names += ["RateLimit", "RateLimit-Policy"]
    if "If-None-Match" in route.headers:
        names.append("ETag")
    if "Idempotency-Key" in route.headers:
        names.append("Idempotency-Replayed")
    answer: Json = {"description": ANSWERS.get(status, "Done."), "headers": _headers(names)}
    if kind is not None:
        answer["content"] = _content(kind, route.media)
    if status == 201 and (links := _links(kind, routes)):
        answer["links"] = links
    return answer


ANSWERS = {
    200: "As asked.",
    201: "Made.",
    202: "Begun.",
    204: "Done; there is nothing to say.",
    304: "It has not changed.",
}


def _headers(names: Sequence[str]) -> Json:
    return {name: {"$ref": REF.format("headers", name)} for name in sorted(names)}


def _links(kind: Any, routes: Sequence[Route]) -> Json:
    """What can be done with what was made: every route that takes its id."""
    name = kind.__name__.lower()
    id = {name: "$response.body#/id"}
    links: Json = {}
    for route in routes:
        if f"{{{name}}}" in route.path:
            links[route.operation] = {"operationId": route.operation, "parameters": id}
        elif name in getattr(route.body, "__struct_fields__", ()):
            body = EXAMPLES[route.body] | id
            links[route.operation] = {"operationId": route.operation, "requestBody": body}
    return links


def _content(kind: Any, media: str) -> Json:
    content: Json = {"schema": STREAMED if media == EVENT_STREAM else _schema(kind)}
    if kind in EXAMPLES:
        content["example"] = EXAMPLES[kind]
    return {media: content}


def _schema(kind: Any) -> Json:
    template = REF.format("schemas", "{name}")
    return msgspec.json.schema_components([kind], ref_template=template)[0][0]


def _components(routes: Sequence[Route]) -> Json:
    kinds = [kind for route in routes for kind in (route.body, *route.answers.values()) if kind]
    template = REF.format("schemas", "{name}")
    _, found = msgspec.json.schema_components([*kinds, wire.Problem], ref_template=template)
    for kind, says in wire.WHOLE.items():
        found[kind.__name__] |= says
    return {name: found[name] for name in sorted(found)}


def _name(status: int, words: Sequence[str]) -> str:
    return f"{status}.{'.'.join(words)}"


def _problem(status: int, words: Sequence[str]) -> Json:
    names = ["X-Request-Id", "RateLimit", "RateLimit-Policy"]
    if status in (429, 503):
        names.append("Retry-After")
    if status == 401:
        names.append("WWW-Authenticate")
    says = {"status": {"const": status}, "reason": {"enum": list(words)}}
    schema = {"allOf": [{"$ref": REF.format("schemas", "Problem")}, {"properties": says}]}
    content: Json = {"schema": schema}
    if status == PROBLEM["status"] and PROBLEM["reason"] in words:
        content["example"] = PROBLEM
    return {
        "description": f"{TITLES[status]}: {', '.join(f'`{word}`' for word in words)}.",
        "headers": _headers(names),
        "content": {CONTENT_TYPE: content},
    }
