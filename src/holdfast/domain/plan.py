"""An event as somebody describes it, read into seats and pools, with every fault listed."""

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

import msgspec

from holdfast.domain import limits
from holdfast.domain.faults import Fault, Faults
from holdfast.domain.model import Event, EventState, LatePayment, Pool, Ranking, SeatPlan

EVENT_FIELDS = (
    *("id", "name", "currency", "state", "hold_seconds", "grace_seconds", "max_extensions"),
    *("max_per_buyer", "prices", "ranking", "flash_sale", "late_payment", "policy"),
    *("gate", "waiting_room"),
    *("sections", "seats", "pools"),
)
SECTION_FIELDS = (
    *("id", "tier", "rows", "seats_per_row", "aisles", "channel", "accessible", "companion"),
    *("restricted_view", "rank", "x", "y"),
)
SEAT_FIELDS = (
    *("id", "section", "row", "number", "tier", "channel", "accessible", "companion"),
    *("restricted_view", "rank", "x", "y"),
)
POOL_FIELDS = ("id", "capacity", "tier", "channel")
POLICIES = ("authority", "two-layer", "gate")


class EventPlan(msgspec.Struct, frozen=True):
    """A new event: its configuration and all its units."""

    event: Event
    seats: tuple[SeatPlan, ...]
    pools: tuple[Pool, ...]

    @property
    def capacity(self) -> int:
        return len(self.seats) + sum(pool.capacity for pool in self.pools)


def read_event(raw: object) -> EventPlan | list[Fault]:
    faults = Faults()
    body = faults.mapping("", raw, EVENT_FIELDS)
    event_id = faults.event_id("id", body.get("id"))
    settings = {
        name: read(faults, name, body[name])
        for name, read in SETTINGS.items()
        if name in body and not (name in NULLABLE and body[name] is None)
    }
    event = Event(
        id=event_id,
        name=settings.pop("name", event_id),
        currency=_currency(faults, body.get("currency", "EUR")),
        **{**DEFAULTS, **settings},
    )
    units = read_units(body, event.prices, faults)
    if not units[0] and not units[1] and not faults.found:
        faults.add("sections", "an event needs seats or pools")
    plan = EventPlan(event, *units)
    if plan.capacity * max(event.prices.values(), default=0) > limits.EVENT_WORTH_MAX:
        faults.add("prices", f"all units together may be worth {limits.EVENT_WORTH_MAX} at most")
    return faults.found or plan


def read_changes(raw: object) -> dict[str, Any] | list[Fault]:
    """Settings to change on an event, by name."""
    faults = Faults()
    body = faults.mapping("", raw, tuple(SETTINGS))
    changes = {
        name: None if name in NULLABLE and value is None else SETTINGS[name](faults, name, value)
        for name, value in body.items()
        if name in SETTINGS
    }
    if not changes:
        faults.add("", f"nothing to change; name one of {', '.join(SETTINGS)}")
    return faults.found or changes


def read_capacity(
    raw: object, prices: Mapping[str, int]
) -> tuple[tuple[SeatPlan, ...], tuple[Pool, ...]] | list[Fault]:
    """Seats and pools to add to an event that has these prices."""
    faults = Faults()
    body = faults.mapping("", raw, ("sections", "seats", "pools"))
    units = read_units(body, prices, faults, adding=True)
    if not units[0] and not units[1] and not faults.found:
        faults.add("", "nothing to add; name sections, seats or pools")
    return faults.found or units


def read_units(
    body: Mapping[str, Any], prices: Mapping[str, int], faults: Faults, *, adding: bool = False
) -> tuple[tuple[SeatPlan, ...], tuple[Pool, ...]]:
    seats: dict[str, SeatPlan] = {}
    pools: dict[str, Pool] = {}
    depth = 0.0
    for path, raw in faults.items("sections", body.get("sections", []), limits.EVENT_SEATS_MAX):
        depth = _read_section(faults, path, raw, depth, prices, seats)
    for path, raw in faults.items("seats", body.get("seats", []), limits.EVENT_SEATS_MAX):
        _add_seat(faults, path, _read_seat(faults, path, raw, depth), prices, seats)
    for path, raw in faults.items("pools", body.get("pools", []), limits.EVENT_POOLS_MAX):
        pool = _read_pool(faults, path, raw, adding)
        if pool.id in pools:
            faults.add(f"{path}.id", "is there twice", pool.id)
        if pool.tier:
            _check_tier(faults, path, pool.tier, prices)
        pools[pool.id] = pool
    return tuple(seats.values()), tuple(pools.values())


def _read_section(
    faults: Faults,
    path: str,
    raw: object,
    depth: float,
    prices: Mapping[str, int],
    seats: dict[str, SeatPlan],
) -> float:
    """A grid of seats. Sections stand one behind the other unless they say where they are."""
    body = faults.mapping(path, raw, SECTION_FIELDS)
    section = faults.label(f"{path}.id", body.get("id"), 40)
    rows = faults.integer(f"{path}.rows", body.get("rows"), 1, 10_000)
    width = faults.integer(f"{path}.seats_per_row", body.get("seats_per_row"), 1, 10_000)
    if len(seats) + rows * width > limits.EVENT_SEATS_MAX:
        faults.add(path, f"an event may have {limits.EVENT_SEATS_MAX} seats", rows * width)
        return depth
    shared = _read_traits(faults, path, body)
    _check_tier(faults, path, shared["tier"], prices)
    aisles = [
        faults.integer(where, after, 1, width)
        for where, after in faults.items(f"{path}.aisles", body.get("aisles", []), width)
    ]
    left = faults.number(f"{path}.x", body.get("x", 0))
    front = faults.number(f"{path}.y", body["y"]) if "y" in body else depth
    xs = [left + number + sum(after < number for after in aisles) for number in range(1, width + 1)]
    for row in range(1, rows + 1):
        for number, x in zip(count(1), xs, strict=False):
            plan = SeatPlan(
                id=f"{section}-{row}-{number}",
                section=section,
                row=str(row),
                number=number,
                x=x,
                y=front + row,
                **shared,
            )
            if plan.id in seats:
                faults.add(f"{path}.id", "makes a seat that is there already", plan.id)
                return depth
            seats[plan.id] = plan
    return max(depth, front + rows + 1)


def _read_seat(faults: Faults, path: str, raw: object, depth: float) -> SeatPlan:
    body = faults.mapping(path, raw, SEAT_FIELDS)
    row = body.get("row", "1")
    row = str(row) if isinstance(row, int) and not isinstance(row, bool) else row
    number = faults.integer(f"{path}.number", body.get("number"), 0, 1_000_000)
    nth = int(row) if isinstance(row, str) and row.isascii() and row.isdigit() else 0
    # Only what was given can be at fault: a row number may be larger than any coordinate.
    x = faults.number(f"{path}.x", body["x"]) if "x" in body else float(number)
    y = faults.number(f"{path}.y", body["y"]) if "y" in body else depth + nth
    return SeatPlan(
        id=faults.label(f"{path}.id", body.get("id")),
        section=faults.label(f"{path}.section", body.get("section", "main")),
        row=faults.label(f"{path}.row", row),
        number=number,
        x=x,
        y=y,
        **_read_traits(faults, path, body),
    )


def _read_traits(faults: Faults, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """What seats and sections may say alike."""
    rank, channel = body.get("rank"), body.get("channel")
    return {
        "tier": faults.label(f"{path}.tier", body.get("tier")),
        "rank": None if rank is None else faults.integer(f"{path}.rank", rank, 0, 10**9),
        "channel": None if channel is None else faults.label(f"{path}.channel", channel),
    } | {
        name: faults.flag(f"{path}.{name}", body.get(name, False))
        for name in ("accessible", "companion", "restricted_view")
    }


def _add_seat(
    faults: Faults,
    path: str,
    plan: SeatPlan,
    prices: Mapping[str, int],
    seats: dict[str, SeatPlan],
) -> None:
    if plan.id in seats:
        faults.add(f"{path}.id", "is there twice", plan.id)
    elif len(seats) >= limits.EVENT_SEATS_MAX:
        faults.add(path, f"an event may have {limits.EVENT_SEATS_MAX} seats")
    _check_tier(faults, path, plan.tier, prices)
    seats[plan.id] = plan


def _read_pool(faults: Faults, path: str, raw: object, adding: bool) -> Pool:
    """A pool's tier is its id unless it says otherwise; when adding to one, it has one already."""
    body = faults.mapping(path, raw, POOL_FIELDS)
    channel = body.get("channel")
    if adding and "tier" not in body:
        tier = ""
    else:
        tier = faults.label(f"{path}.tier", body.get("tier", body.get("id")))
    return Pool(
        id=faults.label(f"{path}.id", body.get("id")),
        tier=tier,
        capacity=faults.integer(
            f"{path}.capacity", body.get("capacity"), 1, limits.POOL_CAPACITY_MAX
        ),
        channel=None if channel is None else faults.label(f"{path}.channel", channel),
    )


def _check_tier(faults: Faults, path: str, tier: str, prices: Mapping[str, int]) -> None:
    if tier != "?" and tier not in prices:
        faults.add(f"{path}.tier", "has no price in prices", tier)


def _prices(faults: Faults, path: str, raw: object) -> dict[str, int]:
    body = faults.mapping(path, raw)
    if len(body) > limits.EVENT_TIERS_MAX:
        faults.add(path, f"may have at most {limits.EVENT_TIERS_MAX} tiers", len(body))
        return {}
    return {
        faults.label(path, tier): faults.integer(f"{path}.{tier}", price, 0, limits.PRICE_MAX)
        for tier, price in body.items()
    }


def _currency(faults: Faults, raw: object) -> str:
    if isinstance(raw, str) and len(raw) == 3 and raw.isascii() and raw.isupper():
        return raw
    faults.add("currency", "must be three capital letters, as EUR", raw)
    return "EUR"


def _one_of(*known: str) -> Callable[[Faults, str, object], str]:
    def read(faults: Faults, path: str, raw: object) -> str:
        if raw in known:
            return str(raw)
        faults.add(path, f"must be one of {', '.join(known)}", raw)
        return known[0]

    return read


def _whole(least: int, most: int) -> Callable[[Faults, str, object], int]:
    return lambda faults, path, raw: faults.integer(path, raw, least, most)


def _event_state(faults: Faults, path: str, raw: object) -> EventState:
    return EventState(_one_of(*EventState)(faults, path, raw))


def _late_payment(faults: Faults, path: str, raw: object) -> LatePayment:
    return LatePayment(_one_of(*LatePayment)(faults, path, raw))


def _ranking(faults: Faults, path: str, raw: object) -> Ranking:
    return Ranking(_one_of(*Ranking)(faults, path, raw))


SETTINGS: dict[str, Callable[[Faults, str, object], Any]] = {
    "name": lambda faults, path, raw: faults.label(path, raw, limits.NAME_CHARS_MAX),
    "state": _event_state,
    "hold_seconds": _whole(1, limits.HOLD_SECONDS_MAX),
    "grace_seconds": _whole(0, limits.GRACE_SECONDS_MAX),
    "max_extensions": _whole(0, limits.EXTENSIONS_MAX),
    "max_per_buyer": _whole(1, limits.BUYER_CAP_MAX),
    "prices": _prices,
    "ranking": _ranking,
    "flash_sale": Faults.flag,
    "late_payment": _late_payment,
    "policy": _one_of(*POLICIES),
    "gate": Faults.flag,
    "waiting_room": Faults.flag,
}
"""Every setting of an event that may be given at creation and changed later."""

NULLABLE = ("max_per_buyer", "policy")

DEFAULTS: dict[str, Any] = {
    "state": EventState.ON_SALE,
    "hold_seconds": 480,
    "grace_seconds": 300,
    "max_extensions": 1,
    "max_per_buyer": None,
    "prices": {},
}
