"""Decisions about orders: confirm a hold, sell directly, cancel a sale."""

from collections.abc import Sequence

from msgspec.structs import replace

from holdfast.domain import facts, tiers
from holdfast.domain.commands import CancelOrder, ConfirmHold, Sell
from holdfast.domain.facts import Fact
from holdfast.domain.holding import claims_of, fenced, freed
from holdfast.domain.model import (
    FOREVER_MS,
    Checkout,
    Event,
    Hold,
    HoldState,
    Millis,
    Order,
    OrderState,
    Refund,
    Seat,
)
from holdfast.domain.outcomes import Cancelled, Confirmed, Reason, Refused
from holdfast.domain.picking import not_on_sale, over_cap, pick
from holdfast.domain.shelf import Decision, Row, Shelf
from holdfast.domain.tiers import Shares, noted, shares_of, units_of


def confirm(shelf: Shelf, event: Event, command: ConfirmHold, now: Millis) -> Decision:
    hold = fenced(shelf, command, now)
    if isinstance(hold, Refused):
        return Decision(_same_order(shelf, command, hold) or hold)
    if said := _said(shelf, command):
        return Decision(said)
    # From here the sale must succeed: a live hold has all its units.
    order = order_of(hold, command.order, now, command.payment)
    return sold_in_time(shelf, event, hold, order)


def order_of(
    hold: Hold,
    id: str,
    now: Millis,
    payment: str | None = None,
    *,
    state: OrderState = OrderState.CONFIRMED,
    due_ms: Millis | None = None,
    checkout: Checkout | None = None,
) -> Order:
    """Of all that the hold holds, for what it cost then."""
    return Order(
        id=id,
        event=hold.event,
        buyer=hold.buyer,
        state=state,
        seats=hold.seats,
        pools=hold.pools,
        amount=hold.amount,
        currency=hold.currency,
        created_ms=now,
        hold=hold.id,
        payment=payment,
        due_ms=due_ms,
        checkout=Checkout(priced_ms=hold.placed_ms) if checkout is None else checkout,
    )


def sold_in_time(shelf: Shelf, event: Event, hold: Hold, order: Order) -> Decision:
    """The live hold and its units are sold to the order."""
    shares = shares_of(shelf, event, order)
    order = noted(order, shares)
    return _sold(order, _sold_hold(shelf, hold, order), shares, hold.state)


def _sold_hold(shelf: Shelf, hold: Hold, order: Order) -> list[Row]:
    sold = replace(hold, state=HoldState.CONFIRMED, version=hold.version + 1, order=order.id)
    rows: list[Row] = [sold, order]
    for id in hold.seats:
        rows.append(sold_seat(shelf.seats.now[id], order))
    for pool, claim in claims_of(shelf, hold):
        quantity = claim.quantity
        rows.append(replace(pool, held=pool.held - quantity, sold=pool.sold + quantity))
        rows.append(replace(claim, quantity=0))
    return rows


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
    shares = shares_of(shelf, event, order)
    order = noted(order, shares)
    rows: list[Row] = [*basket.rows, order]
    rows += [sold_seat(seat, order) for seat in basket.seats]
    rows += [replace(pool, sold=pool.sold + quantity) for pool, quantity in basket.pools]
    return _sold(order, rows, shares, None, basket.facts)


def cancel(shelf: Shelf, event: Event, command: CancelOrder, now: Millis) -> Decision:
    """Gives back all units, or the named ones, and writes down that their money is to follow."""
    order = shelf.orders.get(command.order)
    if order is None:
        return Decision(Refused(Reason.UNKNOWN_ORDER, command.order))
    if command.fence is not None and command.fence != order.version:
        return Decision(Refused(Reason.STALE, str(order.version)))
    if order.state is OrderState.CANCELLED:
        return Decision(Cancelled(order))
    if order.state is OrderState.PENDING and not (command.seats or command.pools):
        return _called_off(order, now)
    if not order.sold:
        return Decision(Refused(Reason.NOT_SOLD, order.id))
    returned = _returned(order, command)
    if isinstance(returned, Refused):
        return Decision(returned)
    if not returned.units:
        return Decision(Cancelled(order))  # they are back already
    # From here the units come back.
    whole = shares_of(shelf, event, order)
    shares = tiers.returned(whole, units_of(shelf, order), units_of(shelf, returned))
    returned = replace(returned, amount=sum(share.amount for share in shares.values()))
    left = _left(order, returned, command, now, whole)
    rows: list[Row] = [left]
    rows += freed(shelf, returned.seats, lambda seat: seat.order == order.id)
    for id, quantity in returned.pools.items():
        pool = shelf.pools.now[id]
        rows.append(replace(pool, sold=pool.sold - quantity))
    return Decision(
        Cancelled(left),
        rows,
        [facts.of_order(facts.ORDER_CANCELLED, returned, tiers=shares)],
        sold=-returned.units,
        revenue=-returned.amount,
    )


def _called_off(order: Order, now: Millis) -> Decision:
    """Nothing is sold yet, so nothing is announced; what may have been set aside is freed by
    whoever goes on with it."""
    checkout = replace(order.checkout, next_action=None)
    off = replace(
        order,
        state=OrderState.CANCELLED,
        version=order.version + 1,
        due_ms=now,
        checkout=checkout,
    )
    return Decision(Cancelled(off), [off])


def _returned(order: Order, command: CancelOrder) -> Order | Refused:
    """The order of what comes back. What came back before does not come back again."""
    if not command.seats and not command.pools:
        return order
    bought_seats, bought_pools, _ = order.checkout.bought or (order.seats, order.pools, 0)
    strange = tuple(id for id in command.seats if id not in bought_seats)
    short = tuple(id for id, n in command.pools.items() if n > order.pools.get(id, 0))
    unknown = tuple(id for id in short if id not in bought_pools)
    if strange or unknown:
        return Refused(Reason.UNKNOWN_UNIT, seats=strange, pools=unknown)
    if short:
        return Refused(Reason.INSUFFICIENT, pools=short, available=order.pools.get(short[0], 0))
    seats = tuple(id for id in order.seats if id in command.seats)
    return replace(order, seats=seats, pools=command.pools)


def _left(order: Order, returned: Order, command: CancelOrder, now: Millis, whole: Shares) -> Order:
    """What remains of the order, and the refund that is to follow."""
    checkout = order.checkout
    due_ms = order.due_ms
    if checkout.method and returned.amount:
        # The name tells it from every other refund of the order, whoever asks for it how often.
        refund = Refund(f"v{order.version}", returned.amount, now)
        checkout = replace(checkout, refunds=(*checkout.refunds, refund), tried=0)
        due_ms = now
    trouble = command.trouble or order.trouble
    order = replace(order, version=order.version + 1, due_ms=due_ms, trouble=trouble)
    if returned.units == order.units:
        # All that is left: as a cancelled order it still says what was in it.
        return replace(order, state=OrderState.CANCELLED, checkout=checkout)
    pools = {id: n - returned.pools.get(id, 0) for id, n in order.pools.items()}
    return replace(
        order,
        seats=tuple(id for id in order.seats if id not in returned.seats),
        pools={id: n for id, n in pools.items() if n},
        amount=order.amount - returned.amount,
        checkout=replace(
            checkout,
            bought=checkout.bought or (order.seats, order.pools, order.amount),
            tiers=whole,
        ),
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


def sold_seat(seat: Seat, order: Order) -> Seat:
    return Seat(seat.id, seat.tier, seat.channel, None, FOREVER_MS, order.id)


def _sold(
    order: Order,
    rows: list[Row],
    shares: Shares,
    was: HoldState | None,
    before: Sequence[Fact] = (),
) -> Decision:
    """`was` is what the order's hold was before."""
    fact = facts.of_order(facts.ORDER_CONFIRMED, order, was=was, tiers=shares)
    return Decision(Confirmed(order), rows, [*before, fact], sold=order.units, revenue=order.amount)
