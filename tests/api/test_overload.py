"""Too many at once, on a store that has become slow: the surplus is told so at once."""

import asyncio
import json
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import requests

from holdfast.api.worker import UNREAD_SECONDS
from tests.api.conftest import make_event
from tests.api.serving import ADMIN, Served, serving
from tests.api.test_workers import until, workers_of
from tests.conftest import needed_server
from tests.servers import Postgres

CONNECTIONS = 5_000
AT_ONCE_SECONDS = 1.0
GROWTH_BYTES_MAX = 200 * 1024 * 1024


def resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no such process")


class Client:
    """One connection, one ask."""

    def __init__(self, served: Served, event: str, nth: int) -> None:
        host, _, port = served.url.removeprefix("http://").partition(":")
        self._address = (host, int(port))
        body = f'{{"buyer":"b{nth}","seats":["S-{nth // 100 + 1}-{nth % 100 + 1}"]}}'
        self._request = (
            f"POST /v1/events/{event}/holds HTTP/1.1\r\nHost: {host}\r\n"
            f"Authorization: Bearer {ADMIN}\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        ).encode()

    async def connect(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(*self._address)

    async def ask(self) -> tuple[int, float, bytes]:
        """The status, how long it took, and the headers."""
        began = time.monotonic()
        self._writer.write(self._request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        self.answered = time.monotonic()
        took = self.answered - began
        self._writer.close()
        return int(head.split(b" ", 2)[1]), took, head.lower()


@pytest.mark.service
@pytest.mark.slow
async def test_on_a_slow_store_the_surplus_is_refused_at_once_and_it_recovers(tmp_path):
    asyncpg = pytest.importorskip("asyncpg")
    with (
        needed_server(Postgres) as postgres,
        serving(postgres.url, cwd=tmp_path) as served,
    ):
        section = {"id": "S", "tier": "gold", "rows": 60, "seats_per_row": 100}
        event = make_event(served, sections=[section], pools=[])
        worker = workers_of(served)[0]
        await _fresh(served, event, 5_900)
        before = resident_bytes(worker)
        clients = [Client(served, event, nth) for nth in range(CONNECTIONS)]
        for first in range(0, CONNECTIONS, 500):
            await asyncio.gather(*(c.connect() for c in clients[first : first + 500]))
        db = await asyncpg.connect(postgres.url)
        # The row that every batch of the event needs: the store stands still.
        await db.execute("BEGIN")
        await db.execute("SELECT 1 FROM holdfast.counters WHERE event = $1 FOR UPDATE", event)
        asks = [asyncio.create_task(client.ask()) for client in clients]
        await asyncio.sleep(2)
        refused = [task.result() for task in asks if task.done()]
        grown = resident_bytes(worker) - before
        late = await _fresh(served, event, 5_901)
        await db.execute("ROLLBACK")
        released = time.monotonic()
        while (await _fresh(served, event, 5_902))[0] != 201:
            assert time.monotonic() - released < 5
        answers = await asyncio.wait_for(asyncio.gather(*asks), 60)
        sold = [
            c.answered for c, (status, *_) in zip(clients, answers, strict=True) if status == 201
        ]
        recovered = min(sold) - released
        await db.close()
        statuses = Counter(status for status, *_ in answers)
    assert refused, "nobody was told at once"
    assert {status for status, *_ in refused} == {503}
    assert all(b"retry-after" in head for *_, head in refused)
    # Who comes while it stands still is told at once as well.
    assert late[0] == 503
    assert late[1] < AT_ONCE_SECONDS
    assert recovered < 1.0
    assert grown < GROWTH_BYTES_MAX
    # Nobody was left without an answer, and the control: most of them were served in the end.
    assert set(statuses) <= {201, 503}
    assert statuses[201] > 1_000


async def _fresh(served: Served, event: str, nth: int) -> tuple[int, float, bytes]:
    client = Client(served, event, nth)
    await client.connect()
    return await client.ask()


# With room for three requests

FEW = 3
ORIGIN = "https://shop.example"


@pytest.fixture
def small(tmp_path) -> Iterator[Served]:
    limits = {"requests_max": FEW, "address_burst": 20, "address_rate": 0.01}
    with serving(f"sqlite:///{tmp_path / 'shop.db'}", cwd=tmp_path, **limits) as served:
        yield served


class Half:
    """A request of which the last byte is still to come."""

    def __init__(self, served: Served, event: str, seat: str) -> None:
        host, port = served.url.removeprefix("http://").split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=20)
        body = json.dumps({"buyer": "u", "seats": [seat]})
        head = (
            f"POST /v1/events/{event}/holds HTTP/1.1\r\nHost: {host}\r\n"
            f"Authorization: Bearer {ADMIN}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self.socket.sendall((head + body[:-1]).encode())

    def finish(self) -> bytes:
        self.socket.sendall(b"}")
        return self.socket.recv(12)


def in_hand(served: Served) -> int:
    text = served.call("GET", "/metrics", key=None).text
    found = next(line for line in text.splitlines() if line.startswith("holdfast_in_hand "))
    return int(float(found.split()[1])) - 1  # without the scrape


def test_bodies_that_do_not_come_keep_nobody_else_out(small):
    event = make_event(small)
    web = small.key("public", "--origin", ORIGIN)
    with ExitStack() as open_sockets:
        halves = [Half(small, event, f"A-1-{n}") for n in range(1, FEW + 1)]
        for half in halves:
            open_sockets.enter_context(half.socket)
        until(lambda: in_hand(small) == FEW)
        for path in ("/healthz", "/readyz", "/openapi.json"):
            assert small.call("GET", path, key=None).status_code == 200
        assert small.call("GET", f"/v1/events/{event}").status_code == 200
        # Bodies have a limit too, and a page from elsewhere can read that.
        ask = {"seats": ["A-2-1"]}
        headers = {"Origin": ORIGIN}
        late = small.call("POST", f"/v1/events/{event}/holds", ask, key=web, headers=headers)
        assert (late.status_code, late.json()["reason"]) == (503, "overloaded")
        assert late.headers["Retry-After"] == "1"
        assert late.headers["Access-Control-Allow-Origin"] == ORIGIN
        assert [half.finish() for half in halves] == [b"HTTP/1.1 201"] * FEW


def test_with_all_hands_full_it_still_says_that_it_is_well(small):
    event = make_event(small)
    web = small.key("public", "--origin", ORIGIN)
    path = f"/v1/events/{event}/holds"
    holds = [
        small.call("POST", path, {"buyer": "u", "seats": [f"A-1-{n}"]}).json()["id"]
        for n in range(1, FEW + 1)
    ]
    answers: list[int] = []

    def buy(hold: str) -> None:
        body: Any = {"hold": hold, "payment": {"method": "sandbox:slow:3"}}
        headers = {"Authorization": f"Bearer {ADMIN}", "Idempotency-Key": hold}
        url = f"{small.url}/v1/orders"
        status = 503
        while status == 503:  # the one that looks whether all are here may be one too many
            status = requests.post(url, json=body, headers=headers, timeout=30).status_code
        answers.append(status)

    buying = [threading.Thread(target=buy, args=(hold,)) for hold in holds]
    for each in buying:
        each.start()
    until(lambda: in_hand(small) == FEW)
    assert small.call("GET", "/healthz", key=None).status_code == 200
    assert small.call("GET", "/readyz", key=None).status_code == 200
    shed = small.call("GET", f"/v1/events/{event}", key=web, headers={"Origin": ORIGIN})
    assert (shed.status_code, shed.json()["reason"]) == (503, "overloaded")
    assert shed.headers["Access-Control-Allow-Origin"] == ORIGIN
    assert "Retry-After" in shed.headers["Access-Control-Expose-Headers"]
    for each in buying:
        each.join()
    assert answers == [201] * FEW


def test_a_body_that_is_still_to_come_is_waited_for_before_it_stops(small):
    event = make_event(small)
    half = Half(small, event, "A-1-1")
    with half.socket:
        until(lambda: in_hand(small) == 1)
        small.process.send_signal(signal.SIGTERM)
        # Longer than it waits for those who do not read.
        with pytest.raises(subprocess.TimeoutExpired):
            small.process.wait(UNREAD_SECONDS + 2)
        assert half.finish() == b"HTTP/1.1 201"
        assert small.process.wait(10) == 0


def test_trying_tokens_costs_the_address_that_tries(small):
    event = make_event(small)
    web = small.key("public", "--origin", ORIGIN)
    headers = {"Buyer-Token": "forged", "Origin": ORIGIN}
    answers = [
        small.call("GET", f"/v1/events/{event}", key=web, headers=headers) for _ in range(25)
    ]
    assert [answer.status_code for answer in answers] == [401] * 20 + [429] * 5
    assert all(answer.headers["Access-Control-Allow-Origin"] == ORIGIN for answer in answers)
