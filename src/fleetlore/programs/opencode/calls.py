"""Maps the tool names of opencode 1.18 to kinds of tool calls."""

from __future__ import annotations

from fleetlore.programs.tool_tables import make_tool_call_reader

TOOL_CALLS = make_tool_call_reader(
    {
        "bash": "command",
        "edit": "edit",
        "multiedit": "edit",
        "write": "write",
        "read": "read",
        "webfetch": "read",
        "grep": "search",
        "glob": "search",
        "list": "search",
        "websearch": "search",
        "codesearch": "search",
    },
    question_tools=frozenset(("question",)),
)
