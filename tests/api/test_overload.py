"""Too many at once, on a store that has become slow: the surplus is told so at once."""

import asyncio
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.api.conftest import make_event
from tests.api.serving import ADMIN, Served, serving
from tests.api.test_workers import workers_of
from tests.conftest import needed
from tests.servers import Postgres, own_server

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
        needed(lambda: own_server(Postgres)) as postgres,
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
