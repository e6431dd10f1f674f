"""Does the work of a town by driving a goal for each task: here the town and the driver meet, which know nothing of each other."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING
from uuid import UUID, uuid5

import msgspec
from msgspec.structs import replace

from fleetlore.cli.goal import find, pursuit
from fleetlore.cli.worker import instructions
from fleetlore.errors import Held, Invalid, LogError
from fleetlore.events.goal_plan import KEY, plan_of
from fleetlore.goal import commands
from fleetlore.goal.driver import Driver
from fleetlore.goal.setup import open_resources
from fleetlore.goal.workspace.handover import Handover
from fleetlore.goal.workspace.location import read_location
from fleetlore.kernel.lease import AGAIN_SECONDS, LEASE_SECONDS, ticks
from fleetlore.town.jobs import AgentUnavailable, Approved, Done, Failed, HelpNeeded, JobInbox, JobOutcome, QuestionJob, Rejected, TaskJob

if TYPE_CHECKING:
    from fleetlore.cli.goal.find import Place
    from fleetlore.cli.worker.template import Template
    from fleetlore.events.driver_types import Goal
    from fleetlore.goal.resources import GoalResources
    from fleetlore.log.seal import OperatorKey
    from fleetlore.views.goal_state import GoalState
    from fleetlore.views.town_state import InboxMessage

MOST_GOALS = 20
OF_THE_PLACE = ("auth", "credit", "missing")
"""Complaints that every task here would meet with."""


class DriverWork:
    """`Work`, as `town/jobs.py` wants it."""

    def __init__(self, template: Template, place: Place, key: OperatorKey | None) -> None:
        self._template, self._place, self._key = template, place, key

    async def __call__(self, job: TaskJob | QuestionJob, hearing: JobInbox) -> JobOutcome:
        """Pursue the goal that a job is, to its end."""
        if missing := self._template.unknown(job):
            names = ", ".join(missing)
            return HelpNeeded(f"nobody here has said what the check {names} runs; add [checks.{missing[0]}] to this worker's file")
        goal = self._template.goal_for(job, self._place.settings.town.value)
        try:
            state, work = await self._pursue(goal, job, hearing)
        except _NotKept as error:
            return HelpNeeded(str(error))
        except Invalid as error:
            return AgentUnavailable(str(error))
        return _outcome(job, state, work)

    async def _pursue(self, goal: Goal, job: TaskJob | QuestionJob, hearing: JobInbox) -> tuple[GoalState, Handover]:
        goal, known = await asyncio.to_thread(self._begun, goal)
        if known is not None and known.outcome is not None and not _is_here(goal):
            return known, Handover()
        environ = {**os.environ, "LORE_AGENT": job.agent, "LORE_TASK": job.task if isinstance(job, TaskJob) else ""}
        expect = None if known is None else known.verifiers
        async with open_resources(goal, home=pursuit.home(), environ=environ, expect=expect) as crew:
            driver = Driver(self._place.log, goal.id, crew, shared=self._place.shared, key=self._key)
            if known is None:
                await _start(driver, goal)
            for message in (*_untold(job, known), *hearing.take_waiting_messages()):
                await self._pass_on(goal.id, job.agent, message)
            telling = asyncio.create_task(self._listen(goal.id, job.agent, hearing))
            try:
                state = await _led(driver)
            finally:
                telling.cancel()
                await asyncio.gather(telling, return_exceptions=True)
            return state, await asyncio.to_thread(_handed_over, crew, goal, state)

    def _begun(self, goal: Goal) -> tuple[Goal, GoalState | None]:
        """The goal under the first of its names that is free, or under which it was begun just so and can be gone on with. Blocks.

        Names follow from tasks, and anybody could have begun something else under one: that goal's commands are not run here.
        """
        for number in range(MOST_GOALS):
            named = replace(goal, id=str(uuid5(UUID(goal.id), str(number)))) if number else goal
            known = self._known(named.id)
            if known is None or (_is_alike(known, named) and _is_of_use(known)):
                return named, known
        raise _NotKept(f"{MOST_GOALS} goals of other people's making stand where the goal of this task should; write the task down anew")

    def _known(self, id: str) -> GoalState | None:
        try:
            known = find.one(self._place, id, self._key)
        except Invalid:  # whatever stands there is not signed, and counts for nothing
            return None
        return known if known.goal is not None else None

    async def _listen(self, goal: str, agent: str, hearing: JobInbox) -> None:
        """What others tell the agent while it works, it hears with its next turn."""
        while True:
            await self._pass_on(goal, agent, await hearing.wait_for_message())

    async def _pass_on(self, goal: str, agent: str, message: InboxMessage) -> None:
        words = instructions.passed_on(message)
        wish = commands.make_control_event(goal, "say", by=message.sender, value=words, agent=agent)
        await asyncio.to_thread(self._place.put, [wish], self._key)


class _NotKept(Exception):
    """The task's words cannot be a goal on this log: no fault of whoever does the work."""


async def _start(driver: Driver, goal: Goal) -> None:
    try:
        await driver.start(goal)
    except Invalid as error:
        raise _NotKept(str(error)) from error


async def _led(driver: Driver) -> GoalState:
    """Lead it to its end. Whoever did so before may be gone, and have left a lease that is not over yet."""
    until = ticks() + 2 * LEASE_SECONDS
    while True:
        try:
            return await driver.run_goal()
        except LogError as error:
            if not isinstance(error.__cause__, Held) or ticks() > until:
                raise
        await asyncio.sleep(AGAIN_SECONDS)


def _untold(job: TaskJob | QuestionJob, known: GoalState | None) -> tuple[InboxMessage, ...]:
    """A goal that was begun before keeps its words: what waits for whoever takes it up now is told besides."""
    return job.messages if known is not None and isinstance(job, TaskJob) and not job.is_resumed else ()


def _is_alike(known: GoalState, ours: Goal) -> bool:
    """Whether it would have been begun so here, by whichever agent: commands, rights and bounds are this machine's to choose."""
    if known.goal is None or known.plan is None:
        return False
    plan = replace(plan_of(ours), agent=known.plan.agent)
    alike = replace(ours, description=known.goal.description, metadata=ours.metadata | {KEY: msgspec.to_builtins(plan)})
    return msgspec.json.encode(known.goal, order="deterministic") == msgspec.json.encode(alike, order="deterministic")


def _is_of_use(known: GoalState) -> bool:
    """Whether it can be gone on with here, or has come to an end that says something about the task."""
    return not _is_unable(known) if known.outcome is not None else known.goal is not None and _is_here(known.goal)


def _is_here(goal: Goal) -> bool:
    """Whether its files are on this machine."""
    return read_location(pursuit.home(), goal.id)[1] is not None


def _is_unable(state: GoalState) -> bool:
    """Whether it ended because its agent's program or model cannot be used here."""
    return state.outcome == "escalate" and bool(state.turns) and state.turns[-1].complaint in OF_THE_PLACE


def _handed_over(crew: GoalResources, goal: Goal, state: GoalState) -> Handover:
    return pursuit.handed_over(crew.workspace, goal, is_kept=state.outcome != "done")


def _outcome(job: TaskJob | QuestionJob, state: GoalState, work: Handover) -> JobOutcome:
    if _is_unable(state):
        return AgentUnavailable(state.why or "its program or its model cannot be used here")
    match state.outcome:
        case "done" if isinstance(job, TaskJob) and job.purpose == "review":
            return _verdict(state)
        case "done":
            return Done(_result(state, work) if isinstance(job, TaskJob) else state.words or "(no words)")
        case "budget_exhausted":
            return HelpNeeded(
                f"its budget of {state.why.replace('_', ' ')} is spent; give more in this worker's file, then have it tried again"
            )
        case "cancelled":
            return Failed(state.why or "it was called off", is_final=True)
    return HelpNeeded(state.why or "a person has to decide")


def _verdict(state: GoalState) -> JobOutcome:
    found = instructions.verdict_in(state.words)
    if found is None:
        return Failed("the reviewer ended without a line that begins with APPROVED: or REJECTED:")
    is_approved, reason = found
    return Approved(reason) if is_approved else Rejected(reason)


def _result(state: GoalState, work: Handover) -> str:
    """What the agent says was done, and where the work is."""
    places = [f"branch {work.branch}" if work.branch and (work.commits or work.uncommitted) else "", work.path or ""]
    where = ", ".join(filter(None, places))
    return "\n\n".join(filter(None, (state.words.strip(), f"The work: {where}" if where else "")))
