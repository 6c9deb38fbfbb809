"""Clients who take their answers slowly, or not at all: they are waited for within limits, cost
nobody else anything, and get all that they are owed."""

import asyncio
from typing import Any, cast

import pytest

from holdfast.api import connection as connections
from holdfast.api.connection import Connection
from tests.api.small import ANSWERED, LARGE, SOCKET, get, post, said, served, the_only, until


@pytest.fixture
def large(monkeypatch):
    """Sets what is answered at /large; all of it is the same, and never copied here."""

    def answering(size: int) -> bytes:
        body = b"x" * size

        async def same(scope: dict[str, Any], receive: Any) -> bytes:
            return body

        monkeypatch.setitem(ANSWERED, "/large", same)
        return body

    return answering


async def test_who_does_not_read_is_not_answered_ahead(monkeypatch):
    begun = 0

    async def counted(scope: dict[str, Any], receive: Any) -> bytes:
        nonlocal begun
        begun += 1
        return b"x" * LARGE

    monkeypatch.setitem(ANSWERED, "/large", counted)
    async with served() as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(get("/large") * 20)
        for _ in range(100):
            await asyncio.sleep(0)
        assert begun < 5
        got = 0
        while got < 20 * LARGE:  # and is, when he does
            got += len(await asyncio.wait_for(reader.read(1 << 20), 10))
        writer.close()
    assert begun == 20


async def test_who_says_no_more_hears_all_his_answers_though_he_is_slow(large):
    large(4 * LARGE)
    async with served() as (server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(get("/large") * 3)
        connection = await the_only(server)
        await until(lambda: connection.full and connection._current is None)
        writer.write_eof()
        told = await asyncio.wait_for(reader.read(), 10)
        writer.close()
    assert told.count(b"HTTP/1.1 200 OK") == 3
    assert len(told) > 12 * LARGE


async def test_who_takes_nothing_for_long_is_cut_off_and_who_is_slow_is_not(large):
    large(16 * LARGE)  # more than the system takes for him
    async with served() as (server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(get("/large"))
        connection = await the_only(server)
        await until(lambda: connection.full)
        for _ in range(3):
            left = connection._transport.get_write_buffer_size()
            connection.expire()
            while connection._transport.get_write_buffer_size() >= left:
                await reader.read(1 << 16)  # slow, but at it
        assert connection in server.connections
        for _ in range(3):
            connection.expire()
        await until(lambda: not server.connections)
        writer.close()


async def test_a_socket_of_one_who_has_not_taken_his_last_answer_makes_its_sender_wait(large):
    """The transport says only once that it is full, and has said so to the connection."""
    large(4 * LARGE)
    async with served() as (server, port):
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        connection = await the_only(server)
        writer.write(get("/large"))
        await until(lambda: connection.full and connection._owes_nothing)
        # As if it had been read before it was known that he is full.
        connection.data_received(get("/socket", *SOCKET))
        (opened,) = server.connections
        assert opened is not connection
        assert not cast("Any", opened).written().done()
        writer.transport.abort()
        await until(lambda: not server.connections)


async def test_who_is_refused_in_the_end_is_sent_all_that_he_is_owed(monkeypatch, large):
    """However long that takes him. Only what he says is not listened to for long."""
    looked = 0
    linger_no_longer = Connection._linger_no_longer

    def noted(connection: Connection) -> None:
        nonlocal looked
        looked += 1
        linger_no_longer(connection)

    monkeypatch.setattr(connections, "LINGER_SECONDS", 0.01)
    monkeypatch.setattr(Connection, "_linger_no_longer", noted)
    large(16 * LARGE)  # more than the system takes for him
    async with served() as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(post("/large", b"body")[:-4])  # he is answered, and has not said all
        await until(lambda: looked > 2)
        got = 0
        while part := await asyncio.wait_for(reader.read(1 << 20), 10):
            got += len(part)
        writer.close()
    assert got > 16 * LARGE


async def test_what_was_asked_is_answered_though_he_says_no_more_and_makes_no_sense(large):
    large(4 * LARGE)
    async with served() as (server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(get("/large") * 3 + b"nonsense\r\n\r\n")
        connection = await the_only(server)
        await until(lambda: connection.full and connection._current is None)
        writer.write_eof()
        told = await asyncio.wait_for(reader.read(), 10)
        writer.close()
    assert told.count(b"HTTP/1.1 200 OK") == 3
    assert told.count(b"HTTP/1.1 400") == 1


async def test_one_large_answer_is_not_copied_for_each_who_waits_to_take_it(monkeypatch, large):
    body = large(4 * LARGE)
    written: list[bytes] = []
    write = Connection.write

    def noted(connection: Connection, data: bytes) -> None:
        written.append(data)
        write(connection, data)

    monkeypatch.setattr(Connection, "write", noted)
    async with served() as (_, port):
        told = await asyncio.gather(*(said(port, get("/large")) for _ in range(3)))
    assert all(each.endswith(body) for each in told)
    assert sum(each is body for each in written) == 3
