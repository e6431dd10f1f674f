"""The tools of Gemini CLI 0.61."""

from __future__ import annotations

from fleetlore.programs.tool_tables import make_tool_call_reader

TOOL_CALLS = make_tool_call_reader(
    {
        "run_shell_command": "command",
        "replace": "edit",
        "write_file": "write",
        "read_file": "read",
        "read_many_files": "read",
        "web_fetch": "read",
        "list_directory": "search",
        "glob": "search",
        "grep_search": "search",
        "search_file_content": "search",
        "google_web_search": "search",
    }
)
