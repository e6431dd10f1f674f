"""Codex's hooks file, and the hooks that we install in it."""

from __future__ import annotations

import os

from fleetlore.programs.codex.ids import PROGRAM
from fleetlore.programs.hook_settings import HookFile

FILE_NAME = "hooks.json"

HOOK_EVENTS = (
    "SessionStart",
    "UserPromptSubmit",
    "PermissionRequest",
    "SubagentStart",
    "SubagentStop",
    "Interrupt",
    "Stop",
    "SessionEnd",
)
"""The hooks of Codex 0.166 that we use."""

TOOL_CALL_EVENTS = ("PreToolUse", "PostToolUse")
"""Hooks of every tool call. The rollout, which is read as it grows, reports the same; they are for sessions that keep none."""

SKIPPED_HOOKS = {
    "PreModelRequest": "the rollout reports every request with its usage",
    "PreCompact": "the rollout reports it with its numbers",
    "PostCompact": "the rollout reports it with its numbers",
}
"""Hooks that are not installed → the reason; `codex exec` prints a line for every hook that it runs."""


def find_hook_file(folder: str) -> HookFile:
    """The hooks in a folder: `~/.codex`, or `.codex` of a project."""
    return HookFile(os.path.join(folder, FILE_NAME), PROGRAM, HOOK_EVENTS, tool_call_events=TOOL_CALL_EVENTS)
