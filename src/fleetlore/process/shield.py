"""Work that must not be interrupted: a caller that is cancelled meanwhile waits for its end and is cancelled then."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

_T = TypeVar("_T")


async def run_uncancelled(work: Coroutine[Any, Any, _T], on_cancel: Callable[[], object] | None = None) -> _T:
    """Return its result. A thread that writes cannot be cancelled, and releasing its locks meanwhile would let others in."""
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
