"""Normalise the tool calls of coding agents: what was run, edited, read or searched, in one shape for every program.

Each program maps its own tools. A tool that no program knows is `other`, unless its input looks like a command.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fleetlore.dialects.fields import as_object
from fleetlore.programs.claude_code import calls as claude_code
from fleetlore.programs.codex import calls as codex
from fleetlore.programs.normalised import CallInput, CallOutput

__all__ = ["NOTIFICATIONS", "CallInput", "CallOutput", "find_output_file", "normalise_input", "normalise_output", "read_notification"]

_READERS: Mapping[str, Callable[[str, object], CallInput | None]] = {
    "claude_code": claude_code.read_input,
    "codex": codex.read_input,
}


def normalise_input(dialect: str | None, tool: str, given: object) -> CallInput:
    """What a call does. Never raises, whatever the input is."""
    preferred = _READERS.get(dialect or "")
    readers = [preferred] if preferred is not None else list(_READERS.values())
    for read in readers:
        known = read(tool, given)
        if known is not None:
            return known
    return _read_unknown(tool, given)


def normalise_output(dialect: str | None, given: CallInput, output: str, data: Mapping[str, Any]) -> CallOutput:
    """What a result says about the state of a command, for commands that run in the background. Never raises."""
    if dialect == "codex":
        return codex.read_output(given, output, data)
    return claude_code.read_output(given, output)


def read_notification(data: Mapping[str, Any]) -> tuple[str, bool, int | None] | None:
    """Of the notice that a background command has ended: its id, whether it failed, and its exit code."""
    return claude_code.read_notification(data)


NOTIFICATIONS = frozenset(("claude_code.task_notification",))
"""The kinds of events that say that a background command has ended."""


def find_output_file(given: CallInput) -> str:
    """The id of the background command whose output file a call reads; empty if it reads none."""
    return claude_code.find_output_file(given)


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
    return CallInput("other")
