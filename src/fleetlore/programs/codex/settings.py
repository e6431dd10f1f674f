"""Codex's hooks: where they are, and at which of its steps it is to call us."""

from __future__ import annotations

import os

from fleetlore.ingest.discovery import codex_folder
from fleetlore.ingest.hook_settings import HookFile

PROGRAM = "codex"
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


def user_hook_file() -> HookFile:
    """The user's own hooks, for all projects."""
    return HookFile(os.path.join(codex_folder(), FILE_NAME), PROGRAM, HOOK_EVENTS)


def project_hook_file(folder: str) -> HookFile:
    """The hooks that a project shares with all who work on it."""
    return HookFile(os.path.join(folder, ".codex", FILE_NAME), PROGRAM, HOOK_EVENTS)
