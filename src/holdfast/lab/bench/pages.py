"""The seat map in a real browser: how soon it is there, how smoothly it moves, and what happens to
whoever uses it while thousands of seats change.

Chromium, the server and whoever changes seats share the machine. Chromium is headless and has no
graphics processor, as on a poor office computer.
"""

import asyncio
import json
import math
import secrets
import shutil
import time
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from holdfast.errors import SettingsError
from holdfast.lab.bench.figures import Result, percentile
from holdfast.lab.bench.http import served
from holdfast.pages.site import Site

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

SECTION_ROWS, SECTION_WIDTH, SECTIONS_ABREAST = 25, 40, 10
SECTIONS = 60
SECONDS = 3.0
CHANGES_A_SECOND = 5
SEATS_A_CHANGE = 420
"""Somewhat over 2,000 a second: a change that is late by a moment must not make it fewer."""
DRAG_SECONDS = 0.5
DRAG_PX = 480
WIDTH, HEIGHT = 1_280, 800
PATIENCE_MS = 60_000
ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    "--disable-background-networking",
)

NOTE = """() => {
  const seen = {frames: [], delays: [], moves: 0, clicks: 0};
  window.seen = seen;
  const frame = (at) => { seen.frames.push(at); requestAnimationFrame(frame); };
  requestAnimationFrame(frame);
  const answered = (event) => {
    // Until the picture that follows is drawn.
    requestAnimationFrame(() => setTimeout(() =>
      seen.delays.push(performance.now() - event.timeStamp)));
  };
  addEventListener("pointermove", (event) => {
    seen.moves += Math.max(1, event.getCoalescedEvents().length);
    answered(event);
  }, true);
  addEventListener("click", (event) => { seen.clicks += 1; answered(event); }, true);
}"""
"""Notes in the page every picture, and how late each input was answered by one."""
FORGET = "() => Object.assign(window.seen, {frames: [], delays: [], moves: 0, clicks: 0})"
MARKS = """() => Object.fromEntries(
  performance.getEntriesByType("mark").map((mark) => [mark.name, mark.startTime]))"""
POINT = "(seat) => document.querySelector('.map-view').pointOf(seat)"
STATES = "() => document.querySelector('.map-view').states()"
TOLD = "(seq) => Number(document.querySelector('[data-testid=map]').dataset.seq) >= seq"
PICKED = "(count) => document.querySelector('[data-testid=map]').dataset.picked === String(count)"


class Pages:
    """A service with one large event, and a browser that looks at it. `share` 1.0 is the whole of
    it. Raises SettingsError where playwright, Chromium or the pages are missing."""

    def __init__(self, store: str, share: float) -> None:
        self._chromium = chromium()
        self._store = store
        self._sections = max(6, round(SECTIONS * share)) if share < 1 else SECTIONS
        self._seconds = max(1.0, SECONDS * share)
        self._key = secrets.token_urlsafe(18)
        self._url = ""
        self._event = f"pages-{secrets.token_hex(6)}"
        self._standing: list[str] = []

    async def measure(self) -> Result:
        with served(self._store, self._key, gate="none", policy="authority") as (url, _):
            self._url = url
            await asyncio.to_thread(self._call, "POST", "/v1/events", self._house())
            from playwright.async_api import Error

            try:
                async with self._browser() as browser:
                    return await self._look(browser)
            except Error as trouble:
                said = trouble.message.splitlines()[0]
                raise SettingsError(f"the pages did not do as expected: {said}") from trouble

    def _house(self) -> dict[str, Any]:  # ready for JSON
        tiers = ("gold", "silver", "bronze")
        sections = [
            {
                "id": f"S{at + 1}",
                "tier": tiers[at // SECTIONS_ABREAST % 3],
                "rows": SECTION_ROWS,
                "seats_per_row": SECTION_WIDTH,
                "x": at % SECTIONS_ABREAST * (SECTION_WIDTH + 3),
                "y": at // SECTIONS_ABREAST * (SECTION_ROWS + 3),
            }
            for at in range(self._sections)
        ]
        prices = {"gold": 12_000, "silver": 7_500, "bronze": 4_000}
        return {"id": self._event, "name": "Stadium", "prices": prices, "sections": sections}

    async def _look(self, browser: "Browser") -> Result:
        page = await browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        broken: list[str] = []
        page.on("pageerror", lambda error: broken.append(str(error)))
        await page.goto(f"{self._url}/e/{self._event}")
        await page.wait_for_function(
            "() => performance.getEntriesByName('map:painted').length", timeout=PATIENCE_MS
        )
        marks = await page.evaluate(MARKS)
        await page.evaluate(NOTE)
        for _ in range(3):
            await page.get_by_role("button", name="Zoom in").click()
            await page.wait_for_timeout(500)
        panned = await self._drag(page)
        changing = asyncio.create_task(self._change())
        meanwhile = await self._drag(page)
        clicks = await self._click(page)
        changed, seconds = await changing
        wrong = await self._wrong(page)
        if broken:
            raise SettingsError(f"the page failed: {broken[0]}")
        return {
            "first_paint_ms": marks["map:painted"] - marks["map:data"],
            "read_ms": marks["map:data"] - marks["map:received"],
            "pan_frames_per_second": panned["rate"],
            "pan_worst_frame_ms": panned["worst"],
            "changes_per_second": changed / seconds,
            "pan_frames_per_second_meanwhile": meanwhile["rate"],
            "input_p50_ms_meanwhile": meanwhile["p50"],
            "input_p99_ms_meanwhile": meanwhile["p99"],
            "click_worst_ms_meanwhile": clicks["worst"],
            "inputs_dropped": meanwhile["dropped"] + clicks["dropped"],
            "seats_wrong": wrong,
            "seats": self._sections * SECTION_ROWS * SECTION_WIDTH,
        }

    async def _drag(self, page: "Page") -> dict[str, float]:
        """Drags the map about, with a mouse that moves as fast as the page takes it."""
        box = await page.locator(".map-view").bounding_box()
        assert box is not None
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        await page.mouse.move(x, y)
        await page.evaluate(FORGET)
        sent, began, turn = 0, time.perf_counter(), 0
        while time.perf_counter() - began < self._seconds:
            # Left, up, right, down: further than was drawn ahead.
            angle = math.pi * (1 + turn / 2)
            turn += 1
            ax, ay = x - math.cos(angle) * DRAG_PX / 2, y - math.sin(angle) * DRAG_PX / 2.4
            await page.mouse.move(ax, ay)
            await page.mouse.down()
            sent, start = sent + 1, time.perf_counter()
            while (part := (time.perf_counter() - start) / DRAG_SECONDS) < 1:
                dx, dy = math.cos(angle) * DRAG_PX * part, math.sin(angle) * DRAG_PX * part / 1.2
                await page.mouse.move(ax + dx, ay + dy)
                sent += 1
            await page.mouse.up()
        seen = await page.evaluate("() => window.seen")
        frames, delays = seen["frames"], sorted(seen["delays"])
        gaps = [later - earlier for earlier, later in pairwise(frames)]
        return {
            "rate": 1000 * len(gaps) / (frames[-1] - frames[0]),
            "worst": max(gaps),
            "p50": percentile(delays, 0.5),
            "p99": percentile(delays, 0.99),
            "dropped": max(0, sent - seen["moves"]),
        }

    async def _click(self, page: "Page") -> dict[str, float]:
        """Picks a seat and lets it go, again and again: each click must be answered by the page."""
        await page.get_by_role("button", name="Show all").click()
        await page.wait_for_timeout(600)
        seat = f"S{self._sections}-13-20"
        await page.mouse.click(*await self._place(page, seat))
        await page.wait_for_timeout(600)
        at = await self._place(page, seat)
        await page.evaluate(FORGET)
        dropped = 0
        for nth in range(1, 11):
            await page.mouse.click(*at)
            try:
                await page.wait_for_function(PICKED, arg=nth % 2, timeout=2_000)
            except Exception:  # playwright's own, which is not imported where it may be missing
                dropped += 1
        seen = await page.evaluate("() => window.seen")
        return {"worst": max(seen["delays"]), "dropped": dropped + max(0, 10 - seen["clicks"])}

    async def _place(self, page: "Page", seat: str) -> tuple[float, float]:
        point = await page.evaluate(POINT, seat)
        return point["x"], point["y"]

    async def _change(self) -> tuple[int, float]:
        """Holds hundreds of seats at a time and gives back the oldest, five times a second, while
        the page is used: how many seats, in what time."""
        began, changed = time.perf_counter(), 0
        # The drag, then the clicks.
        for nth in range(round((self._seconds + 2.5) * CHANGES_A_SECOND)):
            early = began + nth / CHANGES_A_SECOND - time.perf_counter()
            if early > 0:
                await asyncio.sleep(early)
            await asyncio.to_thread(self._change_once, nth)
            changed += SEATS_A_CHANGE
        return changed, max(time.perf_counter() - began, (nth + 1) / CHANGES_A_SECOND)

    def _change_once(self, nth: int) -> None:
        if nth % 2 and len(self._standing) > 1:
            self._call("DELETE", f"/v1/holds/{self._standing.pop(0)}")
            return
        # A part of every section but the last, where the clicks go.
        wide = range(SECTION_WIDTH)
        rows = SECTION_ROWS * (self._sections - 1)
        first = nth * SEATS_A_CHANGE
        seats = []
        for each in range(first, first + SEATS_A_CHANGE):
            row = each // len(wide) * 7 % rows
            section, of = row // SECTION_ROWS + 1, row % SECTION_ROWS + 1
            seats.append(f"S{section}-{of}-{each % len(wide) + 1}")
        ask = {"buyer": f"b{nth}", "seats": seats}
        hold = self._call("POST", f"/v1/events/{self._event}/holds", ask)
        self._standing.append(json.loads(hold)["id"])

    async def _wrong(self, page: "Page") -> int:
        """Seats that the page has in another state than the authority."""
        path = f"/v1/events/{self._event}"
        seq = json.loads(await asyncio.to_thread(self._call, "GET", path))["seq"]
        await page.wait_for_function(TOLD, arg=seq, timeout=PATIENCE_MS)
        truth = json.loads(await asyncio.to_thread(self._call, "GET", f"{path}/seats"))["seats"]
        shown = dict(await page.evaluate(STATES))
        return sum(shown.get(seat["id"]) != seat["state"] for seat in truth)

    def _call(self, method: str, path: str, body: object = None) -> bytes:
        sent = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        request = urllib.request.Request(self._url + path, sent, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            found: bytes = answer.read()
        return found

    @asynccontextmanager
    async def _browser(self) -> AsyncIterator["Browser"]:
        from playwright.async_api import async_playwright

        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(
                executable_path=self._chromium, args=list(ARGUMENTS)
            )
            try:
                yield browser
            finally:
                await browser.close()


def chromium() -> str:
    """Where it is. Raises SettingsError where it, playwright or the pages are not."""
    try:
        import playwright  # noqa: F401 - only whether it is there
    except ImportError:
        raise SettingsError(
            "figures of the pages need playwright: pip install playwright"
        ) from None
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        raise SettingsError("figures of the pages need Chromium (Debian: apt install chromium)")
    if not Site().built:
        raise SettingsError("figures of the pages need the pages: make web")
    return found
