"""Sleep and tasks as processes use them: passed as parameters, so that a test or a simulation can pass its own.

The asyncio journal carries them for the runtimes (`journal.sleep`, `journal.spawn`, `journal.wait_at_most`). Imports asyncio
only when called: commands use the blocking journal, and importing asyncio takes 40 ms.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
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
