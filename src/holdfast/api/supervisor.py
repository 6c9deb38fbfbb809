"""Keeps the workers: opens the socket that all of them serve, starts them, replaces those that die,
and stops them so that whatever was accepted is answered.

Nothing is lost at the door when a worker dies: the socket is the supervisor's, and those who wait
there are served by the others, or by the one that comes.
"""

import asyncio
import contextlib
import errno
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Coroutine

import msgspec

from holdfast.api.logs import set_up_logs
from holdfast.api.tallies import FOLDER, Tallies
from holdfast.errors import HoldfastError, SettingsError
from holdfast.settings import PREFIX, Settings

BACKLOG = 4_096
UNSENT_BYTES_MAX = 128 * 1024
"""What the kernel keeps of a connection beyond what is on its way. It would keep megabytes for a
client that reads slowly, which then are told late: what is not sent yet can still be replaced."""
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


def listen(host: str, port: int, write_seconds: float = 30.0) -> socket.socket:
    """The one socket. In use means in use: two servers do not share a port unnoticed. Whoever takes
    nothing of what is sent to him for so long is disconnected."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError):
        raise SettingsError(f"host {host!r} is not an address of this machine") from None
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _keep_alive(listener, write_seconds)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as cause:
        listener.close()
        option = "--host" if cause.errno == errno.EADDRNOTAVAIL else "--port"
        raise SettingsError(
            f"cannot listen at {host} port {port}: {cause.strerror}; choose another with {option}"
        ) from None
    return listener


def _keep_alive(listener: socket.socket, write_seconds: float) -> None:
    """Connections inherit it: a client that vanished without a word is noticed, also where there is
    nothing to send to it; and so is one that is there but does not read. Only the kernel knows what
    was taken: the server accepts all that it is given to send."""
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {
        **KEEP_ALIVE,
        "TCP_USER_TIMEOUT": max(1, round(1000 * write_seconds)),
        "TCP_NOTSENT_LOWAT": UNSENT_BYTES_MAX,
    }
    for name, value in options.items():
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
        """Who has which place."""
        self._running: set[Worker] = set()
        """Those too that have no place yet, or no longer: none is left behind."""
        self._renewal_asked = False
        self._renewal: asyncio.Task[None] | None = None
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
                self._workers[place] = await self._start()
            for worker in self._workers.values():
                if not await worker.ready and not self._stopping.is_set():
                    raise WorkerFailed("a worker did not start; its reason is above")
            for place in self._workers:
                self._keep(self._refill(place))
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
            for worker in self._running:
                with contextlib.suppress(ProcessLookupError):
                    worker.process.kill()
        self._stopping.set()

    def _renew(self) -> None:
        """Every worker is replaced, one after the other, while the rest serve. Asked again while
        that goes on, all of them are replaced once more afterwards."""
        if not self._keepers:
            return  # they are being started: nothing is newer
        self._renewal_asked = True
        if self._renewal is None or self._renewal.done():
            self._renewal = self._keep(self._renew_all())

    async def _renew_all(self) -> None:
        while self._renewal_asked:
            self._renewal_asked = False
            for place in self._workers:
                if self._stopping.is_set():
                    return
                await self._renew_one(place)

    async def _renew_one(self, place: int) -> None:
        """The old one goes when the new one serves; if that does not come about, it stays."""
        worker = await self._try_to_start(place)
        if worker is None:
            return
        if not await worker.ready:
            if not self._stopping.is_set():
                log.warning("worker %d was not renewed: the new one did not start", place)
            await self._end(worker)
            return
        # Not the one that was there before: it may have died and been replaced meanwhile.
        old, self._workers[place] = self._workers[place], worker
        await self._end(old)

    def _keep(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._keepers.add(task)
        task.add_done_callback(self._keepers.discard)
        return task

    async def _refill(self, place: int) -> None:
        """Whenever the worker of this place has ended, another one is started."""
        pause = AGAIN_FIRST_SECONDS
        while not self._stopping.is_set():
            worker = self._workers[place]
            code = await worker.process.wait()
            self._ended(worker)
            if self._stopping.is_set():
                return
            if self._workers[place] is not worker:
                continue  # it was renewed
            lived = asyncio.get_running_loop().time() - worker.began
            pause = AGAIN_FIRST_SECONDS if lived > SETTLED_SECONDS else pause
            log.warning("worker %d ended with %d after %.1f s: another starts", place, code, lived)
            while self._workers[place] is worker and not await self._stops_within(pause):
                pause = min(2 * pause, AGAIN_LAST_SECONDS)
                await self._replace(place, worker)

    async def _stops_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        return self._stopping.is_set()

    async def _replace(self, place: int, dead: Worker) -> None:
        worker = await self._try_to_start(place)
        if worker is None:
            return
        if self._workers[place] is dead:
            self._workers[place] = worker
        else:
            await self._end(worker)  # a renewal was quicker

    async def _try_to_start(self, place: int) -> Worker | None:
        try:
            return await self._start()
        except OSError as trouble:  # no memory, no process or no file is left for it
            log.warning("worker %d cannot be started: %s", place, trouble)
            return None

    async def _start(self) -> Worker:
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
                    FOLDER: str(self._tallies.folder),
                },
                # A terminal's Ctrl-C is the supervisor's to hear: it stops the workers in order.
                start_new_session=True,
            )
        except BaseException:
            os.close(heard)
            raise
        finally:
            os.close(told)
        worker = Worker(process, _readable(heard))
        self._running.add(worker)
        if self._stopping.is_set():  # too late to be told with the others
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        return worker

    def _ended(self, worker: Worker) -> None:
        self._running.discard(worker)
        try:
            self._tallies.bury(worker.process.pid)
        except OSError as trouble:
            log.warning("what worker %d counted was not put by: %s", worker.process.pid, trouble)

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
        self._ended(worker)

    async def _stop_all(self) -> None:
        self._stopping.set()
        # The workers have it as well. When they accept nobody any more, nobody shall wait at it.
        self._listener.close()
        await asyncio.gather(*(self._end(worker) for worker in self._running))
        if self._keepers:
            await asyncio.wait(self._keepers)
        # One that a keeper had just begun to start.
        await asyncio.gather(*(self._end(worker) for worker in self._running))


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
