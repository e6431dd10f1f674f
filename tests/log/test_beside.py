"""One open log, for threads and for the tasks of a loop at once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fleetlore import connect
from fleetlore.log.async_recorder import Recorder
from tests.contract.helpers import make_event


@pytest.mark.parametrize("scheme", ["memory", "sqlite"])
async def test_tasks_write_to_a_log_that_threads_have_open_and_leave_it_open(tmp_path: Path, scheme: str) -> None:
    url = "memory:" if scheme == "memory" else f"sqlite:{tmp_path}/fleet.db"
    with connect(url).blocking() as log:
        beside = Recorder.from_blocking(log)
        await asyncio.gather(
            *(beside.append([make_event(f"task {n}")]) for n in range(5)), asyncio.to_thread(log.append, [make_event("thread")])
        )
        assert len([event async for event in beside.read()]) == 6
        await beside.close()
        log.append([make_event("after")])
        assert len(list(log.read())) == 7


async def test_what_is_taken_out_by_the_one_is_taken_out_by_the_other() -> None:
    with connect("memory:").blocking() as log:
        beside = Recorder.from_blocking(log)
        await beside.append([make_event("the key is AKIAIOSFODNN7EXAMPLE")])
        await beside.close()
        assert "AKIAIOSFODNN7EXAMPLE" not in str(list(log.read()))
