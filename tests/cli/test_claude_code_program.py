"""The real Claude Code, recorded by its hooks and then by its transcript: one session, stored once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.cli.running import Lore
from tests.model_stub import DONE

ROOT = Path(__file__).parents[2]
CLAUDE = os.environ.get("FLEETLORE_CLAUDE") or shutil.which("claude")
STEPS = [
    {"name": "Bash", "input": {"command": "echo hello > note.txt", "description": "write the note"}},
    {"name": "Bash", "input": {"command": "ls /nonexistent", "description": "look for more"}},
]
QUIET = dict.fromkeys(("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER", "IS_SANDBOX"), "1")

pytestmark = pytest.mark.skipif(CLAUDE is None, reason="needs Claude Code: `claude` on PATH, or its path in FLEETLORE_CLAUDE")


def without_a_network() -> list[str]:
    """What runs a program so that nothing can leave this machine, where that is possible."""
    for attempt in (["unshare", "-n"], ["unshare", "-rn"]):
        if shutil.which("unshare") and subprocess.run([*attempt, "true"], check=False, capture_output=True).returncode == 0:
            return attempt
    return []


def run_claude(lore: Lore, prompt: str) -> dict[str, object]:
    """Let it work on a prompt in the folder; answers what it reports."""
    assert CLAUDE is not None
    claude = [CLAUDE, "-p", prompt, "--dangerously-skip-permissions", "--output-format", "json"]
    stub = [sys.executable, "-m", "tests.model_stub", json.dumps(STEPS), *claude]
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("CLAUDE", "ANTHROPIC"))}
    done = subprocess.run(
        [*without_a_network(), *stub], cwd=lore.folder, env=environ | QUIET | {"PYTHONPATH": str(ROOT)}, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode() + done.stdout.decode()
    report: dict[str, object] = json.loads(done.stdout)
    return report


def kinds(lore: Lore) -> Counter[str]:
    return Counter(event["kind"] for event in lore("events", "--all", "--json", code=0).ndjson)


def test_a_session_recorded_by_hooks_and_by_its_transcript_is_reported_once(lore: Lore) -> None:
    lore("install", "claude-code", code=0)
    report = run_claude(lore, "Write a note")
    assert report["result"] == DONE
    assert (lore.folder / "note.txt").read_text() == "hello\n"

    by_hooks = kinds(lore)
    lore("import", "claude-code", code=0)
    by_both = lore("events", "--all", "--json", code=0).raw
    assert kinds(lore) == by_hooks
    lore("import", "claude-code", code=0)
    assert lore("events", "--all", "--json", code=0).raw == by_both

    once = ("session.started", "prompt.submitted", "tool.returned", "tool.failed", "session.turn_ended", "session.ended")
    assert {kind: by_hooks[kind] for kind in once} == dict.fromkeys(once, 1)
    assert (by_hooks["tool.called"], by_hooks["model.replied"], by_hooks["log.rejected"]) == (2, 3, 0)
    story = lore("tell", "--all", "--detail", "full", code=0).out
    assert story.count("Write a note") == 1
    assert "note.txt" in story
    assert "look for more" in story
    assert lore("costs", "--json", code=0).json["total"]["output"] == 60


def test_uninstalled_it_is_not_recorded_any_more(lore: Lore) -> None:
    lore("install", "claude-code", code=0)
    lore("uninstall", "claude-code", code=0)
    run_claude(lore, "Write a note")
    assert not (lore.folder.parent / "home" / ".local" / "state" / "fleetlore" / "spool").exists()
