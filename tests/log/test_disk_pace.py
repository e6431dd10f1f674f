"""Quick commits are made on the event loop; whatever could hold it up goes to a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import Mock

import apsw
import pytest

from fleetlore import connect
from fleetlore.log.admission import Admission
from fleetlore.log.async_recorder import Recorder
from fleetlore.log.base import AppendBatch, AppendOutcome
from fleetlore.log.disk_pace import MAX_CREDIT, MAX_EVENTS_NOWAIT, DiskPace
from fleetlore.log.sqlite.log import SqliteLog
from tests.contract.helpers import deed
from tests.patience import PATIENCE

QUICK, SLOW = 0.0002, 0.003
LOOP, WRITER = threading.main_thread().name, "fleetlore-writer"


def after(*seconds: float) -> DiskPace:
    pace = DiskPace()
    for each in seconds:
        pace.record_commit(each, 1)
    return pace


def test_nothing_is_known_of_a_disk_at_first() -> None:
    assert not DiskPace().is_quick
    assert after(QUICK).is_quick


def test_a_slow_disk_is_never_waited_for_on_the_loop() -> None:
    assert not after(*[SLOW] * 1000).is_quick


def test_a_good_past_excuses_a_disk_that_became_slow_only_for_some_commits() -> None:
    pace = after(*[QUICK] * 10_000)
    commits = 0
    while pace.is_quick:
        pace.record_commit(SLOW, 1)
        commits += 1
    assert commits <= MAX_CREDIT / (SLOW - 0.001) + 1


def test_one_long_sync_is_paid_off_by_many_quick_commits() -> None:
    pace = after(*[QUICK] * 100, 0.1)
    commits = 0
    while not pace.is_quick:
        pace.record_commit(QUICK, 1)
        commits += 1
    assert commits > 90


def test_many_events_may_take_longer_than_one() -> None:
    pace = DiskPace()
    pace.record_commit(0.002, 64)
    assert pace.is_quick


class Watched(SqliteLog):
    """Remembers which threads have committed, and what was not done on the loop."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), town="default")
        self.threads: list[str] = []
        self.declined = asyncio.Event()

    def commit_at_once(self, batches: Sequence[AppendBatch]) -> list[AppendOutcome] | None:
        outcomes = super().commit_at_once(batches)
        if outcomes is None:
            self.declined.set()
        return outcomes

    def _commit_locked(self, batches: Sequence[AppendBatch]) -> list[AppendOutcome]:
        outcomes = super()._commit_locked(batches)
        self.threads.append(threading.current_thread().name)
        return outcomes


async def opened(path: Path) -> tuple[Recorder, Watched]:
    """A log that has one event, on a disk that is known to be quick."""
    backend = Watched(path)
    log = Recorder(backend, Admission())
    await log.append([deed("first")])
    backend._disk_pace = after(QUICK)
    backend.threads.clear()
    backend.declined.clear()
    return log, backend


async def test_a_quick_commit_is_made_on_the_loop_and_a_slow_one_is_not(tmp_path: Path) -> None:
    log, backend = await opened(tmp_path / "fleet.db")
    await log.append([deed("quick")])
    backend._disk_pace = after(SLOW)
    await log.append([deed("slow")])
    assert backend.threads == [LOOP, WRITER]
    assert [event.text async for event in log.read()] == ["first", "quick", "slow"]
    await log.close()


async def test_many_events_are_stored_by_the_thread(tmp_path: Path) -> None:
    log, backend = await opened(tmp_path / "fleet.db")
    await log.append([deed(str(n)) for n in range(MAX_EVENTS_NOWAIT + 1)])
    assert backend.threads == [WRITER]
    await log.close()


async def test_while_another_process_writes_the_loop_goes_on(tmp_path: Path) -> None:
    """SQLite would wait where it is for up to ten seconds; the thread does that."""
    log, backend = await opened(tmp_path / "fleet.db")
    other = apsw.Connection(backend.path)
    other.execute("BEGIN IMMEDIATE")
    append = asyncio.create_task(log.append([deed("behind it")]))
    await asyncio.wait_for(backend.declined.wait(), PATIENCE)
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
        append = asyncio.create_task(log.append([deed("behind it")]))
        await asyncio.wait_for(backend.declined.wait(), PATIENCE)
        assert not append.done()
    await append
    assert backend.threads == [WRITER]
    await log.close()


async def test_tasks_that_append_together_share_a_commit_on_the_loop(tmp_path: Path) -> None:
    log, backend = await opened(tmp_path / "fleet.db")

    async def work(name: int) -> None:
        for n in range(3):
            await log.append([deed(f"{name}: {n}")])

    await asyncio.gather(*map(work, range(20)))
    assert len(backend.threads) == 3
    await log.close()


@pytest.mark.parametrize("error", [OSError("gone"), KeyboardInterrupt("Ctrl-C")])
def test_what_goes_wrong_on_the_loop_is_heard_and_the_log_goes_on(tmp_path: Path, error: BaseException) -> None:
    with asyncio.Runner() as runner:
        log, backend = runner.run(opened(tmp_path / "fleet.db"))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(backend, "commit_at_once", Mock(side_effect=error))
            with pytest.raises(type(error)):
                runner.run(log.append([deed("lost")]))
        runner.run(log.append([deed("later")]))
        runner.run(log.close())
    with connect(f"sqlite:{tmp_path}/fleet.db").blocking() as again:
        assert [event.text for event in again.read()] == ["first", "later"]
