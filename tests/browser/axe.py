"""axe-core on a page as it stands. Its script comes through the browser's debugger, not through the
page: the content security policy stays as it is served."""

import asyncio
from pathlib import Path
from typing import Any

from playwright.async_api import Page

SOURCE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
ANSWER_SECONDS = 40.0
GRAVE = ("serious", "critical")
RUN = """axe.run(document, {
  resultTypes: ["violations"],
  runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
})"""

# Colours that are on their way from light to dark are nobody's, and so is a panel that was just
# swapped and takes no clicks for a moment. A page of which nothing is drawn anew has no frames, and
# nothing in it moves.
STILL = """async () => {
  const until = performance.now() + 1000;
  const moves = () => document.querySelector(".settling") !== null ||
    document.getAnimations().some((each) => each instanceof CSSTransition);
  for (let still = 0; still < 3 && performance.now() < until; ) {
    await Promise.race([
      new Promise(requestAnimationFrame),
      new Promise((drawn) => setTimeout(drawn, 100)),
    ]);
    still = moves() ? 0 : still + 1;
  }
}"""


async def findings(page: Page) -> list[str]:
    """What is seriously or critically wrong, each with where and why; in light and in dark."""
    found: list[str] = []
    for scheme in ("light", "dark"):
        # None of these has an end of its own; a page that answers nothing is to be told by name.
        async with asyncio.timeout(ANSWER_SECONDS):
            await page.emulate_media(color_scheme=scheme)
            await page.evaluate(STILL)
            found += [f"{scheme}: {each}" for each in await _grave(page)]
    return found


async def _grave(page: Page) -> list[str]:
    session = await page.context.new_cdp_session(page)
    if not (await _run(session, "'axe' in globalThis"))["value"]:
        await _run(session, SOURCE.read_text(encoding="utf-8") + "; 1")
    answer = await _run(session, RUN)
    await session.detach()
    return [
        f"{rule['id']}: {node['target']}: {node['failureSummary']}"
        for rule in answer["value"]["violations"]
        if rule["impact"] in GRAVE
        for node in rule["nodes"]
    ]


async def _run(session: Any, expression: str) -> Any:  # a CDP session, and whatever it answers
    told = await session.send(
        "Runtime.evaluate",
        {"expression": expression, "awaitPromise": True, "returnByValue": True},
    )
    assert "exceptionDetails" not in told, told["exceptionDetails"]
    return told["result"]
