"""Runs goals in this process: start, resume, and hand over the work. `lore goal run`, workers and Python programs use it.

It connects a context (`context.py`) with `goal/`: resources, driver and workspace.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from fleetlore.errors import Invalid
from fleetlore.events.budget_axes import describe_axis, find_axis, find_exhausted
from fleetlore.goal import commands
from fleetlore.goal.acceptance.check import AcceptanceChecker
from fleetlore.goal.driver import Driver
from fleetlore.goal.journal import EventWatcher, ignore_event
from fleetlore.goal.model_transcript import copy_session
from fleetlore.goal.resources import open_resources
from fleetlore.goal.workspace.workspace import (
    Handover,
    SourceChanges,
    Workspace,
    describe_handover,
    find_source_changes,
    is_fully_committed,
)
from fleetlore.log.async_recorder import Recorder
from fleetlore.log.seal import is_trusted_event
from fleetlore.operations.goals import read_goal
from fleetlore.tasks import run_uncancelled
from fleetlore.views.goal_state import GoalState, list_budgets

if TYPE_CHECKING:
    from fleetlore.events.driver_types import Goal
    from fleetlore.events.envelope import Event
    from fleetlore.goal.resources import GoalResources, TurnWorkspace
    from fleetlore.log.coordination import Coordination
    from fleetlore.log.seal import OperatorKey
    from fleetlore.operations.context import OperationContext
    from fleetlore.programs.harness import TurnProgress

_logger = logging.getLogger("fleetlore.goal")
NEWEST_GOALS = 100
"""Goals among which the newest open one is looked for."""


class CheckedCriterion(Struct, frozen=True, kw_only=True):
    """A criterion of a goal, and the result of its last check."""

    label: str
    met: bool | None
    """`None` if it was never checked."""
    message: str = ""


class GoalResult(Struct, frozen=True, kw_only=True):
    """How a goal ended, and where its work is."""

    id: str
    outcome: str
    """`done`, `budget_exhausted`, `escalate` or `cancelled`."""
    why: str
    """The budget, or the reason, if it is not done."""
    answer: str
    """What the agent said last."""
    criteria: tuple[CheckedCriterion, ...]
    turns: int
    tokens: int
    usd: float
    path: str | None
    """The folder of its files; `None` if its worktree is gone and only the branch is left."""
    branch: str | None

    @property
    def is_done(self) -> bool:
        """Whether its criteria are met."""
        return self.outcome == "done"


async def run_goal(
    context: OperationContext, goal: Goal, *, keep_worktree: bool = False, on_event: Callable[[Event], None] = lambda event: None
) -> GoalResult:
    """Run a goal to its end; a goal that is in the log already is resumed.

    `on_event` is called with each event of the goal. Cancelling the task stops the agent and records that; the goal can be resumed.
    Raises `Invalid` if something about the goal is wrong, `LogError` if another process runs it.
    """

    async def watch(event: Event) -> None:
        on_event(event)

    key = await asyncio.to_thread(context.signing_key, "to run a goal")
    await asyncio.to_thread(context.require_complete_log, "goals need")
    is_known = await asyncio.to_thread(context.log.head, f"goal:{goal.id}") is not None
    if is_known:
        known = await asyncio.to_thread(request_resume, context, [goal.id], key)
        goal = known[0].goal or goal
    async with open_goal(context, goal, key=key, is_resumed=is_known, watch=watch) as run:
        if not is_known:
            await run.start()
        state, work = await run.run_to_end(keep_worktree=keep_worktree)
    return GoalResult(
        id=state.id,
        outcome=state.outcome or "",
        why=state.why,
        answer=state.words,
        criteria=tuple(CheckedCriterion(label=each.label, met=each.met, message=each.message) for each in state.criteria),
        turns=state.spent.turns,
        tokens=state.spent.tokens,
        usd=state.spent.usd,
        path=work.path,
        branch=work.branch,
    )


# --- a run, step by step


class FinishedGoal(NamedTuple):
    """The last state of a goal, and where its work is."""

    state: GoalState
    work: Handover


class GoalRun:
    """One goal with its opened resources: `start` a new one, then `finish` it."""

    def __init__(self, goal: Goal, resources: GoalResources, driver: Driver) -> None:
        self._goal, self._resources, self.driver = goal, resources, driver

    @property
    def state(self) -> GoalState:
        """The goal's current state."""
        return self.driver.state

    @property
    def turn_progress(self) -> TurnProgress | None:
        """What the agent has said and spent in the current turn."""
        return self.driver.turn_progress

    async def start(self) -> None:
        """Store the goal in the log; `Invalid` if it is there already."""
        await self.driver.start(self._goal)

    async def continue_session(self, session: str) -> None:
        """Let the first turn continue an earlier session of the harness. If that is lost, the turn is repeated in a new one."""
        workspace, harness = self._resources.workspace, self._resources.harness
        if not harness.has_sessions:
            return
        if isinstance(workspace, Workspace):
            await asyncio.to_thread(copy_session, goal_data_folder(), session, workspace.folder)
        journal = self.driver.journal
        bound = journal.event_factory.session_bound(session, harness=harness.name, model=None, workspace=str(workspace.path))
        await journal.append([bound])

    async def find_unseen_changes(self, ignored: Sequence[str] = ()) -> SourceChanges | None:
        """Changes in the user's repository that are not in the goal's worktree; the files in `ignored` do not count."""
        workspace = self._resources.workspace
        if not isinstance(workspace, Workspace):
            return None
        return await asyncio.to_thread(find_source_changes, workspace, self._goal.workspace or "", ignored=ignored)

    async def run_to_end(self, *, keep_worktree: bool = False) -> FinishedGoal:
        """Run it to its end. If it is done and everything is committed, the worktree is removed and only the branch is left."""
        state = await self.driver.run_goal()
        is_kept = keep_worktree or state.outcome != "done"
        work = await asyncio.to_thread(_hand_over, self._resources.workspace, self._goal, is_kept=is_kept)
        return FinishedGoal(state, await asyncio.to_thread(_note_changed_settings, self._resources, work))


@asynccontextmanager
async def open_goal(
    context: OperationContext,
    goal: Goal,
    *,
    key: OperatorKey | None,
    is_resumed: bool,
    log: Recorder | None = None,
    environ: Mapping[str, str] = os.environ,
    watch: EventWatcher = ignore_event,
) -> AsyncIterator[GoalRun]:
    """Open everything that a goal needs; closed after the block. `Invalid` if something is missing, before any work starts.

    `log` is the context's log for the running loop, if it is open already.
    """
    shared = context.source.coordination
    if shared is None:
        raise Invalid("a goal needs a log with leases; open it with `open_context`")
    known = await asyncio.to_thread(read_goal, context, goal.id, key) if is_resumed else None
    expect = None if known is None else known.verifiers
    async with open_resources(goal, home=goal_data_folder(), environ=environ, expect=expect) as resources:
        recorder = log or Recorder.from_blocking(context.log)
        try:
            async with _publish_to_sinks(context, shared):
                yield GoalRun(goal, resources, Driver(recorder, goal.id, resources, shared=shared, key=key, watch=watch))
        finally:
            if log is None:
                await recorder.close()


@asynccontextmanager
async def _publish_to_sinks(context: OperationContext, shared: Coordination) -> AsyncIterator[None]:
    """Publish driver events to the `[[sink]]`s of the settings while a goal runs."""
    settings = context.source.settings
    if settings is None or not settings.sinks.value:
        yield
        return
    from fleetlore.operations.sinks import deliver_in_background

    publishing = deliver_in_background(settings.sinks.value, context.log, shared, context.town)
    deliveries = await asyncio.to_thread(publishing.__enter__)
    try:
        yield
    finally:
        await run_uncancelled(asyncio.to_thread(publishing.__exit__, None, None, None))
        for delivery in deliveries:
            if delivery.last_failure is not None:
                _logger.warning("sink %s: %s; its events wait in the log", delivery.sink.name, delivery.last_failure)


def goal_data_folder() -> str:
    """The folder of worktrees, snapshots and memories, beside the user's log."""
    from fleetlore.log.sqlite import file as sqlite_file

    return os.path.dirname(sqlite_file.default_path())


def _note_changed_settings(resources: GoalResources, work: Handover) -> Handover:
    """Settings of the user's repository can start programs; if they changed meanwhile, the user looks before running git there."""
    workspace, checker = resources.workspace, resources.verifiers
    if not isinstance(workspace, Workspace) or not isinstance(checker, AcceptanceChecker):
        return work
    changed = checker.find_changed_settings(workspace)
    if not changed:
        return work
    names = ", ".join(f".git/{name}" for name in changed)
    return replace(work, problem=f"{names} of your repository changed while the goal ran: git may start programs named there; look first")


def _hand_over(workspace: TurnWorkspace, goal: Goal, *, is_kept: bool) -> Handover:
    if not isinstance(workspace, Workspace):
        return Handover(path=str(workspace.path))
    work = describe_handover(workspace, goal.workspace or "")
    if is_kept or work.problem or not is_fully_committed(workspace):
        return work
    workspace.close(remove=True)
    return replace(work, path=None)


# --- start and resume


def check_new_goals(context: OperationContext, goals: Sequence[Goal]) -> None:
    """`Invalid` if a goal has the id of one that exists already, or of another of these."""
    for index, goal in enumerate(goals):
        if context.log.head(f"goal:{goal.id}") is not None:
            raise Invalid(f"goal {goal.id} is already on this log; continue it with `lore goal resume {goal.id}`")
        if any(other.id == goal.id for other in goals[:index]):
            raise Invalid(f"two of these files set the same id, {goal.id}; remove it from one of them")


def request_resume(context: OperationContext, ids: Sequence[str], key: OperatorKey | None) -> list[GoalState]:
    """Store the request to resume goals, and return them as they were; without ids, the newest open goal.

    After crashes the request allows another try. `Invalid` if one cannot be resumed; then nothing is stored.
    """
    states = [read_goal(context, id, key) for id in ids] or [_find_newest_open(context, key)]
    for state in states:
        _require_resumable(context, state)
    stopped = [state for state in states if state.outcome is not None or state.is_paused or state.crashes]
    if stopped:
        made = [commands.make_control_event(state.id, "resume", by=context.actor, agent=state.agent or None) for state in stopped]
        context.store(made, key)
    return states


def _find_newest_open(context: OperationContext, key: OperatorKey | None) -> GoalState:
    """The newest goal that has not ended and is not running."""
    started = (event for event in context.log.read(kinds=["driver.goal_started"], newest_first=True) if is_trusted_event(event, key))
    for event in islice(started, NEWEST_GOALS):
        state = read_goal(context, event.goal or "", key)
        if state.plan is not None and state.outcome is None and context.find_holder(f"goal:{state.id}") is None:
            return state
    raise Invalid("there is no open goal to resume; to resume an ended one give its id (`lore goal list --all`)")


def _require_resumable(context: OperationContext, state: GoalState) -> None:
    short = commands.short_goal_id(state)
    if state.plan is None or state.outcome == "done":
        commands.check_action(state, "resume")
    if state.outcome is None:
        return
    use = find_exhausted(list_budgets(state, context.now()))
    row = None if use is None or use.is_in_a_row else find_axis(use.axis)  # resuming resets those in a row
    if row is not None:
        raise Invalid(f"{short}: its budget of {describe_axis(row.name)} is spent; raise it with `lore goal raise {short} {row.option} …`")
