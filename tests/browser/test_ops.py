"""Operations: what happens is seen a moment later, and what is switched is switched."""

import re
from collections.abc import Iterator

import pytest
from playwright.async_api import Page, expect

from tests.api.serving import ADMIN, Served, serving
from tests.browser.box_office import buy, hold, make_event
from tests.browser.stage import Stage
from tests.browser.visitors import until
from tests.conftest import needed
from tests.servers import Postgres, Redis, running

SOON_MS = 15_000


async def operations(page: Page) -> None:
    await expect(page.get_by_test_id("ops-status")).to_have_text(re.compile("Live"))


async def test_a_sale_is_seen_and_a_pause_stops_the_next(site, visitor, visit):
    event = make_event(site)
    visitor.expect(r"^401 /v1/system")
    page = await visitor.open("/ops")
    await page.get_by_label("Admin key").fill("not a key")
    await page.get_by_role("button", name="Use this key").click()
    await expect(page.get_by_role("alert")).to_have_text("The service does not take this key.")
    # The key of an address is taken out of it before anybody can copy it.
    await visitor.open("/")
    await visitor.open(f"/ops#key={ADMIN}")
    await operations(page)
    assert "#" not in page.url
    await page.get_by_role("region", name="Events").wait_for()
    # With so many events that not all are shown at first, it is looked for.
    if await page.get_by_label("Find an event").count():
        await page.get_by_label("Find an event").fill(event)
    row = page.locator(f"[data-event={event}]")
    await expect(row).to_contain_text("0 of 90")
    tile = page.get_by_test_id("tile-revenue")
    revenue = await tile.inner_text()
    chart = page.get_by_role("img", name="Holds and sales, the last five minutes")
    quiet = await chart.get_attribute("aria-label") or ""

    buy(site, event, "A-1-1", "A-1-2")
    await expect(row).to_contain_text("2 of 90", timeout=SOON_MS)
    await expect(row).to_contain_text("€180.00")
    await expect(tile).not_to_have_text(revenue)
    feed = page.get_by_role("region", name="Just booked")
    await expect(feed.get_by_role("listitem").first).to_contain_text("A-1-1")
    await expect(chart).not_to_have_attribute("aria-label", quiet)
    assert re.search(r"Holds (\S+), Sales", quiet), quiet

    async with visit() as buyer:
        stage = Stage(await buyer.open(f"/e/{event}"))
        await stage.ready()
        await stage.pick("A-2-1")
        await page.get_by_role("button", name=f"Pause Show {event}").click()
        await expect(row).to_contain_text("Paused")
        buyer.expect(r"^409 /v1/events/.*/holds")
        await stage.button("Hold 1").click()
        await expect(stage.page.get_by_text("not on sale right now").first).to_be_visible()
        await expect(stage.page.get_by_text("The sale is paused.")).to_be_visible()
        await page.get_by_role("button", name=f"Open Show {event}").click()
        await expect(row).to_contain_text("On sale")
        await expect(stage.page.get_by_text("The sale is paused.")).to_be_hidden(timeout=SOON_MS)
        await stage.button("Hold 1").click()
        await stage.at("Held for you")


@pytest.fixture
def gated(tmp_path) -> Iterator[Served]:
    """PostgreSQL, and Redis before it."""
    postgres = needed(lambda: running(Postgres, fsync="off", full_page_writes="off"))
    redis = needed(lambda: running(Redis))
    settings = {"lab": "open", "policy": "two-layer", "gate_prefix": "pages"}
    with serving(postgres.url, cwd=tmp_path, gate=redis.url, **settings) as served:
        yield served


TRIES = 5


def gate_of(gated: Served, event: str) -> bool:
    found: bool = gated.call("GET", f"/v1/events/{event}").json()["gate"]
    return found


async def begun(gated: Served, *, before: set[str]) -> str:
    """The new run, when some of its crowd were answered: its event is there, with its gate."""

    def new() -> list[str]:
        runs = gated.call("GET", "/v1/lab/runs").json()["runs"]
        return [
            run["id"] for run in runs if run["progress"]["answered"] and run["id"] not in before
        ]

    await until(new)
    return new()[0]


async def test_a_gate_switched_off_in_mid_run_lets_nothing_be_oversold(gated, visit):
    event = make_event(gated, max_per_buyer=None)
    async with visit(gated.url) as crowd, visit(gated.url) as operator:
        page = await operator.open(f"/ops#key={ADMIN}")
        await operations(page)
        gate = page.get_by_role("switch", name="Gate before every event")
        await expect(gate).to_be_checked()
        await expect(page.get_by_test_id("gate-state")).to_have_text(re.compile("Answers"))

        lab = await crowd.open("/lab")
        await lab.get_by_label("Buyers").fill("20000")
        await lab.get_by_label("How many").fill("1000")
        await lab.get_by_label("Holds live in").select_option("two-layer")
        # Through the service it takes seconds: long enough for a hand.
        await lab.get_by_label("Over HTTP").check()
        runs: set[str] = set()
        for _ in range(TRIES):
            await lab.get_by_role("button", name="Start the stampede").click()
            id = await begun(gated, before=runs)
            await gate.click()
            await until(lambda: not gate_of(gated, event))
            run = gated.call("GET", f"/v1/lab/runs/{id}").json()
            if run["state"] == "running":
                break
            # The crowd was faster than the hand.
            runs.add(id)
            await gate.click()
            await until(lambda: gate_of(gated, event))
        assert run["state"] == "running", "it was switched off before the end"
        await until(lambda: not gate_of(gated, f"lab-{id}"))
        hold(gated, event, "A-1-1")

        await expect(lab.get_by_test_id("lab-verdict")).to_contain_text(
            "0 oversold", timeout=60_000
        )
        result = gated.call("GET", f"/v1/lab/runs/{id}").json()["result"]
        assert (result["sold"], result["oversold"], result["errors"]) == (1_000, 0, 0)
        await gate.click()
        await expect(gate).to_be_checked()
        await page.get_by_role("button", name="Reconcile now").click()
        await expect(page.get_by_test_id("reconciled")).to_contain_text("compared in")
        await until(lambda: gated.call("GET", "/v1/system").json()["drift"] == {})
