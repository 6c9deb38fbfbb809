"""An event from the designer: drawn, kept, carried away as files and back, saved and sold."""

import json
from pathlib import Path
from typing import Any

from playwright.async_api import Locator, Page, expect

from tests.api.serving import ADMIN
from tests.browser.stage import Stage

BOXES = "id,section,row,number,tier,x,y\nBOX-1,BOX,1,1,box,20,2\nBOX-2,BOX,1,2,box,21,2\n"
SAMPLES = {
    "Small theatre": range(150, 600),
    "Arena": range(19_000, 21_000),
    "Stadium": range(59_000, 61_000),
    "Club night": range(100, 5_000),
    "Sneaker drop": range(10, 5_000),
    "Clinic appointments": range(20, 1_000),
}


class Desk:
    def __init__(self, page: Page) -> None:
        self.page = page
        self.preview = page.get_by_role("application", name="Seat map")
        self.file = page.get_by_label("An event as JSON, a design, or seats as CSV")

    def card(self, name: str) -> Locator:
        return self.page.get_by_role("region", name=name, exact=True)

    async def figure(self, name: str, value: str) -> None:
        figures = self.page.get_by_test_id("design-figures").locator("div", has_text=name)
        await expect(figures.first.locator("dd")).to_have_text(value)

    async def export(self, kind: str, folder: Path) -> Path:
        await self.page.locator("summary", has_text="Export").click()
        async with self.page.expect_download() as download:
            await self.page.get_by_role("button", name=kind).click()
        got = await download.value
        await got.save_as(folder / got.suggested_filename)
        return folder / got.suggested_filename

    async def seats(self) -> Any:
        return await self.preview.evaluate("map => ['A-1-1', 'B-1-1', 'BOX-1'].map(map.pointOf)")


async def test_an_event_is_designed_saved_and_sold(site, visitor, tmp_path):
    visitor.expect(r"^401 /v1/events")
    page = await visitor.open("/design")
    desk = Desk(page)
    await expect(page.get_by_role("button", name="to correct")).to_have_count(0)
    await page.get_by_label("Name").first.fill("Garden party")
    await expect(page.get_by_label("Id", exact=True)).to_have_value("garden-party")
    prices = desk.card("Prices")
    await prices.get_by_role("button", name="Add a price").click()
    await prices.get_by_label("Tier").nth(1).fill("box")
    await prices.get_by_label("Price in EUR").nth(1).fill("120.50")
    await desk.card("Arcs").get_by_role("button", name="Add an arc").click()
    await desk.card("Pools").get_by_role("button", name="Add a pool").click()
    await desk.card("Pools").get_by_label("Places").fill("40")
    boxes = tmp_path / "boxes.csv"
    boxes.write_text(BOXES)
    await desk.file.set_input_files(boxes)
    await page.get_by_role("dialog").get_by_role("button", name="Use these seats").click()
    await desk.figure("Places in pools", "40")
    assert all(await desk.seats()), "sections, arcs and single seats are all in the preview"

    # What is kept survives a reload; what is exported comes back as it was.
    await page.reload()
    await expect(page.get_by_label("Id", exact=True)).to_have_value("garden-party")
    written = await desk.export("Event (JSON)", tmp_path)
    event = json.loads(written.read_text())
    assert (event["id"], event["prices"]) == ("garden-party", {"standard": 4500, "box": 12050})
    seats = (await desk.export("Seats (CSV)", tmp_path)).read_text().splitlines()
    await page.get_by_role("button", name="Start anew").click()
    await expect(page.get_by_label("Id", exact=True)).to_have_value("")
    await desk.file.set_input_files(written)
    await expect(page.get_by_label("Id", exact=True)).to_have_value("garden-party")
    assert json.loads((await desk.export("Event (JSON)", tmp_path)).read_text()) == event

    await page.get_by_role("button", name="Save the event").click()
    who = page.get_by_role("dialog", name="Who are you?")
    await who.get_by_role("button", name="Save the event").click()
    await expect(who.get_by_role("alert")).to_have_text("Enter a key first.")
    await who.get_by_label("Admin key").fill(ADMIN)
    await who.get_by_role("button", name="Save the event").click()
    await expect(page.get_by_text("Garden party is saved")).to_be_visible()
    made = site.call("GET", "/v1/events/garden-party").json()
    assert (made["state"], made["capacity"]) == ("on_sale", len(seats) - 1 + 40)

    await page.get_by_role("button", name="Save as another").click()
    await expect(page.get_by_label("Id", exact=True)).to_have_value("garden-party-2")
    await expect(page.get_by_role("button", name="Save the event")).to_be_visible()
    await page.get_by_role("button", name="Undo").click()
    await page.get_by_role("link", name="See it as buyers do").click()
    stage = Stage(page)
    await stage.ready()
    await stage.hold("BOX-1")
    await expect(page.get_by_test_id("total")).to_have_text("€120.50")
    await stage.pay()
    order = site.call("GET", f"/v1/orders/{await stage.order()}").json()
    assert (order["seats"], order["amount"]) == (["BOX-1"], 12050)


async def test_faults_are_told_where_they_are_and_every_sample_can_be_saved(site, visitor):
    page = await visitor.open("/design")
    desk = Desk(page)
    await page.get_by_role("button", name="Save the event").click()
    await expect(page.get_by_label("Id", exact=True)).to_be_focused()
    await expect(page.get_by_role("button", name="to correct").first).to_be_visible()
    for name, size in SAMPLES.items():
        await page.get_by_role("button", name=f"Start from: {name}").click()
        await expect(page.get_by_text("Ready to save")).to_be_visible()
        units = page.get_by_test_id("design-figures").locator("div", has_text="Units").locator("dd")
        assert int((await units.inner_text()).replace(",", "")) in size
    await page.get_by_role("button", name="Undo").click()
    await desk.figure("Places in pools", "1,000")
