"""Tool calls of Claude Code and what came of them, told alike by hooks and by transcripts."""

from __future__ import annotations

import re
from collections import deque
from typing import Any

from fleetlore.dialects.commands.classify import deed_of, flags_of
from fleetlore.dialects.commands.flags import shown_flags
from fleetlore.dialects.fields import as_count, as_name, as_number, as_object, as_text
from fleetlore.events.envelope import Event
from fleetlore.programs.claude_code.ids import called_id, launched_id, outcome_id, returned_id
from fleetlore.programs.sessions import LONGEST_TEXT, PERSON, Scene, shorten

LAUNCHERS = frozenset(("Task", "Agent"))
"""Tools that set a helper to work; the newer name is the second."""

_exit_code = re.compile(r"(?:Error: )?Exit code (\d{1,4})\b")
_error_tags = re.compile(r"</?tool_use_error>")
_REFUSALS_BY_PERSON = ("The user doesn't want to proceed with this tool use", "The user doesn't want to take this action")
_REFUSALS = (
    *_REFUSALS_BY_PERSON,
    "Permission to use",
    "Permission for this",
    "This command requires approval",
    "Claude requested permissions",
)
_BY_HOOK = re.compile(r"(?:PreToolUse|PermissionRequest):\S* (?:\[.*\]: )?hook|(?:Operation|operation) (?:stopped|blocked) by hook")
# What stands in a result beside its text: whole files, patches, listings, which the call or the text tells already.
_TEXTS = ("stdout", "stderr", "content", "result", "text", "message", "output", "error_code")
_SAYS_WHAT = ("description", "command", "file_path", "notebook_path", "pattern", "query", "url", "skill", "path", "prompt", "subject")
_PATHS = frozenset(("file_path", "notebook_path", "path"))
_helper_line = re.compile(r"^agentId: ([\w-]{1,100})\b", re.MULTILINE)
_IN_BACKGROUND = "Async agent launched"
_COUNTED = {"totalTokens": "(?:<usage>)?subagent_tokens", "totalToolUseCount": "tool_uses", "totalDurationMs": "duration_ms"}
_users_own = re.compile(r"the user said:\s*(.*)", re.DOTALL)


def what_of(tool: str, given: object) -> str:
    """A call in one line: the tool, and what it was asked to do."""
    told = as_object(given)
    key, words = next(((key, line) for key in _SAYS_WHAT if (line := shorten(told.get(key)))), ("", None))
    if words and key in _PATHS:
        words = words.rstrip("/").rpartition("/")[2] or words
    flags = shown_flags(flags_of(tool, given), words or "")
    return f"{tool}: {words[: LONGEST_TEXT - len(tool) - 2 - len(flags)]}{flags}" if words else f"{tool}{flags}"


def tell_call(scene: Scene, tool: str, call: str, given: object, *, cwd: str | None = None, cause: str | None = None) -> Event:
    """A tool was called."""
    data = {"tool": tool, "call_id": call, "input": given or None, "cwd": cwd, "deed": deed_of(tool, given).name}
    data |= {"flags": flags_of(tool, given) or None}
    return scene.tell("tool.called", called_id(call), text=what_of(tool, given), data=data, cause=cause)


def tell_outcome(
    scene: Scene, tool: str, call: str, given: object, *, output: object, failed: bool, interrupted: bool = False, duration: object = None
) -> Event:
    """What came of a call: a result, an error, or a refusal."""
    words = text_of(output)
    data: dict[str, Any] = {"tool": tool, "call_id": call}
    if failed and is_refusal(words):
        return tell_denial(scene, tool, call, given, reason=words)
    deed = deed_of(tool, given, words, failed=failed)
    data |= {"deed": deed.name, "subject": deed.subject, "flags": flags_of(tool, given) or None, "duration_ms": as_number(duration)}
    line = what_of(tool, given)
    if failed:
        error = _error_tags.sub("", words).strip()
        data |= {"error": error or None, "exit_code": _find_exit_code(words), "interrupted": interrupted or None}
        return scene.tell(
            "tool.failed", outcome_id(call), text=f"{line}: {shorten(_cause_of(error)) or 'failed'}", data=data, cause=called_id(call)
        )
    data |= {"output": words or None, "paths": list(deed.paths) or None}
    return scene.tell("tool.returned", outcome_id(call), text=line, data=data, cause=called_id(call))


def tell_denial(scene: Scene, tool: str, call: str, given: object, *, reason: str) -> Event:
    """A tool was not let be used."""
    by = "hook" if _BY_HOOK.search(reason[:400]) else PERSON if is_refusal_by_person(reason) else None
    if by == PERSON:
        said = _users_own.search(reason)
        reason = said[1].strip() if said else ""
    data: dict[str, Any] = {"tool": tool, "call_id": call, "reason": reason or None, "by": by, "deed": deed_of(tool, given).name}
    data |= {"flags": flags_of(tool, given) or None}
    return scene.tell("tool.denied", outcome_id(call), text=what_of(tool, given), data=data, cause=called_id(call))


def tell_interruption(scene: Scene, tool: str, call: str, given: object, *, reason: str) -> Event:
    """A person stopped a tool that was running."""
    deed = deed_of(tool, given, failed=True)
    data: dict[str, Any] = {"tool": tool, "call_id": call, "deed": deed.name, "subject": deed.subject, "error": reason or None}
    data |= {"interrupted": True, "flags": flags_of(tool, given) or None}
    return scene.tell("tool.failed", outcome_id(call), text=f"{what_of(tool, given)}: interrupted", data=data, cause=called_id(call))


def tell_helper(scene: Scene, call: str, given: object, result: object) -> list[Event]:
    """What the result of a launching tool says of the helper: that it was launched, or that it came back."""
    told = as_object(result)
    child = as_name(told.get("agentId"))
    if child is None:
        return []
    role = as_text(told.get("agentType")) or as_text(as_object(given).get("subagent_type"))
    if told.get("status") == "async_launched":
        data: dict[str, Any] = {"role": role, "call_id": call, "prompt": as_text(told.get("prompt")), "background": True}
        words = as_text(told.get("description")) or as_text(told.get("prompt"))
        return [scene.tell("agent.launched", launched_id(child), text=words, data=data, child=child, cause=called_id(call))]
    words = text_of(told.get("content"))
    data = {
        "role": role,
        "call_id": call,
        "status": as_text(told.get("status")),
        "result": words or None,
        "tokens": as_count(told.get("totalTokens")),
        "tool_calls": as_count(told.get("totalToolUseCount")),
        "duration_ms": as_number(told.get("totalDurationMs")),
    }
    return [scene.tell("agent.returned", returned_id(child), text=words, data=data, child=child, cause=called_id(call))]


def in_words(output: object) -> dict[str, Any]:
    """What a launching tool tells its caller of the helper: the rows of helpers that launch others have nothing else."""
    words = text_of(output)
    last = next(iter(deque(_helper_line.finditer(words), 1)), None)
    if last is None:
        return {}
    numbers = {
        key: int(match[1])
        for key, name in _COUNTED.items()
        if (match := re.search(rf"^{name}: (\d{{1,12}})\b", words[last.end() :], re.MULTILINE))
    }
    status = "async_launched" if words.startswith(_IN_BACKGROUND) else "completed"
    return {"agentId": last[1], "status": status, "content": words[: last.start()].strip(), **numbers}


def is_refusal(words: str) -> bool:
    """Whether a failed call was not even tried."""
    return words.startswith(_REFUSALS) or _BY_HOOK.search(words[:400]) is not None


def is_refusal_by_person(words: str) -> bool:
    """Whether a person said no."""
    return words.startswith(_REFUSALS_BY_PERSON)


def text_of(value: object) -> str:
    """The words of a result, whichever shape they came in."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(text for part in value if (text := text_of(part)))
    if isinstance(value, dict):
        file = value.get("file")
        return "\n".join(text for key in _TEXTS if (text := text_of(value.get(key)))) or (text_of(file) if isinstance(file, dict) else "")
    return ""


def _cause_of(error: str) -> str:
    """The error without the line that only counts it."""
    match = _exit_code.match(error)
    return error[match.end() :].strip() or error if match else error


def _find_exit_code(words: str) -> int | None:
    match = _exit_code.match(words)
    return int(match[1]) if match else None
