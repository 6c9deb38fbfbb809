"""What Schemathesis cannot know of this API: how to get something to happen, and which faults no
schema can tell."""

import re
import zlib
from typing import Any

import schemathesis
from schemathesis import Case, CheckContext, HookContext, Response

from holdfast.api.wire import PRINTABLE

EVENT = "rehearsal"
"""An event that is always on sale; the test makes it, and nothing here changes it."""

WELL_FORMED = (
    *("unknown_unit", "idempotency_mismatch", "too_much"),
    *("payment_required", "payment_unknown"),
)
"""Reasons of a 422 that speak of what is there, not of what the body looks like."""
BEYOND_A_SCHEMA = re.compile(
    "all units together may be worth|an event may have|has no price in prices"
    "|must be http:// or https://|\\S+ is an internal "
    "|is there twice|makes a seat that is there already|may ask for|nothing to add"
)
"""Faults that relate one field to another."""


@schemathesis.hook
def before_load_schema(context: HookContext, raw_schema: dict[str, Any]) -> None:
    r"""Schemathesis takes \p{C} for the control characters alone, so that its labels would have
    unprintable ones in them. It draws from ASCII (schemathesis.toml), where this is the same."""
    for schema in _inside(raw_schema["components"]["schemas"]):
        if schema.get("pattern") == PRINTABLE["pattern"]:
            schema["pattern"] = "^[!-~]+( +[!-~]+)*$"


def _inside(value: Any) -> list[dict[str, Any]]:
    """Every object in there."""
    if isinstance(value, list):
        return [found for each in value for found in _inside(each)]
    if isinstance(value, dict):
        return [value, *(found for each in value.values() for found in _inside(each))]
    return []


@schemathesis.hook
def before_call(context: HookContext, case: Case[Any], kwargs: dict[str, Any]) -> None:
    """A valid call has a key of its own; a hold with an admin key names its buyer, and every second
    one asks for what there is. To JSON Schema 1.0 is a whole number; to us it is not, so a valid
    body has none."""
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    if isinstance(case.body, dict):
        case.body = _whole(case.body)
    if "Idempotency-Key" in case.headers:
        case.headers["Idempotency-Key"] = case.id
    if case.operation.path == "/v1/events/{event}/holds" and isinstance(case.body, dict):
        buyer = case.body.get("buyer") or f"u-{case.id}"
        real = case.path_parameters["event"] == EVENT and zlib.crc32(case.id.encode()) % 2
        case.body = {**({"pools": {"floor": 1}} if real else case.body), "buyer": buyer}
    if case.operation.path == "/v1/lab/runs" and isinstance(case.body, dict):
        case.body = _small(case.body, case.id)


def _small(body: dict[str, Any], id: str) -> dict[str, Any]:
    """A crowd of a few; and most of what is asked for cannot be tried on SQLite, for each that can
    is a process."""
    small = {"buyers": min(body["buyers"], 20), "seats": min(body["seats"], 20)}
    asked = {**body, **small, "over": "engine"}
    return asked if zlib.crc32(id.encode()) % 5 == 0 else {**asked, "strategy": "skip-locked"}


def _whole(value: Any) -> Any:
    """The same, with every 1.0 as 1."""
    if isinstance(value, list):
        return [_whole(each) for each in value]
    if isinstance(value, dict):
        return {name: _whole(each) for name, each in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() else value


@schemathesis.check
def a_valid_body_has_no_fault_that_its_schema_could_tell(
    ctx: CheckContext, response: Response, case: Case[Any]
) -> None:
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    if response.status_code != 422:
        return
    problem = response.json()
    if problem["reason"] != "invalid":
        assert problem["reason"] in WELL_FORMED
        return
    for fault in problem["faults"]:
        known = BEYOND_A_SCHEMA.match(fault["problem"]) or ".aisles" in fault["path"]
        assert known, f"the schema should say: {fault}"
