"""The controls: what the tests of the pages look for, they find where it is."""

from functools import partial

import pytest

from tests.browser.axe import findings
from tests.browser.conftest import BUILT, Visiting
from tests.browser.frames import Frames, Gap, drawn, numbers
from tests.browser.visitors import until

CAUSES = {
    "page error: thrown": "setTimeout(() => { throw new Error('thrown'); })",
    "console: said": "console.error('said')",
    "policy script-src-elem stopped inline": """
        const script = document.createElement("script");
        script.textContent = "globalThis.inlined = true";
        document.head.append(script);
    """,
    "policy style-src-attr stopped inline": """
        document.body.insertAdjacentHTML("beforeend", '<b style="color: red">inline</b>');
    """,
    "policy script-src stopped eval": "setTimeout(() => { try { eval('1') } catch {} })",
    "policy connect-src stopped http://other": "fetch('http://other:9/').catch(() => {})",
    "401 /v1/events/nothing": "fetch('/v1/events/nothing')",
    "left the host: http://localhost": """
        location.assign(location.href.replace('127.0.0.1', 'localhost'))
    """,
}


async def misbehave(visit: Visiting, seen: list[str]) -> None:
    async with visit() as visitor:
        visitor.expect("console: said")
        visitor.troubles = seen
        page = await visitor.open("/")
        await page.get_by_role("main").wait_for()
        for wanted, cause in CAUSES.items():
            await page.evaluate(f"() => {{ {cause} }}")
            await until(partial(noticed, seen, wanted))
        assert "console: said" not in visitor.unexpected


def noticed(seen: list[str], wanted: str) -> bool:
    return any(wanted in trouble for trouble in seen)


async def test_whatever_goes_wrong_on_a_page_is_noticed_and_fails_the_test(visit):
    seen: list[str] = []
    with pytest.raises(AssertionError, match="page error: thrown"):
        await misbehave(visit, seen)
    assert [wanted for wanted in CAUSES if not noticed(seen, wanted)] == []


async def test_axe_finds_what_is_wrong_on_a_page(visitor):
    page = await visitor.open("/")
    await page.get_by_role("main").wait_for()
    await page.evaluate("() => document.body.append(document.createElement('button'))")
    found = await findings(page)
    assert [each for each in found if each.startswith("light: button-name")]
    assert [each for each in found if each.startswith("dark: button-name")]


async def test_pages_carry_a_policy_that_allows_nothing_inline(site, built):
    for path in ("/", "/e/any", "/lab", "/ops", "/design"):
        answer = site.session.get(site.url + path, timeout=10)
        policy = answer.headers["Content-Security-Policy"]
        assert answer.status_code == 200
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
    assert "<script>" not in BUILT.read_text(encoding="utf-8")


def sent(since: int | None, *frames: tuple[int, int] | int) -> Frames:
    connection = Frames("ws://host/live" + ("" if since is None else f"?since={since}"))
    for frame in frames:
        connection.take(
            f'{{"type": "snapshot", "seq": {frame}, "seats": []}}'
            if isinstance(frame, int)
            else f'{{"type": "changes", "from": {frame[0]}, "to": {frame[1]}, "changes": []}}'
        )
    return connection


def test_numbers_that_join_are_told_and_a_gap_is_noticed():
    whole = [sent(None, 3, (4, 4), (5, 7)), sent(7, (8, 9))]
    assert numbers(whole) == (3, [4, 5, 6, 7, 8, 9])
    assert drawn(whole, {}) == {}
    for broken in (
        [sent(None, 3, (5, 6))],
        [sent(None, 3, (4, 6), (6, 7))],
        [sent(None, 3, (4, 6)), sent(6, (8, 9))],
        [sent(None, 3, (4, 6)), sent(None, 9)],
        [sent(3, (5, 6))],
    ):
        with pytest.raises(Gap):
            numbers(broken)
