"""Every gate keeps one contract; the Redis that it is tried on is private and real."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import TypeVar

import pytest
from redis import Redis as Client

from holdfast.gates.memory import MemoryGate
from holdfast.gates.redis import RedisGate
from holdfast.ports import Gate
from tests import services
from tests.gates.helpers import TIMEOUT_MS
from tests.servers import MissingServer, Redis, own_server, redis_program, running

T = TypeVar("T")

EVERY_GATE = [pytest.param("memory"), pytest.param("redis", marks=pytest.mark.service)]


def found(get: Callable[[], T]) -> T:
    """A server that the machine may lack: then its tests are skipped, but not in CI."""
    try:
        return get()
    except MissingServer as missing:
        if services.strict():
            raise
        pytest.skip(str(missing))


@pytest.fixture
def redis_server() -> Redis:
    """The server that tests share, empty."""
    server = found(lambda: running(Redis))
    with Client(port=server.port) as client:
        client.flushall()
    return server


@pytest.fixture
def killable() -> Iterator[Redis]:
    """A server of the test's own, to be killed, frozen and filled."""
    found(redis_program)
    with own_server(Redis) as server:
        yield server


@pytest.fixture(params=EVERY_GATE)
async def gate(request, clock) -> AsyncIterator[Gate]:
    """On a clock that the test moves."""
    gate: Gate = MemoryGate(clock)
    if request.param == "redis":
        server = request.getfixturevalue("redis_server")
        gate = RedisGate(server.url, TIMEOUT_MS, clock)
    await gate.open()
    yield gate
    await gate.close()


@pytest.fixture
async def redis_gate(redis_server) -> AsyncIterator[RedisGate]:
    """On Redis's own clock, as in earnest."""
    gate = RedisGate(redis_server.url, TIMEOUT_MS)
    await gate.open()
    yield gate
    await gate.close()
