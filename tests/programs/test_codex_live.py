"""Codex as it works: the streams of `codex exec --json`, and hooks, which tell nothing that its rollout would tell otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from fleetlore.events.envelope import Event
from fleetlore.programs.codex.transcript import read_hook
from tests.programs.rollouts import (
    CALL,
    CHILD,
    START,
    THREAD,
    TURN,
    Row,
    asked,
    call,
    ended,
    event,
    kinds,
    meta,
    of_kind,
    one,
    read,
    result,
    said,
    usage,
)

AGENT = "codex/aaaa0001"
HELPER = "codex/bbbb0002"
OWN_ID = "0b7d4d0e-3f61-4f0e-9c53-5a8a3c1f2e01"


# --- streams


def stream(*records: Row) -> list[Event]:
    return read([{"type": "thread.started", "thread_id": THREAD}, {"type": "turn.started"}, *records])


def streamed(name: str, /, **fields: Any) -> Row:
    return {"type": name, "item": fields}


COMMAND: Row = {"id": "item_1", "type": "command_execution", "command": "/bin/bash -lc 'make door'"}


def test_a_stream_shows_a_turn() -> None:
    events = stream(
        streamed("item.completed", id="item_0", type="reasoning", text="**Looking**"),
        streamed("item.started", **COMMAND, aggregated_output="", exit_code=None, status="in_progress"),
        streamed("item.completed", **COMMAND, aggregated_output="no rule\n", exit_code=2, status="failed"),
        streamed("item.completed", id="item_2", type="agent_message", text="Done"),
        {"type": "turn.completed", "usage": usage(900, 300, 40, 5)},
    )
    assert kinds(events) == ["session.started", "agent.thought", "tool.called", "tool.failed", "model.replied", "session.turn_ended"]
    called, failed, reply = events[2:5]
    assert called.data["input"] == {"cmd": "make door"}
    assert (failed.cause, failed.data["exit_code"]) == (called.id, 2)
    assert {"input": 600, "cache_read": 300, "output": 40, "said": "Done", "source": "exec"}.items() <= reply.data.items()


def test_a_streams_usage_is_the_threads_and_counts_once() -> None:
    events = stream(*({"type": "turn.completed", "usage": usage(*total)} for total in ((900, 0, 40), (1000, 0, 50), (1000, 0, 50))))
    assert [reply.data["input"] for reply in of_kind(events, "model.replied")] == [900, 100]


def test_the_same_items_in_two_streams_of_a_thread_are_two_things() -> None:
    message = streamed("item.completed", id="item_0", type="agent_message", text="Done")
    first, second = (stream(message, {"type": "turn.completed", "usage": usage(total, 0, 1)}) for total in (10, 20))
    assert first[0].id == second[0].id
    assert not {recorded.id for recorded in first[1:]} & {recorded.id for recorded in second[1:]}


def test_a_streams_failure_is_reported_once() -> None:
    events = stream({"type": "error", "message": "no luck"}, {"type": "turn.failed", "error": {"message": "no luck"}})
    assert kinds(events) == ["session.started", "model.failed", "session.turn_ended"]


def test_a_streams_patch_search_plan_and_tool_are_reported() -> None:
    events = stream(
        streamed("item.completed", id="1", type="file_change", changes=[{"path": "a.py", "kind": "add"}], status="completed"),
        streamed(
            "item.completed",
            id="2",
            type="mcp_tool_call",
            server="files",
            tool="read",
            arguments={"a": 1},
            error={"message": "gone"},
            status="failed",
        ),
        streamed("item.completed", id="3", type="web_search", query="doors"),
        streamed("item.completed", id="4", type="todo_list", items=[{"text": "one", "completed": True}]),
        streamed("item.completed", id="5", type="error", message="mind the gap"),
        streamed("item.completed", id="6", type="hologram", of="a door"),
    )
    outcomes = [recorded for recorded in events if recorded.kind in ("tool.returned", "tool.failed")]
    assert [recorded.data["tool"] for recorded in outcomes] == ["apply_patch", "mcp__files__read", "web_search", "update_plan"]
    assert (outcomes[0].data["paths"], outcomes[1].data["error"]) == (["a.py"], "gone")
    assert kinds(events[-2:]) == ["codex.error", "codex.hologram"]


def test_words_whose_turn_never_ends_are_reported_at_the_end() -> None:
    assert stream(streamed("item.completed", id="item_0", type="agent_message", text="Well"))[-1].data["said"] == "Well"


# --- hooks


def hook(name: str, /, *, rollout: bool = True, **fields: Any) -> list[Event]:
    path = {"transcript_path": f"/home/ann/.codex/sessions/rollout-{THREAD}.jsonl" if rollout else None}
    record = {"session_id": THREAD, "turn_id": TURN, "cwd": "/home/ann/shop", "hook_event_name": name, "model": "gpt-5.5", **path, **fields}
    return read_hook(record, id=OWN_ID, at=START)


def test_hooks_and_rollout_report_one_thing_once() -> None:
    begun = event(1, "task_started", turn_id=TURN)
    rollout = read(
        [meta(), begun, asked(1, "Mend the door"), call(3, "make"), result(4, ended(3, "oh")), event(8, "task_complete", turn_id=TURN)]
    )
    hooks = [
        *hook("SessionStart", source="startup"),
        *hook("UserPromptSubmit", prompt="Mend the door"),
        *hook("PreToolUse", tool_name="Bash", tool_input={"command": "make"}, tool_use_id=CALL),
        *hook("PostToolUse", tool_name="Bash", tool_input={"command": "make"}, tool_response="oh", tool_use_id=CALL),
        *hook("Stop", stop_hook_active=False, last_assistant_message="Done"),
    ]
    assert kinds(hooks) == ["prompt.submitted", "tool.called", "session.turn_ended"]
    assert {recorded.id for recorded in hooks} <= {recorded.id for recorded in rollout}


def test_a_result_whose_hook_says_how_it_ended_is_reported() -> None:
    response = "Exit code: 1\nWall time: 0 seconds\nOutput:\nno"
    failed = one(
        hook("PostToolUse", tool_name="apply_patch", tool_input={"command": "x"}, tool_response=response, tool_use_id=CALL), "tool.failed"
    )
    assert failed.data["exit_code"] == 1


def test_hooks_without_a_rollout_report_all_that_they_know() -> None:
    events = [
        *hook("SessionStart", rollout=False, source="startup"),
        *hook("PostToolUse", rollout=False, tool_name="Bash", tool_input={"command": "make"}, tool_response="oh", tool_use_id=CALL),
        *hook("SubagentStart", rollout=False, agent_id=CHILD, agent_type="worker"),
        *hook("SubagentStop", rollout=False, agent_id=CHILD, last_assistant_message="Oiled"),
    ]
    assert kinds(events) == ["session.started", "tool.returned", "agent.launched", "agent.returned"]
    assert (events[2].agent, events[2].child, events[2].data["launcher_guessed"]) == (AGENT, HELPER, True)


def test_a_sub_agents_hook_is_its_own() -> None:
    called = hook("PreToolUse", agent_id=CHILD, tool_name="Bash", tool_input={"command": "ls"}, tool_use_id=CALL)[0]
    assert (called.agent, called.parent, called.run) == (HELPER, AGENT, CHILD)


@pytest.mark.parametrize(
    ("name", "fields", "kind", "data"),
    [
        (
            "PermissionRequest",
            {"tool_name": "Bash", "tool_input": {"command": "rm x"}},
            "session.waiting",
            {"why": "permission", "tool": "Bash"},
        ),
        ("Notification", {"message": "Codex waits", "notification_type": "idle"}, "session.waiting", {"why": "idle"}),
        ("Interrupt", {}, "session.turn_ended", {"reason": "interrupted"}),
        ("SessionEnd", {"reason": "other"}, "session.ended", {"reason": "other"}),
        ("SessionStart", {"source": "resume"}, "session.started", {"source": "resume"}),
        ("DoorOpened", {"door": "blue"}, "codex.door_opened", {"door": "blue"}),
    ],
)
def test_every_hook_has_its_kind(name: str, fields: Row, kind: str, data: Row) -> None:
    recorded = hook(name, **fields)[0]
    assert recorded.kind == kind
    assert data.items() <= recorded.data.items()
    assert (recorded.at, recorded.id == OWN_ID) == (START, name != "Interrupt")


def test_one_reader_takes_rollouts_streams_and_hooks_as_they_come() -> None:
    called = {"session_id": THREAD, "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {}, "tool_use_id": "call_9"}
    events = read([meta(), {"type": "turn.completed", "usage": usage(9, 0, 1)}, called, said(3, "Yes")])
    assert kinds(events)[:4] == ["session.started", "model.replied", "session.turn_ended", "tool.called"]
