"""axe-core has nothing serious to say about any page, in light and in dark."""

import re

from playwright.async_api import expect

from tests.api.serving import ADMIN
from tests.browser.axe import findings
from tests.browser.box_office import buy, hold, make_event
from tests.browser.stage import Stage


async def test_an_event_from_the_list_to_the_ticket(site, visitor):
    event = make_event(site, hold_seconds=480)
    hold(site, event, "A-1-1")
    buy(site, event, "A-1-2")
    visitor.expect(r"^402 /v1/orders", r"^409 /v1/events/.*/holds")
    page = await visitor.open("/")
    await page.get_by_role("link", name=f"See what is left: Show {event}").wait_for()
    found = await findings(page)
    stage = Stage(await visitor.open(f"/e/{event}"))
    await stage.ready()
    await stage.pick("A-2-4")
    found += await findings(page)
    await stage.button("List").click()
    await page.locator("summary").first.click()
    found += await findings(page)
    await stage.button("Hold 1").click()
    await stage.at("Held for you")
    found += await findings(page)
    await stage.pay("Card that is declined")
    await stage.at("The payment was declined")
    await stage.pay()
    await stage.at("It is yours")
    found += await findings(page)
    await page.set_viewport_size({"width": 360, "height": 740})
    found += await findings(page)
    assert not found, "\n\n".join(found)


async def test_lab_operations_and_designer(site, visitor):
    event = make_event(site)
    buy(site, event, "A-1-2")
    page = await visitor.open("/lab")
    await page.get_by_label("Buyers").fill("200")
    await page.get_by_role("button", name="Start the stampede").click()
    await expect(page.get_by_test_id("lab-verdict")).to_contain_text("0 oversold", timeout=30_000)
    found = await findings(page)
    await visitor.open("/ops")
    await page.get_by_label("Admin key").wait_for()
    found += await findings(page)
    await visitor.open("/")
    await visitor.open(f"/ops#key={ADMIN}")
    await expect(page.get_by_test_id("ops-status")).to_have_text(re.compile("Live"))
    await expect(page.locator(f"[data-event={event}]")).to_be_visible()
    found += await findings(page)
    await visitor.open("/design")
    await page.get_by_role("button", name="Start from: Small theatre").click()
    await expect(page.get_by_text("Ready to save")).to_be_visible()
    await page.locator(".toast").get_by_role("button", name="Close").click()
    await page.evaluate("scrollTo(0, 0)")
    found += await findings(page)
    await page.set_viewport_size({"width": 390, "height": 844})
    found += await findings(page)
    assert not found, "\n\n".join(found)
