"""A real `holdfast serve` for tests, on a free port, ended by the id it was started with."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests

from tests.api.conforming import check_response

ADMIN = "admin-key-of-the-tests"
START_SECONDS_MAX = 60


class Served:
    """A running service, and a client that checks every answer against the OpenAPI document."""

    def __init__(self, process: "subprocess.Popen[str]", url: str) -> None:
        self.process = process
        self.url = url
        self.environment: dict[str, str] = {}
        self.session = requests.Session()
        self.said: list[str] = []
        """Every line that it has printed."""

    def call(
        self,
        method: str,
        path: str,
        json: Any = None,
        *,
        key: str | None = ADMIN,
        headers: dict[str, str] | None = None,
        data: bytes | str | None = None,
    ) -> requests.Response:
        """One request. `key=None` sends no key."""
        sent = dict(headers or {})
        if key is not None:
            sent.setdefault("Authorization", f"Bearer {key}")
        answer = self.session.request(
            method,
            self.url + path,
            json=json,
            data=data,
            headers=sent,
            timeout=30,
            allow_redirects=False,
        )
        check_response(self.url, method, path, answer)
        return answer

    def key(self, role: str, *options: str) -> str:
        """A new key of that role."""
        made = subprocess.run(
            [*HOLDFAST, "keys", "create", "--role", role, *options],
            env=self.environment,
            check=True,
            capture_output=True,
            text=True,
        )
        return made.stdout.splitlines()[-1]


HOLDFAST = (sys.executable, "-m", "holdfast.cli")


def interruptible() -> None:
    """As `preexec_fn`: what a shell starts in the background ignores SIGINT, and so would every
    child of a test run that was started like that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def serving(store: str, *options: str, cwd: Path, **settings: object) -> Iterator[Served]:
    """`holdfast serve` on that store. Settings are given as environment variables; the admin key is
    ADMIN. Whatever it printed is shown where it fails to start."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")},
        "HOLDFAST_STORE": store,
        "HOLDFAST_ADMIN_KEY": ADMIN,
        "HOLDFAST_PAYMENTS": "sandbox",
        **{f"HOLDFAST_{name.upper()}": str(value) for name, value in settings.items()},
    }
    process = subprocess.Popen(
        [*HOLDFAST, "serve", "--port", "0", *options],
        env=environment,
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    readers: list[threading.Thread] = []
    try:
        said: list[str] = []
        url = _url(process, readers, said)
        served = Served(process, url)
        served.said = said
        served.environment = environment
        yield served
        served.session.close()
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(40)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdout is not None
        for reader in readers:
            reader.join()
        process.stdout.close()


def _url(process: "subprocess.Popen[str]", readers: list[threading.Thread], said: list[str]) -> str:
    """Where it serves, once it says so."""
    assert process.stdout is not None
    timer = threading.Timer(START_SECONDS_MAX, process.kill)
    timer.start()
    try:
        for line in process.stdout:
            said.append(line)
            if found := re.search(r"serves (http://\S+)", line):
                # What it says later must not fill the pipe.
                readers.append(
                    threading.Thread(target=said.extend, args=(process.stdout,), daemon=True)
                )
                readers[-1].start()
                return found[1]
    finally:
        timer.cancel()
    raise AssertionError(f"holdfast serve did not start:\n{''.join(said)}")
