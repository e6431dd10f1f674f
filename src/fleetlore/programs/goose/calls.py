"""The tools of Goose 1.34, those of its own extension `developer`."""

from __future__ import annotations

from fleetlore.programs.tool_tables import make_tool_call_reader

TOOL_CALLS = make_tool_call_reader(
    {"shell": "command", "edit": "edit", "write": "write", "read_image": "read", "tree": "search", "analyze": "search"}
)
