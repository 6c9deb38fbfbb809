"""GET /v1/events/{event}/stats: how a sale stands and has gone, from its projection."""

from typing import Annotated

from msgspec import Meta

from holdfast.api.calls import Call, Reply, reply
from holdfast.api.events import unknown
from holdfast.api.problems import Problem
from holdfast.api.routes import Route
from holdfast.api.service import Service
from holdfast.api.wire import Count, Instant, Out
from holdfast.domain.model import Millis, instant
from holdfast.domain.stats import Stats, Tally
from holdfast.errors import Pruned
from holdfast.ids import is_event_id
from holdfast.stores import host_clock

Part = Annotated[float, Meta(ge=0)]


class TierSales(Out):
    """Less what came back: below zero in an hour in which more came back than was sold."""

    units: int
    revenue: int


class HourSales(Out):
    hour: Instant
    tiers: dict[str, TierSales]


class HoldCounts(Out):
    """Of all holds on the log. One is `held` until its end was announced."""

    held: Count
    paying: Count
    confirmed: Count
    released: Count
    expired: Count


class Velocity(Out):
    """Units sold."""

    last_minute: Count
    last_5_minutes: Count
    last_hour: Count


class Booking(Out):
    """Of a large one the first seats and pools; `units` counts all."""

    time: Instant
    units: Count
    seats: list[str]
    pools: dict[str, int]
    amount: Count


class Cancellations(Out):
    count: Count
    units: Count
    amount: Count


class Refunds(Out):
    """Money that a provider has given back."""

    count: Count
    amount: Count


class EventStats(Out):
    """After `seq` facts."""

    event: str
    seq: Count
    capacity: Count
    sold: Count
    percent_sold: float
    revenue: int
    currency: str
    revenue_by_tier: dict[str, TierSales]
    revenue_by_hour: list[HourSales]
    revenue_earlier: dict[str, TierSales]
    """Before the first of these hours."""
    holds: HoldCounts
    conversion: Part
    abandonment: Part
    velocity: Velocity
    recent: list[Booking]
    """The latest first."""
    cancellations: Cancellations
    refunds: Refunds


async def see(service: Service, call: Call) -> Reply:
    event = call.params["event"]
    try:
        stats = await service.projections.current(event) if is_event_id(event) else None
    except Pruned as pruned:
        raise Problem(410, "pruned", str(pruned), first=pruned.first) from None
    if stats is None:
        raise unknown(event)
    body = shown(stats, host_clock())
    if stats.capacity is None:
        # Its log was begun by a version that did not tell.
        found = await service.shop.event(event)
        if found is not None:
            body.capacity = found.capacity
            body.percent_sold = found.percent_sold
    return reply(200, body)


def shown(stats: Stats, now: Millis) -> EventStats:
    holds, returns = stats.holds, stats.returns
    return EventStats(
        event=stats.event,
        seq=stats.seq,
        capacity=stats.capacity or 0,
        sold=stats.sold,
        percent_sold=stats.percent_sold,
        revenue=stats.revenue,
        currency=stats.currency,
        revenue_by_tier=_sales(stats.by_tier()),
        revenue_by_hour=[HourSales(instant(at), _sales(each)) for at, each in stats.by_hour()],
        revenue_earlier=_sales(stats.earlier()),
        holds=HoldCounts(
            # Facts of earlier versions do not say all: what was guessed may have been wrong.
            held=max(0, holds.held),
            paying=max(0, holds.paying),
            confirmed=holds.confirmed,
            released=holds.released,
            expired=max(0, holds.expired),
        ),
        conversion=stats.conversion,
        abandonment=stats.abandonment,
        velocity=Velocity(*(stats.velocity(now, minutes) for minutes in (1, 5, 60))),
        recent=[
            Booking(instant(each.at_ms), each.units, each.seats, each.pools, each.amount)
            for each in reversed(stats.recent)
        ],
        cancellations=Cancellations(
            returns.cancellations, returns.cancelled_units, returns.cancelled_amount
        ),
        refunds=Refunds(returns.refunds, returns.refunded_amount),
    )


def _sales(tallies: dict[str, Tally]) -> dict[str, TierSales]:
    return {tier: TierSales(each.units, each.revenue) for tier, each in tallies.items()}


ROUTES = [
    Route(
        method="GET",
        path="/v1/events/{event}/stats",
        handle=see,
        operation="getStats",
        summary="How the sale has gone: by tier and hour, holds by state, velocity, last bookings",
        answers={200: EventStats},
        reasons={404: ("unknown_event",), 410: ("pruned",)},
        key_in_query=True,
    ),
]
