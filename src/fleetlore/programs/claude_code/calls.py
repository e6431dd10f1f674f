"""Normalise the tool calls of Claude Code."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from fleetlore.dialects.fields import as_object
from fleetlore.programs.normalised import CallInput, CallOutput, PlanStep, ToolCallReader

_running = re.compile(r"(?:Command|Shell command)[^\n]{0,80}\bbackground[^\n]{0,40}\bID:? ([\w-]{1,100})")
_status = re.compile(r"<status>(\w{1,30})</status>")
_exit_code = re.compile(r"<exit_code>(-?\d{1,10})</exit_code>")
_exit_in_words = re.compile(r"\bexit code:? (-?\d{1,10})\b")
_output_file = re.compile(r"[/\\]tasks[/\\]([\w-]{1,100})\.output\b")
_created_step = re.compile(r"Task #(\d{1,9}) created successfully: ([^\n]{1,300})")
_LONGEST_LOOK = 2000


def read_input(tool: str, given: object) -> CallInput | None:
    """The normalised call of a Claude Code tool; `None` for other tools."""
    read = _TOOLS.get(tool)
    return None if read is None else read(as_object(given))


def read_output(given: CallInput, output: str, data: Mapping[str, Any]) -> CallOutput:
    """The state of a background command, its id, its exit code and its own output."""
    head = output[:_LONGEST_LOOK]
    if given.polls:
        status = found[1] if (found := _status.search(head)) else ""
        code = int(found[1]) if (found := _exit_code.search(head)) else None
        is_over = status in ("completed", "failed", "killed", "error")
        return CallOutput("completed" if is_over else "running" if status else "unknown", given.polls, code, _inner_output(output))
    if given.kind == "command" and (found := _running.match(head)):
        return CallOutput("running", found[1], None, "")
    if given.kind == "other" and (found := _created_step.match(head)):
        return CallOutput(plan=(PlanStep(found[1], found[2].strip()),))
    return CallOutput()


def read_notification(data: Mapping[str, Any]) -> tuple[str, bool, int | None] | None:
    """From the notification that a background command ended: its id, whether it failed, and its exit code."""
    task, status, summary = (_join_text(data, key) for key in ("task_id", "status", "summary"))
    if not task or status not in ("completed", "failed", "killed"):
        return None
    found = _exit_in_words.search(summary[:_LONGEST_LOOK])
    return task, status != "completed", int(found[1]) if found else None


def find_output_file(given: CallInput) -> str:
    """The id of the background command whose output file a call reads; empty if it reads none."""
    text = given.paths[0] if given.kind == "read" and given.paths else given.command if given.kind == "command" else ""
    found = _output_file.search(text[:_LONGEST_LOOK]) if ".output" in text else None
    return found[1] if found else ""


def _inner_output(output: str) -> str:
    """The command's own output, without the tags that the tool puts around it."""
    parts = []
    for tag in ("stdout", "stderr", "output"):
        _, opening, rest = output.partition(f"<{tag}>")
        if opening:
            parts.append(rest.rpartition(f"</{tag}>")[0] or rest)
    return "\n".join(parts)


def _join_text(fields: Mapping[str, Any], *keys: str) -> str:
    return next((value for key in keys if isinstance(value := fields.get(key), str)), "")


def _read_command(fields: Mapping[str, Any]) -> CallInput:
    background = fields.get("run_in_background") is True
    command, description = _join_text(fields, "command"), _join_text(fields, "description")
    unsandboxed = fields.get("dangerouslyDisableSandbox") is True
    return CallInput("command", command=command, description=description, background=background, unsandboxed=unsandboxed)


def _read_edit(fields: Mapping[str, Any]) -> CallInput:
    path = _join_text(fields, "file_path")
    several = fields.get("edits")
    changes = several if isinstance(several, list) else [fields]
    edits = tuple((path, _join_text(as_object(change), "old_string"), _join_text(as_object(change), "new_string")) for change in changes)
    return CallInput("edit", paths=(path,), edits=edits)


def _read_write(fields: Mapping[str, Any]) -> CallInput:
    path = _join_text(fields, "file_path")
    return CallInput("edit", paths=(path,), edits=((path, None, _join_text(fields, "content")),))


def _read_notebook_edit(fields: Mapping[str, Any]) -> CallInput:
    path = _join_text(fields, "notebook_path", "file_path")
    return CallInput("edit", paths=(path,), edits=((path, "", _join_text(fields, "new_source")),))


def _read_file(fields: Mapping[str, Any]) -> CallInput:
    path = _join_text(fields, "file_path", "notebook_path")
    return CallInput("read", paths=(path,) if path else ())


def _read_search(fields: Mapping[str, Any]) -> CallInput:
    path = _join_text(fields, "path")
    return CallInput("search", paths=(path,) if path else ())


def _read_launch(fields: Mapping[str, Any]) -> CallInput:
    is_unchecked = fields.get("mode") == "bypassPermissions"
    return CallInput("other", unchecked_agent=_join_text(fields, "name", "description", "subagent_type") if is_unchecked else "")


def _read_poll(fields: Mapping[str, Any]) -> CallInput:
    return CallInput("other", polls=_join_text(fields, "bash_id", "task_id", "shell_id", "agentId", "agent_id"))


def _read_step(fields: Mapping[str, Any]) -> CallInput:
    key = _join_text(fields, "taskId")
    step = PlanStep(key, _join_text(fields, "subject"), is_done=fields.get("status") == "completed")
    return CallInput("other", plan=(step,) if key else ())


_TOOLS: Mapping[str, Callable[[Mapping[str, Any]], CallInput]] = {
    "Bash": _read_command,
    "PowerShell": _read_command,
    "Edit": _read_edit,
    "MultiEdit": _read_edit,
    "Write": _read_write,
    "NotebookEdit": _read_notebook_edit,
    "Read": _read_file,
    "NotebookRead": _read_file,
    "Grep": _read_search,
    "Glob": _read_search,
    "LS": _read_search,
    "Task": _read_launch,
    "Agent": _read_launch,
    "BashOutput": _read_poll,
    "BashOutputTool": _read_poll,
    "TaskOutput": _read_poll,
    "AgentOutput": _read_poll,
    "AgentOutputTool": _read_poll,
    "TaskUpdate": _read_step,
    "WebSearch": lambda fields: CallInput("search"),
    "WebFetch": lambda fields: CallInput("read"),
}

TOOL_CALLS = ToolCallReader(
    read_input=read_input,
    read_output=read_output,
    notifications=frozenset(("claude_code.task_notification",)),
    read_notification=read_notification,
    find_output_file=find_output_file,
    is_success_implied=True,  # every other exit code is an error
    question_tools=frozenset(("AskUserQuestion",)),
    plan_tools=frozenset(("ExitPlanMode",)),
)
