"""One browser and one service for all tests of the pages; a visitor of its own for each test."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, async_playwright

from tests.api.serving import Served, serving
from tests.browser.visitors import Visitor, visiting
from tests.conftest import needed
from tests.services import SERVICES, chromium_program

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "src" / "holdfast" / "pages" / "dist" / "index.html"
ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--disable-background-networking", "--mute-audio"),
)
SETTINGS: dict[str, object] = {
    "sqlite_synchronous": "NORMAL",
    "lab": "open",
    "expire_seconds": 0.1,
}
"""As the demo has them, but in a hurry."""


def pytest_collection_modifyitems(items) -> None:
    """One browser for all: two workers would start two."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.xdist_group("browser"))
            item.add_marker(pytest.mark.service)
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def built() -> None:
    """The pages as they are in web/, not as they were some time ago."""
    if not BUILT.exists():
        needed(next(service.version for service in SERVICES if service.name == "Node.js"))
        pytest.fail("the pages are not built: run make web")
    web = ROOT / "web"
    sources = [path for folder in ("src", "public") for path in (web / folder).rglob("*")]
    sources += [path for kind in ("json", "ts", "html") for path in web.glob(f"*.{kind}")]
    newest = max(sources, key=lambda path: path.stat().st_mtime)
    if newest.stat().st_mtime > BUILT.stat().st_mtime:
        pytest.fail(f"{newest.relative_to(ROOT)} is newer than the built pages: run make web")


@pytest.fixture(scope="session")
async def browser(built) -> AsyncIterator[Browser]:
    program = needed(chromium_program)
    async with async_playwright() as playwright:
        found = await playwright.chromium.launch(executable_path=program, args=list(ARGUMENTS))
        yield found
        await found.close()


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Iterator[Served]:
    """A service on SQLite, as `make run` has it. Events have names of their own."""
    folder = tmp_path_factory.mktemp("site")
    with serving(f"sqlite:///{folder / 'shop.db'}", cwd=folder, **SETTINGS) as served:
        yield served


Visiting = Callable[..., AbstractAsyncContextManager[Visitor]]


@pytest.fixture
def visit(browser, site) -> Visiting:
    """Somebody with an empty browser: `async with visit() as visitor`."""

    def somebody(url: str = site.url, **options: Any) -> AbstractAsyncContextManager[Visitor]:
        return visiting(browser, url, **options)

    return somebody


@pytest.fixture
async def visitor(visit) -> AsyncIterator[Visitor]:
    async with visit() as somebody:
        yield somebody
