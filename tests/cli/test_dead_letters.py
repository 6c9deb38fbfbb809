"""holdfast dead-letters: what was not taken is shown, sent again and forgotten, each on its own."""

import asyncio
import json
import os
from collections.abc import Callable

import nats
import pytest
from nats.js.api import StreamConfig

from holdfast import Holdfast
from holdfast.cli import main
from holdfast.domain.cloudevents import Message, message
from holdfast.followers.dead_letters import BODY_BYTES_MAX, DeadLetters
from tests.brokers.reading import read_nats
from tests.conftest import needed
from tests.servers import Nats, running

STORE = ("--store", "sqlite:///shop.db")
AWAY = "nats://127.0.0.1:1"
EVENT = {"id": "gala", "prices": {"floor": 4500}, "pools": [{"id": "floor", "capacity": 100}]}
FACTS = 4
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path, monkeypatch, capfd) -> Run:
    """A command line run in this process."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("HOLDFAST_")]:
        monkeypatch.delenv(name)

    def call(*args: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main(["dead-letters", *args, *STORE])
        return code, *capfd.readouterr()

    return call


async def refused(*numbers: int, large: bool) -> None:
    async with Holdfast.open("sqlite:///shop.db", upkeep=False) as shop:
        if await shop.event("gala") is None:
            await shop.create_event(EVENT)
            for nth in range(1, FACTS):
                await shop.place_hold("gala", buyer=f"b{nth}", pools={"floor": 1})
        for entry in await shop.log("gala"):
            if entry.seq in numbers:
                sent = message(entry)
                body = b"x" * (BODY_BYTES_MAX + 1) if large else sent.body
                letter = Message(sent.event, sent.seq, sent.id, sent.type, body)
                await DeadLetters(shop.store).add("relay", letter, f"too strange, nr. {entry.seq}")


def refuse(*numbers: int, large: bool = False) -> None:
    """A shop with four facts, of which these were refused. Of those that were too large for a
    letter it has only the name."""
    asyncio.run(refused(*numbers, large=large))


def prune(through: int) -> None:
    async def pruned() -> int:
        async with Holdfast.open("sqlite:///shop.db", upkeep=False) as shop:
            return await shop.store.prune("gala", through, 1_000)

    assert asyncio.run(pruned()) == through


def left(run: Run) -> list[str]:
    code, out, err = run("list", "--json")
    assert (code, err) == (0, "")
    return [letter["id"] for letter in json.loads(out)]


def complaint(answer: tuple[int, str, str], code: int) -> str:
    got, out, err = answer
    assert (got, out) == (code, "")
    assert err.startswith("holdfast: ")
    assert err.count("\n") == 1
    return err


# List


def test_no_letters_are_said_to_be_none(run):
    refuse()
    assert run("list") == (0, "No dead letters.\n", "")
    assert run("list", "--json") == (0, "[]\n", "")


def test_letters_are_a_table_the_oldest_first_with_their_reasons(run):
    refuse(2)
    refuse(3)
    code, out, err = run("list")
    head, *rows = out.splitlines()
    assert (code, err) == (0, "")
    assert head.split() == ["id", "fact", "since", "reason"]
    assert [row.split()[:2] for row in rows] == [
        ["relay/gala.2", "hold.placed"],
        ["relay/gala.3", "hold.placed"],
    ]
    assert rows[0].endswith("too strange, nr. 2")


def test_as_json_a_letter_has_the_fact_itself_where_it_was_not_too_large(run):
    refuse(2)
    refuse(3, large=True)
    code, out, _ = run("list", "--json")
    first, second = json.loads(out)
    assert code == 0
    assert first["fact"]["id"] == "gala.2"
    assert first["fact"]["data"]["buyer"] == "b1"
    assert second["fact"] is None
    assert (second["follower"], second["event"], second["sequence"]) == ("relay", "gala", 3)
    assert (second["type"], second["reason"]) == ("hold.placed", "too strange, nr. 3")
    assert second["since"].endswith("Z")


# Drop


def test_letters_are_dropped_by_their_ids_and_the_log_keeps_the_facts(run):
    refuse(2, 3, 4)
    assert run("drop", "relay/gala.2", "relay/gala.4") == (0, "Dropped: 2\n", "")
    assert left(run) == ["relay/gala.3"]
    assert run("drop", "--all") == (0, "Dropped: 1\n", "")
    assert left(run) == []
    assert run("drop", "--all") == (0, "Dropped: 0\n", "")
    assert len(asyncio.run(facts())) == FACTS


async def facts() -> list[int]:
    async with Holdfast.open("sqlite:///shop.db", upkeep=False) as shop:
        return [entry.seq for entry in await shop.log("gala")]


@pytest.mark.parametrize("command", ["drop", "retry"])
def test_an_unknown_id_is_one_line_and_nothing_is_done(run, command):
    refuse(2)
    said = complaint(run(command, "relay/gala.2", "relay/gala.3"), 1)
    assert "'relay/gala.3'" in said
    assert left(run) == ["relay/gala.2"]


@pytest.mark.parametrize("command", ["drop", "retry"])
@pytest.mark.parametrize("named", [(), ("relay/gala.2", "--all")])
def test_neither_ids_nor_all_of_them_or_both_is_one_line(run, command, named):
    refuse(2)
    assert "or say --all" in complaint(run(command, *named), 2)
    assert left(run) == ["relay/gala.2"]


# Retry


def test_the_help_of_retry_says_whose_letters_are_meant(run):
    code, out, _ = run("retry", "--help")
    assert code == 0
    assert "what is before the / of their ids" in " ".join(out.split())
    assert "from the beginning" not in " ".join(out.split()), "so a relay says of its own"


def test_without_letters_there_is_nothing_to_retry(run):
    refuse()
    assert run("retry", "--all", "--broker", AWAY) == (0, "No dead letters.\n", "")


@pytest.mark.parametrize("broker", [(), ("--broker", "memory://")])
def test_without_a_broker_nothing_can_be_retried(run, broker):
    refuse(2)
    assert "a broker is needed" in complaint(run("retry", "--all", *broker), 2)
    assert left(run) == ["relay/gala.2"]


def test_a_broker_that_is_away_takes_nothing_and_the_letter_stays(run):
    refuse(2)
    code, out, err = run("retry", "--all", "--broker", AWAY)
    assert (code, err) == (1, "")
    assert out.startswith(f"relay/gala.2: {AWAY}: ")
    assert left(run) == ["relay/gala.2"]


@pytest.mark.service
@pytest.mark.xdist_group("brokers")
def test_what_is_taken_now_arrives_and_is_gone_from_here(run):
    server = needed(lambda: running(Nats))
    refuse(2)
    refuse(3, large=True)  # which is read from the log again
    refuse(4)
    to = ("--broker", server.url, "--topic", "letters")
    assert run("retry", "relay/gala.3", *to) == (0, "relay/gala.3: taken\n", "")
    assert left(run) == ["relay/gala.2", "relay/gala.4"]
    code, out, _ = run("retry", "--all", *to)
    assert (code, out) == (0, "relay/gala.2: taken\nrelay/gala.4: taken\n")
    assert left(run) == []
    arrived = [json.loads(body) for body in published(server, "letters", 3)]
    assert [fact["id"] for fact in arrived] == ["gala.3", "gala.2", "gala.4"]
    assert [fact["data"]["buyer"] for fact in arrived] == ["b2", "b1", "b3"]


def published(server: Nats, topic: str, count: int) -> list[bytes]:
    subject = f"{topic}.facts.gala"
    return asyncio.run(read_nats(server.url, subject, lambda bodies: len(bodies) >= count))


@pytest.mark.service
@pytest.mark.xdist_group("brokers")
def test_what_is_refused_again_stays_and_the_others_go(run):
    server = needed(lambda: running(Nats))
    refuse(1, 2)
    created, placed = asyncio.run(sizes())
    assert created < placed
    asyncio.run(make_narrow_stream(server, "narrow", created + 100))
    code, out, err = run("retry", "--all", "--broker", server.url, "--topic", "narrow")
    first, second = out.splitlines()
    assert (code, err) == (1, "")
    assert first == "relay/gala.1: taken"
    assert second.startswith("relay/gala.2: NATS refused it: ")
    assert left(run) == ["relay/gala.2"]


async def sizes() -> list[int]:
    async with Holdfast.open("sqlite:///shop.db", upkeep=False) as shop:
        return [len(message(entry).body) for entry in (await shop.log("gala"))[:2]]


async def make_narrow_stream(server: Nats, topic: str, bytes_max: int) -> None:
    line = await nats.connect(server.url)
    config = StreamConfig(topic, subjects=[f"{topic}.>"], max_msg_size=bytes_max)
    await line.jetstream().add_stream(config)
    await line.close()


def test_a_fact_that_was_pruned_can_only_be_dropped(run):
    refuse(2, large=True)
    prune(2)
    code, out, err = run("retry", "--all", "--broker", AWAY)
    assert (code, err) == (1, "")
    assert out == "relay/gala.2: the fact was pruned from the log: it can only be dropped\n"
    assert left(run) == ["relay/gala.2"]
    assert run("drop", "relay/gala.2")[0] == 0
    assert left(run) == []


@pytest.mark.service
@pytest.mark.xdist_group("brokers")
def test_a_letter_that_has_its_fact_needs_no_log(run):
    server = needed(lambda: running(Nats))
    refuse(2)
    prune(2)
    assert run("retry", "--all", "--broker", server.url, "--topic", "pruned")[0] == 0
    (body,) = published(server, "pruned", 1)
    assert json.loads(body)["id"] == "gala.2"
