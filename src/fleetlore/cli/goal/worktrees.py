"""`lore goal worktrees`: list, show, merge or remove what goals left in their worktrees and branches."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, NamedTuple

from fleetlore import clock
from fleetlore.cli import terminal
from fleetlore.cli.goal.run import open_goal_context
from fleetlore.cli.main import FAILED, OK, UsageError
from fleetlore.errors import Invalid
from fleetlore.goal import commands
from fleetlore.goal.workspace.location import read_location
from fleetlore.goal.workspace.workspace import Handover, Workspace, find_handover, is_fully_committed
from fleetlore.operations.goal_runs import goal_data_folder
from fleetlore.operations.goals import find_goal_id, list_goal_ids, read_goal
from fleetlore.story.phrases import count_things
from fleetlore.views.goal_state import GoalState, goal_status

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from fleetlore.operations.context import OperationContext


class WorktreeEntry(NamedTuple):
    """A goal, and where its work is on this machine."""

    state: GoalState
    work: Handover

    @property
    def short_id(self) -> str:
        """The first characters of the goal's id."""
        return commands.short_goal_id(self.state)


def run(args: Namespace) -> int:
    """Run the action that the command line names."""
    with open_goal_context(args) as context:
        ids = [find_goal_id(context.log, id) for id in args.ids] or list_goal_ids(context.log)
        found = [entry for id in ids if (entry := _find_work(context, id)) is not None]
        running = {entry.state.id for entry in found if context.find_holder(f"goal:{entry.state.id}") is not None}
    if args.action == "list":
        return _print_list(found, json=args.json)
    if args.action == "clean":
        return _remove_worktrees([entry for entry in found if entry.state.id not in running])
    if len(args.ids) != 1:
        raise UsageError(f"name one goal: `lore goal worktrees {args.action} ID`; `lore goal worktrees` lists them")
    if not found:
        raise Invalid(f"goal {ids[0][:8]} has no worktree and no branch on this machine")
    if args.action == "diff":
        return _run_git(found[0], "diff", f"HEAD...{found[0].work.branch}")
    if found[0].state.id in running:
        raise Invalid(f"goal {found[0].short_id} is running; merge its work when it has ended, or pause it first")
    return _merge_work(found[0])


def _find_work(context: OperationContext, id: str) -> WorktreeEntry | None:
    state = read_goal(context, id)
    workspace = state.goal.workspace if state.goal else None
    work = find_handover(goal_data_folder(), id, workspace or "")
    return None if work is None or work.branch is None else WorktreeEntry(state, work)


def _print_list(found: Sequence[WorktreeEntry], *, json: bool) -> int:
    if json:
        terminal.print_value(
            [{"goal": entry.state.id, "status": goal_status(entry.state, clock.now()), "work": entry.work} for entry in found]
        )
        return OK
    for entry in found:
        work = entry.work
        parts = [
            count_things(work.commits, "commit") or "no commits",
            f"{count_things(work.uncommitted, 'file')} not committed" if work.uncommitted else "",
            work.path or "no worktree",
        ]
        line = f"{entry.short_id}  {goal_status(entry.state, clock.now()):<10} {work.branch}  {', '.join(filter(None, parts))}"
        terminal.print_line(terminal.sanitise_text(line))
    if not found:
        terminal.print_line("no goal has a worktree or a branch on this machine")
    return OK


def _merge_work(entry: WorktreeEntry) -> int:
    work = entry.work
    if work.uncommitted:
        raise Invalid(
            f"goal {entry.short_id} has uncommitted changes in {count_things(work.uncommitted, 'file')};"
            f" commit them with `lore goal commit {entry.short_id}`"
        )
    if work.problem:
        raise Invalid(work.problem)
    if not work.commits:
        terminal.print_line(f"{entry.short_id}: nothing to merge; your branch already contains its commits")
        return OK
    return _run_git(entry, "merge", "--no-edit", str(work.branch))


def _run_git(entry: WorktreeEntry, *arguments: str) -> int:
    """Run git in the user's own repository, with the user's own settings and terminal."""
    if entry.work.top is None:
        raise Invalid(f"goal {entry.short_id}: the repository it was started in is gone")
    terminal.flush_output()
    result = subprocess.run(["git", "-C", entry.work.top, *arguments], check=False)
    return OK if result.returncode == 0 else FAILED


def _remove_worktrees(found: Sequence[WorktreeEntry]) -> int:
    """Remove the worktrees of ended goals whose work is committed. Branches stay."""
    for entry in found:
        folder, location = read_location(goal_data_folder(), entry.state.id, (entry.state.goal and entry.state.goal.workspace) or "")
        if entry.state.outcome is None or location is None or not os.path.isdir(location.root):
            continue
        workspace = Workspace(location, folder)
        if not is_fully_committed(workspace):
            terminal.print_line(f"{entry.short_id}  kept {entry.work.path}: {count_things(entry.work.uncommitted, 'file')} not committed")
            continue
        workspace.close(remove=True)
        terminal.print_line(
            terminal.sanitise_text(f"{entry.short_id}  removed {location.root}; its work is on the branch {entry.work.branch}")
        )
    return OK
