"""`lore import`: files without a format, files of another program, prompts of deleted sessions, and two records on one line."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.cli.running import Lore
from tests.dialects import golden
from tests.programs import rollouts
from tests.programs.recordings import RECORDED, opencode, write_opencode
from tests.transcripts import Transcript, a_day

DELETED = "0b5e2222-aaaa-4bbb-8ccc-0123456789ab"


def write_lines(path: Path, *rows: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def remembered(session: str, words: str, second: int) -> dict[str, Any]:
    """A line of Claude Code's `history.jsonl`."""
    row = {"display": words, "pastedContents": {}, "timestamp": 1_700_000_000_000 + second * 1000}
    return row | {"project": "/home/ada/shop", "sessionId": session}


def test_prompts_of_deleted_sessions_are_imported_and_marked(lore: Lore) -> None:
    home, day = Path(os.environ["HOME"]), a_day()
    day.write(home / ".claude" / "projects" / "-home-ada-harbour")
    lines = [remembered(DELETED, "Fix the login", 0), remembered(DELETED, "/clear", 1), remembered(DELETED, "Now the tests", 60)]
    write_lines(home / ".claude" / "history.jsonl", remembered(day.session, "Fix the tide table", 0), *lines, {"display": 3})
    lore("import", "claude-code", code=0)
    events = lore("events", "--all", "--json", "--scope", f"run:{DELETED}").ndjson
    assert [event["kind"] for event in events] == ["session.started", "prompt.submitted", "prompt.submitted", "session.ended"]
    assert all(event["data"]["transcript_deleted"] for event in events)
    assert [event["text"] for event in events[1:3]] == ["Fix the login", "Now the tests"]
    assert not [e for e in lore("events", "--all", "--json", "--scope", f"run:{day.session}").ndjson if "transcript_deleted" in e["data"]]
    assert lore("import", "claude-code", "--json", code=0).json["recorded"] == 0
    assert {agent["state"] for agent in lore("status", "--all", "--json").json["agents"] if agent["name"].endswith(DELETED[:8])} == {
        "ended"
    }


def test_prompts_of_deleted_codex_threads_are_imported_once(lore: Lore) -> None:
    home = Path(os.environ["HOME"]) / ".codex"
    (home / "sessions").mkdir(parents=True)
    write_lines(home / "history.jsonl", {"session_id": DELETED, "ts": 1_700_000_000, "text": "Fix the login"})
    lore("import", "codex", code=0)
    assert [event["text"] for event in lore("events", "--all", "--json", "--kind", "prompt.submitted").ndjson] == ["Fix the login"]
    assert lore("import", "codex", "--json", code=0).json["recorded"] == 0


def test_a_history_in_a_folder_is_read_as_a_history(lore: Lore) -> None:
    write_lines(lore.folder / "copy" / "history.jsonl", remembered(DELETED, "Fix the login", 0))
    lore("import", "claude-code", str(lore.folder / "copy"), code=0)
    kinds = [event["kind"] for event in lore("events", "--all", "--json").ndjson]
    assert kinds == ["session.started", "prompt.submitted", "session.ended"]


PI = {"type": "session", "version": 3, "id": "0199", "timestamp": "2026-11-10T09:00:00Z", "cwd": "/home/ada/shop"}
GIVEN = [
    ("claude-code", [PI, {"type": "message", "id": "1", "message": {"role": "user", "content": "hi"}}], "pi"),
    ("claude-code", [rollouts.meta()], "Codex"),
    ("codex", a_day().rows, "Claude Code"),
]


@pytest.mark.parametrize(("program", "rows", "title"), GIVEN, ids=["pi", "codex", "claude-code"])
def test_a_file_of_another_program_is_noticed_and_not_imported(lore: Lore, program: str, rows: list[Any], title: str) -> None:
    path = write_lines(lore.folder / "session.jsonl", *rows)
    result = lore("import", program, str(path), "--json", code=3)
    assert f"looks like a session of {title}" in result.err
    assert sum(result.json.values()) == 0


def test_two_records_on_one_line_are_both_read(lore: Lore) -> None:
    session = Transcript()
    session.prompt("Fix the login", None)
    session.prompt("Now the tests", None)
    path = lore.folder / "session.jsonl"
    path.write_bytes(b" ".join(session.lines()) + b"\n" + session.lines()[1] + b'{"torn": \n')
    lore("import", "claude-code", str(path), code=3)
    assert [event["text"] for event in lore("events", "--all", "--json", "--kind", "prompt.submitted").ndjson] == [
        "Fix the login",
        "Now the tests",
    ]


def test_a_folder_is_imported_with_all_its_transcripts(lore: Lore) -> None:
    for number in range(2):
        session = Transcript(f"0b5e{number}111-aaaa-4bbb-8ccc-0123456789ab")
        session.prompt("Fix the login", None)
        session.write(lore.folder / "sessions" / str(number))
    lore("import", "claude-code", str(lore.folder / "sessions"), code=0)
    assert len(lore("events", "--all", "--json", "--kind", "session.started").ndjson) == 2


def test_a_database_of_kilo_is_told_from_one_of_opencode_whatever_its_name(lore: Lore) -> None:
    write_opencode(lore.folder / "copy.db", opencode(), tables=("kilo_board",))
    assert "this looks like a session of Kilo" in lore("import", "opencode", str(lore.folder / "copy.db"), code=3).err
    assert list(lore("import", "copy.db", "--json", code=0).json["formats"]) == ["kilo"]


# --- without a format


GOOSE = {"working_dir": "/home/ada/shop", "description": "Fix the login", "message_count": 2, "total_tokens": 900}
SWE_AGENT = {"environment": "main", "trajectory": [], "history": [], "info": {}}
UNREAD = [
    (GOOSE, "Goose"),
    (SWE_AGENT, "SWE-agent"),
    ({"id": "T-0199", "messages": []}, "Amp"),
]


def test_a_folder_with_several_kinds_is_imported_by_what_each_file_is(lore: Lore) -> None:
    folder = lore.folder / "backup"
    day = a_day()
    day.write(folder / "projects")
    write_lines(folder / "rollout.jsonl", rollouts.meta(), *rollouts.said(5, "The table is fixed."))
    for recorded in RECORDED:
        recorded.write(folder / recorded.program)
    for name in ("nexus", "tinytown", "nexo", "stage", "cloudevents", "beads"):
        (folder / f"{name}.jsonl").write_bytes(b"\n".join(golden.lines(name)))
    push = {"ref": "refs/heads/main", "after": "1" * 40, "commits": [], "repository": {"full_name": "a/b"}, "sender": {"login": "ada"}}
    (folder / "push.json").write_text(json.dumps(push, indent=2))
    (folder / "notes.json").write_text('{"some": "settings"}')
    write_lines(folder / "spans.jsonl", {"resourceSpans": []})
    result = lore("import", str(folder), "--json", code=0)
    programs = ["claude-code", "codex", *(recorded.program for recorded in RECORDED)]
    assert sorted(result.json["formats"]) == sorted(
        [*programs, "nexus", "tinytown", "nexo", "stage", "cloudevents", "beads", "forge", "otlp"]
    )
    assert result.json["not_read"] == {}
    assert result.json["formats"]["claude-code"]["recorded"] == 10
    assert "Claude Code (1 file): imported 10" in result.err
    again = lore("import", str(folder), "--json", code=0).json["formats"]
    assert sum(each["recorded"] for each in again.values()) == 0


def test_standard_input_is_recognised(lore: Lore) -> None:
    result = lore("import", "-", "--json", stdin=b"\n".join(a_day().lines()), code=0)
    assert result.json["formats"]["claude-code"]["recorded"] == 10


def test_a_compressed_file_is_recognised(lore: Lore) -> None:
    (lore.folder / "old.jsonl.zst").write_bytes(zstandard.compress(b"\n".join(a_day().lines())))
    assert list(lore("import", "old.jsonl.zst", "--json", code=0).json["formats"]) == ["claude-code"]


@pytest.mark.parametrize(("record", "title"), UNREAD, ids=[title for _, title in UNREAD])
def test_a_session_of_a_program_without_a_reader_is_named(lore: Lore, record: dict[str, Any], title: str) -> None:
    path = write_lines(lore.folder / "session.jsonl", record, {"x": 1})
    for words in (("import", "session.jsonl"), ("import", "claude-code", str(path))):
        assert f"this looks like a session of {title}" in lore(*words, code=3).err


def test_a_database_of_a_program_without_a_reader_is_named(lore: Lore) -> None:
    with sqlite3.connect(lore.folder / "sessions.db") as database:
        for table in ("sessions", "messages", "files"):
            database.execute(f"CREATE TABLE {table} (id TEXT)")
    database.close()
    assert "this looks like a session of Crush; Fleetlore has no reader for it" in lore("import", "sessions.db", code=3).err


def test_what_is_in_no_known_format_is_said_and_leaves_no_log_behind(lore: Lore) -> None:
    lore.write("README.md", "# Shop\n\nA shop.\n")
    write_lines(lore.folder / "rows.jsonl", {"some": "thing"})
    for file in ("README.md", "rows.jsonl"):
        result = lore("import", file, "--log", "sqlite:new.db", code=3)
        assert f"{file}: its first records are in no format that Fleetlore knows" in result.err
        assert "Formats: claude-code, codex, " in result.err
    assert not (lore.folder / "new.db").exists()
    named = lore("import", "claude-code", str(lore.folder / "rows.jsonl"), "--json", code=3)
    assert "none of its first records is from Claude Code" in named.err
    assert sum(named.json.values()) == 0


def test_unknown_records_in_the_program_s_own_folder_may_be_of_a_newer_version(lore: Lore) -> None:
    home = Path(os.environ["HOME"]) / ".claude" / "projects" / "-home-ada-shop"
    write_lines(home / "session.jsonl", {"type": "file-history-snapshot", "messageId": "m1", "snapshot": {}})
    write_lines(home / "newer.jsonl", {"kind": "unheard-of"})
    assert "newer.jsonl" not in lore("import", "claude-code", code=0).err
    assert "none of its first records" in lore("import", "claude-code", str(home), code=3).err


def test_events_of_a_log_are_recognised_with_the_command_that_stores_them(lore: Lore) -> None:
    lore("emit", "fleet.commit", "--agent", "ada", "--text", "done", code=0)
    lore.write("events.jsonl", lore("events", "--all", "--json").out)
    assert "events of Fleetlore; use `lore emit - < FILE`" in lore("import", "events.jsonl", code=3).err


def test_what_is_neither_a_file_nor_a_format_is_an_error_that_lists_the_formats(lore: Lore) -> None:
    assert "sprig: there is no such file or folder, nor format; formats are claude-code, " in lore("import", "sprig", code=2).err


def test_a_repository_without_recordings_is_pointed_to_its_history(lore: Lore) -> None:
    (lore.folder / "shop" / ".git").mkdir(parents=True)
    assert "for its history use `lore import git" in lore("import", "shop", code=3).err
