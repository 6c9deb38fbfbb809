"""What is wrong with a body is said in a sentence for a person, with its place, and not in the
words of the library that found it."""

import re
from typing import Any

import pytest

from holdfast.api import buyers, events, holds, lab, orders, system, webhooks
from holdfast.api.calls import Body
from holdfast.api.problems import Problem

BODIES = {
    "buyers": buyers.NEW_BUYER,
    "events": events.NEW_EVENT,
    "changes": events.CHANGES,
    "holds": holds.ASK,
    "extension": holds.EXTENSION,
    "lab": lab.NEW_RUN,
    "orders": orders.NEW_ORDER,
    "cancellation": orders.CANCELLATION,
    "system": system.CHANGES,
    "webhooks": webhooks.NEW_WEBHOOK,
    "rotation": webhooks.ROTATION,
    "redelivery": webhooks.REDELIVERY,
}
LIBRARY = re.compile("`|Expected|expected|codec|truncated|malformed|recursion|regex|Invalid|Object")


def said(body: Body, sent: bytes) -> list[tuple[str, str]]:
    with pytest.raises(Problem) as refused:
        body.decode(sent)
    assert (refused.value.status, refused.value.reason) == (422, "invalid")
    return [(fault.path, fault.problem) for fault in refused.value.faults]


NOT_JSON = {
    b"": "the body is empty: it must be JSON",
    b'{"hold": "gala.x"': "the body is not JSON: it ends too early",
    b'{"hold": "gala.x",}': "the body is not JSON: a comma has nothing after it, at byte 19",
    b'{"hold": "gala.x" "payment": null}': (
        "the body is not JSON: a comma or } is missing, at byte 19"
    ),
    b'{"hold" "gala.x"}': "the body is not JSON: a colon is missing, at byte 9",
    b"{'hold': 'gala.x'}": "the body is not JSON: a name must be in double quotes, at byte 2",
    b'{"hold": "gala.x"}}': "the body is not JSON: something follows after its end, at byte 19",
    b"hold=gala.x": "the body is not JSON: what is there cannot be there, at byte 1",
    b"nope": "the body is not JSON: what is there cannot be there, at byte 4",
    b'{"hold": "gala.\xff"}': "the body is not JSON: it is not in UTF-8",
    b'{"hold": ' + b"[" * 50_000: "the body is nested too deeply",
}


@pytest.mark.parametrize("sent", NOT_JSON, ids=lambda sent: repr(sent[:20]))
def test_a_body_that_is_not_json_is_told_what_is_wrong_and_where(sent):
    assert said(orders.NEW_ORDER, sent) == [("", NOT_JSON[sent])]


MISFITS: list[tuple[str, bytes, str, str]] = [
    ("orders", b"[]", "", "the body must be an object, not a list"),
    ("orders", b"{}", "hold", "is missing"),
    ("orders", b'{"hold": 1}', "hold", "must be a text, not a whole number"),
    ("orders", b'{"hold": "e.x", "colour": 1}', "colour", "unknown; known are hold, payment, "),
    ("orders", b'{"hold": "e.x", "payment": {}}', "payment.method", "is missing"),
    ("orders", b'{"hold": "e.x", "payment": 1}', "payment", "must be an object or null, not a "),
    ("orders", b'{"hold": "e.x", "accept_other_seats": 1}', "accept_other_seats", "must be true "),
    ("orders", b'{"hold": "no dot"}', "hold", "must be an id as it was given"),
    ("orders", b'{"hold": 1e999}', "hold", "has a number that is too large"),
    ("extension", b'{"seconds": 0}', "seconds", "must be at least 1"),
    ("extension", b'{"seconds": 99999999999}', "seconds", "must be at most "),
    ("extension", b'{"seconds": "5"}', "seconds", "must be a whole number or null, not a text"),
    ("buyers", b'{"buyer": ""}', "buyer", "must have at least 1 character"),
    ("cancellation", b'{"seats": ["A-1-1", 7]}', "seats[1]", "must be a text, not a whole number"),
    ("cancellation", b'{"pools": {}}', "pools", "must have at least 1 name"),
    ("cancellation", b'{"pools": {"": 1}}', "pools", "a name in it must have at least 1 character"),
    ("system", b'{"gate": "open"}', "gate", "must be on or off"),
]


@pytest.mark.parametrize(("name", "sent", "path", "problem"), MISFITS, ids=str)
def test_what_does_not_fit_is_named_and_told_what_it_must_be(name, sent, path, problem):
    [(found, says)] = said(BODIES[name], sent)
    assert found == path
    assert says.startswith(problem)


def test_a_field_that_looks_like_the_end_of_a_message_fools_nobody():
    tricky = b'{"a - at `$.b`": 1}'
    [(path, problem), missing] = said(orders.NEW_ORDER, tricky)
    assert (path, missing) == ("a - at `$.b`", ("hold", "is missing"))
    assert problem.startswith("unknown; known are hold, ")


ODD: tuple[Any, ...] = (
    *(b"null", b"true", b"1", b"1.5", b'"x"', b"[]", b"{}", b'{"x": 1}', b"1e999", b"[1 2]"),
    *(
        b"01",
        b"-",
        b'"\\x"',
        b'"\\u12"',
        b'"\\ud800\\u0041"',
        b'"\\uzzzz"',
        b'"\x01"',
        b"\x00",
        b"NaN",
    ),
)


@pytest.mark.parametrize("name", BODIES)
def test_no_body_is_answered_in_the_words_of_a_library(name):
    fields = BODIES[name]._decoder.type.__struct_fields__
    values = (b"null", b"true", b"-1", b"1.5", b"1e999", b'""', b'"\\u0000"', b"[[]]", b'{"": {}}')
    sent = [*ODD, *(b'{"%b": %b}' % (field.encode(), v) for field in fields for v in values)]
    for each in sent:
        try:
            BODIES[name].decode(each)
        except Problem as refused:
            for fault in refused.faults:
                assert not LIBRARY.search(fault.problem), (each, fault)


def test_a_caller_reads_it_in_the_answer(served):
    key = {"Idempotency-Key": "k"}
    answer = served.call("POST", "/v1/orders", data=b'{"hold": ', headers=key)
    assert (answer.status_code, answer.json()["reason"]) == (422, "invalid")
    assert answer.json()["detail"] == "the body is not JSON: it ends too early"
    answer = served.call("POST", "/v1/orders", {"hold": 1}, headers=key)
    assert answer.json()["detail"] == "hold: must be a text, not a whole number"
