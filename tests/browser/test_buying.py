"""A buyer on the page of an event: from the map to the ticket, and back from what goes wrong."""

import asyncio
import re

from playwright.async_api import Page, WebSocketRoute, expect

from tests.browser.box_office import held, hold, make_event, seq, states
from tests.browser.stage import Stage, tab_to

REFUSED = r"^409 /v1/events/.*/holds"
DECLINED = r"^402 /v1/orders"
UNDER_WAY = r"409 /v1/orders"
"""The other tab takes the payment up, and may ask while it is being made: then it asks again."""

UNDER = """([x, y]) => new MutationObserver((_, watch) => {
  if (!document.querySelector("[role=timer]")) return;
  window.under = document.elementFromPoint(x, y).closest("button, label, a")?.textContent ?? "";
  watch.disconnect();
}).observe(document.body, { childList: true, subtree: true })"""
"""Remembers what is under the pointer at the moment in which a hold appears."""


class Behind:
    """A page that hears nothing of what others do, as it is for a moment in a crowd."""

    def __init__(self) -> None:
        self._kept: list[tuple[WebSocketRoute, str | bytes]] = []
        self._late = True

    @classmethod
    async def on(cls, page: Page) -> "Behind":
        behind = cls()
        await page.route_web_socket(re.compile("/live"), behind._connect)
        return behind

    def catch_up(self) -> None:
        self._late = False
        while self._kept:
            socket, frame = self._kept.pop(0)
            socket.send(frame)

    def _connect(self, socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()
        server.on_message(lambda frame: self._hear(socket, frame))

    def _hear(self, socket: WebSocketRoute, frame: str | bytes) -> None:
        if self._late and "snapshot" not in str(frame):
            self._kept.append((socket, frame))
        else:
            socket.send(frame)


async def test_a_whole_purchase_ends_with_a_ticket_and_a_sale_in_the_books(site, visitor):
    event = make_event(site, hold_seconds=480)
    page = await visitor.open("/")
    await page.get_by_role("link", name=f"See what is left: Show {event}").click()
    stage = Stage(page)
    await stage.ready()
    await page.mouse.move(*await stage.point("A-2-4"))
    await expect(page.locator(".map-tip")).to_contain_text("Section A, row 2, seat 4")
    await expect(page.locator(".map-tip")).to_contain_text("€90.00")
    await stage.pick("A-2-4", "A-2-5")
    await page.get_by_role("button", name="One more: floor").click()
    await stage.button("Hold 3").click()
    await stage.at("Held for you")
    await expect(page.get_by_test_id("total")).to_have_text("€225.00")
    await expect(page.get_by_role("timer")).to_have_text(re.compile(r"^(8:00|7:5\d)$"))
    assert held(site, event) == {"A-2-4", "A-2-5"}
    await stage.button("More time").click()
    await expect(page.get_by_text("No more time can be added.")).to_be_visible()

    await stage.pay()
    order = site.call("GET", f"/v1/orders/{await stage.order()}").json()
    assert (order["state"], order["payment"]["state"]) == ("confirmed", "captured")
    assert (sorted(order["seats"]), order["pools"]) == (["A-2-4", "A-2-5"], {"floor": 1})
    ticket = page.get_by_role("article", name="Ticket")
    await expect(ticket).to_contain_text("€225.00")
    code = ticket.get_by_role("img", name=f"QR code of order {order['id']}")
    assert len(await code.locator("path").get_attribute("d") or "") > 1_000
    await stage.button("Book more").click()
    await stage.at("Your choice")
    await expect(page.get_by_text("you have 3 already")).to_be_visible()
    assert states(site, event)["A-2-4"] == "sold"


async def test_a_hasty_hand_keeps_its_hold_and_sees_where_it_is(site, visitor):
    event = make_event(site)
    stage = Stage(await visitor.open(f"/e/{event}"))
    await stage.ready()
    page, tip = stage.page, stage.page.locator(".map-tip")
    await stage.pick("A-3-8")
    await expect(tip).to_contain_text("picked")
    await stage.click("A-3-8")
    await expect(tip).to_contain_text("available")
    # Close to a corner, and what is best is elsewhere.
    for _ in range(4):
        await page.mouse.wheel(0, -400)
    await page.get_by_role("button", name="One more: Best seats").click()
    button = await stage.button("Hold 1").bounding_box()
    assert button
    there = [button["x"] + button["width"] / 2, button["y"] + button["height"] / 2]
    await page.evaluate(UNDER, there)
    await page.mouse.dblclick(*there)
    await stage.at("Held for you")
    assert await page.evaluate("() => window.under") == "", "what a second click would have meant"
    [seat] = held(site, event)
    inside = """([map, seat]) => {
      const { x, y } = map.pointOf(seat), box = map.getBoundingClientRect();
      return x > box.left && x < box.right && y > box.top && y < box.bottom; }"""
    await page.wait_for_function(inside, arg=[await stage.view.element_handle(), seat])
    await stage.button("Show all").click()
    await expect(stage.button("Show all")).to_be_disabled()
    await stage.click("A-3-1")
    await expect(tip).to_contain_text("Press Change to choose other seats")
    await expect(page.locator(".toast")).to_contain_text("Press Change")
    await stage.at("Held for you")
    assert held(site, event) == {seat}


async def test_of_two_browsers_one_gets_the_seat_and_the_other_the_one_beside_it(site, visit):
    event = make_event(site)
    async with visit() as one, visit() as other:
        stages, behind = [], []
        for visitor in (one, other):
            visitor.expect(REFUSED)
            behind.append(await Behind.on(visitor.page))
            stages.append(Stage(await visitor.open(f"/e/{event}")))
        for stage in stages:
            await stage.ready()
            await stage.pick("A-2-3")
        await asyncio.gather(*(stage.button("Hold 1").click() for stage in stages))
        told = "text=/^(Held for you|Someone was faster)/"
        await asyncio.gather(*(stage.page.locator(told).first.wait_for() for stage in stages))
        answers = sorted(status for status, path in one.answers + other.answers if "/holds" in path)
        assert answers == [201, 409]
        [loser] = [stage for stage in stages if await stage.refusal.count()]
        [winner] = [stage for stage in stages if stage is not loser]
        await winner.at("Held for you")

        for each in behind:
            each.catch_up()
        await expect(loser.refusal).to_contain_text("faster: Section A, row 2, seat 3 is gone")
        offer = await loser.refusal.inner_text()
        offered = re.search(r"nearest free seat is Section A, row (\d), seat (\d)", offer)
        assert offered, offer
        near = "A-{}-{}".format(*offered.groups())
        assert near in ("A-2-2", "A-2-4", "A-1-3", "A-3-3")
        await loser.button("Take this one instead").click()
        await loser.at("Held for you")
        assert held(site, event) == {"A-2-3", near}
        # Each sees the other's as taken, by the live map.
        await expect(winner.map).to_have_attribute("data-seq", seq(site, event))
        await winner.page.mouse.move(*await winner.point(near))
        await expect(winner.page.locator(".map-tip")).to_contain_text("held by somebody else")


async def test_by_keys_alone_through_the_list_a_refusal_leads_to_other_seats(site, visitor):
    event = make_event(site)
    page = visitor.page
    await Behind.on(page)
    visitor.expect(REFUSED)
    stage = Stage(await visitor.open(f"/e/{event}"))
    await stage.ready()
    await tab_to(page, "List")
    await page.keyboard.press("Enter")
    await tab_to(page, "Section A")
    await page.keyboard.press("Enter")
    await tab_to(page, "Section A, row 1, seat 1,")
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "Space", "ArrowRight", "Enter"):
        await page.keyboard.press(key)
    picked = page.get_by_test_id("seat-list").get_by_role("button", pressed=True)
    await expect(picked).to_have_count(2)
    hold(site, event, "A-2-3")
    await tab_to(page, "Hold 2")
    await page.keyboard.press("Enter")
    await expect(stage.refusal).to_be_focused()
    await expect(stage.refusal.get_by_role("alert")).to_contain_text("row 2, seat 3 is gone")
    lost = page.locator("[data-seat=A-2-3]")
    await expect(lost).to_have_attribute("aria-label", re.compile("somebody was faster"))
    await expect(page.get_by_role("button", name=", suggested")).to_have_count(1)
    await tab_to(page, "Take this one instead")
    await page.keyboard.press("Enter")
    await stage.at("Held for you")
    assert len(held(site, event)) == 3
    assert {"A-2-3", "A-2-4"} < held(site, event)
    await tab_to(page, "Pay ")
    await page.keyboard.press("Enter")
    await stage.at("It is yours")


async def test_the_map_is_walked_by_keys(site, visitor):
    event = make_event(site)
    stage = Stage(await visitor.open(f"/e/{event}"))
    await stage.ready()
    page = stage.page
    told = page.get_by_test_id("map-focus")
    await tab_to(page, "Seat map")
    await expect(told).to_contain_text("seat")
    seen = set()
    for key in ("ArrowRight", "ArrowDown", "Shift+ArrowRight", "PageDown", "End", "+", "-", "0"):
        await page.keyboard.press(key)
        seen.add(await told.inner_text())
    assert len(seen) >= 4
    await expect(told).to_contain_text("Section B")
    words = await told.inner_text()
    await page.keyboard.press("Enter")
    await expect(told).to_have_text(re.compile("picked"))
    await expect(stage.button("Hold 1")).to_be_enabled()
    row, seat = re.findall(r"row (\d), seat (\d)", words)[0]
    await expect(
        page.get_by_role("button", name=f"Remove Section B, row {row}, seat {seat}")
    ).to_be_visible()


async def test_a_hold_that_expires_says_so_and_can_be_had_again(site, visitor):
    event = make_event(site, hold_seconds=2, max_extensions=0)
    stage = Stage(await visitor.open(f"/e/{event}"))
    await stage.ready()
    await stage.hold("A-1-4", "A-1-5")
    await stage.at("Time ran out")
    await expect(stage.page.get_by_text("They are still free.")).to_be_visible()
    assert set(states(site, event).values()) == {"available"}
    await stage.button("Hold them again").click()
    await stage.at("Held for you")
    await stage.pay()
    order = site.call("GET", f"/v1/orders/{await stage.order()}").json()
    assert sorted(order["seats"]) == ["A-1-4", "A-1-5"]


async def test_a_declined_payment_a_reload_and_a_second_tab_keep_the_hold(site, visitor):
    event = make_event(site)
    visitor.expect(DECLINED, UNDER_WAY)
    stage = Stage(await visitor.open(f"/e/{event}"))
    await stage.ready()
    more = stage.page.get_by_role("button", name="One more: Best seats")
    await more.click()
    await more.click()
    await stage.button("Hold 2").click()
    await stage.at("Held for you")
    seats = held(site, event)
    assert len(seats) == 2

    await stage.pay("Card that is declined")
    await stage.at("The payment was declined")
    await expect(stage.page.get_by_role("alert")).to_contain_text("still yours")
    await stage.page.reload()
    await stage.at("Held for you")
    second = Stage(await visitor.tab(f"/e/{event}"))
    await second.at("Held for you")
    await second.page.get_by_role("button", name=re.compile("^Change")).click()
    await second.at("Your choice")
    await expect(second.button("Hold 2")).to_be_enabled()
    await stage.at("Released")
    await second.button("Hold 2").click()
    await stage.at("Held for you")
    await second.pay()
    order = site.call("GET", f"/v1/orders/{await second.order()}").json()
    assert set(order["seats"]) == seats
    assert await stage.order() == order["id"], "the first tab has the same ticket"
