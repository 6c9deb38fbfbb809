"""Decisions about orders: confirm a hold, sell directly, cancel a sale."""

from msgspec.structs import replace

from holdfast.domain import facts
from holdfast.domain.commands import CancelOrder, ConfirmHold, Sell
from holdfast.domain.holding import claims_of, fenced, freed
from holdfast.domain.model import FOREVER_MS, Event, HoldState, Millis, Order, OrderState, Seat
from holdfast.domain.outcomes import Cancelled, Confirmed, Reason, Refused
from holdfast.domain.picking import not_on_sale, over_cap, pick
from holdfast.domain.shelf import Decision, Row, Shelf


def confirm(shelf: Shelf, event: Event, command: ConfirmHold, now: Millis) -> Decision:
    hold = fenced(shelf, command, now)
    if isinstance(hold, Refused):
        return Decision(_same_order(shelf, command, hold) or hold)
    if said := _said(shelf, command):
        return Decision(said)
    # From here the sale must succeed: a live hold has all its units.
    order = Order(
        id=command.order,
        event=event.id,
        buyer=hold.buyer,
        state=OrderState.CONFIRMED,
        seats=hold.seats,
        pools=hold.pools,
        amount=hold.amount,
        currency=hold.currency,
        created_ms=now,
        hold=hold.id,
        payment=command.payment,
    )
    sold = replace(hold, state=HoldState.CONFIRMED, version=hold.version + 1, order=order.id)
    rows: list[Row] = [sold, order]
    for id in hold.seats:
        rows.append(_sold_seat(shelf.seats.now[id], order))
    for pool, claim in claims_of(shelf, hold):
        quantity = claim.quantity
        rows.append(replace(pool, held=pool.held - quantity, sold=pool.sold + quantity))
        rows.append(replace(claim, quantity=0))
    return _confirmed(order, rows, [])


def _same_order(shelf: Shelf, command: ConfirmHold, no: Refused) -> Confirmed | None:
    """Confirming again what is confirmed gives the same order, unless other money is behind it."""
    hold = shelf.holds.get(command.hold)
    if no.reason is not Reason.CONFIRMED or hold is None or hold.order is None:
        return None
    order = shelf.orders.get(hold.order)
    if order is None or not order.sold or order.payment != command.payment:
        return None
    return Confirmed(order)


def sell(shelf: Shelf, event: Event, command: Sell, now: Millis) -> Decision:
    ask = command.ask
    if no := (_said(shelf, command) or not_on_sale(event) or over_cap(shelf, event, command, now)):
        return Decision(no)
    basket = pick(shelf, event, ask, now, command.apart)
    if isinstance(basket, Refused):
        return Decision(basket)
    # From here the sale must succeed.
    order = Order(
        id=command.order,
        event=event.id,
        buyer=command.buyer,
        state=OrderState.CONFIRMED,
        seats=tuple(seat.id for seat in basket.seats),
        pools=ask.pools,
        amount=basket.amount,
        currency=event.currency,
        created_ms=now,
        hold=command.hold,
        payment=command.payment,
    )
    rows: list[Row] = [*basket.rows, order]
    rows += [_sold_seat(seat, order) for seat in basket.seats]
    rows += [replace(pool, sold=pool.sold + quantity) for pool, quantity in basket.pools]
    return _confirmed(order, rows, basket.facts)


def cancel(shelf: Shelf, event: Event, command: CancelOrder, now: Millis) -> Decision:
    order = shelf.orders.get(command.order)
    if order is None:
        return Decision(Refused(Reason.UNKNOWN_ORDER, command.order))
    if order.state is OrderState.CANCELLED:
        return Decision(Cancelled(order))
    if not order.sold:
        return Decision(Refused(Reason.CANCELLED, order.id))
    # From here the units come back.
    cancelled = replace(order, state=OrderState.CANCELLED)
    rows: list[Row] = [cancelled]
    rows += freed(shelf, order.seats, lambda seat: seat.order == order.id)
    for id, quantity in order.pools.items():
        pool = shelf.pools.now[id]
        rows.append(replace(pool, sold=pool.sold - quantity))
    return Decision(
        Cancelled(cancelled),
        rows,
        [facts.of_order(facts.ORDER_CANCELLED, cancelled)],
        sold=-order.units,
        revenue=-order.amount,
    )


def _said(shelf: Shelf, command: ConfirmHold | Sell) -> Confirmed | Refused | None:
    """What the ids say already: an order of that id, or another one paid by that payment."""
    if made := shelf.orders.get(command.order):
        # Without a digest the id is ours: this is our own command, whose reply was lost.
        return Refused(Reason.EXISTS, made.id) if command.digest else Confirmed(made)
    if isinstance(command, Sell) and command.hold in shelf.holds.now:
        return Refused(Reason.EXISTS, command.hold)
    if command.payment is not None and command.payment in shelf.payments:
        return Refused(Reason.PAYMENT_USED, command.payment)
    return None


def _sold_seat(seat: Seat, order: Order) -> Seat:
    return Seat(seat.id, seat.tier, seat.channel, None, FOREVER_MS, order.id)


def _confirmed(order: Order, rows: list[Row], before: list[facts.Fact]) -> Decision:
    return Decision(
        Confirmed(order),
        rows,
        [*before, facts.of_order(facts.ORDER_CONFIRMED, order)],
        sold=order.units,
        revenue=order.amount,
    )
