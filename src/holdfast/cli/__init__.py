"""The command line.

Exit codes: 0 done, 1 refused or failed, 2 a wrong value, 3 drift found, 130 interrupted.
"""

from collections.abc import Sequence

INTERRUPTED = 130


def main(args: Sequence[str] | None = None) -> int:
    """Runs one command line and returns its exit code. A wrong value is one line on stderr."""
    try:
        # Not above: Ctrl-C while modules are loaded is no trouble either.
        from holdfast.cli.commands import run

        return run(args)
    except KeyboardInterrupt:
        return INTERRUPTED
