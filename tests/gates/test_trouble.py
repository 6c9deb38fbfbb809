"""A Redis in trouble is a gate that is down: said at once, in a line, and over when it is over."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from holdfast.domain.gating import Claimed, Clash, Done, Find, Free, Stock, Unready
from holdfast.errors import GateDown
from holdfast.ports import Gate
from tests.gates.helpers import E1, ask, claim, opened, session, until
from tests.servers import Redis, free_port, own_server

pytestmark = pytest.mark.service

TIMEOUT_MS = 150
SLACK_SECONDS = 1.0
"""The machine may have something else to do than to wake us."""


@pytest.fixture
async def gate(killable):
    async with opened(killable.url, TIMEOUT_MS) as gate:
        await ask(gate, Stock({}))
        yield gate


async def down(gate: Gate, *ops: object) -> str:
    """What it says, having said it in time."""
    began = time.monotonic()
    with pytest.raises(GateDown) as caught:
        await gate.run(E1, 1, ops or [claim("a", "A-1")])  # type: ignore[arg-type]
    assert time.monotonic() - began < TIMEOUT_MS / 1000 + SLACK_SECONDS
    text = str(caught.value)
    assert "\n" not in text
    assert gate.url in text
    return text


async def answers(gate: Gate) -> bool:
    await ask(gate, Find("a"))
    return True


async def test_a_server_killed_and_started_again(killable, gate):
    killable.kill()
    assert "cannot be reached" in await down(gate)
    for method in (gate.snapshot(E1), gate.events(), gate.clear(E1), gate.lease("x", "y", 1)):
        with pytest.raises(GateDown):
            await method
    killable.start()
    await until(lambda: answers(gate))
    assert await ask(gate, claim("a", "A-1")) == Unready(0), "it knows nothing any more"


async def test_a_server_that_was_never_there():
    async with opened(f"redis://ann:geheim@127.0.0.1:{free_port()}", TIMEOUT_MS) as gate:
        assert "geheim" not in await down(gate)


async def test_a_frozen_server(killable, gate):
    killable.freeze()
    assert f"{TIMEOUT_MS} ms" in await down(gate)
    killable.thaw()
    await until(lambda: answers(gate))
    assert isinstance(await ask(gate, claim("b", "A-2")), Claimed)


async def test_a_crowd_before_a_frozen_server_waits_no_longer_than_one(killable, gate):
    killable.freeze()
    await asyncio.gather(*(down(gate) for _ in range(100)))
    killable.thaw()
    await until(lambda: answers(gate))


@pytest.mark.parametrize("everything", [True, False], ids=["all", "writes"])
async def test_a_server_that_pauses(killable, gate, everything):
    async with session(killable.url) as db:
        await db.client_pause(3 * TIMEOUT_MS, all=everything)
        await down(gate)
    await until(lambda: answers(gate))


async def test_a_flushed_script_is_nobodys_business(killable, gate):
    async with session(killable.url) as db:
        assert await gate.lease("x", "y", 60_000)
        await db.script_flush()
        assert isinstance(await ask(gate, claim("a", "A-1")), Claimed)
        await db.script_flush()
        assert await gate.lease("x", "y", 60_000)
        assert isinstance(await ask(gate, claim("b", "A-1")), Clash)


async def test_a_flushed_server_knows_nothing(killable, gate):
    async with session(killable.url) as db:
        await db.flushall()
    assert await ask(gate, claim("a", "A-1")) == Unready(0)
    assert await gate.events() == []


async def test_a_cut_connection_is_opened_again(killable, gate):
    async with session(killable.url) as db:
        for client in await db.client_list(_type="normal"):
            if client["cmd"] != "client|list":
                await db.client_kill_filter(_id=client["id"])
        # The driver looks whether an idle connection was closed before it uses it.
        await until(lambda: answers(gate))


async def test_a_full_server_takes_no_claims_but_gives_back(killable, gate):
    await ask(gate, claim("a", "A-1"))
    async with session(killable.url) as db:
        await db.config_set("maxmemory", "1")
        assert "out of memory" in await down(gate, claim("b", "A-2"))
        assert await db.hkeys(f"holdfast:{{{E1}}}:owners") == [b"a"], "nothing of it was written"
        assert isinstance(await ask(gate, claim("b", "A-1")), Clash)
        assert await ask(gate, Free("a")) == Done(True)
        await db.config_set("maxmemory", "0")
    assert isinstance(await ask(gate, claim("b", "A-2")), Claimed)


async def test_a_replica_is_not_asked_not_even_to_look(killable, gate):
    await ask(gate, claim("a", "A-1"))
    async with session(killable.url) as db:
        await db.replicaof("127.0.0.1", free_port())
        assert "replica" in await down(gate, claim("b", "A-2"))
        assert "replica" in await down(gate, claim("b", "A-1")), "an old no is no no"
        assert "replica" in await down(gate, Find("a"))
        with pytest.raises(GateDown):
            await gate.snapshot(E1)
        await db.replicaof("NO", "ONE")
    assert isinstance(await ask(gate, claim("b", "A-2")), Claimed)


async def test_a_replica_that_serves_nothing_without_its_master(killable, gate):
    async with session(killable.url) as db:
        await db.config_set("replica-serve-stale-data", "no")
        await db.replicaof("127.0.0.1", free_port())
        assert "replica" in await down(gate)
        await db.replicaof("NO", "ONE")
    await until(lambda: answers(gate))


@pytest.mark.parametrize("kind", ["seats", "owners", "deadlines", "units", "version"])
async def test_something_else_where_our_keys_should_be(killable, gate, kind):
    key = f"holdfast:{{{E1}}}:{kind}"
    async with session(killable.url) as db:
        await db.delete(key)
        await db.lpush(key, "not ours")
        assert "WRONGTYPE" in await down(gate)
        await gate.clear(E1)
    await ask(gate, Stock({}))
    assert isinstance(await ask(gate, claim("a", "A-1")), Claimed)


@pytest.mark.parametrize("record", [b"\xc1", b"\x93\x01\x02\x03", b"\x01"])
async def test_a_record_that_is_not_ours(killable, gate, record):
    await ask(gate, claim("a", "A-1"))
    async with session(killable.url) as db:
        await db.hset(f"holdfast:{{{E1}}}:owners", "a", record)
    await down(gate, Find("a"))
    with pytest.raises(GateDown):
        await gate.snapshot(E1)
    await gate.clear(E1)
    assert await ask(gate, Stock({})) == Done(True)


async def test_a_wrong_password_is_said_without_telling_it():
    with own_server(Redis, requirepass="right-word") as server:
        at = f"127.0.0.1:{server.port}/0"
        for login in ("", ":wrong-word@", "ann:wrong-word@"):
            async with opened(f"redis://{login}{at}", TIMEOUT_MS) as gate:
                assert "wrong-word" not in await down(gate)
        async with opened(f"redis://:right-word@{at}", TIMEOUT_MS) as gate:
            assert await ask(gate, Stock({})) == Done(True)


async def test_a_unix_socket_and_another_database(killable):
    path = killable.folder / "socket"
    with own_server(Redis, unixsocket=str(path)):
        async with opened(f"unix://{path}?db=3") as gate, opened(f"unix://{path}") as other:
            await ask(gate, Stock({}))
            assert await gate.events() == [E1]
            assert await other.events() == []


@asynccontextmanager
async def saying(answer: bytes) -> AsyncIterator[int]:
    """A socket that gives the same answer to everything: for what a real server cannot be brought
    to say in time. Its port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65_536):
            writer.write(answer)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


STRANGE = {
    b"-LOADING Redis is loading the dataset in memory\r\n": "loading",
    b"-MASTERDOWN Link with MASTER is down\r\n": "replica",
    b"-BUSY Redis is busy running a script\r\n": "BUSY",
    b"-NOPERM this user has no permissions\r\n": "does not let",
    b"-MISCONF cannot write to disk\r\n": "MISCONF",
    b"HTTP/1.1 400 Bad Request\r\n\r\n": "",
    b":1\r\n": "cannot be read",
    b"$-1\r\n": "cannot be read",
    b"$3\r\nabc\r\n": "cannot be read",
    b"$3\r\n\x92\x01\x01\r\n": "cannot be read",
    b"$5\r\n\x92\x01\x91\x91\x63\r\n": "cannot be read",
}


@pytest.mark.parametrize("answer", STRANGE, ids=lambda answer: answer[:8].decode("latin-1").strip())
async def test_strange_answers(answer):
    async with saying(answer) as port, opened(f"redis://127.0.0.1:{port}", TIMEOUT_MS) as gate:
        assert STRANGE[answer] in await down(gate)


async def test_too_few_verdicts_are_no_verdicts():
    """`{now, {}}` for one ask."""
    async with (
        saying(b"$3\r\n\x92\x01\x90\r\n") as port,
        opened(f"redis://127.0.0.1:{port}", TIMEOUT_MS) as gate,
    ):
        await down(gate, Find("a"))


async def test_text_that_cannot_be_written_is_trouble_too(gate):
    await down(gate, claim("\ud800", "A-1"))
