"""Makes events of Claude Code's tool calls and their outcomes, for hooks and transcripts alike."""

from __future__ import annotations

import re
from collections import deque
from typing import Any, NamedTuple

from fleetlore.dialects.commands.classify import classify_tool_call, find_tool_flags
from fleetlore.dialects.commands.flags import shown_flags
from fleetlore.dialects.fields import as_count, as_name, as_number, as_object, as_text
from fleetlore.events.envelope import Event
from fleetlore.programs.claude_code.ids import subagent_launched_id, subagent_returned_id, tool_called_id, tool_outcome_id
from fleetlore.programs.sessions import MAX_TEXT_CHARS, USER_ACTOR, EventContext, end_of_long, shorten_text

SUBAGENT_TOOLS = frozenset(("Task", "Agent"))
"""Tools that launch a sub-agent; the newer name is the second."""

POLLERS = frozenset(("TaskOutput", "AgentOutput", "AgentOutputTool"))
"""Tools that fetch the output of a background task."""
_ENDED = ("completed", "failed", "killed", "error")
_status_tag = re.compile(r"<status>(\w{1,30})</status>")

_EXIT_CODE_PATTERN = re.compile(r"(?:Error: )?Exit code (\d{1,4})\b")
_ERROR_TAG_PATTERN = re.compile(r"</?tool_use_error>")
_PERSON_REFUSAL_PREFIXES = ("The user doesn't want to proceed with this tool use", "The user doesn't want to take this action")
_REFUSAL_PREFIXES = (
    *_PERSON_REFUSAL_PREFIXES,
    "Permission to use",
    "Permission for this",
    "This command requires approval",
    "Claude requested permissions",
)
_HOOK_REFUSAL_PATTERN = re.compile(
    r"(?:PreToolUse|PermissionRequest):\S* (?:\[.*\]: )?hook|(?:Operation|operation) (?:stopped|blocked) by hook"
)
# Fields of a result that repeat the call or the text: whole files, patches, listings.
_TEXT_KEYS = ("stdout", "stderr", "content", "result", "text", "message", "output", "error_code")
_SUMMARY_KEYS = ("description", "command", "file_path", "notebook_path", "pattern", "query", "url", "skill", "path", "prompt", "subject")
_PATH_KEYS = frozenset(("file_path", "notebook_path", "path"))
_AGENT_ID_PATTERN = re.compile(r"^agentId: ([\w-]{1,100})\b", re.MULTILINE)
_BACKGROUND_LAUNCH_PREFIX = "Async agent launched"
_SUBAGENT_TOTAL_PATTERNS = {
    "totalTokens": "(?:<usage>)?subagent_tokens",
    "totalToolUseCount": "tool_uses",
    "totalDurationMs": "duration_ms",
}
# In a terminal, and in an editor; a note to the agent may follow the person's words.
_USER_REASON_PATTERN = re.compile(
    r"(?:the user said|following reason for the rejection):(.*?)(?:Note: The user's next message may contain|\Z)", re.DOTALL
)


def summarize_call(tool: str, given: object) -> str:
    """A call in one line: the tool and its main argument."""
    fields = as_object(given)
    key, words = next(((key, line) for key in _SUMMARY_KEYS if (line := shorten_text(fields.get(key)))), ("", None))
    if words and key in _PATH_KEYS:
        words = words.rstrip("/").rpartition("/")[2] or words
    flags = shown_flags(find_tool_flags(tool, given), words or "")
    return f"{tool}: {words[: MAX_TEXT_CHARS - len(tool) - 2 - len(flags)]}{flags}" if words else f"{tool}{flags}"


def make_call_event(
    event_context: EventContext, tool: str, call: str, given: object, *, cwd: str | None = None, cause: str | None = None
) -> Event:
    """A tool was called."""
    data = {"tool": tool, "call_id": call, "input": given or None, "cwd": cwd, "deed": classify_tool_call(tool, given).name}
    data |= {"flags": find_tool_flags(tool, given) or None}
    return event_context.make_event("tool.called", tool_called_id(call), text=summarize_call(tool, given), data=data, cause=cause)


def make_outcome_event(
    event_context: EventContext,
    tool: str,
    call: str,
    given: object,
    *,
    output: object,
    failed: bool,
    interrupted: bool = False,
    duration: object = None,
) -> Event:
    """The event of a call's outcome: a result, an error, or a denial."""
    words = extract_text(output)
    data: dict[str, Any] = {"tool": tool, "call_id": call}
    if failed and is_refusal(words):
        return make_denial_event(event_context, tool, call, given, reason=words)
    action = classify_tool_call(tool, given, words, failed=failed)
    data |= {
        "deed": action.name,
        "subject": action.subject,
        "flags": find_tool_flags(tool, given) or None,
        "duration_ms": as_number(duration),
    }
    data |= {"output_end": end_of_long(words)}
    line = summarize_call(tool, given)
    if failed:
        error = _ERROR_TAG_PATTERN.sub("", words).strip()
        data |= {"error": error or None, "exit_code": _find_exit_code(words), "interrupted": interrupted or None}
        return event_context.make_event(
            "tool.failed",
            tool_outcome_id(call),
            text=f"{line}: {shorten_text(_strip_exit_code_line(error)) or 'failed'}",
            data=data,
            cause=tool_called_id(call),
        )
    data |= {"output": words or None, "paths": list(action.paths) or None}
    return event_context.make_event("tool.returned", tool_outcome_id(call), text=line, data=data, cause=tool_called_id(call))


def make_denial_event(event_context: EventContext, tool: str, call: str, given: object, *, reason: str, row: str | None = None) -> Event:
    """The event of a denied tool call."""
    by = "hook" if _HOOK_REFUSAL_PATTERN.search(reason[:400]) else USER_ACTOR if is_refusal_by_person(reason) else None
    if by == USER_ACTOR:
        match = _USER_REASON_PATTERN.search(reason)
        reason = match[1].strip() if match else ""
    row = row if by == USER_ACTOR and reason else None
    data: dict[str, Any] = {"tool": tool, "call_id": call, "reason": reason or None, "by": by, "row": row}
    data |= {"deed": classify_tool_call(tool, given).name}
    data |= {"flags": find_tool_flags(tool, given) or None}
    return event_context.make_event(
        "tool.denied", tool_outcome_id(call), text=summarize_call(tool, given), data=data, cause=tool_called_id(call)
    )


def make_interruption_event(
    event_context: EventContext, tool: str, call: str, given: object, *, reason: str, row: str | None = None
) -> Event:
    """The event of a running tool that a person stopped."""
    action = classify_tool_call(tool, given, failed=True)
    data: dict[str, Any] = {"tool": tool, "call_id": call, "deed": action.name, "subject": action.subject, "error": reason or None}
    data |= {"interrupted": True, "flags": find_tool_flags(tool, given) or None}
    return event_context.make_event(
        "tool.failed", tool_outcome_id(call), text=f"{summarize_call(tool, given)}: interrupted", data=data, cause=tool_called_id(call)
    )


def make_subagent_events(event_context: EventContext, call: str, given: object, result: object) -> list[Event]:
    """The events in the result of a launching tool: the sub-agent was launched, or has returned."""
    fields = as_object(result)
    child = as_name(fields.get("agentId"))
    if child is None:
        return []
    role = as_text(fields.get("agentType")) or as_text(as_object(given).get("subagent_type"))
    if fields.get("status") == "async_launched":
        data: dict[str, Any] = {"role": role, "call_id": call, "prompt": as_text(fields.get("prompt")), "background": True}
        words = as_text(fields.get("description")) or as_text(fields.get("prompt"))
        return [
            event_context.make_event(
                "agent.launched", subagent_launched_id(child), text=words, data=data, child=child, cause=tool_called_id(call)
            )
        ]
    words = extract_text(fields.get("content"))
    data = {
        "role": role,
        "call_id": call,
        "status": as_text(fields.get("status")),
        "result": words or None,
        "tokens": as_count(fields.get("totalTokens")),
        "tool_calls": as_count(fields.get("totalToolUseCount")),
        "duration_ms": as_number(fields.get("totalDurationMs")),
    }
    return [
        event_context.make_event(
            "agent.returned", subagent_returned_id(child), text=words, data=data, child=child, cause=tool_called_id(call)
        )
    ]


class HelperReport(NamedTuple):
    """The report of a background sub-agent."""

    agent: str
    status: str
    text: str


def read_report(given: object, result: object, words: str) -> HelperReport | None:
    """The report of a sub-agent that has ended, from a polling tool; `None` if it still runs."""
    asked, task = as_object(given), as_object(as_object(result).get("task"))
    agent = as_name(task.get("task_id")) or next(
        (name for key in ("task_id", "agentId", "agent_id") if (name := as_name(asked.get(key)))), None
    )
    tagged = _status_tag.search(words[:2000])
    status = as_text(task.get("status")) or (tagged[1] if tagged else None)
    if agent is None or status not in _ENDED:
        return None
    text = as_text(task.get("result")) or as_text(task.get("output")) or _text_inside(words, "output") or words
    return HelperReport(agent, status, text)


def _text_inside(words: str, tag: str) -> str:
    _, opening, rest = words.partition(f"<{tag}>")
    return rest.rpartition(f"</{tag}>")[0].strip() if opening else ""


def parse_subagent_report(output: object) -> dict[str, Any]:
    """The sub-agent's id in the text of a launching tool's result; rows of sub-agents that launch others have only that."""
    words = extract_text(output)
    last = next(iter(deque(_AGENT_ID_PATTERN.finditer(words), 1)), None)
    if last is None:
        return {}
    numbers = {
        key: int(match[1])
        for key, name in _SUBAGENT_TOTAL_PATTERNS.items()
        if (match := re.search(rf"^{name}: (\d{{1,12}})\b", words[last.end() :], re.MULTILINE))
    }
    status = "async_launched" if words.startswith(_BACKGROUND_LAUNCH_PREFIX) else "completed"
    return {"agentId": last[1], "status": status, "content": words[: last.start()].strip(), **numbers}


def is_refusal(words: str) -> bool:
    """Whether a failed call was denied, not run."""
    return words.startswith(_REFUSAL_PREFIXES) or _HOOK_REFUSAL_PATTERN.search(words[:400]) is not None


def is_refusal_by_person(words: str) -> bool:
    """Whether a person denied it."""
    return words.startswith(_PERSON_REFUSAL_PREFIXES)


def extract_text(value: object) -> str:
    """The text of a result of any shape."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(text for part in value if (text := extract_text(part)))
    if isinstance(value, dict):
        file = value.get("file")
        return "\n".join(text for key in _TEXT_KEYS if (text := extract_text(value.get(key)))) or (
            extract_text(file) if isinstance(file, dict) else ""
        )
    return ""


def _strip_exit_code_line(error: str) -> str:
    """The error without its first line `Exit code N`."""
    match = _EXIT_CODE_PATTERN.match(error)
    return error[match.end() :].strip() or error if match else error


def _find_exit_code(words: str) -> int | None:
    match = _EXIT_CODE_PATTERN.match(words)
    return int(match[1]) if match else None
