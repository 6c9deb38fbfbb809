"""holdfast dead-letters: facts that a broker or a receiver would not take."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer

from holdfast.cli.relay import BrokerOption, TopicOption
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
from holdfast.errors import BrokerDown
from holdfast.followers.dead_letters import DeadLetter, DeadLetters
from holdfast.ports import Broker, Store
from holdfast.settings import Settings
from holdfast.wiring import make_broker

WEBHOOK = "webhook:"
PRUNED = "the fact was pruned from the log: it can only be dropped"

app = typer.Typer(
    help="Facts that a broker or a receiver would not take: list, retry, drop.",
    no_args_is_help=True,
)

IdsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="[ID]...", help="As `list` shows them.")
]
NameOption = Annotated[
    str | None,
    typer.Option(
        "--name",
        metavar="NAME",
        help="The relay whose letters are sent again: what is before the / of their ids. "
        "Else relay. Those of webhooks need no name.",
    ),
]
AllOption = Annotated[bool, typer.Option("--all", help="All there are.")]


@app.command("list")
def list_letters(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Show the facts that were not taken, the oldest first, and why.

    Example: holdfast dead-letters list --store postgresql://shop@db/shop
    """
    letters = asyncio.run(_all(read_settings({"store": store})))
    if as_json:
        print_json([_shown(letter) for letter in letters])
    elif letters:
        print_table(
            ("id", "fact", "since", "reason"),
            [
                (each.id, each.type, f"{instant(each.at_ms):%Y-%m-%d %H:%M}", each.reason)
                for each in letters
            ],
        )
    else:
        say("No dead letters.")


@app.command("retry")
def retry_letters(
    ids: IdsArgument = None,
    every: AllOption = False,
    store: StoreOption = None,
    broker: BrokerOption = None,
    topic: TopicOption = None,
    name: NameOption = None,
) -> int:
    """Publish facts again, to those who would not take them. What is taken now is gone from here.

    They come after facts that are younger: their order is lost already.

    Example: holdfast dead-letters retry --all --broker kafka://kafka:9092
    """
    given = {"store": store, "broker": broker, "broker_topic": topic, "relay_name": name}
    return asyncio.run(_retry(read_settings(given), _named(ids, every)))


@app.command("drop")
def drop_letters(
    ids: IdsArgument = None, every: AllOption = False, store: StoreOption = None
) -> int:
    """Forget facts that nobody needs any more. On the log they stay.

    Example: holdfast dead-letters drop relay/opening-night.17
    """
    return asyncio.run(_drop(read_settings({"store": store}), _named(ids, every)))


def _named(ids: list[str] | None, every: bool) -> list[str] | None:
    """None stands for all."""
    if bool(ids) == every:
        raise Failed("name dead letters by their ids, or say --all")
    return ids or None


def _shown(letter: DeadLetter) -> dict[str, object]:
    return {
        "id": letter.id,
        "follower": letter.follower,
        "event": letter.event,
        "sequence": letter.seq,
        "type": letter.type,
        "reason": letter.reason,
        "since": instant(letter.at_ms),
        "fact": msgspec.Raw(letter.fact.encode()) if letter.fact else None,
    }


async def _all(settings: Settings) -> list[DeadLetter]:
    async with opened_store(settings) as store:
        return await DeadLetters(store).all()


async def _retry(settings: Settings, ids: list[str] | None) -> int:
    async with opened_store(settings) as store:
        letters = await _chosen(store, ids)
        if not letters:
            say("No dead letters.")
        async with contextlib.AsyncExitStack() as stack:
            again = Again(store, settings, stack)
            left = 0
            for letter in letters:
                why = await again.send(letter)
                left += why is not None
                if why is None:
                    await DeadLetters(store).drop(letter)
                say(f"{letter.id}: {why or 'taken'}", "red" if why else "green")
        return REFUSED if left else 0


class Again:
    """Sends letters to those who would not take them, and to nobody else."""

    def __init__(self, store: Store, settings: Settings, stack: contextlib.AsyncExitStack) -> None:
        self._store = store
        self._settings = settings
        self._stack = stack
        self._broker: Broker | None = None

    async def send(self, letter: DeadLetter) -> str | None:
        """None when it was taken, else why not."""
        if letter.follower.startswith(WEBHOOK):
            from holdfast.followers.deliveries import redeliver

            message = await DeadLetters(self._store).message(letter)
            id = letter.follower.removeprefix(WEBHOOK)
            return await redeliver(self._store, self._settings, id, message) if message else PRUNED
        if letter.follower != self._settings.relay_name:
            return f"it is of the relay {letter.follower}: say --name {letter.follower}"
        message = await DeadLetters(self._store).message(letter)
        if message is None:
            return PRUNED
        try:
            return (await (await self._opened()).publish([message])).get(0)
        except BrokerDown as trouble:
            return str(trouble)

    async def _opened(self) -> Broker:
        if self._broker is None:
            broker = make_broker(self._settings)
            if broker is None or self._settings.broker == "memory://":
                raise Failed("to publish it again a broker is needed: --broker kafka://host:port")
            self._stack.push_async_callback(broker.close)
            await broker.open()
            self._broker = broker
        return self._broker


async def _drop(settings: Settings, ids: list[str] | None) -> int:
    async with opened_store(settings) as store:
        letters = await _chosen(store, ids)
        for letter in letters:
            await DeadLetters(store).drop(letter)
        say(f"Dropped: {len(letters):,}")
        return 0


async def _chosen(store: Store, ids: list[str] | None) -> Sequence[DeadLetter]:
    letters = {letter.id: letter for letter in await DeadLetters(store).all()}
    if ids is None:
        return list(letters.values())
    if unknown := [id for id in ids if id not in letters]:
        raise Failed(
            f"no dead letter {unknown[0]!r}; holdfast dead-letters list shows them", REFUSED
        )
    return [letters[id] for id in ids]
