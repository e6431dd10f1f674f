"""Claude Code's settings file, and the hooks that we install in it."""

from __future__ import annotations

import os

from fleetlore.programs.claude_code.ids import PROGRAM
from fleetlore.programs.hook_settings import HookFile

FILE_NAME = "settings.json"

HOOK_EVENTS = (
    "SessionStart",
    "UserPromptSubmit",
    "PermissionRequest",
    "PermissionDenied",
    "Notification",
    "SubagentStart",
    "SubagentStop",
    "TaskCreated",
    "TaskCompleted",
    "TeammateIdle",
    "Elicitation",
    "ElicitationResult",
    "Stop",
    "StopFailure",
    "SessionEnd",
)
"""The hooks of Claude Code 2.1.327 that say something new and do not change what it does or shows."""

TOOL_CALL_EVENTS = ("PreToolUse", "PostToolUse", "PostToolUseFailure")
"""Hooks of every tool call. The transcript, which is read as it grows, reports the same; they are for sessions that keep none."""

WAITED_FOR = frozenset(("Stop", "SessionEnd"))
"""Hooks that Claude Code waits for: it may exit right after them, and would end a hook in the background."""

SKIPPED_HOOKS = {
    "WorktreeCreate": "a hook replaces the program's own worktree code and must print the path",
    "WorktreeRemove": "a successful hook counts as having removed the worktree, so it would never be removed",
    "PreCompact": "/compact would show a line about us, also to the model; SessionStart and the transcript report it",
    "PostCompact": "/compact would show a line about us, also to the model; SessionStart and the transcript report it",
    "MessageDisplay": "it runs many times a second, before the text is shown; the text is in the transcript",
    "PostToolBatch": "the transcript has each call",
    "PreModelSwitch": "the transcript names the model of every reply",
    "PostModelSwitch": "the transcript names the model of every reply",
    "UserPromptExpansion": "UserPromptSubmit and the transcript have the prompt",
    "Setup": "nothing in it is recorded",
    "InstructionsLoaded": "nothing in it is recorded",
    "ConfigChange": "nothing in it is recorded",
    "CwdChanged": "the transcript has the folder of every row",
    "FileChanged": "nothing in it is recorded",
    "DirectoryAdded": "nothing in it is recorded",
}
"""Hooks that are not installed → the reason."""


def find_hook_file(folder: str) -> HookFile:
    """The settings in a folder: `~/.claude`, or `.claude` of a project."""
    return HookFile(
        os.path.join(folder, FILE_NAME),
        PROGRAM,
        HOOK_EVENTS,
        async_events=frozenset(HOOK_EVENTS + TOOL_CALL_EVENTS) - WAITED_FOR,
        tool_call_events=TOOL_CALL_EVENTS,
    )
