"""`lore archive`: archived events are still in stories, found, shown, exported and forgotten."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from fleetlore import clock
from tests.cli.running import Lore


def emit_session(lore: Lore, days_ago: int, name: str, word: str) -> None:
    start = clock.now() - timedelta(days=days_ago)
    run = {"agent": name, "run": f"run-{name}"}
    events: list[dict[str, Any]] = [
        {"kind": "session.started", "data": {"program": "claude-code", "cwd": "/home/mira/shop", "project": "shop"}},
        {"kind": "prompt.submitted", "text": f"Fix the {word}", "data": {"prompt": f"Fix the {word}."}},
        {
            "kind": "model.replied",
            "text": f"The {word} is fixed.",
            "data": {"model": "claude-opus-4-8", "input": 9, "output": 6, "usd": 0.5},
        },
        {"kind": "session.turn_ended", "text": f"The {word} is fixed."},
    ]
    lines = [{**event, **run, "at": (start + timedelta(seconds=n)).isoformat()} for n, event in enumerate(events)]
    lore("emit", "-", stdin="".join(json.dumps(line) + "\n" for line in lines).encode(), code=0)


def answers(lore: Lore) -> dict[str, str]:
    """What the daily commands say about everything."""
    commands = (
        ("story", "--since", "300d"),
        ("brief", "--since", "300d"),
        ("sessions", "--all"),
        ("find", "harbour"),
        ("costs",),
        ("show", "old"),
        ("events", "--all", "--json"),
    )
    return {" ".join(words): lore(*words, code=0).out for words in commands}


def test_archived_events_are_in_every_answer_and_can_be_forgotten(lore: Lore, monkeypatch: pytest.MonkeyPatch) -> None:
    emit_session(lore, 200, "old", "harbour crane")
    emit_session(lore, 0, "new", "bridge")
    before = answers(lore)
    assert "harbour" in before["find harbour"]
    report = lore("archive", "--before", "100d", "--json", code=0).json
    assert report["events"] == 4
    assert report["archive_bytes"] > 0
    assert answers(lore) == before
    monkeypatch.setenv("XDG_CACHE_HOME", str(lore.folder / "another-cache"))  # everything is folded anew
    assert answers(lore) == before
    assert "nothing to archive" in lore("archive", "--before", "100d", code=0).out
    lore("forget", "--agent", "old", "--yes", code=0)
    assert "harbour" not in lore("find", "harbour").out
    assert "harbour" not in lore("events", "--all", "--json", code=0).out
    lore("verify", code=0)
