"""The tools of Kimi Code 2.1."""

from __future__ import annotations

from fleetlore.programs.tool_tables import make_tool_call_reader

TOOL_CALLS = make_tool_call_reader(
    {"Bash": "command", "Edit": "edit", "Write": "write", "Read": "read", "FetchURL": "read", "Grep": "search", "Glob": "search"},
    question_tools=frozenset(("AskUserQuestion",)),
)
