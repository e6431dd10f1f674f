"""Runs blocking work in its own thread. If cancelled, it stops the work and waits until it has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

_RETRY_SECONDS = 0.5
_Result = TypeVar("_Result")


async def run_in_thread(work: Callable[[], _Result], stop: Callable[[], None]) -> _Result:
    """The result of `work`. On cancellation `stop` is called from another thread and must make `work` return soon."""
    loop, thread = asyncio.get_running_loop(), ThreadPoolExecutor(1)
    running = loop.run_in_executor(thread, work)
    thread.shutdown(wait=False)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await _stop_and_wait(running, stop)
        raise


async def _stop_and_wait(running: asyncio.Future[_Result], stop: Callable[[], None]) -> None:
    while not running.done():
        with suppress(asyncio.CancelledError):  # ignore further cancellations: nothing may be left running
            # Repeated, because the first call may come before there is anything to stop.
            await asyncio.get_running_loop().run_in_executor(None, stop)
            await asyncio.wait((running,), timeout=_RETRY_SECONDS)
    if not running.cancelled():
        running.exception()
