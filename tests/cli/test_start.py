"""How the program starts: it loads what the command needs, and may be interrupted all the while."""

import subprocess
import sys

import pytest

INTERRUPTED_WHILE_LOADING = """
import sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt

from holdfast.cli import main

sys.meta_path.insert(0, Interrupting())
sys.exit(main({args!r}))
"""
LOADED = """
import sys
from holdfast.cli import main

main({args!r})
print(*sorted(sys.modules), file=sys.stderr)
"""


def python(program: str, **values: object) -> "subprocess.CompletedProcess[str]":
    script = program.format(**values)
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=100
    )


@pytest.mark.parametrize(
    ("module", "args"),
    [
        ("holdfast.cli.commands", ["--version"]),
        ("typer", ["--version"]),
        ("holdfast.cli.followers", ["followers", "list"]),
        ("holdfast.cli.bench", ["--help"]),
    ],
)
def test_an_interruption_while_modules_are_loaded_is_quiet(module, args):
    done = python(INTERRUPTED_WHILE_LOADING, module=module, args=args)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize(
    "args", [["--version"], ["followers", "--help"], ["log", "--help"], ["relay", "--help"]]
)
def test_what_a_command_does_not_need_is_not_loaded(args):
    loaded = python(LOADED, args=args).stderr.split()
    assert "holdfast.cli.commands" in loaded
    heavy = ("holdfast.lab", "holdfast.api", "structlog", "rich", "falcon", "apsw")
    assert [name for name in loaded if name.startswith(heavy)] == []
