"""A real Redis Cluster of three masters: an event is in one place, and its trouble its own."""

import contextlib
import time
from collections.abc import Iterator
from functools import partial

import pytest
from redis import Redis as Client
from redis.crc import key_slot

from holdfast.domain.gating import Claimed, Clash, Done, Find, Free, Op, Stock, Unready
from holdfast.errors import GateDown
from holdfast.gates.redis import RedisGate
from tests.gates.conftest import found
from tests.gates.helpers import ask, claim, opened, owners, until
from tests.servers import Redis, own_server, redis_program

pytestmark = [pytest.mark.service, pytest.mark.soak]

SLOTS = 16_384
TIMEOUT_MS = 500
EVENTS = [f"event-{n}" for n in range(12)]


@pytest.fixture
def masters() -> Iterator[list[Redis]]:
    """Those that still live go on when one is lost: their slots are theirs."""
    found(redis_program)
    settings = {
        "cluster-enabled": "yes",
        "cluster-node-timeout": "500",
        "cluster-require-full-coverage": "no",
    }
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(own_server(Redis, **settings)) for _ in range(3)]
        clients = [stack.enter_context(Client(port=server.port)) for server in servers]
        for index, client in enumerate(clients):
            first, end = SLOTS * index // 3, SLOTS * (index + 1) // 3
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", first, end - 1)
            meet = ("127.0.0.1", servers[0].port, servers[0].bus_port)
            client.execute_command("CLUSTER", "MEET", *meet)
        until_met(clients)
        yield servers


def until_met(clients: list["Client"]) -> None:
    limit = time.monotonic() + 30
    while not all(met(client) for client in clients):
        assert time.monotonic() < limit, "the cluster never came together"
        time.sleep(0.05)


def met(client: "Client") -> bool:
    info = client.execute_command("CLUSTER INFO")
    return (info["cluster_state"], info["cluster_slots_ok"]) == ("ok", str(SLOTS))


def master_of(event: str) -> int:
    """Slots are shared out evenly: the hash tag alone decides."""
    return key_slot(f"holdfast:{{{event}}}:seats".encode()) * 3 // SLOTS


def url_of(master: Redis) -> str:
    return f"redis://127.0.0.1:{master.port}?cluster=true"


async def test_events_are_spread_over_the_masters_and_each_is_right(masters):
    assert {master_of(event) for event in EVENTS} == {0, 1, 2}
    async with opened(url_of(masters[0])) as gate:
        for event in EVENTS:
            assert await ask(gate, claim("a", "A-1"), event=event) == Unready(0)
            ops: list[Op] = [
                Stock({"floor": 3}),
                claim("a", "A-1", pools={"floor": 2}),
                claim("b", "A-1"),
            ]
            verdicts = await gate.run(event, 1, ops)
            assert [type(each) for each in verdicts] == [Done, Claimed, Clash]
        assert await gate.events() == sorted(EVENTS)
        for event in EVENTS:
            snapshot = await gate.snapshot(event)
            assert (snapshot.claimed, snapshot.seats) == ({"floor": 2}, {"A-1": "a"})
            assert owners(snapshot).keys() == {"a"}
            assert await ask(gate, Free("a"), event=event) == Done(True)
        await gate.clear(EVENTS[0])
        assert await gate.events() == sorted(EVENTS[1:])
        assert await gate.lease("sweep", "one", 60_000)
        assert not await gate.lease("sweep", "two", 60_000)


@pytest.mark.parametrize("how", ["kill", "freeze"])
async def test_a_lost_master_takes_its_own_events_down_and_no_others(masters, how):
    lost = 1
    async with opened(url_of(masters[lost]), TIMEOUT_MS) as gate:
        for event in EVENTS:
            await ask(gate, Stock({}), event=event)
        getattr(masters[lost], how)()
        theirs = [event for event in EVENTS if master_of(event) == lost]
        others = [event for event in EVENTS if master_of(event) != lost]
        for event in theirs:
            await soon_down(gate, event)
            for other in others:
                await until(partial(answers, gate, other))
                assert isinstance(await ask(gate, claim(f"h-{event}", event), event=other), Claimed)
        if how == "kill":
            masters[lost].start()
        else:
            masters[lost].thaw()
        for event in theirs:
            await until(partial(answers, gate, event), 60)


async def soon_down(gate: RedisGate, event: str) -> None:
    began = time.monotonic()
    with pytest.raises(GateDown):
        await ask(gate, Find("a"), event=event)
    assert time.monotonic() - began < 2 * TIMEOUT_MS / 1000 + 1


async def answers(gate: RedisGate, event: str) -> bool:
    await ask(gate, Find("a"), event=event)
    return True
