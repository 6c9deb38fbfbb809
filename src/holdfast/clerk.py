"""Writes commands: gives each its id, and a fingerprint where the caller may send it again.

`key` is the name under which a caller repeats a command, whatever it asks for; `id` and `order` are
names of what it makes. Either makes the command repeatable: what it made is made once. What callers
chose never collides with ids of ours: each kind has its own beginning.

A fingerprint is of what the caller asked, and of nothing else: a setting of the deployment may
change between an ask and its repetition.
"""

from holdfast.domain.commands import (
    AddCapacity,
    CancelOrder,
    ChangeEvent,
    ConfirmHold,
    CreateEvent,
    ExpireHolds,
    ExtendHold,
    OpenOrder,
    PayHold,
    PlaceHold,
    ReleaseHold,
    Sell,
    Withdraw,
)
from holdfast.domain.model import Ask, Pool, SeatPlan
from holdfast.domain.plan import EventPlan
from holdfast.ids import Ids, digest, public_id


class Clerk:
    def __init__(self) -> None:
        self.ids = Ids()

    def create_event(self, plan: EventPlan, key: str | None = None) -> CreateEvent:
        asked = digest("create", plan) if key is not None else ""
        return CreateEvent(id=key or self.ids.new(), event=plan.event.id, plan=plan, digest=asked)

    def change_event(
        self, event: str, changes: dict[str, str | int | bool | dict[str, int] | None]
    ) -> ChangeEvent:
        return ChangeEvent(id=self.ids.new(), event=event, changes=changes)

    def add_capacity(
        self, event: str, seats: tuple[SeatPlan, ...], pools: tuple[Pool, ...]
    ) -> AddCapacity:
        return AddCapacity(id=self.ids.new(), event=event, seats=seats, pools=pools)

    def withdraw(self, event: str, seats: tuple[str, ...], pools: dict[str, int]) -> Withdraw:
        return Withdraw(id=self.ids.new(), event=event, seats=seats, pools=pools)

    def place_hold(
        self,
        event: str,
        buyer: str,
        ask: Ask,
        *,
        id: str | None = None,
        key: str | None = None,
        cap: int | None = None,
        default_cap: int | None = None,
    ) -> PlaceHold:
        """`cap` is the caller's word; `default_cap` is the deployment's, where there is none."""
        hold = public_id(event, id or self.ids.new())
        repeatable = id is not None or key is not None
        return PlaceHold(
            id=key or f"place:{hold}",
            event=event,
            hold=hold,
            buyer=buyer,
            ask=ask,
            cap=default_cap if cap is None else cap,
            digest=digest("place", buyer, id, ask, cap) if repeatable else "",
        )

    def extend_hold(
        self,
        event: str,
        hold: str,
        *,
        buyer: str | None = None,
        seconds: int | None = None,
        version: int | None = None,
        key: str | None = None,
    ) -> ExtendHold:
        asked = ("extend", hold, buyer, seconds, version)
        return ExtendHold(
            id=key or self.ids.new(),
            event=event,
            hold=hold,
            buyer=buyer,
            seconds=seconds,
            version=version,
            digest=digest(*asked) if key is not None else "",
        )

    def release_hold(
        self, event: str, hold: str, buyer: str | None = None, version: int | None = None
    ) -> ReleaseHold:
        return ReleaseHold(id=self.ids.new(), event=event, hold=hold, buyer=buyer, version=version)

    def pay_hold(
        self, event: str, hold: str, buyer: str | None = None, version: int | None = None
    ) -> PayHold:
        return PayHold(id=self.ids.new(), event=event, hold=hold, buyer=buyer, version=version)

    def confirm_hold(
        self,
        event: str,
        hold: str,
        *,
        buyer: str | None = None,
        version: int | None = None,
        payment: str | None = None,
        order: str | None = None,
        key: str | None = None,
    ) -> ConfirmHold:
        order_id = public_id(event, order or self.ids.new())
        repeatable = order is not None or key is not None
        return ConfirmHold(
            id=key or f"confirm:{order_id}",
            event=event,
            hold=hold,
            order=order_id,
            buyer=buyer,
            version=version,
            payment=payment,
            digest=digest("confirm", hold, buyer, payment, order) if repeatable else "",
        )

    def open_order(
        self,
        event: str,
        hold: str,
        method: str,
        *,
        buyer: str | None = None,
        version: int | None = None,
        other_seats: bool = False,
        order: str | None = None,
        key: str | None = None,
        used_for: str = "",
        driver: str = "",
        lease_ms: int = 0,
    ) -> OpenOrder:
        """`used_for`: the key counts in all events, and that is what it is used for."""
        order_id = public_id(event, order or self.ids.new())
        repeatable = order is not None or key is not None
        asked = ("order", hold, buyer, method, other_seats, order)
        return OpenOrder(
            id=key or f"open:{order_id}",
            event=event,
            hold=hold,
            order=order_id,
            method=method,
            buyer=buyer,
            version=version,
            other_seats=other_seats,
            driver=driver,
            lease_ms=lease_ms,
            digest=digest(*asked) if repeatable else "",
            used_for=used_for if key is not None else "",
        )

    def sell(
        self,
        event: str,
        buyer: str,
        ask: Ask,
        *,
        payment: str | None = None,
        order: str | None = None,
        hold: str | None = None,
        key: str | None = None,
        cap: int | None = None,
    ) -> Sell:
        order_id = public_id(event, order or self.ids.new())
        repeatable = order is not None or key is not None
        asked = ("sell", buyer, ask, payment, order, hold, cap)
        return Sell(
            id=key or f"sell:{order_id}",
            event=event,
            order=order_id,
            buyer=buyer,
            ask=ask,
            hold=hold,
            payment=payment,
            cap=cap,
            digest=digest(*asked) if repeatable else "",
        )

    def cancel_order(
        self,
        event: str,
        order: str,
        seats: tuple[str, ...] = (),
        pools: dict[str, int] | None = None,
        key: str | None = None,
    ) -> CancelOrder:
        asked = digest("cancel", order, seats, pools) if key is not None else ""
        return CancelOrder(
            id=key or self.ids.new(),
            event=event,
            order=order,
            seats=seats,
            pools=pools or {},
            digest=asked,
        )

    def expire_holds(self, event: str, limit: int) -> ExpireHolds:
        return ExpireHolds(id=self.ids.new(), event=event, limit=limit)
