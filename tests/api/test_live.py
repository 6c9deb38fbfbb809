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

from holdfast import Holdfast
from holdfast.api import live as api
from holdfast.api.app import make_app
from holdfast.api.service import Service
from holdfast.api.worker import SharedSocketServer
from holdfast.followers import live
from holdfast.settings import Settings
from holdfast.stores.memory import MemoryStore
from tests.api.conftest import make_event
from tests.api.serving import ADMIN, Served, serving
from tests.api.test_workers import until, workers_of
from tests.contract.helpers import E1, on_sale

Json = dict[str, Any]
HEADERS = {"Authorization": f"Bearer {ADMIN}"}
BUYER = "somebody-whose-name-is-nobodys-business"
KINDS = ("stream", "live")
WAIT_SECONDS = 20


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
        await read(page, frames, lambda: page.seq == seq)
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
        await client.rush_a_little(event) if hasattr(client, "rush_a_little") else None
        hold = await client.hold(event, best=[{"quantity": 1}], pools={"floor": 1})
        async with client.frames(kind, event, since=page.seq) as frames:
            await client.buy(hold)
            seq = (await client.get(f"/v1/events/{event}"))["seq"]
            await read(page, frames, lambda seq=seq: page.seq == seq)
    assert page.snapshots == 1
    log = await client.get(f"/v1/events/{event}/log?after={began}&limit=1000")
    assert page.numbers == [fact["sequence"] for fact in log["facts"]]
    assert (page.seats, page.pools) == drawn(await client.get(f"/v1/events/{event}/seats"))
