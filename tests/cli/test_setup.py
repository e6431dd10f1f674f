"""`lore setup`: from a fresh install to one's own story, and no harm done."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.running import Lore, command

SESSION = "0f5e0000-0000-4000-8000-00000000000{n}"


@pytest.fixture
def home(lore: Lore, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without any coding agent."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return lore.folder.parent / "home"


def session(home: Path, n: int, *, days_ago: float, prompt: str = "mend_the_parser") -> Path:
    """One recorded session of Claude Code."""
    at = datetime.now(UTC) - timedelta(days=days_ago)
    id = SESSION.format(n=n)
    base = {
        "sessionId": id,
        "cwd": "/home/ada/shop",
        "gitBranch": "main",
        "timestamp": at.isoformat().replace("+00:00", "Z"),
        "version": "2.1",
    }
    rows = [
        {"type": "user", "uuid": f"{n}0000000-0000-4000-8000-000000000001", "promptId": f"p{n}",
            "message": {"role": "user", "content": prompt}},
        {"type": "assistant", "uuid": f"{n}0000000-0000-4000-8000-000000000002", "requestId": f"r{n}", "message": {
            "id": f"msg_{n}", "role": "assistant", "model": "claude-opus-4-8", "stop_reason": "end_turn",
            "content": [{"type": "text", "text": "It is mended."}], "usage": {"input_tokens": 10, "output_tokens": 20}}},
    ]  # fmt: skip
    path = home / ".claude" / "projects" / "-work-shop" / f"{id}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(base | row) + "\n" for row in rows))
    os.utime(path, (at.timestamp(), at.timestamp()))
    return path


def on_terminal(lore: Lore, *argv: str, answer: str) -> str:
    """Run it where somebody sits, who answers once."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command(argv), cwd=lore.folder, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    os.write(ours, f"{answer}\n".encode())
    shown = b""
    try:
        while chunk := os.read(ours, 65536):
            shown += chunk
    except OSError:  # Linux's way of saying that the other side is closed
        pass
    os.close(ours)
    assert process.wait() == 0, shown
    return shown.decode().replace("\r\n", "\n")


def test_where_nothing_is_found_it_says_what_was_looked_for_and_what_to_do(lore: Lore, home: Path) -> None:
    said = lore("setup", "--yes", code=1).out
    assert "~/.claude/projects" in said
    assert "~/.codex/sessions" in said
    assert "lore demo" in said
    assert not (home / ".claude").exists()


def test_without_a_terminal_it_only_shows_what_it_would_do(lore: Lore, home: Path) -> None:
    session(home, 1, days_ago=1)
    said = lore("setup", code=0).out
    assert "1 session, 1 kB, the newest 1 day ago" in said
    assert "hooks in ~/.claude/settings.json, for Claude Code" in said
    assert not (home / ".claude" / "settings.json").exists()
    assert not (lore.folder.parent / "data").exists()


def test_with_a_yes_it_takes_in_the_last_week_installs_hooks_and_tells_yesterday(lore: Lore, home: Path) -> None:
    session(home, 1, days_ago=1, prompt="mend_the_parser")
    session(home, 2, days_ago=20, prompt="long_ago")
    said = lore("setup", "--yes", code=0).out
    assert "1 file of the last 7 days" in said
    assert "The story of yesterday" in said
    assert "mend_the_parser" in said
    assert "Now try:" in said
    assert len(json.loads((home / ".claude" / "settings.json").read_text())["hooks"]) > 20
    assert "long_ago" not in lore("events", "--all").out


def test_running_it_twice_changes_nothing(lore: Lore, home: Path) -> None:
    session(home, 1, days_ago=0)
    first = lore("setup", "--yes", code=0).out
    settings = (home / ".claude" / "settings.json").read_bytes()
    events = lore("events", "--all", "--json").raw
    assert "The story of the newest day" in first
    again = lore("setup", "--yes", code=0).out
    assert "0 records new" in again
    assert "Nothing to do: Claude Code calls lore already" in again
    assert (home / ".claude" / "settings.json").read_bytes() == settings
    assert lore("events", "--all", "--json").raw == events


def test_of_somebody_who_has_not_worked_for_a_while_the_newest_session_is_told(lore: Lore, home: Path) -> None:
    session(home, 1, days_ago=40, prompt="an_old_task")
    session(home, 2, days_ago=30, prompt="the_last_task")
    said = lore("setup", "--yes", "--no-hooks", code=0).out
    assert "the_last_task" in said
    assert "an_old_task" not in said


def test_no_hooks_means_no_hooks(lore: Lore, home: Path) -> None:
    session(home, 1, days_ago=1)
    lore("setup", "--yes", "--no-hooks", code=0)
    assert not (home / ".claude" / "settings.json").exists()


@pytest.mark.parametrize(("answer", "installed"), [("", True), ("y", True), ("n", False)])
def test_on_a_terminal_it_asks_once_before_it_changes_settings(lore: Lore, home: Path, answer: str, installed: bool) -> None:
    session(home, 1, days_ago=1)
    shown = on_terminal(lore, "setup", answer=answer)
    assert shown.count("[Y/n]") == 1
    assert (home / ".claude" / "settings.json").exists() is installed
    assert "mend_the_parser" in shown


def test_broken_settings_are_said_and_the_story_is_told_all_the_same(lore: Lore, home: Path) -> None:
    session(home, 1, days_ago=1)
    (home / ".claude" / "settings.json").write_text("{oops")
    result = lore("setup", "--yes", code=0)
    assert "line 1, column 2" in result.err
    assert "mend_the_parser" in result.out
    assert (home / ".claude" / "settings.json").read_text() == "{oops"


def test_hostile_words_of_a_session_do_not_reach_the_terminal(lore: Lore, home: Path) -> None:
    session(home, 1, days_ago=1, prompt="\x1b]0;owned\x07 mend it")
    assert "\x1b]0;" not in on_terminal(lore, "setup", "--no-hooks", answer="")
