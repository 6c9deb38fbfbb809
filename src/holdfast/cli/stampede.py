"""holdfast stampede: a crowd on a few seats, and what the authority has to say about it."""

import asyncio
import contextlib
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Annotated

import msgspec
import typer

from holdfast.cli.options import typed
from holdfast.cli.shared import (
    REFUSED,
    Failed,
    GateOption,
    JsonOption,
    PolicyOption,
    complain,
    print_json,
    print_pairs,
    refused,
    say,
)
from holdfast.domain.outcomes import Refused
from holdfast.engine import Holdfast
from holdfast.errors import HoldfastError
from holdfast.ids import Ids
from holdfast.lab import stampede as lab
from holdfast.lab.stampede import Report, Tally
from holdfast.settings import PREFIX, Settings, configured, load_settings

BUYERS_MAX = 1_000_000
SEATS_MAX = 60_000
PROCESSES_MAX = 64
CONNECTIONS = 500
CONNECTIONS_MAX = 10_000
READY = b"ready\n"
GO = b"go\n"


BuyersOption = Annotated[
    int,
    typer.Option(metavar="N", min=1, max=BUYERS_MAX, help="People who want a seat, all at once."),
]
SeatsOption = Annotated[
    int, typer.Option(metavar="N", min=1, max=SEATS_MAX, help="Seats there are.")
]
TrialStoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="The authority, as for every command; but where none is configured, memory://.",
    ),
]
ProcessesOption = Annotated[
    int,
    typer.Option(
        metavar="N", min=1, max=PROCESSES_MAX, help="Processes that the buyers come through."
    ),
]
UrlOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="A running service, asked over HTTP, instead of a store of its own."
    ),
]
KeyOption = Annotated[
    str | None,
    typer.Option(
        metavar="KEY",
        help="An admin's API key for --url. Else HOLDFAST_KEY, else HOLDFAST_ADMIN_KEY.",
    ),
]
ConnectionsOption = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, max=CONNECTIONS_MAX, help="Connections to --url at a time. Else 500."
    ),
]


def stampede(
    context: typer.Context,
    buyers: BuyersOption = 1000,
    seats: SeatsOption = 1,
    store: TrialStoreOption = None,
    gate: GateOption = None,
    policy: PolicyOption = None,
    processes: ProcessesOption = 1,
    url: UrlOption = None,
    key: KeyOption = None,
    connections: ConnectionsOption = None,
    as_json: JsonOption = False,
    join: Annotated[str | None, typer.Option(hidden=True)] = None,
    first: Annotated[int, typer.Option(hidden=True, min=0, max=BUYERS_MAX)] = 0,
) -> int:
    """Send a crowd after a few seats and count what was sold.

    Every buyer wants one seat, and who gets it buys it. What was sold, and whether more than
    there is, is then counted from the authority's rows. The event it makes, stampede-ID, is closed
    afterwards and stays as evidence. Exit code 0 when exactly the seats there are were sold and
    nobody got an error, else 1.

    Example: holdfast stampede --buyers 10000 --seats 5 --store sqlite:///try.db --processes 4

    Example: holdfast stampede --buyers 10000 --seats 5 --url http://127.0.0.1:8000
    """
    if url is not None:
        own = {"--store": store, "--gate": gate, "--policy": policy}
        own["--processes"] = str(processes) if processes > 1 else None
        return _remote(url, _key(key, own), buyers, seats, connections or CONNECTIONS, as_json)
    for name in ("key", "connections"):
        if typed(context, name):
            raise Failed(f"--{name} is for --url")
    settings = _settings(store, gate, policy)
    if join is not None:
        asyncio.run(_join(settings, join, range(first, first + buyers), seats))
        return 0
    if processes > 1 and settings.store == "memory://":
        raise Failed("processes cannot share memory://: add --store sqlite:///stampede.db")
    if processes > 1 and settings.gate == "memory://":
        raise Failed("processes cannot share the gate memory://: add --gate redis://host:port/0")
    shares = _shares(buyers, min(processes, buyers))
    result, errors = asyncio.run(_stampede(settings, shares, seats))
    return _ended(result, errors, result.faults, as_json)


def _ended(result: Report, errors: dict[str, int], faults: list[str], as_json: bool) -> int:
    if as_json:
        print_json(result)
    else:
        print_report(result)
    for text, times in errors.items():
        complain(f"{times:,} buyers: {text}")
    for fault in faults:
        complain(fault)
    return REFUSED if faults else 0


def _key(given: str | None, own: dict[str, str | None]) -> str:
    """The key for a service, where nothing was said that only goes without one."""
    for option, value in own.items():
        if value is not None:
            raise Failed(f"{option} does not go with --url: the service has its own")
    key = given or os.environ.get(PREFIX + "KEY") or os.environ.get(PREFIX + "ADMIN_KEY")
    if not key:
        raise Failed("--url needs an admin's key: --key KEY, or HOLDFAST_KEY in the environment")
    return key


def _remote(url: str, key: str, buyers: int, seats: int, connections: int, as_json: bool) -> int:
    try:
        from holdfast.lab import remote
    except ImportError as missing:
        raise Failed(str(missing)) from None
    with progress(buyers) as on_progress:
        done = asyncio.run(remote.stampede(url, key, buyers, seats, connections, on_progress))
    return _ended(done.report, done.errors, done.report.faults + done.doubts, as_json)


def print_report(result: Report) -> None:
    """The result for a person, in a few lines."""
    print_pairs(
        [
            ("buyers", f"{result.buyers:,}"),
            ("seats", f"{result.seats:,}"),
            ("sold", f"{result.sold:,}"),
            ("refused", f"{result.rejected:,}"),
            ("errors", f"{result.errors:,}"),
            ("oversold", f"{result.oversold:,}"),
            ("took", f"{result.elapsed_ms / 1000:.2f} s, {result.rate:,} answers a second"),
            ("waited", f"{result.p50_ms:,.0f} ms (half), {result.p99_ms:,.0f} ms (99 %)"),
            ("store", result.store),
            ("gate", f"{result.gate}, policy {result.policy}"),
        ]
    )
    if result.oversold:
        say(f"OVERSOLD by {result.oversold:,}, counted from the authority's rows", "bold red")
    else:
        say("not oversold, counted from the authority's rows", "bold green")


@contextlib.contextmanager
def progress(buyers: int) -> Iterator[Callable[[Tally], None] | None]:
    """A live display on stderr, where that is a terminal; else nothing."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    bar = Progress(
        TextColumn("{task.completed:>9,} answered"),
        BarColumn(),
        TextColumn("[red]{task.fields[sold]:,} sold[/] [dim]{task.fields[rejected]:,} refused[/]"),
        TextColumn("{task.fields[rate]:,}/s"),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task("", total=buyers, sold=0, rejected=0, rate=0)

    def on_progress(tally: Tally) -> None:
        rate = round(tally.answered * 1_000_000 / max(tally.ended_us - tally.began_us, 1))
        bar.update(
            task, completed=tally.answered, sold=tally.sold, rejected=tally.rejected, rate=rate
        )

    with bar:
        yield on_progress


def _settings(store: str | None, gate: str | None, policy: str | None) -> Settings:
    """A trial must not fill the shop's file unasked: without a word about a store, in memory."""
    if store is None and not configured("store"):
        store = "memory://"
    return load_settings({"store": store, "gate": gate, "policy": policy})


def _shares(buyers: int, processes: int) -> list[range]:
    """The buyers' numbers, cut into as many parts; no number is in two."""
    cuts = [buyers * nth // processes for nth in range(processes + 1)]
    return [range(start, stop) for start, stop in pairwise(cuts)]


async def _stampede(
    settings: Settings, shares: list[range], seats: int
) -> tuple[Report, dict[str, int]]:
    event = f"stampede-{Ids().new()}"
    async with _shop(settings) as shop:
        created = await shop.create_event(lab.house(event, seats))
        if isinstance(created, Refused):
            raise refused(created)
        try:
            if len(shares) == 1:
                with progress(len(shares[0])) as on_progress:
                    tally = await lab.stampede(shop, event, shares[0], seats, on_progress)
            else:
                tally = await _spread(settings, event, shares, seats)
        finally:
            # Also when interrupted: nobody shall buy a seat of a trial later on.
            with contextlib.suppress(HoldfastError):
                await shop.close_event(event)
        found = await lab.count(shop.store, event, seats)
        gate = shop.gate.url if shop.gate else "none"
        result = lab.report(tally, found, seats, shop.store.url, gate, settings.policy)
        return result, tally.errors


def _shop(settings: Settings) -> Holdfast:
    return Holdfast.open(**msgspec.structs.asdict(settings), upkeep=False)


async def _spread(settings: Settings, event: str, shares: list[range], seats: int) -> Tally:
    """Runs every share in a process of its own; they begin when all of them are ready."""
    children: list[Process] = []
    try:
        for share in shares:
            children.append(await _start(settings, event, share, seats))
        ready = [await child.stdout.readline() for child in children if child.stdout]
        if any(line != READY for line in ready):
            raise Failed(await _trouble(children))
        printed = await asyncio.gather(*(child.communicate(GO) for child in children))
        if any(child.returncode for child in children):
            raise Failed(_last_line(*(stderr for _, stderr in printed)), REFUSED)
        return lab.merged([msgspec.json.decode(stdout, type=Tally) for stdout, _ in printed])
    finally:
        for child in children:
            if child.returncode is None:
                child.kill()
                await child.wait()


async def _start(settings: Settings, event: str, share: range, seats: int) -> Process:
    arguments = {"--join": event, "--first": share.start, "--buyers": len(share), "--seats": seats}
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast.cli", "stampede"),
        *(str(each) for pair in arguments.items() for each in pair),
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        # Not on the command line, where everybody on the machine could read a password.
        env={
            **os.environ,
            PREFIX + "STORE": settings.store,
            PREFIX + "GATE": settings.gate,
            PREFIX + "POLICY": settings.policy,
        },
    )


async def _trouble(children: list[Process]) -> str:
    """What the first process that did not get ready said last."""
    for child in children:
        if child.stdin:
            child.stdin.close()
    printed = await asyncio.gather(*(child.communicate() for child in children))
    return _last_line(*(stderr for _, stderr in printed))


def _last_line(*stderrs: bytes) -> str:
    lines = [line for text in stderrs for line in text.decode(errors="replace").splitlines()[-1:]]
    said = lines[0].removeprefix("holdfast: ") if lines else "it said nothing"
    return f"a process of the stampede failed: {said}"


async def _join(settings: Settings, event: str, buyers: range, seats: int) -> None:
    """One process of several: gets ready, says so, waits for the word, and reports its tally."""
    async with _shop(settings) as shop:
        names = await lab.wanted(shop, event, seats)
        sys.stdout.buffer.write(READY)
        sys.stdout.buffer.flush()
        if await _go():
            tally = await lab.stampede(shop, event, buyers, names)
            print_json(tally)


async def _go() -> bool:
    """Waits for the word; False if whoever would give it has gone."""
    loop = asyncio.get_running_loop()
    said = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), said.set)
    await said.wait()
    loop.remove_reader(sys.stdin.fileno())
    return bool(sys.stdin.readline())
