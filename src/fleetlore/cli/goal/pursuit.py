"""Runs goals in this process, several in parallel, until they end or a signal stops them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fleetlore import settings
from fleetlore.cli import errors, terminal
from fleetlore.cli.goal import find
from fleetlore.cli.goal.screen import make_goal_view
from fleetlore.cli.main import FAILED, INTERRUPTED, OK
from fleetlore.errors import FleetloreError
from fleetlore.events.goal_plan import plan_of

if TYPE_CHECKING:
    from argparse import Namespace

    from fleetlore.cli.goal.find import GoalLog
    from fleetlore.events.driver_types import Goal
    from fleetlore.goal.workspace.handover import Handover, SourceChanges
    from fleetlore.log.seal import OperatorKey

STOPPING = (signal.SIGTERM, signal.SIGHUP)
"""Signals that stop goals like Ctrl-C: SIGTERM, and SIGHUP of a closed terminal."""


class GoalRunner:
    """The goals of one command. `after` has the last known position of resumed goals; other goals are started."""

    def __init__(
        self, args: Namespace, place: GoalLog, key: OperatorKey | None, goals: Mapping[str, Goal], *, after: Mapping[str, str] | None = None
    ) -> None:
        self._args, self._place, self._key, self._goals, self._after = args, place, key, goals, after
        self._on = f" --log {settings.masked(args.log)}" if args.log else ""
        self._view = make_goal_view(json=args.json, names=_line_prefixes(goals), on=self._on)

    def run(self) -> int:
        """Run all goals to their end, and return the exit code."""
        try:
            with self._view:
                asyncio.run(self._run_goals())
        except (KeyboardInterrupt, asyncio.CancelledError):
            terminal.flush()
            self._say_how_to_go_on()
            return INTERRUPTED
        for message in self._view.troubles:
            terminal.err(f"lore: {message}")
        return OK if not self._view.troubles and all(self._view.outcome(id) == "done" for id in self._goals) else FAILED

    async def _run_goals(self) -> None:
        """Run all goals; a failure of one is reported, and the others continue. A stop ends all."""
        _hear_signals()
        # Each goal blocks up to two threads; goals must not wait for each other's.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2 * self._args.parallel + 8, "fleetlore-goal"))
        room = asyncio.Semaphore(self._args.parallel)
        try:
            async with self._view.refreshing(), asyncio.TaskGroup() as group:
                for goal in self._goals.values():
                    group.create_task(self._run_goal(goal, room))
        except ExceptionGroup as several:  # an unexpected error; the other goals were stopped cleanly
            raise several.exceptions[0] from None

    async def _run_goal(self, goal: Goal, room: asyncio.Semaphore) -> None:
        async with room:
            try:
                await self._drive_goal(goal)
            except (FleetloreError, OSError) as error:
                reason = errors.os_reason(error) if isinstance(error, OSError) else str(error)
                self._view.troubles.append(f"{goal.id[:8]}: {reason}" if len(self._goals) > 1 else reason)

    async def _drive_goal(self, goal: Goal) -> None:
        from fleetlore.goal.driver import Driver
        from fleetlore.goal.setup import open_resources

        expect = None if self._after is None else find.fold_goal(self._place, goal.id, self._key).verifiers
        self._view.prepare(goal.id, plan_of(goal).agent)
        async with open_resources(goal, home=goal_data_folder(), expect=expect) as resources:
            driver = Driver(self._place.log, goal.id, resources, shared=self._place.shared, key=self._key, watch=self._view.watch)
            after = "" if self._after is None else self._after[goal.id]
            self._view.add(goal.id, lambda: driver.state, progress=lambda: driver.turn_progress, after=after)
            if self._after is None:
                await driver.start(goal)
                self._view.begin(driver.state, await asyncio.to_thread(_find_unseen_changes, resources.workspace, goal, self._args.files))
            state = await driver.run_goal()
            is_kept = state.outcome != "done" or self._args.keep_worktree
            self._view.end(state, await asyncio.to_thread(handed_over, resources.workspace, goal, is_kept=is_kept))

    def _say_how_to_go_on(self) -> None:
        left = [id[:8] for id in self._goals if self._view.has_begun(id) and self._view.outcome(id) is None]
        if (self._args.log or "").startswith("memory:"):
            terminal.err("\nstopped")
        elif left:
            terminal.err(f"\nstopped. Resume with: lore goal resume {' '.join(left)}{self._on}")
        else:
            terminal.err("\nstopped; no goal is open")


def _line_prefixes(goals: Mapping[str, Goal]) -> dict[str, str]:
    """Goal → prefix of its lines: the agent, or the goal's id if agents share a name; empty for a single goal."""
    agents = {id: plan_of(goal).agent for id, goal in goals.items()}
    alike = Counter(agents.values())
    return {id: agent if alike[agent] == 1 else id[:8] for id, agent in agents.items()} if len(goals) > 1 else {}


def _hear_signals() -> None:
    task = asyncio.current_task()
    assert task is not None
    for number in STOPPING:
        if signal.getsignal(number) is signal.SIG_IGN:  # set by `nohup`
            continue
        with suppress(NotImplementedError, RuntimeError, ValueError):  # not in the main thread
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)


def _find_unseen_changes(workspace: Any, goal: Goal, files: Sequence[str]) -> SourceChanges | None:
    from fleetlore.goal.workspace.handover import find_source_changes
    from fleetlore.goal.workspace.workspace import Workspace

    return find_source_changes(workspace, goal.workspace or "", ignored=files) if isinstance(workspace, Workspace) else None


def handed_over(workspace: Any, goal: Goal, *, is_kept: bool) -> Handover:
    """Where the work is. If everything is committed, the worktree is removed and only the branch is left."""
    from msgspec.structs import replace

    from fleetlore.goal.workspace.handover import Handover, describe_handover, is_fully_committed
    from fleetlore.goal.workspace.workspace import Workspace

    if not isinstance(workspace, Workspace):
        return Handover(path=str(workspace.path))
    work = describe_handover(workspace, goal.workspace or "")
    if is_kept or not is_fully_committed(workspace):
        return work
    workspace.close(remove=True)
    return replace(work, path=None)


def goal_data_folder() -> str:
    """The folder of worktrees, snapshots and memories, beside the user's log."""
    from fleetlore.log.sqlite import file as sqlite_file

    return os.path.dirname(sqlite_file.default_path())
