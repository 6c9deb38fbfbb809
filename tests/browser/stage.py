"""The page of an event, as a buyer uses it: by the mouse on the map, or by the keys in the list."""

from playwright.async_api import Locator, Page, expect


class Stage:
    def __init__(self, page: Page) -> None:
        self.page = page
        self.map = page.get_by_test_id("map")
        self.view = page.get_by_role("application", name="Seat map")
        self.refusal = page.locator("[data-reason]")

    async def ready(self) -> None:
        await expect(self.map).to_have_attribute("data-connection", "live")

    async def point(self, seat: str) -> tuple[float, float]:
        """Where the seat is in the window."""
        at = await self.view.evaluate("(map, seat) => map.pointOf(seat)", seat)
        assert at is not None, f"{seat} is not on the map"
        return at["x"], at["y"]

    async def click(self, *seats: str) -> None:
        for seat in seats:
            await self.page.mouse.click(*await self.point(seat))

    async def pick(self, *seats: str) -> None:
        await self.click(*seats)
        await expect(self.button(f"Hold {len(seats)}")).to_be_enabled()

    async def hold(self, *seats: str) -> None:
        await self.pick(*seats)
        await self.button(f"Hold {len(seats)}").click()
        await self.at("Held for you")

    async def at(self, phase: str) -> None:
        """Waits until the basket is in that phase, by its title."""
        await expect(self.page.get_by_role("heading", name=phase, exact=True)).to_be_visible()

    async def pay(self, card: str = "Card that works") -> None:
        await self.page.get_by_role("radio", name=card).check()
        await self.page.get_by_role("button", name="Pay ").click()

    async def order(self) -> str:
        """The number of the order on the ticket."""
        await self.at("It is yours")
        return (await self.page.get_by_test_id("order-id").inner_text()).strip()

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    def basket(self) -> Locator:
        return self.page.get_by_role("listitem")


async def tab_to(page: Page, name: str, most: int = 60) -> None:
    """Presses Tab until what has the focus is called so: whoever has no mouse gets there too."""
    for _ in range(most):
        await page.keyboard.press("Tab")
        called = await page.evaluate(
            "() => { const at = document.activeElement;"
            " return at.getAttribute('aria-label') || at.textContent.trim(); }"
        )
        if called.startswith(name):
            return
    raise AssertionError(f"Tab does not get to {name!r}")
