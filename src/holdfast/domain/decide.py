"""(state, command, now) -> outcome, changed rows, facts. The whole engine is around this."""

from collections.abc import Callable
from typing import Any

from holdfast.domain import holding, paying, selling, staging
from holdfast.domain.commands import (
    AddCapacity,
    CancelOrder,
    ChangeEvent,
    Command,
    ConfirmHold,
    CreateEvent,
    ExpireHolds,
    ExtendHold,
    OpenOrder,
    PayHold,
    PlaceHold,
    RecordCaptures,
    ReleaseHold,
    Sell,
    SettleOrder,
    StepOrder,
    Withdraw,
)
from holdfast.domain.model import Event, Millis
from holdfast.domain.outcomes import Reason, Refused
from holdfast.domain.shelf import Decision, Shelf

# Each takes its own kind of command: the key says which.
RULES: dict[type[Command], Callable[[Shelf, Event, Any, Millis], Decision]] = {
    PlaceHold: holding.place,
    ExtendHold: holding.extend,
    ReleaseHold: holding.release,
    PayHold: holding.pay,
    ExpireHolds: holding.expire,
    ConfirmHold: selling.confirm,
    Sell: selling.sell,
    OpenOrder: paying.open_order,
    SettleOrder: paying.settle,
    StepOrder: paying.step,
    RecordCaptures: paying.record_captures,
    CancelOrder: selling.cancel,
    ChangeEvent: staging.change,
    AddCapacity: staging.add_capacity,
    Withdraw: staging.withdraw,
}


def decide(shelf: Shelf, command: Command, now: Millis) -> Decision:
    """Decides one command against the shelf, changing nothing."""
    if isinstance(command, CreateEvent):
        return staging.create(shelf, command)
    if shelf.event is None:
        return Decision(Refused(Reason.UNKNOWN_EVENT, command.event))
    return RULES[type(command)](shelf, shelf.event, command, now)
