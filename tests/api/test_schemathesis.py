"""Schemathesis reads the document and calls a real server with all that it allows and forbids."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.api.serving import serving

ROOT = Path(__file__).parents[2]


def run(folder: Path, url: str, *options: str, seconds: float) -> None:
    """All checks are on; schemathesis.toml says where the contract wants another status."""
    command = [sys.executable, "-m", "schemathesis.cli"]
    command += ["--config-file", str(ROOT / "tests" / "api" / "schemathesis.toml")]
    command += ["run", f"{url}/openapi.json", "--checks", "all", *options]
    done = subprocess.run(
        command,
        cwd=folder,  # where it leaves its database of examples
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


@pytest.mark.slow
def test_every_answer_is_as_the_document_says(tmp_path):
    with serving(f"sqlite:///{tmp_path}/shop.db", cwd=tmp_path, sqlite_synchronous="NORMAL") as it:
        run(tmp_path, it.url, "--max-examples", "10", "--seed", "1", seconds=110)


@pytest.mark.soak
def test_every_answer_is_as_the_document_says_for_a_long_time(tmp_path):
    with serving(f"sqlite:///{tmp_path}/shop.db", cwd=tmp_path, sqlite_synchronous="NORMAL") as it:
        run(tmp_path, it.url, "--max-examples", "300", seconds=3_000)
