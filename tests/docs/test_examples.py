"""What the documentation shows is run: every example of a page, in order, in an empty folder.

    ```python     run; `await` at the top level is allowed, and the blocks of a page share names
    ```console    each `$ holdfast ...` is run and must exit 0; lines below it are its output, in
                  which `...` stands for anything, and a line of `...` alone for any lines
    ```json       must parse; after `<!-- file: NAME.json -->` it is an event that can be created
    ```toml       must parse
    ```text       only looked at

A block after `<!-- file: NAME -->` is also written to that file, for the blocks that follow. A page
with `<!-- serve -->` has a service at SERVED, whose admin key is in HOLDFAST_KEY.
"""

import ast
import asyncio
import inspect
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import holdfast
from holdfast import Created, Holdfast, Reason
from holdfast.domain import plan
from holdfast.settings import PREFIX, Settings
from tests.api.serving import ADMIN, serving

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [page for page in (ROOT / "README.md", *sorted(DOCS.glob("*.md"))) if page.exists()]
KINDS = ("python", "console", "json", "toml", "text")

SERVE = "<!-- serve -->"
SERVED = "http://127.0.0.1:8000"

FENCE = re.compile(r"```(\w*)$")
FILE = re.compile(r"<!-- file: ([\w.-]+) -->$")
LINK = re.compile(r"\]\(([^)#\s]*)#?([^)\s]*)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


class Block(NamedTuple):
    kind: str
    line: int
    """The line of its fence, counted from 1."""
    text: str
    file: str | None


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def read_blocks(page: Path) -> Iterator[Block]:
    lines = iter(enumerate(page.read_text(encoding="utf-8").splitlines(), 1))
    file: str | None = None
    for number, line in lines:
        if marked := FILE.match(line):
            file = marked[1]
        elif fence := FENCE.match(line):
            body = []
            for _, inner in lines:
                if inner == "```":
                    break
                body.append(inner)
            yield Block(fence[1], number, "\n".join(body) + "\n", file)
            file = None


@pytest.mark.parametrize("page", PAGES, ids=name_of)
async def test_every_example_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(PREFIX)]:
        monkeypatch.delenv(name)
    names: dict[str, Any] = {"__name__": page.stem}
    with served(page, tmp_path) as url:
        monkeypatch.setenv(PREFIX + "KEY", ADMIN)
        for block in read_blocks(page):
            try:
                block = block._replace(text=block.text.replace(SERVED, url))
                await run_block(page, block, names)
            except Exception as failure:
                failure.add_note(f"in the example at {name_of(page)}:{block.line}")
                raise


@contextmanager
def served(page: Path, folder: Path) -> Iterator[str]:
    """Where the service of the page is, if it has one."""
    if SERVE not in page.read_text(encoding="utf-8"):
        yield SERVED
        return
    with serving("memory://", cwd=folder) as service:
        yield service.url


async def run_block(page: Path, block: Block, names: dict[str, Any]) -> None:
    assert block.kind in KINDS, f"a block is one of {', '.join(KINDS)}; what is not run is text"
    if block.file:
        write(block.file, block.text)
    match block.kind:
        case "python":
            await run_python(page, block, names)
        case "console":
            await asyncio.to_thread(run_console, block)
        case "json":
            event = json.loads(block.text)
            if block.file:
                await create(event)
        case "toml":
            tomllib.loads(block.text)


def write(file: str, text: str) -> None:
    Path(file).write_text(text, encoding="utf-8")


async def run_python(page: Path, block: Block, names: dict[str, Any]) -> None:
    # The page is the file and the lines are its lines, so that a traceback shows the example.
    source = "\n" * block.line + block.text
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code = compile(source, str(page), "exec", flags=flags, dont_inherit=True)
    if code.co_flags & inspect.CO_COROUTINE:
        await eval(code, names)
    else:
        # `asyncio.run` and the blocking API want a thread in which no loop is running.
        await asyncio.to_thread(exec, code, names)


async def create(event: dict[str, Any]) -> None:
    async with Holdfast.open("memory://", upkeep=False) as shop:
        outcome = await shop.create_event(event)
        assert isinstance(outcome, Created), outcome


def run_console(block: Block) -> None:
    for command, expected in commands(block.text):
        program, *arguments = shlex.split(command)
        assert program == "holdfast", f"only holdfast is run here; tag the block text: {command}"
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", *arguments],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(holdfast.__file__).parents[1])},
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        if expected:
            assert shows(expected, done.stdout), f"{command}\n{done.stdout}"


def commands(text: str) -> list[tuple[str, list[str]]]:
    """Each command with the output shown below it."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line.removeprefix("$ "), []))
        else:
            found[-1][1].append(line.rstrip())
    return found


def shows(expected: list[str], output: str) -> bool:
    pattern = "".join(
        r"(?:.*\n)*" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + r"\n"
        for line in expected
    )
    printed = "".join(line.rstrip() + "\n" for line in output.splitlines())
    return re.fullmatch(pattern, printed) is not None


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page):
    for file, heading in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" in file:
            continue
        target = page.parent / file if file else page
        assert target.exists(), file
        assert not heading or heading in anchors(target), f"{file}#{heading}"


def anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub writes them into links."""
    headings = HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings}


def test_every_page_is_in_the_index():
    linked = [file for file, _ in LINK.findall((DOCS / "README.md").read_text(encoding="utf-8"))]
    pages = {page.name for page in DOCS.glob("*.md")}
    assert pages - set(linked) == {"README.md"}


NAMED = {
    "refusals-and-errors.md": [reason.value for reason in Reason],
    "settings.md": [
        *Settings.__struct_fields__,
        *(PREFIX + name.upper() for name in Settings.__struct_fields__),
    ],
    "events.md": sorted(
        {*plan.EVENT_FIELDS, *plan.SECTION_FIELDS, *plan.SEAT_FIELDS, *plan.POOL_FIELDS}
    ),
}


@pytest.mark.parametrize("page", NAMED)
def test_a_page_that_lists_names_lists_them_all(page):
    """A reason, setting or field that is added in code is missed here until it is explained."""
    text = (DOCS / page).read_text(encoding="utf-8")
    assert [name for name in NAMED[page] if f"`{name}`" not in text] == []
