"""Does the work of a town by driving a goal for each task: here the town and the driver meet, which know nothing of each other."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from fleetlore.cli import goal_find, goal_pursuit, worker_brief
from fleetlore.errors import Invalid
from fleetlore.runtime.driver import steering
from fleetlore.runtime.driver.driver import Driver
from fleetlore.runtime.driver.hiring import open_crew
from fleetlore.runtime.town.jobs import Approved, Done, Failed, Hearing, Job, Outcome, Question, Rejected, Stuck, Unable

if TYPE_CHECKING:
    from fleetlore.cli.goal_find import Place
    from fleetlore.cli.worker_template import Template
    from fleetlore.events.driver_types import Goal
    from fleetlore.runtime.driver.crew import Crew
    from fleetlore.runtime.driver.workspace.handover import Handover
    from fleetlore.state.seal import OperatorKey
    from fleetlore.views.goal_state import GoalState


class DriverWork:
    """`Work`, as `runtime/town/jobs.py` wants it."""

    def __init__(self, template: Template, place: Place, key: OperatorKey | None) -> None:
        self._template, self._place, self._key = template, place, key

    async def __call__(self, job: Job | Question, hearing: Hearing) -> Outcome:
        """Pursue the goal that a job is, to its end."""
        if missing := self._template.unknown(job):
            names = ", ".join(missing)
            return Stuck(f"nobody here has said what the check {names} runs; add [checks.{missing[0]}] to this worker's file")
        goal = self._template.goal_for(job, self._place.settings.town.value)
        try:
            state, work = await self._pursue(goal, job, hearing)
        except Invalid as error:
            return Unable(str(error))
        return _outcome(job, state, work)

    async def _pursue(self, goal: Goal, job: Job | Question, hearing: Hearing) -> tuple[GoalState, Handover]:
        log, is_known = self._place.log, await asyncio.to_thread(self._place.log.head, f"goal:{goal.id}") is not None
        expect = await asyncio.to_thread(lambda: goal_find.one(self._place, goal.id, self._key).verifiers) if is_known else None
        environ = {**os.environ, "LORE_AGENT": job.agent, "LORE_TASK": job.task if isinstance(job, Job) else ""}
        async with open_crew(goal, home=goal_pursuit.home(), environ=environ, expect=expect) as crew:
            driver = Driver(log, goal.id, crew, shared=self._place.shared, key=self._key)
            if not is_known:
                await driver.start(goal)
            telling = asyncio.create_task(self._pass_on(goal.id, job.agent, hearing))
            try:
                state = await driver.pursue()
            finally:
                telling.cancel()
                await asyncio.gather(telling, return_exceptions=True)
            return state, await asyncio.to_thread(_handed_over, crew, goal, state)

    async def _pass_on(self, goal: str, agent: str, hearing: Hearing) -> None:
        """What others tell the agent while it works, it hears with its next turn."""
        while True:
            message = await hearing.next()
            words = f"{message.sender}: {message.body}"[: steering.LONGEST_MESSAGE]
            wish = steering.control(goal, "say", by=message.sender, value=words, agent=agent)
            await asyncio.to_thread(self._place.put, [wish], self._key)


def _handed_over(crew: Crew, goal: Goal, state: GoalState) -> Handover:
    return goal_pursuit.handed_over(crew.workspace, goal, is_kept=state.outcome != "done")


def _outcome(job: Job | Question, state: GoalState, work: Handover) -> Outcome:
    match state.outcome:
        case "done" if isinstance(job, Job) and job.purpose == "review":
            return _verdict(state)
        case "done":
            return Done(_result(state, work) if isinstance(job, Job) else state.words or "(no words)")
        case "budget_exhausted":
            return Stuck(f"its budget of {state.why.replace('_', ' ')} is spent; give more in this worker's file, then have it tried again")
        case "cancelled":
            return Failed(state.why or "it was called off", is_final=True)
    return Stuck(state.why or "a person has to decide")


def _verdict(state: GoalState) -> Outcome:
    found = worker_brief.verdict_in(state.words)
    if found is None:
        return Failed("the reviewer ended without a line that begins with APPROVED: or REJECTED:")
    is_approved, reason = found
    return Approved(reason) if is_approved else Rejected(reason)


def _result(state: GoalState, work: Handover) -> str:
    """What the agent says was done, and where the work is."""
    places = [f"branch {work.branch}" if work.branch and (work.commits or work.uncommitted) else "", work.path or ""]
    where = ", ".join(filter(None, places))
    return "\n\n".join(filter(None, (state.words.strip(), f"The work: {where}" if where else "")))
