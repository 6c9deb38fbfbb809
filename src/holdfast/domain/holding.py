"""Decisions about holds: place, extend, release, pay, expire."""

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from holdfast.domain import facts
from holdfast.domain.commands import (
    ConfirmHold,
    ExpireHolds,
    ExtendHold,
    OpenOrder,
    PayHold,
    PlaceHold,
    ReleaseHold,
)
from holdfast.domain.facts import Fact
from holdfast.domain.model import Claim, Event, Hold, HoldState, Millis, Pool, Seat
from holdfast.domain.outcomes import (
    Expired,
    Extended,
    Paying,
    Placed,
    Reason,
    Refused,
    Released,
)
from holdfast.domain.picking import not_on_sale, over_cap, pick
from holdfast.domain.shelf import Decision, Row, Shelf

Follows = ExtendHold | ReleaseHold | PayHold | ConfirmHold | OpenOrder


def place(shelf: Shelf, event: Event, command: PlaceHold, now: Millis) -> Decision:
    ask = command.ask
    if made := shelf.holds.get(command.hold):
        # Without a digest the id is ours: this is our own command, whose reply was lost.
        ours = not command.digest and made.buyer == command.buyer
        return Decision(Placed(made) if ours else Refused(Reason.EXISTS, made.id))
    if own := _own(shelf, command, now):
        return Decision(Placed(own))
    # What is only copied from a gate was admitted there.
    copied = command.keep_ms is not None and not command.paying
    if not copied and (no := not_on_sale(event) or over_cap(shelf, event, command, now)):
        return Decision(no)
    basket = pick(shelf, event, ask, now, command.apart)
    if isinstance(basket, Refused):
        return Decision(basket)
    # From here the hold must succeed.
    soft_ms = now + (event.hold_seconds * 1000 if command.keep_ms is None else command.keep_ms)
    hold = Hold(
        id=command.hold,
        event=event.id,
        buyer=command.buyer,
        state=HoldState.HELD,
        seats=tuple([seat.id for seat in basket.seats]),
        pools=ask.pools,
        amount=basket.amount if command.amount is None else command.amount,
        currency=event.currency,
        placed_ms=now,
        soft_ms=soft_ms,
        hard_ms=soft_ms + event.grace_seconds * 1000,
        extensions=command.extensions,
        version=command.version,
    )
    announced = [*basket.facts, facts.of_hold(facts.HOLD_PLACED, hold)]
    if command.paying:
        hold = replace(hold, state=HoldState.PAYING, version=hold.version + 1)
        announced.append(facts.of_hold(facts.HOLD_PAYING, hold))
    until_ms = hold.until_ms
    rows: list[Row] = basket.rows if basket.dead or basket.spent else []
    rows.append(hold)
    for seat in basket.seats:
        rows.append(Seat(seat.id, seat.tier, seat.channel, hold.id, until_ms))
    for pool, quantity in basket.pools:
        rows.append(replace(pool, held=pool.held + quantity))
        rows.append(Claim(pool.id, hold.id, quantity, until_ms))
    return Decision(Placed(hold), rows, announced)


def _own(shelf: Shelf, command: PlaceHold, now: Millis) -> Hold | None:
    """The buyer's own live hold of exactly these units. Nobody is refused by his own hold."""
    ask = command.ask
    if not ask.seats or ask.best:
        return None
    seat = shelf.seats.get(ask.seats[0])
    if seat is None or seat.hold is None:
        return None
    hold = shelf.holds.get(seat.hold)
    if hold is None or hold.buyer != command.buyer or not hold.live(now):
        return None
    same = hold.pools == ask.pools and sorted(hold.seats) == sorted(ask.seats)
    return hold if same else None


def extend(shelf: Shelf, event: Event, command: ExtendHold, now: Millis) -> Decision:
    hold = fenced(shelf, command, now)
    if isinstance(hold, Refused):
        return Decision(hold)
    if hold.extensions >= event.max_extensions:
        return Decision(Refused(Reason.EXTENSION_LIMIT, hold.id, cap=event.max_extensions))
    # From here the extension must succeed. One extension is never longer than a hold.
    seconds = min(command.seconds or event.hold_seconds, event.hold_seconds)
    longer = replace(
        hold,
        soft_ms=hold.soft_ms + seconds * 1000,
        hard_ms=hold.hard_ms + seconds * 1000,
        extensions=hold.extensions + 1,
        version=hold.version + 1,
    )
    rows = [longer, *rewritten(shelf, longer)]
    return Decision(Extended(longer), rows, [facts.of_hold(facts.HOLD_EXTENDED, longer)])


def pay(shelf: Shelf, event: Event, command: PayHold, now: Millis) -> Decision:
    hold = fenced(shelf, command, now)
    if isinstance(hold, Refused):
        return Decision(hold)
    if hold.state is HoldState.PAYING:
        return Decision(Paying(hold))
    paying = replace(hold, state=HoldState.PAYING, version=hold.version + 1)
    rows = [paying, *rewritten(shelf, paying)]
    return Decision(Paying(paying), rows, [facts.of_hold(facts.HOLD_PAYING, paying)])


def release(shelf: Shelf, event: Event, command: ReleaseHold, now: Millis) -> Decision:
    hold = fenced(shelf, command, now)
    if isinstance(hold, Refused):
        # Whoever gives back what is already given back has what he wanted.
        gone = hold.reason is Reason.RELEASED or hold.reason is Reason.EXPIRED
        was = shelf.holds.get(command.hold)
        return Decision(Released(was.seen(now)) if gone and was else hold)
    released = replace(hold, state=HoldState.RELEASED, version=hold.version + 1)
    rows: list[Row] = [released]
    rows += freed(shelf, hold.seats, lambda seat: seat.hold == hold.id)
    for pool, claim in claims_of(shelf, hold):
        rows.append(replace(pool, held=pool.held - claim.quantity))
        rows.append(replace(claim, quantity=0))
    fact = facts.of_hold(facts.HOLD_RELEASED, released, hold.state)
    return Decision(Released(released), rows, [fact])


def expire(shelf: Shelf, event: Event, command: ExpireHolds, now: Millis) -> Decision:
    rows: dict[str, Row] = {}
    announced: list[Fact] = []
    for id in shelf.due[: command.limit]:
        hold = shelf.holds.get(id)
        if hold is None or not hold.open or hold.until_ms > now:
            continue
        dead = replace(hold, state=HoldState.EXPIRED, version=hold.version + 1)
        rows[f"hold {id}"] = dead
        for pool, claim in claims_of(shelf, hold):
            pool = rows.get(f"pool {pool.id}", pool)  # type: ignore[assignment]
            rows[f"pool {pool.id}"] = replace(pool, held=pool.held - claim.quantity)
            rows[f"claim {claim.id}"] = replace(claim, quantity=0)
        announced.append(facts.of_hold(facts.HOLD_EXPIRED, dead, hold.state))
    return Decision(Expired(len(announced)), list(rows.values()), announced)


def fenced(shelf: Shelf, command: Follows, now: Millis) -> Hold | Refused:
    """The hold that the command follows, if it is alive, the asker's, and still that version."""
    hold = shelf.holds.get(command.hold)
    if hold is None:
        return Refused(Reason.UNKNOWN_HOLD, command.hold)
    if command.buyer is not None and command.buyer != hold.buyer:
        return Refused(Reason.NOT_YOURS, hold.id)
    if hold.state is HoldState.CONFIRMED:
        return Refused(Reason.CONFIRMED, hold.id)
    if hold.state is HoldState.RELEASED:
        return Refused(Reason.RELEASED, hold.id)
    if not hold.live(now):
        return Refused(Reason.EXPIRED, hold.id)
    if command.version is not None and command.version != hold.version:
        return Refused(Reason.STALE, str(hold.version))
    return hold


def claims_of(shelf: Shelf, hold: Hold) -> list[tuple[Pool, Claim]]:
    """The hold's shares of pools that were not given back meanwhile."""
    found = []
    for id in hold.pools:
        claim = shelf.claims.get(Claim(id, hold.id, 0, 0).id)
        pool = shelf.pools.get(id)
        if claim is not None and claim.quantity and pool is not None:
            found.append((pool, claim))
    return found


def freed(shelf: Shelf, ids: Iterable[str], owns: Callable[[Seat], bool]) -> list[Seat]:
    """The seats, free again: those that are still the owner's to give."""
    seats = (shelf.seats.now[id] for id in ids)
    return [Seat(seat.id, seat.tier, seat.channel) for seat in seats if owns(seat)]


def rewritten(shelf: Shelf, hold: Hold) -> list[Row]:
    """The hold's units with its new deadline."""
    until = hold.until_ms
    rows: list[Row] = []
    for id in hold.seats:
        seat = shelf.seats.now[id]
        rows.append(Seat(id, seat.tier, seat.channel, hold.id, until))
    rows.extend(replace(claim, until_ms=until) for _, claim in claims_of(shelf, hold))
    return rows
