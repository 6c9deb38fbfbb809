"""What follows a failed attempt: pure decisions, by the schedule of Standard Webhooks."""

import pytest

from holdfast.brokers.webhooks.retries import (
    DISABLE_MS,
    HOUR_MS,
    REFUSED_MS,
    SCHEDULE_MS,
    Dead,
    Disable,
    Failure,
    Retry,
    after_failure,
    stalled,
)

NOW = 1_790_000_000_000
TROUBLE = Failure("answered 500", 500)


def decide(before, failure=TROUBLE, *, now_ms=NOW, since=None, seq=5, turn=1, chance=0.0):
    return after_failure(
        before, seq, failure, now_ms=now_ms, failing_since_ms=since, turn=turn, chance=chance
    )


def run(failure: Failure = TROUBLE, chance: float = 0.0) -> tuple[list[int], Dead | Disable]:
    """Attempts by the schedule while others get through: the waits, and how it ends."""
    now, before, waits = NOW, None, []
    while isinstance(follows := decide(before, failure, now_ms=now, chance=chance), Retry):
        waits.append(follows.due_ms - now)
        now, before = follows.due_ms, follows
    return waits, follows


def test_the_schedule_is_that_of_standard_webhooks_and_over_three_days_long():
    waits, end = run()
    hours = [2, 5, 10, 14, 20, 24]
    assert waits == [5_000, 300_000, 1_800_000, *(each * HOUR_MS for each in hours)]
    assert sum(waits) > 3 * 24 * HOUR_MS
    assert end == Dead("not delivered in 10 attempts; at last: answered 500")


@pytest.mark.parametrize("chance", [0.0, 0.5, 1.0])
def test_chance_only_makes_a_wait_longer_by_a_tenth_at_most(chance):
    waits, _ = run(chance=chance)
    assert waits == [round(each * (1 + chance / 10)) for each in SCHEDULE_MS]


@pytest.mark.parametrize("status", [400, 413, 415, 422])
def test_what_the_receiver_refuses_for_good_is_tried_four_times_within_a_minute(status):
    waits, end = run(Failure(f"answered {status}", status), chance=1.0)
    assert len(waits) == 3
    assert sum(waits) <= 60_000
    assert end == Dead(f"refused 4 times; at last: answered {status}")


@pytest.mark.parametrize("status", [None, 301, 401, 404, 408, 409, 429, 500, 503])
def test_everything_else_is_tried_by_the_whole_schedule(status):
    assert len(run(Failure("no", status))[0]) == len(SCHEDULE_MS)


def test_each_schedule_goes_on_where_it_was_whatever_came_in_between():
    refusal = Failure("answered 400", 400)
    now, before, waits = NOW, None, []
    for failure in (TROUBLE, refusal, TROUBLE, refusal, refusal, TROUBLE):
        follows = decide(before, failure, now_ms=now)
        waits.append(follows.due_ms - now)
        now, before = follows.due_ms, follows
    (t1, t2, t3, *_), (r1, r2, r3) = SCHEDULE_MS, REFUSED_MS
    assert waits == [t1, r1, t2, r2, r3, t3]
    end = decide(before, refusal, now_ms=now)
    assert end == Dead("refused 4 times; at last: answered 400")


def test_gone_disables_at_once():
    assert isinstance(decide(None, Failure("answered 410", 410)), Disable)


def test_retry_after_makes_a_wait_longer_but_by_an_hour_at_most():
    def due(seconds):
        follows = decide(None, Failure("answered 429", 429, seconds))
        assert isinstance(follows, Retry)
        return follows.due_ms - NOW

    assert [due(seconds) for seconds in (0, 3, 60, 3_600, 10**9)] == [
        *(5_000, 5_000, 60_000, HOUR_MS, HOUR_MS)
    ]


def test_whoever_failed_for_three_days_is_disabled_and_nothing_is_buried():
    last = Retry(5, 9, 3, NOW - DISABLE_MS, NOW, 1, "no")
    for failure in (TROUBLE, Failure("answered 400", 400)):
        assert isinstance(decide(last, failure, since=NOW - DISABLE_MS), Disable)
        assert isinstance(decide(last, failure, since=NOW - DISABLE_MS + 1), Retry | Dead)


def test_another_fact_begins_anew():
    before = Retry(5, 9, 3, NOW - 1, NOW, 1, "no")
    fresh = Retry(6, 1, 0, NOW, NOW + 5_000, 1, "answered 500", NOW)
    assert decide(before, seq=6) == fresh


def test_for_a_subscription_that_was_enabled_the_schedule_begins_anew():
    before = Retry(5, 9, 0, NOW - 1, NOW, 1, "no")
    fresh = Retry(5, 1, 0, NOW - 1, NOW + 5_000, 2, "answered 500", NOW)
    assert decide(before, turn=2) == fresh


def test_refusals_count_however_often_a_subscription_is_enabled():
    refusal = Failure("answered 400", 400)
    before, waits = None, []
    for turn in (1, 2, 3):
        before = decide(before, refusal, turn=turn)
        waits.append(before.due_ms - NOW)
    assert waits == [*REFUSED_MS]
    assert before == Retry(5, 3, 3, NOW, NOW + REFUSED_MS[-1], 3, "answered 400", NOW)
    end = decide(before, refusal, turn=4)
    assert end == Dead("refused 4 times; at last: answered 400")
    # Other failures still have the whole schedule before them.
    assert decide(before, turn=4).due_ms == NOW + SCHEDULE_MS[0]


def test_where_the_dead_letters_are_full_an_event_stands_still():
    before = Retry(5, 9, 3, NOW - 1, NOW, 1, "no")
    due_ms = NOW + HOUR_MS
    assert stalled(before, 5, NOW, 1, "full") == Retry(5, 9, 3, NOW - 1, due_ms, 1, "full", NOW)
    assert stalled(None, 5, NOW, 1, "full") == Retry(5, 1, 0, NOW, due_ms, 1, "full", NOW)
