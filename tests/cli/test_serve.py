"""holdfast serve, worker and demo, as processes."""

import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from holdfast.cli.demo import EVENT
from holdfast.pages.site import Site
from tests.api.serving import HOLDFAST, interruptible, serving

pytestmark = pytest.mark.slow


@contextmanager
def demo(folder: Path, *options: str) -> Iterator[tuple[str, str]]:
    """A running demo: its address, and all that it printed before it served."""
    process = subprocess.Popen(
        [*HOLDFAST, "demo", "--port", "0", *options],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOLDFAST_STORE": "sqlite:///my-shop.db"},
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=interruptible,
    )
    assert process.stdout is not None
    try:
        said = ""
        for line in process.stdout:
            said += line
            if "Ctrl-C" in line:
                break
        found = re.search(r"serves (http://\S+)", said)
        assert found, said
        yield found[1], said
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        process.stdout.close()


def keys_of(said: str) -> dict[str, str]:
    return dict(re.findall(r"(admin|public) key +(\S+)", said))


def sold(url: str, said: str) -> int:
    key = keys_of(said)["public"]
    event = requests.get(f"{url}/v1/events/{EVENT}?key={key}", timeout=10).json()
    return int(event["sold"])


def test_the_demo_serves_an_event_on_sale_and_says_what_to_try(tmp_path):
    with demo(tmp_path) as (url, said):
        admin, public = keys_of(said).values()
        event = requests.get(f"{url}/v1/events/{EVENT}?key={public}", timeout=10).json()
        assert (event["state"], event["available"]) == ("on_sale", 1_000)

        hold = f"{url}/v1/events/{EVENT}/holds"
        mine = {"Authorization": f"Bearer {admin}", "Idempotency-Key": "order-1"}
        ask: Any = {"buyer": "you", "best": [{"quantity": 2}]}
        held = requests.post(hold, json=ask, headers=mine, timeout=10).json()
        order = {"hold": held["id"], "payment": {"method": "sandbox:ok"}}
        mine["Idempotency-Key"] = "order-2"
        assert requests.post(f"{url}/v1/orders", json=order, headers=mine, timeout=10).ok
        assert re.search(r"curl .*holds", said, re.DOTALL)
        assert f"holdfast stampede --url {url}" in said
        assert (f"{url}/ops#key={admin}\n" in said) == Site().built
        about = requests.get(f"{url}/pages.json", timeout=10).json()
        assert (about["lab"], about["payments"]) == ("open", "sandbox")
        assert about["key"] not in (admin, public)
    # A demo plays in a file of its own, whatever shop is configured.
    assert not (tmp_path / "my-shop.db").exists()

    # The next one goes on, with the same keys; a fresh one begins anew, with others.
    with demo(tmp_path) as (url, said):
        again = {"Authorization": f"Bearer {keys_of(said)['admin']}"}
        assert (
            requests.get(f"{url}/v1/events/{EVENT}", headers=again, timeout=10).json()["sold"] == 2
        )
        assert keys_of(said) == {"admin": admin, "public": public}
    with demo(tmp_path, "--fresh") as (url, said):
        assert requests.get(f"{url}/v1/events", headers=mine, timeout=10).status_code == 401
        again = {"Authorization": f"Bearer {keys_of(said)['admin']}"}
        assert (
            requests.get(f"{url}/v1/events/{EVENT}", headers=again, timeout=10).json()["sold"] == 0
        )


def test_a_second_demo_leaves_the_first_alone(tmp_path):
    with demo(tmp_path) as (url, said):
        for options in ((), ("--fresh",)):
            second = subprocess.run(
                [*HOLDFAST, "demo", "--port", "0", *options],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=30,
            )
            assert second.returncode == 2
            assert second.stderr.count("\n") == 1
            assert "a demo is running" in second.stderr
        assert sold(url, said) == 0  # its keys are good still


def test_a_demo_whose_port_is_taken_touches_nothing(tmp_path):
    with demo(tmp_path) as (url, said):
        port = url.rpartition(":")[2]
        other = ("--store", f"sqlite:///{tmp_path / 'holdfast-demo.db'}")
        second = subprocess.run(
            [*HOLDFAST, "demo", "--port", port, *other],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert second.returncode == 2
        assert f"port {port}" in second.stderr
        assert sold(url, said) == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ADMIN_KEY", "bad key"),
        ("ADMIN_KEY", "schlüssel"),
        ("TRUSTED_PROXIES", "foo"),
        ("GATE", "ftp://x"),
        ("PORT", "nine"),
    ],
)
def test_a_wrong_setting_is_one_line_before_anything_starts(tmp_path, name, value):
    done = subprocess.run(
        [*HOLDFAST, "serve", "--port", "0"] if name != "PORT" else [*HOLDFAST, "serve"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", f"HOLDFAST_{name}": value},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_a_port_in_use_is_one_line(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [*HOLDFAST, "serve", "--port", str(port), "--store", "sqlite:///shop.db"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=30,
        )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert f"port {port}" in done.stderr
    assert "--port" in done.stderr


def test_a_server_that_is_not_there_is_one_line(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    url = f"postgresql://nobody@127.0.0.1:{port}/shop"
    done = subprocess.run(
        [*HOLDFAST, "serve", "--port", "0", "--store", url],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "127.0.0.1" in done.stderr


def test_in_memory_it_serves_alone(tmp_path):
    with serving("memory://", cwd=tmp_path) as served:
        assert served.call("GET", "/v1/events").json() == {"events": []}


@pytest.mark.parametrize("name", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_looks_after_a_store_until_it_is_stopped(tmp_path, name):
    worker = subprocess.Popen(
        [*HOLDFAST, "worker", "--store", "sqlite:///shop.db"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=interruptible,
    )
    assert worker.stdout is not None
    assert "Looking after sqlite:///shop.db" in worker.stdout.readline()
    worker.send_signal(name)
    assert worker.wait(20) == 0
    worker.stdout.close()


def test_serve_without_upkeep_leaves_expired_holds_to_a_worker(tmp_path):
    """The fact is announced by the worker, once; the seat was free at the deadline anyway."""
    with serving(f"sqlite:///{tmp_path / 'shop.db'}", "--no-upkeep", cwd=tmp_path) as served:
        body = {
            "id": "e1",
            "hold_seconds": 1,
            "grace_seconds": 0,
            "prices": {"gold": 100},
            "sections": [{"id": "A", "tier": "gold", "rows": 1, "seats_per_row": 2}],
        }
        served.call("POST", "/v1/events", body)
        served.call("POST", "/v1/events/e1/holds", {"buyer": "u", "seats": ["A-1-1"]})

        def types() -> list[str]:
            facts = served.call("GET", "/v1/events/e1/log").json()["facts"]
            return [fact["type"] for fact in facts]

        worker = subprocess.Popen(
            [*HOLDFAST, "worker"], cwd=tmp_path, env=served.environment, stdout=subprocess.PIPE
        )
        try:
            ends = time.monotonic() + 20
            while "hold.expired" not in types() and time.monotonic() < ends:
                time.sleep(0.1)
            assert types() == ["event.created", "hold.placed", "hold.expired"]
        finally:
            worker.terminate()
            worker.wait(20)
            assert worker.stdout is not None
            worker.stdout.close()
