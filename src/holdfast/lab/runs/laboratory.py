"""Performs runs for a service: claims the lab, starts a crowd, writes down how it goes.

The crowd is a process of its own, so that a worker serves others meanwhile. Only where the store or
the gate is in this worker's memory, it comes from here: there is no other way to them.
"""

import asyncio
import contextlib
import logging
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Awaitable, Callable

import msgspec
from msgspec.structs import replace

from holdfast.domain.outcomes import Refused
from holdfast.engine import Holdfast
from holdfast.errors import HoldfastError, StoreError
from holdfast.lab import stampede
from holdfast.lab.contest.places import on_disk
from holdfast.lab.runs.board import Board, Claim, Lost
from holdfast.lab.runs.crowd import TELL_SECONDS, Failure, Order, Said, Tell, click
from holdfast.lab.runs.offers import serverless
from holdfast.lab.runs.trials import (
    HOLDFAST,
    RUN_SECONDS_MAX,
    Crowded,
    Progress,
    Result,
    Run,
    Trial,
)
from holdfast.stores.addresses import without_secrets
from holdfast.tasks import end_task

END_SECONDS = 5.0
"""For a crowd that is told to stop: then it is killed."""
LENGTHEN_SECONDS = 3.0
SAVE_TRIES = 5
OURS = "our fault; the service's log has more about it"
STOPPED = "the service was stopped, or its workers renewed, while it ran"
TOO_LONG = f"stopped: it took longer than {RUN_SECONDS_MAX} seconds"

log = logging.getLogger("holdfast.lab")

_read = msgspec.json.Decoder(Said).decode


class Unclean(HoldfastError):
    """The crowd has failed, and left tables."""


class Pass(msgspec.Struct, frozen=True):
    """A key to the service for one crowd."""

    key: str
    end: Callable[[], Awaitable[None]]


class Laboratory:
    def __init__(
        self,
        shop: Holdfast,
        admit: Callable[[], Awaitable[Pass]],
        batches: Callable[[], Awaitable[tuple[int, int]]],
    ) -> None:
        """`admit` makes a key for a crowd that comes over HTTP; `batches` tells how many batches,
        and commands in them, all workers have had applied so far."""
        self.url = ""
        """Where this service is served."""
        self._shop = shop
        self._admit = admit
        self._batches = batches
        self._board = Board(shop.store)
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    async def start(self, trial: Trial, key: str | None) -> Run | None:
        """The run, begun; None while another goes on."""
        if self._stopping:
            return None
        run = Run(self._shop.clerk.ids.new(), trial, 0, key=key)
        board = Board(self._shop.store)
        claimed = await board.claim(run, tables=self._makes_tables(trial))
        if claimed is None:
            return None
        run, left = claimed
        # The claim of ours before has ended, or lapsed: so does what performed under it.
        await end_task(self._task)
        self._task = asyncio.create_task(Performance(self, board, run, left).perform())
        return run

    def _makes_tables(self, trial: Trial) -> bool:
        return trial.strategy != HOLDFAST and not serverless(self._shop.settings)

    async def find(self, id: str) -> Run | None:
        return await self._board.find(id)

    async def all(self) -> list[Run]:
        return await self._board.all()

    async def stop(self) -> None:
        """What runs is ended and says so."""
        self._stopping = True
        await end_task(self._task)

    # What a performance needs

    @property
    def shop(self) -> Holdfast:
        return self._shop

    @property
    def inside(self) -> bool:
        """Whether no other process can get at store and gate."""
        settings = self._shop.settings
        return "memory://" in (settings.store, settings.gate)

    async def admit(self) -> Pass:
        return await self._admit()

    async def batches(self) -> tuple[int, int]:
        return await self._batches()


class Performance:
    """One run, from its claim to its last word."""

    def __init__(self, lab: Laboratory, board: Board, run: Run, left: Claim | None) -> None:
        self._lab = lab
        self._shop = lab.shop
        self._board = board
        self._run = run
        self._left = left
        self._clean = left is None or not left.tables
        """Whether no table is left, of this run or of the one before."""

    async def perform(self) -> None:
        """Whatever happens, it is written down and the next may begin."""
        performing = asyncio.current_task()
        assert performing is not None
        over = asyncio.Event()
        saving = asyncio.create_task(self._save_often(performing, over))
        try:
            async with asyncio.timeout(RUN_SECONDS_MAX):
                result = await self._result()
            last = replace(self._run, state="done", result=result)
        except TimeoutError:
            last = self._failed(TOO_LONG)
        except asyncio.CancelledError:
            performing.uncancel()  # it ends by itself, in a moment
            last = self._failed(STOPPED)
        except HoldfastError as trouble:
            store = self._shop.settings.store
            last = self._failed(str(trouble).replace(without_secrets(store), _kind(store)))
        except Exception:
            log.exception("a run of the lab failed")
            last = self._failed(OURS)
        # Not cancelled: what is being written now may be written, and the last word comes after it.
        over.set()
        await saving
        try:
            await self._end(last)
        except HoldfastError as trouble:
            # Its claim lapses, and whoever looks then is told that it failed.
            log.warning("a run of the lab was not written down: %s", trouble)
        except Exception:
            log.exception("a run of the lab was not written down")

    def _failed(self, text: str) -> Run:
        return replace(self._run, state="failed", error=text)

    async def _end(self, last: Run) -> None:
        for tries in range(1, SAVE_TRIES + 1):
            try:
                await self._board.save(last)
                break
            except StoreError:
                if tries == SAVE_TRIES:
                    raise
                await asyncio.sleep(TELL_SECONDS)
        await self._board.release(clean=self._clean)
        await self._board.prune()

    async def _save_often(self, performing: "asyncio.Task[None]", over: asyncio.Event) -> None:
        saved, lengthened = self._run, 0.0
        loop = asyncio.get_running_loop()
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), TELL_SECONDS)
            if over.is_set():
                return
            try:
                if loop.time() - lengthened > LENGTHEN_SECONDS:
                    await self._board.lengthen()
                    lengthened = loop.time()
                if self._run is not saved:
                    saved = self._run
                    await self._board.save(saved)
            except Lost:
                performing.cancel()
                return
            except HoldfastError as trouble:
                log.warning("how a run of the lab goes was not written down: %s", trouble)

    def _tell(self, progress: Progress) -> None:
        self._run = replace(self._run, progress=progress)

    # The run itself

    async def _result(self) -> Result:
        await self._clean_up()
        trial = self._run.trial
        if trial.strategy != HOLDFAST:
            met = await self._contend()
        else:
            met = await self._sell()
        self._tell(met.progress)
        return self._of(met)

    async def _clean_up(self) -> None:
        """After somebody who died: his event is closed, his run has failed."""
        if self._left is not None:
            with contextlib.suppress(HoldfastError):
                await self._shop.close_event(f"lab-{self._left.run}")
            await self._board.bury(self._left.run)

    async def _contend(self) -> Crowded:
        settings = self._shop.settings
        left_over = self._left is not None and self._left.tables
        if not serverless(settings):
            order = Order(self._run.trial, settings, database=settings.store, left_over=left_over)
            return await self._crowd(order)
        # On a disk: in memory every flush would look free.
        with tempfile.TemporaryDirectory(
            prefix="holdfast-lab-", dir=on_disk(), ignore_cleanup_errors=True
        ) as folder:
            database = f"sqlite:///{folder}/lab.db"
            order = Order(self._run.trial, settings, database=database, folder=folder)
            return await self._crowd(order)

    async def _sell(self) -> Crowded:
        """From a new event, which is closed afterwards and stays as evidence."""
        run = self._run
        try:
            created = await self._shop.create_event(run.trial.house(run.event))
            if isinstance(created, Refused):
                raise HoldfastError(created.detail)
            if run.trial.over == "http":
                met = await self._call()
            elif self._lab.inside:
                met = await click(self._shop, run.event, run.trial, self._tell)
            else:
                met = await self._crowd(Order(run.trial, self._shop.settings, run.event))
        finally:
            # Also when interrupted: nobody shall buy a seat of a trial later on.
            with contextlib.suppress(HoldfastError):
                await self._shop.close_event(run.event)
        found = await stampede.count(self._shop.store, run.event, run.trial.seats)
        return replace(met, sold=found.sold, oversold=found.oversold)

    async def _call(self) -> Crowded:
        """Over HTTP; what other callers did meanwhile is in what reached the authority, too."""
        run = self._run
        admitted = await self._lab.admit()
        try:
            batches, commands = await self._lab.batches()
            order = Order(
                run.trial, self._shop.settings, run.event, url=self._lab.url, key=admitted.key
            )
            met = await self._crowd(order)
            batches_after, commands_after = await self._lab.batches()
        finally:
            with contextlib.suppress(HoldfastError):
                await admitted.end()
        return replace(met, reached=commands_after - commands, batches=batches_after - batches)

    async def _crowd(self, order: Order) -> Crowded:
        tables = order.database != "" and not order.folder
        clean, self._clean = self._clean or tables, False
        process = await _start()
        try:
            await _send(process, order)
            return await _heard(process, self._tell)
        except Unclean:
            clean = False
            raise
        finally:
            self._clean = await _ended(process) and clean

    def _of(self, met: Crowded) -> Result:
        trial, told = self._run.trial, met.progress
        settings, gate = self._shop.settings, self._shop.gate
        ours = trial.strategy == HOLDFAST
        asked = gate is not None and (trial.gate if ours else met.redis_calls > 0)
        return Result(
            buyers=told.answered,
            seats=trial.seats,
            stock=trial.stock,
            sold=met.sold,
            rejected=told.rejected,
            errors=told.errors,
            oversold=met.oversold,
            elapsed_ms=told.elapsed_ms,
            rate=round(told.answered / max(told.elapsed_ms, 0.001) * 1000, 1),
            p50_ms=met.p50_ms,
            p99_ms=met.p99_ms,
            histogram=met.histogram,
            reached_authority=met.reached,
            batches=met.batches,
            redis_calls=met.redis_calls,
            store=_kind(settings.store) if ours or not serverless(settings) else "sqlite",
            gate=_kind(gate.url) if gate is not None and asked else "none",
            policy=trial.policy if ours else None,
            strategy=trial.strategy,
            over=trial.over,
        )


def _kind(url: str) -> str:
    """What it is, not where: whoever sees results need not know addresses."""
    name = url.partition(":")[0].partition("+")[0]
    return {"postgres": "postgresql", "rediss": "redis", "unix": "redis"}.get(name, name)


async def _start() -> Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast.lab.runs.crowd"),
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        # A terminal's Ctrl-C is the supervisor's to hear.
        start_new_session=True,
    )


async def _ended(process: Process) -> bool:
    """Tells it to stop, and whether it did so by itself."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), END_SECONDS)
    except BaseException as cause:  # it does not heed, or whoever waits is to end too
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        if not isinstance(cause, TimeoutError):
            raise
    return process.returncode == 0


async def _send(process: Process, order: Order) -> None:
    assert process.stdin is not None
    # Through the pipe: a password in an address must not show in the list of processes.
    process.stdin.write(msgspec.json.encode(order) + b"\n")
    with contextlib.suppress(ConnectionError):  # what it says, or does not, tells more
        await process.stdin.drain()


async def _heard(process: Process, tell: Tell) -> Crowded:
    assert process.stdout is not None
    while line := await process.stdout.readline():
        match _read(line):
            case Progress() as progress:
                tell(progress)
            case Crowded() as met:
                return met
            case Failure(text, ours, unclean):
                if not ours:
                    log.error("the crowd of a run failed: %s", text)
                raise (Unclean if unclean else HoldfastError)(text if ours else OURS)
    raise HoldfastError("the crowd ended without a word")
