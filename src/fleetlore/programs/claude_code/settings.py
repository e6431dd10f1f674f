"""Claude Code's settings file, and the hooks that we install in it."""

from __future__ import annotations

import os

from fleetlore.programs.claude_code.ids import PROGRAM
from fleetlore.programs.hook_settings import HookFile

FILE_NAME = "settings.json"

HOOK_EVENTS = (
    "SessionStart",
    "Setup",
    "UserPromptSubmit",
    "UserPromptExpansion",
    "PreToolUse",
    "PermissionRequest",
    "PermissionDenied",
    "PostToolUse",
    "PostToolUseFailure",
    "PostToolBatch",
    "Notification",
    "SubagentStart",
    "SubagentStop",
    "TaskCreated",
    "TaskCompleted",
    "TeammateIdle",
    "Elicitation",
    "ElicitationResult",
    "InstructionsLoaded",
    "ConfigChange",
    "CwdChanged",
    "FileChanged",
    "Stop",
    "StopFailure",
    "SessionEnd",
)
"""Every hook of Claude Code 2.1 that does not change what it does or shows."""

SKIPPED_HOOKS = {
    "WorktreeCreate": "a hook replaces the program's own worktree code and must print the path",
    "WorktreeRemove": "a successful hook counts as having removed the worktree, so it would never be removed",
    "PreCompact": "/compact would show a line about us, also to the model; SessionStart and the transcript report it",
    "PostCompact": "/compact would show a line about us, also to the model; SessionStart and the transcript report it",
    "MessageDisplay": "it runs many times a second, before the text is shown; the text is in the transcript",
}
"""Hooks that are not installed → the reason."""


def find_hook_file(folder: str) -> HookFile:
    """The settings in a folder: `~/.claude`, or `.claude` of a project."""
    return HookFile(os.path.join(folder, FILE_NAME), PROGRAM, HOOK_EVENTS)
