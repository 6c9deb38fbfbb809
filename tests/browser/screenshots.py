"""Pictures of the pages for README and docs, taken from the running product: `make screenshots`.

Starts a service of its own, makes a lively state in it, and looks at each page as somebody with a
desktop and as somebody with a phone would.
"""

import asyncio
import random
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page, async_playwright, expect

from tests.api.serving import ADMIN, Served, serving
from tests.browser.conftest import ARGUMENTS, ROOT
from tests.browser.stage import Stage
from tests.browser.visitors import visiting
from tests.services import chromium_program

PICTURES = ROOT / "docs" / "pictures"
BYTES_MAX = 250_000
DESKTOP = {"viewport": {"width": 1280, "height": 800}}
PHONE = {
    "viewport": {"width": 390, "height": 844},
    "device_scale_factor": 2,
    "is_mobile": True,
    "has_touch": True,
}
LOOKS: dict[str, dict[str, Any]] = {"desktop": DESKTOP, "phone": PHONE}
WAIT_MS = 60_000
