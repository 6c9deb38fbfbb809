"""The document, the page and the reference: true, complete, and the same everywhere."""

import ast
import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from holdfast.api import documentation, examples, pages, problems, wire
from holdfast.api.app import ROUTES
from holdfast.api.calls import Call
from holdfast.api.keys import Role
from holdfast.api.openapi import METHODS, document, reasons
from holdfast.api.reasons import REASONS
from holdfast.api.reference import (
    Block,
    Code,
    Heading,
    Table,
    Text,
    markdown,
    operations,
    reference,
    resolved,
)
from holdfast.domain.faults import is_label
from holdfast.domain.outcomes import Reason

ROOT = Path(__file__).parents[2]
API = ROOT / "src" / "holdfast" / "api"
DOCUMENT = json.loads(json.dumps(document(ROUTES)))
OPERATIONS = {operation["operationId"]: operation for _, _, operation in operations(DOCUMENT)}


def test_every_route_is_in_the_document_with_a_name_of_its_own():
    named = [route.operation for route in ROUTES if route.method in METHODS and not route.hidden]
    assert "" not in named, "a Route needs an operation: its operationId"
    assert sorted(OPERATIONS) == sorted(named)


def test_the_pages_are_no_part_of_the_api():
    hidden = {route.path for route in ROUTES if route.hidden}
    assert hidden == {"/", "/e/{event}", "/lab", "/ops", "/design", "/assets/{name}", "/pages.json"}
    assert hidden.isdisjoint(DOCUMENT["paths"])
    assert {path for path in DOCUMENT["paths"] if not path.startswith("/v1/")} == {
        *("/healthz", "/readyz", "/metrics", "/openapi.json", "/docs")
    }


def test_the_document_is_valid_openapi():
    from schemathesis.specs.openapi import definitions

    validator = jsonschema_rs.Draft202012Validator(definitions.OPENAPI_31)
    assert [fault.message for fault in validator.iter_errors(DOCUMENT)] == []


def test_the_document_is_the_same_each_time():
    assert json.dumps(document(ROUTES)) == json.dumps(document(ROUTES)) == json.dumps(DOCUMENT)


def test_every_reference_leads_somewhere():
    for found in re.findall(r'"(#/[^"]+)"', json.dumps(DOCUMENT)):
        assert resolved(DOCUMENT, {"$ref": found})


def test_the_document_says_who_may_call():
    assert OPERATIONS["createEvent"]["x-roles"] == ["admin"]
    assert OPERATIONS["createEvent"]["security"] == [{"bearer": []}]
    assert OPERATIONS["readLog"]["x-roles"] == ["admin", "seller"]
    assert OPERATIONS["getSeats"]["x-roles"] == sorted(Role)
    assert OPERATIONS["getSeats"]["security"] == [{"bearer": []}, {"publicKey": []}]
    assert OPERATIONS["getHealth"]["security"] == []


def test_the_document_says_from_which_number_on_a_parameter_is_right():
    least = {
        each["name"]: each["schema"]["minimum"]
        for each in OPERATIONS["readLog"]["parameters"]
        if each["in"] == "query"
    }
    assert least == {"after": 0, "limit": 1}


def test_the_example_of_a_type_is_one():
    for kind, example in examples.EXAMPLES.items():
        msgspec.json.decode(json.dumps(example), type=kind)
        schema = {"$ref": f"#/components/schemas/{kind.__name__}"} | {
            "components": DOCUMENT["components"]
        }
        validator = jsonschema_rs.Draft202012Validator(schema, validate_formats=True)
        assert [fault.message for fault in validator.iter_errors(example)] == []


@pytest.mark.parametrize(
    "text", ["a", "a b", "a  b", "日本", " a", "a ", "", "a\tb", "a\u00a0b", "\n"]
)
def test_a_label_is_the_same_to_the_document_as_to_us(text):
    schema = msgspec.json.schema(wire.Label)
    assert jsonschema_rs.Draft202012Validator(schema).is_valid(text) == is_label(text)


def given_in_the_code() -> set[str]:
    """The second argument of every Problem that is made, where it is a word."""
    found = set()
    for path in API.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Problem":
                for word in node.args[1:2]:
                    if isinstance(word, ast.Constant) and isinstance(word.value, str):
                        found.add(word.value)
    return found


def test_every_reason_is_documented_and_explained():
    documented = set(DOCUMENT["x-reasons"])
    assert "declined" in given_in_the_code()
    assert given_in_the_code() - documented == set()
    assert [word for word, says in DOCUMENT["x-reasons"].items() if not says] == []
    # Not over HTTP: whose a hold is nobody is told, a cancelled order stays one, and a payment that
    # comes late is settled.
    assert {*Reason} - documented - {"not_yours", "cancelled", "late"} == set()


def test_no_reason_is_explained_that_is_never_given():
    later = {"in_progress"}
    assert set(REASONS) - set(DOCUMENT["x-reasons"]) <= later


def test_a_reason_has_a_status_and_a_title_everywhere():
    for route in ROUTES:
        assert reasons(route).keys() <= problems.TITLES.keys()


def test_the_reference_in_docs_is_up_to_date():
    committed = (ROOT / "docs" / "http.md").read_text(encoding="utf-8")
    assert committed == markdown(reference(DOCUMENT)), (
        "make it anew: .venv/bin/python -m holdfast.api.reference > docs/http.md"
    )


def test_no_two_headings_share_an_anchor():
    headings = [block for block in reference(DOCUMENT) if isinstance(block, Heading)]
    assert len({heading.id for heading in headings}) == len(headings)
    assert len({heading.text.lower() for heading in headings}) == len(headings)


def test_the_document_is_served(served):
    answer = served.call("GET", "/openapi.json", key=None)
    assert answer.json() == DOCUMENT
    again = served.call(
        "GET", "/openapi.json", key=None, headers={"If-None-Match": answer.headers["ETag"]}
    )
    assert again.status_code == 304


@pytest.mark.parametrize("path", ["/openapi.json", "/docs"])
def test_what_is_documented_is_sent_compressed_to_whoever_takes_that(served, path):
    plain = served.call("GET", path, key=None, headers={"Accept-Encoding": "identity"})
    small = served.call("GET", path, key=None, headers={"Accept-Encoding": "gzip, br"})
    assert "Content-Encoding" not in plain.headers
    assert small.headers["Content-Encoding"] == "gzip"
    assert small.content == plain.content  # requests has unpacked it
    assert int(small.headers["Content-Length"]) * 4 < int(plain.headers["Content-Length"])
    assert {answer.headers["Vary"] for answer in (plain, small)} == {"Accept-Encoding"}
    for answer in (plain, small):  # whichever form he has, it is the same
        known = {"If-None-Match": answer.headers["ETag"]}
        assert served.call("GET", path, key=None, headers=known).status_code == 304


async def test_what_is_documented_is_compressed_once_for_all(monkeypatch):
    shown = documentation.Documentation(ROUTES)
    asked = Call(pages.NOBODY, {}, {b"accept-encoding": b"gzip"}, b"", "", "")
    service: Any = None  # is not looked at
    first = await shown.docs(service, asked)
    monkeypatch.setattr(documentation, "zlib", None)
    assert (await shown.docs(service, asked)).body is first.body


@pytest.mark.parametrize(
    "path",
    [route.path for route in ROUTES if route.method == "GET" and not route.stream],
)
def test_a_head_is_a_get_without_its_body(served, event, path):
    ids = {"event": event, "name": "none.js"}
    path = re.sub(r"{(\w+)}", lambda part: ids.get(part[1], "nobody.x"), path)
    whole, head = served.call("GET", path), served.call("HEAD", path)
    assert (head.status_code, head.content) == (whole.status_code, b"")
    # Not how long it is: figures of a running service differ from one look to the next.
    for name in ("Content-Type", "ETag", "Vary", "Cache-Control", "Location"):
        assert head.headers.get(name) == whole.headers.get(name), name


def test_a_head_says_how_long_the_body_is(served, event):
    for path in ("/openapi.json", "/docs", "/healthz", f"/v1/events/{event}"):
        whole = served.call("GET", path, headers={"Accept-Encoding": "identity"})
        head = served.call("HEAD", path, headers={"Accept-Encoding": "identity"})
        assert head.headers["Content-Length"] == str(len(whole.content))


def test_who_may_not_get_it_hears_nothing_by_a_head_either(served, event, public):
    assert served.call("HEAD", f"/v1/events/{event}", key=None).status_code == 401
    assert served.call("HEAD", f"/v1/events/{event}/log", key=public).status_code == 403
    assert served.call("HEAD", "/v1/events/nowhere").status_code == 404


def test_a_stream_without_an_end_has_no_head(served, event):
    answer = served.call("HEAD", f"/v1/events/{event}/stream")
    assert answer.status_code == 405
    assert answer.headers["Allow"] == "GET, OPTIONS"


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.add(tag)
        self.ids += [id for id in [given.get("id")] if id]
        self.links += [link for name in ("href", "src") if (link := given.get(name))]


def test_the_page_explains_every_problem_where_its_type_leads(served):
    answer = served.call("GET", "/docs", key=None)
    page = Page(answer.text)
    refused = served.call("GET", "/v1/events/nowhere")
    assert refused.json()["type"].removeprefix("/docs#") in page.ids
    assert set(DOCUMENT["x-reasons"]) <= set(page.ids)
    assert set(OPERATIONS) <= set(page.ids)


def test_the_page_needs_nothing_but_itself(served):
    answer = served.call("GET", "/docs", key=None)
    page = Page(answer.text)
    assert len(set(page.ids)) == len(page.ids)
    assert {link for link in page.links if not link.startswith("#")} == set()
    assert {link[1:] for link in page.links} <= set(page.ids)
    assert page.tags & {"script", "img", "link", "iframe", "form"} == set()
    style = re.search(r"<style>(.*?)</style>", answer.text, re.DOTALL)
    assert style
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}'; ")
    assert not re.search(r"url\(|@import| style=", answer.text)


def test_what_looks_like_markup_is_shown_as_it_is():
    nasty = '<script>alert("1")</script>'
    blocks: list[Block] = [
        Heading(1, nasty, nasty),
        Text(f"{nasty} `{nasty}` [{nasty}](#x)"),
        Code("text", nasty),
        Table((nasty,), [(nasty,)]),
    ]
    text, _ = documentation.page(blocks)
    assert "<script" not in text
    assert text.count("&lt;script&gt;") == 8


def test_an_unknown_path_and_method_are_problems(served):
    assert served.call("GET", "/v1/nowhere").json()["reason"] == "not_found"
    answer = served.call("DELETE", "/v1/events")
    assert answer.status_code == 405
    assert answer.json()["reason"] == "method_not_allowed"
