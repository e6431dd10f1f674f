"""The tools of pi 0.73."""

from __future__ import annotations

from fleetlore.programs.tool_tables import make_tool_call_reader

TOOL_CALLS = make_tool_call_reader(
    {"bash": "command", "edit": "edit", "write": "write", "read": "read", "grep": "search", "find": "search", "ls": "search"}
)
