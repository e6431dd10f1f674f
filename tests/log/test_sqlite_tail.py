"""Followers of one log in one process: one of them watches for events of other processes and notifies the others."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from itertools import pairwise
from pathlib import Path
from threading import get_ident
from typing import Any

import pytest

from fleetlore import connect
from fleetlore.log.base import TailPage
from fleetlore.log.sqlite import tail as sqlite_tail
from fleetlore.log.sqlite.file import fetch_rows
from fleetlore.log.sqlite.log import SqliteLog
from fleetlore.log.sqlite.tail import SqliteTail
from tests.contract.helpers import make_event
from tests.patience import PATIENCE

CROWD = 6


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "fleet.db")


@pytest.fixture
def log(path: str) -> Iterator[SqliteLog]:
    with closing(SqliteLog(path, town="default")) as opened:
        yield opened


@pytest.fixture
def crowd(log: SqliteLog) -> Iterator[list[SqliteTail]]:
    with ExitStack() as stack:
        yield [stack.enter_context(closing(log.tail("town", None))) for _ in range(CROWD)]


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(CROWD + 1) as threads:
        yield threads


def written_elsewhere(path: str, text: str) -> None:
    """Through another handle, so that nothing notifies the log, as with another process."""
    with connect(f"sqlite:{path}").blocking() as other:
        other.append([make_event(text)])


def words(waiting: list[Future[TailPage]]) -> list[bool]:
    return [b"something" in row.raw for future in waiting for row in future.result(PATIENCE).rows]


def test_what_another_process_writes_reaches_all_who_wait(path: str, crowd: list[SqliteTail], pool: ThreadPoolExecutor) -> None:
    waiting = [pool.submit(tail.next_page, PATIENCE) for tail in crowd]
    written_elsewhere(path, "something")
    assert words(waiting) == [True] * CROWD


def test_one_of_those_who_wait_asks_the_file_for_all(
    crowd: list[SqliteTail], pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def counting(connection: Any, sql: str, *rest: Any) -> Any:
        if "data_version" in sql:
            asked.append(get_ident())
        return fetch_rows(connection, sql, *rest)

    monkeypatch.setattr(sqlite_tail, "fetch_rows", counting)
    for future in [pool.submit(tail.next_page, 0.3) for tail in crowd]:
        assert future.result(PATIENCE).rows == []
    by_turns = sum(before != after for before, after in pairwise(asked))
    assert len(asked) > CROWD
    assert by_turns <= 3 * CROWD  # each took over at the beginning and at the end, nobody in between


def test_when_the_lookout_leaves_somebody_else_takes_over(path: str, crowd: list[SqliteTail], pool: ThreadPoolExecutor) -> None:
    first = pool.submit(crowd[0].next_page, PATIENCE)
    while crowd[0]._changes.polling_tail is not crowd[0]:
        pass
    waiting = [pool.submit(tail.next_page, PATIENCE) for tail in crowd[1:]]
    crowd[0].close()
    assert first.result(PATIENCE).rows == []
    written_elsewhere(path, "something")
    assert words(waiting) == [True] * (CROWD - 1)


def test_one_who_comes_late_does_not_hide_what_was_written_before_from_the_others(path: str, log: SqliteLog) -> None:
    with closing(log.tail("town", None)) as early:
        assert early.next_page(0).rows == []
        written_elsewhere(path, "something")
        with closing(log.tail("town", None)) as late:
            assert len(late.next_page(0).rows) == 1
            late.next_page(0.05)
        assert len(early.next_page(0).rows) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="followers are woken by inotify on Linux only")
def test_a_follower_of_a_quiet_log_hardly_asks(path: str, log: SqliteLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking every 10 ms cost each idle process almost 1 % of a core."""
    asked = 0

    def counting(connection: Any, sql: str, *rest: Any) -> Any:
        nonlocal asked
        asked += "data_version" in sql
        return fetch_rows(connection, sql, *rest)

    with closing(log.tail("town", None)) as tail:
        assert tail.next_page(2 * sqlite_tail.ACTIVE_SECONDS).rows == []
        monkeypatch.setattr(sqlite_tail, "fetch_rows", counting)
        seconds = 2.0
        assert tail.next_page(seconds).rows == []
        assert asked <= 2 + seconds / sqlite_tail.WATCHED_POLL_SECONDS
