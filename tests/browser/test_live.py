"""The map is live: what it is sent joins without a gap, whatever happens to the line."""

import pytest
from playwright.async_api import expect

from tests.browser.box_office import buy, hold, log, make_event, release, seq, states
from tests.browser.frames import Frames, drawn, numbers
from tests.browser.lines import line_to

CUT = (
    r"net::ERR_(CONNECTION|EMPTY|SOCKET|INCOMPLETE)",
    r"WebSocket connection to .* failed",
)
"""What a browser says of a line that was cut. Nothing else may be said then."""

LISTED = """() => Object.fromEntries(Array.from(document.querySelectorAll("[data-seat]"), (seat) =>
  [seat.dataset.seat, ["available", "held", "sold"].find((each) => seat.classList.contains(each))]))
"""


@pytest.mark.parametrize("transport", ["websocket", "stream"])
async def test_after_a_lost_connection_no_number_is_missing(site, visit, transport):
    event = make_event(site)
    before, began = states(site, event), int(seq(site, event))
    async with line_to(site.url, sockets=transport == "websocket") as line:
        async with visit(line.url) as visitor:
            if transport == "stream":
                visitor.expect(r"WebSocket connection to .* failed")
            page = await visitor.open(f"/e/{event}")
            live = page.get_by_test_id("map")
            await expect(live).to_have_attribute("data-connection", "live")
            await expect(live).to_have_attribute("data-transport", transport)
            given_back = hold(site, event, "A-1-1", "A-1-2")
            buy(site, event, "A-1-3")
            await expect(live).to_have_attribute("data-seq", seq(site, event))

            visitor.expect(*CUT)
            await line.cut()
            await expect(live).to_have_attribute("data-connection", "reconnecting")
            await expect(page.get_by_text("Reconnecting").first).to_be_visible()
            release(site, given_back)
            buy(site, event, "A-2-4", "A-2-5")
            await line.mend()

            await expect(live).to_have_attribute("data-connection", "live")
            hold(site, event, "B-1-1")
            await expect(live).to_have_attribute("data-seq", seq(site, event))
            await expect(page.get_by_text("Reconnecting")).to_have_count(0)
            connections: list[Frames] = [each for each in visitor.frames if each.all]
            await page.get_by_role("button", name="List").click()
            for section in await page.locator("details.seat-section > summary").all():
                await section.click()
            await expect(page.locator("[data-seat]")).to_have_count(len(before))
            assert await page.evaluate(LISTED) == states(site, event)
        if transport == "stream":
            assert line.refused
            found = [Frames.of_stream(*map(bytes, each)) for each in line.carried]
            connections = [each for each in found if each and each.all]
    first, told = numbers(connections)
    assert first == began, "the map that it was given first"
    assert len(connections) == 2
    assert connections[1].since is not None, "it went on where it was, and did not begin anew"
    assert told == log(site, event, first)
    assert drawn(connections, before) == states(site, event)
