"""holdfast demo: the service on a file of its own, with an event on sale."""

import asyncio
import contextlib
import fcntl
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.serve import run
from holdfast.cli.shared import Failed, refused, say
from holdfast.domain.outcomes import Reason, Refused
from holdfast.engine import Holdfast
from holdfast.pages.site import Site
from holdfast.settings import load_settings

DEMO_FILE = "holdfast-demo.db"
DEMO_STORE = f"sqlite:///{DEMO_FILE}"
SUFFIXES = ("", "-wal", "-shm", "-turn")
KEY_NAME = "demo"

EVENT = "demo-night"
HOUSE = {
    "id": EVENT,
    "name": "Opening night",
    "currency": "EUR",
    "max_per_buyer": 8,
    "prices": {"gold": 9000, "silver": 6000, "floor": 4500},
    "sections": [
        {"id": "A", "tier": "gold", "rows": 10, "seats_per_row": 20, "x": 5, "aisles": [5, 15]},
        {"id": "B", "tier": "silver", "rows": 10, "seats_per_row": 30, "aisles": [8, 22]},
    ],
    "pools": [{"id": "floor", "capacity": 500, "tier": "floor"}],
}

GREETING = """\
Holdfast serves {url}
  {event} is on sale: 500 seats and 500 places on the floor. Payments are pretended (sandbox).
{pages}  {url}/docs           the API, to read
  admin key    {admin}
  public key   {public}

Hold the two best seats:
  curl -d '{{"buyer":"you","best":[{{"quantity":2}}]}}' -H "Authorization: Bearer {admin}" \\
       {url}/v1/events/{event}/holds

Let 10,000 people go after one seat:
  {program} stampede --url {url} --key {admin} --buyers 10000 --seats 1

Ctrl-C stops it; the next demo goes on where this one ended."""

PAGES = """\
  {url}/               pick seats on a live map, and buy them
  {url}/lab            let thousands go after one seat
  {url}/ops#key={admin}
                       watch the sale, as whoever runs it
"""


def demo(
    port: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            max=65_535,
            help="Where to serve, on this machine. Else HOLDFAST_PORT, else 8000.",
        ),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help=f"Delete {DEMO_FILE} first and begin anew.")
    ] = False,
    store: Annotated[
        str | None,
        typer.Option(
            "--store",
            metavar="URL",
            help=f"Run it elsewhere than in {DEMO_STORE}: there it makes {EVENT} and takes sandbox "
            "payments. HOLDFAST_STORE is not asked: a demo does not play in your shop.",
        ),
    ] = None,
) -> int:
    """Serve an event on sale, on this machine, with payments that are only pretended.

    It prints its address, keys to try it with, and what to try. Every start goes on where the last
    one ended, in the same house.

    Example: holdfast demo --fresh
    """
    if store == "memory://":
        raise Failed("the demo needs a file, or a server: memory:// is one process's own")
    own = {"store": store or DEMO_STORE, "gate": "none", "policy": "authority"}
    settings = load_settings(
        {
            **own,
            "host": "127.0.0.1",
            "port": port,
            "workers": 1,
            "payments": "sandbox",
            "pages": "on",
            "lab": "open",
        }
    )
    keys: dict[str, str] = {}

    def prepare() -> None:
        """Once the port is ours: a demo that cannot start leaves the one that runs alone."""
        if fresh:
            _delete(store)
        keys["admin"], keys["public"] = asyncio.run(
            _build(settings.store, settings.admin_key or None)
        )

    def greet(url: str) -> None:
        # Where they were not built there is the API alone.
        pages = PAGES.format(url=url, **keys) if Site().built else ""
        say(GREETING.format(url=url, event=EVENT, program=program(), pages=pages, **keys))

    with _alone(store):
        run(settings, prepare=prepare, greet=greet)
    return 0


@contextlib.contextmanager
def _alone(store: str | None) -> Iterator[None]:
    """One demo at a time in the demo's own file: the next would end the keys of the first, or
    delete the file under it."""
    if store not in (None, DEMO_STORE):
        yield
        return
    with open(DEMO_FILE + "-demo", "w") as mark:
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Failed(f"a demo is running on {DEMO_FILE} already: stop it first") from None
        yield


def program() -> str:
    """How this program was called, so that the next line can be typed as it is shown."""
    script = Path(sys.argv[0])
    if script.name != "holdfast":
        return "python -m holdfast"
    return "holdfast" if shutil.which("holdfast") == str(script) else str(script)


def _delete(store: str | None) -> None:
    if store not in (None, DEMO_STORE):
        raise Failed(f"--fresh deletes the demo's own {DEMO_FILE} only: leave out --store {store}")
    for suffix in SUFFIXES:
        try:
            Path(DEMO_FILE + suffix).unlink(missing_ok=True)
        except OSError as cause:
            raise Failed(f"cannot delete {DEMO_FILE}{suffix}: {cause.strerror}") from None


async def _build(store: str, chosen: str | None) -> tuple[str, str]:
    """The house, and its keys: the same at every start, so that an open page goes on. One that was
    revoked is not used again."""
    from holdfast.api.keys import Keys, Role, deployment_secret, derived_key, key_id

    none = {"gate": "none", "policy": "authority"}  # as its own store: not what is configured
    async with Holdfast.open(store, upkeep=False, **none) as shop:
        match await shop.create_event(HOUSE):
            case Refused(reason=reason) as refusal if reason is not Reason.EXISTS:
                raise refused(refusal)
        keys = Keys(shop.store)
        await keys.read()
        known = {key.id for key in await keys.all()}
        secret = await deployment_secret(shop.store, shop.settings.secret or None)

        async def own(role: Role) -> str:
            key = derived_key(secret, role, f"demo {role}")
            if key_id(key) not in known:
                return await keys.create(role, KEY_NAME, secret=key)
            return key if keys.find(key) else await keys.create(role, KEY_NAME)

        if chosen is not None:
            await keys.ensure_admin(chosen)
        return chosen or await own(Role.ADMIN), await own(Role.PUBLIC)
