"""The live map over HTTP: server-sent events and WebSockets, on a real server."""

import asyncio
import json
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
import requests

from holdfast import Holdfast
from holdfast.api import live as api
from holdfast.api.app import App
from holdfast.api.server import Server
from holdfast.api.service import Service
from holdfast.api.supervisor import listen
from holdfast.followers import live
from holdfast.lab.bench.sockets import CLOSE, TEXT, whole_messages
from holdfast.settings import Settings
from holdfast.stores.memory import MemoryStore
from tests.api.conftest import make_event
from tests.api.serving import ADMIN, Served, serving
from tests.api.test_workers import unread, until, workers_of
from tests.contract.helpers import E1, on_sale

Json = dict[str, Any]
HEADERS = {"Authorization": f"Bearer {ADMIN}"}
BUYER = "somebody-whose-name-is-nobodys-business"
KINDS = ("stream", "live")
WAIT_SECONDS = 20
BIG_HOUSE = [{"id": "A", "tier": "gold", "rows": 200, "seats_per_row": 300}]
"""Its map does not fit into the buffers between a server and a client."""


class Page:
    """A seat map kept up to date from frames, which must join; it remembers every number."""

    def __init__(self) -> None:
        self.seq: int | None = None
        self.seats: dict[str, str] = {}
        self.pools: dict[str, int] = {}
        self.snapshots = 0
        self.numbers: list[int] = []

    def see(self, text: str) -> None:
        assert BUYER not in text
        told = json.loads(text)
        if told["type"] == "snapshot":
            self.snapshots += 1
            self.seq = told["seq"]
            self.seats, self.pools = drawn(told)
            return
        assert told.keys() <= {"type", "from", "to", "changes", "pools"}
        assert self.seq is not None
        assert told["from"] == self.seq + 1
        self.seats.update(told["changes"])
        self.pools.update(told.get("pools", {}))
        self.numbers += range(told["from"], told["to"] + 1)
        self.seq = told["to"]


def drawn(told: Json) -> tuple[dict[str, str], dict[str, int]]:
    return (
        {seat["id"]: seat["state"] for seat in told["seats"]},
        {pool["id"]: pool["available"] for pool in told["pools"]},
    )


class Client:
    """What differs between the two ways to follow a map."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60))

    @asynccontextmanager
    async def frames(
        self, kind: str, event: str, since: int | None = None, **headers: str
    ) -> AsyncIterator[AsyncIterator[str]]:
        path = f"{self.url}/v1/events/{event}/{kind}"
        sent = {**HEADERS, **headers}
        if kind == "live":
            at = path if since is None else f"{path}?since={since}"
            async with self.http.ws_connect(at, headers=sent, max_msg_size=0) as ws:
                yield messages(ws)
        else:
            if since is not None:
                sent["Last-Event-ID"] = str(since)
            async with self.http.get(path, headers=sent) as answer:
                assert answer.status == 200
                yield server_sent(answer)

    async def hold(self, event: str, **ask: Any) -> Json:
        path = f"{self.url}/v1/events/{event}/holds"
        async with self.http.post(path, json={"buyer": BUYER, **ask}, headers=HEADERS) as answer:
            assert answer.status == 201, await answer.text()
            found: Json = await answer.json()
            return found

    async def release(self, hold: Json) -> None:
        path = f"{self.url}/v1/holds/{hold['id']}"
        async with self.http.delete(path, headers=HEADERS) as answer:
            assert answer.status == 204

    async def buy(self, hold: Json) -> None:
        body = {"hold": hold["id"], "payment": {"method": "sandbox:ok"}}
        headers = {**HEADERS, "Idempotency-Key": hold["id"]}
        async with self.http.post(f"{self.url}/v1/orders", json=body, headers=headers) as answer:
            assert answer.status == 201, await answer.text()

    async def get(self, path: str) -> Json:
        async with self.http.get(f"{self.url}{path}", headers=HEADERS) as answer:
            found: Json = await answer.json()
            return found

    async def rush(self, event: str, turns: int) -> None:
        """Every kind of change, and seats that change several times."""
        for turn in range(turns):
            seat = f"A-{turn % 2 + 1}-{turn % 5 + 1}"
            hold = await self.hold(event, seats=[seat], pools={"floor": 1})
            await self.release(hold)
        for number in range(6, 9):
            await self.buy(await self.hold(event, seats=[f"A-1-{number}"]))
            await self.hold(event, seats=[f"A-2-{number}"], pools={"floor": 2})


async def messages(ws: aiohttp.ClientWebSocketResponse) -> AsyncIterator[str]:
    async for message in ws:
        assert message.type is aiohttp.WSMsgType.TEXT
        yield message.data


async def server_sent(answer: aiohttp.ClientResponse) -> AsyncIterator[str]:
    """The data of each event; its id must be its last number."""
    buffer = b""
    async for part in answer.content.iter_any():
        buffer += part
        *events, buffer = buffer.split(b"\n\n")
        for event in events:
            fields = dict(line.split(": ", 1) for line in event.decode().splitlines())
            if "data" in fields:
                told = json.loads(fields["data"])
                assert fields["event"] == told["type"]
                assert int(fields["id"]) == told["seq" if told["type"] == "snapshot" else "to"]
                yield fields["data"]


async def read(page: Page, frames: AsyncIterator[str], done: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        async for frame in frames:
            page.see(frame)
            if done():
                return
    raise AssertionError("the frames ended early")


def reached(page: Page, seq: int) -> Callable[[], bool]:
    return lambda: page.seq == seq


@pytest.fixture
async def client(served) -> AsyncIterator[Client]:
    it = Client(served.url)
    async with it.http:
        yield it


@pytest.mark.parametrize("kind", KINDS)
async def test_a_snapshot_and_its_changes_are_the_map_in_the_end(client, event, kind):
    page = Page()
    async with client.frames(kind, event) as frames:
        await read(page, frames, lambda: page.snapshots == 1)
        await client.rush(event, 30)
        seq = (await client.get(f"/v1/events/{event}"))["seq"]
        await read(page, frames, reached(page, seq))
    assert page.snapshots == 1
    assert (page.seats, page.pools) == drawn(await client.get(f"/v1/events/{event}/seats"))


@pytest.mark.parametrize("kind", KINDS)
async def test_whoever_comes_back_misses_no_number(client, event, kind):
    page = Page()
    async with client.frames(kind, event) as frames:
        await read(page, frames, lambda: page.snapshots == 1)
        began = page.seq
        await client.hold(event, seats=["A-1-10"])
        await read(page, frames, lambda: bool(page.numbers))
    for _ in range(3):
        hold = await client.hold(event, best=[{"quantity": 1}], pools={"floor": 1})
        async with client.frames(kind, event, since=page.seq) as frames:
            await client.buy(hold)
            seq = (await client.get(f"/v1/events/{event}"))["seq"]
            await read(page, frames, reached(page, seq))
    assert page.snapshots == 1
    log = await client.get(f"/v1/events/{event}/log?after={began}&limit=1000")
    assert page.numbers == [fact["sequence"] for fact in log["facts"]]
    assert (page.seats, page.pools) == drawn(await client.get(f"/v1/events/{event}/seats"))


@pytest.mark.parametrize("kind", KINDS)
async def test_a_number_too_old_or_too_new_gets_a_snapshot(client, event, kind):
    for since in (0, 10**9):
        page = Page()
        async with client.frames(kind, event, since=since) as frames:
            page.see(await anext(frames))
            assert page.snapshots == 1


async def test_since_may_be_in_the_address_and_last_event_id_goes_before_it(client, event):
    await client.hold(event, seats=["A-1-1"])
    await client.hold(event, seats=["A-1-2"])
    path = f"{client.url}/v1/events/{event}/stream?since=1"
    for headers, first in ((HEADERS, 2), ({**HEADERS, "Last-Event-ID": "2"}, 3)):
        async with client.http.get(path, headers=headers) as answer:
            told = json.loads(await anext(server_sent(answer)))
            assert (told["from"], told["to"]) == (first, 3)


async def test_a_stream_is_not_kept_and_says_when_to_come_back(client, event):
    path = f"{client.url}/v1/events/{event}/stream"
    async with client.http.get(path, headers=HEADERS) as answer:
        assert answer.headers["Content-Type"] == "text/event-stream"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Request-Id"]
        assert (await answer.content.readuntil(b"\n\n")) == b"retry: 1000\n\n"


def test_what_is_wrong_is_said_before_the_stream_begins(served, event):
    assert served.call("GET", "/v1/events/nothing/stream").json()["reason"] == "unknown_event"
    assert served.call("GET", f"/v1/events/{event}/stream", key=None).status_code == 401
    assert served.call("GET", f"/v1/events/{event}/stream", key="wrong").status_code == 401
    assert served.call("GET", f"/v1/events/{event}/stream?since=x").status_code == 422
    assert served.call("GET", f"/v1/events/{event}/stream?key={ADMIN}", key=None).status_code == 401
    assert served.call("GET", f"/v1/events/{event}/live").status_code == 405


async def closed_with(client: Client, path: str, **headers: str) -> tuple[int, str]:
    async with client.http.ws_connect(f"{client.url}{path}", headers=headers) as ws:
        message = await ws.receive(WAIT_SECONDS)
        assert message.type is aiohttp.WSMsgType.CLOSE
        return message.data, str(message.extra).partition(":")[0]


async def test_a_socket_is_closed_with_the_reason(client, event):
    path = f"/v1/events/{event}/live"
    assert await closed_with(client, path) == (4401, "unauthorized")
    assert await closed_with(client, f"{path}?key=wrong") == (4401, "unauthorized")
    assert await closed_with(client, f"{path}?key={ADMIN}") == (4401, "unauthorized")
    assert await closed_with(client, f"{path}?since=-1", **HEADERS) == (4422, "invalid")
    nothing = "/v1/events/nothing/live"
    assert await closed_with(client, nothing, **HEADERS) == (4404, "unknown_event")
    assert await closed_with(client, "/v1/nothing", **HEADERS) == (4404, "not_found")
    assert await closed_with(client, "/healthz", **HEADERS) == (4405, "method_not_allowed")


async def test_a_public_key_may_be_in_the_address(client, event, public):
    path = f"{client.url}/v1/events/{event}"
    async with client.http.get(f"{path}/stream?key={public}") as answer:
        assert answer.status == 200
        assert "RateLimit" in answer.headers
        assert json.loads(await anext(server_sent(answer)))["type"] == "snapshot"
    async with client.http.ws_connect(f"{path}/live?key={public}") as ws:
        assert (await ws.receive_json(timeout=WAIT_SECONDS))["type"] == "snapshot"


async def test_a_page_of_an_origin_on_the_key_may_read_the_stream(client, served, event):
    origin = "https://shop.example"
    key = served.key("public", "--origin", origin)
    path = f"{client.url}/v1/events/{event}/stream?key={key}"
    async with client.http.get(path, headers={"Origin": origin}) as answer:
        assert answer.headers["Access-Control-Allow-Origin"] == origin
    async with client.http.get(path, headers={"Origin": "https://other.example"}) as answer:
        assert "Access-Control-Allow-Origin" not in answer.headers


async def test_a_changed_layout_comes_as_a_new_snapshot(client, event):
    page = Page()
    async with client.frames("live", event) as frames:
        await read(page, frames, lambda: page.snapshots == 1)
        path = f"{client.url}/v1/events/{event}"
        more = {"seats": [{"id": "BOX-1", "number": 1, "tier": "gold"}]}
        async with client.http.patch(path, json=more, headers=HEADERS) as answer:
            assert answer.status == 200
        await read(page, frames, lambda: page.snapshots == 2)
    assert page.seats["BOX-1"] == "available"


async def test_the_document_has_the_stream_and_not_the_socket(client):
    paths = (await client.get("/openapi.json"))["paths"]
    ok = paths["/v1/events/{event}/stream"]["get"]["responses"]["200"]
    assert list(ok["content"]) == ["text/event-stream"]
    assert "/v1/events/{event}/live" not in paths


# Processes that end, and several of them


async def test_stopping_ends_every_stream_within_a_moment(tmp_path):
    """Whoever does not read does not hold up the others."""
    with serving(f"sqlite:///{tmp_path / 'shop.db'}", cwd=tmp_path) as served:
        event = make_event(served, sections=BIG_HOUSE)
        client = Client(served.url)
        async with client.http:
            path = f"{client.url}/v1/events/{event}"
            sse = await client.http.get(f"{path}/stream", headers=HEADERS)
            ws = await client.http.ws_connect(f"{path}/live", headers=HEADERS, max_msg_size=0)
            await anext(server_sent(sse))
            assert (await ws.receive_json())["type"] == "snapshot"
            deaf = [await asyncio.to_thread(deaf_to, served.url, event, kind) for kind in KINDS]
            began = time.monotonic()
            served.process.send_signal(signal.SIGTERM)
            message = await ws.receive(WAIT_SECONDS)
            assert (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, 1012)
            assert await sse.content.read() == b""
            assert time.monotonic() - began < 1
            for each in deaf:
                each.close()
            await asyncio.to_thread(served.process.wait, WAIT_SECONDS)
            assert time.monotonic() - began < 4
            sse.close()
            await ws.close()


UPGRADE = (
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


def deaf_to(url: str, event: str, kind: str) -> socket.socket:
    return unread(url, f"/v1/events/{event}/{kind}", UPGRADE if kind == "live" else "")


@pytest.fixture
def pair(tmp_path) -> Any:
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    with serving(url, "--workers", "2", cwd=tmp_path, sqlite_synchronous="NORMAL") as it:
        yield it


async def test_every_worker_tells_what_any_worker_does(pair):
    event = make_event(pair)
    clients = [Client(pair.url) for _ in range(6)]  # as many connections, at two workers
    pages = [Page() for _ in clients]

    async def follow(client: Client, page: Page, kind: str) -> None:
        async with client.frames(kind, event) as frames:
            await read(page, frames, lambda: page.seats.get("A-2-10") == "sold")

    following = [
        asyncio.create_task(follow(client, page, KINDS[nth % 2]))
        for nth, (client, page) in enumerate(zip(clients, pages, strict=True))
    ]
    for nth in range(12):
        await clients[nth % 6].hold(
            event, seats=[f"A-1-{nth + 1}"] if nth < 10 else [], pools={"floor": 1}
        )
    await clients[0].buy(await clients[0].hold(event, seats=["A-2-10"]))
    await asyncio.gather(*following)
    final = drawn(await clients[0].get(f"/v1/events/{event}/seats"))
    for page, client in zip(pages, clients, strict=True):
        assert (page.seats, page.pools) == final
        assert page.snapshots == 1
        await client.http.close()


def answers(served: Served) -> bool:
    try:
        return requests.get(f"{served.url}/healthz", timeout=5).ok
    except requests.ConnectionError:
        return False


@pytest.mark.parametrize("kind", KINDS)
async def test_after_the_death_of_its_worker_a_page_goes_on_from_its_number(pair, kind):
    event = make_event(pair)
    page, client = Page(), Client(pair.url)
    async with client.http:
        async with client.frames(kind, event) as frames:
            await read(page, frames, lambda: page.snapshots == 1)
            began = page.seq
            await client.hold(event, seats=["A-1-1"])
            await read(page, frames, lambda: bool(page.numbers))
            for worker in workers_of(pair):
                os.kill(worker, signal.SIGKILL)
            with pytest.raises((aiohttp.ClientError, AssertionError)):
                await read(page, frames, lambda: False)
        await asyncio.to_thread(until, lambda: answers(pair))
    client = Client(pair.url)
    async with client.http:
        await client.hold(event, seats=["A-1-2"])
        async with client.frames(kind, event, since=page.seq) as frames:
            await client.hold(event, seats=["A-1-3"])
            await read(page, frames, lambda: page.seats["A-1-3"] == "held")
        log = await client.get(f"/v1/events/{event}/log?after={began}")
    assert page.snapshots == 1
    assert page.numbers == [fact["sequence"] for fact in log["facts"]]


# A server in this process, to look inside


class Inside:
    def __init__(self, service: Service, client: Client) -> None:
        self.service = service
        self.client = client

    async def subscribers(self, number: int) -> None:
        """Waits until there are so many."""
        async with asyncio.timeout(WAIT_SECONDS):
            while self.service.live.subscribers != number:  # noqa: ASYNC110 - nothing tells it
                await asyncio.sleep(0.01)


@pytest.fixture
async def inside(request) -> AsyncIterator[Inside]:
    """With a parameter: so many seconds may pass in which a client takes nothing."""
    settings = Settings(store="memory://", admin_key=ADMIN)
    shop = Holdfast(MemoryStore(), settings, upkeep=False)
    listener = listen("127.0.0.1", 0, getattr(request, "param", 30.0))
    listener.setblocking(False)
    async with Service(shop) as service:
        await on_sale(shop)
        server = Server(App(service), listener, settings.header_seconds)
        serves = asyncio.create_task(server.serve())
        client = Client(f"http://127.0.0.1:{listener.getsockname()[1]}")
        async with client.http:
            yield Inside(service, client)
        await service.drain()
        server.stop()
        await serves


@pytest.mark.parametrize("kind", KINDS)
async def test_a_client_that_went_away_is_noticed_at_once(inside, kind):
    for _ in range(3):
        async with inside.client.frames(kind, E1) as frames:
            await anext(frames)
            assert inside.service.live.subscribers == 1
        await inside.subscribers(0)


async def test_a_connection_that_broke_is_noticed_at_once(inside):
    path = f"{inside.client.url}/v1/events/{E1}"
    async with inside.client.http.get(f"{path}/stream", headers=HEADERS) as answer:
        await anext(server_sent(answer))
        assert answer.connection is not None
        assert answer.connection.transport is not None
        answer.connection.transport.abort()
        await inside.subscribers(0)
    async with inside.client.http.ws_connect(f"{path}/live", headers=HEADERS) as ws:
        await ws.receive()
        transport = ws.get_extra_info("socket")
        transport.shutdown(socket.SHUT_RDWR)
        await inside.subscribers(0)


async def test_a_quiet_stream_says_that_it_is_still_there(inside, monkeypatch):
    monkeypatch.setattr(api, "HEARTBEAT_SECONDS", 0.05)
    path = f"{inside.client.url}/v1/events/{E1}/stream"
    async with inside.client.http.get(path, headers=HEADERS) as answer:
        await anext(server_sent(answer))
        said = await asyncio.wait_for(answer.content.readuntil(b"\n\n"), WAIT_SECONDS)
    assert said.startswith(b":")


async def test_past_the_limit_of_subscribers_the_answer_is_to_try_again(inside, monkeypatch):
    monkeypatch.setattr(live, "SUBSCRIBERS_MAX", 0)
    path = f"{inside.client.url}/v1/events/{E1}/stream"
    async with inside.client.http.get(path, headers=HEADERS) as answer:
        assert answer.status == 503
        assert answer.headers["Retry-After"] == "1"
        assert (await answer.json())["reason"] == "overloaded"
    found = await closed_with(inside.client, f"/v1/events/{E1}/live", **HEADERS)
    assert found == (1013, "overloaded")


async def test_what_a_client_says_is_dropped_until_it_is_too_much(inside):
    path = f"{inside.client.url}/v1/events/{E1}/live"
    async with inside.client.http.ws_connect(path, headers=HEADERS) as ws:
        assert (await ws.receive_json())["type"] == "snapshot"
        for _ in range(5):
            await ws.send_str("hello")
            await ws.send_bytes(b"hello")
        await inside.client.hold(E1, seats=["A-1-1"])
        assert (await ws.receive_json())["type"] == "changes"
        for _ in range(api.MESSAGES_AT_ONCE_MAX):
            await ws.send_str("hello")
        assert (await ws.receive(WAIT_SECONDS)).data == 1008
    async with inside.client.http.ws_connect(path, headers=HEADERS) as ws:
        await ws.receive()
        await ws.send_str("x" * (api.MESSAGE_CHARS_MAX + 1))
        assert (await ws.receive(WAIT_SECONDS)).data == 1008
    await inside.subscribers(0)


async def test_a_client_that_does_not_read_is_cut_off(inside, monkeypatch):
    monkeypatch.setattr(api, "HEARTBEAT_SECONDS", 0.001)  # the server takes some for its own queue
    monkeypatch.setattr(live, "STALLED_SECONDS", 0.5)
    monkeypatch.setattr(live, "BYTES_PER_SECOND_MIN", 10**9)
    monkeypatch.setattr(live, "TIDY_SECONDS", 0.05)
    await inside.service.shop.add_capacity(E1, {"sections": [{**BIG_HOUSE[0], "id": "big"}]})
    for kind in KINDS:
        deaf = await asyncio.to_thread(deaf_to, inside.client.url, E1, kind)
        try:
            assert inside.service.live.subscribers == 1
            await inside.subscribers(0)
        finally:
            deaf.close()


async def test_a_client_that_was_too_slow_is_told_so_and_goes_on_from_its_number(
    inside, monkeypatch
):
    monkeypatch.setattr(live, "STALLED_SECONDS", 0.3)
    monkeypatch.setattr(live, "BYTES_PER_SECOND_MIN", 10**9)
    monkeypatch.setattr(live, "TIDY_SECONDS", 0.05)
    await inside.service.shop.add_capacity(E1, {"sections": [{**BIG_HOUSE[0], "id": "big"}]})
    slow = await asyncio.to_thread(deaf_to, inside.client.url, E1, "live")
    with slow:
        await inside.subscribers(0)
        assert inside.service.live.counts.dropped == 1
        # Now it reads: the frame that it had not taken is whole, and nothing came after it.
        sent = await asyncio.to_thread(lambda: b"".join(iter(lambda: slow.recv(65_536), b"")))
    found, rest = whole_messages(sent.partition(b"\r\n\r\n")[2])
    (_, snapshot), (_, close) = found
    assert [kind for kind, _ in found] == [TEXT, CLOSE]
    assert (int.from_bytes(close[:2], "big"), rest) == (1013, b"")
    assert close[2:].startswith(b"too_slow: ")
    page = Page()
    page.see(snapshot.decode())
    await inside.client.hold(E1, seats=["A-1-1"])
    async with inside.client.frames("live", E1, since=page.seq) as frames:
        await read(page, frames, lambda: page.seats["A-1-1"] == "held")
    assert page.snapshots == 1


async def test_a_crowd_too_large_for_its_snapshots_is_asked_to_get_the_map_first(
    inside, monkeypatch
):
    monkeypatch.setattr(live, "KEPT_BYTES_MAX", 300)
    found = await closed_with(inside.client, f"/v1/events/{E1}/live", **HEADERS)
    assert found == (1013, "overloaded")
    page = Page()
    page.see(json.dumps({"type": "snapshot", **await inside.client.get(f"/v1/events/{E1}/seats")}))
    await inside.client.hold(E1, seats=["A-1-1"])
    async with inside.client.frames("live", E1, since=page.seq) as frames:
        await read(page, frames, lambda: page.seats["A-1-1"] == "held")


@pytest.mark.parametrize("inside", [1.0], indirect=True)
@pytest.mark.parametrize("kind", [*KINDS, "seats"])
async def test_a_client_that_takes_nothing_is_disconnected(inside, kind):
    """Although the server itself is ready to keep for it whatever it does not take."""
    await inside.service.shop.add_capacity(E1, {"sections": [{**BIG_HOUSE[0], "id": "big"}]})
    deaf = await asyncio.to_thread(deaf_to, inside.client.url, E1, kind)
    with deaf:
        assert inside.service.live.subscribers == (kind in KINDS)
        assert is_connected(inside.client.url, deaf)
        await asyncio.to_thread(until, lambda: not is_connected(inside.client.url, deaf), 10)
        await inside.subscribers(0)
        with pytest.raises(ConnectionResetError):
            await asyncio.to_thread(lambda: [*iter(lambda: deaf.recv(65_536), b"")])


def is_connected(url: str, client: socket.socket) -> bool:
    """Whether the server's end of this connection is still there."""
    ends = f"0100007F:{int(url.rpartition(':')[2]):04X} 0100007F:{client.getsockname()[1]:04X} 01"
    with open("/proc/net/tcp") as table:
        return ends in table.read()
