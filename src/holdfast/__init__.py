"""Holdfast: holds and sells seats and stock to crowds, and cannot oversell."""

from holdfast.domain.facts import Entry
from holdfast.domain.model import (
    Best,
    Event,
    EventState,
    Hold,
    HoldState,
    Order,
    OrderState,
    Ranking,
)
from holdfast.domain.outcomes import (
    Cancelled,
    Changed,
    Confirmed,
    Created,
    Expired,
    Extended,
    Paying,
    Placed,
    Reason,
    Refused,
    Released,
)
from holdfast.domain.views import SeatMap, Summary
from holdfast.engine import Holdfast
from holdfast.errors import (
    CommitUnknown,
    HoldfastError,
    Invalid,
    NotOpen,
    Overloaded,
    Pruned,
    SettingsError,
    StoreBusy,
    StoreError,
    StoreUnavailable,
)

__version__ = "0.1.0"

__all__ = [
    "Best",
    "Cancelled",
    "Changed",
    "CommitUnknown",
    "Confirmed",
    "Created",
    "Entry",
    "Event",
    "EventState",
    "Expired",
    "Extended",
    "Hold",
    "HoldState",
    "Holdfast",
    "HoldfastError",
    "Invalid",
    "NotOpen",
    "Order",
    "OrderState",
    "Overloaded",
    "Paying",
    "Placed",
    "Pruned",
    "Ranking",
    "Reason",
    "Refused",
    "Released",
    "SeatMap",
    "SettingsError",
    "StoreBusy",
    "StoreError",
    "StoreUnavailable",
    "Summary",
]
