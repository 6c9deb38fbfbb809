"""holdfast webhooks: who gets facts by HTTP POST."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from holdfast.cli.shared import (
    REFUSED,
    Failed,
    JsonOption,
    StoreOption,
    opened_store,
    print_json,
    print_table,
    read_settings,
    say,
)
from holdfast.domain.model import instant
from holdfast.settings import Settings

if TYPE_CHECKING:
    from holdfast.brokers.webhooks.subscriptions import LastFailure, Webhook
    from holdfast.ports import Store

T = TypeVar("T")
MINUTE = "%Y-%m-%d %H:%M"

app = typer.Typer(
    no_args_is_help=True,
    help="Send facts by HTTP POST to whoever subscribes. A running service heeds changes within "
    "a second or two.\n\n"
    "Example: holdfast webhooks add https://shop.example/holdfast --events order.confirmed",
)

WebhookArgument = Annotated[str, typer.Argument(metavar="ID", help="The webhook's id: wh_...")]


@app.command("list")
def list_webhooks(store: StoreOption = None, as_json: JsonOption = False) -> int:
    """Show all webhooks, without their secrets: which are disabled, which fail, and why.

    Example: holdfast webhooks list
    """
    from holdfast.brokers.webhooks.subscriptions import Webhooks

    async def work(
        store: "Store", settings: Settings
    ) -> "list[tuple[Webhook, LastFailure | None]]":
        webhooks = Webhooks(store)
        there = await webhooks.all()
        failures = await webhooks.last_failures(there)
        return [(each, failures.get(each.id)) for each in there]

    found = _with_store(store, work)
    if as_json:
        from holdfast.api.webhooks import shown

        print_json([shown(*each) for each in found])
    elif not found:
        say("No webhooks yet: `holdfast webhooks add URL --events ...` makes one.")
    else:
        print_table(("id", "url", "events", "state", "why"), [_row(*each) for each in found])
    return 0


@app.command()
def add(
    url: Annotated[str, typer.Argument(metavar="URL", help="Where facts are to be sent.")],
    events: Annotated[
        str,
        typer.Option(
            metavar="TYPES",
            help="Which facts, with commas: order.confirmed, order.* for a group, * for all.",
        ),
    ],
    subject: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Only of this event; repeat for more. Else of all."),
    ] = None,
    description: Annotated[
        str, typer.Option(metavar="TEXT", help="What it is for, to tell it later.")
    ] = "",
    store: StoreOption = None,
) -> int:
    """Subscribe to facts from now on. The secret that signs them is printed alone on the last line,
    once.

    Example: holdfast webhooks add https://shop.example/holdfast --events order.confirmed,event.*
    """
    from holdfast.brokers.webhooks.subscriptions import (
        DESCRIPTION_CHARS_MAX,
        WEBHOOKS_MAX,
        Made,
        Webhooks,
        faults_of,
    )

    types = [each.strip() for each in events.split(",") if each.strip()]

    async def work(store: "Store", settings: Settings) -> Made | None:
        if faults := faults_of(url, types, subject, internal=settings.webhook_internal):
            raise Failed(str(faults[0]))
        return await Webhooks(store).create(
            url, types, subject, description[:DESCRIPTION_CHARS_MAX]
        )

    made = _with_store(store, work)
    if made is None:
        raise Failed(f"there are {WEBHOOKS_MAX} webhooks already", REFUSED)
    say(f"The webhook {made.webhook.id}. Its secret is not shown again:")
    print(made.secret)
    return 0


@app.command()
def remove(webhook: WebhookArgument, store: StoreOption = None) -> int:
    """End a subscription.

    Example: holdfast webhooks remove wh_01KA5X0Q7RZJ4N8S2D6F9G3H5T
    """
    from holdfast.brokers.webhooks.subscriptions import Webhooks

    if not _with_store(store, lambda store, _: Webhooks(store).remove(webhook)):
        raise _unknown(webhook)
    say(f"Removed {webhook}.")
    return 0


@app.command()
def rotate(
    webhook: WebhookArgument,
    keep_seconds: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, max=604_800, help="How long the secret before it signs too."
        ),
    ] = 86_400,
    store: StoreOption = None,
) -> int:
    """Make a new secret. It is printed alone on the last line, once.

    Example: holdfast webhooks rotate wh_01KA5X0Q7RZJ4N8S2D6F9G3H5T --keep-seconds 3600
    """
    from holdfast.brokers.webhooks.subscriptions import Crowded, Webhooks

    rotated = _with_store(store, lambda store, _: Webhooks(store).rotate(webhook, keep_seconds))
    if rotated is None:
        raise _unknown(webhook)
    if isinstance(rotated, Crowded):
        raise Failed(rotated.detail, REFUSED)
    more = f"too for {keep_seconds:,} s more" if keep_seconds else "no more"
    say(f"A new secret of {webhook}. The one before signs {more}:")
    print(rotated.secret.value)
    return 0


@app.command()
def enable(webhook: WebhookArgument, store: StoreOption = None) -> int:
    """Go on where a disabled webhook stood, and try now what waits to be tried again. The
    schedule begins anew; a fact's refusals still count.

    Example: holdfast webhooks enable wh_01KA5X0Q7RZJ4N8S2D6F9G3H5T
    """
    from holdfast.brokers.webhooks.subscriptions import Webhooks

    if _with_store(store, lambda store, _: Webhooks(store).enable(webhook)) is None:
        raise _unknown(webhook)
    say(f"Enabled {webhook}.")
    return 0


@app.command()
def redeliver(
    webhook: WebhookArgument,
    event: Annotated[str, typer.Argument(metavar="EVENT", help="The event's id.")],
    sequence: Annotated[
        int,
        typer.Argument(
            metavar="SEQUENCE", min=1, max=2**62, help="The fact's number on the event's log."
        ),
    ],
    store: StoreOption = None,
) -> int:
    """Send one fact again, now; exit code 1 if it is not taken. What else waits is left as it is.

    Example: holdfast webhooks redeliver wh_01KA5X0Q7RZJ4N8S2D6F9G3H5T opening-night 17
    """
    from holdfast.followers.deliveries import NoFact, find_fact
    from holdfast.followers.deliveries import redeliver as deliver

    async def work(store: "Store", settings: Settings) -> str | None:
        found = await find_fact(store, event, sequence)
        if isinstance(found, NoFact):
            hint = "" if found.event_known else "; `holdfast events list` shows those there are"
            raise Failed(found.detail + hint, REFUSED)
        return await deliver(store, settings, webhook, found)

    why = _with_store(store, work)
    if why is not None:
        raise Failed(why, REFUSED)
    say(f"{event}.{sequence}: taken")
    return 0


def _row(webhook: "Webhook", failure: "LastFailure | None") -> tuple[str, ...]:
    why = webhook.reason or _trouble(webhook, failure) or "-"
    return webhook.id, webhook.url, ", ".join(webhook.events), webhook.state.value, why


def _trouble(webhook: "Webhook", failure: "LastFailure | None") -> str:
    """What an active one has trouble with, if anything."""
    since = webhook.failing_since_ms
    failing = "" if since is None else f"failing since {instant(since):{MINUTE}}"
    if failure is None:
        # What failed is no longer tried: it is with the dead letters.
        return failing
    due = failure.next_try_ms
    again = "at once" if due is None else f"{instant(due):{MINUTE}}"
    last = f"{failure.fact} {failure.reason}, tries: {failure.attempts}, next: {again}"
    return f"{failing}: {last}" if failing else last


def _unknown(id: str) -> Failed:
    return Failed(
        f"there is no webhook {id!r}; `holdfast webhooks list` shows those there are", REFUSED
    )


def _with_store(url: str | None, work: "Callable[[Store, Settings], Awaitable[T]]") -> T:
    settings = read_settings({"store": url})
    if settings.store == "memory://":
        raise Failed("webhooks of memory:// end with this command: name the store of the service")

    async def run() -> T:
        async with opened_store(settings) as store:
            return await work(store, settings)

    return asyncio.run(run())
