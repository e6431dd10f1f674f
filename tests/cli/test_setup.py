"""`lore setup`: from a fresh install to the first brief, and no harm done."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import zstandard

from fleetlore.programs.claude_code.settings import HOOK_EVENTS
from tests.cli.running import Lore, command
from tests.patience import PATIENCE
from tests.programs import rollouts
from tests.transcripts import Transcript

MANY = 8_000
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


def on_terminal(lore: Lore, *argv: str, answer: str, more: str = "n\nn\nn\n") -> str:
    """Run it where somebody sits, who answers the first question, and the others with `more`."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command(argv), cwd=lore.folder, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    os.write(ours, f"{answer}\n{more}".encode())
    shown = b""
    try:
        while chunk := os.read(ours, 65536):
            shown += chunk
    except OSError:  # Linux's way of saying that the other side is closed
        pass
    os.close(ours)
    assert process.wait() == 0, shown
    return shown.decode().replace("\r\n", "\n")


def test_approvals_and_notifications_are_switched_on_only_with_a_yes_and_can_be_undone(lore: Lore, home: Path) -> None:
    session(home, 1, days_ago=1)
    settings, own = home / ".claude" / "settings.json", home / ".config" / "fleetlore" / "fleetlore.toml"
    on_terminal(lore, "setup", answer="y")
    assert "approve-hook" not in settings.read_text()
    assert not own.exists()

    shown = on_terminal(lore, "setup", answer="y", more="y\nhttps://ntfy.sh/topic\nn\n")
    assert "approve-hook" in settings.read_text()
    assert "lore uninstall claude-code" in shown
    assert "https://ntfy.sh/topic" in own.read_text()
    assert "lore notify off" in shown
    lore("notify", "off", code=0)
    lore("uninstall", "claude-code", code=0)
    assert not own.exists()
    assert not settings.exists()


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


def day(days_ago: float) -> str:
    return f"{datetime.now(UTC) - timedelta(days=days_ago):%Y-%m-%d}"


def prompts(lore: Lore) -> list[str]:
    """What was asked, in the order in which it was stored."""
    return [event["text"] for event in lore("events", "--all", "--json", "--kind", "prompt.submitted").ndjson]


def test_with_a_yes_it_imports_everything_installs_hooks_and_sums_up_the_newest_day(lore: Lore, home: Path) -> None:
    session(home, 1, days_ago=1, prompt="mend_the_parser")
    session(home, 2, days_ago=400, prompt="long_ago")
    said = lore("setup", "--yes", code=0).out
    assert f"Importing 2 files, {day(400)} to {day(1)}, the newest first." in said
    assert f"{day(1)}: 1 file imported. Older ones follow." in said
    assert "Imported 2 files: 4 records new to your log." in said
    assert f"{datetime.now(UTC) - timedelta(days=1):%A} {day(1)}" in said
    assert "mend_the_parser" in said
    assert "Now try:" in said
    assert set(json.loads((home / ".claude" / "settings.json").read_text())["hooks"]) == set(HOOK_EVENTS)
    assert prompts(lore) == ["mend_the_parser", "long_ago"]
    assert lore("costs", "--json", code=0).json["total"]["output"] == 40


def test_it_says_how_many_sessions_there_are_and_of_which_days(lore: Lore, home: Path) -> None:
    session(home, 1, days_ago=1)
    path = session(home, 2, days_ago=40)
    os.utime(path)  # copied here today
    assert f"2 sessions, 2 kB, the newest 1 day ago, {day(40)} to {day(1)}, in ~/.claude/projects" in lore("setup", code=0).out


def test_the_last_week_is_stored_in_the_order_of_time_and_older_days_after_it_the_newest_first(lore: Lore, home: Path) -> None:
    for n, days_ago in enumerate((1, 90, 3, 20, 400)):
        session(home, n, days_ago=days_ago, prompt=f"{days_ago}_days_ago")
    lore("setup", "--yes", "--no-hooks", code=0)
    assert prompts(lore) == [f"{days}_days_ago" for days in (3, 1, 20, 90, 400)]


def test_a_log_that_keeps_so_many_days_is_filled_in_the_order_of_time(lore: Lore, home: Path) -> None:
    """Only its beginning can be cut off, day by day."""
    lore.write("fleetlore.toml", 'log = "sqlite:fleet.db"\n[retention]\nkeep = "100d"\n')
    for n, days_ago in enumerate((1, 90, 20, 400)):
        session(home, n, days_ago=days_ago, prompt=f"{days_ago}_days_ago")
    lore("setup", "--yes", "--no-hooks", code=0)
    assert prompts(lore) == [f"{days}_days_ago" for days in (90, 20, 1)]


def test_after_an_import_of_everything_the_newest_events_are_those_that_happened_last(lore: Lore, home: Path) -> None:
    for n, days_ago in enumerate((1, 20, 400)):
        session(home, n, days_ago=days_ago, prompt=f"task {days_ago}_days_ago")
    lore("setup", "--yes", "--no-hooks", code=0)
    last = [event["at"] for event in lore("events", "--last", "4", "--json", code=0).ndjson]
    assert last == sorted(last)
    assert all(at.startswith(day(1)) for at in last[-2:])
    assert [event["text"] for event in lore("find", "task", "--json", code=0).ndjson] == [f"task {n}_days_ago" for n in (1, 20, 400)]
    recorded = lore("tell", "--last", "3", code=0).out
    assert re.findall(r"(\d+)_days_ago", recorded) == ["1"]


def test_it_reads_compressed_rollouts_and_none_of_them_twice(lore: Lore, home: Path) -> None:
    path = home / ".codex" / "sessions" / "2026" / "09" / "01" / f"rollout-2026-09-01T10-00-00-{rollouts.THREAD}.jsonl"
    path.parent.mkdir(parents=True)
    rows = [rollouts.meta(), rollouts.context(), *rollouts.said(5, "The table is mended.")]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    packed = path.with_name(f"{path.name}.zst")
    packed.write_bytes(zstandard.compress(path.read_bytes()))
    path.unlink()
    assert "1 session" in lore("setup", code=0).out
    lore("setup", "--yes", "--no-hooks", code=0)
    events = lore("events", "--all", "--json").raw
    assert b"session.started" in events
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))  # resumed: for a moment both are there
    assert "Imported 2 files: 0 records new" in lore("setup", "--yes", "--no-hooks", code=0).out
    assert lore("events", "--all", "--json").raw == events


def test_what_cannot_be_read_is_named_with_the_reason_and_the_rest_is_imported(lore: Lore, home: Path) -> None:
    good = session(home, 1, days_ago=1, prompt="mend_the_parser")
    folder = good.parent
    bad = {
        folder / "damaged.jsonl.zst": "zstd data is damaged",
        folder / "cut.jsonl.zst": "zstd data ends before it is complete",
        folder / "latin.jsonl": "line 1: ",
        folder / "torn.jsonl": "line 2: ",
        folder / "notes.txt": "is no .jsonl",
        folder / "gone.jsonl": "No such file or directory",
        folder / "a_folder.jsonl": "is a folder",
    }
    damaged, cut, latin, torn, notes, gone, a_folder = bad
    damaged.write_bytes(zstandard.compress(good.read_bytes())[:4] + b"\xff" * 99)
    cut.write_bytes(zstandard.compress(good.read_bytes())[:-9])
    latin.write_bytes('{"type": "user", "text": "Stra\xdfe"}\n'.encode("latin-1"))
    torn.write_bytes(good.read_bytes()[:-20])
    os.utime(torn, (good.stat().st_mtime,) * 2)
    notes.write_text("not a recording")
    gone.symlink_to("nowhere")
    a_folder.mkdir()
    for run in range(2):
        result = lore("setup", "--yes", "--no-hooks", code=3)
        for path, reason in bad.items():
            if run == 1 and path == latin:
                continue  # read to its end before; its line is kept as log.rejected
            assert [line for line in result.err.splitlines() if str(path) in line and reason in line], (path, result.err)
    assert "mend_the_parser" in result.out
    assert prompts(lore) == ["mend_the_parser"]


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="a file that can be opened and not read, also by root")
def test_a_file_that_the_system_does_not_let_us_read_is_named(lore: Lore, home: Path) -> None:
    path = session(home, 1, days_ago=1).with_name("closed.jsonl")
    path.symlink_to("/proc/self/mem")
    result = lore("setup", "--yes", "--no-hooks", code=3)
    assert f"lore: {path}: cannot be read: Input/output error" in result.err
    assert prompts(lore) == ["mend_the_parser"]


def test_a_session_that_is_being_written_is_not_called_torn(lore: Lore, home: Path) -> None:
    path = session(home, 1, days_ago=0)
    path.write_bytes(path.read_bytes()[:-20])
    assert lore("setup", "--yes", "--no-hooks", code=0).err == ""


def test_ctrl_c_keeps_what_is_imported_and_the_next_run_continues(lore: Lore, home: Path) -> None:
    session(home, 1, days_ago=1, prompt="the_newest")
    older = Transcript(at=datetime.now(UTC) - timedelta(days=30))
    for n in range(MANY):  # some seconds of work
        older.prompt(f"prompt {n}", f"p-{n}")
    older.write(home / ".claude" / "projects" / "-work-shop")
    process = lore.start("setup", "--yes", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    while b"Older ones follow" not in (line := process.stdout.readline()):
        assert line, "it ended before"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, b"stopped; 1 of 2 files are imported. Run `lore setup` again to continue." in err) == (130, True)
    assert not (home / ".claude" / "settings.json").exists()
    kept = prompts(lore)
    assert kept[0] == "the_newest"
    assert len(kept) < 1 + MANY
    lore("setup", "--yes", "--no-hooks", code=0)
    assert prompts(lore)[: len(kept)] == kept
    assert sorted(prompts(lore)) == sorted(["the_newest", *(f"prompt {n}" for n in range(MANY))])


def test_on_a_terminal_the_import_shows_how_far_it_is(lore: Lore, home: Path) -> None:
    session(home, 1, days_ago=1)
    session(home, 2, days_ago=20)
    shown = on_terminal(lore, "setup", "--no-hooks", answer="")
    assert f"importing {day(20)}" in shown
    assert "1 of 2 files" in shown


def test_running_it_twice_changes_nothing(lore: Lore, home: Path) -> None:
    session(home, 1, days_ago=0)
    first = lore("setup", "--yes", code=0).out
    settings = (home / ".claude" / "settings.json").read_bytes()
    events = lore("events", "--all", "--json").raw
    assert "1 question answered" in first
    again = lore("setup", "--yes", code=0).out
    assert "0 records new" in again
    assert "Nothing to do: Claude Code already reports to Fleetlore" in again
    assert (home / ".claude" / "settings.json").read_bytes() == settings
    assert lore("events", "--all", "--json").raw == events


def test_of_somebody_who_has_not_worked_for_a_while_the_newest_day_is_summed_up(lore: Lore, home: Path) -> None:
    session(home, 1, days_ago=40, prompt="an_old_task")
    session(home, 2, days_ago=30, prompt="the_last_task")
    said = lore("setup", "--yes", "--no-hooks", code=0).out
    assert "the_last_task" in said
    assert prompts(lore) == ["the_last_task", "an_old_task"]


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


def test_broken_settings_are_said_and_the_brief_follows_all_the_same(lore: Lore, home: Path) -> None:
    session(home, 1, days_ago=1)
    (home / ".claude" / "settings.json").write_text("{oops")
    result = lore("setup", "--yes", code=0)
    assert "line 1, column 2" in result.err
    assert "mend_the_parser" in result.out
    assert (home / ".claude" / "settings.json").read_text() == "{oops"


def test_hostile_words_of_a_session_do_not_reach_the_terminal(lore: Lore, home: Path) -> None:
    session(home, 1, days_ago=1, prompt="\x1b]0;owned\x07 mend it")
    assert "\x1b]0;" not in on_terminal(lore, "setup", "--no-hooks", answer="")
