"""Handlers that do nothing on Granian, the fastest server of ASGI that is well kept, against the
same on our own, and holds, in turns.

Granian reads and writes on threads of its own, in Rust. It is installed from PyPI into an
environment that is thrown away, and is given one worker, uvloop, and HTTP/1 alone.
"""

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.errors import SettingsError
from holdfast.lab.bench import nothing
from holdfast.lab.bench.figures import Result
from holdfast.lab.bench.http import Http
from holdfast.lab.bench.rivals import installed, version_of
from holdfast.lab.servers import free_port

START_SECONDS = 30.0


class Granian:
    """Installs it below the folder. Raises SettingsError where that cannot be done."""

    def __init__(self, folder: Path) -> None:
        self._python = installed("granian", folder, "falcon", "uvloop")
        self.version = version_of("granian", self._python)
        # In a folder of its own: modules beside it would be taken for those of Python.
        self._home = folder / "granian"
        self._home.mkdir()
        shutil.copy(nothing.__file__, self._home)

    def measure(self, http: Http) -> Result:
        """One round."""
        with self._served() as url:
            rates = http.beside(url)
        return {
            "empty_per_second": rates["beside"],
            "deaf_per_second": rates["beside_deaf"],
            "holdfast_empty_per_second": rates["empty"],
            "holdfast_deaf_per_second": rates["deaf"],
            "holdfast_holds_per_second": rates["holds"],
            "empty_ratio": rates["empty"] / rates["beside"],
            "deaf_ratio": rates["deaf"] / rates["beside_deaf"],
            "holds_ratio": rates["holds"] / rates["beside"],
            "holds_deaf_ratio": rates["holds"] / rates["beside_deaf"],
            "rival": "granian",
            "version": self.version,
        }

    @contextmanager
    def _served(self) -> Iterator[str]:
        port = free_port()
        options = ("--interface", "asgi", "--loop", "uvloop", "--http", "1", "--workers", "1")
        place = ("--host", "127.0.0.1", "--port", str(port), "--log-level", "error")
        serving = subprocess.Popen(
            [str(self._python), "-m", "granian", *options, *place, "nothing:app"],
            cwd=self._home,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            self._wait(serving, port)
            yield f"http://127.0.0.1:{port}"
        finally:
            serving.terminate()
            serving.wait()

    def _wait(self, serving: "subprocess.Popen[bytes]", port: int) -> None:
        ends = time.monotonic() + START_SECONDS
        while time.monotonic() < ends and serving.poll() is None:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            time.sleep(0.05)
        raise SettingsError("granian did not start")
