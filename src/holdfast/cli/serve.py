"""holdfast serve and holdfast worker: the service, and its upkeep in a process of its own."""

import asyncio
import re
import secrets
import signal
import sys
from collections.abc import Callable
from typing import Annotated

import msgspec
import typer

from holdfast.api.callers import read_networks
from holdfast.cli.relay import BrokerOption
from holdfast.cli.shared import (
    Failed,
    GateOption,
    PolicyOption,
    StoreOption,
    complain,
    read_settings,
    say,
)
from holdfast.engine import Holdfast
from holdfast.ports import Store
from holdfast.settings import Settings
from holdfast.wiring import make_broker, make_gate, make_provider, make_store

KEY = re.compile(r"[!-~]+")

HostOption = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Where to listen; 0.0.0.0: everywhere. Else 127.0.0.1."),
]
PortOption = Annotated[
    int | None,
    typer.Option(metavar="N", min=0, max=65_535, help="0 for any that is free. Else 8000."),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, max=64, help="Processes that serve the one port. Else 1."),
]


def serve(
    store: StoreOption = None,
    gate: GateOption = None,
    policy: PolicyOption = None,
    broker: BrokerOption = None,
    host: HostOption = None,
    port: PortOption = None,
    workers: WorkersOption = None,
    no_upkeep: Annotated[
        bool,
        typer.Option("--no-upkeep", help="Leave upkeep and followers to `holdfast worker`."),
    ] = False,
) -> int:
    """Serve the HTTP API.

    The first start makes an admin key and prints it once, unless HOLDFAST_ADMIN_KEY chooses one.
    SIGTERM or Ctrl-C stops it when everything that was accepted is answered; SIGHUP replaces the
    workers one by one. Every setting may also be an environment variable or stand in holdfast.toml.

    Example: holdfast serve --store postgresql://shop@db/shop --gate redis://cache/0 --workers 4
    """
    given = {"store": store, "gate": gate, "policy": policy, "broker": broker, "host": host}
    run(read_settings({**given, "port": port, "workers": workers}), upkeep=not no_upkeep)
    return 0


def run(
    settings: Settings,
    *,
    upkeep: bool = True,
    prepare: Callable[[], None] | None = None,
    greet: Callable[[str], None] | None = None,
) -> None:
    """Serves until it is stopped. `prepare` is done once the port is ours, before anything else;
    `greet` is told the address when it serves."""
    from holdfast.api.supervisor import Supervisor, listen, url_of

    check(settings)
    listener = listen(settings.host, settings.port, settings.write_seconds)
    with listener:
        if prepare is not None:
            prepare()
        settings, new_key = asyncio.run(_prepare(settings))
        url = url_of(listener)

        def on_ready() -> None:
            if new_key is not None:
                say(f"The first admin key, shown only now:\n{new_key}\n", "bold")
            if greet is not None:
                greet(url)
            else:
                say(f"Holdfast serves {url} on {settings_url(settings)}; its API is at {url}/docs")
            sys.stdout.flush()  # whoever reads it through a pipe waits for it

        async def supervise() -> None:
            await Supervisor(listener, settings, upkeep).run(on_ready)

        asyncio.run(supervise())
    say("Stopped.")


def settings_url(settings: Settings) -> str:
    return make_store(settings).url


def check(settings: Settings) -> None:
    """What would only be found wrong by each worker is found here, once."""
    if settings.admin_key and not KEY.fullmatch(settings.admin_key):
        raise Failed("HOLDFAST_ADMIN_KEY must be printable ASCII without blanks: it is a header")
    read_networks(settings.trusted_proxies)
    make_gate(settings)
    make_provider(settings)
    make_broker(settings)
    if settings.workers > 1 and settings.broker == "memory://":
        raise Failed("workers cannot share the broker memory://: use another, or --workers 1")
    if settings.workers > 1 and settings.store == "memory://":
        raise Failed("workers cannot share memory://: use another --store, or --workers 1")
    if settings.workers > 1 and settings.gate == "memory://":
        raise Failed("workers cannot share the gate memory://: use redis://, or --workers 1")


async def _prepare(settings: Settings) -> tuple[Settings, str | None]:
    """The store is there and has an admin key; the key, if nobody knows it yet."""
    from holdfast.api.keys import Role, deployment_secret

    if settings.store == "memory://":
        # Nothing that this process writes there would be seen by the worker.
        if settings.admin_key:
            return settings, None
        key = f"hf_{Role.ADMIN}_{secrets.token_urlsafe(24)}"
        return msgspec.structs.replace(settings, admin_key=key), key
    store = make_store(settings)
    await store.open()
    try:
        await deployment_secret(store, settings.secret or None)
        return settings, await _ensure_admin(store, settings.admin_key or None)
    finally:
        await store.close()


async def _ensure_admin(store: Store, chosen: str | None) -> str | None:
    """A key that was chosen and then revoked is missed only where there is no other."""
    from holdfast.api.keys import Keys, Role, key_id

    keys = Keys(store)
    if chosen is not None:
        found = await keys.all()
        revoked = any(key.id == key_id(chosen) and key.revoked_ms is not None for key in found)
        if revoked and any(key.role is Role.ADMIN and key.revoked_ms is None for key in found):
            complain("HOLDFAST_ADMIN_KEY was revoked: it admits nobody, and may be left out")
            return None
    return await keys.ensure_admin(chosen)


def worker(store: StoreOption = None, gate: GateOption = None, broker: BrokerOption = None) -> int:
    """Run followers and upkeep in a process of their own.

    It announces expired holds, compares the gate with the store, goes on with orders whose process
    died, publishes facts to the broker and to webhooks, and keeps projections and the log's length.
    Run as many as you like: they divide the work, or one works and the others take over when it
    ends. `holdfast serve` does this too, unless it is told --no-upkeep.

    Example: holdfast worker --store postgresql://shop@db/shop
    """
    settings = read_settings({"store": store, "gate": gate, "broker": broker})
    make_broker(settings)
    if settings.store == "memory://":
        raise Failed("a worker needs a store that others have too, not memory://")
    asyncio.run(_work(settings))
    return 0


async def _work(settings: Settings) -> None:
    from holdfast.api.logs import set_up_logs
    from holdfast.checkout.till import make_till
    from holdfast.followers.crew import Crew

    set_up_logs(settings)
    stopping = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stopping.set)
    shop = Holdfast.open(**msgspec.structs.asdict(settings))
    async with shop, make_till(shop), Crew(shop):
        say(f"Looking after {settings_url(settings)}")
        sys.stdout.flush()
        await stopping.wait()
