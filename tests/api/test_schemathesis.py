"""Schemathesis reads the document and calls a real server with all that it allows and forbids."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.api.schemathesis_hooks import EVENT
from tests.api.serving import Served, serving

HERE = Path(__file__).parent
MADE = {
    "id": EVENT,
    "prices": {"gold": 9000, "floor": 0},
    "sections": [{"id": "A", "tier": "gold", "rows": 2, "seats_per_row": 10}],
    "pools": [{"id": "floor", "capacity": 1_000_000}],
}


@pytest.fixture
def alone(tmp_path):
    with serving(f"sqlite:///{tmp_path}/shop.db", cwd=tmp_path, sqlite_synchronous="NORMAL") as it:
        assert it.call("POST", "/v1/events", MADE).status_code == 201
        yield it


def run(folder: Path, served: Served, *options: str, seconds: float) -> None:
    """All checks are on by default; schemathesis.toml says where the contract wants otherwise."""
    command = [sys.executable, "-m", "schemathesis.cli"]
    command += ["--config-file", str(HERE / "schemathesis.toml")]
    command += ["run", f"{served.url}/openapi.json", *options]
    done = subprocess.run(
        command,
        cwd=folder,  # where it leaves its database of examples
        env={**os.environ, "PYTHONPATH": str(HERE.parents[1])},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


@pytest.mark.slow
def test_every_answer_is_as_the_document_says(alone, tmp_path):
    run(tmp_path, alone, "--seed", "1", seconds=110)


@pytest.mark.soak
def test_every_answer_is_as_the_document_says_for_a_long_time(alone, tmp_path):
    run(tmp_path, alone, "--max-examples", "300", seconds=3_000)
