"""Pictures of the pages for README and docs, taken from the running product: `make screenshots`.

Starts a service of its own, designs houses in it, lets people buy, and looks at each page as
somebody at a desk and somebody with a phone would. It takes two minutes, for the charts of the
operations page need something to show.
"""

import asyncio
import math
import random
import tempfile
import threading
import time
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import requests
from playwright.async_api import Browser, Page, async_playwright, expect

from tests.api.serving import ADMIN, Served, serving
from tests.browser.box_office import buy, hold
from tests.browser.conftest import ARGUMENTS, ROOT
from tests.browser.stage import Stage
from tests.browser.visitors import Visitor, visiting
from tests.services import chromium_program

PICTURES = ROOT / "docs" / "pictures"
BYTES_MAX = 250_000
PHONE = {"viewport": {"width": 390, "height": 780}, "is_mobile": True, "has_touch": True}
LOOKS: dict[str, dict[str, Any]] = {
    "desktop": {"viewport": {"width": 1280, "height": 800}},
    "phone": {**PHONE, "device_scale_factor": 1.5},
}
# 60,000 seats are too many for a small file at full size.
FAR: dict[str, dict[str, Any]] = {
    "desktop": {"viewport": {"width": 1160, "height": 725}, "device_scale_factor": 0.75},
    "phone": {**PHONE, "device_scale_factor": 1},
}
KEY = {"Authorization": f"Bearer {ADMIN}"}
WAIT_MS = 60_000
LOAD_SECONDS = 150
SAMPLES = {
    "Small theatre": "winters-tale",
    "Stadium": "cup-final",
    "Club night": "club-night",
    "Arena": "arena-tour",
}
PEOPLE = random.Random(9)
"""The same people every time."""


class Studio:
    def __init__(self, browser: Browser, served: Served) -> None:
        self.browser = browser
        self.served = served

    def visit(self, look: str, **options: Any) -> AbstractAsyncContextManager[Visitor]:
        return visiting(self.browser, self.served.url, **{**LOOKS[look], **options})

    async def shoot(self, page: Page, name: str) -> None:
        path = PICTURES / f"{name}.png"
        # What was just said about the last click is not what the picture is about.
        await expect(page.locator(".toast")).to_have_count(0, timeout=WAIT_MS)
        await page.screenshot(path=path, animations="disabled")
        size = path.stat().st_size
        print(f"{path.relative_to(ROOT)}  {size / 1000:.0f} kB", flush=True)
        assert size <= BYTES_MAX, f"{path.name} is larger than {BYTES_MAX / 1000:.0f} kB"


async def design(studio: Studio) -> None:
    """The houses, from the samples of the designer."""
    for sample in SAMPLES:
        async with studio.visit("desktop") as visitor:
            await as_operator(visitor)
            page = await visitor.open("/design")
            await page.get_by_role("button", name=f"Start from: {sample}").click()
            await page.get_by_role("button", name="Save the event").click()
            await expect(page.get_by_text("is saved")).to_be_visible(timeout=WAIT_MS)
            link = page.get_by_role("link", name="See it as buyers do")
            address = await link.get_attribute("href")
            assert address is not None
            SAMPLES[sample] = address.rpartition("/")[2]


async def as_operator(visitor: Visitor) -> Page:
    page = await visitor.open(f"/ops#key={ADMIN}")
    await expect(page.get_by_test_id("ops-status")).to_contain_text("Live")
    return page


def sell(served: Served, event: str, part: float, most: int) -> None:
    """So much of the house, to parties of two to so many; some of them have yet to pay."""
    told = served.call("GET", f"/v1/events/{event}/seats").json()
    rows: dict[tuple[str, str], list[str]] = {}
    for seat in told["seats"]:
        rows.setdefault((seat["section"], seat["row"]), []).append(seat["id"])
    parties: list[list[str]] = []
    for row in rows.values():
        at = 0
        while at < len(row):
            party = row[at : at + PEOPLE.randint(2, most)]
            at += len(party)
            if PEOPLE.random() < part:
                parties.append(party)
    # Many at a time, for one buyer: it is the picture that counts.
    cap = served.call("GET", f"/v1/events/{event}").json()["max_per_buyer"]
    served.call("PATCH", f"/v1/events/{event}", {"max_per_buyer": None})
    PEOPLE.shuffle(parties)
    waiting = parties[: max(3, len(parties) // 12)]
    buying = [seat for party in parties[len(waiting) :] for seat in party]
    for at in range(0, len(buying), 80):
        buy(served, event, *buying[at : at + 80])
    for at in range(0, len(waiting), 12):
        hold(served, event, *(seat for party in waiting[at : at + 12] for seat in party))
    served.call("PATCH", f"/v1/events/{event}", {"max_per_buyer": cap})


class Crowd(threading.Thread):
    """People who hold, buy, change their minds and come too late, in waves."""

    def __init__(self, url: str, events: list[str]) -> None:
        super().__init__(daemon=True)
        self._url = url
        self._events = events
        self._ends = threading.Event()
        told = requests.get(f"{url}/v1/events/{events[0]}/seats", headers=KEY, timeout=30)
        self._wanted: str = told.json()["seats"][0]["id"]

    def stop(self) -> None:
        self._ends.set()
        self.join()

    def run(self) -> None:
        people = random.Random(3)
        with requests.Session() as session:
            session.headers.update(KEY)
            began = time.monotonic()
            number = 0
            while not self._ends.is_set():
                number += 1
                self._one(session, people, number)
                wave = 1 + math.sin((time.monotonic() - began) / 9)
                self._ends.wait(0.002 + 0.02 * wave * people.random())

    def _one(self, session: requests.Session, people: random.Random, number: int) -> None:
        event = people.choices(self._events, (3, 1))[0]
        ask: dict[str, Any] = {"buyer": f"u-{number}", "best": [{"quantity": people.randint(1, 4)}]}
        if people.random() < 0.15:
            ask = {"buyer": f"u-{number}", "seats": [self._wanted]}
        if event == SAMPLES["Club night"]:
            ask = {"buyer": f"u-{number}", "pools": {"Floor": people.choice((1, 2, 2, 3, 9))}}
        held = session.post(f"{self._url}/v1/events/{event}/holds", json=ask, timeout=10)
        if held.status_code == 201 and people.random() < 0.7:
            body = {"hold": held.json()["id"], "payment": {"method": "sandbox:ok"}}
            headers = {"Idempotency-Key": f"crowd-{number}"}
            session.post(f"{self._url}/v1/orders", json=body, headers=headers, timeout=10)


async def map_and_checkout(studio: Studio, look: str) -> None:
    event = SAMPLES["Small theatre"]
    told = studio.served.call("GET", f"/v1/events/{event}/seats").json()["seats"]
    stalls = [
        seat["id"] for seat in told if seat["state"] == "available" and "talls" in seat["section"]
    ]
    [first, second] = beside(stalls)
    for scheme in ("dark", "light"):
        async with studio.visit(look, color_scheme=scheme) as visitor:
            stage = Stage(await visitor.open(f"/e/{event}"))
            await stage.ready()
            await stage.click(first, second)
            button = stage.button("Hold 2" if look == "desktop" else "Hold")
            await expect(button).to_be_enabled()
            # A finger that is gone points at nothing.
            pointer = await stage.point(second) if look == "desktop" else (200, 20)
            await stage.page.mouse.move(*pointer)
            dark = "-dark" if scheme == "dark" else ""
            await studio.shoot(stage.page, f"map{dark}-{look}")
            if scheme == "dark":
                continue
            await button.click()
            await stage.at("Held for you")
            if look == "desktop":
                await studio.shoot(stage.page, f"checkout-{look}")
                await stage.button("Release").click()
            else:
                await stage.pay()
                await stage.order()
                await studio.shoot(stage.page, f"checkout-{look}")


def beside(seats: list[str]) -> list[str]:
    """Two of one row, with numbers that follow each other."""
    free = set(seats)
    for seat in seats:
        row, _, number = seat.rpartition("-")
        if (neighbour := f"{row}-{int(number) + 1}") in free:
            return [seat, neighbour]
    raise SystemExit("no two seats are free side by side")


async def stadium(studio: Studio, look: str) -> None:
    async with studio.visit(look, **FAR[look]) as visitor:
        stage = Stage(await visitor.open(f"/e/{SAMPLES['Stadium']}"))
        await stage.ready()
        await studio.shoot(stage.page, f"stadium-{look}")


async def designer(studio: Studio, look: str) -> None:
    async with studio.visit(look) as visitor:
        page = await visitor.open("/design")
        await page.get_by_role("button", name="Start from: Small theatre").click()
        await expect(page.get_by_text("Ready to save")).to_be_visible()
        # Past the samples, to the form and the map beside it.
        await page.locator(".design-gallery > summary").click()
        await page.evaluate("scrollTo(0, 0)")
        await studio.shoot(page, f"design-{look}")


async def lab(studio: Studio) -> None:
    async with studio.visit("desktop") as visitor:
        page = await visitor.open("/lab")
        verdict = page.get_by_test_id("lab-verdict")
        await page.get_by_role("button", name="Naive: watch it oversell").click()
        await page.get_by_role("button", name="Start the stampede").click()
        await expect(verdict).to_contain_text("sold to", timeout=WAIT_MS)
        await page.get_by_role("button", name="10,000 buyers, 1 seat").click()
        await page.get_by_role("button", name="Start the stampede").click()
        await expect(verdict).to_contain_text("it was sold once", timeout=WAIT_MS)
    for look in LOOKS:
        async with studio.visit(look) as visitor:
            page = await visitor.open("/lab")
            await expect(page.get_by_test_id("lab-verdict")).to_be_visible()
            if look == "phone":
                await page.get_by_test_id("lab-outcome").scroll_into_view_if_needed()
                await page.evaluate("document.querySelector('.outcome').scrollIntoView()")
            await studio.shoot(page, f"lab-{look}")


async def take(served: Served) -> None:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=chromium_program(), args=list(ARGUMENTS)
        )
        studio = Studio(browser, served)
        await design(studio)
        sell(served, SAMPLES["Small theatre"], 0.6, 6)
        sell(served, SAMPLES["Stadium"], 0.55, 40)
        await lab(studio)
        crowd = Crowd(served.url, [SAMPLES["Arena"], SAMPLES["Club night"]])
        crowd.start()
        try:
            async with studio.visit("desktop") as desk, studio.visit("phone") as phone:
                began = time.monotonic()
                operators = [await as_operator(each) for each in (desk, phone)]
                for look in LOOKS:
                    await map_and_checkout(studio, look)
                    await stadium(studio, look)
                    await designer(studio, look)
                await asyncio.sleep(max(0.0, LOAD_SECONDS - (time.monotonic() - began)))
                for look, page in zip(LOOKS, operators, strict=True):
                    await studio.shoot(page, f"ops-{look}")
        finally:
            await asyncio.to_thread(crowd.stop)
        await browser.close()


def main() -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        settings = {"lab": "open", "sqlite_synchronous": "NORMAL", "address_rate": 10_000}
        store = f"sqlite:///{Path(folder) / 'shop.db'}"
        with serving(store, cwd=Path(folder), **settings) as served:
            asyncio.run(take(served))


if __name__ == "__main__":
    main()
