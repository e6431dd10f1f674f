"""What `lore goal check` says about a goal's judges, without starting anything: files, runners, and whether there is a sandbox."""

from __future__ import annotations

import os

from msgspec import Struct

from fleetlore.errors import FleetloreError
from fleetlore.events.driver_types import Goal, ShellCommand
from fleetlore.events.goal_plan import Plan
from fleetlore.goal.acceptance.judging_files import JudgingRules, expand_command, files_and_folders, split_words
from fleetlore.goal.acceptance.runners import find_runners
from fleetlore.goal.workspace import files, repository
from fleetlore.process.sandbox import has_landlock

_MAX_FILES = 50_000
_MAX_TEXT_BYTES = 1024 * 1024


class JudgingPreview(Struct, frozen=True, kw_only=True):
    """Paths are relative to the workspace."""

    originals: tuple[str, ...]
    released: tuple[str, ...]
    unprotected: tuple[str, ...]
    """Folders that commands name and that the agent can change."""
    runners: tuple[str, ...]
    has_sandbox: bool


def preview_judging(goal: Goal, plan: Plan) -> JudgingPreview:
    """The judges of a goal by the files that its workspace has now. Blocks."""
    folder = goal.workspace or os.getcwd()
    paths = _list_files(folder)

    def read_text(path: str) -> str | None:
        if path not in paths:
            return None
        try:
            with files.open_file(folder, path) as file:
                return file.read(_MAX_TEXT_BYTES).decode(errors="replace")
        except (OSError, FleetloreError):
            return None

    commands = [expand_command(each.command, read_text) for each in goal.acceptance if isinstance(each, ShellCommand)]
    rules = JudgingRules(commands, paths, protect=plan.protect, may_change=plan.may_change)
    judging = sorted(path for path in paths if rules.find_reason(path) is not None)
    folders = files_and_folders(paths) - paths
    named = sorted({os.path.normpath(word) for command in commands for word in split_words(command.direct)} & folders)
    unprotected = [name for name in named if any(path.startswith(f"{name}/") and not rules.is_judging(path) for path in paths)]
    return JudgingPreview(
        originals=tuple(path for path in judging if not rules.may_change(path)),
        released=tuple(path for path in judging if rules.may_change(path)),
        unprotected=tuple(unprotected),
        runners=tuple(runner.commands[0] for runner in find_runners(text for command in commands for text in command.texts)),
        has_sandbox=has_landlock(),
    )


def _list_files(folder: str) -> frozenset[str]:
    """The committed files below a folder; all files if it is no repository."""
    try:
        repo = repository.find_repository(folder)
        if repo is not None:
            listed = repository.list_commit_files(repo.git_dir, "HEAD")
            return frozenset(path[len(repo.prefix) :] for path in listed if path.startswith(repo.prefix))
    except FleetloreError:
        pass
    found: set[str] = set()
    for path, entry in files.walk_entries(folder, lambda *_: set(), skipped=(files.GIT_FOLDER, "node_modules", ".venv")):
        if entry.kind in ("file", "link"):
            found.add(path)
        if len(found) >= _MAX_FILES:
            break
    return frozenset(found)
