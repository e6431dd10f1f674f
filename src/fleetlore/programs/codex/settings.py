"""Codex's hooks file, and the hooks that we ask it to call."""

from __future__ import annotations

import os

from fleetlore.programs.codex.ids import PROGRAM
from fleetlore.programs.hook_settings import HookFile

FILE_NAME = "hooks.json"

HOOK_EVENTS = (
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PermissionRequest",
    "PostToolUse",
    "SubagentStart",
    "SubagentStop",
    "Interrupt",
    "Stop",
    "SessionEnd",
)
"""The hooks of Codex 0.166 that tell something."""

SKIPPED_HOOKS = {
    "PreModelRequest": "the rollout tells of every request, with what it used",
    "PreCompact": "the rollout tells of it, with its numbers",
    "PostCompact": "the rollout tells of it, with its numbers",
}
"""The others, and why: `codex exec` prints a line for every hook that it runs."""


def find_hook_file(folder: str) -> HookFile:
    """The hooks in a folder: `~/.codex`, or `.codex` of a project."""
    return HookFile(os.path.join(folder, FILE_NAME), PROGRAM, HOOK_EVENTS)
