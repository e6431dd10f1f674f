"""Blocking work in a thread always ends before the caller continues."""

from __future__ import annotations

import asyncio
from threading import Event

import pytest

from fleetlore.graph.tools.threads import run_in_thread
from tests.patience import PATIENCE


async def test_what_the_work_gives_and_what_it_raises_comes_back() -> None:
    assert await run_in_thread(lambda: 7, lambda: None) == 7
    with pytest.raises(ZeroDivisionError):
        await run_in_thread(lambda: 1 // 0, lambda: None)


@pytest.mark.parametrize("fails", [False, True], ids=["ends well", "fails"])
async def test_cancelled_work_is_asked_to_stop_and_waited_for_however_it_ends(fails: bool) -> None:
    begun, stopped, ended = Event(), Event(), Event()

    def work() -> None:
        begun.set()
        stopped.wait(PATIENCE)
        ended.set()
        if fails:
            raise OSError("the connection is gone")

    task = asyncio.create_task(run_in_thread(work, stopped.set))
    await asyncio.to_thread(begun.wait, PATIENCE)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_to_be_cancelled_again_while_it_is_waited_for_leaves_nothing_running() -> None:
    begun, recorded, stopped = Event(), Event(), Event()

    def work() -> None:
        begun.set()
        stopped.wait(PATIENCE)

    task = asyncio.create_task(run_in_thread(work, recorded.set))
    await asyncio.to_thread(begun.wait, PATIENCE)
    task.cancel()
    await asyncio.to_thread(recorded.wait, PATIENCE)
    task.cancel()
    stopped.set()
    with pytest.raises(asyncio.CancelledError):
        await task
