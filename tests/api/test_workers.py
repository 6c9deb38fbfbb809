"""Several processes on one port: killed, renewed, stopped. Nothing that was answered is lost."""

import contextlib
import os
import resource
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from holdfast.domain.model import HoldState
from holdfast.settings import Settings
from holdfast.upkeep.check import check_store
from holdfast.wiring import make_store
from tests.api.conftest import make_event
from tests.api.serving import ADMIN, HOLDFAST, Served, serving
from tests.conftest import needed_server
from tests.servers import Postgres

SEATS = 4_000


def workers_of(served: Served) -> list[int]:
    children = f"/proc/{served.process.pid}/task/{served.process.pid}/children"
    with open(children) as listed:
        return [int(pid) for pid in listed.read().split()]


def replaced(served: Served, worker: int) -> bool:
    now = workers_of(served)
    return len(now) == 2 and worker not in now


def until(true: Callable[[], Any], seconds: float = 20) -> Any:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if found := true():
            return found
        time.sleep(0.02)
    raise AssertionError("it did not happen in time")


class Crowd:
    """Clients that hold seat after seat, and send what got no answer again, under the same key."""

    def __init__(self, served: Served, event: str, clients: int) -> None:
        self._served = served
        self._event = event
        self._next = iter(range(SEATS))
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self.held: dict[str, str] = {}
        """Hold ids that a client was told, by their keys."""
        self.other: Counter[int] = Counter()
        self.lost = 0
        """Asks whose first try got no answer."""
        self.differing: list[str] = []
        self._threads = [threading.Thread(target=self._run, args=(n,)) for n in range(clients)]

    def has(self, holds: int) -> bool:
        return len(self.held) > holds

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def _run(self, client: int) -> None:
        with requests.Session() as session:
            while not self._stop.is_set():
                with self._lock:
                    nth = next(self._next, None)
                if nth is None:
                    return
                self._hold(session, f"key-{client}-{nth}", f"S-{nth // 100 + 1}-{nth % 100 + 1}")

    def _hold(self, session: requests.Session, key: str, seat: str) -> None:
        ask = {"buyer": f"b-{key}", "seats": [seat]}
        headers = {"Authorization": f"Bearer {ADMIN}", "Idempotency-Key": key}
        path = f"{self._served.url}/v1/events/{self._event}/holds"
        for attempt in range(100):
            try:
                answer = session.post(path, json=ask, headers=headers, timeout=10)
            except requests.RequestException:
                self.lost += attempt == 0
                if self._stop.is_set():
                    return
                time.sleep(0.02)
                continue
            if answer.status_code != 201:
                self.other[answer.status_code] += 1
                return
            told = answer.json()["id"]
            if nth_sent_again(attempt, key):
                again = self._again(session, path, ask, headers)
                if again not in (None, told):
                    self.differing.append(key)
            self.held[key] = told
            return

    def _again(
        self, session: requests.Session, path: str, ask: Any, headers: dict[str, str]
    ) -> str | None:
        """A repetition of what was answered: to it belongs the first answer."""
        try:
            answer = session.post(path, json=ask, headers=headers, timeout=10)
        except requests.RequestException:
            return None
        return str(answer.json().get("id")) if answer.status_code == 201 else answer.text


def nth_sent_again(attempt: int, key: str) -> bool:
    return attempt > 0 or key.endswith("7")


async def holds_in(url: str, event: str) -> tuple[dict[str, HoldState], list[str]]:
    """What the authority has, and what the auditor says about it."""
    store = make_store(Settings(store=url))
    await store.open()
    try:
        census = await store.census(event)
        assert census is not None
        drift = [str(found) async for each in check_store(store) for found in each.drift]
        seats = Counter(seat for hold in census.holds if hold.open for seat in hold.seats)
        assert [seat for seat, owners in seats.items() if owners > 1] == []
        return {hold.id: hold.state for hold in census.holds}, drift
    finally:
        await store.close()


@pytest.mark.service
@pytest.mark.slow
async def test_whatever_is_killed_every_answered_hold_is_in_the_store(tmp_path):
    with needed_server(Postgres) as postgres:
        with serving(postgres.url, "--workers", "2", cwd=tmp_path) as served:
            section = {"id": "S", "tier": "gold", "rows": SEATS // 100, "seats_per_row": 100}
            event = make_event(served, sections=[section], pools=[])
            crowd = Crowd(served, event, clients=16)
            crowd.start()
            for nth in range(5):
                until(partial(crowd.has, 100 * nth))
                victim = workers_of(served)[0]
                os.kill(victim, signal.SIGKILL)
                until(partial(replaced, served, victim))
            until(partial(crowd.has, 800))
            served.process.send_signal(signal.SIGTERM)
            assert served.process.wait(40) == 0
            crowd.stop()
        rows, drift = await holds_in(postgres.url, event)
    assert drift == []
    assert [id for id in crowd.held.values() if id not in rows] == []
    assert crowd.differing == []
    assert set(crowd.other) <= {503}
    # The control: workers did die while they had something in hand, and asks were sent again.
    assert crowd.lost > 0


def test_what_was_accepted_is_answered_before_it_stops(tmp_path):
    """Payments that take a second are in hand when the signal comes."""
    with serving(f"sqlite:///{tmp_path / 'shop.db'}", "--workers", "2", cwd=tmp_path) as served:
        event = make_event(served)
        holds = [
            served.call(
                "POST", f"/v1/events/{event}/holds", {"buyer": f"u{n}", "seats": [f"A-1-{n}"]}
            ).json()
            for n in range(1, 9)
        ]
        answers: list[int] = []

        def buy(hold: dict[str, Any]) -> None:
            body = {"hold": hold["id"], "payment": {"method": "sandbox:slow:1"}}
            headers = {"Authorization": f"Bearer {ADMIN}", "Idempotency-Key": hold["id"]}
            url = f"{served.url}/v1/orders"
            answers.append(requests.post(url, json=body, headers=headers, timeout=30).status_code)

        threads = [threading.Thread(target=buy, args=(hold,)) for hold in holds]
        for thread in threads:
            thread.start()
        path = f"/v1/holds/{holds[-1]['id']}"
        until(lambda: served.call("GET", path).json()["state"] == "paying")
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(30) == 0
        for thread in threads:
            thread.join()
    assert answers == [201] * 8


def test_workers_are_renewed_one_by_one_while_it_serves(tmp_path):
    with serving(f"sqlite:///{tmp_path / 'shop.db'}", "--workers", "2", cwd=tmp_path) as served:
        before = workers_of(served)
        failed: list[str] = []
        stop = threading.Event()

        def ask() -> None:
            # A worker that stops closes connections on which no request has arrived yet, also one
            # that is on its way: nothing was done, so it is sent again, as every proxy does.
            again = Retry(total=2, connect=0, read=2, status=0, backoff_factor=0)
            with requests.Session() as session:
                session.mount("http://", HTTPAdapter(max_retries=again))
                while not stop.is_set():
                    try:
                        answer = session.get(f"{served.url}/healthz", timeout=10)
                        if answer.status_code != 200:
                            failed.append(answer.text)
                    except requests.RequestException as trouble:
                        failed.append(str(trouble))

        asking = threading.Thread(target=ask)
        asking.start()
        served.process.send_signal(signal.SIGHUP)
        until(lambda: not set(before) & set(workers_of(served)) and len(workers_of(served)) == 2)
        stop.set()
        asking.join()
    assert failed == []


def test_a_worker_that_cannot_be_renewed_stays(tmp_path):
    """Its store is out of reach for a new one. It goes on, and can still be stopped."""
    shop = tmp_path / "data" / "shop.db"
    shop.parent.mkdir()
    with serving(f"sqlite:///{shop}", cwd=tmp_path) as served:
        before = workers_of(served)
        shop.parent.rename(tmp_path / "aside")
        served.process.send_signal(signal.SIGHUP)
        until(lambda: len(workers_of(served)) == 2)
        until(lambda: workers_of(served) == before)
        (tmp_path / "aside").rename(shop.parent)
        assert served.call("GET", "/v1/events").ok
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(10) == 0
        until(lambda: "was not renewed" in "".join(served.said))


def test_asked_twice_to_renew_it_renews_twice_and_leaves_nobody_behind(tmp_path):
    with serving(f"sqlite:///{tmp_path / 'shop.db'}", "--workers", "2", cwd=tmp_path) as served:
        seen = set(workers_of(served))

        def now() -> int:
            seen.update(workers_of(served))
            return len(workers_of(served))

        served.process.send_signal(signal.SIGHUP)
        until(lambda: now() == 3)
        served.process.send_signal(signal.SIGHUP)
        until(lambda: now() == 2 and len(seen) == 6, 30)
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(10) == 0
        assert not [pid for pid in seen if os.path.exists(f"/proc/{pid}")]


def test_where_no_process_can_be_started_it_is_tried_again(tmp_path):
    with serving(f"sqlite:///{tmp_path / 'shop.db'}", cwd=tmp_path) as served:
        _, hard = resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE, (3, hard))
        os.kill(workers_of(served)[0], signal.SIGKILL)
        until(lambda: "".join(served.said).count("cannot be started") > 1)
        resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE, (hard, hard))
        until(lambda: is_ready(served))


def test_a_worker_starts_also_when_the_first_key_was_revoked(tmp_path):
    with serving(f"sqlite:///{tmp_path / 'shop.db'}", cwd=tmp_path) as served:
        other = served.key("admin")
        subprocess.run([*HOLDFAST, "keys", "revoke", ADMIN], env=served.environment, check=True)
        until(lambda: served.call("GET", "/v1/events").status_code == 401)
        os.kill(workers_of(served)[0], signal.SIGKILL)
        until(lambda: is_ready(served))
        assert requests.get(
            f"{served.url}/v1/events", headers={"Authorization": f"Bearer {other}"}, timeout=10
        ).ok


def is_ready(served: Served) -> bool:
    try:
        return requests.get(f"{served.url}/readyz", timeout=5).ok
    except requests.RequestException:
        return False


@contextmanager
def buying_slowly(served: Served) -> Iterator["Future[requests.Response]"]:
    """A purchase that takes four seconds, once it is under way."""
    event = make_event(served)
    ask = {"buyer": "u", "seats": ["A-1-1"]}
    hold = served.call("POST", f"/v1/events/{event}/holds", ask).json()
    body = {"hold": hold["id"], "payment": {"method": "sandbox:slow:4"}}
    with ThreadPoolExecutor(1) as pool:
        headers = {"Idempotency-Key": "k"}
        bought = pool.submit(served.call, "POST", "/v1/orders", body, headers=headers)
        path = f"/v1/holds/{hold['id']}"
        until(lambda: served.call("GET", path).json()["state"] == "paying")
        yield bought


def test_what_takes_nearly_as_long_as_it_may_is_answered_before_it_stops(tmp_path):
    shop = f"sqlite:///{tmp_path / 'shop.db'}"
    with serving(shop, cwd=tmp_path, stop_seconds=6) as served, buying_slowly(served) as bought:
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(10) == 0
        assert bought.result(20).status_code == 201


def test_while_it_stops_nobody_is_let_in_to_wait_for_nothing(tmp_path):
    shop = f"sqlite:///{tmp_path / 'shop.db'}"
    with serving(shop, cwd=tmp_path, stop_seconds=10) as served, buying_slowly(served) as bought:
        served.process.send_signal(signal.SIGTERM)
        until(lambda: not lets_in(served))
        assert not bought.done(), "it goes on with what was asked before"
        assert bought.result(20).status_code == 201
        assert served.process.wait(10) == 0


def lets_in(served: Served) -> bool:
    place = urlsplit(served.url)
    with contextlib.suppress(ConnectionError):  # refused, or reset: it was just being closed
        socket.create_connection((place.hostname or "", place.port or 0), 5).close()
        return True
    return False


def test_nobody_who_does_not_read_his_answer_is_waited_for(tmp_path):
    house = [{"id": "A", "tier": "gold", "rows": 200, "seats_per_row": 300}]
    with serving(f"sqlite:///{tmp_path / 'shop.db'}", cwd=tmp_path) as served:
        event = make_event(served, sections=house)
        with unread(served.url, f"/v1/events/{event}/seats"):
            began = time.monotonic()
            served.process.send_signal(signal.SIGTERM)
            assert served.process.wait(20) == 0
            assert time.monotonic() - began < 6


def unread(url: str, path: str, more: str = "") -> socket.socket:
    """A connection that reads how the answer begins, and no more."""
    host, port = url.removeprefix("http://").split(":")
    deaf = socket.socket()
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    deaf.connect((host, int(port)))
    head = f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}Authorization: Bearer {ADMIN}\r\n\r\n"
    deaf.sendall(head.encode())
    assert deaf.recv(12) == (b"HTTP/1.1 101" if more else b"HTTP/1.1 200")
    return deaf


def test_a_second_signal_does_not_wait(tmp_path):
    with serving(f"sqlite:///{tmp_path / 'shop.db'}", cwd=tmp_path) as served:
        event = make_event(served)
        ask = {"buyer": "u", "seats": ["A-1-1"]}
        hold = served.call("POST", f"/v1/events/{event}/holds", ask).json()
        body = {"hold": hold["id"], "payment": {"method": "sandbox:slow:30"}}
        headers = {"Authorization": f"Bearer {ADMIN}", "Idempotency-Key": "k"}

        def buy() -> None:
            with pytest.raises(requests.RequestException):
                requests.post(f"{served.url}/v1/orders", json=body, headers=headers, timeout=40)

        buying = threading.Thread(target=buy)
        buying.start()
        path = f"/v1/holds/{hold['id']}"
        until(lambda: served.call("GET", path).json()["state"] == "paying")
        began = time.monotonic()
        served.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        served.process.send_signal(signal.SIGTERM)
        served.process.wait(20)
        assert time.monotonic() - began < 10
        buying.join()


def test_workers_end_with_their_supervisor(tmp_path):
    with serving(f"sqlite:///{tmp_path / 'shop.db'}", "--workers", "2", cwd=tmp_path) as served:
        workers = workers_of(served)
        assert len(workers) == 2
        served.process.kill()
        served.process.wait()
        until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in workers))


def test_a_worker_that_cannot_start_again_is_tried_again_and_again(tmp_path):
    """Its store is taken away and given back: the place is filled as soon as it can be."""
    shop = tmp_path / "data" / "shop.db"
    shop.parent.mkdir()
    with serving(f"sqlite:///{shop}", cwd=tmp_path) as served:
        aside = tmp_path / "aside"
        shop.parent.rename(aside)
        os.kill(workers_of(served)[0], signal.SIGKILL)
        time.sleep(1)
        aside.rename(shop.parent)
        until(lambda: is_ready(served), 30)


def test_expired_holds_are_announced_once_by_whichever_worker_has_the_lease(tmp_path):
    with serving(f"sqlite:///{tmp_path / 'shop.db'}", "--workers", "2", cwd=tmp_path) as served:
        event = make_event(served, hold_seconds=1, grace_seconds=0)
        for n in range(1, 11):
            ask = {"buyer": f"u{n}", "seats": [f"A-1-{n}"]}
            served.call("POST", f"/v1/events/{event}/holds", ask)

        def expired() -> list[str]:
            facts = served.call("GET", f"/v1/events/{event}/log?limit=1000").json()["facts"]
            return [f["data"]["hold"] for f in facts if f["type"] == "hold.expired"]

        until(lambda: len(expired()) >= 10)
        assert len(set(expired())) == len(expired()) == 10
