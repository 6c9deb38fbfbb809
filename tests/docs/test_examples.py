"""What the documentation shows is run: every example of a page, in order, in an empty folder.

    ```python     run; `await` at the top level is allowed, and the blocks of a page share names
    ```console    each `$ command` is run and must exit 0; lines below it are its output, in which
                  `...` stands for anything, and a line of `...` alone for any lines
    ```json       must parse; after `<!-- file: NAME.json -->` it is an event that can be created
    ```toml       must parse
    ```text       only looked at

A block after `<!-- file: NAME -->` is also written to that file, for the blocks that follow; a
program (NAME.py) is only written, and a command runs it. A page with `<!-- serve -->` has a service
at SERVED, whose admin key is in HOLDFAST_KEY. The command after `<!-- start -->` itself serves
there, or at its own address as the sandbox does, until the page ends.
"""

import ast
import asyncio
import inspect
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

import holdfast
from holdfast import Created, Holdfast, Reason
from holdfast.cli.sandbox import sandbox
from holdfast.domain import plan
from holdfast.settings import PREFIX, Settings
from tests import services
from tests.api.serving import ADMIN, serving

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [page for page in (ROOT / "README.md", *sorted(DOCS.rglob("*.md"))) if page.exists()]
KINDS = ("python", "console", "json", "toml", "text")
PROGRAMS = ("holdfast", "python", "curl", "uvicorn")
WAIT_SECONDS_MAX = 30.0

SERVE = "<!-- serve -->"
START = "<!-- start -->"
SERVED = "http://127.0.0.1:8000"
SANDBOX = f"http://127.0.0.1:{inspect.signature(sandbox).parameters['port'].default}"

FENCE = re.compile(r"```(\w*)$")
FILE = re.compile(r"<!-- file: ([\w.-]+) -->$")
ASSIGNED = re.compile(r"([A-Z]+)=\$\((.+)\)$")
LINK = re.compile(r"\]\(([^)#\s]*)#?([^)\s]*)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


class Block(NamedTuple):
    kind: str
    line: int
    """The line of its fence, counted from 1."""
    text: str
    file: str | None
    starts: bool
    """Its command serves until the page ends."""


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def read_blocks(page: Path) -> Iterator[Block]:
    lines = iter(enumerate(page.read_text(encoding="utf-8").splitlines(), 1))
    file: str | None = None
    starts = False
    for number, line in lines:
        if marked := FILE.match(line):
            file = marked[1]
        elif line == START:
            starts = True
        elif fence := FENCE.match(line):
            body = []
            for _, inner in lines:
                if inner == "```":
                    break
                body.append(inner)
            yield Block(fence[1], number, "\n".join(body) + "\n", file, starts)
            file, starts = None, False


@pytest.mark.parametrize("page", PAGES, ids=name_of)
async def test_every_example_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(PREFIX)]:
        monkeypatch.delenv(name)
    names: dict[str, Any] = {"__name__": page.stem}
    with served(page, tmp_path) as url:
        monkeypatch.setenv(PREFIX + "KEY", ADMIN)
        terminal = Terminal(url, address(page))
        try:
            for block in read_blocks(page):
                try:
                    block = block._replace(text=block.text.replace(terminal.shown, terminal.url))
                    await run_block(page, block, names, terminal)
                except Exception as failure:
                    failure.add_note(f"in the example at {name_of(page)}:{block.line}")
                    raise
        finally:
            await asyncio.to_thread(terminal.close)


@contextmanager
def served(page: Path, folder: Path) -> Iterator[str]:
    """Where the service of the page is, if it has one."""
    if SERVE not in page.read_text(encoding="utf-8"):
        yield address(page)
        return
    with serving("memory://", cwd=folder) as service:
        yield service.url


def address(page: Path) -> str:
    """Where a reader who types what the page shows finds its service."""
    started = [block.text for block in read_blocks(page) if block.starts]
    return SANDBOX if any(text.startswith("$ holdfast sandbox") for text in started) else SERVED


async def run_block(page: Path, block: Block, names: dict[str, Any], terminal: "Terminal") -> None:
    assert block.kind in KINDS, f"a block is one of {', '.join(KINDS)}; what is not run is text"
    if block.file:
        write(block.file, block.text)
    match block.kind:
        case "python" if block.file:
            compile(block.text, block.file, "exec", dont_inherit=True)
        case "python":
            await run_python(page, block, names)
        case "console" if block.starts:
            await asyncio.to_thread(terminal.start, block)
        case "console":
            await asyncio.to_thread(terminal.run, block)
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


class Terminal:
    """Where the commands of a page are typed: what they set and start stays until its end."""

    def __init__(self, url: str, shown: str) -> None:
        self.url = url
        """What stands in place of the address that is shown."""
        self.shown = shown
        # The programs of this environment come first, and they see this very source.
        self._environment = {
            **os.environ,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": str(Path(holdfast.__file__).parents[1]),
        }
        self._servers: list[subprocess.Popen[bytes]] = []

    def run(self, block: Block) -> None:
        for command, expected in commands(block.text):
            assigned = ASSIGNED.match(command)
            output = self._output(assigned[2] if assigned else command)
            if assigned:
                assert output.strip(), f"{command}\nprinted nothing"
                self._environment[assigned[1]] = output.strip()
            elif expected:
                assert shows(expected, output), f"{command}\n{output}"

    def _output(self, command: str) -> str:
        done = subprocess.run(
            ["sh", "-c", self._allowed(command)],
            capture_output=True,
            text=True,
            env=self._environment,
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def _allowed(self, command: str) -> str:
        program = shlex.split(command)[0]
        assert program in PROGRAMS, f"{program} is not run here; tag the block text: {command}"
        if shutil.which(program, path=self._environment["PATH"]) is None:
            assert not services.strict(), f"{program} is missing"
            pytest.skip(f"{program} is missing, which the page uses")
        return command

    def start(self, block: Block) -> None:
        """On a free port, until the page ends. It has to serve, and to print what is shown."""
        [(command, expected)] = commands(block.text)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        printed = Path(f"server-{port}.log")
        with printed.open("wb") as log:
            server = subprocess.Popen(
                ["sh", "-c", f"exec {self._allowed(command)} --port {port}"],
                env=self._environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._servers.append(server)

        def output() -> str:
            return printed.read_text(encoding="utf-8").replace(self.url, self.shown)

        def serves() -> bool:
            assert server.poll() is None, f"{command}\n{output()}"
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                return shows(expected or ["..."], output())
            return False

        assert wait_until(serves), f"{command}\n{output()}"

    def close(self) -> None:
        for server in self._servers:
            server.terminate()
        for server in self._servers:
            try:
                server.wait(WAIT_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def wait_until(true: Callable[[], bool]) -> bool:
    ends = time.monotonic() + WAIT_SECONDS_MAX
    while not (answer := true()) and time.monotonic() < ends:
        time.sleep(0.02)
    return answer


def commands(text: str) -> list[tuple[str, list[str]]]:
    """Each command with the output shown below it."""
    found: list[tuple[str, list[str]]] = []
    for line in text.replace("\\\n", "").splitlines():
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
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
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


def test_every_metric_that_an_alert_names_is_there():
    alerts = (DOCS / "production.md").read_text(encoding="utf-8")
    listed = (DOCS / "observing.md").read_text(encoding="utf-8")
    named = {name.removesuffix("_bucket") for name in re.findall(r"holdfast_[a-z_]+", alerts)}
    assert named
    assert [name for name in sorted(named) if f"`{name}`" not in listed] == []


def test_every_default_is_the_one_that_the_settings_page_says():
    text = (DOCS / "settings.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \| [^|]+ \| `HOLDFAST_\w+` \|$", text, re.M))
    said = {name: value.strip("`").replace(",", "") for name, value in rows.items()}
    defaults = msgspec.structs.asdict(Settings())
    assert said == {name: shown(value) for name, value in defaults.items()}


def shown(default: object) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    return f"{default:g}" if isinstance(default, float) else str(default) or "none"
