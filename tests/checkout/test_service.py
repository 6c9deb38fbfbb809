"""Checkout over real HTTP, with a provider of payments in a process of its own: crowds, kills,
copies, messages, and what a person has to look at."""

import asyncio
import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import Any

import aiohttp
import pytest
import requests

from holdfast.checkout.payments.sandbox_webhook import HEADER, sign
from holdfast.settings import Settings
from holdfast.upkeep.check import check_store
from holdfast.wiring import make_store
from tests.api.conftest import make_event
from tests.api.serving import ADMIN, Served, serving
from tests.api.test_workers import replaced, until, workers_of
from tests.checkout.test_sandbox import sandbox
from tests.conftest import needed
from tests.servers import Postgres, free_port, running

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("checkout over http")]

SECRET = "whsec-of-the-tests"
WEBHOOK = "/v1/payments/sandbox/webhook"
_numbers = count(1)


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Iterator[Served]:
    """With the sandbox in process; it signs with SECRET."""
    folder = tmp_path_factory.mktemp("served")
    store = f"sqlite:///{folder / 'shop.db'}"
    quick = {"sqlite_synchronous": "NORMAL", "payment_seconds": 0.5, "checkout_lease_seconds": 1}
    with serving(store, cwd=folder, sandbox_secret=SECRET, **quick) as it:
        yield it


@pytest.fixture
def event(served) -> str:
    return make_event(served)


def place(served: Served, event: str, *seats: str) -> str:
    body = {"buyer": "u-1", "seats": list(seats)}
    return str(served.call("POST", f"/v1/events/{event}/holds", body).json()["id"])


def buy(served: Served, hold: str, method: str = "sandbox:ok", key: str = "") -> requests.Response:
    body = {"hold": hold, "payment": {"method": method}}
    headers = {"Idempotency-Key": key or f"checkout-{next(_numbers)}"}
    return served.call("POST", "/v1/orders", body, headers=headers)


def see(served: Served, order: str) -> dict[str, Any]:
    seen: dict[str, Any] = served.call("GET", f"/v1/orders/{order}").json()
    return seen


class Shopper:
    """Holds a seat and pays for it; what gets no answer is sent again, under the same key."""

    def __init__(self, session: aiohttp.ClientSession, url: str, event: str) -> None:
        self._session = session
        self._url = url
        self._event = event
        self.answers: Counter[int] = Counter()

    async def shop(self, number: int) -> None:
        hold = {"buyer": f"u-{number}", "id": f"h{number}", "seats": [f"A-{number + 1}-1"]}
        made = await self._insist(f"/v1/events/{self._event}/holds", hold, f"hold-{number}")
        assert made[0] == 201, made
        order = {"hold": made[1]["id"], "payment": {"method": "sandbox:ok"}}
        status, body = await self._insist("/v1/orders", order, f"order-{number}")
        assert status in (201, 402), (status, body)
        self.answers[status] += 1

    async def _insist(self, path: str, body: Any, key: str) -> tuple[int, Any]:
        headers = {"Idempotency-Key": key, "Authorization": f"Bearer {ADMIN}"}
        for _ in range(200):
            try:
                async with self._session.post(self._url + path, json=body, headers=headers) as got:
                    said = await got.json(content_type=None)
                    if got.status not in (409, 503) or said["reason"] == "taken":
                        return got.status, said
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.1)
        raise AssertionError(f"{path}: no end of {key}")


async def crowd(url: str, event: str, people: int, at_once: int) -> Counter[int]:
    """All of them, so many at a time."""
    connector = aiohttp.TCPConnector(limit=at_once)
    async with aiohttp.ClientSession(connector=connector) as session:
        shopper = Shopper(session, url, event)
        await asyncio.gather(*(shopper.shop(number) for number in range(people)))
        return shopper.answers


@pytest.mark.service
@pytest.mark.timeout(180)
async def test_two_thousand_check_out_and_the_books_balance_though_a_worker_is_killed(tmp_path):
    people = 2_000
    weather = ("--decline-percent", "5", "--lose-percent", "2", "--fail-percent", "1")
    postgres = needed(lambda: running(Postgres, fsync="off", full_page_writes="off"))
    with sandbox(*weather, "--seed", "7") as bank:
        settings = {"payments": f"sandbox+{bank}", "payment_seconds": 1}
        lease = {"checkout_lease_seconds": 2}
        args = ("--workers", "2")
        with serving(postgres.url, *args, cwd=tmp_path, **settings, **lease) as served:
            section = {"id": "A", "tier": "gold", "rows": people, "seats_per_row": 1}
            event = make_event(served, sections=[section])
            victim = workers_of(served)[0]
            shopping = asyncio.create_task(crowd(served.url, event, people, at_once=500))
            await asyncio.to_thread(until, lambda: sold(served, event) > people // 4, 60)
            os.kill(victim, signal.SIGKILL)
            await asyncio.to_thread(until, lambda: replaced(served, victim))
            answers = await shopping
            store = make_store(Settings(store=postgres.url))
            await store.open()
            try:
                await nothing_is_left(store, event)
                await balanced(store, event, bank, answers)
            finally:
                await store.close()


def sold(served: Served, event: str) -> int:
    return int(served.call("GET", f"/v1/events/{event}").json()["sold"])


async def nothing_is_left(store: Any, event: str) -> None:
    ends = time.monotonic() + 60
    while time.monotonic() < ends:
        census = await store.census(event)
        if all(order.due_ms is None for order in census.orders):
            return
        await asyncio.sleep(0.2)
    raise AssertionError("orders are stuck")


def counted(bank: str) -> dict[str, int]:
    counts: dict[str, int] = requests.get(f"{bank}/counts", timeout=10).json()
    return counts


async def balanced(store: Any, event: str, bank: str, answers: Counter[int]) -> None:
    census = await store.census(event)
    counts = await asyncio.to_thread(counted, bank)
    confirmed = [order for order in census.orders if order.sold]
    assert len(confirmed) == answers[201]
    assert len(census.orders) == sum(answers.values()) == 2_000
    assert [order.id for order in census.orders if order.trouble] == []
    assert counts["captured"] == sum(order.amount for order in confirmed) == census.revenue
    assert counts["authorizations"] == counts["captures"] == len(confirmed)
    assert census.sold == sum(order.units for order in confirmed)
    assert 40 < answers[402] < 200, "about 5 % were declined"
    async for checked in check_store(store, event):
        assert checked.drift == []


@pytest.mark.service
@pytest.mark.timeout(120)
async def test_five_hundred_copies_at_two_workers_make_one_order(tmp_path):
    postgres = needed(lambda: running(Postgres, fsync="off", full_page_writes="off"))
    with (
        sandbox("--latency-ms", "300") as bank,
        serving(postgres.url, "--workers", "2", cwd=tmp_path, payments=f"sandbox+{bank}") as served,
    ):
        event = make_event(served)
        hold = place(served, event, "A-1-1")
        body = {"hold": hold, "payment": {"method": "sandbox:ok"}}
        headers = {"Idempotency-Key": "copies", "Authorization": f"Bearer {ADMIN}"}

        async def copy(session: aiohttp.ClientSession) -> tuple[int, bytes]:
            async with session.post(f"{served.url}/v1/orders", json=body, headers=headers) as got:
                return got.status, await got.read()

        connector = aiohttp.TCPConnector(limit=500)
        async with aiohttp.ClientSession(connector=connector) as session:
            answers = Counter(await asyncio.gather(*(copy(session) for _ in range(500))))
            assert {status for status, _ in answers} <= {201, 409}
            made = {body for status, body in answers if status == 201}
            assert len(made) == 1, "whoever got an order got the same"
            running_still = [body for status, body in answers if status == 409]
            assert all(b'"in_progress"' in body for body in running_still)
            assert await copy(session) == (201, made.pop())
        counts = await asyncio.to_thread(counted, bank)
        assert (counts["authorizations"], counts["captures"]) == (1, 1)
        assert sold(served, event) == 1


def test_an_order_is_gone_on_with_after_a_restart(tmp_path):
    """Killed in the middle of a payment; the next process finishes it, and says what was said."""
    store = f"sqlite:///{tmp_path / 'shop.db'}"
    with sandbox("--latency-ms", "700") as bank:
        settings = {"payments": f"sandbox+{bank}", "checkout_lease_seconds": 1}
        with serving(store, cwd=tmp_path, **settings) as served:
            hold = place(served, make_event(served), "A-1-1")
            threading.Timer(0.35, kill, [served]).start()
            with pytest.raises(requests.RequestException):
                buy(served, hold, key="restart")
        with serving(store, cwd=tmp_path, **settings) as served:
            path = f"/v1/holds/{hold}"
            until(lambda: served.call("GET", path).json()["state"] == "confirmed")
            until(lambda: buy(served, hold, key="restart").status_code == 201)
            again = buy(served, hold, key="restart")
            assert again.status_code == 201
            assert again.headers["Idempotency-Replayed"] == "true"
            counts = counted(bank)
            assert (counts["authorizations"], counts["captures"]) == (1, 1)


def kill(served: Served) -> None:
    for process in (*workers_of(served), served.process.pid):
        os.kill(process, signal.SIGKILL)


def test_what_the_buyer_must_still_do_is_told_and_ends_with_a_message(tmp_path):
    """Messages come three times each, late and shuffled: each purchase ends once, as it should."""
    port = free_port()
    told = ("--webhook-url", f"http://127.0.0.1:{port}{WEBHOOK}", "--webhook-secret", SECRET)
    how = ("--webhook-copies", "3", "--shuffle", "--webhook-delay-ms", "100")
    with (
        sandbox(*told, *how) as bank,
        serving(
            f"sqlite:///{tmp_path / 'shop.db'}",
            *("--port", str(port)),
            cwd=tmp_path,
            payments=f"sandbox+{bank}",
            sandbox_secret=SECRET,
        ) as served,
    ):
        event = make_event(served)
        orders = []
        for number in range(1, 7):
            pending = buy(served, place(served, event, f"A-1-{number}"), "sandbox:3ds")
            assert pending.status_code == 202
            order = pending.json()
            assert (order["state"], order["payment"]["state"]) == ("pending", "pending")
            assert order["next_action"]["type"] == "redirect"
            orders.append(order["id"])
        for number, order in enumerate(orders):
            acted = f"{bank}/payments/{order}/act"
            requests.post(acted, json={"approve": number % 2 == 0}, timeout=10)
        ends = ["confirmed", "declined"] * 3
        # Sooner than it would be looked at without a message.
        until(lambda: [see(served, order)["state"] for order in orders] == ends, 4)
        counts = counted(bank)
        until(lambda: see(served, orders[0])["payment"]["state"] == "captured")
        assert counts["authorizations"] == 3
        assert sold(served, event) == 3


def message(order: str, **changes: Any) -> tuple[bytes, dict[str, str]]:
    body = json.dumps({"id": "msg_1", "reference": order, **changes}).encode()
    return body, {HEADER: sign(SECRET, body, int(time.time()))}


def tell(served: Served, body: bytes, headers: dict[str, str]) -> int:
    return served.call("POST", WEBHOOK, data=body, headers=headers, key=None).status_code


def test_a_forged_message_is_refused_and_one_that_lies_changes_nothing(served, event):
    order = buy(served, place(served, event, "A-1-1"), "sandbox:3ds").json()["id"]
    body, headers = message(order, state="authorized")
    old = sign(SECRET, body, int(time.time()) - 3600)
    for forged in (
        {},
        {HEADER: ""},
        {HEADER: "t=1,v1=00"},
        {HEADER: sign("another secret", body, int(time.time()))},
        {HEADER: old},
    ):
        assert tell(served, body, forged) == 400
    assert tell(served, body + b" ", headers) == 400
    # Signed, and not true: the payment itself is looked at.
    for _ in range(3):
        assert tell(served, body, headers) == 204
    time.sleep(0.3)
    assert see(served, order)["state"] == "pending"
    stranger, signed = message("nowhere.nothing")
    assert tell(served, stranger, signed) == 204
    other = served.call("POST", "/v1/payments/stripe/webhook", data=body, headers=headers, key=None)
    assert other.status_code == 404


def test_what_needs_a_person_is_listed_and_can_be_tried_again(served, event):
    order = buy(served, place(served, event, "A-1-1", "A-1-2"), "sandbox:refund-refused").json()
    cancelled = served.call("POST", f"/v1/orders/{order['id']}/cancel").json()
    assert cancelled["state"] == "cancelled"
    assert cancelled["payment"]["state"] == "captured"
    assert "refund" in cancelled["trouble"]
    listed = {each["id"]: each for each in served.call("GET", "/v1/orders").json()["orders"]}
    assert listed[order["id"]]["trouble"] == cancelled["trouble"]
    retried = served.call("POST", f"/v1/orders/{order['id']}/retry")
    assert retried.status_code == 200
    assert "refund" in retried.json()["trouble"], "refused again"
    unknown = served.call("POST", f"/v1/orders/{event}.nothing/retry")
    assert unknown.status_code == 404


def test_a_capture_that_fails_for_good_gives_the_seats_back(served, event):
    hold = place(served, event, "A-1-1")
    declined = buy(served, hold, "sandbox:capture-declined", key="uncaptured")
    assert (declined.status_code, declined.json()["reason"]) == (402, "declined")
    assert sold(served, event) == 0
    listed = served.call("GET", "/v1/orders").json()["orders"]
    (order,) = [each for each in listed if each["hold"] == hold]
    assert (order["state"], order["payment"]["state"]) == ("cancelled", "voided")
    assert place(served, event, "A-1-1")
    again = buy(served, hold, "sandbox:capture-declined", key="uncaptured")
    assert (again.status_code, again.content) == (402, declined.content)


def test_part_of_an_order_is_given_back_at_the_price_it_was_sold_at(served, event):
    seats = ["A-1-1", "A-1-2", "A-1-3"]
    body = {"buyer": "u-1", "seats": seats, "pools": {"floor": 2}}
    hold = served.call("POST", f"/v1/events/{event}/holds", body).json()
    # A price that changes while somebody holds is not his.
    served.call("PATCH", f"/v1/events/{event}", {"prices": {"gold": 20_000}})
    first = buy(served, hold["id"], key=f"part-{event}")
    order = first.json()
    assert order["amount"] == hold["amount"] == 36_000
    path = f"/v1/orders/{order['id']}/cancel"
    left = served.call("POST", path, {"seats": ["A-1-2"]}).json()
    assert (left["state"], left["seats"]) == ("confirmed", ["A-1-1", "A-1-3"])
    assert (left["amount"], left["refunded"]) == (27_000, 9_000)
    # The same seat again changes nothing.
    assert served.call("POST", path, {"seats": ["A-1-2"]}).json() == left
    left = served.call("POST", path, {"pools": {"floor": 1}}).json()
    assert (left["pools"], left["amount"], left["refunded"]) == ({"floor": 1}, 22_500, 13_500)
    states = {
        seat["id"]: seat["state"]
        for seat in served.call("GET", f"/v1/events/{event}/seats").json()["seats"]
    }
    assert [states[seat] for seat in seats] == ["sold", "available", "sold"]
    facts = served.call("GET", f"/v1/events/{event}/log?limit=100").json()["facts"]
    back = [
        (f["data"]["seats"], f["data"]["amount"]) for f in facts if f["type"] == "order.cancelled"
    ]
    assert back == [(["A-1-2"], 9_000), ([], 4_500)]
    assert [f["data"]["amount"] for f in facts if f["type"] == "order.refunded"] == [9_000, 4_500]
    # Whoever asks for the order under its key hears what he heard first.
    assert buy(served, hold["id"], key=f"part-{event}").content == first.content
    for wrong in ({"seats": ["A-2-1"]}, {"pools": {"floor": 9}}, {"pools": {"stalls": 1}}):
        assert served.call("POST", path, wrong).status_code in (409, 422)
    cancelled = served.call("POST", path).json()
    assert (cancelled["state"], cancelled["payment"]["state"]) == ("cancelled", "refunded")
    assert cancelled["refunded"] == 36_000
    summary = served.call("GET", f"/v1/events/{event}").json()
    assert (summary["sold"], summary["revenue"]) == (0, 0)


def test_a_late_payment_is_settled_and_says_so(served):
    event = make_event(served, hold_seconds=1, grace_seconds=0)
    same = buy(served, place(served, event, "A-1-1"), "sandbox:slow:1.5")
    assert (same.status_code, same.json()["settlement"]) == (201, "same_units")

    gone, taken = (
        place(served, event, "A-1-2"),
        threading.Thread(target=rival, args=(served, event)),
    )
    taken.start()
    late = buy(served, gone, "sandbox:slow:2.5", key=f"late-{event}")
    taken.join()
    assert (late.status_code, late.json()["reason"]) == (409, "hold_expired")
    facts = served.call("GET", f"/v1/events/{event}/log?limit=100").json()["facts"]
    settled = [f["data"]["settlement"] for f in facts if f["type"] == "order.settled"]
    assert settled == ["same_units", "voided"]
    assert [f["type"] for f in facts][-1] == "order.voided"


def rival(served: Served, event: str) -> None:
    """Buys the seat as soon as it is free."""
    headers = {"Authorization": f"Bearer {ADMIN}", "Idempotency-Key": f"rival-{event}"}

    def post(path: str, body: Any) -> Any:
        return requests.post(served.url + path, json=body, headers=headers, timeout=10)

    ask = {"buyer": "u-2", "seats": ["A-1-2"]}
    held = until(lambda: post(f"/v1/events/{event}/holds", ask).json().get("id"))
    headers["Idempotency-Key"] += "-pays"
    paid = post("/v1/orders", {"hold": held, "payment": {"method": "sandbox:ok"}})
    assert paid.status_code == 201, paid.text
