"""Every response of every test is checked against the OpenAPI document: its status, the type of
its content, its headers, and its body against the schema. What is hidden from the document is
checked against its route."""

import json
import re
from functools import cache
from typing import Any

import jsonschema_rs
import requests

from holdfast.api.app import ROUTES
from holdfast.api.openapi import document, reasons
from holdfast.api.reference import operations, resolved
from holdfast.api.routes import Route

Json = dict[str, Any]

UNROUTED = {404: "not_found", 405: "method_not_allowed"}
"""What is answered before any route is found, and so belongs to none."""
STREAMS = {"streamSeats"}


def check_response(url: str, method: str, path: str, answer: requests.Response) -> None:
    """Fails where the answer is not what the document promises of this call."""
    path = path.partition("?")[0]
    called = f"{method} {path} -> {answer.status_code} {answer.text[:500]}"
    if method == "OPTIONS":
        assert "OPTIONS" in answer.headers["Allow"], called
        return
    if method == "HEAD":
        assert answer.content == b"", f"a body where none may be: {called}"
    operation = _operation(method, path)
    if operation is None and (hidden := _hidden(method, path)) is not None:
        _check_hidden(hidden, method, answer, called)
        return
    if operation is None:
        _check_unrouted(method, path, answer, called)
        return
    response = operation["responses"].get(str(answer.status_code))
    assert response is not None, f"not documented: {called}"
    response = resolved(_document(), response)
    assert "X-Request-Id" in answer.headers, f"it has no number: {called}"
    for name, header in response["headers"].items():
        if name in answer.headers:
            schema = resolved(_document(), header)["schema"]
            _check(schema, _read(name, answer.headers[name]), called)
    if "content" not in response:
        assert answer.content == b"", f"a body where none is documented: {called}"
        return
    media = answer.headers["Content-Type"].partition(";")[0]
    assert media in response["content"], f"{media} is not documented: {called}"
    if method == "HEAD":
        return
    if media.endswith("json"):
        _check(response["content"][media]["schema"], answer.json(), called)
    if media == "application/problem+json":
        assert answer.json()["type"] == f"/docs#{answer.json()['reason']}", called


def _check_hidden(route: Route, method: str, answer: requests.Response, called: str) -> None:
    assert "X-Request-Id" in answer.headers, f"it has no number: {called}"
    media = answer.headers.get("Content-Type", "").partition(";")[0]
    if answer.status_code >= 400:
        assert media == "application/problem+json", called
        if method != "HEAD":
            _check({"$ref": "#/components/schemas/Problem"}, answer.json(), called)
            assert answer.json()["reason"] in reasons(route)[answer.status_code], called
        return
    assert answer.status_code in route.answers, f"its route does not say so: {called}"
    if method == "HEAD":
        return
    if route.answers[answer.status_code] is None:
        assert answer.content == b"", f"a body where none may be: {called}"
    elif route.media != "*/*":
        assert media == route.media, called


def _check_unrouted(method: str, path: str, answer: requests.Response, called: str) -> None:
    status = answer.status_code
    assert status in UNROUTED, f"not documented: {called}"
    assert answer.headers["Content-Type"] == "application/problem+json", called
    if status == 405:
        allowed = {each.strip() for each in answer.headers["Allow"].split(",")}
        verbs = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
        there = {verb for verb in verbs if _operation(verb, path) or _hidden(verb, path)}
        assert allowed - {"OPTIONS"} == there, called
    if method == "HEAD":
        return
    _check({"$ref": "#/components/schemas/Problem"}, answer.json(), called)
    assert answer.json()["reason"] == UNROUTED[status], called
    assert answer.json()["status"] == status, called


def _check(schema: Json, value: object, called: str) -> None:
    faults = [
        f"{'/'.join(map(str, fault.instance_path))}: {fault.message}"
        for fault in _validator(json.dumps(schema)).iter_errors(value)
    ]
    assert not faults, f"{called}\n" + "\n".join(faults)


@cache
def _validator(schema: str) -> jsonschema_rs.Draft202012Validator:
    whole = {**json.loads(schema), "components": _document()["components"]}
    return jsonschema_rs.Draft202012Validator(whole, validate_formats=True)


def _read(name: str, text: str) -> object:
    return int(text) if name == "Retry-After" and text.isdigit() else text


@cache
def _document() -> Json:
    return dict(json.loads(json.dumps(document(ROUTES))))


@cache
def _operations() -> list[tuple[re.Pattern[str], str, Json]]:
    return [
        (_pattern(path), method, operation) for path, method, operation in operations(_document())
    ]


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path)))


def _hidden(method: str, path: str) -> Route | None:
    if method not in ("GET", "HEAD"):
        return None
    hidden = (route for route in ROUTES if route.hidden)
    return next((route for route in hidden if _pattern(route.path).fullmatch(path)), None)


def _operation(method: str, path: str) -> Json | None:
    """A HEAD is promised what GET is, but for a stream."""
    for pattern, verb, operation in _operations():
        head = method == "HEAD" and verb == "GET" and operation["operationId"] not in STREAMS
        if (head or verb == method) and pattern.fullmatch(path):
            return operation
    return None
