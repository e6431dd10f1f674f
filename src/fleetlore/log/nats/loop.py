"""A private event loop in its own thread, for the asyncio-only NATS client. Usable from any thread, not after a fork."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import CancelledError
from contextlib import suppress
from threading import Lock, Thread
from typing import Any, TypeVar

from fleetlore.errors import Closed, LogError
from fleetlore.log.nats.errors import NATS_ERRORS, closed_error, translate_error

CANCEL_SECONDS, MAX_CANCELS = 0.1, 50
_Item = TypeVar("_Item")
_T = TypeVar("_T")


class LoopThread:
    """Runs coroutines for other threads and raises only our own errors. `display_address` is an address without secrets."""

    def __init__(self, display_address: str) -> None:
        self.display_address = display_address
        self._owner_pid, self._closed = os.getpid(), False
        self._end_reason = ""
        """Why it cannot be used any more although nobody closed it."""
        self.on_end: Callable[[], None] = lambda: None
        self._close_lock = Lock()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._run_loop, name="fleetlore-nats", daemon=True)
        self._thread.start()

    def run_coroutine(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine on the loop and return its result."""
        try:
            self.check_open()
            future = asyncio.run_coroutine_threadsafe(self._track_task(coroutine), self._loop)
        except (LogError, RuntimeError) as error:
            coroutine.close()
            raise closed_error() if isinstance(error, RuntimeError) else error from None
        try:
            return future.result()
        except (CancelledError, asyncio.CancelledError):
            raise closed_error() from None
        except NATS_ERRORS as error:
            raise translate_error(self.display_address, error) from error
        except BaseException:
            future.cancel()
            raise

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Start a coroutine on the loop; it runs until it ends or the loop is closed."""
        try:
            self.check_open()
            asyncio.run_coroutine_threadsafe(self._track_task(coroutine), self._loop)
        except (LogError, RuntimeError):
            coroutine.close()

    def call_soon(self, function: Callable[[], object]) -> None:
        """Call a function on the loop; does nothing once the loop has ended."""
        if os.getpid() == self._owner_pid:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(function)

    def check_open(self) -> None:
        """Raise if it was closed or has ended, or in a forked child: the thread stays with the parent."""
        if self._closed:
            raise closed_error()
        if self._end_reason:
            raise LogError(self._end_reason)
        if os.getpid() != self._owner_pid:
            raise Closed("the log was opened before a fork; open it again in the child with connect()")

    @property
    def is_ended(self) -> bool:
        """Whether it was closed, or has ended by itself."""
        return self._closed or bool(self._end_reason)

    def mark_ended(self, reason: str) -> None:
        """End it: every further use raises a `LogError` with this reason."""
        self._end_reason = reason
        self.on_end()

    def close(self) -> None:
        """Cancel everything that waits and end the thread."""
        with self._close_lock:
            was_closed, self._closed = self._closed, True
        if was_closed or os.getpid() != self._owner_pid:
            return
        asyncio.run_coroutine_threadsafe(self._shut_down(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def loop_time(self) -> float:
        """Return the loop's time."""
        return self._loop.time()

    def _run_loop(self) -> None:
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    async def _track_task(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            return await coroutine
        finally:
            self._tasks.discard(task)

    async def _shut_down(self) -> None:
        self._abort_connection()
        await cancel_tasks(self._tasks)
        await self._close_connection()
        await cancel_tasks(asyncio.all_tasks() - {asyncio.current_task()})
        await self._loop.shutdown_asyncgens()

    def _abort_connection(self) -> None:
        """Hook: called first on close, so that nothing waits for a frozen server."""

    async def _close_connection(self) -> None:
        """Hook: called on close, after the tasks have ended."""


async def cancel_tasks(tasks: Iterable[asyncio.Task[Any] | None]) -> None:
    """Cancel tasks and wait until they have ended."""
    pending = {task for task in tasks if task is not None and not task.done()}
    for _ in range(MAX_CANCELS):
        if not pending:
            return
        for task in pending:
            task.cancel()
        # Repeatedly: nats-py swallows a cancellation while it sends.
        ended, pending = await asyncio.wait(pending, timeout=CANCEL_SECONDS)
        for task in ended:
            if not task.cancelled():
                task.exception()  # mark as retrieved


async def map_concurrently(items: Iterable[_Item], function: Callable[[_Item], Awaitable[_T]], *, at_once: int) -> list[_T]:
    """Apply an async function to items, at most `at_once` at a time; return the results in order."""
    limit = asyncio.Semaphore(at_once)

    async def run_one(item: _Item) -> _T:
        async with limit:
            return await function(item)

    return await asyncio.gather(*map(run_one, items))
