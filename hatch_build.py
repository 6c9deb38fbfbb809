"""Builds the pages before a wheel is made, where they are not built yet: a wheel without them would
be a service that looks broken. An editable install leaves that to `make web`."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUILT = "src/holdfast/pages/dist/index.html"
COMMANDS = (["npm", "ci", "--no-audit", "--no-fund"], ["npm", "run", "build"])


class BuildPages(BuildHookInterface):  # type: ignore[type-arg]  # its configuration has no type
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        if version == "editable" or (root / BUILT).is_file():
            return
        if shutil.which("npm") is None:
            sys.exit("The pages are not built, and there is no npm: install Node.js first")
        for command in COMMANDS:
            if subprocess.run(command, cwd=root / "web", check=False).returncode:
                sys.exit(f"The pages could not be built: `{' '.join(command)}` failed in web/")
