"""Makes events of Codex's tool calls and their outcomes, for rollouts, streams and hooks alike."""

from __future__ import annotations

from typing import Any, NamedTuple

from fleetlore.dialects.commands.classify import ToolAction, classify_tool_call, extract_shell_command, find_tool_flags
from fleetlore.dialects.commands.flags import shown_flags
from fleetlore.dialects.fields import as_object
from fleetlore.events.envelope import Event
from fleetlore.programs.codex.ids import CallLocation, tool_called_id, tool_outcome_id
from fleetlore.programs.codex.items import CompletedCall
from fleetlore.programs.codex.outputs import CodexCallOutput
from fleetlore.programs.sessions import MAX_TEXT_CHARS, EventContext, bound_input, end_of_long, shorten_text

CODE_TOOL = "exec"
"""The tool that runs code of the model, which calls other tools; those calls are reported instead."""
_SUMMARY_KEYS = ("task_name", "message", "prompt", "path", "query", "url", "pattern", "chars", "explanation", "code", "target")
_PATCH_PREFIX = "*** Begin Patch\n"


class CallKey(NamedTuple):
    """The key of a call, from which ids are derived."""

    called: str
    outcome: str
    call: str | None = None
    """The program's own id of the call."""


def make_call_key(place: CallLocation, call: str) -> CallKey:
    """The key of a call that has an id."""
    return CallKey(tool_called_id(place, call), tool_outcome_id(place, call), call)


def summarize_call(tool: str, given: object) -> str:
    """A call in one line: the tool and its main argument."""
    command = extract_shell_command(given) if isinstance(given, dict) else None
    if isinstance(command, list):
        command = command[-1] if command[1:2] in (["-lc"], ["-c"]) else " ".join(command)
    fields = as_object(given)
    words = shorten_text(command) or next((line for key in _SUMMARY_KEYS if (line := shorten_text(fields.get(key)))), None)
    if words is None and isinstance(given, str):
        words = shorten_text(given[:2000].removeprefix(_PATCH_PREFIX).removeprefix("*** "))
    flags = shown_flags(find_tool_flags(tool, given), words or "")
    return f"{tool}: {words[: MAX_TEXT_CHARS - len(tool) - 2 - len(flags)]}{flags}" if words else f"{tool}{flags}"


def make_call_event(
    event_context: EventContext, key: CallKey, tool: str, given: object, *, cwd: str | None = None, cause: str | None = None
) -> Event:
    """A tool was called."""
    data = {
        "tool": tool,
        "call_id": key.call,
        "input": bound_input(given) or None,
        "cwd": cwd,
        "deed": _classify_codex_call(tool, given).name,
    }
    data |= {"flags": find_tool_flags(tool, given) or None}
    return event_context.make_event("tool.called", key.called, text=summarize_call(tool, given), data=data, cause=cause)


def make_outcome_event(
    event_context: EventContext, key: CallKey, tool: str, given: object, output: CodexCallOutput, work: CompletedCall | None = None
) -> Event:
    """The event of a call's outcome, from its output and the details of an earlier item."""
    code = output.exit_code if work is None or work.exit_code is None else work.exit_code
    duration = None if output.seconds is None else output.seconds * 1000
    if work is not None and work.duration_ms is not None:
        duration = work.duration_ms
    data: dict[str, Any] = {"tool": tool, "call_id": key.call, "flags": find_tool_flags(tool, given) or None}
    if output.refused or (work is not None and work.refused):
        data |= {"reason": output.words or None, "deed": _classify_codex_call(tool, given).name}
        return event_context.make_event("tool.denied", key.outcome, text=summarize_call(tool, given), data=data, cause=key.called)
    failed = output._replace(exit_code=code).failed or (work is not None and work.failed)
    action = _classify_codex_call(tool, given, output.words, failed=failed)
    data |= {"exit_code": code, "duration_ms": duration, "deed": action.name, "subject": action.subject}
    data |= {"output_end": end_of_long(output.words)}
    if failed:
        data |= {"output" if code is not None else "error": output.words or None, "interrupted": output.interrupted or None}
        why = shorten_text(output.words) or (f"exit code {code}" if code is not None else "failed")
        return event_context.make_event(
            "tool.failed", key.outcome, text=f"{summarize_call(tool, given)}: {why}", data=data, cause=key.called
        )
    paths = list((work.paths if work else ()) or action.paths)
    data |= {"output": output.words or None, "paths": paths or None, "running": output.running or None}
    data |= {"terminal": output.terminal}
    return event_context.make_event("tool.returned", key.outcome, text=summarize_call(tool, given), data=data, cause=key.called)


def make_completed_call_events(event_context: EventContext, key: CallKey, work: CompletedCall, *, cause: str | None) -> list[Event]:
    """A call and its outcome, if an item is their only record."""
    given = work.given if work.given is not None or not work.paths else {"changes": dict.fromkeys(work.paths, "")}
    called = make_call_event(event_context, key, work.tool, given, cwd=work.cwd, cause=cause)
    return [called, make_outcome_event(event_context, key, work.tool, given, CodexCallOutput(work.words), work)]


def _classify_codex_call(tool: str, given: object, output: object = None, *, failed: bool = False) -> ToolAction:
    return ToolAction(None) if tool == CODE_TOOL else classify_tool_call(tool, given, output, failed=failed)
