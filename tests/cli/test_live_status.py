"""What Claude Code says about its running sessions, in the status."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from fleetlore.cli import hook
from fleetlore.ingest import spool
from tests.cli.running import Lore

SESSION = "0b5e1111-2222-4333-8444-555566667777"


@pytest.fixture
def state_file(lore: Lore) -> Path:
    path = lore.folder.parent / "home" / ".claude" / "sessions" / "1.json"
    path.parent.mkdir(parents=True)
    raw = json.dumps({"session_id": SESSION, "hook_event_name": "SessionStart", "source": "startup"}).encode()
    spool.append_line(hook.make_spool_line("claude-code", raw, len(raw)))
    return path


def write(path: Path, lore: Lore, **fields: Any) -> None:
    path.write_text(json.dumps({"sessionId": SESSION, "pid": os.getpid(), "cwd": str(lore.folder)} | fields))


def status(lore: Lore) -> tuple[str, str | None]:
    [agent] = lore("status", "--json", code=0).json["agents"]
    return agent["state"], agent["waiting_for"]


def reports(lore: Lore) -> list[str]:
    return [event["data"]["status"] for event in lore("events", "--all", "--json", "--kind", "session.observed", code=0).ndjson]


def test_a_dialog_is_seen_without_a_hook_and_each_state_is_stored_once(lore: Lore, state_file: Path) -> None:
    write(state_file, lore, status="waiting", waitingFor="permission prompt")
    assert status(lore) == ("needs you", "permission")
    assert status(lore) == ("needs you", "permission")
    write(state_file, lore, status="idle")
    assert status(lore) == ("idle", None)
    assert reports(lore) == ["waiting", "idle"]


def test_a_process_that_has_ended_is_noticed_with_and_without_its_file(lore: Lore, state_file: Path) -> None:
    write(state_file, lore, status="busy", pid=2**22 + 1)
    status(lore)
    assert reports(lore) == ["gone"]
    write(state_file, lore, status="busy")
    status(lore)
    state_file.unlink()
    status(lore)
    assert reports(lore) == ["gone", "busy", "gone"]


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"sessionId": 7, "pid": "x"}'])
def test_a_file_that_makes_no_sense_is_skipped(lore: Lore, state_file: Path, content: bytes) -> None:
    state_file.write_bytes(content)
    status(lore)
    assert reports(lore) == []


def test_background_sessions_have_a_state_of_their_own(lore: Lore, state_file: Path) -> None:
    job = state_file.parents[1] / "jobs" / "0a1b2c3d" / "state.json"
    job.parent.mkdir(parents=True)
    job.write_text(json.dumps({"sessionId": SESSION, "state": "blocked", "detail": "input needed", "cwd": str(lore.folder)}))
    assert status(lore) == ("needs you", "person")
