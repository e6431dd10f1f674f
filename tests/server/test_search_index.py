"""The server's search index: an error of any kind does not stop it."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetlore import Event, connect
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.projections.live_views import LiveViews
from fleetlore.server import search_index
from fleetlore.server.search_index import SearchIndex
from tests.patience import PATIENCE


@pytest.fixture
def log(tmp_path: Path) -> Iterator[BlockingRecorder]:
    with connect(f"sqlite:{tmp_path}/log.db").blocking() as log:
        log.append([Event(kind="fleet.note", agent="ada", text="hello")])
        yield log


def test_an_error_is_logged_once_and_the_next_tick_tries_again(
    log: BlockingRecorder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls, third_call = 0, threading.Event()

    def fail(index: SearchIndex) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            third_call.set()
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(search_index, "TICK_SECONDS", 0.01)
    monkeypatch.setattr(SearchIndex, "_update_index", fail)
    index = SearchIndex(log, lambda: None, LiveViews(log, {}))
    index.start()
    try:
        assert third_call.wait(PATIENCE)
    finally:
        index.close()
    assert [record.exc_info is not None for record in caplog.records if "search index" in record.message] == [True]
