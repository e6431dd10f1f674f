"""Runs a worker: a dispatcher that assigns tasks, and agents of the town that do them by running a goal for each.

It connects `town/` and `goal/`, which do not know each other. A `GoalTemplate` makes the goal of a job from the worker's file and
options. Programs, models, commands and folders come only from there. A task names checks; this machine decides what they run.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_URL, UUID, uuid5

import msgspec
from msgspec.structs import replace

from fleetlore.clock import ticks
from fleetlore.errors import Invalid, LeaseHeld, LogError
from fleetlore.events.envelope import is_name
from fleetlore.events.goal_plan import KEY, read_plan
from fleetlore.goal import commands, files
from fleetlore.goal.workspace.location import read_location
from fleetlore.goal.workspace.workspace import Handover
from fleetlore.kernel.lease import LEASE_SECONDS, RETRY_SECONDS
from fleetlore.log.async_recorder import Recorder
from fleetlore.operations.goal_runs import GoalRun, goal_data_folder, open_goal
from fleetlore.operations.goals import read_goal
from fleetlore.projections.signed_views import SignedTownFold
from fleetlore.prompts import blocks
from fleetlore.prompts.agent_context import Recall
from fleetlore.prompts.build import build_prompt
from fleetlore.town import jobs
from fleetlore.town.agent_loop import AgentStatusCallback
from fleetlore.town.dispatcher import Dispatcher
from fleetlore.town.jobs import (
    AgentUnavailable,
    Approved,
    HelpNeeded,
    JobDone,
    JobFailed,
    JobInbox,
    JobOutcome,
    QuestionJob,
    Rejected,
    TaskJob,
)
from fleetlore.town.journal import TownJournal
from fleetlore.town.worker import LEASE_SECONDS as WORKER_LEASE_SECONDS
from fleetlore.town.worker import Worker

if TYPE_CHECKING:
    from fleetlore.events.driver_types import Criterion, Goal
    from fleetlore.log.seal import OperatorKey
    from fleetlore.operations.context import OperationContext
    from fleetlore.redact import Redactor
    from fleetlore.views.goal_state import GoalState
    from fleetlore.views.town_state import InboxMessage

MAX_GOAL_NAMES = 20
INHERITED_TOKENS = 900
"""Size of the context that an agent takes over."""
LOCAL_FAILURES = ("auth", "credit", "missing")
"""Failures that every task on this machine would have."""
VARIABLES = ("LORE_AGENT", "LORE_TASK")
"""Environment variables that tell `lore town` inside an agent who it is."""
_DESCRIPTION = "a task of the town"


# --- the goal of a job


class GoalTemplate:
    """The common part of a worker's goals, and its checks by name."""

    def __init__(self, goal: Goal, checks: Mapping[str, Criterion]) -> None:
        self.goal, self.checks = goal, checks

    @property
    def harness(self) -> str:
        """The harness, or the model for the harness `mind`."""
        plan = read_plan(self.goal)
        return plan.mind or plan.harness if plan.harness == "mind" else plan.harness

    def find_unknown_checks(self, job: TaskJob | QuestionJob) -> list[str]:
        """Checks of a task that this worker does not define."""
        return [name for name in getattr(job, "checks", ()) if name not in self.checks]

    def goal_for(self, job: TaskJob | QuestionJob, town: str, inherited: str = "") -> Goal:
        """The goal of a job. An interrupted job gets the same goal id again."""
        plan, is_work = read_plan(self.goal), isinstance(job, TaskJob) and job.purpose != "review"
        of: TaskJob | InboxMessage = job if isinstance(job, TaskJob) else job.message
        name = f"{town}\n{job.task}\n{job.failures}" if isinstance(job, TaskJob) else f"{town}\n{job.message.id}"
        plan = replace(plan, agent=job.agent, task=of.task, mission=of.mission, variables=(*plan.variables, *VARIABLES))
        checks = tuple(self.checks[each] for each in job.checks) if isinstance(job, TaskJob) and is_work else ()
        return replace(
            self.goal,
            id=str(uuid5(NAMESPACE_URL, f"fleetlore:{name}")),
            description=jobs.render_brief(job, inherited),
            acceptance=(*self.goal.acceptance, *checks) if is_work else (),
            metadata=self.goal.metadata | {KEY: msgspec.to_builtins(plan)},
        )


def load_template(
    file: str | None = None,
    *,
    harness: str | None = None,
    mind: str | None = None,
    command: Sequence[str] | None = None,
    workspace: str | None = None,
    allow: Sequence[str] = (),
    redactor: Redactor | None = None,
) -> GoalTemplate:
    """The template from a worker's file and options, which win over the file; `Invalid` lists all errors."""
    fields: dict[str, Any] = {
        "harness": harness or ("mind" if mind else None),
        "mind": mind,
        "command": None if command is None else list(command),
        "workspace": None if workspace is None else os.path.abspath(workspace),
        "permissions": {"allow": list(allow)} if allow else None,
    }
    given = {"description": _DESCRIPTION, **{name: value for name, value in fields.items() if value is not None}}
    return GoalTemplate(*files.load_worker_goal(file, given=given, redactor=redactor))


# --- doing a job


class GoalWork:
    """The `Work` callable of `town/jobs.py`: runs a goal for each job."""

    def __init__(self, context: OperationContext, template: GoalTemplate, key: OperatorKey | None, log: Recorder) -> None:
        """`log` is the context's log for the running loop."""
        self._context, self._template, self._key, self._log = context, template, key, log

    async def __call__(self, job: TaskJob | QuestionJob, inbox: JobInbox) -> JobOutcome:
        """Run the goal of a job to its end and return the outcome."""
        if missing := self._template.find_unknown_checks(job):
            names = ", ".join(missing)
            return HelpNeeded(f"this worker does not define the check {names}; add [checks.{missing[0]}] to its file")
        inherited = await asyncio.to_thread(self._read_inherited_context, job) if isinstance(job, TaskJob) else ""
        goal = self._template.goal_for(job, self._context.town, inherited)
        try:
            state, work = await self._run_goal(goal, job, inbox)
        except _GoalRefused as error:
            return HelpNeeded(str(error))
        except Invalid as error:
            return AgentUnavailable(str(error))
        return _job_outcome(job, state, work)

    async def _run_goal(self, goal: Goal, job: TaskJob | QuestionJob, inbox: JobInbox) -> tuple[GoalState, Handover]:
        goal, known = await asyncio.to_thread(self._find_or_name_goal, goal)
        if known is not None and known.outcome is not None and not _has_local_files(goal):
            return known, Handover()
        environ = {**os.environ, "LORE_AGENT": job.agent, "LORE_TASK": job.task if isinstance(job, TaskJob) else ""}
        async with open_goal(self._context, goal, key=self._key, is_resumed=known is not None, log=self._log, environ=environ) as run:
            if known is None:
                await _start_goal(run)
                if isinstance(job, TaskJob) and job.session is not None:
                    await run.continue_session(job.session)
            for message in (*_undelivered_messages(job, known), *inbox.take_waiting_messages()):
                await self._forward_message(goal.id, job.agent, message)
            forwarding = asyncio.create_task(self._forward_messages(goal.id, job.agent, inbox))
            try:
                return await _finish_goal(run)
            finally:
                forwarding.cancel()
                await asyncio.gather(forwarding, return_exceptions=True)

    def _read_inherited_context(self, job: TaskJob) -> str:
        """What an agent takes over with its first task: from its parent, or from the session that it continues. Blocks."""
        agent, log = job.context_of, self._context.log
        if job.session is not None and is_name(job.session):
            first = next(log.read(f"run:{job.session}", limit=1), None)
            agent = None if first is None else first.agent or first.actor
        if agent is None:
            return ""
        turn = Recall(log).turn(agent, run=job.session, role="coder")
        return build_prompt(turn, (blocks.task_block, blocks.work_block, blocks.memory_block), budget=INHERITED_TOKENS).text

    def _find_or_name_goal(self, goal: Goal) -> tuple[Goal, GoalState | None]:
        """The goal with the first id that is free, or whose goal has the same settings and can be resumed. Blocks.

        Ids are derived from tasks, so anybody could have started another goal under one: its commands must not run here.
        """
        for number in range(MAX_GOAL_NAMES):
            named = replace(goal, id=str(uuid5(UUID(goal.id), str(number)))) if number else goal
            known = self._find_goal(named.id)
            if known is None or (_has_same_settings(known, named) and _is_usable(known)):
                return named, known
        raise _GoalRefused(f"the ids for this task's goal are taken by {MAX_GOAL_NAMES} other goals; create the task again")

    def _find_goal(self, id: str) -> GoalState | None:
        try:
            known = read_goal(self._context, id, self._key)
        except Invalid:  # an unsigned goal does not count
            return None
        return known if known.goal is not None else None

    async def _forward_messages(self, goal: str, agent: str, inbox: JobInbox) -> None:
        """Forward new messages to the agent; it gets them with its next turn."""
        while True:
            await self._forward_message(goal, agent, await inbox.wait_for_message())

    async def _forward_message(self, goal: str, agent: str, message: InboxMessage) -> None:
        text = jobs.render_forwarded_message(message)
        event = commands.make_control_event(goal, "say", by=message.sender, value=text, agent=agent)
        await asyncio.to_thread(self._context.store, [event], self._key)


class _GoalRefused(Exception):
    """The log refuses the task's goal; not the agent's fault."""


async def _start_goal(run: GoalRun) -> None:
    try:
        await run.start()
    except Invalid as error:
        raise _GoalRefused(str(error)) from error


async def _finish_goal(run: GoalRun) -> tuple[GoalState, Handover]:
    """Run the goal to its end. Waits for the lease of an earlier driver that may be dead."""
    until = ticks() + 2 * LEASE_SECONDS
    while True:
        try:
            return await run.run_to_end()
        except LogError as error:
            if not isinstance(error.__cause__, LeaseHeld) or ticks() > until:
                raise
        await asyncio.sleep(RETRY_SECONDS)


def _undelivered_messages(job: TaskJob | QuestionJob, known: GoalState | None) -> tuple[InboxMessage, ...]:
    """Messages that the description of an earlier goal does not contain."""
    return job.messages if known is not None and isinstance(job, TaskJob) and not job.is_resumed else ()


def _has_same_settings(known: GoalState, ours: Goal) -> bool:
    """Whether a goal has the settings that this worker would give it (the agent aside): commands, permissions and limits are local."""
    if known.goal is None or known.plan is None:
        return False
    plan = replace(read_plan(ours), agent=known.plan.agent)
    alike = replace(ours, description=known.goal.description, metadata=ours.metadata | {KEY: msgspec.to_builtins(plan)})
    return msgspec.json.encode(known.goal, order="deterministic") == msgspec.json.encode(alike, order="deterministic")


def _is_usable(known: GoalState) -> bool:
    """Whether it can be resumed here, or has ended with a result for the task."""
    return not _is_agent_unavailable(known) if known.outcome is not None else known.goal is not None and _has_local_files(known.goal)


def _has_local_files(goal: Goal) -> bool:
    """Whether the goal's files are on this machine."""
    return read_location(goal_data_folder(), goal.id, goal.workspace or "")[1] is not None


def _is_agent_unavailable(state: GoalState) -> bool:
    """Whether it ended because the agent's program or model cannot be used here."""
    return state.outcome == "escalate" and bool(state.turns) and state.turns[-1].complaint in LOCAL_FAILURES


def _job_outcome(job: TaskJob | QuestionJob, state: GoalState, work: Handover) -> JobOutcome:
    if _is_agent_unavailable(state):
        return AgentUnavailable(state.why or "its program or model is not available on this machine")
    match state.outcome:
        case "done" if isinstance(job, TaskJob) and job.purpose == "review":
            return _review_outcome(state)
        case "done":
            return JobDone(_result_text(state, work) if isinstance(job, TaskJob) else state.words or "(empty answer)")
        case "budget_exhausted":
            return HelpNeeded(f"its budget of {state.why.replace('_', ' ')} is spent; raise it in this worker's file, then retry the task")
        case "cancelled":
            return JobFailed(state.why or "it was cancelled", is_final=True)
    return HelpNeeded(state.why or "a person has to decide")


def _review_outcome(state: GoalState) -> JobOutcome:
    found = jobs.parse_verdict(state.words)
    if found is None:
        return JobFailed("the reviewer gave no verdict: a line that starts with APPROVED: or REJECTED:")
    is_approved, reason = found
    return Approved(reason) if is_approved else Rejected(reason)


def _result_text(state: GoalState, work: Handover) -> str:
    """The agent's last message, and where the work is."""
    places = [f"branch {work.branch}" if work.branch and (work.commits or work.uncommitted) else "", work.path or ""]
    where = ", ".join(filter(None, places))
    return "\n\n".join(filter(None, (state.words.strip(), f"The work: {where}" if where else "")))


# --- the worker


async def run_worker(
    context: OperationContext,
    template: GoalTemplate | None,
    *,
    stop: asyncio.Event,
    agents: Sequence[str] = (),
    roles: Sequence[str] = (),
    concurrency: int = 1,
    dispatch: bool = True,
    lease_seconds: float = WORKER_LEASE_SECONDS,
    report: AgentStatusCallback = lambda who, what: None,
) -> None:
    """Run agents of the town until `stop` is set; then release their tasks.

    `template` says how tasks are done (`load_template`); without one, tasks are only assigned. Without `agents`, it runs up to
    `concurrency` agents that are not running and have one of the roles. `dispatch=False` leaves assigning to other workers.
    `report` is called with a name and a line for each step.
    """
    shared = context.source.coordination
    if shared is None:
        raise Invalid("a worker needs a log with leases; open it with `open_context`")
    key = await asyncio.to_thread(context.signing_key, "to run agents of the town")
    await asyncio.to_thread(context.require_complete_log, "goals need")
    log = Recorder.from_blocking(context.log)
    try:
        journal = TownJournal(log, SignedTownFold(await asyncio.to_thread(shared.load_seal), key), key=key)
        jobs = []
        if dispatch:
            dispatcher = Dispatcher(journal, shared, lease_seconds=lease_seconds, report_status=lambda what: report("dispatcher", what))
            jobs.append(dispatcher.run(stop))
        if template is not None:
            worker = Worker(
                journal,
                shared,
                GoalWork(context, template, key, log),
                names=agents,
                roles=roles,
                concurrency=concurrency,
                harness=template.harness,
                lease_seconds=lease_seconds,
                report_status=report,
            )
            jobs.append(worker.run(stop))
        tasks = [asyncio.create_task(job) for job in jobs]
        try:
            await asyncio.gather(*tasks)
        finally:
            stop.set()
            await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        await log.close()
