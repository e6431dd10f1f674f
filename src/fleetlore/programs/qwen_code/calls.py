"""The tools of Qwen Code 0.15."""

from __future__ import annotations

from fleetlore.programs.tool_tables import make_tool_call_reader

TOOL_CALLS = make_tool_call_reader(
    {
        "run_shell_command": "command",
        "edit": "edit",
        "write_file": "write",
        "read_file": "read",
        "read_many_files": "read",
        "web_fetch": "read",
        "list_directory": "search",
        "glob": "search",
        "grep_search": "search",
        "web_search": "search",
    },
    question_tools=frozenset(("ask_user_question",)),
)
