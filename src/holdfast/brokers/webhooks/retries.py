"""When a fact that was not delivered is tried again, and what becomes of it when that fails too.

What waits is a document, so that whoever goes on with it does so by the same schedule. While a fact
waits, those of its event wait behind it: order is promised.
"""

from typing import NamedTuple

import msgspec

from holdfast.domain.model import Millis

KIND = "webhook-retry"
SECOND_MS = 1_000
HOUR_MS = 3_600_000
SCHEDULE_MS: tuple[Millis, ...] = (
    5 * SECOND_MS,
    300 * SECOND_MS,
    1_800 * SECOND_MS,
    *(hours * HOUR_MS for hours in (2, 5, 10, 14, 20, 24)),
)
"""After the first attempt, the second, and so on: over three days in all."""
JITTER = 0.1
"""So much longer at most: what failed together is not tried together."""
REFUSED_MS: tuple[Millis, ...] = (5 * SECOND_MS, 15 * SECOND_MS, 30 * SECOND_MS)
"""The same for a receiver who says that he will not take it: he is believed within a minute, for
its event waits behind it."""
DISABLE_MS: Millis = 3 * 24 * HOUR_MS
RETRY_AFTER_SECONDS_MAX = 3_600
GONE = 410
REFUSED = (400, 413, 415, 422)
BUSY = (429, 503)


class Retry(msgspec.Struct, frozen=True):
    """A fact that waits to be tried again."""

    seq: int
    attempts: int
    """All of them."""
    refusals: int
    first_ms: Millis
    due_ms: Millis
    turn: int
    """Of the subscription; under a later one it is tried at once, and the schedule begins anew."""
    reason: str
    last_ms: Millis = 0
    """When it was tried last; 0 where an earlier version wrote it."""


class Failure(NamedTuple):
    """What came of an attempt that delivered nothing."""

    reason: str
    status: int | None = None
    retry_after_seconds: float = 0.0


class Dead(NamedTuple):
    """To the dead letters; the event goes on."""

    reason: str


class Disable(NamedTuple):
    """Nothing more is sent until somebody enables it again."""

    reason: str


def retry_id(webhook: str, event: str) -> str:
    return f"{webhook}/{event}"


def after_failure(
    before: Retry | None,
    seq: int,
    failure: Failure,
    *,
    now_ms: Millis,
    failing_since_ms: Millis | None,
    turn: int,
    chance: float,
) -> Retry | Dead | Disable:
    """What follows. `chance` is from 0 to 1."""
    if failure.status == GONE:
        return Disable("the receiver answered 410 Gone: it wants no more")
    refused = failure.status in REFUSED
    attempts, refusals, first_ms = 1, int(refused), now_ms
    if before is not None and before.seq == seq:
        # Whoever enables it says that the receiver is well again, not that it will take this fact:
        # refusals still count.
        attempts += before.attempts if before.turn == turn else before.refusals
        refusals += before.refusals
        first_ms = before.first_ms
    if failing_since_ms is not None and now_ms - failing_since_ms >= DISABLE_MS:
        return Disable(f"nothing was delivered for three days; at last: {failure.reason}")
    if refusals > len(REFUSED_MS):
        return Dead(f"refused {refusals} times; at last: {failure.reason}")
    if attempts - refusals > len(SCHEDULE_MS):
        return Dead(f"not delivered in {attempts} attempts; at last: {failure.reason}")
    # Each schedule goes on where it was, whatever came in between.
    waits_ms = REFUSED_MS[refusals - 1] if refused else SCHEDULE_MS[attempts - refusals - 1]
    wait_ms = round(waits_ms * (1 + JITTER * chance))
    asked_ms = round(min(failure.retry_after_seconds, RETRY_AFTER_SECONDS_MAX) * 1000)
    due_ms = now_ms + max(wait_ms, asked_ms)
    return Retry(seq, attempts, refusals, first_ms, due_ms, turn, failure.reason, now_ms)


def stalled(before: Retry | None, seq: int, now_ms: Millis, turn: int, reason: str) -> Retry:
    """Where there is no room for it among the dead letters: its event stands still, and it is
    tried once in an hour."""
    attempts, refusals, first_ms = 1, 0, now_ms
    if before is not None and before.seq == seq:
        attempts, refusals, first_ms = before.attempts, before.refusals, before.first_ms
    return Retry(seq, attempts, refusals, first_ms, now_ms + HOUR_MS, turn, reason, now_ms)
