"""Asyncio tasks: sleep and spawn as processes use them, time limits, work beside a block, and work that must not be interrupted.

Sleep and spawn are passed as parameters, so that a test or a simulation can pass its own; the asyncio journal carries them for the
runtimes (`journal.sleep`, `journal.spawn`, `journal.wait_at_most`). Imports asyncio only when called: commands use the blocking
journal, and importing asyncio takes 40 ms.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    import asyncio

_T = TypeVar("_T")

Sleep: TypeAlias = Callable[[float], Awaitable[object]]


class Spawn(Protocol):
    """Starts a task."""

    def __call__(self, work: Coroutine[Any, Any, _T], /) -> asyncio.Task[_T]:
        """Return the running task."""


async def sleep(seconds: float) -> None:
    """Sleep on the running loop."""
    import asyncio

    await asyncio.sleep(seconds)


def spawn(work: Coroutine[Any, Any, _T], /) -> asyncio.Task[_T]:
    """Start a task on the running loop."""
    import asyncio

    return asyncio.create_task(work)


async def wait_at_most(work: Coroutine[Any, Any, object], seconds: float, *, sleep: Sleep = sleep, spawn: Spawn = spawn) -> bool:
    """Run `work` for at most `seconds`; returns whether it ended in time, and raises its error. Late work is cancelled."""
    import asyncio

    tasks = [spawn(work), spawn(_run_sleep(sleep, seconds))]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if tasks[0].cancelled():
        return False
    tasks[0].result()
    return True


@asynccontextmanager
async def run_beside(work: Coroutine[Any, Any, None], *, spawn: Spawn = spawn) -> AsyncGenerator[None, None]:
    """Run `work` beside the block, which ends it. If it fails first, the block is cancelled and raises that error."""
    import asyncio

    body = asyncio.current_task()
    assert body is not None
    earlier_requests, failure = body.cancelling(), None

    def cancel_body(task: asyncio.Task[None]) -> None:
        nonlocal failure
        if not task.cancelled() and (failure := task.exception()) is not None:
            body.cancel()

    task = spawn(work)
    task.add_done_callback(cancel_body)
    error: BaseException | None = None
    try:
        yield
    except BaseException as raised:  # noqa: BLE001 - raised again below
        error = raised
    task.remove_done_callback(cancel_body)
    task.cancel()
    if failure is not None and body.uncancel() <= earlier_requests and isinstance(error, asyncio.CancelledError):
        raise failure from None
    if error is not None:
        raise error


async def _run_sleep(sleep: Sleep, seconds: float) -> None:
    await sleep(seconds)


# --- work that must not be interrupted: a caller that is cancelled meanwhile waits for its end and is cancelled then


async def run_uncancelled(work: Coroutine[Any, Any, _T], on_cancel: Callable[[], object] | None = None) -> _T:
    """Return its result. A thread that writes cannot be cancelled, and releasing its locks meanwhile would let others in."""
    import asyncio

    task = asyncio.ensure_future(work)
    try:
        await wait_uncancelled(task, on_cancel)
    except asyncio.CancelledError:
        task.exception()  # retrieved, so that asyncio does not log it
        raise
    return task.result()


class UncancelledCalls:
    """Waits for several calls in a row, each to its end. A cancellation calls `on_cancel`, and is raised by `raise_cancellation`."""

    def __init__(self, on_cancel: Callable[[], object]) -> None:
        self._on_cancel = on_cancel
        self._cancellation: asyncio.CancelledError | None = None

    async def wait_for(self, work: Awaitable[_T]) -> _T:
        """Return its result."""
        import asyncio

        future = asyncio.ensure_future(work)
        try:
            await wait_uncancelled(future, self._on_cancel)
        except asyncio.CancelledError as error:
            self._cancellation = error
        return future.result()

    def raise_cancellation(self) -> None:
        """Raise the cancellation that came meanwhile, if there was one."""
        if self._cancellation is not None:
            raise self._cancellation


async def wait_uncancelled(work: asyncio.Future[Any], on_cancel: Callable[[], object] | None = None) -> None:
    """Wait for its end. If cancelled meanwhile, call `on_cancel` each time, keep waiting, and raise the cancellation at the end."""
    import asyncio

    # A future of our own instead of `asyncio.wait`, which takes three times as long: a goal waits like this four times a turn.
    loop = asyncio.get_running_loop()
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        waiter = loop.create_future()
        wake = partial(_set_done, waiter)
        work.add_done_callback(wake)
        try:
            await waiter
        except asyncio.CancelledError as error:
            cancelled = error
            work.remove_done_callback(wake)
            if on_cancel is not None:
                on_cancel()
    if cancelled is not None:
        raise cancelled


def _set_done(waiter: asyncio.Future[None], work: asyncio.Future[Any]) -> None:
    if not waiter.done():
        waiter.set_result(None)
