"""Normalise the tool calls of coding agents: what was run, edited, read or searched, in one shape for every program.

Each program maps its own tools. A tool that no program knows is `other`, unless its input looks like a command.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from fleetlore.dialects.fields import as_object
from fleetlore.programs import registry
from fleetlore.programs.normalised import CallInput, CallOutput, PlanStep, ToolCallReader

__all__ = [
    "CallInput",
    "CallOutput",
    "PlanStep",
    "find_output_file",
    "is_success_implied",
    "normalise_input",
    "normalise_output",
    "notification_kinds",
    "proposes_plan",
    "read_notification",
    "read_question",
]


@cache
def _load_readers() -> Mapping[str, ToolCallReader]:
    """By `origin.dialect`."""
    return registry.load_tool_calls()


def normalise_input(dialect: str | None, tool: str, given: object) -> CallInput:
    """The normalised call. Never raises, whatever the input is."""
    preferred = _load_readers().get(dialect or "")
    readers = [preferred] if preferred is not None else list(_load_readers().values())
    for reader in readers:
        known = reader.read_input(tool, given)
        if known is not None:
            return known
    return _read_unknown(tool, given)


def normalise_output(dialect: str | None, given: CallInput, output: str, data: Mapping[str, Any]) -> CallOutput:
    """The state of a background command, from a result. Never raises."""
    readers = _load_readers()
    reader = readers.get(dialect or "") or readers.get(registry.DEFAULT_NAME.replace("-", "_"))
    return CallOutput() if reader is None else reader.read_output(given, output, data)


def is_success_implied(dialect: str | None) -> bool:
    """Whether a command of this dialect whose call did not fail has exit code 0."""
    reader = _load_readers().get(dialect or "")
    return reader is not None and reader.is_success_implied


def read_notification(data: Mapping[str, Any]) -> tuple[str, bool, int | None] | None:
    """From the notification that a background command ended: its id, whether it failed, and its exit code."""
    return next((ended for reader in _load_readers().values() if (ended := reader.read_notification(data)) is not None), None)


def notification_kinds() -> frozenset[str]:
    """The kinds of events that say that a background command has ended."""
    return frozenset(kind for reader in _load_readers().values() for kind in reader.notifications)


def read_question(tool: object, given: object) -> str:
    """The first question that a call asks the person; empty if it asks nothing. Never raises."""
    if tool not in _load_question_tools():
        return ""
    asked = as_object(given).get("questions")
    first = as_object(asked[0]) if isinstance(asked, list) and asked else {}
    text = first.get("question")
    return text if isinstance(text, str) else ""


@cache
def _load_question_tools() -> frozenset[object]:
    return frozenset(tool for reader in _load_readers().values() for tool in reader.question_tools)


def proposes_plan(tool: str) -> bool:
    """Whether a call of this tool shows the person a plan for approval."""
    return any(tool in reader.plan_tools for reader in _load_readers().values())


def find_output_file(given: CallInput) -> str:
    """The id of the background command whose output file a call reads; empty if it reads none."""
    return next((task for reader in _load_readers().values() if (task := reader.find_output_file(given))), "")


_COMMAND_TOOLS = frozenset(
    ["bash", "shell", "run_command", "run_terminal_cmd", "execute_command", "run_shell_command", "terminal", "execute_bash"]
)
_READ_TOOLS = frozenset(["read", "read_file", "view", "open_file", "cat", "readfile"])
_SEARCH_TOOLS = frozenset(
    ["grep", "glob", "search", "ls", "list_dir", "list_directory", "find_files", "grep_search", "file_search", "codebase_search"]
)
_EDIT_TOOLS = frozenset(
    ["write", "edit", "write_file", "edit_file", "create_file", "replace", "replace_in_file", "str_replace", "write_to_file"]
)
_TEXT_KEYS = (
    ("old_string", "old_str", "old_text", "search"),
    ("new_string", "new_str", "new_text", "content", "contents", "replace", "file_text"),
)


def _read_unknown(tool: str, given: object) -> CallInput:
    """A tool of another program, by the names that most of them use."""
    name, fields = tool.lower().rpartition("__")[2], as_object(given)
    path = next((value for key in ("file_path", "path", "filename", "target_file") if isinstance(value := fields.get(key), str)), "")
    if name in _COMMAND_TOOLS:
        command = next((value for key in ("command", "cmd", "script") if isinstance(value := fields.get(key), str)), "")
        description = fields.get("description")
        return CallInput("command", command=command, description=description if isinstance(description, str) else "")
    if name in _EDIT_TOOLS and path:
        texts = [next((v for k in keys if isinstance(v := fields.get(k), str)), None) for keys in _TEXT_KEYS]
        return CallInput("edit", paths=(path,), edits=((path, texts[0], texts[1] or ""),))
    if name in _READ_TOOLS:
        return CallInput("read", paths=(path,) if path else ())
    if name in _SEARCH_TOOLS:
        return CallInput("search", paths=(path,) if path else ())
    return CallInput("other", plan=_read_plan(fields))


_MOST_STEPS = 100


def _read_plan(fields: Mapping[str, Any]) -> tuple[PlanStep, ...]:
    """The steps of a todo list or a plan that a call writes whole."""
    items = next((value for key in ("todos", "plan", "items") if isinstance(value := fields.get(key), list)), [])
    steps = []
    for item in map(as_object, items[:_MOST_STEPS]):
        text = next((value for key in ("content", "step", "description", "text", "title") if isinstance(value := item.get(key), str)), "")
        if text and isinstance(item.get("status"), str):
            steps.append(PlanStep(text[:300], text[:300], is_done=item["status"] in ("completed", "done")))
    return tuple(steps)
