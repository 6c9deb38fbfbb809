"""What travels about the lab, in and out. As `wire.py`, of which it is a part."""

from typing import Annotated, Literal

from msgspec import Meta
from msgspec.structs import asdict

from holdfast.api.wire import Count, Instant, Out, Policy, Strict
from holdfast.domain.model import instant
from holdfast.lab.runs.offers import Offer
from holdfast.lab.runs.trials import BUYERS_MAX, SEATS_MAX, Over, Result, Run, State

Strategy = Literal[
    "holdfast",
    "naive",
    "pessimistic",
    "optimistic",
    "atomic",
    "skip-locked",
    "redis-nx",
    "two-layer",
    "redis-lua",
]
Amount = Annotated[float, Meta(ge=0)]


class NewLabRun(Strict):
    """A crowd that goes after the same few units. `stock`: not numbered seats, but counted.
    `policy` and `gate` are for Holdfast; null: as the deployment has it."""

    buyers: Annotated[int, Meta(ge=1, le=BUYERS_MAX)]
    seats: Annotated[int, Meta(ge=1, le=SEATS_MAX)]
    stock: bool = False
    strategy: Strategy = "holdfast"
    policy: Policy | None = None
    gate: bool | None = None
    over: Over = "engine"


class LabProgress(Out):
    """By what the buyers were told so far."""

    answered: Count
    sold: Count
    rejected: Count
    errors: Count
    elapsed_ms: Amount


class LabBucket(Out):
    """So many buyers waited for up to `le_ms`, and longer than the bucket before says."""

    le_ms: Amount
    count: Count


class LabResult(Out):
    """`sold` and `oversold` are counted from the authority's rows. `reached_authority`: commands,
    of other strategies statements, that reached the database; `batches`: the transactions that
    commands were in."""

    buyers: Count
    seats: Count
    stock: bool
    sold: Count
    rejected: Count
    errors: Count
    oversold: Count
    elapsed_ms: Amount
    rate: Amount
    p50_ms: Amount
    p99_ms: Amount
    histogram: list[LabBucket]
    reached_authority: Count
    batches: Count | None
    redis_calls: Count
    store: str
    gate: str
    policy: str | None
    strategy: str
    over: Over


class LabRun(Out):
    """`error` says why it failed; `result` is there when it is done."""

    id: str
    state: State
    strategy: str
    buyers: Count
    seats: Count
    stock: bool
    policy: str | None
    gate: bool
    over: Over
    progress: LabProgress
    result: LabResult | None
    error: str | None
    created_at: Instant


class LabOffer(Out):
    """Something to choose; `why_not` says what it needs that this deployment lacks."""

    id: str
    name: str
    about: str
    available: bool
    why_not: str | None


class LabRuns(Out):
    """Newest first; 50 are kept."""

    runs: list[LabRun]
    strategies: list[LabOffer]
    over: list[LabOffer]


def run(run: Run) -> LabRun:
    trial, progress, result = run.trial, run.progress, run.result
    ours = trial.strategy == "holdfast"
    return LabRun(
        id=run.id,
        state=run.state,
        strategy=trial.strategy,
        buyers=trial.buyers,
        seats=trial.seats,
        stock=trial.stock,
        policy=trial.policy if ours else None,
        gate=trial.gate,
        over=trial.over,
        progress=LabProgress(**asdict(progress)),
        result=None if result is None else _result(result),
        error=run.error,
        created_at=instant(run.created_ms),
    )


def _result(result: Result) -> LabResult:
    buckets = [LabBucket(le_ms=each.le_ms, count=each.count) for each in result.histogram]
    return LabResult(**{**asdict(result), "histogram": buckets})


def offer(offer: Offer) -> LabOffer:
    return LabOffer(**asdict(offer))
