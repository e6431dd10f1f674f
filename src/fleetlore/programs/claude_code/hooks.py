"""Hooks of Claude Code: what it hands to `lore hook claude-code`, one JSON object a call.

What the transcript tells, too, has the transcript's id; the rest has the id and the time that `lore hook` gave it. What the
transcript tells better is folded: whoever stores hooks reads the transcript that they name. Calls without a key (older programs
name no tool call) are told under their own ids, but only where no transcript is named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from msgspec.structs import replace

from fleetlore.dialects.fields import as_name, as_object, as_text
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event
from fleetlore.programs.claude_code.ids import NAME, PROGRAM, Scene, agent_of, launched_id, prompt_id, returned_id, started_id, turn_id
from fleetlore.programs.claude_code.prompts import Prompt, tell_prompt
from fleetlore.programs.claude_code.tools import LAUNCHERS, tell_call, tell_denial, tell_helper, tell_outcome, what_of
from fleetlore.programs.sessions import UNKNOWN, Hook, guess_task, project_of, tell_unknown

FOLDED = frozenset(
    (
        "PostToolBatch",  # PostToolUse has told each of them
        "PreCompact",  # PostCompact and the transcript tell it when it is done
        "UserPromptExpansion",
        "MessageDisplay",
        "InstructionsLoaded",
        "ConfigChange",
        "CwdChanged",
        "FileChanged",
        "Setup",
    )
)
"""Hooks that tell nothing that is not told better elsewhere."""

BRANCH = "gitBranch"
"""What the transcript says in every row and no hook does: whoever takes hooks in adds it to those that begin something."""
BEGINNINGS = frozenset(("SessionStart", "UserPromptSubmit"))
_KEEPS_ITS_PLACE = frozenset(("startup", "clear"))
"""How a session starts that was not there before."""
_COMMON = frozenset(
    (
        BRANCH,
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
"""What every hook repeats, or what says nothing to anybody else."""


def read_hook(record: Record, *, id: str, at: datetime) -> list[Event]:
    """The events of one call; none: it is folded. `id` and `at` are those that the call was given when it came."""
    session = as_name(record.get("session_id"))
    helper = as_name(record.get("agent_id"))
    hook = Hook(record, Scene(at, helper or agent_of(session), session), id)
    name = as_text(record.get("hook_event_name")) or UNKNOWN
    if name in FOLDED:
        return []
    return _READERS.get(name, _read_other)(hook)


def _read_start(hook: Hook) -> list[Event]:
    source = hook.text("source")
    if source == "compact" or hook.scene.run is None:
        return []
    cwd, branch = hook.text("cwd"), hook.text(BRANCH)
    task = guess_task(branch)
    data = {
        "source": source,
        "cwd": cwd,
        "project": project_of(cwd),
        "branch": branch,
        "task_guessed": True if task else None,
        "program": PROGRAM,
        "model": hook.text("model"),
        "title": hook.text("session_title"),
    }
    own = started_id(hook.scene.run) if source in _KEEPS_ITS_PLACE or source is None else hook.own_id
    return [hook.scene._replace(task=task).tell("session.started", own, text=project_of(cwd), data=data)]


def _read_prompt(hook: Hook) -> list[Event]:
    words, own = hook.text("prompt"), as_name(hook.record.get("prompt_id"))
    if words is None:
        return []
    prompt = Prompt(words, id=prompt_id(own) if own else hook.own_id, key=own)
    return [tell_prompt(hook.scene, prompt, branch=hook.text(BRANCH), interrupted=False)]


def _read_call(hook: Hook) -> list[Event]:
    own = as_name(hook.record.get("prompt_id"))
    cause = launched_id(helper) if (helper := as_name(hook.record.get("agent_id"))) else prompt_id(own) if own else None
    told = tell_call(hook.scene, _tool(hook), _call(hook), hook.record.get("tool_input"), cwd=hook.text("cwd"), cause=cause)
    return _by_key(hook, told)


def _read_result(hook: Hook) -> list[Event]:
    tool, call, result = _tool(hook), _call(hook), hook.record.get("tool_response")
    interrupted = as_object(result).get("interrupted") is True
    told = tell_outcome(
        hook.scene,
        tool,
        call,
        hook.record.get("tool_input"),
        output=result,
        failed=interrupted,
        interrupted=interrupted,
        duration=hook.record.get("duration_ms"),
    )
    helpers = tell_helper(hook.scene, call, hook.record.get("tool_input"), result) if tool in LAUNCHERS and hook.text("tool_use_id") else []
    return [*_by_key(hook, told), *helpers]


def _read_failure(hook: Hook) -> list[Event]:
    told = tell_outcome(
        hook.scene,
        _tool(hook),
        _call(hook),
        hook.record.get("tool_input"),
        output=hook.record.get("error"),
        failed=True,
        interrupted=hook.record.get("is_interrupt") is True,
        duration=hook.record.get("duration_ms"),
    )
    return _by_key(hook, told)


def _read_denial(hook: Hook) -> list[Event]:
    told = tell_denial(hook.scene, _tool(hook), _call(hook), hook.record.get("tool_input"), reason=hook.text("reason") or "")
    return _by_key(hook, told)


def _call(hook: Hook) -> str:
    return hook.text("tool_use_id") or ""


def _by_key(hook: Hook, told: Event) -> list[Event]:
    """The event under the key that its call shares with the transcript; without one, under its own id where no transcript tells it."""
    if _call(hook):
        return [told]
    if hook.has_transcript:
        return []
    cause = told.cause if told.kind == "tool.called" else None
    return [replace(told, id=hook.own_id, cause=cause, data={key: value for key, value in told.data.items() if key != "call_id"})]


def _read_permission(hook: Hook) -> list[Event]:
    tool = _tool(hook)
    data = {"why": "permission", "tool": tool, "call_id": hook.text("tool_use_id")}
    return [hook.scene.tell("session.waiting", hook.own_id, text=what_of(tool, hook.record.get("tool_input")), data=data)]


def _read_notification(hook: Hook) -> list[Event]:
    words, sort = hook.text("message"), hook.text("notification_type")
    return [hook.scene.tell("session.waiting", hook.own_id, text=words, data={"why": sort or words or "notification"})]


def _read_stop(hook: Hook) -> list[Event]:
    own = as_name(hook.record.get("prompt_id"))
    # A stop that other hooks sent on again ends the same turn once more.
    again = own is None or hook.record.get("stop_hook_active") is True
    words = hook.text("last_assistant_message")
    return [hook.scene.tell("session.turn_ended", hook.own_id if again or own is None else turn_id(own), text=words)]


def _read_failed_stop(hook: Hook) -> list[Event]:
    error = hook.text("error") or hook.text("error_details") or hook.text("last_assistant_message")
    own = as_name(hook.record.get("prompt_id"))
    return [hook.scene.tell("session.turn_ended", turn_id(own) if own else hook.own_id, text=error, data={"reason": "failed"})]


def _read_compaction(hook: Hook) -> list[Event]:
    """The transcript has a row for it, of which the hook knows nothing: only without one the hook tells it."""
    if hook.text("transcript_path"):
        return []
    data = {"trigger": hook.text("trigger"), "summary": hook.text("compact_summary")}
    return [hook.scene.tell("session.compacted", hook.own_id, data=data)]


def _read_end(hook: Hook) -> list[Event]:
    return [hook.scene.tell("session.ended", hook.own_id, text=hook.text("reason"), data={"reason": hook.text("reason")})]


def _read_launch(hook: Hook) -> list[Event]:
    """The hook does not say who launched it: the session's own agent is taken for it until a tool's result tells."""
    child = as_name(hook.record.get("agent_id"))
    if child is None:
        return []
    role = hook.text("agent_type")
    launcher = hook.scene._replace(agent=agent_of(hook.scene.run))
    return [launcher.tell("agent.launched", launched_id(child), text=role, data={"role": role, "launcher_guessed": True}, child=child)]


def _read_return(hook: Hook) -> list[Event]:
    child = as_name(hook.record.get("agent_id"))
    if (child is None and hook.has_transcript) or hook.record.get("agent_type") == "":  # a compaction ends so, and has launched nobody
        return []
    words = hook.text("last_assistant_message")
    launcher = hook.scene._replace(agent=agent_of(hook.scene.run))
    data = {"role": hook.text("agent_type"), "result": words}
    own = returned_id(child) if child else hook.own_id  # older programs do not say which one
    return [launcher.tell("agent.returned", own, text=words, data=data, child=child)]


def _read_other(hook: Hook) -> list[Event]:
    return tell_unknown(hook, dialect=NAME, common=_COMMON)


def _tool(hook: Hook) -> str:
    return hook.text("tool_name") or UNKNOWN


_READERS: Mapping[str, Callable[[Hook], list[Event]]] = {
    "SessionStart": _read_start,
    "UserPromptSubmit": _read_prompt,
    "PreToolUse": _read_call,
    "PostToolUse": _read_result,
    "PostToolUseFailure": _read_failure,
    "PermissionRequest": _read_permission,
    "PermissionDenied": _read_denial,
    "Notification": _read_notification,
    "Stop": _read_stop,
    "StopFailure": _read_failed_stop,
    "SessionEnd": _read_end,
    "PostCompact": _read_compaction,
    "SubagentStart": _read_launch,
    "SubagentStop": _read_return,
}
