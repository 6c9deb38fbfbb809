"""Debezium with the documented configuration, on real PostgreSQL, Kafka and Kafka Connect."""

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast import Confirmed, Holdfast, Placed
from holdfast.domain.facts import Entry
from tests.conftest import needed, needed_server
from tests.facts.connect import DEPLOY, Connect, jars
from tests.facts.story import EVENT
from tests.servers import Kafka, Postgres, kafka_version, own_server, server_folder

pytestmark = [pytest.mark.service, pytest.mark.soak]

EVENTS = ("gala", "second_Night-2")
TOPIC = "holdfast.facts"
ARRIVE_SECONDS = 60.0


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    needed(kafka_version)
    with own_server(Kafka) as server:
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.cimpl import NewTopic

        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{server.port}"})
        topics = (TOPIC, "__debezium-heartbeat.holdfast")
        for made in admin.create_topics([NewTopic(topic, 3) for topic in topics]).values():
            made.result()
        yield server


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    with needed_server(Postgres, wal_level="logical", fsync="off") as server:
        yield server


def asked(postgres: Postgres, statement: str) -> Any:
    import asyncpg

    async def ask() -> Any:
        connection = await asyncpg.connect(postgres.url)
        try:
            return await connection.fetchval(statement)
        finally:
            await connection.close()

    return asyncio.run(ask())


def run_script(postgres: Postgres, script: str) -> None:
    import asyncpg

    async def run() -> None:
        connection = await asyncpg.connect(postgres.url)
        try:
            await connection.execute(script)
        finally:
            await connection.close()

    asyncio.run(run())


def sold(postgres: Postgres, seats: list[str], *, create: bool = False) -> dict[str, list[Entry]]:
    """Sells them at every event; their logs."""

    async def sell() -> dict[str, list[Entry]]:
        async with Holdfast.open(postgres.url) as shop:
            for event in EVENTS:
                if create:
                    await shop.create_event(EVENT | {"id": event})
                for seat in seats:
                    placed = await shop.place_hold(event, buyer="zoë", seats=[seat])
                    assert isinstance(placed, Placed)
                    assert isinstance(await shop.confirm_hold(placed.hold.id), Confirmed)
            return {event: await shop.log(event, limit=1000) for event in EVENTS}

    return asyncio.run(sell())


class Reader:
    """Reads facts as docs/debezium.md says, and counts what came twice."""

    def __init__(self, kafka: Kafka) -> None:
        from confluent_kafka import Consumer

        address = {"bootstrap.servers": f"127.0.0.1:{kafka.port}", "group.id": "reader"}
        self.consumer = Consumer(address | {"auto.offset.reset": "earliest"})
        self.consumer.subscribe([TOPIC])
        self.facts: dict[str, list[Entry]] = {event: [] for event in EVENTS}
        self.repeats = 0

    def until(self, logs: dict[str, list[Entry]]) -> None:
        """Returns when everything is here, in order and as it is on the log."""
        end = time.monotonic() + ARRIVE_SECONDS
        while any(len(self.facts[event]) < len(logs[event]) for event in EVENTS):
            assert time.monotonic() < end, {event: len(self.facts[event]) for event in EVENTS}
            message = self.consumer.poll(0.5)
            if message is not None and message.error() is None:
                self.take(message)
        assert self.facts == logs

    def take(self, message: Any) -> None:
        headers = {name: value.decode() for name, value in message.headers()}
        event, seq = headers["ce_subject"], int(headers["ce_sequence"])
        assert message.key() == event.encode()
        if seq <= len(self.facts[event]):
            self.repeats += 1
            return
        data, at_ms = json.loads(message.value()), int(headers["at_ms"])
        self.facts[event].append(Entry(event, seq, headers["ce_type"], at_ms, data))


@pytest.mark.timeout(300)
def test_debezium_loses_nothing_though_killed_and_though_rows_are_pruned(kafka, postgres):
    needed(lambda: (jars("worker"), jars("connector")))
    reader = Reader(kafka)
    sold(postgres, ["A-1-1", "A-1-2"], create=True)
    run_script(postgres, (DEPLOY / "prepare.sql").read_text(encoding="utf-8"))
    with server_folder() as folder:
        connect = Connect(folder, kafka, postgres)
        connect.start()
        try:
            reader.until(sold(postgres, ["A-1-3"]))
            confirmed_past(postgres, asked(postgres, "SELECT pg_current_wal_lsn()::text"))
            connect.kill()
            logs = sold(postgres, ["A-1-4", "A-1-5"])
            asked(postgres, "DELETE FROM holdfast.log")
            connect.start()
            reader.until(logs)
        finally:
            connect.stop()
            reader.consumer.close()


def confirmed_past(postgres: Postgres, position: str) -> None:
    """Returns when Debezium has written down that it is there: a heartbeat tells it to."""
    there = f"SELECT bool_and(confirmed_flush_lsn >= '{position}') FROM pg_replication_slots"
    end = time.monotonic() + ARRIVE_SECONDS
    while not asked(postgres, there):
        assert time.monotonic() < end, "the slot stands still"
