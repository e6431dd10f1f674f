"""The tools of Copilot CLI 1.0."""

from __future__ import annotations

from fleetlore.programs.tool_tables import make_tool_call_reader

TOOL_CALLS = make_tool_call_reader(
    {
        "bash": "command",
        "powershell": "command",
        "edit": "edit",
        "str_replace": "edit",
        "create": "write",
        "view": "read",
        "web_fetch": "read",
        "grep": "search",
        "rg": "search",
        "glob": "search",
        "web_search": "search",
    },
    question_tools=frozenset(("ask_user",)),
)
