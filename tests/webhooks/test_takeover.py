"""Processes that deliver are killed and frozen, and another goes on: nothing is lost, and whoever
drops repeats sees every event's facts in order."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

import asyncpg
import msgspec
import pytest

from holdfast import Holdfast, Placed
from holdfast.brokers.webhooks.subscriptions import Webhooks
from holdfast.followers.deliveries import FOLLOWER
from holdfast.followers.shards import KIND, Table
from holdfast.ids import Ids
from tests.conftest import needed
from tests.servers import Postgres, running
from tests.webhooks.receiving import Got, Receiver, becomes, until, verify

pytestmark = pytest.mark.slow

EVENTS = [f"night-{nth}" for nth in range(6)]
FACTS = 40


@contextmanager
def deliverer(url: str) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen([sys.executable, "-m", "tests.webhooks.deliverer", url])
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise AssertionError("it did not stop when it was asked to") from None


async def sold(url: str, receiver: Receiver) -> tuple[str, Holdfast]:
    """A shop with events and a subscription; its secret."""
    shop = Holdfast.open(url, upkeep=False)
    await shop.__aenter__()
    for event in EVENTS:
        await shop.create_event(
            {"id": event, "prices": {"floor": 1}, "pools": [{"id": "floor", "capacity": 10_000}]}
        )
    made = await Webhooks(shop.store).create(receiver.url, ["hold.placed"])
    assert made is not None
    return made.secret, shop


async def sell(shop: Holdfast, event: str, count: int) -> None:
    for _ in range(count):
        placed = await shop.place_hold(event, buyer="ann", pools={"floor": 1})
        assert isinstance(placed, Placed)


async def members(shop: Holdfast) -> int:
    """How many processes have a part of the deliveries."""
    documents, _ = await shop.store.documents(KIND, FOLLOWER)
    tables = [msgspec.json.decode(each.body, type=Table) for each in documents]
    return len({shard.owner for table in tables for shard in table.shards} - {""})


async def run(url: str, strikes: list[signal.Signals]) -> tuple[Receiver, str]:
    """Two deliver; in the midst of it a signal meets the first, and another one later."""
    receiver = Receiver()
    await receiver.start()
    secret, shop = await sold(url, receiver)
    try:
        with ExitStack() as stack:
            first = stack.enter_context(deliverer(url))
            stack.enter_context(deliverer(url))

            async def both() -> bool:
                return await members(shop) == 2

            def answer(got: Got) -> int:
                if len(receiver.got) == FACTS:
                    os.kill(first.pid, strikes[0])
                return 200

            await becomes(both)
            receiver.answer = answer
            await asyncio.gather(*(sell(shop, event, FACTS) for event in EVENTS))
            await in_order(receiver, FACTS)
            for nth, later in enumerate(strikes[1:], 1):
                # Thawed, it must not go on with what is another's by now.
                os.kill(first.pid, later)
                await asyncio.gather(*(sell(shop, event, 5) for event in EVENTS))
                await in_order(receiver, FACTS + 5 * nth)
    finally:
        await shop.__aexit__(None, None, None)
        await receiver.stop()
    return receiver, secret


async def in_order(receiver: Receiver, count: int) -> None:
    """All facts of all events came, after `event.created`, which nobody wanted."""
    expected = [*range(2, count + 2)]
    await until(lambda: all(len(receiver.first(event)) >= count for event in EVENTS))
    assert {event: receiver.first(event) for event in EVENTS} == dict.fromkeys(EVENTS, expected)


def check(receiver: Receiver, secret: str) -> None:
    for got in receiver.got:
        verify(secret, got.headers, got.body)
    wanted = sum(len(receiver.first(event)) for event in EVENTS)
    print(f"{wanted} facts, {len(receiver.got) - wanted} repeats")
    # A repeat is what was delivered since a cursor was moved last, by one process, once.
    assert len(receiver.got) - wanted < wanted


async def test_one_that_is_killed_is_replaced_without_a_gap(tmp_path):
    check(*await run(f"sqlite:///{tmp_path / 'shop.db'}", [signal.SIGKILL]))


@pytest.fixture
async def database() -> str:
    """An empty one of its own."""
    server = needed(lambda: running(Postgres, fsync="off", full_page_writes="off"))
    name = f"webhooks_{Ids().new().lower()}"
    line = await asyncpg.connect(server.url)
    await line.execute(f"CREATE DATABASE {name}")
    await line.close()
    return urlsplit(server.url)._replace(path=f"/{name}").geturl()


@pytest.mark.service
@pytest.mark.parametrize("strikes", [[signal.SIGKILL], [signal.SIGSTOP, signal.SIGCONT]])
async def test_one_that_is_killed_or_frozen_is_replaced_on_a_server_too(database, strikes):
    check(*await run(database, strikes))
