"""Blocking work in a thread of its own, which is always seen through: cancelled, it is told to stop, and waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_Result = TypeVar("_Result")


async def in_thread(work: Callable[[], _Result], stop: Callable[[], None]) -> _Result:
    """What the work gives. `stop` is called from another thread, and must make the work end soon."""
    loop, thread = asyncio.get_running_loop(), ThreadPoolExecutor(1)
    running = loop.run_in_executor(thread, work)
    thread.shutdown(wait=False)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await _see_through(running, stop)
        raise


async def _see_through(running: asyncio.Future[_Result], stop: Callable[[], None]) -> None:
    stopping = asyncio.get_running_loop().run_in_executor(None, stop)
    while not (running.done() and stopping.done()):
        try:
            await asyncio.wait((running, stopping))
        except asyncio.CancelledError:
            continue  # once is enough: nothing may be left running
    if not running.cancelled():
        running.exception()
