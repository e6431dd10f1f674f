"""Claude Code's settings file, and the hooks that we ask it to call."""

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
"""Every hook of Claude Code 2.1 that can be listened to without changing what it does or shows."""

SKIPPED_HOOKS = {
    "WorktreeCreate": "a hook there makes the worktree in the program's stead, and has to say where it is",
    "WorktreeRemove": "a hook that ends well counts as having removed the worktree: one made by another hook would stay for ever",
    "PreCompact": "/compact would show a line about us, also to the model; SessionStart and the transcript tell of it",
    "PostCompact": "/compact would show a line about us, also to the model; SessionStart and the transcript tell of it",
    "MessageDisplay": "it runs many times a second, before the text is shown; the text is in the transcript",
}
"""The others, and why."""


def find_hook_file(folder: str) -> HookFile:
    """The settings in a folder: `~/.claude`, or `.claude` of a project."""
    return HookFile(os.path.join(folder, FILE_NAME), PROGRAM, HOOK_EVENTS)
