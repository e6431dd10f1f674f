"""The tools of OpenHands 1.x."""

from __future__ import annotations

from fleetlore.dialects.fields import as_object
from fleetlore.programs.normalised import CallInput, ToolCallReader
from fleetlore.programs.tool_tables import ToolKind, make_tool_call_reader

_TABLE = make_tool_call_reader(
    {"terminal": "command", "execute_bash": "command", "grep": "search", "glob": "search", "browser_navigate": "read"}
)
_KIND_BY_COMMAND: dict[object, ToolKind] = {"view": "read", "create": "write", "str_replace": "edit", "insert": "edit"}


def _read_input(tool: str, given: object) -> CallInput | None:
    if tool not in ("file_editor", "str_replace_editor"):
        return _TABLE.read_input(tool, given)
    fields = as_object(given)
    kind = _KIND_BY_COMMAND.get(fields.get("command"))
    return None if kind is None else make_tool_call_reader({tool: kind}).read_input(tool, fields)


TOOL_CALLS = ToolCallReader(read_input=_read_input)
