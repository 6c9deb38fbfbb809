"""What blocking APIs are made of: a loop in a thread of its own, and methods waited for."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar, Concatenate, Generic, ParamSpec, Self, TypeVar

from holdfast.errors import NotOpen

A = TypeVar("A", bound=AbstractAsyncContextManager[Any])
P = ParamSpec("P")
R = TypeVar("R")


class Blocking(Generic[A]):
    """Stands before something asynchronous, which `with` opens and closes. May be called from any
    number of threads at once."""

    _name: ClassVar[str]
    """What it is, for the texts of errors."""
    _opened_by: ClassVar[str]

    def __init__(self, inner: A) -> None:
        self._inner = inner
        self._loop: asyncio.AbstractEventLoop | None = None

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="holdfast", daemon=True)
        self._thread.start()
        try:
            self._wait(_entered(self._inner))
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *exc: Any) -> None:  # as `with` gives them
        """Answers everything that was taken, then closes."""
        try:
            self._wait(_left(self._inner, *exc))
        finally:
            self._stop()

    def _wait(self, work: Coroutine[Any, Any, R]) -> R:
        if self._loop is None:
            work.close()
            raise NotOpen(f"{self._name} is not open: use it inside `{self._opened_by}`")
        answer = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return answer.result()
        except CancelledError:
            raise NotOpen(f"{self._name} was closed before the answer came") from None
        except BaseException:
            answer.cancel()  # interrupted: nobody waits for it any more
            raise

    def _stop(self) -> None:
        loop, self._loop = self._loop, None
        assert loop is not None
        asyncio.run_coroutine_threadsafe(_cancel_others(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join()
        loop.close()


def waited(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Blocking[A], P], R]:
    """The method as it is, waited for."""

    def call(self: Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._wait(method(self._inner, *args, **kwargs))

    call.__name__ = method.__name__
    call.__doc__ = method.__doc__
    return call


async def _entered(inner: AbstractAsyncContextManager[Any]) -> None:
    await inner.__aenter__()


async def _left(inner: AbstractAsyncContextManager[Any], *exc: Any) -> None:
    await inner.__aexit__(*exc)


async def _cancel_others() -> None:
    """Whoever still waits for this loop would wait for ever once it has stopped."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
