"""holdfast orders: those that need a person, and what a person can do about them."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import typer

from holdfast.checkout.saga import next_step
from holdfast.checkout.till import Till, make_till
from holdfast.cli.shared import (
    REFUSED,
    Failed,
    JsonOption,
    StoreOption,
    money,
    opened_shop,
    print_json,
    print_pairs,
    print_table,
    refused,
    say,
)
from holdfast.domain.model import Order
from holdfast.domain.outcomes import Reason, Refused
from holdfast.engine import Holdfast
from holdfast.errors import PaymentError

LISTED_MAX = 1_000
POOL = re.compile(r"(.+)=([1-9][0-9]{0,8})")

app = typer.Typer(
    help="Show orders, try again what one needs a person for, and take sales back.\n\n"
    "Example: holdfast orders needing-a-person",
    rich_markup_mode=None,
)

OrderArgument = Annotated[str, typer.Argument(metavar="ID", help="The order's id.")]


@app.command("needing-a-person")
def needing_a_person(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """List the orders of all events that need a person, oldest first, and why.

    Example: holdfast orders needing-a-person --store sqlite:///shop.db
    """
    found = asyncio.run(_troubled(store))
    if as_json:
        print_json([_as_shown(order) for order in found])
    elif not found:
        say("no order needs a person")
    else:
        print_table(
            ("order", "state", "payment", "amount", "why"), [_row(order) for order in found]
        )


@app.command()
def show(order: OrderArgument, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Show one order, and how its payment stands.

    Example: holdfast orders show opening-night.01KA5W4H2NJD8S5G6E3P7A9K1M
    """
    found = asyncio.run(_show(store, order))
    if as_json:
        print_json(_as_shown(found))
    else:
        say(found.id, "bold")
        print_pairs(_pairs(found))


@app.command()
def retry(order: OrderArgument, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Try again what an order needs a person for; exit code 1 if it still does.

    Payments are taken as the settings say: they must be those of the service.

    Example: holdfast orders retry opening-night.01KA5W4H2NJD8S5G6E3P7A9K1M
    """
    _print_after(asyncio.run(_retry(store, order)), as_json)


@app.command()
def cancel(
    order: OrderArgument,
    seat: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Only this seat; repeat for more."),
    ] = None,
    pool: Annotated[
        list[str] | None,
        typer.Option(metavar="ID=N", help="Only so many of this pool; repeat for more."),
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take a sale back, or the named units of it, and give the money back.

    Payments are given back as the settings say: they must be those of the service. To name a seat
    again changes nothing; of a pool each call gives so many back.

    Example: holdfast orders cancel opening-night.01KA5W4H2NJD8S5G6E3P7A9K1M --seat A-1-2
    """
    pools = _quantities(pool or [])
    _print_after(asyncio.run(_cancel(store, order, tuple(seat or ()), pools)), as_json)


async def _troubled(store: str | None) -> list[Order]:
    async with opened_shop(store=store) as shop:
        return await shop.store.troubled_orders(LISTED_MAX)


async def _show(store: str | None, id: str) -> Order:
    async with opened_shop(store=store) as shop:
        return await _found(shop, id)


async def _retry(store: str | None, id: str) -> Order:
    async with _at_the_till(store, id) as (till, order):
        if next_step(order) is None and order.trouble is None:
            raise Failed(f"there is nothing to do for the order {id!r}", REFUSED)
        return await till.nudge(id, retry=True) or order


async def _cancel(
    store: str | None, id: str, seats: tuple[str, ...], pools: dict[str, int]
) -> Order:
    async with _at_the_till(store, id) as (till, _):
        outcome = (await till.cancel(id, seats=seats, pools=pools)).outcome
        if isinstance(outcome, Refused):
            raise refused(outcome)
        return outcome.order


@asynccontextmanager
async def _at_the_till(store: str | None, id: str) -> AsyncIterator[tuple[Till, Order]]:
    """The till of the settings, if it is the one that took the order's payment."""
    async with opened_shop(store=store) as shop:
        order = await _found(shop, id)
        till = make_till(shop, upkeep=False)
        paid_by = order.checkout.provider
        # Another provider knows nothing of the payment, and would be believed.
        if paid_by and (till.provider is None or till.provider.name != paid_by):
            raise Failed(f"the order {id!r} is paid by {paid_by}: set payments as the service does")
        try:
            async with till:
                yield till, order
        except PaymentError as trouble:
            raise Failed(str(trouble), REFUSED) from None


async def _found(shop: Holdfast, id: str) -> Order:
    order = await shop.order(id)
    if order is None:
        raise refused(Refused(Reason.UNKNOWN_ORDER, id))
    return order


def _quantities(named: list[str]) -> dict[str, int]:
    pools: dict[str, int] = {}
    for text in named:
        read = POOL.fullmatch(text)
        if read is None:
            raise Failed(f"--pool {text!r}: write it as floor=2")
        if read[1] in pools:
            raise Failed(f"--pool {read[1]!r} is named twice: say once how many")
        pools[read[1]] = int(read[2])
    return pools


def _as_shown(order: Order) -> object:
    """As GET /v1/orders/{order} shows it to an admin."""
    from holdfast.api import wire

    return wire.order(order, inside=True)


def _row(order: Order) -> tuple[str, ...]:
    return (
        order.id,
        order.state,
        order.payment or order.checkout.method,
        money(order.amount, order.currency),
        order.trouble or "-",
    )


def _pairs(order: Order) -> list[tuple[str, str]]:
    checkout = order.checkout
    pairs = [
        ("state", order.state.value),
        ("buyer", order.buyer),
        ("units", ", ".join((*order.seats, *(f"{id} x {n}" for id, n in order.pools.items())))),
        ("amount", money(order.amount, order.currency)),
        ("made", f"{order.created_at:%Y-%m-%d %H:%M:%S} UTC"),
        ("payment", order.payment or checkout.method or "none"),
    ]
    if checkout.method:
        pairs.append(("payment is", checkout.payment.value))
    if checkout.settlement:
        pairs.append(("settled", checkout.settlement.replace("_", " ")))
    if checkout.refunded:
        pairs.append(("given back", money(checkout.refunded, order.currency)))
    if checkout.refund_due:
        pairs.append(("to give back", money(checkout.refund_due, order.currency)))
    if checkout.reason:
        pairs.append(("why not sold", checkout.reason))
    if order.trouble:
        pairs.append(("needs a person", order.trouble))
    return pairs


def _print_after(order: Order, as_json: bool) -> None:
    """The order as it is now. If it needs a person, that is no success."""
    if as_json:
        print_json(_as_shown(order))
    else:
        say(order.id, "bold")
        print_pairs(_pairs(order))
    if order.trouble:
        raise Failed(f"the order {order.id!r} needs a person: {order.trouble}", REFUSED)
