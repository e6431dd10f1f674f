"""Runs goals in this process, several in parallel, until they end or a signal stops them."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

from fleetlore import settings
from fleetlore.cli import errors, terminal
from fleetlore.cli.goal.screen import make_goal_view
from fleetlore.cli.main import FAILED, INTERRUPTED, OK
from fleetlore.errors import FleetloreError
from fleetlore.events.goal_plan import plan_of

if TYPE_CHECKING:
    from argparse import Namespace

    from fleetlore.events.driver_types import Goal
    from fleetlore.log.seal import OperatorKey
    from fleetlore.operations.context import OperationContext

STOPPING = (signal.SIGTERM, signal.SIGHUP)
"""Signals that stop goals like Ctrl-C: SIGTERM, and SIGHUP of a closed terminal."""


class GoalRunner:
    """The goals of one command. `after` has the last known position of resumed goals; other goals are started."""

    def __init__(
        self,
        args: Namespace,
        context: OperationContext,
        key: OperatorKey | None,
        goals: Mapping[str, Goal],
        *,
        after: Mapping[str, str] | None = None,
    ) -> None:
        self._args, self._context, self._key, self._goals, self._after = args, context, key, goals, after
        self._on = f" --log {settings.mask_url(args.log)}" if args.log else ""
        self._view = make_goal_view(json=args.json, names=_line_prefixes(goals), on=self._on)

    def run(self) -> int:
        """Run all goals to their end, and return the exit code."""
        try:
            with self._view:
                asyncio.run(self._run_goals())
        except (KeyboardInterrupt, asyncio.CancelledError):
            terminal.flush_output()
            self._print_how_to_resume()
            return INTERRUPTED
        for message in self._view.troubles:
            terminal.print_error(f"lore: {message}")
        return OK if not self._view.troubles and all(self._view.find_outcome(id) == "done" for id in self._goals) else FAILED

    async def _run_goals(self) -> None:
        """Run all goals; a failure of one is reported, and the others continue. A stop ends all."""
        from fleetlore.log.async_recorder import Recorder

        _cancel_on_signals()
        # Each goal blocks up to two threads; goals must not wait for each other's.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2 * self._args.parallel + 8, "fleetlore-goal"))
        slots = asyncio.Semaphore(self._args.parallel)
        self._log = Recorder.from_blocking(self._context.log)
        try:
            async with self._view.refresh_while_running(), asyncio.TaskGroup() as group:
                for goal in self._goals.values():
                    group.create_task(self._run_goal(goal, slots))
        except ExceptionGroup as several:  # an unexpected error; the other goals were stopped cleanly
            raise several.exceptions[0] from None
        finally:
            await self._log.close()

    async def _run_goal(self, goal: Goal, slots: asyncio.Semaphore) -> None:
        async with slots:
            try:
                await self._drive_goal(goal)
            except (FleetloreError, OSError) as error:
                reason = errors.os_reason(error) if isinstance(error, OSError) else str(error)
                self._view.troubles.append(f"{goal.id[:8]}: {reason}" if len(self._goals) > 1 else reason)

    async def _drive_goal(self, goal: Goal) -> None:
        from fleetlore.operations.goal_runs import open_goal

        is_resumed = self._after is not None
        self._view.on_preparing(goal.id, plan_of(goal).agent)
        async with open_goal(self._context, goal, key=self._key, is_resumed=is_resumed, log=self._log, watch=self._view.on_event) as run:
            after = "" if self._after is None else self._after[goal.id]
            self._view.add(goal.id, lambda: run.state, progress=lambda: run.turn_progress, after=after)
            if not is_resumed:
                await run.start()
                self._view.on_started(run.state, await run.find_unseen_changes(self._args.files))
            state, work = await run.run_to_end(keep_worktree=self._args.keep_worktree)
            self._view.on_ended(state, work)

    def _print_how_to_resume(self) -> None:
        left = [id[:8] for id in self._goals if self._view.has_begun(id) and self._view.find_outcome(id) is None]
        if (self._args.log or "").startswith("memory:"):
            terminal.print_error("\nstopped")
        elif left:
            terminal.print_error(f"\nstopped. Resume with: lore goal resume {' '.join(left)}{self._on}")
        else:
            terminal.print_error("\nstopped; no goal is open")


def _line_prefixes(goals: Mapping[str, Goal]) -> dict[str, str]:
    """Goal → prefix of its lines: the agent, or the goal's id if agents share a name; empty for a single goal."""
    agents = {id: plan_of(goal).agent for id, goal in goals.items()}
    alike = Counter(agents.values())
    return {id: agent if alike[agent] == 1 else id[:8] for id, agent in agents.items()} if len(goals) > 1 else {}


def _cancel_on_signals() -> None:
    task = asyncio.current_task()
    assert task is not None
    for number in STOPPING:
        if signal.getsignal(number) is signal.SIG_IGN:  # set by `nohup`
            continue
        with suppress(NotImplementedError, RuntimeError, ValueError):  # not in the main thread
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
