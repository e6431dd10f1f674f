"""Reads hook calls of Claude Code: one JSON object per call, passed to `lore hook claude-code`.

An event that the transcript has too gets the transcript's id, so that it is stored once; other events get the id and time from
`lore hook`. Calls that the transcript reports in more detail are skipped, because the recorder also reads the transcript. Tool calls
without an id (older versions) become events with their own ids, but only if the hook names no transcript.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from fleetlore.dialects.fields import as_name, as_object, as_text
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event
from fleetlore.programs.base import PermissionCall, ProgramApprovals, ProgramHooks, answer_permission_request
from fleetlore.programs.claude_code.discover import helper_transcript_path
from fleetlore.programs.claude_code.ids import (
    NAME,
    PROGRAM,
    ClaudeEventContext,
    derive_claude_id,
    prompt_id,
    session_agent,
    session_started_id,
    subagent_launched_id,
    subagent_returned_id,
    turn_ended_id,
)
from fleetlore.programs.claude_code.prompts import ClaudePrompt, make_prompt_event
from fleetlore.programs.claude_code.tools import (
    SUBAGENT_TOOLS,
    make_call_event,
    make_denial_event,
    make_outcome_event,
    make_subagent_events,
)
from fleetlore.programs.sessions import UNKNOWN_NAME, HookCall, describe_request, guess_task, make_unknown_hook_events, project_name

IGNORED_HOOKS = frozenset(
    (
        "PreModelSwitch",  # the transcript names the model of every reply
        "PostModelSwitch",
        "DirectoryAdded",
        "PostToolBatch",  # PostToolUse has reported each of them
        "PreCompact",  # PostCompact and the transcript report it when it is done
        "UserPromptExpansion",
        "MessageDisplay",
        "InstructionsLoaded",
        "ConfigChange",
        "CwdChanged",
        "FileChanged",
        "Setup",
    )
)
"""Hooks that are skipped, because other records have the same with more detail."""

BRANCH_KEY = "gitBranch"
"""Key of the git branch, which only the transcript has; the recorder adds it to hooks that start something."""
START_HOOKS = frozenset(("SessionStart", "UserPromptSubmit"))
_NEW_SESSION_SOURCES = frozenset(("startup", "clear"))
"""Sources of SessionStart that mean a new session."""
_COMMON_KEYS = frozenset(
    (
        BRANCH_KEY,
        "session_id",
        "transcript_path",
        "agent_transcript_path",
        "cwd",
        "hook_event_name",
        "permission_mode",
        "effort",
        "prompt_id",
        "agent_id",
        "agent_type",
        "background_tasks",
        "session_crons",
        "stop_hook_active",
    )
)
"""Fields that every hook repeats, or that are internal."""


def read_hook(record: Record, *, id: str, at: datetime) -> list[Event]:
    """The events of one call; none if it is skipped. `id` and `at` are its id and time of arrival."""
    session = as_name(record.get("session_id"))
    helper = as_name(record.get("agent_id"))
    hook = HookCall(record, ClaudeEventContext(at, helper or session_agent(session), session), id)
    name = as_text(record.get("hook_event_name")) or UNKNOWN_NAME
    if name in IGNORED_HOOKS:
        return []
    return _READERS.get(name, _read_other)(hook)


def _read_start(hook: HookCall) -> list[Event]:
    source = hook.get_text("source")
    if source == "compact" or hook.event_context.run is None:
        return []
    cwd, branch = hook.get_text("cwd"), hook.get_text(BRANCH_KEY)
    task = guess_task(branch)
    data = {
        "source": source,
        "cwd": cwd,
        "project": project_name(cwd),
        "branch": branch,
        "task_guessed": True if task else None,
        "program": PROGRAM,
        "model": hook.get_text("model"),
        "title": hook.get_text("session_title"),
    }
    own = session_started_id(hook.event_context.run) if source in _NEW_SESSION_SOURCES or source is None else hook.own_id
    return [hook.event_context._replace(task=task).make_event("session.started", own, text=project_name(cwd), data=data)]


def _read_prompt(hook: HookCall) -> list[Event]:
    words, own = hook.get_text("prompt"), as_name(hook.record.get("prompt_id"))
    if words is None:
        return []
    prompt = ClaudePrompt(words, id=prompt_id(own) if own else hook.own_id, key=own)
    return [make_prompt_event(hook.event_context, prompt, branch=hook.get_text(BRANCH_KEY), interrupted=False)]


def _read_call(hook: HookCall) -> list[Event]:
    own = as_name(hook.record.get("prompt_id"))
    cause = subagent_launched_id(helper) if (helper := as_name(hook.record.get("agent_id"))) else prompt_id(own) if own else None
    event = make_call_event(
        hook.event_context, hook.tool, _find_call_id(hook), hook.record.get("tool_input"), cwd=hook.get_text("cwd"), cause=cause
    )
    return _share_transcript_id(hook, event)


def _read_result(hook: HookCall) -> list[Event]:
    tool, call, result = hook.tool, _find_call_id(hook), hook.record.get("tool_response")
    interrupted = as_object(result).get("interrupted") is True
    event = make_outcome_event(
        hook.event_context,
        tool,
        call,
        hook.record.get("tool_input"),
        output=result,
        failed=interrupted,
        interrupted=interrupted,
        duration=hook.record.get("duration_ms"),
    )
    helpers = (
        make_subagent_events(hook.event_context, call, hook.record.get("tool_input"), result)
        if tool in SUBAGENT_TOOLS and hook.get_text("tool_use_id")
        else []
    )
    return [*_share_transcript_id(hook, event), *helpers]


def _read_failure(hook: HookCall) -> list[Event]:
    event = make_outcome_event(
        hook.event_context,
        hook.tool,
        _find_call_id(hook),
        hook.record.get("tool_input"),
        output=hook.record.get("error"),
        failed=True,
        interrupted=hook.record.get("is_interrupt") is True,
        duration=hook.record.get("duration_ms"),
    )
    return _share_transcript_id(hook, event)


def _read_denial(hook: HookCall) -> list[Event]:
    event = make_denial_event(
        hook.event_context, hook.tool, _find_call_id(hook), hook.record.get("tool_input"), reason=hook.get_text("reason") or ""
    )
    return _share_transcript_id(hook, event)


def _find_call_id(hook: HookCall) -> str:
    return hook.get_text("tool_use_id") or ""


def _share_transcript_id(hook: HookCall, event: Event) -> list[Event]:
    """The event with the id it shares with the transcript. Without a call id: with its own id, and only if there is no transcript."""
    if _find_call_id(hook):
        return [event]
    if hook.has_transcript:
        return []
    cause = event.cause if event.kind == "tool.called" else None
    return [replace(event, id=hook.own_id, cause=cause, data={key: value for key, value in event.data.items() if key != "call_id"})]


def _read_permission(hook: HookCall) -> list[Event]:
    tool = hook.tool
    words = describe_request(tool, hook.record.get("tool_input"))
    data = {"why": "permission", "tool": tool, "call_id": hook.get_text("tool_use_id")}
    return [hook.event_context.make_event("session.waiting", hook.own_id, text=words, data=data)]


def _read_notification(hook: HookCall) -> list[Event]:
    words, sort = hook.get_text("message"), hook.get_text("notification_type")
    return [hook.event_context.make_event("session.waiting", hook.own_id, text=words, data={"why": sort or words or "notification"})]


def _read_stop(hook: HookCall) -> list[Event]:
    own = as_name(hook.record.get("prompt_id"))
    # After another hook sent the agent back to work, a second Stop ends the same turn again.
    again = own is None or hook.record.get("stop_hook_active") is True
    words = hook.get_text("last_assistant_message")
    ended = hook.event_context.make_event("session.turn_ended", hook.own_id if again or own is None else turn_ended_id(own), text=words)
    return [ended, *_read_background(hook)]


def _read_background(hook: HookCall) -> list[Event]:
    """The turn has ended, but tasks go on in the background: the agent will be woken by them."""
    tasks = hook.record.get("background_tasks")
    running = [as_object(task) for task in tasks if as_object(task).get("status") in (None, "running")] if isinstance(tasks, list) else []
    if not running:
        return []
    names = ", ".join(as_text(task.get("description")) or as_text(task.get("id")) or "a task" for task in running[:5])
    own = derive_claude_id("background", hook.own_id)
    return [hook.event_context.make_event("session.waiting", own, text=f"background tasks: {names}", data={"why": "helpers"})]


def _read_state(hook: HookCall) -> list[Event]:
    """The state that the program keeps of a running session, as `live.py` reads it."""
    data = {"status": hook.get_text("status"), "waiting_for": hook.get_text("waiting_for"), "pid": hook.record.get("pid")}
    return [hook.event_context.make_event("session.observed", hook.own_id, text=hook.get_text("waiting_for"), data=data)]


def _read_failed_stop(hook: HookCall) -> list[Event]:
    error = hook.get_text("error") or hook.get_text("error_details") or hook.get_text("last_assistant_message")
    own = as_name(hook.record.get("prompt_id"))
    return [
        hook.event_context.make_event(
            "session.turn_ended", turn_ended_id(own) if own else hook.own_id, text=error, data={"reason": "failed"}
        )
    ]


def _read_compaction(hook: HookCall) -> list[Event]:
    """An event only if there is no transcript: the transcript has its own row, which the hook cannot be matched with."""
    if hook.get_text("transcript_path"):
        return []
    data = {"trigger": hook.get_text("trigger"), "summary": hook.get_text("compact_summary")}
    return [hook.event_context.make_event("session.compacted", hook.own_id, data=data)]


def _read_end(hook: HookCall) -> list[Event]:
    # The reason is a code such as "other", so the event has no text: the agent's last answer says more.
    return [hook.event_context.make_event("session.ended", hook.own_id, data={"reason": hook.get_text("reason")})]


def _read_subagent_start(hook: HookCall) -> list[Event]:
    """The hook does not say which agent launched it; assume the session's own agent until a tool result says otherwise."""
    child = as_name(hook.record.get("agent_id"))
    if child is None:
        return []
    role = hook.get_text("agent_type")
    launcher = hook.event_context._replace(agent=session_agent(hook.event_context.run))
    return [
        launcher.make_event(
            "agent.launched", subagent_launched_id(child), text=role, data={"role": role, "launcher_guessed": True}, child=child
        )
    ]


def _read_subagent_stop(hook: HookCall) -> list[Event]:
    child = as_name(hook.record.get("agent_id"))
    if (child is None and hook.has_transcript) or hook.record.get("agent_type") == "":  # the end of a compaction, which is not a sub-agent
        return []
    words = hook.get_text("last_assistant_message")
    launcher = hook.event_context._replace(agent=session_agent(hook.event_context.run))
    data = {"role": hook.get_text("agent_type"), "result": words}
    own = subagent_returned_id(child) if child else hook.own_id  # older versions do not name the sub-agent
    return [launcher.make_event("agent.returned", own, text=words, data=data, child=child)]


def _read_other(hook: HookCall) -> list[Event]:
    return make_unknown_hook_events(hook, dialect=NAME, common=_COMMON_KEYS)


_READERS: Mapping[str, Callable[[HookCall], list[Event]]] = {
    "SessionStart": _read_start,
    "UserPromptSubmit": _read_prompt,
    "PreToolUse": _read_call,
    "PostToolUse": _read_result,
    "PostToolUseFailure": _read_failure,
    "PermissionRequest": _read_permission,
    "PermissionDenied": _read_denial,
    "Notification": _read_notification,
    "Stop": _read_stop,
    "SessionState": _read_state,
    "StopFailure": _read_failed_stop,
    "SessionEnd": _read_end,
    "PostCompact": _read_compaction,
    "SubagentStart": _read_subagent_start,
    "SubagentStop": _read_subagent_stop,
}


def _expect_recording(record: Mapping[str, Any]) -> str | None:
    """The transcript of a sub-agent that was just started."""
    session, helper = as_text(record.get("transcript_path")), as_name(record.get("agent_id"))
    if record.get("hook_event_name") != "SubagentStart" or session is None or helper is None or not os.path.isfile(session):
        return None
    return helper_transcript_path(session, helper)


HOOKS = ProgramHooks(
    read=read_hook,
    branch_key=BRANCH_KEY,
    branch_steps=START_HOOKS,
    kinds_without_key={"UserPromptSubmit": "prompt.submitted", "Stop": "session.turn_ended"},
    expected_recording=_expect_recording,
)


# --- approvals

_SHOWN_ONLY = frozenset(("AskUserQuestion", "ExitPlanMode"))
"""Tools whose dialog is more than yes or no: the person answers it in the program."""


def _read_request(record: Mapping[str, Any]) -> PermissionCall | None:
    session, tool = as_name(record.get("session_id")), as_text(record.get("tool_name"))
    if record.get("hook_event_name") != "PermissionRequest" or session is None or tool is None:
        return None
    helper, own = as_name(record.get("agent_id")), session_agent(session)
    return PermissionCall(
        run=session,
        agent=helper or own or PROGRAM,
        parent=own if helper else None,
        tool=tool,
        input=record.get("tool_input"),
        call_id=as_text(record.get("tool_use_id")),
        transcript=as_text(record.get("transcript_path")),
        can_answer=tool not in _SHOWN_ONLY,
    )


def _is_attended(environ: Mapping[str, str]) -> bool:
    """Whether a person sits at its terminal. Without one (`claude -p`) no dialog is shown, and the hook holds the session up."""
    return environ.get("CLAUDE_CODE_ENTRYPOINT") == "cli" and environ.get("CLAUDE_CODE_SESSION_ATTENDED") != "0"


APPROVALS = ProgramApprovals("PermissionRequest", _read_request, answer_permission_request, _is_attended)
