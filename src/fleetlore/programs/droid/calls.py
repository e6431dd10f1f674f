"""The tools of Droid 0.225."""

from __future__ import annotations

from fleetlore.programs.tool_tables import make_tool_call_reader

TOOL_CALLS = make_tool_call_reader(
    {
        "Execute": "command",
        "Edit": "edit",
        "Create": "write",
        "Read": "read",
        "FetchUrl": "read",
        "LS": "search",
        "Grep": "search",
        "Glob": "search",
        "WebSearch": "search",
    }
)
