"""Ten thousand people on one seat, over HTTP: one gets it, the others are told so."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.api.serving import ADMIN, HOLDFAST, serving
from tests.conftest import needed_server
from tests.servers import Postgres, Redis

BUYERS = 10_000


@contextmanager
def stand(setup: str, folder: Path) -> Iterator[str]:
    """A service on that store, with that gate; its address."""
    with ExitStack() as stack:
        store, gate, policy = f"sqlite:///{folder / 'shop.db'}", "none", "authority"
        if "postgres" in setup:
            store = stack.enter_context(needed_server(Postgres)).url
        if "redis" in setup:
            gate = stack.enter_context(needed_server(Redis)).url
            policy = "two-layer"
        served = stack.enter_context(serving(store, cwd=folder, gate=gate, policy=policy))
        yield served.url


@pytest.mark.slow
@pytest.mark.parametrize(
    "setup",
    [
        "sqlite",
        pytest.param("postgres", marks=pytest.mark.service),
        pytest.param("postgres+redis", marks=pytest.mark.service),
    ],
)
def test_ten_thousand_people_and_one_seat(tmp_path, setup):
    with stand(setup, tmp_path) as url:
        crowd = ("--buyers", str(BUYERS), "--seats", "1", "--url", url, "--key", ADMIN, "--json")
        done = subprocess.run(
            [*HOLDFAST, "stampede", *crowd], capture_output=True, text=True, timeout=100
        )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert {name: told[name] for name in ("buyers", "sold", "rejected", "errors", "oversold")} == {
        "buyers": BUYERS,
        "sold": 1,
        "rejected": BUYERS - 1,
        "errors": 0,
        "oversold": 0,
    }
