"""Warnings about a goal that is valid, but may not do what its author expects. `lore goal check` prints them. Blocks."""

from __future__ import annotations

import os
from collections.abc import Sequence

from fleetlore import clock
from fleetlore.errors import FleetloreError
from fleetlore.events.driver_types import Goal
from fleetlore.events.goal_plan import Compaction, Plan, plan_of
from fleetlore.goal.workspace import git, repository
from fleetlore.views.prices import Prices

MAX_NAMED_FILES = 5


def list_goal_warnings(goal: Goal, *, ignored: Sequence[str] = (), prices: Prices | None = None) -> list[str]:
    """A sentence for each thing to look at before the goal runs. The files in `ignored` do not count."""
    plan = plan_of(goal)
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
