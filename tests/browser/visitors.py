"""A visitor of the pages: a browser context of his own whose every page is watched.

Whatever a page does that a careful reader of the console would frown at fails the test: errors,
requests that fail or leave the host, and what the content security policy had to stop.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import Browser, ConsoleMessage, Page, Request, WebSocket

from tests.browser.frames import Frames

WAIT_MS = 10_000
"""How long a page may take for what a test waits for; a machine under load is slow."""
NOTICED = "noticed by the tests: "
# The browser logs what its policy stops too, but not always as an error.
INIT = f"""
addEventListener("securitypolicyviolation", (stopped) => console.error(
  {NOTICED!r} + "policy " + stopped.violatedDirective + " stopped " + stopped.blockedURI));
"""
RESOURCE = re.compile(r"Failed to load resource: .* status of (\d+)")
SCHEMES = ("data", "blob")
"""Addresses that lead nowhere: the page made them itself."""


class Visitor:
    """One person at one browser. `page` is the tab that he looks at first."""

    def __init__(self, page: Page, host: str) -> None:
        self.page = page
        self.host = host
        self.troubles: list[str] = []
        self.answers: list[tuple[int, str]] = []
        """Status and path of all that the pages were answered."""
        self.frames: list[Frames] = []
        """What each WebSocket brought, in the order in which they were opened."""
        self._expected: list[re.Pattern[str]] = []
        self.watch(page)

    def expect(self, *patterns: str) -> None:
        """Troubles that are the point of the test: a refusal (`409 .*/holds`), a line that is cut.
        They are looked for in what was noticed, as regular expressions."""
        self._expected.extend(map(re.compile, patterns))

    @property
    def unexpected(self) -> list[str]:
        return [
            trouble
            for trouble in self.troubles
            if not any(pattern.search(trouble) for pattern in self._expected)
        ]

    def watch(self, page: Page) -> None:
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.troubles.append(f"page error: {error}"))
        page.on("crash", lambda _: self.troubles.append("the page crashed"))
        page.on("request", self._request)
        page.on("requestfailed", self._failed)
        page.on("response", lambda answer: self._answered(answer.status, answer.url))
        page.on("websocket", self._socket)

    async def tab(self, path: str) -> Page:
        """Another tab of the same browser."""
        page = await self.page.context.new_page()
        self.watch(page)
        await page.goto(f"http://{self.host}{path}")
        return page

    async def open(self, path: str) -> Page:
        await self.page.goto(f"http://{self.host}{path}")
        return self.page

    def _answered(self, status: int, url: str) -> None:
        path = urlsplit(url).path
        self.answers.append((status, path))
        if status >= 400:
            self.troubles.append(f"{status} {path}")

    def _console(self, message: ConsoleMessage) -> None:
        # What was answered with an error is noted with its path already.
        if message.type in ("error", "warning") and not RESOURCE.match(message.text):
            self.troubles.append(f"console: {message.text}")

    def _request(self, request: Request) -> None:
        self._stays(request.url)

    def _socket(self, socket: WebSocket) -> None:
        self._stays(socket.url)
        frames = Frames(socket.url)
        self.frames.append(frames)
        socket.on("framereceived", frames.take)

    def _stays(self, url: str) -> None:
        address = urlsplit(url)
        if address.scheme not in SCHEMES and address.netloc != self.host:
            self.troubles.append(f"left the host: {url}")

    def _failed(self, request: Request) -> None:
        # Whoever goes elsewhere takes back what he had asked for: nobody's fault.
        if request.failure != "net::ERR_ABORTED":
            path = urlsplit(request.url).path
            self.troubles.append(f"failed: {path}: {request.failure}")


@asynccontextmanager
async def visiting(browser: Browser, url: str, **options: Any) -> AsyncIterator[Visitor]:
    """A visitor with an empty browser. When he leaves, nothing may have gone wrong on his pages."""
    context = await browser.new_context(
        **{
            "viewport": {"width": 1280, "height": 800},
            "reduced_motion": "reduce",
            "locale": "en-GB",
            "timezone_id": "UTC",
            **options,
        }
    )
    try:
        context.set_default_timeout(WAIT_MS)
        await context.add_init_script(INIT)
        visitor = Visitor(await context.new_page(), urlsplit(url).netloc)
        yield visitor
    finally:
        await context.close()
    assert not visitor.unexpected, "\n".join(visitor.unexpected)


async def until(met: Callable[[], object], seconds: float = WAIT_MS / 1000) -> None:
    """Waits for what no page shows. For the rest there is playwright's `expect`."""
    ends = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < ends, "waited in vain"
        await asyncio.sleep(0.02)
