"""holdfast keys: who may call the service."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec
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

if TYPE_CHECKING:
    from holdfast.api.keys import Keys

T = TypeVar("T")

ORIGIN = re.compile(r"https?://[A-Za-z0-9.:\[\]-]+")

app = typer.Typer(
    no_args_is_help=True,
    help="Create, list and revoke API keys. A running service heeds them within a second.\n\n"
    "Example: holdfast keys create --role seller",
)


@app.command()
def create(
    role: Annotated[
        str,
        typer.Option(
            metavar="ROLE",
            help="admin: everything. seller: a shop's own server, acts for any buyer. "
            "public: a browser, holds and pays for itself.",
        ),
    ],
    name: Annotated[
        str, typer.Option(metavar="TEXT", help="What it is for, to tell it later.")
    ] = "",
    origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL",
            help="A web origin that may call with it, as https://shop.example; repeat for more.",
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(metavar="N", min=0.001, max=1_000_000, help="Requests a second, at most."),
    ] = None,
    store: StoreOption = None,
) -> int:
    """Make a key. It is printed alone on the last line, once: only its hash is kept.

    Example: holdfast keys create --role seller --name "the web shop"
    """
    from holdfast.api.keys import Role

    if role not in list(Role):
        raise Failed(f"--role must be admin, seller or public, not {role!r}")

    for each in origin or ():
        if not ORIGIN.fullmatch(each):
            raise Failed(f"--origin {each!r}: write it as https://shop.example, without a path")
    origins = tuple(origin or ())
    secret = _with_keys(
        store,
        lambda keys: keys.create(Role(role), name[:200], origins=origins, rate=rate),
        new=True,
    )
    say(f"A key of role {role}. It is not shown again:")
    print(secret)
    return 0


@app.command("list")
def list_keys(store: StoreOption = None, as_json: JsonOption = False) -> int:
    """Show all keys, without the keys themselves.

    Example: holdfast keys list
    """
    keys = _with_keys(store, lambda keys: keys.all())
    if as_json:
        shown = [msgspec.to_builtins(key) for key in keys]
        for each in shown:
            del each["hash"]
        print_json(shown)
        return 0
    if not keys:
        say("No keys yet: `holdfast keys create --role admin` makes one.")
        return 0
    rows = [
        [
            key.id,
            str(key.role),
            key.name or "-",
            f"{instant(key.created_ms):%Y-%m-%d %H:%M}",
            "revoked" if key.revoked_ms is not None else "live",
        ]
        for key in keys
    ]
    print_table(["id", "role", "name", "made", "state"], rows)
    return 0


@app.command()
def revoke(
    key: Annotated[str, typer.Argument(metavar="ID", help="The key's id, or the key itself.")],
    store: StoreOption = None,
) -> int:
    """End a key. Services refuse it within a second.

    Example: holdfast keys revoke 3f9a1c27d5e0
    """
    found = _with_keys(store, lambda keys: keys.revoke(key))
    if found is None:
        raise Failed("there is no such key; `holdfast keys list` shows those there are", REFUSED)
    say(f"Revoked {found.id} ({found.role}).")
    return 0


def _with_keys(url: str | None, work: "Callable[[Keys], Awaitable[T]]", *, new: bool = False) -> T:
    """With `new`, a store that is not there yet is made: keys may come before the service."""
    from holdfast.api.keys import Keys

    settings = read_settings({"store": url})
    if settings.store == "memory://":
        raise Failed("keys of memory:// end with this command: name the store of the service")

    async def run() -> T:
        async with opened_store(settings, new=new) as store:
            return await work(Keys(store))

    return asyncio.run(run())
