"""Holdfast over HTTP: the same verbs and outcomes as the engine's, against a running service.

    async with Client("http://127.0.0.1:8000", key="...") as client:
        placed = await client.place_hold("opening-night", buyer="u-123", seats=["A-1-1"])

Whatever makes something is sent under an Idempotency-Key, so a lost answer is asked for again and
the work is done once. `holdfast.client.blocking` is the same for programs without an event loop.
"""

from holdfast.client.client import Client
from holdfast.client.errors import (
    ClientError,
    Forbidden,
    Invalid,
    RateLimited,
    StreamGap,
    Unauthorized,
    Unavailable,
    Unexpected,
)
from holdfast.client.values import (
    Booking,
    Buyer,
    Cancelled,
    Changed,
    Changes,
    Confirmed,
    Created,
    Event,
    Extended,
    Fact,
    Hold,
    HourSales,
    LogPage,
    Order,
    Paying,
    Payment,
    Pending,
    Placed,
    Pool,
    Refused,
    Released,
    Seat,
    SeatMap,
    Snapshot,
    Stats,
    System,
    TierSales,
)

__all__ = [
    "Booking",
    "Buyer",
    "Cancelled",
    "Changed",
    "Changes",
    "Client",
    "ClientError",
    "Confirmed",
    "Created",
    "Event",
    "Extended",
    "Fact",
    "Forbidden",
    "Hold",
    "HourSales",
    "Invalid",
    "LogPage",
    "Order",
    "Paying",
    "Payment",
    "Pending",
    "Placed",
    "Pool",
    "RateLimited",
    "Refused",
    "Released",
    "Seat",
    "SeatMap",
    "Snapshot",
    "Stats",
    "StreamGap",
    "System",
    "TierSales",
    "Unauthorized",
    "Unavailable",
    "Unexpected",
]
