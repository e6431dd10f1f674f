"""A private event loop in a thread of its own, for a client that only speaks asyncio. Used from any thread, never after a fork."""

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
_Answer = TypeVar("_Answer")


class LoopThread:
    """Runs coroutines for other threads, and raises our errors only. `place` is an address that may be shown."""

    def __init__(self, place: str) -> None:
        self.display_address = place
        self._owner_pid, self._closed = os.getpid(), False
        self._end_reason = ""
        """Why nothing more can be done with it, though nobody has closed it."""
        self.on_end: Callable[[], None] = lambda: None
        self._close_lock = Lock()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._run_loop, name="fleetlore-nats", daemon=True)
        self._thread.start()

    def run_coroutine(self, work: Coroutine[Any, Any, _Answer]) -> _Answer:
        """The result of a coroutine that runs on the loop."""
        try:
            self.check_open()
            future = asyncio.run_coroutine_threadsafe(self._track_task(work), self._loop)
        except (LogError, RuntimeError) as error:
            work.close()
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

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Let a coroutine run on the loop until it ends or the loop is closed."""
        try:
            self.check_open()
            asyncio.run_coroutine_threadsafe(self._track_task(work), self._loop)
        except (LogError, RuntimeError):
            work.close()

    def call_soon(self, what: Callable[[], object]) -> None:
        """Have a plain function called on the loop; nothing happens once that has ended."""
        if os.getpid() == self._owner_pid:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(what)

    def check_open(self) -> None:
        """Refuse to go on once it was closed, or in a forked child: the thread stays behind with the parent."""
        if self._closed:
            raise closed_error()
        if self._end_reason:
            raise LogError(self._end_reason)
        if os.getpid() != self._owner_pid:
            raise Closed("the log was opened before a fork; open it again in the child with connect()")

    @property
    def is_ended(self) -> bool:
        """Whether it was closed, or has come to its end by itself."""
        return self._closed or bool(self._end_reason)

    def mark_ended(self, why: str) -> None:
        """Let everybody be told so from now on."""
        self._end_reason = why
        self.on_end()

    def close(self) -> None:
        """End whatever waits, and the thread."""
        with self._close_lock:
            was_closed, self._closed = self._closed, True
        if was_closed or os.getpid() != self._owner_pid:
            return
        asyncio.run_coroutine_threadsafe(self._shut_down(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def time(self) -> float:
        """The loop's time."""
        return self._loop.time()

    def _run_loop(self) -> None:
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    async def _track_task(self, work: Coroutine[Any, Any, _Answer]) -> _Answer:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            return await work
        finally:
            self._tasks.discard(task)

    async def _shut_down(self) -> None:
        self._abort_connection()
        await cancel_tasks(self._tasks)
        await self._close_connection()
        await cancel_tasks(asyncio.all_tasks() - {asyncio.current_task()})
        await self._loop.shutdown_asyncgens()

    def _abort_connection(self) -> None:
        """What has to happen first, so that nobody waits for a server that is frozen."""

    async def _close_connection(self) -> None:
        """What has to be closed with the loop."""


async def cancel_tasks(tasks: Iterable[asyncio.Task[Any] | None]) -> None:
    """End tasks, and wait until they have ended."""
    pending = {task for task in tasks if task is not None and not task.done()}
    for _ in range(MAX_CANCELS):
        if not pending:
            return
        for task in pending:
            task.cancel()
        # Again and again: nats-py swallows it while it sends.
        ended, pending = await asyncio.wait(pending, timeout=CANCEL_SECONDS)
        for task in ended:
            if not task.cancelled():
                task.exception()  # nobody else asks


async def map_concurrently(items: Iterable[_Item], verb: Callable[[_Item], Awaitable[_Answer]], *, at_once: int) -> list[_Answer]:
    """The answers for many items, in their order, a limited number of which are asked at a time."""
    limit = asyncio.Semaphore(at_once)

    async def one(item: _Item) -> _Answer:
        async with limit:
            return await verb(item)

    return await asyncio.gather(*map(one, items))
