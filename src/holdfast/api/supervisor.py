"""Keeps the workers: opens the socket that all of them serve, starts them, replaces those that die,
and stops them so that whatever was accepted is answered.

Nothing is lost at the door when a worker dies: the socket is the supervisor's, and those who wait
there are served by the others, or by the one that comes.
"""

import asyncio
import contextlib
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable

import msgspec

from holdfast.api.logs import set_up_logs
from holdfast.api.tallies import FOLDER, Tallies
from holdfast.errors import HoldfastError, SettingsError
from holdfast.settings import PREFIX, Settings

BACKLOG = 4_096
KEEP_ALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
"""Seconds of silence after which a connection is probed, seconds between probes, and how many."""
START_SECONDS_MAX = 120.0
AGAIN_FIRST_SECONDS = 0.05
AGAIN_LAST_SECONDS = 5.0
SETTLED_SECONDS = 5.0
"""A worker that lived so long is replaced at once; one that did not, after a growing pause."""

log = logging.getLogger("holdfast.serve")


class WorkerFailed(HoldfastError):
    pass


def admit_many() -> None:
    """Every connection is an open file: as many as this machine allows, for the workers too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def listen(host: str, port: int) -> socket.socket:
    """The one socket. In use means in use: two servers do not share a port unnoticed."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError):
        raise SettingsError(f"host {host!r} is not an address of this machine") from None
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _keep_alive(listener)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as cause:
        listener.close()
        raise SettingsError(
            f"cannot listen at {host} port {port}: {cause.strerror}; choose another with --port"
        ) from None
    return listener


def _keep_alive(listener: socket.socket) -> None:
    """Connections inherit it: a client that vanished without a word is noticed, also where there is
    nothing to send to it."""
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEP_ALIVE.items():
        if hasattr(socket, name):  # not on every system
            listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def url_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}"


class Worker:
    def __init__(self, process: asyncio.subprocess.Process, ready: "asyncio.Future[bool]") -> None:
        self.process = process
        self.ready = ready
        self.began = asyncio.get_running_loop().time()


class Supervisor:
    def __init__(self, listener: socket.socket, settings: Settings, upkeep: bool = True) -> None:
        self._listener = listener
        self._settings = settings
        self._upkeep = upkeep
        self._workers: dict[int, Worker] = {}
        self._keepers: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()
        self._alive, self._parent = -1, -1

    async def run(self, on_ready: Callable[[], None]) -> None:
        """Serves until a signal ends it. Raises if the workers do not even start."""
        loop = asyncio.get_running_loop()
        admit_many()
        set_up_logs(self._settings)
        self._tallies = Tallies.make()
        # Its other end closes when this process ends, however it ends.
        self._alive, self._parent = os.pipe()
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, self._stop)
        loop.add_signal_handler(signal.SIGHUP, self._renew)
        try:
            for place in range(self._settings.workers):
                await self._start(place)
            for worker in list(self._workers.values()):
                if not await worker.ready and not self._stopping.is_set():
                    raise WorkerFailed("a worker did not start; its reason is above")
            for place in list(self._workers):
                self._keep(place)
            if not self._stopping.is_set():
                on_ready()
            await self._stopping.wait()
        finally:
            await self._stop_all()
            for descriptor in (self._alive, self._parent):
                os.close(descriptor)
            self._tallies.remove()

    def _stop(self) -> None:
        if self._stopping.is_set():
            # Asked again: whoever asks does not want to wait.
            for worker in self._workers.values():
                with contextlib.suppress(ProcessLookupError):
                    worker.process.kill()
        self._stopping.set()

    def _renew(self) -> None:
        """Every worker is replaced, one after the other, while the rest serve."""
        task = asyncio.get_running_loop().create_task(self._renew_all())
        self._keepers.add(task)
        task.add_done_callback(self._keepers.discard)

    async def _renew_all(self) -> None:
        for place, old in list(self._workers.items()):
            worker = await self._start(place)
            if await worker.ready:
                await self._end(old)

    def _keep(self, place: int) -> None:
        task = asyncio.get_running_loop().create_task(self._replace(place))
        self._keepers.add(task)
        task.add_done_callback(self._keepers.discard)

    async def _replace(self, place: int) -> None:
        """Whenever the worker of this place has ended, another one is started."""
        pause = AGAIN_FIRST_SECONDS
        while not self._stopping.is_set():
            worker = self._workers[place]
            code = await worker.process.wait()
            self._tallies.bury(worker.process.pid)
            if self._stopping.is_set():
                return
            if self._workers[place] is not worker:
                continue  # it was renewed
            lived = asyncio.get_running_loop().time() - worker.began
            pause = AGAIN_FIRST_SECONDS if lived > SETTLED_SECONDS else pause
            log.warning("worker %d ended with %d after %.1f s: another starts", place, code, lived)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stopping.wait()
            pause = min(2 * pause, AGAIN_LAST_SECONDS)
            if not self._stopping.is_set():
                await self._start(place)

    async def _start(self, place: int) -> Worker:
        heard, told = os.pipe()
        listener = self._listener.fileno()
        arguments = [str(each) for each in (listener, told, self._alive)]
        if not self._upkeep:
            arguments.append("--no-upkeep")
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "holdfast.api.worker", *arguments),
                pass_fds=(listener, told, self._alive),
                # Not on the command line, where everybody on the machine could read a password.
                env={
                    **os.environ,
                    **_environment(self._settings),
                    "HOLDFAST_PLACE": str(place),
                    FOLDER: str(self._tallies.folder),
                },
                # A terminal's Ctrl-C is the supervisor's to hear: it stops the workers in order.
                start_new_session=True,
            )
        finally:
            os.close(told)
        worker = self._workers[place] = Worker(process, _readable(heard))
        return worker

    async def _end(self, worker: Worker) -> None:
        """Asks it to stop; one that does not within its time is killed."""
        with contextlib.suppress(ProcessLookupError):
            worker.process.terminate()
        try:
            async with asyncio.timeout(self._settings.stop_seconds):
                await worker.process.wait()
        except TimeoutError:
            log.warning("worker %d did not stop in time: killed", worker.process.pid)
            with contextlib.suppress(ProcessLookupError):
                worker.process.kill()
            await worker.process.wait()
        self._tallies.bury(worker.process.pid)

    async def _stop_all(self) -> None:
        self._stopping.set()
        await asyncio.gather(*(self._end(worker) for worker in self._workers.values()))
        if self._keepers:
            await asyncio.wait(self._keepers)
        # One that a keeper had just begun to start.
        await asyncio.gather(*(self._end(worker) for worker in self._workers.values()))


def _readable(descriptor: int) -> "asyncio.Future[bool]":
    """Whether the other end said that it is ready, before it closed or time was up."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[bool] = loop.create_future()

    def heard() -> None:
        done(bool(os.read(descriptor, 1)))

    def done(said: bool) -> None:
        if not ready.done():
            loop.remove_reader(descriptor)
            os.close(descriptor)
            ready.set_result(said)

    loop.add_reader(descriptor, heard)
    loop.call_later(START_SECONDS_MAX, done, False)
    return ready


def _environment(settings: Settings) -> dict[str, str]:
    values = msgspec.structs.asdict(settings)
    return {
        PREFIX + name.upper(): str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in values.items()
        if value != ""
    }
