"""Decisions about orders that are being paid for: open, settle, and every step written down.

Money is never risked for nothing: a payment is set aside first, then the units are sold here, then
the money is taken. If there is nothing to sell any more, what was set aside is freed.
"""

from msgspec.structs import replace

from holdfast.domain import facts
from holdfast.domain.commands import OpenOrder, RecordCaptures, Sell, SettleOrder, StepOrder
from holdfast.domain.facts import Fact
from holdfast.domain.holding import claims_of, fenced, rewritten
from holdfast.domain.model import (
    Ask,
    Best,
    Checkout,
    Event,
    Hold,
    HoldState,
    LatePayment,
    Millis,
    Order,
    OrderState,
    Settlement,
)
from holdfast.domain.outcomes import (
    CapturesRecorded,
    Confirmed,
    Opened,
    OpenedBefore,
    Reason,
    Refused,
    Settled,
    Stepped,
)
from holdfast.domain.payments import PaymentState
from holdfast.domain.picking import Basket, not_on_sale, over_cap, pick
from holdfast.domain.selling import order_of, sold_in_time, sold_seat
from holdfast.domain.shelf import Decision, Row, Shelf
from holdfast.domain.tiers import noted, shares_of

ANNOUNCED = {
    OrderState.VOIDED: facts.ORDER_VOIDED,
    OrderState.REFUNDED: facts.ORDER_REFUNDED,
}


def open_order(shelf: Shelf, event: Event, command: OpenOrder, now: Millis) -> Decision:
    """Before any money moves: the hold can no longer run out, and whoever comes after a crash knows
    what was meant to happen."""
    if made := shelf.orders.get(command.order):
        # Without a digest the id is ours: this is our own command, whose reply was lost.
        if command.digest:
            return Decision(Refused(Reason.EXISTS, made.id))
        return Decision(Confirmed(made) if made.sold else Opened(made, now))
    hold = fenced(shelf, command, now)
    if isinstance(hold, Refused):
        return Decision(hold)
    if not hold.amount:
        # Nothing to pay: it is sold here and now.
        return sold_in_time(shelf, event, hold, order_of(hold, command.order, now))
    if not command.method:
        return Decision(Refused(Reason.PAYMENT_REQUIRED, hold.id))
    # From here the order must be opened.
    checkout = Checkout(
        method=command.method,
        other_seats=command.other_seats,
        driver=command.driver,
        last=command.id,
        priced_ms=hold.placed_ms,
    )
    state, due_ms = OrderState.PENDING, now + command.lease_ms
    order = order_of(hold, command.order, now, state=state, due_ms=due_ms, checkout=checkout)
    rows: list[Row] = [order]
    announced: list[Fact] = []
    if hold.state is not HoldState.PAYING:
        hold = replace(hold, state=HoldState.PAYING, version=hold.version + 1)
        rows += [hold, *rewritten(shelf, hold)]
        announced = [facts.of_hold(facts.HOLD_PAYING, hold)]
    recorded = OpenedBefore(order.id, hold.hard_ms)
    return Decision(Opened(order, hold.hard_ms), rows, announced, recorded)


def settle(shelf: Shelf, event: Event, command: SettleOrder, now: Millis) -> Decision:
    """The payment is authorized: sell. Too late, it is one decision as well: the same units if
    they are free, else others if the buyer takes them, else nothing."""
    order = _fenced_order(shelf, command)
    if isinstance(order, Refused):
        return Decision(order)
    if order.checkout.last == command.id:
        return Decision(Confirmed(order) if order.sold else Settled(order))
    if order.state is not OrderState.PENDING:
        return Decision(Refused(Reason.STALE, str(order.version)))
    hold = shelf.holds.get(command.hold)
    if hold is not None and hold.live(now):
        order = _confirmed(order, command, now, Settlement.IN_TIME)
        return sold_in_time(shelf, event, hold, order)
    gone = hold.state if hold is not None else None
    if gone is HoldState.CONFIRMED or gone is HoldState.RELEASED:
        # He has bought or given back what he held: there is nothing to make good.
        return _nothing(order, command, now, gone.value)
    if not command.late:
        return Decision(Refused(Reason.LATE, order.id))
    found = _late_basket(shelf, event, order, command, now)
    if isinstance(found, Refused):
        return _nothing(order, command, now, found.reason.value)
    return _sold_late(shelf, event, hold, order, command, found, now)


def _sold_late(
    shelf: Shelf,
    event: Event,
    hold: Hold | None,
    order: Order,
    command: SettleOrder,
    basket: Basket,
    now: Millis,
) -> Decision:
    """His hold is sold with it: another payment of the same hold finds nothing to settle."""
    seats = tuple(seat.id for seat in basket.seats)
    same = sorted(seats) == sorted(order.seats)
    settlement = Settlement.SAME_UNITS if same else Settlement.OTHER_SEATS
    order = replace(_confirmed(order, command, now, settlement), seats=seats)
    shares = shares_of(shelf, event, order)
    order = noted(order, shares)
    rows: list[Row] = [*basket.rows, order]
    rows += [sold_seat(seat, order) for seat in basket.seats]
    pools = {pool.id: replace(pool, sold=pool.sold + units) for pool, units in basket.pools}
    was = None
    if hold is not None:
        # It was expired if that was announced, here or before; of stock nobody may have needed to.
        was = HoldState.EXPIRED if hold.id in basket.dead else hold.state
        dead = basket.dead.get(hold.id) or replace(hold, version=hold.version + 1)
        rows.append(replace(dead, state=HoldState.CONFIRMED, order=order.id))
        # Nobody comes for what is left of its claims any more.
        given_back = {claim.id for claim in basket.spent}
        for _, claim in claims_of(shelf, hold):
            if claim.id not in given_back:
                pool = pools[claim.pool]
                pools[claim.pool] = replace(pool, held=pool.held - claim.quantity)
                rows.append(replace(claim, quantity=0))
    rows += pools.values()
    announced = [
        *basket.facts,
        facts.of_order(facts.ORDER_CONFIRMED, order, settlement.value, was, shares),
        facts.of_order(facts.ORDER_SETTLED, order, settlement.value),
    ]
    return Decision(Confirmed(order), rows, announced, sold=order.units, revenue=order.amount)


def _confirmed(order: Order, command: SettleOrder, now: Millis, how: Settlement) -> Order:
    """Sold; the money is to be taken next, if it was not taken already."""
    taken = PaymentState.CAPTURED if command.captured else PaymentState.AUTHORIZED
    return replace(
        order,
        state=OrderState.CAPTURED if command.captured else OrderState.CONFIRMED,
        payment=command.payment,
        version=order.version + 1,
        due_ms=None if command.captured else now + command.lease_ms,
        checkout=replace(
            order.checkout,
            payment=taken,
            settlement=how,
            last=command.id,
            tried=0,
            next_action=None,
        ),
    )


def _nothing(order: Order, command: SettleOrder, now: Millis, reason: str) -> Decision:
    """The money is to be freed next, or given back if it was taken already."""
    how = Settlement.REFUNDED if command.captured else Settlement.VOIDED
    settled = replace(
        _confirmed(order, command, now, how),
        state=OrderState.AUTHORIZED,
        due_ms=now + command.lease_ms,
    )
    settled = replace(settled, checkout=replace(settled.checkout, reason=reason))
    fact = facts.of_order(facts.ORDER_SETTLED, settled, how.value)
    return Decision(Settled(settled), [settled], [fact])


def _late_basket(
    shelf: Shelf, event: Event, order: Order, command: SettleOrder, now: Millis
) -> Basket | Refused:
    if event.late_payment is LatePayment.VOID:
        return Refused(Reason.LATE, order.id)
    # His units came from these channels: they are offered to him again, and no others are.
    seats = [shelf.seats.get(id) for id in order.seats]
    tiers = [seat.tier for seat in seats if seat is not None]
    pools = [pool for id in order.pools if (pool := shelf.pools.get(id))]
    ask = Ask(
        seats=order.seats,
        pools=order.pools,
        channels=tuple(
            sorted({each.channel for each in (*seats, *pools) if each and each.channel})
        ),
    )
    as_sale = Sell(id=command.id, event=event.id, order=order.id, buyer=order.buyer, ask=ask)
    # Else a cap could be passed by paying late for what it was no longer counted for.
    if no := not_on_sale(event) or over_cap(shelf, event, as_sale, now):
        return no
    basket = pick(shelf, event, ask, now, command.apart)
    others = command.other_seats and event.late_payment is LatePayment.SETTLE
    if not isinstance(basket, Refused) or not others or not tiers or shelf.house is None:
        return basket
    return _others(shelf, event, ask, tiers, command, now) or basket


def _others(
    shelf: Shelf, event: Event, ask: Ask, tiers: list[str], command: SettleOrder, now: Millis
) -> Basket | None:
    """As many seats, side by side, of a tier that costs as much or more: the nearest in price
    first. He pays what he agreed to."""
    assert shelf.house is not None
    least = max(event.prices[tier] for tier in tiers)
    equal_or_better = sorted(
        (price, tier) for tier, price in event.prices.items() if price >= least
    )
    accessible = shelf.house.accessible(ask.seats)
    worse = shelf.house.restricted(ask.seats)
    apart = replace(command.apart, seats=command.apart.seats | worse) if worse else command.apart
    for _, tier in equal_or_better:
        best = Best(len(ask.seats), tier=tier, together=True, accessible=accessible)
        wanted = Ask(best=(best,), pools=ask.pools, channels=ask.channels)
        basket = pick(shelf, event, wanted, now, apart)
        if not isinstance(basket, Refused):
            return basket
    return None


def step(shelf: Shelf, event: Event, command: StepOrder, now: Millis) -> Decision:
    order = _fenced_order(shelf, command)
    if isinstance(order, Refused):
        return Decision(order)
    if order.checkout.last == command.id:
        return Decision(Stepped(order))
    stepped = replace(
        order,
        state=command.state or order.state,
        payment=command.payment or order.payment,
        version=order.version + 1,
        due_ms=None if command.due_in_ms is None else now + command.due_in_ms,
        trouble=command.trouble,
        checkout=replace(order.checkout, last=command.id, **command.changes),
    )
    return Decision(Stepped(stepped), [stepped], _announced(order, stepped))


def record_captures(shelf: Shelf, event: Event, command: RecordCaptures, now: Millis) -> Decision:
    """What is left is a fact of the provider's: nothing is decided, and nothing announced."""
    recorded: list[Order] = []
    rows: list[Row] = []
    for id, fence in command.orders:
        order = shelf.orders.get(id)
        if order is None:
            continue
        if order.checkout.last == command.id:
            recorded.append(order)
        elif order.version == fence and order.state is OrderState.CONFIRMED:
            refunds = order.checkout.refunds
            order = replace(
                order,
                state=OrderState.CAPTURED,
                version=order.version + 1,
                # Of what was cancelled meanwhile the money is to be given back.
                due_ms=None if all(r.done for r in refunds) else now + command.lease_ms,
                trouble=None,
                checkout=replace(
                    order.checkout, payment=PaymentState.CAPTURED, tried=0, last=command.id
                ),
            )
            recorded.append(order)
            rows.append(order)
    return Decision(CapturesRecorded(tuple(recorded)), rows)


def _announced(was: Order, order: Order) -> list[Fact]:
    """Money that was freed or given back."""
    if order.state is not was.state and (type := ANNOUNCED.get(order.state)):
        return [facts.of_order(type, order, order.checkout.settlement)]
    freed = PaymentState.VOIDED
    if order.checkout.payment is freed is not was.checkout.payment and was.checkout.settlement:
        return [facts.of_order(facts.ORDER_VOIDED, order)]
    given = order.checkout.refunded - was.checkout.refunded
    return [facts.of_order(facts.ORDER_REFUNDED, replace(order, amount=given))] if given else []


def _fenced_order(shelf: Shelf, command: SettleOrder | StepOrder) -> Order | Refused:
    """The order, if nobody else has gone on with it; or if it was this very command."""
    order = shelf.orders.get(command.order)
    if order is None:
        return Refused(Reason.UNKNOWN_ORDER, command.order)
    if order.version != command.fence and order.checkout.last != command.id:
        return Refused(Reason.STALE, str(order.version))
    return order
