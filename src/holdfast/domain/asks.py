"""Reads what a caller asks for. A basket is a set: nothing twice, not empty, not endless."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import asdict

from holdfast.domain import limits
from holdfast.domain.faults import Faults, is_label
from holdfast.domain.model import Ask, Best

BEST_FIELDS = ("quantity", "section", "tier", "together", "accessible")

BestAsk = int | Mapping[str, Any] | Best | Sequence[Mapping[str, Any] | Best]
"""How best available may be asked for: a number of seats, one ask, or several."""


def read_ask(faults: Faults, seats: object, best: object, pools: object, channels: object) -> Ask:
    ask = Ask(
        seats=read_labels(faults, "seats", seats, limits.ASK_SEATS_MAX),
        best=_read_best(faults, best) if best is not None else (),
        pools=_read_quantities(faults, pools) if pools is not None else {},
        channels=read_labels(faults, "channels", channels, limits.ASK_CHANNELS_MAX),
    )
    if not (ask.seats or ask.best or ask.pools or faults.found):
        faults.add("seats", "an ask needs seats, best or pools")
    if (wanted := sum(best.quantity for best in ask.best)) > limits.BEST_QUANTITY_MAX:
        faults.add("best", f"may ask for {limits.BEST_QUANTITY_MAX} seats in all", wanted)
    return ask


def read_withdrawal(
    faults: Faults, seats: object, pools: object
) -> tuple[tuple[str, ...], dict[str, int]]:
    named, counted = read_units_back(faults, seats, pools)
    if not (named or counted or faults.found):
        faults.add("seats", "nothing to withdraw; name seats or pools")
    return named, counted


def read_units_back(
    faults: Faults, seats: object, pools: object
) -> tuple[tuple[str, ...], dict[str, int]]:
    """Units that shall come back; none named: all there are."""
    named = read_labels(faults, "seats", seats, limits.EVENT_SEATS_MAX)
    return named, _read_quantities(faults, pools) if pools is not None else {}


def read_labels(faults: Faults, path: str, raw: object, most: int) -> tuple[str, ...]:
    """Names, each once. One text is not a list of texts, though Python would read it as letters."""
    if raw == ():
        return ()
    if isinstance(raw, list | tuple) and len(raw) <= most and all(map(is_label, raw)):
        labels = dict.fromkeys(raw)
        if len(labels) == len(raw):
            return tuple(raw)  # nearly always: the rest is there to say what is wrong
    if not isinstance(raw, str | bytes | Mapping | Sequence) and isinstance(raw, Iterable):
        raw = list(raw)
    labels = {}
    for where, item in faults.items(path, raw, most):
        label = faults.label(where, item)
        if label in labels and label != "?":
            faults.add(where, "is there twice", label)
        labels[label] = None
    return tuple(labels)


def _read_quantities(faults: Faults, raw: object) -> dict[str, int]:
    body = faults.mapping("pools", raw)
    if len(body) > limits.ASK_POOLS_MAX:
        faults.add("pools", f"may name at most {limits.ASK_POOLS_MAX}", len(body))
        return {}
    most = limits.POOL_QUANTITY_MAX
    return {
        faults.label("pools", pool): faults.integer(f"pools.{pool}", quantity, 1, most)
        for pool, quantity in body.items()
    }


def _read_best(faults: Faults, raw: object) -> tuple[Best, ...]:
    if isinstance(raw, int | float | str):
        raw = {"quantity": raw}
    if isinstance(raw, Mapping | Best):
        raw = [raw]
    asked = faults.items("best", raw, limits.ASK_BEST_MAX)
    return tuple(_read_one(faults, path, item) for path, item in asked)


def _read_one(faults: Faults, path: str, raw: object) -> Best:
    if isinstance(raw, Best):
        raw = asdict(raw)
    body = faults.mapping(path, raw, BEST_FIELDS)
    most = limits.BEST_QUANTITY_MAX

    def label(name: str) -> str | None:
        value = body.get(name)
        return None if value is None else faults.label(f"{path}.{name}", value)

    return Best(
        quantity=faults.integer(f"{path}.quantity", body.get("quantity"), 1, most),
        section=label("section"),
        tier=label("tier"),
        together=faults.flag(f"{path}.together", body.get("together", True)),
        accessible=faults.flag(f"{path}.accessible", body.get("accessible", False)),
    )
