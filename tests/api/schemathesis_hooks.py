"""What Schemathesis cannot know of this API, as a check of our own."""

import schemathesis
from schemathesis import Case, CheckContext, Response

WELL_FORMED = ("unknown_unit", "idempotency_mismatch", "payment_required", "payment_unknown")
"""Reasons of a 422 that speak of what is there, not of what the body looks like."""
BEYOND_A_SCHEMA = (
    "all units together may be worth",
    "an event may have",
    "has no price in prices",
    "is missing: for whom the hold is",
    "is there twice",
    "makes a seat that is there already",
    "may ask for",
    "nothing to add",
)
"""Faults that relate one field to another, or to the caller's role."""


@schemathesis.check
def a_valid_body_has_no_fault_that_its_schema_could_tell(
    ctx: CheckContext, response: Response, case: Case
) -> None:
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    if response.status_code != 422:
        return
    problem = response.json()
    if problem["reason"] != "invalid":
        assert problem["reason"] in (*WELL_FORMED, "too_much")
        return
    for fault in problem["faults"]:
        known = fault["problem"].startswith(BEYOND_A_SCHEMA) or ".aisles" in fault["path"]
        assert known, f"the schema should say: {fault}"
