"""Normalises the tool calls of programs whose tools differ only in their names: a table of tools, and the usual names of arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from fleetlore.dialects.fields import as_object
from fleetlore.programs.normalised import CallInput, ToolCallReader

ToolKind = Literal["command", "edit", "write", "read", "search"]

_PATH_KEYS = ("file_path", "filePath", "path", "absolute_path", "dir_path", "filename", "target_file")
_OLD_KEYS = ("old_string", "oldString", "old_str", "oldText", "before")
_NEW_KEYS = ("new_string", "newString", "new_str", "newText", "after")
_CONTENT_KEYS = ("content", "file_text", "contents")
_FOLDER_KEYS = ("directory", "dir_path", "workdir", "cwd")
_MAX_EDITS = 200


def make_tool_call_reader(tools: Mapping[str, ToolKind], *, question_tools: frozenset[str] = frozenset()) -> ToolCallReader:
    """The reader for a table of tools. Their results have the exit code of a command where the program records it."""

    def read_input(tool: str, given: object) -> CallInput | None:
        kind = tools.get(tool)
        return None if kind is None else _read_call(kind, as_object(given))

    return ToolCallReader(read_input=read_input, question_tools=question_tools)


def _read_call(kind: ToolKind, fields: Mapping[str, Any]) -> CallInput | None:
    path = _first_text(fields, _PATH_KEYS)
    paths = (path,) if path else ()
    if kind in ("edit", "write") and not path:
        return None
    match kind:
        case "command":
            background = fields.get("is_background") is True or fields.get("mode") == "async"
            command, why = _first_text(fields, ("command", "cmd", "script")), _first_text(fields, ("description",))
            return CallInput("command", command=command, description=why, cwd=_first_text(fields, _FOLDER_KEYS), background=background)
        case "edit":
            several = fields.get("edits")
            changes = [as_object(each) for each in several[:_MAX_EDITS]] if isinstance(several, list) else [fields]
            return CallInput(
                "edit", paths=paths, edits=tuple((path, _first_text(each, _OLD_KEYS), _first_text(each, _NEW_KEYS)) for each in changes)
            )
        case "write":
            return CallInput("edit", paths=paths, edits=((path, None, _first_text(fields, _CONTENT_KEYS)),))
        case "read" | "search":
            return CallInput(kind, paths=paths)


def _first_text(fields: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    return next((value for key in keys if isinstance(value := fields.get(key), str)), "")
