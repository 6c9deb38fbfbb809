"""Several processes that hold seats at the same time, begun together."""

import subprocess
import sys
from collections.abc import Sequence

import msgspec


class Written(msgspec.Struct):
    """What one process did."""

    held: int
    latencies_ms: list[float]


def run_writers(
    url: str, events: Sequence[str], parts: Sequence[range], seconds: float, rate: int
) -> list[Written]:
    """Starts a process for each event, lets them begin together, and returns what each did. Each
    holds the seats of its part one by one: as fast as it can, or at a steady rate."""
    writers = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "holdfast.lab.bench.writer"),
                *(event, str(seconds), str(rate)),
                *map(str, (part.start, part.stop, part.step)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for event, part in zip(events, parts, strict=True)
    ]
    for writer in writers:
        assert writer.stdin is not None
        # Through the pipe: a password in the address must not show in the list of processes.
        writer.stdin.write(f"{url}\n".encode())
        writer.stdin.flush()
    for writer in writers:
        assert writer.stdout is not None
        writer.stdout.readline()
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write(b"go\n")
        writer.stdin.flush()
    outputs = [writer.communicate(timeout=seconds + 120)[0] for writer in writers]
    return [msgspec.json.decode(output, type=Written) for output in outputs]
