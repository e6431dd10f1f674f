"""Imports are killed with `kill -9`: the next one continues, and nothing is stored twice or lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetlore import connect
from tests.faults.processes import running
from tests.transcripts import Transcript, bash, text

TURNS = 1500


def write_session(folder: Path) -> Path:
    session = Transcript()
    for turn in range(TURNS):
        session.prompt(f"Fix number {turn}", f"p-{turn}")
        session.reply(f"m-{turn}", text("I run the tests."), bash(f"toolu_{turn}", "make test"), stop="tool_use")
        session.result(f"toolu_{turn}", f"{turn} passed")
        session.reply(f"n-{turn}", text("Fixed."))
    return session.write(folder)


def import_whole(path: Path, log: Path) -> list[str]:
    with running("fleetlore", "--log", f"sqlite:{log}", "import", "claude-code", str(path)) as process:
        for _ in process.lines(600):
            pass
    with connect(f"sqlite:{log}").blocking() as events:
        return sorted(str(event.id) for event in events.read())


@pytest.mark.parametrize("after", [1, 900, 3000])
def test_an_import_that_is_killed_is_continued_by_the_next(tmp_path: Path, after: int) -> None:
    path, log = write_session(tmp_path / "sessions"), tmp_path / "lore.db"
    expected = import_whole(path, tmp_path / "undisturbed.db")
    assert len(expected) == len(set(expected)) > 5 * TURNS
    with (
        connect(f"sqlite:{log}").blocking() as events,
        running("fleetlore", "--log", f"sqlite:{log}", "import", "claude-code", str(path)) as process,
    ):
        for seen, _ in enumerate(events.follow(), 1):
            if seen >= after:
                break
        process.kill()
        stored = [str(event.id) for event in events.read()]
    assert len(stored) == len(set(stored)) < len(expected)
    assert import_whole(path, log) == expected
