"""The lab: a crowd from a button, its result, and two tabs that fight for one seat."""

import re
from typing import Any

from playwright.async_api import Page, expect

from tests.api.serving import Served
from tests.browser.box_office import make_event
from tests.browser.visitors import until

RUN_MS = 30_000


def runs(served: Served) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = served.call("GET", "/v1/lab/runs").json()["runs"]
    return found


async def stampede(page: Page, **fields: int) -> None:
    for label, value in fields.items():
        await page.get_by_label(label.replace("_", " ")).fill(str(value))
    await page.get_by_role("button", name="Start the stampede").click()


async def test_a_stampede_oversells_nothing_and_the_naive_one_shows_that_it_could(site, visitor):
    before = len(runs(site))
    page = await visitor.open("/lab")
    verdict = page.get_by_test_id("lab-verdict")
    await stampede(page, Buyers=2_000, How_many=3)
    await expect(verdict).to_contain_text("0 oversold", timeout=RUN_MS)
    await expect(verdict).to_contain_text("3 seats, and each was sold once.")
    ours = runs(site)[0]["result"]
    assert (ours["sold"], ours["rejected"], ours["oversold"], ours["errors"]) == (3, 1_997, 0, 0)
    await expect(page.get_by_role("img", name="Histogram of waiting times")).to_be_visible()
    reached = page.locator("figure", has_text="What of the crowd reached the database")
    await expect(reached).to_contain_text(f"{ours['reached_authority']:,}")

    await page.get_by_role("radio", name="HTTP").check()
    await stampede(page, Buyers=300, How_many=1)
    await expect(verdict).to_contain_text("1 seat, and it was sold once.", timeout=RUN_MS)
    assert (runs(site)[0]["over"], runs(site)[0]["result"]["sold"]) == ("http", 1)

    await page.get_by_role("button", name="Naive: watch it oversell").click()
    await stampede(page, Buyers=200)
    await expect(verdict).to_have_text(re.compile(r"^[1-9][\d,]* oversold"), timeout=RUN_MS)
    naive = runs(site)[0]["result"]
    assert naive["oversold"] == naive["sold"] - 1 > 0
    await expect(verdict).to_contain_text(f"One seat was sold to {naive['sold']} buyers.")

    rows = page.get_by_role("region", name="Earlier runs").last.get_by_role("row")
    await expect(rows).to_have_count(before + 3 + 1)
    await page.reload()
    await expect(rows).to_have_count(before + 3 + 1)
    for nth in (1, 3):
        await rows.nth(nth).get_by_role("checkbox").check()
    side = page.get_by_test_id("lab-comparison")
    await expect(side.get_by_role("article")).to_have_count(2)
    await expect(side).to_contain_text("0 oversold")
    await expect(side).to_contain_text(f"{naive['oversold']} oversold")


async def test_of_two_tabs_that_fight_for_one_seat_exactly_one_wins(site, visitor):
    event = make_event(site, name="The ring")
    visitor.expect(r"^409 /v1/events/.*/holds")
    page = await visitor.open("/lab")
    await page.get_by_label("Event", exact=True).select_option(event)
    fought = page.get_by_test_id("duel-verdict")
    for _ in range(2):
        await page.get_by_role("button", name="Both click now").click()
        await expect(fought).to_contain_text("Exactly one won.")
        await page.get_by_role("button", name="Give it back, once more").click()
    await expect(page.get_by_text("2 rounds: ")).to_contain_text("both won 0")
    answers = [status for status, path in visitor.answers if path.endswith(f"/{event}/holds")]
    assert sorted(answers) == [201, 201, 409, 409]
    await until(lambda: site.call("GET", f"/v1/events/{event}").json()["held"] == 0)
