"""What each tier has of an order: its units, and its part of what was paid."""

from collections.abc import Mapping

from msgspec.structs import replace

from holdfast.domain.model import Event, Order, TierShare
from holdfast.domain.shelf import Shelf

Shares = dict[str, TierShare]


def units_of(shelf: Shelf, order: Order) -> dict[str, int]:
    """How many units of each tier; the order's seats and pools are on the shelf."""
    seats, pools = shelf.seats.now, shelf.pools.now
    units: dict[str, int] = {}
    for id in order.seats:
        tier = seats[id].tier
        units[tier] = units.get(tier, 0) + 1
    for id, quantity in order.pools.items():
        tier = pools[id].tier
        units[tier] = units.get(tier, 0) + quantity
    return units


def split(units: Mapping[str, int], prices: Mapping[str, int], amount: int) -> Shares:
    """Divides what was paid among the tiers, exactly: by their prices, or where these do not make
    up the amount (better seats for a late payer; prices older than are remembered) in proportion
    to them, the last tier with what rounding leaves."""
    worth = {tier: prices.get(tier, 0) * units[tier] for tier in sorted(units)}
    whole = sum(worth.values())
    if whole == amount:
        return {tier: TierShare(units[tier], each) for tier, each in worth.items()}
    if not whole:
        worth = {tier: units[tier] for tier in worth}
        whole = sum(worth.values())
    shares = {tier: TierShare(units[tier], amount * each // whole) for tier, each in worth.items()}
    left = amount - sum(share.amount for share in shares.values())
    last = next(reversed(shares))
    shares[last] = TierShare(units[last], shares[last].amount + left)
    return shares


def shares_of(shelf: Shelf, event: Event, order: Order) -> Shares:
    """Of all that the order has, as it was sold."""
    if order.checkout.tiers:
        return order.checkout.tiers
    units = units_of(shelf, order)
    if len(units) == 1:  # as nearly always: it has all that was paid, whatever the prices are
        return {tier: TierShare(number, order.amount) for tier, number in units.items()}
    return split(units, _prices(event, order), order.amount)


def noted(order: Order, shares: Shares) -> Order:
    """The order that remembers its shares, where they do not follow from its amount: prices change,
    and not all that ever counted are remembered."""
    if len(shares) == 1:
        return order
    return replace(order, checkout=replace(order.checkout, tiers=shares))


def _prices(event: Event, order: Order) -> Mapping[str, int]:
    """Those of the order's time. A late payer may have seats of a tier that came later: of that,
    the price there is."""
    then = event.prices_at(order.checkout.priced_ms or order.created_ms)
    return then if then is event.prices else {**event.prices, **then}


def returned(whole: Shares, had: Mapping[str, int], back: Mapping[str, int]) -> Shares:
    """What comes back of an order of which each tier had `whole` at first and has `had` units now.
    However often a part comes back, in the end it is all that was paid, tier by tier."""
    return {
        tier: TierShare(n, left(whole[tier], had[tier]) - left(whole[tier], had[tier] - n))
        for tier, n in back.items()
    }


def left(whole: TierShare, units: int) -> int:
    """What was paid for so many units of a tier's share; rounding is for those that stay."""
    return -(-whole.amount * units // whole.units)
