"""One example of everything that travels, for the document. They tell one story: opening night."""

from typing import Any

from holdfast.api import lab_wire, wire
from holdfast.api.stats import EventStats

IDS = {
    "event": "opening-night",
    "hold": "opening-night.01KA5W2M8FQZ6R3T9V7X1Y4B0C",
    "order": "opening-night.01KA5W4H2NJD8S5G6E3P7A9K1M",
    "provider": "stripe",
    "webhook": "wh_01KA5X0Q7RZJ4N8S2D6F9G3H5T",
    "run": "01KA5X3V6C8D7E2F4A0B1C9D5E",
}
BASKET = {"seats": ["A-1-1", "A-1-2"], "pools": {"floor": 2}, "amount": 27_000, "currency": "EUR"}

NEW_EVENT = {
    "id": IDS["event"],
    "name": "Opening night",
    "currency": "EUR",
    "hold_seconds": 480,
    "grace_seconds": 300,
    "max_extensions": 1,
    "max_per_buyer": 8,
    "prices": {"gold": 9000, "silver": 6000, "floor": 4500},
    "sections": [{"id": "A", "tier": "gold", "rows": 10, "seats_per_row": 20}],
    "seats": [{"id": "BOX-1", "section": "BOX", "row": "1", "number": 1, "tier": "gold"}],
    "pools": [{"id": "floor", "capacity": 500, "tier": "floor"}],
}
EVENT = {
    "id": IDS["event"],
    "name": "Opening night",
    "currency": "EUR",
    "state": "on_sale",
    "capacity": 701,
    "available": 693,
    "held": 4,
    "sold": 4,
    "percent_sold": 0.57,
    "revenue": 27_000,
    "seq": 3,
    "hold_seconds": 480,
    "grace_seconds": 300,
    "max_extensions": 1,
    "max_per_buyer": 8,
    "prices": {"gold": 9000, "silver": 6000, "floor": 4500},
    "ranking": "rows",
    "flash_sale": False,
    "late_payment": "settle",
    "policy": None,
    "gate": True,
    "waiting_room": False,
    "version": 1,
}
HOLD = {
    "id": IDS["hold"],
    "event": IDS["event"],
    "buyer": "u-123",
    "state": "held",
    **BASKET,
    "expires_at": "2026-11-16T12:08:00Z",
    "seconds_left": 480,
    "version": 1,
    "token": "3q2-7wAAAAB5mYp0d2Vs",
}
ORDER = {
    "id": IDS["order"],
    "event": IDS["event"],
    "state": "confirmed",
    "hold": IDS["hold"],
    "buyer": "u-123",
    **BASKET,
    "payment": {"provider": "sandbox", "id": "5d0c3a9e", "state": "captured"},
    "created_at": "2026-11-16T12:03:10Z",
}
FACT = {
    "specversion": "1.0",
    "id": "opening-night.2",
    "source": "/v1/events/opening-night",
    "type": "hold.placed",
    "subject": IDS["event"],
    "sequence": 2,
    "time": "2026-11-16T12:00:00Z",
    "datacontenttype": "application/json",
    "data": {"hold": IDS["hold"], "buyer": "u-123", **BASKET},
}

WEBHOOK = {
    "id": IDS["webhook"],
    "url": "https://shop.example/holdfast",
    "events": ["order.confirmed", "order.cancelled"],
    "subjects": None,
    "description": "tickets by mail",
    "state": "active",
    "reason": None,
    "failing_since": None,
    "last_failure": None,
    "created_at": "2026-11-16T11:00:00Z",
}
WEBHOOK_FAILURE = {
    "fact": "opening-night.17",
    "reason": "answered 500",
    "at": "2026-11-16T12:03:10Z",
    "attempts": 2,
    "next_try_at": "2026-11-16T12:08:21Z",
}
FAILING_WEBHOOK = {
    **WEBHOOK,
    "failing_since": "2026-11-16T12:03:05Z",
    "last_failure": WEBHOOK_FAILURE,
}
WEBHOOK_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwC1F3E7XhN0Q="

NEW_LAB_RUN = {
    "buyers": 10_000,
    "seats": 5,
    "stock": False,
    "strategy": "holdfast",
    "policy": None,
    "gate": None,
    "over": "engine",
}
LAB_RUN = {
    **NEW_LAB_RUN,
    "id": IDS["run"],
    "state": "done",
    "policy": "authority",
    "gate": False,
    "progress": {
        "answered": 10_000,
        "sold": 5,
        "rejected": 9_995,
        "errors": 0,
        "elapsed_ms": 412.7,
    },
    "result": {
        "buyers": 10_000,
        "seats": 5,
        "stock": False,
        "sold": 5,
        "rejected": 9_995,
        "errors": 0,
        "oversold": 0,
        "elapsed_ms": 412.7,
        "rate": 24_230.7,
        "p50_ms": 21.8,
        "p99_ms": 58.2,
        "histogram": [{"le_ms": 25.119, "count": 6_412}, {"le_ms": 39.811, "count": 3_588}],
        "reached_authority": 1_013,
        "batches": 4,
        "redis_calls": 0,
        "store": "sqlite",
        "gate": "none",
        "policy": "authority",
        "strategy": "holdfast",
        "over": "engine",
    },
    "error": None,
    "created_at": "2026-11-16T12:05:00Z",
}
LAB_OFFER = {
    "id": "holdfast",
    "name": "Holdfast",
    "about": "Everybody who clicks while one transaction commits is in the next one.",
    "available": True,
    "why_not": None,
}

TIERS = {"floor": {"units": 2, "revenue": 9_000}, "gold": {"units": 2, "revenue": 18_000}}

RECONCILED = {
    "at": "2026-11-16T12:01:00Z",
    "took_ms": 42,
    "events": 1,
    "found": 2,
    "mended": [
        {
            "event": IDS["event"],
            "found": 2,
            "missing": 2,
            "orphans": 0,
            "stock": False,
            "counters": 0,
            "broken": False,
            "names": [IDS["hold"], IDS["order"]],
        }
    ],
    "failed": {},
}

EXAMPLES: dict[Any, Any] = {
    wire.NewEvent: NEW_EVENT,
    wire.Event: EVENT,
    wire.Events: {"events": [EVENT]},
    wire.EventChanges: {"state": "paused", "pools": [{"id": "floor", "capacity": 100}]},
    wire.SeatMap: {
        "seq": 3,
        "seats": [
            {
                "id": "A-1-1",
                "section": "A",
                "row": "1",
                "number": 1,
                "tier": "gold",
                "x": 1.0,
                "y": 1.0,
                "state": "held",
            }
        ],
        "pools": [{"id": "floor", "capacity": 500, "available": 498, "tier": "floor"}],
    },
    wire.Ask: {
        "buyer": "u-123",
        "id": "basket-1",
        "seats": ["A-1-1", "A-1-2"],
        "best": [
            {"quantity": 2, "section": "A", "tier": "gold", "together": True, "accessible": False}
        ],
        "pools": {"floor": 2},
        "channels": ["presale"],
    },
    wire.Hold: HOLD,
    wire.Extension: {"seconds": 120},
    wire.NewOrder: {
        "hold": IDS["hold"],
        "payment": {"method": "sandbox:ok"},
        "accept_other_seats": False,
    },
    wire.Order: ORDER,
    wire.Orders: {"orders": [ORDER]},
    wire.Cancellation: {"seats": ["A-1-2"], "pools": {"floor": 1}},
    wire.NewWebhook: {
        "url": WEBHOOK["url"],
        "events": WEBHOOK["events"],
        "description": WEBHOOK["description"],
    },
    wire.WebhookFailure: WEBHOOK_FAILURE,
    wire.Webhook: FAILING_WEBHOOK,
    wire.WebhookMade: {**WEBHOOK, "secret": WEBHOOK_SECRET},
    wire.Webhooks: {"webhooks": [FAILING_WEBHOOK]},
    wire.Rotation: {"keep_seconds": 86_400},
    wire.RotatedSecret: {
        "id": IDS["webhook"],
        "secret": WEBHOOK_SECRET,
        "previous_until": "2026-11-17T11:00:00Z",
    },
    wire.Redelivery: {"event": IDS["event"], "sequence": 2},
    wire.Redelivered: {"delivered": True, "status": 204},
    wire.NewBuyer: {"buyer": "u-123"},
    wire.BuyerMade: {"buyer": "u-123", "token": "dS0xMjM.mYp0d2VsbHdvcmxk"},
    wire.LogPage: {"facts": [FACT], "next": 2},
    EventStats: {
        "event": IDS["event"],
        "seq": 5,
        "capacity": 701,
        "sold": 4,
        "percent_sold": 0.57,
        "revenue": 27_000,
        "currency": "EUR",
        "revenue_by_tier": TIERS,
        "revenue_by_hour": [{"hour": "2026-11-16T12:00:00Z", "tiers": TIERS}],
        "revenue_earlier": {},
        "holds": {"held": 1, "paying": 0, "confirmed": 1, "released": 0, "expired": 0},
        "conversion": 0.5,
        "abandonment": 0.0,
        "velocity": {"last_minute": 0, "last_5_minutes": 4, "last_hour": 4},
        "recent": [
            {
                "time": "2026-11-16T12:03:10Z",
                "units": 4,
                "seats": ["A-1-1", "A-1-2"],
                "pools": {"floor": 2},
                "amount": 27_000,
            }
        ],
        "cancellations": {"count": 0, "units": 0, "amount": 0},
        "refunds": {"count": 0, "amount": 0},
    },
    wire.Reconciliation: RECONCILED,
    wire.System: {
        "version": "0.1.0",
        "store": "sqlite:///holdfast.db",
        "gate": "none",
        "gate_state": "none",
        "policy": "authority",
        "workers": 1,
        "broker": "none",
        "lags": {},
        "drift": {},
        "reconciled": None,
        "mended": None,
    },
    wire.SystemChanges: {"gate": "off"},
    wire.Health: {"status": "ok"},
    lab_wire.NewLabRun: NEW_LAB_RUN,
    lab_wire.LabRun: LAB_RUN,
    lab_wire.LabRuns: {
        "runs": [LAB_RUN],
        "strategies": [LAB_OFFER],
        "over": [{**LAB_OFFER, "id": "engine", "name": "Engine", "about": "Without HTTP."}],
    },
}

PROBLEM = {
    "type": "/docs#taken",
    "title": "Refused",
    "status": 409,
    "detail": "these seats are taken: A-1-1",
    "reason": "taken",
    "seats": ["A-1-1"],
}
