"""What a question reads of a log depends on what is asked, not on how long the log is."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from benchmarks import sessions

from fleetlore import connect
from fleetlore.log.sqlite.log import SqliteLog
from tests.cli.running import Lore

SHORT, LONG = 30, 150
"""Sessions of about sixty events, one an hour; the newest ended a moment ago."""
EVENTS = len(list(sessions._session(0, datetime.now(UTC))))


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each read of a log has returned."""
    counts: list[int] = []

    def count(read: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
        def counting(log: SqliteLog, *args: Any) -> list[Any]:
            found = read(log, *args)
            counts.append(len(found))
            return found

        return counting

    for name in ("read", "get"):
        monkeypatch.setattr(SqliteLog, name, count(getattr(SqliteLog, name)))
    return counts


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    folder = tmp_path_factory.mktemp("logs")
    made = {}
    for count in (SHORT, LONG):
        made[count] = folder / f"{count}.db"
        with connect(f"sqlite:{made[count]}?sync=off").blocking() as log:
            log.append_all(sessions._sessions(count * EVENTS))
    return made


@pytest.mark.parametrize("question", [*sessions.QUESTIONS, ("sessions", "--since", "1d")], ids=" ".join)
def test_a_question_reads_no_more_of_a_long_log(lore: Lore, logs: dict[int, Path], rows: list[int], question: tuple[str, ...]) -> None:
    read = {}
    for count, path in logs.items():
        words = [sessions._newest_session(count * EVENTS) if word == sessions.NEWEST else word for word in question]
        lore("--log", f"sqlite:{path}", *words, code=0)  # folds the log
        rows.clear()
        lore("--log", f"sqlite:{path}", *words, code=0)
        read[count] = sum(rows)
    assert read[LONG] <= 1.1 * read[SHORT] + 10, read
