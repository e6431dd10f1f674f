"""`--scope` and `--agent`: names as they are shown are accepted, and names that nobody has are errors, in every command that reads."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.running import Lore

RUN, OTHER = "0b5e1111-2222-4333-8444-555555555555", "77aa2222-2222-4333-8444-555555555555"
AGENT = "claude-code/0b5e1111"
READING: dict[str, list[str]] = {
    "tell": ["tell", "--all", "--format", "json"],
    "events": ["events", "--all", "--json"],
    "costs": ["costs", "--json"],
    "arcs": ["arcs", "--json"],
    "find": ["find", "parser", "--json"],
    "export": ["export", "cloudevents"],
}


@pytest.fixture
def recorded(lore: Lore) -> Lore:
    """Two sessions as they are recorded: the first names its task in one event of seven."""
    one, two = {"agent": AGENT, "run": RUN}, {"agent": "claude-code/77aa2222", "run": OTHER}
    reply = {"model": "claude-opus-4-8", "input": 100, "output": 10}
    events: list[dict[str, Any]] = [
        {"kind": "session.started", **one, "data": {"project": "/w/shop", "branch": "main"}},
        {"kind": "prompt.submitted", **one, "task": "PAY-12", "text": "Fix the parser of PAY-12"},
        {"kind": "tool.failed", **one, "text": "3 failed", "data": {"tool": "Bash", "command": "pytest"}},
        {"kind": "fleet.error", **one, "text": "the parser drops the last line"},
        {"kind": "fleet.recovery", **one, "text": "the parser reads to the end"},
        {"kind": "fleet.commit", **one, "text": "fix: parser reads the last line"},
        {"kind": "model.replied", **one, "data": reply},
        {"kind": "session.started", **two, "data": {"project": "/w/shop", "branch": "main"}},
        {"kind": "fleet.commit", **two, "text": "docs: parser", "mission": "launch"},
    ]
    lines = (json.dumps(event | {"at": f"2026-11-15T10:{number:02d}:00Z"}) for number, event in enumerate(events))
    lore("emit", "-", stdin="\n".join(lines).encode(), code=0)
    return lore


@pytest.mark.parametrize("command", READING)
@pytest.mark.parametrize("name", ["shop", "0b5e1111", "shop@main: Fix the parser of PAY-12", RUN])
def test_a_name_that_is_shown_selects_what_the_name_in_the_log_does(recorded: Lore, command: str, name: str) -> None:
    wanted = recorded(*READING[command], "--scope", f"agent:{AGENT}", code=0)
    assert wanted.out
    assert recorded(*READING[command], "--scope", f"agent:{name}", code=0).out == wanted.out


def test_every_name_of_the_status_table_can_be_typed(recorded: Lore) -> None:
    names = [line.partition("  ")[0] for line in recorded("status", "--all", code=0).lines if line.startswith("shop")]
    assert len(names) == 2
    for name in names:
        assert recorded("events", "--scope", f"agent:{name}", code=0).lines
        assert recorded("context", "--agent", name, code=0).out


@pytest.mark.parametrize("command", READING)
@pytest.mark.parametrize(
    ("scope", "said"),
    [
        ("agent:shoop", "no agent is called 'shoop' on this log; did you mean agent:shop"),
        ("task:PAY-21", "no task is called 'PAY-21' on this log; did you mean task:PAY-12?"),
        ("mission:lunch", "no mission is called 'lunch' on this log; did you mean mission:launch?"),
        ("run:nowhere", "no session is called 'nowhere' on this log; "),
        ("goal:nowhere", "no goal is called 'nowhere' on this log; "),
        ("source:nowhere", "no source is called 'nowhere' on this log; "),
        ("agent:PAY-12", "did you mean task:PAY-12"),
    ],
)
def test_a_name_that_nobody_has_is_an_error_and_never_an_empty_answer(recorded: Lore, command: str, scope: str, said: str) -> None:
    refused = recorded(*READING[command], "--scope", scope, code=2)
    assert refused.out == ""
    assert said in refused.err
    assert len(refused.err.splitlines()) == 1


@pytest.mark.parametrize("command", ["tell", "events", "costs"])
def test_a_scope_without_events_in_a_range_is_no_error(recorded: Lore, command: str) -> None:
    recorded(*[word for word in READING[command] if word != "--all"], "--scope", "agent:shop", "--since", "2027-01-01", code=0)


def test_a_name_of_two_agents_is_an_error_that_lists_them(recorded: Lore) -> None:
    recorded("name", "claude-code/77aa2222", "shop", code=0)
    refused = recorded("events", "--scope", "agent:shop", code=2)
    assert "several agents are called 'shop'" in refused.err
    assert AGENT in refused.err
    assert "claude-code/77aa2222 (shop)" in refused.err


def test_costs_of_a_scope_in_a_log_that_is_not_there_is_an_error(lore: Lore) -> None:
    assert "there is no log yet" in lore("costs", "--scope", "agent:ada", code=1).err
    lore("costs", code=0)


# --- the thread of a task


def evidence(lore: Lore, *argv: str) -> set[str]:
    story = lore("tell", "--all", "--detail", "full", "--format", "json", *argv, code=0).json
    return {id for part in story["paragraphs"] for sentence in part["sentences"] for id in [each["event"] for each in sentence["evidence"]]}


def test_the_story_of_a_task_that_a_session_names_once_shows_the_whole_session(recorded: Lore) -> None:
    events = {event["id"] for event in recorded("events", "--all", "--json", "--scope", f"run:{RUN}", code=0).ndjson}
    assert len(events) == 7
    assert evidence(recorded, "--scope", "task:PAY-12") == events
    assert evidence(recorded, "--scope", f"run:{RUN}") == events
    [arc] = recorded("arcs", "--scope", "task:PAY-12", "--kind", "struggle_and_recovery", "--json", code=0).ndjson
    assert arc["thread"].startswith("run:")


def test_the_newest_events_of_a_task_are_those_of_its_thread(recorded: Lore) -> None:
    story = recorded("tell", "--last", "2", "--detail", "full", "--scope", "task:PAY-12", "--format", "json", code=0).json
    assert sum(len(sentence["evidence"]) for paragraph in story["paragraphs"] for sentence in paragraph["sentences"]) == 2
