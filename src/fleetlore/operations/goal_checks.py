"""What `lore goal check` says about a valid goal without starting anything: warnings, and which files judge it. Blocks."""

from __future__ import annotations

import os
from collections.abc import Sequence

from msgspec import Struct

from fleetlore import clock
from fleetlore.errors import FleetloreError
from fleetlore.events.driver_types import Goal, ShellCommand
from fleetlore.events.goal_plan import Compaction, Plan, read_plan
from fleetlore.goal.acceptance.expansion import expand_command, find_runners, split_words
from fleetlore.goal.acceptance.judging_files import JudgingRules, files_and_folders
from fleetlore.goal.workspace import files, git, repository
from fleetlore.process.sandbox import has_landlock
from fleetlore.views.prices import Prices

MAX_NAMED_FILES = 5


def list_goal_warnings(goal: Goal, *, ignored: Sequence[str] = (), prices: Prices | None = None) -> list[str]:
    """A sentence for each thing to look at before the goal runs. The files in `ignored` do not count."""
    plan = read_plan(goal)
    found = [
        _warn_missing_files(plan, goal.workspace or "", ignored),
        _warn_missing_price(plan, prices or Prices()),
        _warn_compaction(plan),
    ]
    return [warning for warning in found if warning]


def _warn_missing_files(plan: Plan, workspace: str, ignored: Sequence[str]) -> str | None:
    """Files that are not committed are not in the worktree in which the agent works."""
    if plan.isolation != "worktree":
        return None
    try:
        repo = repository.find_repository(workspace)
        if repo is None or repo.top is None:
            return None
        status = git.run_git("status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=normal", cwd=repo.top)
    except (FleetloreError, OSError):
        return None
    skipped = {os.path.relpath(os.path.realpath(path), os.path.realpath(repo.top)) for path in ignored}
    entries = [(entry[:2], entry[3:]) for entry in os.fsdecode(status).split("\0") if entry]
    untracked = [name for state, name in entries if state == "??" and name not in skipped]
    changed = [name for state, name in entries if state != "??" and name not in skipped]
    parts = [f"{len(names)} {word} ({_name_files(names)})" for word, names in (("untracked", untracked), ("changed", changed)) if names]
    if not parts:
        return None
    count = " and ".join(parts)
    return f'the agent\'s worktree will not have {count}: commit them, or set isolation = "none"'


def _name_files(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_NAMED_FILES} more" if len(names) > MAX_NAMED_FILES else ""
    return ", ".join(names[:MAX_NAMED_FILES]) + more


def _warn_missing_price(plan: Plan, prices: Prices) -> str | None:
    if plan.max_usd is None:
        return None
    model = plan.model or (plan.mind or "").partition(":")[2].partition("?")[0]
    if plan.harness == "command":
        return "max_usd counts only the dollars that the command reports (`usd` in its report)"
    if model and prices.find_price(model, clock.now().date().isoformat()) is None:
        return f"there is no price for {model}, so max_usd counts only the dollars that the endpoint reports; add a price under [prices]"
    return None


def _warn_compaction(plan: Plan) -> str | None:
    if plan.harness != "command" or plan.compaction == Compaction():
        return None
    return "a command is asked for a summary (LORE_SUMMARY=1) only once it reports the size of its context (`context`)"


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

    commands = [expand_command(each.command, read_text, paths) for each in goal.acceptance if isinstance(each, ShellCommand)]
    rules = JudgingRules(commands, paths, protect=plan.protect, may_change=plan.may_change, read_text=read_text)
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
