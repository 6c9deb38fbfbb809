"""holdfast sandbox: a provider of payments that only pretends, as a service of its own."""

import asyncio
import signal
import socket
import sys
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from holdfast.cli.shared import Failed, say

if TYPE_CHECKING:
    from holdfast.checkout.payments.teller import Teller

MILLIS_MAX = 60_000
COPIES_MAX = 100
SEED_MAX = 2**63 - 1


def _percent(help: str) -> object:
    return typer.Option(metavar="PERCENT", min=0.0, max=100.0, help=help)


def _millis(help: str) -> object:
    return typer.Option(metavar="MS", min=0.0, max=float(MILLIS_MAX), help=help)


def sandbox(
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where to listen; 0.0.0.0: everywhere.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65_535, help="0 for any that is free.")
    ] = 8_001,
    latency_ms: Annotated[float, _millis("Every answer takes at least so long.")] = 0.0,
    jitter_ms: Annotated[float, _millis("And by chance up to so much longer.")] = 0.0,
    fail_percent: Annotated[float, _percent("Requests that get 500 and have no effect.")] = 0.0,
    lose_percent: Annotated[
        float, _percent("Requests that have their effect and get no answer.")
    ] = 0.0,
    decline_percent: Annotated[
        float, _percent("Payments by sandbox:ok that are declined all the same.")
    ] = 0.0,
    seed: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, max=SEED_MAX, help="The same seed, the same chances, in order."
        ),
    ] = 0,
    webhook_url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Who is told of every change of a payment."),
    ] = None,
    webhook_secret: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What the messages are signed with.")
    ] = None,
    webhook_delay_ms: Annotated[float, _millis("Messages are sent so much later.")] = 0.0,
    webhook_copies: Annotated[
        int,
        typer.Option(metavar="N", min=1, max=COPIES_MAX, help="Each message is sent so often."),
    ] = 1,
    shuffle: Annotated[
        bool, typer.Option("--shuffle", help="Messages are sent out of order.")
    ] = False,
) -> int:
    """Run a provider of payments that only pretends.

    For trying a shop out and for tests: no money is ever moved, everything is in memory, and nobody
    is asked who he is. Never in production. SIGTERM or Ctrl-C stops it.

    Example: holdfast sandbox --latency-ms 50 --fail-percent 5 --lose-percent 5 --seed 7
    """
    if (webhook_url is None) != (not webhook_secret):
        raise Failed("--webhook-url and --webhook-secret go together")
    try:
        from holdfast.checkout.payments.courier import Courier
        from holdfast.checkout.payments.teller import Teller
    except ImportError as missing:
        raise Failed(str(missing)) from None
    from holdfast.api.supervisor import listen, url_of
    from holdfast.checkout.payments.weather import Weather

    weather = Weather(
        seed=seed,
        latency_ms=latency_ms,
        jitter_ms=jitter_ms,
        fail_percent=fail_percent,
        lose_percent=lose_percent,
        decline_percent=decline_percent,
    )
    courier = None
    if webhook_url is not None and webhook_secret:
        courier = Courier(
            _checked(webhook_url),
            webhook_secret,
            delay_seconds=webhook_delay_ms / 1000,
            copies=webhook_copies,
            shuffle=shuffle,
            seed=seed,
        )
    with listen(host, port) as listener:
        url = url_of(listener)
        asyncio.run(_serve(Teller(url, weather, courier), listener, url))
    return 0


async def _serve(teller: "Teller", listener: socket.socket, url: str) -> None:
    stopping = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stopping.set)
    await teller.open(listener)
    say(f"The sandbox takes pretended payments at {url}")
    sys.stdout.flush()  # whoever reads it through a pipe waits for it
    await stopping.wait()
    await teller.close()


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        fine = False
    if not fine:
        raise Failed("--webhook-url must be http://host/path or https://host/path")
    return url
