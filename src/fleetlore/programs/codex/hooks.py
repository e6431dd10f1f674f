"""Reads hook calls of Codex: one JSON object per call, passed to `lore hook codex`, with the names of Claude Code's hooks.

An event that the rollout has too gets the rollout's id, so that it is stored once. Calls that the rollout reports in more detail are
skipped if the hook names a rollout, because the recorder also reads it: the session's start (the hook has no branch), sub-agents (the
hook does not name the parent), and results without an exit code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from fleetlore.dialects.commands.classify import is_correction
from fleetlore.dialects.fields import as_exit_code, as_name, as_object, as_text
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event
from fleetlore.programs.base import SESSION_KEYS, PermissionCall, ProgramApprovals, ProgramHooks, answer_permission_request
from fleetlore.programs.codex.ids import (
    NAME,
    PROGRAM,
    CallLocation,
    CodexEventContext,
    derive_codex_id,
    prompt_id,
    session_started_id,
    subagent_launched_id,
    thread_agent,
    turn_ended_id,
)
from fleetlore.programs.codex.outputs import CodexCallOutput, parse_call_output
from fleetlore.programs.codex.tools import CallKey, make_call_event, make_call_key, make_outcome_event
from fleetlore.programs.sessions import (
    UNKNOWN_NAME,
    USER_ACTOR,
    HookCall,
    describe_request,
    guess_task,
    make_unknown_hook_events,
    project_name,
)

IGNORED_HOOKS = frozenset(("PreCompact", "PostCompact", "PreModelRequest", "PostModelRequest"))
"""Hooks that the rollout reports with more detail."""
_NEW_SESSION_SOURCES = frozenset(("startup", "clear"))
"""Sources of SessionStart that mean a new session."""
_COMMON_KEYS = frozenset(
    (
        "session_id",
        "turn_id",
        "transcript_path",
        "agent_transcript_path",
        "cwd",
        "hook_event_name",
        "model",
        "permission_mode",
        "agent_id",
        "agent_type",
    )
)
"""Fields that every hook repeats."""


def read_hook(record: Record, *, id: str, at: datetime | None) -> list[Event]:
    """The events of one call; none if it is skipped. `id` and `at` are its id and time of arrival."""
    root, helper = as_name(record.get("session_id")), as_name(record.get("agent_id"))
    thread = helper or root
    parent = thread_agent(root) if helper is not None and helper != root else None
    hook = HookCall(record, CodexEventContext(at, thread_agent(thread), thread, parent), id)
    name = as_text(record.get("hook_event_name")) or UNKNOWN_NAME
    return [] if name in IGNORED_HOOKS else _READERS.get(name, _read_other)(hook)


def _read_start(hook: HookCall) -> list[Event]:
    source = hook.get_text("source")
    new = source is None or source in _NEW_SESSION_SOURCES
    if hook.event_context.run is None or source == "compact" or (new and hook.has_transcript):
        return []
    cwd = hook.get_text("cwd")
    data = {"source": source, "cwd": cwd, "project": project_name(cwd), "program": PROGRAM, "model": hook.get_text("model")}
    own = session_started_id(hook.event_context.run) if new else hook.own_id
    return [hook.event_context.make_event("session.started", own, text=project_name(cwd), data=data)]


def _read_prompt(hook: HookCall) -> list[Event]:
    words, turn = hook.get_text("prompt"), hook.get_text("turn_id")
    if words is None:
        return []
    task = guess_task(None, words)
    data = {"prompt": words, "prompt_id": turn, "task_guessed": True if task else None}
    data["correction"] = is_correction(words, interrupted=False) or None
    own = prompt_id(turn, words) if turn else hook.own_id
    return [
        hook.event_context._replace(task=task).make_event(
            "prompt.submitted", own, text=words, data=data, actor=hook.event_context.parent or USER_ACTOR
        )
    ]


def _find_call_key(hook: HookCall) -> CallKey | None:
    call = hook.get_text("tool_use_id")
    return None if call is None else make_call_key(CallLocation(hook.event_context.run, hook.get_text("turn_id")), call)


def _read_call(hook: HookCall) -> list[Event]:
    key = _find_call_key(hook)
    return (
        []
        if key is None
        else [make_call_event(hook.event_context, key, hook.tool, hook.record.get("tool_input"), cwd=hook.get_text("cwd"))]
    )


def _read_result(hook: HookCall) -> list[Event]:
    key, response = _find_call_key(hook), hook.record.get("tool_response")
    if key is None:
        return []
    output = _parse_tool_response(response)
    if output.exit_code is None and output.success is None and not output.failed and hook.has_transcript:
        return []
    return [make_outcome_event(hook.event_context, key, hook.tool, hook.record.get("tool_input"), output)]


def _read_failure(hook: HookCall) -> list[Event]:
    key = _find_call_key(hook)
    output = CodexCallOutput(hook.get_text("error") or _parse_tool_response(hook.record.get("tool_response")).words, success=False)
    return [] if key is None else [make_outcome_event(hook.event_context, key, hook.tool, hook.record.get("tool_input"), output)]


def _parse_tool_response(response: object) -> CodexCallOutput:
    output, fields = parse_call_output(response), as_object(response)
    code = as_exit_code(fields.get("exit_code"))
    return output if code is None else output._replace(exit_code=code)


def _read_permission(hook: HookCall) -> list[Event]:
    tool = hook.tool
    words = describe_request(tool, hook.record.get("tool_input"))
    data = {"why": "permission", "tool": tool, "call_id": hook.get_text("tool_use_id")}
    return [hook.event_context.make_event("session.waiting", hook.own_id, text=words, data=data)]


def _read_notification(hook: HookCall) -> list[Event]:
    words, sort = hook.get_text("message"), hook.get_text("notification_type")
    return [hook.event_context.make_event("session.waiting", hook.own_id, text=words, data={"why": sort or words or "notification"})]


def _read_stop(hook: HookCall) -> list[Event]:
    turn, words = hook.get_text("turn_id"), hook.get_text("last_assistant_message")
    # After another hook sent the agent back to work, a second Stop ends the same turn again.
    own = turn_ended_id(turn) if turn and hook.record.get("stop_hook_active") is not True else hook.own_id
    return [hook.event_context.make_event("session.turn_ended", own, text=words)]


def _read_interrupt(hook: HookCall) -> list[Event]:
    turn = hook.get_text("turn_id")
    own = turn_ended_id(turn) if turn else hook.own_id
    return [hook.event_context.make_event("session.turn_ended", own, text="interrupted", data={"reason": "interrupted"})]


def _read_end(hook: HookCall) -> list[Event]:
    reason = hook.get_text("reason")
    return [hook.event_context.make_event("session.ended", hook.own_id, data={"reason": reason})]


def _read_subagent_start(hook: HookCall) -> list[Event]:
    child = as_name(hook.record.get("agent_id"))
    if child is None or hook.has_transcript:
        return []
    role = hook.get_text("agent_type")
    data = {"role": role, "launcher_guessed": True}
    return [
        _make_launcher_context(hook).make_event(
            "agent.launched", subagent_launched_id(child), text=role, data=data, child=thread_agent(child)
        )
    ]


def _read_subagent_stop(hook: HookCall) -> list[Event]:
    child = as_name(hook.record.get("agent_id"))
    if child is None or hook.has_transcript:
        return []
    words = hook.get_text("last_assistant_message")
    data = {"role": hook.get_text("agent_type"), "result": words}
    own = derive_codex_id("agent", child, "returned", hook.get_text("turn_id") or hook.own_id)
    return [_make_launcher_context(hook).make_event("agent.returned", own, text=words, data=data, child=thread_agent(child))]


def _make_launcher_context(hook: HookCall) -> CodexEventContext:
    root = as_name(hook.record.get("session_id"))
    return CodexEventContext(hook.event_context.at, thread_agent(root), root)


def _read_other(hook: HookCall) -> list[Event]:
    return make_unknown_hook_events(hook, dialect=NAME, common=_COMMON_KEYS)


_READERS: Mapping[str, Callable[[HookCall], list[Event]]] = {
    "SessionStart": _read_start,
    "UserPromptSubmit": _read_prompt,
    "PreToolUse": _read_call,
    "PostToolUse": _read_result,
    "PostToolUseFailure": _read_failure,
    "PermissionRequest": _read_permission,
    "Notification": _read_notification,
    "Stop": _read_stop,
    "Interrupt": _read_interrupt,
    "SessionEnd": _read_end,
    "SubagentStart": _read_subagent_start,
    "SubagentStop": _read_subagent_stop,
}


def _expect_recording(record: Mapping[str, Any]) -> str | None:
    """The rollout of a session that was just started."""
    return as_text(record.get("transcript_path")) if record.get("hook_event_name") == "SessionStart" else None


def _read_request(record: Mapping[str, Any]) -> PermissionCall | None:
    root, tool = as_name(record.get("session_id")), as_text(record.get("tool_name"))
    if record.get("hook_event_name") != "PermissionRequest" or root is None or tool is None:
        return None
    thread = as_name(record.get("agent_id")) or root
    return PermissionCall(
        run=thread,
        agent=thread_agent(thread) or PROGRAM,
        parent=thread_agent(root) if thread != root else None,
        tool=tool,
        input=record.get("tool_input"),
        call_id=as_text(record.get("tool_use_id")),
        transcript=as_text(record.get("transcript_path")),
    )


def _find_agents(program: str, record: Mapping[str, Any]) -> list[tuple[str | None, str | None]]:
    """Sub-agents have their own threads."""
    threads = [thread for key in (*SESSION_KEYS, "agent_id") if isinstance(thread := record.get(key), str)]
    return [(thread_agent(thread), thread) for thread in threads]


HOOKS = ProgramHooks(read=read_hook, expected_recording=_expect_recording, find_agents=_find_agents)
APPROVALS = ProgramApprovals("PermissionRequest", _read_request, answer_permission_request)
"""It shows its dialog only after the hook: `is_attended` is never true."""
