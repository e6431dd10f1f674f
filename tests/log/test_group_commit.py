"""Tasks that append at the same time share one commit on the writer thread, and the event loop never waits for the disk."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import Mock

import apsw
import pytest

from fleetlore.log.admission import Admission
from fleetlore.log.async_recorder import Recorder
from fleetlore.log.base import AppendBatch, AppendOutcome
from fleetlore.log.sqlite.log import SqliteLog
from tests.contract.helpers import make_event
from tests.patience import PATIENCE

WRITER = "fleetlore-writer"


class Watched(SqliteLog):
    """Remembers which threads have committed, and when a commit began."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), town="default")
        self.threads: list[str] = []
        self.began = threading.Event()

    def commit(self, batches: Sequence[AppendBatch]) -> list[AppendOutcome]:
        self.began.set()
        outcomes = super().commit(batches)
        self.threads.append(threading.current_thread().name)
        return outcomes


async def opened(path: Path) -> tuple[Recorder, Watched]:
    """A log that has one event."""
    backend = Watched(path)
    log = Recorder(backend, Admission())
    await log.append([make_event("first")])
    backend.threads.clear()
    backend.began.clear()
    return log, backend


async def test_while_another_process_writes_the_loop_goes_on(tmp_path: Path) -> None:
    """SQLite waits for up to ten seconds; the writer thread does that, not the loop."""
    log, backend = await opened(tmp_path / "fleet.db")
    other = apsw.Connection(backend.path)
    other.execute("BEGIN IMMEDIATE")
    append = asyncio.create_task(log.append([make_event("behind it")]))
    assert await asyncio.to_thread(backend.began.wait, PATIENCE)
    assert not append.done()
    other.execute("ROLLBACK")
    other.close()
    await append
    assert backend.threads == [WRITER]
    assert [event.text async for event in log.read()] == ["first", "behind it"]
    await log.close()


async def test_while_another_thread_writes_the_loop_goes_on(tmp_path: Path) -> None:
    log, backend = await opened(tmp_path / "fleet.db")
    with backend._write_lock:
        append = asyncio.create_task(log.append([make_event("behind it")]))
        assert await asyncio.to_thread(backend.began.wait, PATIENCE)
        assert not append.done()
    await append
    assert backend.threads == [WRITER]
    await log.close()


async def test_tasks_that_append_together_share_a_commit(tmp_path: Path) -> None:
    log, backend = await opened(tmp_path / "fleet.db")

    async def work(name: int) -> None:
        for n in range(3):
            await log.append([make_event(f"{name}: {n}")])

    await asyncio.gather(*map(work, range(20)))
    assert backend.threads == [WRITER] * 3
    await log.close()


async def test_an_error_reaches_those_who_wait_and_the_log_goes_on(tmp_path: Path) -> None:
    log, backend = await opened(tmp_path / "fleet.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend, "commit", Mock(side_effect=OSError("gone")))
        with pytest.raises(OSError, match="gone"):
            await log.append([make_event("lost")])
    await log.append([make_event("later")])
    assert [event.text async for event in log.read()] == ["first", "later"]
    await log.close()
