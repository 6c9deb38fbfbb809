"""Facts of 50 events, 100,000 of them in the soak, to real Kafka and real NATS at the same time,
while relays are killed with -9 and the brokers are restarted: every fact arrives, those of each
event in order and without a gap once repeats are dropped."""

import asyncio
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import pytest

from holdfast.domain.outcomes import Created, Placed, Released
from holdfast.engine import Holdfast
from tests.brokers.reading import read_kafka, read_nats
from tests.conftest import needed
from tests.servers import Kafka, Nats, Postgres, Server, own_server

EVENTS = 50
FACTS = [20_000, pytest.param(100_000, marks=pytest.mark.soak)]
TASKS = 400
RELAYS = 2
"""For each broker."""
DISTURBANCES = 6
"""Each kills a relay of each broker; the first four also a broker."""
DISTURB_SECONDS = 1.5

HOLDFAST = Path(sys.executable).parent / "holdfast"
SETTINGS = {"HOLDFAST_RELAY_LEASE_SECONDS": "1.5", "HOLDFAST_LOG_LEVEL": "error"}

pytestmark = [
    pytest.mark.service,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("storm"),
]


class Told(msgspec.Struct):
    """What a consumer needs of a fact."""

    id: str
    subject: str
    sequence: int


read_fact = msgspec.json.Decoder(Told).decode


class Relays:
    """The processes that relay to one broker, each replaced when it is killed."""

    def __init__(self, store: str, broker: str, folder: Path) -> None:
        self._command = [
            *(str(HOLDFAST), "relay", "--store", store, "--broker", broker),
            *("--name", broker.partition(":")[0]),
        ]
        self._errors = folder / f"{broker.partition(':')[0]}.log"
        self.processes = [self._start() for _ in range(RELAYS)]
        self.kills = 0

    def _start(self) -> "subprocess.Popen[bytes]":
        with self._errors.open("ab") as errors:
            return subprocess.Popen(
                self._command,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env={**os.environ, **SETTINGS},
            )

    def kill(self, chance: random.Random) -> None:
        nth = chance.randrange(RELAYS)
        assert self.processes[nth].poll() is None, self._errors.read_text()
        self.processes[nth].kill()
        self.processes[nth].wait()
        self.processes[nth] = self._start()
        self.kills += 1

    def stop(self) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def relays(store: str, broker: str, folder: Path) -> Iterator[Relays]:
    running = Relays(store, broker, folder)
    try:
        yield running
    finally:
        running.stop()


async def sell(url: str, facts: int) -> dict[str, int]:
    """Holds and releases on all events at once; how many facts each event has then."""
    async with Holdfast.open(url, upkeep=False) as shop:
        section = {"id": "A", "tier": "any", "rows": 10, "seats_per_row": 10}
        for nth in range(EVENTS):
            plan = {"id": f"e{nth}", "prices": {"any": 1}, "sections": [section]}
            assert isinstance(await shop.create_event(plan), Created)
        left = iter(range((facts - EVENTS) // 2))

        async def buyer(task: int) -> None:
            event, seat = f"e{task % EVENTS}", f"A-{task // EVENTS + 1}-1"
            for _ in left:
                placed = await shop.place_hold(event, buyer=f"u{task}", seats=[seat])
                assert isinstance(placed, Placed), placed
                assert isinstance(await shop.release_hold(placed.hold.id), Released)

        await asyncio.gather(*(buyer(task) for task in range(TASKS)))
        return await shop.store.heads()


async def disturb(
    crews: Sequence[Relays], brokers: Sequence[Server], selling: "asyncio.Task[dict[str, int]]"
) -> int:
    """How often a broker was restarted."""
    chance = random.Random(7)
    restarts = 0
    for nth in range(DISTURBANCES):
        await asyncio.wait([selling], timeout=DISTURB_SECONDS)
        for crew in crews:
            crew.kill(chance)
        if nth < 2 * len(brokers):
            await asyncio.to_thread(restart, brokers[nth % len(brokers)])
            restarts += 1
    return restarts


def restart(server: Server) -> None:
    server.kill()
    server.start()


def check(name: str, bodies: Sequence[bytes], heads: dict[str, int]) -> int:
    """In order without a gap once repeats are dropped; how many there were."""
    seen: dict[str, int] = {}
    repeats = 0
    for fact in map(read_fact, bodies):
        assert fact.id == f"{fact.subject}.{fact.sequence}"
        last = seen.get(fact.subject, 0)
        if fact.sequence <= last:
            repeats += 1
            continue
        assert fact.sequence == last + 1, f"{name}: {fact.id} came after {last}"
        seen[fact.subject] = fact.sequence
    assert seen == heads
    return repeats


@pytest.mark.parametrize("facts", FACTS)
async def test_every_fact_arrives_in_order_whatever_is_killed(
    facts, tmp_path, record_property, capsys
):
    with ExitStack() as stack:
        postgres = needed(lambda: stack.enter_context(own_server(Postgres)))
        kafka = needed(lambda: stack.enter_context(own_server(Kafka)))
        nats = needed(lambda: stack.enter_context(own_server(Nats)))
        began = time.monotonic()
        await migrate(postgres.url)
        crews = [
            stack.enter_context(relays(postgres.url, broker.url, tmp_path))
            for broker in (kafka, nats)
        ]
        selling = asyncio.create_task(sell(postgres.url, facts))
        restarts = await disturb(crews, (kafka, nats), selling)
        heads = await selling
        total = sum(heads.values())
        assert total == facts

        def enough(bodies: list[bytes]) -> bool:
            return len(bodies) >= total and len({read_fact(each).id for each in bodies}) == total

        from_kafka = await asyncio.to_thread(read_kafka, kafka.url, "holdfast", enough)
        from_nats = await read_nats(nats.url, "holdfast.facts.*", enough)
        repeats = {
            "kafka": check("kafka", from_kafka, heads),
            "nats": check("nats", from_nats, heads),
        }
        kills = sum(crew.kills for crew in crews)
        seconds = time.monotonic() - began
    told = (
        f"{total:,} facts, {kills} relays killed, {restarts} restarts of brokers, {seconds:.0f} s"
    )
    with capsys.disabled():
        print(f"\nstorm: {told}; repeats: {repeats}")
    record_property("repeats", repeats)


async def migrate(url: str) -> None:
    async with Holdfast.open(url, upkeep=False):
        pass
