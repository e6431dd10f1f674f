"""`lore import`: prompts of deleted sessions, files of another program, and two records on one line."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import Lore
from tests.dialects import rollouts
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
