"""Projections fed from a real Kafka: repeats, strangers, crashes and gaps change nothing."""

import asyncio
import random
import sys
from collections.abc import Awaitable, Callable

import msgspec
import pytest
from confluent_kafka import KafkaError, Producer

from holdfast.brokers.kafka import KafkaBroker
from holdfast.domain.cloudevents import cloud_event, message
from holdfast.domain.facts import Entry
from holdfast.errors import SettingsError, StoreUnavailable
from holdfast.followers.consumer import KafkaFollower, entry_of
from holdfast.followers.projections import KIND, Projections
from holdfast.ids import Ids
from holdfast.settings import Settings
from holdfast.stores.memory import MemoryStore
from holdfast.tasks import end_task
from holdfast.wiring import make_store
from tests.conftest import START_MS, Clock, Setup, needed
from tests.contract.helpers import E1, on_sale, sold
from tests.projections.chaos import EVENT, Chaos
from tests.servers import Kafka, running

WAIT_SECONDS = 90
EVENTS = ("e1", "e2", "e3", "e4")

real = [pytest.mark.service, pytest.mark.slow, pytest.mark.xdist_group("brokers")]
on_kafka = pytest.mark.parametrize("setup", [pytest.param(Setup("memory"), marks=real)], ids=str)


@pytest.fixture
def url() -> str:
    return needed(lambda: running(Kafka)).url


@pytest.fixture
async def topic(url) -> str:
    """With three partitions."""
    name = f"facts-{Ids().new()}"
    broker = KafkaBroker(url, name, 3)
    await broker.open()
    await broker.close()
    return name


async def publish(url: str, topic: str, entries: list[Entry]) -> None:
    broker = KafkaBroker(url, topic, 3)
    assert await broker.publish([message(entry) for entry in entries]) == {}
    await broker.close()


async def until(true: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            if await true():
                return
            await asyncio.sleep(0.05)


async def seqs(store) -> dict[str, int]:
    documents, _ = await store.documents(KIND)
    return {each.id: msgspec.json.decode(each.body)["stats"]["seq"] for each in documents}


async def bodies(store) -> dict[str, str]:
    documents, _ = await store.documents(KIND)
    return {each.id: each.body for each in documents}


async def sales(shop, clock) -> dict[str, list[Entry]]:
    """Logs of a few events in which much has happened."""
    await shop.create_event(EVENT)
    await Chaos(shop, clock, 5).run(60)
    facts = await shop.store.log("e1", 0, 100_000)
    return {
        event: [msgspec.structs.replace(fact, event=event) for fact in facts[: 40 * nth]]
        for nth, event in enumerate(EVENTS, 1)
    }


def shuffled(logs: dict[str, list[Entry]], seed: int) -> list[Entry]:
    """As a relay may publish them: each event's in order, with repeats from any earlier one."""
    chance = random.Random(seed)
    at = dict.fromkeys(logs, 0)
    told = []
    while behind := [event for event in logs if at[event] < len(logs[event])]:
        event = chance.choice(behind)
        if chance.random() < 0.05:
            at[event] = max(0, at[event] - 10)
        told.append(logs[event][at[event]])
        at[event] += 1
    return told


def test_a_cloud_event_is_read_as_the_fact_that_it_was():
    for at_ms in (START_MS, START_MS + 1, START_MS + 999, 1):
        fact = Entry("e1", 7, "hold.placed", at_ms, {"seats": ["A-1-1"], "buyer": "ann"})
        assert entry_of(msgspec.json.encode(cloud_event(fact))) == fact


@on_kafka
async def test_from_kafka_comes_what_comes_from_the_log(shop, clock, url, topic):
    logs = await sales(shop, clock)
    told = shuffled(logs, 1)
    assert len(told) > sum(map(len, logs.values())), "there are repeats"
    expected = MemoryStore(clock)
    await Projections(expected).fold([fact for log in logs.values() for fact in log])
    # It knows nothing but what Kafka tells.
    elsewhere = MemoryStore(clock)
    heads = {event: len(log) for event, log in logs.items()}
    group = Ids().new()
    members = [KafkaFollower(Projections(elsewhere), url, topic, group=group) for _ in range(2)]
    first = asyncio.create_task(members[0].run())
    second: asyncio.Task[None] | None = None
    try:
        half = len(told) // 2
        await publish(url, topic, told[:half])

        async def begun() -> bool:
            return bool(await seqs(elsewhere))

        await until(begun)
        # Another comes, partitions move, and the first one goes while there is more.
        second = asyncio.create_task(members[1].run())
        await publish(url, topic, told[half:])
        await end_task(first)
        await members[0].close()

        async def arrived() -> bool:
            return await seqs(elsewhere) == heads

        await until(arrived)
    finally:
        await end_task(first)
        await end_task(second)
        await members[1].close()
    assert await bodies(elsewhere) == await bodies(expected)


class Failing(MemoryStore):
    """Cannot be reached for a while."""

    def __init__(self, clock: Clock, failures: int) -> None:
        super().__init__(clock)
        self.failures = failures

    async def put(self, document) -> bool:
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable("away")
        return await super().put(document)


@on_kafka
async def test_what_could_not_be_saved_is_read_again(shop, clock, url, topic, monkeypatch):
    """Offsets are noted after the document is written: dying before that loses nothing."""
    monkeypatch.setattr("holdfast.followers.consumer.RETRY_SECONDS", 0.01)
    await on_sale(shop)
    for number in range(1, 5):
        await sold(shop, seats=[f"A-1-{number}"])
    facts = await shop.store.log(E1, 0, 100)
    await publish(url, topic, facts)
    failing = Failing(clock, 2)
    follower = KafkaFollower(Projections(failing), url, topic, group=Ids().new())
    work = asyncio.create_task(follower.run())
    try:

        async def arrived() -> bool:
            return await seqs(failing) == {E1: 5}

        await until(arrived)
    finally:
        await end_task(work)
        await follower.close()
    assert failing.failures == 0


@on_kafka
async def test_strange_messages_are_passed_over_and_gaps_filled_from_the_log(
    shop, clock, url, topic
):
    await on_sale(shop)
    for number in range(1, 5):
        await sold(shop, seats=[f"A-1-{number}"])
    facts = await shop.store.log(E1, 0, 100)
    producer = Producer({"bootstrap.servers": url.removeprefix("kafka://")})
    for strange in (b"", b"not JSON", b"[]", b'{"specversion":"1.0"}', b"\xff\xfe", None):
        producer.produce(topic, strange, E1)
    assert producer.flush(WAIT_SECONDS) == 0
    # Kafka has forgotten all but the last.
    await publish(url, topic, facts[-1:])
    follower = KafkaFollower(Projections(shop.store), url, topic, group=Ids().new())
    work = asyncio.create_task(follower.run())
    try:

        async def arrived() -> bool:
            return await seqs(shop.store) == {E1: 5}

        await until(arrived)
    finally:
        await end_task(work)
        await follower.close()
    rebuilt = await Projections(shop.store).rebuild(E1)
    assert rebuilt.facts == {E1: 5}


async def test_what_is_set_wrongly_is_said_at_once(clock):
    options = {"no.such.option": "1"}
    follower = KafkaFollower(Projections(MemoryStore(clock)), "kafka://localhost:1", "t", options)
    with pytest.raises(SettingsError, match=r"no\.such\.option"):
        await follower.run()
    await follower.close()


async def test_a_broker_that_is_away_is_said_once(clock, caplog):
    """The client itself complains of every attempt, many times in a second."""
    heard: list[KafkaError] = []
    follower = KafkaFollower(Projections(MemoryStore(clock)), "kafka://127.0.0.1:1", "t")
    listen = follower._options["error_cb"]

    def listening(error: KafkaError) -> None:
        heard.append(error)
        listen(error)

    follower._options["error_cb"] = listening
    work = asyncio.create_task(follower.run())

    async def tried() -> bool:
        return len(heard) > 5 and bool(caplog.messages)

    try:
        await until(tried)
    finally:
        await end_task(work)
        await follower.close()
    (line,) = caplog.messages
    assert line.startswith("facts are not folded: kafka://127.0.0.1:1: ")
    assert "Connection refused" in line


async def test_trouble_is_said_when_it_begins_and_when_it_is_over(clock, caplog, monkeypatch):
    caplog.set_level("INFO", "holdfast.projections")
    follower = KafkaFollower(Projections(MemoryStore(clock)), "kafka://localhost:1", "t")
    monkeypatch.setattr(follower, "_poll", list)
    down = KafkaError(KafkaError._ALL_BROKERS_DOWN)
    for trouble in (KafkaError(KafkaError._TRANSPORT, "one of them is away"), down, down):
        follower._heard(trouble)
        await follower.round()
    monkeypatch.setattr("holdfast.followers.consumer.QUIET_SECONDS", 0.0)
    await follower.round()
    await follower.round()
    await follower.close()
    assert caplog.messages == [
        "facts are not folded: kafka://localhost:1: one of them is away",
        "facts of kafka://localhost:1 are folded again",
    ]


@on_kafka
async def test_the_command_follows_a_topic_that_is_made_later(shop, clock, url, tmp_path):
    await on_sale(shop)
    await sold(shop)
    facts = await shop.store.log(E1, 0, 100)
    topic, file = f"later-{Ids().new()}", f"sqlite:///{tmp_path / 'shop.db'}"
    await make_store(Settings(store=file)).migrate()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast.cli", "projections", "follow"),
        *("--from", url, "--topic", topic, "--store", file),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    try:
        assert b"Projecting" in await process.stdout.readline()
        broker = KafkaBroker(url, topic, 3)
        await broker.open()
        await broker.close()
        await publish(url, topic, facts)
        store = make_store(Settings(store=file))
        await store.open()

        async def arrived() -> bool:
            return await seqs(store) == {E1: 2}

        await until(arrived)
        await store.close()
        process.terminate()
        async with asyncio.timeout(WAIT_SECONDS):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
