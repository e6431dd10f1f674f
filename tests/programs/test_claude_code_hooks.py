"""Hooks of Claude Code tell what they alone know, and what the transcript tells, too, under the transcript's ids."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetlore.events.envelope import Event
from fleetlore.log.admission import Admission
from fleetlore.programs.claude_code.hooks import IGNORED_HOOKS, read_hook
from fleetlore.programs.claude_code.transcript import RECORDING
from tests.transcripts import Transcript, bash, text, tool

AT = datetime(2026, 11, 10, 9, 0, tzinfo=UTC)
OWN = "019a0000-0000-7000-8000-000000000001"
SESSION = "0b5e1111-aaaa-4bbb-8ccc-0123456789ab"


def hook(name: str, **fields: Any) -> list[Event]:
    common = {"session_id": SESSION, "transcript_path": f"/t/{SESSION}.jsonl", "cwd": "/home/ada/harbour", "prompt_id": "p-1"}
    return read_hook(common | {"hook_event_name": name} | fields, id=OWN, at=AT)


def recorded_by_transcript() -> dict[str, Event]:
    recorded = Transcript(SESSION)
    recorded.prompt("Mend it", "p-1")
    recorded.reply("m1", bash("t1", "pytest"), tool("t2", "Agent", description="look", prompt="Look"), stop="tool_use")
    recorded.result("t1", "Exit code 1\nboom", error=True)
    recorded.result("t2", [text("Found.")], toolUseResult={"status": "completed", "agentId": "a17c0de", "content": [text("Found.")]})
    recorded.add("system", subtype="turn_duration", durationMs=5)
    reader = RECORDING.open(None)
    return {f"{event.kind} {event.data.get('call_id', '')}": event for line in recorded.lines() for event in reader.read(line)}


@pytest.mark.parametrize(
    ("name", "fields", "same"),
    [
        ("SessionStart", {"source": "startup"}, "session.started "),
        ("UserPromptSubmit", {"prompt": "Mend it"}, "prompt.submitted "),
        ("PreToolUse", {"tool_name": "Bash", "tool_input": {"command": "pytest"}, "tool_use_id": "t1"}, "tool.called t1"),
        (
            "PostToolUseFailure",
            {"tool_name": "Bash", "tool_use_id": "t1", "error": "Exit code 1\nboom"},
            "tool.failed t1",
        ),
        ("PostToolUse", {"tool_name": "Agent", "tool_input": {}, "tool_use_id": "t2", "tool_response": {}}, "tool.returned t2"),
        ("Stop", {"stop_hook_active": False, "last_assistant_message": "Done."}, "session.turn_ended "),
        ("SubagentStop", {"agent_id": "a17c0de", "agent_type": "Explore"}, "agent.returned t2"),
    ],
)
def test_what_the_transcript_shows_too_has_the_same_id_and_kind(name: str, fields: dict[str, Any], same: str) -> None:
    event = hook(name, **fields)[0]
    other = recorded_by_transcript()[same]
    assert (event.id, event.kind, event.run) == (other.id, other.kind, other.run)


@pytest.mark.parametrize(
    ("name", "fields", "why"),
    [
        ("PermissionRequest", {"tool_name": "Bash", "tool_input": {"command": "rm x"}}, "permission"),
        ("Notification", {"message": "Claude needs you", "notification_type": "permission_prompt"}, "permission_prompt"),
        ("Notification", {"message": "Claude is waiting for your input"}, "Claude is waiting for your input"),
    ],
)
def test_a_session_that_waits_for_a_person_says_why(name: str, fields: dict[str, Any], why: str) -> None:
    [event] = hook(name, **fields)
    assert (event.kind, event.id, event.at, event.data["why"]) == ("session.waiting", OWN, AT, why)


def test_a_helper_s_launch_is_guessed_to_be_the_session_s_until_a_result_shows() -> None:
    [launch] = hook("SubagentStart", agent_id="a17c0de", agent_type="Explore")
    assert (launch.agent, launch.child, launch.data) == ("claude-code/0b5e1111", "a17c0de", {"role": "Explore", "launcher_guessed": True})
    response = {"status": "async_launched", "agentId": "a17c0de", "prompt": "Look"}
    _, sure = hook("PostToolUse", tool_name="Agent", tool_use_id="t2", tool_response=response, agent_id="launcher", agent_type="Plan")
    assert (sure.id, sure.agent, sure.child) == (launch.id, "launcher", "a17c0de")


def test_a_helper_s_call_is_its_own() -> None:
    [call] = hook("PreToolUse", tool_name="Bash", tool_input={}, tool_use_id="t5", agent_id="a17c0de", agent_type="Explore")
    assert (call.agent, call.run) == ("a17c0de", SESSION)


def test_usage_is_never_reported_by_a_hook() -> None:
    response = {"status": "completed", "agentId": "a17c0de", "totalTokens": 137, "usage": {"input_tokens": 5, "output_tokens": 9}}
    events = hook("PostToolUse", tool_name="Agent", tool_use_id="t2", tool_response=response)
    assert [event.kind for event in events] == ["tool.returned", "agent.returned"]


def test_a_resumed_session_starts_again_under_an_id_of_its_own() -> None:
    [event] = hook("SessionStart", source="resume")
    assert (event.kind, event.id, event.data["source"]) == ("session.started", OWN, "resume")


def test_a_hook_from_the_future_is_kept_under_its_own_name() -> None:
    [event] = hook("QuantumLeapX", message="It leapt.", qubits=3)
    assert (event.kind, event.text, event.data) == ("claude_code.quantum_leap_x", "It leapt.", {"message": "It leapt.", "qubits": 3})


@pytest.mark.parametrize("name", [*sorted(IGNORED_HOOKS), "SubagentStop"])
def test_what_others_report_is_folded(name: str) -> None:
    assert hook(name, agent_type="", agent_id="a-compaction") == []


def test_a_compaction_is_the_transcript_s_to_report_and_the_hook_s_only_where_there_is_none() -> None:
    recorded = {"trigger": "manual", "compact_summary": "In short: …"}
    assert hook("PostCompact", **recorded) == []
    [event] = hook("PostCompact", transcript_path=None, **recorded)
    assert (event.kind, event.id, event.data) == ("session.compacted", OWN, {"trigger": "manual", "summary": "In short: …"})


def test_a_session_that_a_hook_mentions_has_the_branch_and_the_task_that_its_transcript_would_report() -> None:
    transcript = Transcript(SESSION, gitBranch="feat/issue-42")
    transcript.prompt("Mend it", "p-1")
    reader = RECORDING.open(None)
    by_transcript = [event for line in transcript.lines() for event in reader.read(line)]
    by_hooks = hook("SessionStart", source="startup", gitBranch="feat/issue-42") + hook(
        "UserPromptSubmit", prompt="Mend it", gitBranch="feat/issue-42"
    )
    assert [(event.id, event.task, event.data.get("branch")) for event in by_hooks] == [
        (event.id, event.task, event.data.get("branch")) for event in by_transcript
    ]
    assert by_hooks[1].task == "#42"


_values = st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.dictionaries(st.text(max_size=4), st.integers(), max_size=2)
_NAMES = """
    SessionStart UserPromptSubmit PreToolUse PostToolUse PostToolUseFailure PermissionRequest PermissionDenied
    Notification Stop StopFailure SessionEnd PostCompact SubagentStart SubagentStop X 7ÄÖ
"""
_KEYS = "tool_name tool_input tool_response tool_use_id error message prompt prompt_id agent_id reason"
_names = st.sampled_from(["", *_NAMES.split()])
_keys = st.sampled_from(_KEYS.split())


@given(_names, st.dictionaries(_keys | st.just("session_id"), _values, max_size=8))
def test_whatever_a_hook_hands_over_the_log_takes_its_events(name: str, fields: dict[str, Any]) -> None:
    for event in hook(name, **fields):
        Admission().admit(event)


def test_a_hook_from_the_future_that_is_too_large_is_kept_in_part() -> None:
    [event] = hook("QuantumLeap", message="It leapt.", bulk=[{"n": n} for n in range(40_000)])
    Admission().admit(event)
    assert event.data == {"message": "It leapt."}


@pytest.mark.parametrize(
    ("name", "fields", "kind"),
    [
        ("PreToolUse", {"tool_name": "Bash", "tool_input": {"command": "ls"}}, "tool.called"),
        ("PostToolUse", {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_response": {"stdout": "a"}}, "tool.returned"),
        ("PostToolUseFailure", {"tool_name": "Bash", "error": "Exit code 1"}, "tool.failed"),
        ("PermissionDenied", {"tool_name": "Bash", "reason": "no"}, "tool.denied"),
        ("SubagentStop", {}, "agent.returned"),
    ],
)
def test_what_older_programs_report_without_a_key_has_its_own_id_where_no_transcript_shows_it(name: str, fields: Any, kind: str) -> None:
    [event] = hook(name, **fields, transcript_path=None)
    assert (event.kind, event.id, event.run) == (kind, OWN, SESSION)
    assert "call_id" not in event.data
    assert hook(name, **fields) == []
